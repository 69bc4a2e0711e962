"""Patches are data: one ``patch.toml`` each says what, why, how risky, and which edits at which sites."""

from __future__ import annotations

import difflib
import functools
import hashlib
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from patchkit.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patchkit.codemods.edit import Codemod
    from patchkit.codemods.pattern import Pattern


class EditSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """One semantic change at one site.

    ``file`` names the file, or the places it had over time, below the package. ``in`` is the dotted name of
    the class, function or method, or several of which the first that the tree has counts; without it the file
    is the site's scope. ``shape`` names the shape, or several, of trees that have this site. ``optional`` is
    the reason why a tree may lack the site. ``own`` marks what goes beyond upstream's change and is left out
    where that is in the tree. ``imports`` are imports that the new code needs.
    """

    name: str
    why: str
    file: str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scope: str | tuple[str, ...] = msgspec.field(name="in", default="")
    shape: str | tuple[str, ...] = ()
    optional: str = ""
    own: bool = False
    imports: tuple[str, ...] = ()

    looks_inside: ClassVar[bool] = True
    """Whether it looks at statements in the scope, not only at what the scope defines."""

    @property
    def files(self) -> tuple[str, ...]:
        """The places where the file may be."""
        return (self.file,) if isinstance(self.file, str) else self.file

    @property
    def scopes(self) -> tuple[str, ...]:
        """The dotted names that the site may have."""
        return (self.scope,) if isinstance(self.scope, str) else self.scope

    @property
    def shapes(self) -> tuple[str, ...]:
        """The shapes of trees that have this site; none: every tree has it."""
        return (self.shape,) if isinstance(self.shape, str) else self.shape

    @property
    def description(self) -> str:
        """What the edit is for, in one line."""
        return self.why

    def codemod(self) -> Codemod:
        """Return the edit as something that can examine a scope."""
        raise NotImplementedError


class VariantSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known shape of a site; ``target`` names the one expression of ``find`` that ``code`` replaces."""

    find: str
    code: str
    target: str = ""


class _Statements(EditSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    find: str = ""
    code: str = ""
    target: str = ""
    variants: tuple[VariantSpec, ...] = ()
    known: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def _build(self, place: str, *, every: bool = False) -> Codemod:
        from patchkit.codemods.statements import Statements, Variant

        given = _compile("given", *self.given)
        first = VariantSpec(find=self.find, code=self.code, target=self.target)
        specs = [first, *self.variants] if self.find or not self.variants else self.variants
        variants = []
        for spec in specs:
            (find,) = _compile("find", spec.find)
            _compile("code", spec.code)
            if spec.target and (place != "replace" or f"${spec.target}" not in spec.find):
                raise ValueError(f"key `target`: `find` has no ${spec.target} to replace")
            if place == "replace" and not spec.target and "$$found" not in spec.code and find.passes_over:
                raise ValueError(
                    "key `find`: `code` would lose what `...` passes over; name it `$$name` or `$name`"
                )
            _require_bound("code", spec.code, spec.find, *self.given, *([] if spec.target else ["$$found"]))
            variants.append(Variant(find, spec.code, spec.target))
        signs = _compile_signs("code", *(_sign(spec.find, spec.code) for spec in specs))
        return Statements(tuple(variants), place, signs + _compile_signs("known", *self.known), given, every)


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Have what is wrong with a value say under which key the value stands."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"key `{key}`: {error}") from None


def _compile(key: str, *texts: str) -> tuple[Pattern, ...]:
    from patchkit.codemods.pattern import Pattern

    with _naming(key):
        return tuple(map(Pattern.compile, texts))


def _compile_signs(key: str, *texts: str) -> tuple[Pattern, ...]:
    """Compile patterns of code that is there already, in which people may since have put more statements."""
    return tuple(pattern.loose for pattern in _compile(key, *texts))


def _compile_calls(key: str, *texts: str) -> tuple[Pattern, ...]:
    patterns = _compile(key, *texts)
    for pattern in patterns:
        if not pattern.is_call:
            raise ValueError(f"key `{key}`: not one call: {pattern.text.strip()!r}")
    return patterns


def _require_module(scope: str | tuple[str, ...]) -> None:
    if scope:
        raise ValueError(f"key `in`: {scope!r} is not the module, which is where this kind of edit belongs")


def _require_bound(key: str, code: str, *binding: str) -> None:
    """Refuse code with a placeholder that none of the texts in ``binding`` has."""
    from patchkit.codemods.pattern import placeholders

    bound = placeholders("\n".join(binding)) - {"$_", "$$_"}
    for name in sorted(placeholders(code) - bound):
        raise ValueError(f"key `{key}`: nothing binds {name}")


def _sign(find: str, code: str) -> str:
    """Return the pattern of an edit already made: the new code with what was found written out in it."""
    found = textwrap.dedent(find).strip()
    lines = []
    for line in code.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(textwrap.indent(found, indent) if "$$found" in line else line)
    return "\n".join(lines)


class RewriteSpec(_Statements, frozen=True, kw_only=True, tag="rewrite", forbid_unknown_fields=True):
    """Replace the statements or the expression that ``find`` matches; ``known`` are other ways to have it."""

    every: bool = False

    def codemod(self) -> Codemod:
        """Build the codemod."""
        return self._build("replace", every=self.every)


class BeforeSpec(_Statements, frozen=True, kw_only=True, tag="insert-before", forbid_unknown_fields=True):
    """Put statements in front of those that ``find`` matches."""

    def codemod(self) -> Codemod:
        """Build the codemod."""
        return self._build("before")


class AfterSpec(_Statements, frozen=True, kw_only=True, tag="insert-after", forbid_unknown_fields=True):
    """Put statements behind those that ``find`` matches."""

    def codemod(self) -> Codemod:
        """Build the codemod."""
        return self._build("after")


class GuardSpec(EditSpec, frozen=True, kw_only=True, tag="none-guard", forbid_unknown_fields=True):
    """Run the statements that ``find`` matches only where ``value`` is not None."""

    find: str
    value: str
    known: tuple[str, ...] = ()

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.statements import Statements, Variant

        _require_bound("value", self.value, self.find)
        (find,) = _compile("find", self.find)
        _compile("value", self.value)
        guarded = f"if {self.value} is not None:\n    $$found\n"
        inner = textwrap.indent(textwrap.dedent(self.find).strip(), "    ")
        signs = _compile_signs("value", f"if {self.value} is not None:\n{inner}")
        return Statements((Variant(find, guarded),), "replace", signs + _compile_signs("known", *self.known))


class OpeningSpec(EditSpec, frozen=True, kw_only=True, tag="insert-first", forbid_unknown_fields=True):
    """Open a function's body with ``code``."""

    code: str
    known: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.statements import Opening

        _require_bound("code", self.code, *self.given)
        known = _compile_signs("code", self.code) + _compile_signs("known", *self.known)
        return Opening(self.code, known, _compile("given", *self.given))


class AttributeSpec(EditSpec, frozen=True, kw_only=True, tag="class-attribute", forbid_unknown_fields=True):
    """Give the class a class attribute."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.definitions import ClassAttribute

        with _naming("code"):
            return ClassAttribute(self.code)


class MethodSpec(EditSpec, frozen=True, kw_only=True, tag="method", forbid_unknown_fields=True):
    """Give the class a method."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.definitions import Method

        with _naming("code"):
            return Method(self.code)


class BaseSpec(EditSpec, frozen=True, kw_only=True, tag="base-class", forbid_unknown_fields=True):
    """Give the class one more base."""

    looks_inside = False
    base: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.definitions import Base

        with _naming("base"):
            return Base(self.base)


class ParameterSpec(EditSpec, frozen=True, kw_only=True, tag="parameter", forbid_unknown_fields=True):
    """Give the function one more parameter."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.definitions import Parameter

        with _naming("code"):
            return Parameter(self.code)


class ModuleSpec(EditSpec, frozen=True, kw_only=True, tag="module-code", forbid_unknown_fields=True):
    """Give the module a definition."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.definitions import ModuleCode

        _require_module(self.scope)
        with _naming("code"):
            return ModuleCode(self.code)


class ImportSpec(EditSpec, frozen=True, kw_only=True, tag="import", forbid_unknown_fields=True):
    """Import a name into the module."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.definitions import Import

        _require_module(self.scope)
        with _naming("code"):
            return Import(self.code)


class ArgumentSpec(EditSpec, frozen=True, kw_only=True, tag="call-argument", forbid_unknown_fields=True):
    """Give the calls that ``find`` matches one more keyword argument."""

    find: str | tuple[str, ...]
    argument: str
    known: tuple[str, ...] = ()
    every: bool = False

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.calls import CallArgument

        find = _compile_calls("find", *([self.find] if isinstance(self.find, str) else self.find))
        known = _compile_calls("known", *self.known)
        with _naming("argument"):
            return CallArgument(find, self.argument, known, self.every)


class ArgumentValueSpec(
    EditSpec, frozen=True, kw_only=True, tag="argument-value", forbid_unknown_fields=True
):
    """Pass another value for a keyword argument of the call that ``find`` matches."""

    find: str
    argument: str
    code: str
    given: tuple[str, ...] = ()

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.calls import ArgumentValue

        (find,) = _compile_calls("find", self.find)
        (code,) = _compile("code", self.code)
        if not code.is_expression:
            raise ValueError(f"key `code`: not one expression: {self.code.strip()!r}")
        _require_bound("code", self.code, self.find, *self.given, "$value")
        return ArgumentValue(find, self.argument, self.code, _compile("given", *self.given))


class MemberSpec(EditSpec, frozen=True, kw_only=True, tag="isinstance-member", forbid_unknown_fields=True):
    """Add ``member`` to the ``isinstance`` test of ``subject`` that has ``beside``."""

    subject: str
    beside: str
    member: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.calls import IsinstanceMember

        with _naming("subject`, `beside` or `member"):
            return IsinstanceMember(self.subject, self.beside, self.member)


AnyEdit = (
    RewriteSpec
    | BeforeSpec
    | AfterSpec
    | GuardSpec
    | OpeningSpec
    | AttributeSpec
    | MethodSpec
    | BaseSpec
    | ParameterSpec
    | ModuleSpec
    | ImportSpec
    | ArgumentSpec
    | ArgumentValueSpec
    | MemberSpec
)


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something true of a tree: a file is there, defines a dotted name, or has code like a pattern."""

    file: str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scope: str = msgspec.field(name="in", default="")
    has: str = ""
    lacks: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The places where the file may be."""
        return (self.file,) if isinstance(self.file, str) else self.file


class Patch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One upgrade: what, why, upstream link, risk, what it needs, its edits, and how to verify it.

    A shape is a set of facts that hold together; a tree with none of those in ``one_of`` is not understood.
    ``needs`` are facts without which the patch does not apply to a tree. ``landed`` are facts that hold where
    upstream's own change is in the tree; sites that upstream has since moved on from are then no conflict.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str
    why: str
    risk: str
    verify: str
    upstream: str = ""
    default: bool = True
    requires: tuple[str, ...] = ()
    hardens: tuple[str, ...] = ()
    shapes: dict[str, tuple[Fact, ...]] = {}
    one_of: tuple[str, ...] = ()
    needs: tuple[Fact, ...] = ()
    landed: tuple[Fact, ...] = ()
    edits: Annotated[tuple[AnyEdit, ...], msgspec.Meta(min_length=1)] = msgspec.field(name="edit")

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact that the patch asks of a tree: its needs, its signs of having landed, its shapes."""
        return (*self.needs, *self.landed, *(fact for shape in self.shapes.values() for fact in shape))


BUILT_IN = Path(__file__).parent / "patches"
if not BUILT_IN.is_dir():  # A source checkout keeps them beside the package; the wheel carries them inside.
    BUILT_IN = Path(__file__).parents[1] / "patches"


@functools.cache
def codemod_of(spec: AnyEdit) -> Codemod:
    """Return the codemod of an edit, built once a process."""
    return spec.codemod()


def _load_one(path: Path) -> tuple[Patch, bytes]:
    try:
        data = path.read_bytes()
        raw: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
        patch = msgspec.convert(raw, Patch)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); check the folder given with --patches."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error}); mend it and try again.") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; mend that key and try again.") from None
    names = [edit.name for edit in patch.edits]
    for index, edit in enumerate(patch.edits):
        where = f"{path}: edit[{index}] `{edit.name}`"
        if names.count(edit.name) > 1:
            raise UsageError(f"{where}: key `name`: used twice in this patch; give each edit its own name.")
        _require_shapes(patch, edit.shapes, f"{where}: key `shape`")
    _require_shapes(patch, patch.one_of, f"{path}: key `one_of`")
    return patch, data


def _require_shapes(patch: Patch, shapes: Iterable[str], where: str) -> None:
    for shape in shapes:
        if shape not in patch.shapes:
            known = ", ".join(sorted(patch.shapes)) or "none"
            raise UsageError(f"{where}: `{shape}` is not one of [shapes] ({known}).")


def check(patch: Patch, path: Path) -> None:
    """Build every codemod and every fact's pattern of a patch; UsageError names file, key and reason."""
    from patchkit.codemods.definitions import Import

    for index, edit in enumerate(patch.edits):
        try:
            _require_inside(edit.files)
            if "\n" in edit.why:
                raise ValueError("key `why`: more than one line, which a comment cannot hold")
            codemod_of(edit)
            with _naming("imports"):
                for code in edit.imports:
                    Import(code)
        except ValueError as error:
            raise UsageError(
                f"{path}: edit[{index}] `{edit.name}`: {error}; mend it and try again."
            ) from None
    for fact in patch.facts:
        try:
            _require_inside(fact.files)
            for key, text in (("has", fact.has), ("lacks", fact.lacks)):
                _compile(key, *([text] if text else []))
        except ValueError as error:
            raise UsageError(f"{path}: fact about {fact.files[0]}: {error}; mend it and try again.") from None


def _require_inside(files: Sequence[str]) -> None:
    """Refuse files that are not named relative to the package folder and below it."""
    for file in files:
        place = PurePosixPath(file)
        if place.is_absolute() or ".." in place.parts or place.suffix != ".py":
            raise ValueError(f"key `file`: {file!r} is not a Python file below the package folder")


class PatchSet:
    """The patches at hand, built-in ones first, in the order in which they are applied."""

    def __init__(self, patches: Sequence[Patch], digest: str) -> None:
        self._patches = {patch.id: patch for patch in patches}
        self.digest = digest

    def __iter__(self) -> Iterator[Patch]:
        return iter(self._patches.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, in order of application."""
        return tuple(self._patches)

    def get(self, identifier: str) -> Patch:
        """Return one patch; UsageError with the nearest id for one that does not exist."""
        if identifier in self._patches:
            return self._patches[identifier]
        close = difflib.get_close_matches(identifier, self._patches, n=1, cutoff=0.0)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"no patch is called {identifier!r}; {hint}`patchkit list` names them all.")

    def select(self, identifiers: Sequence[str] = (), *, only: bool = False) -> tuple[Patch, ...]:
        """Return the patches named with what they require and, unless ``only``, what hardens them, in order.

        No identifier stands for all that are on by default.
        """
        wanted = {self.get(identifier).id for identifier in identifiers}
        wanted = wanted or {patch.id for patch in self if patch.default}
        grown = True
        while grown:
            before = len(wanted)
            for identifier in tuple(wanted):
                wanted.update(self.get(needed).id for needed in self._patches[identifier].requires)
            if not only:
                wanted.update(patch.id for patch in self if patch.default and wanted & set(patch.hardens))
            grown = len(wanted) > before
        return tuple(patch for patch in self if patch.id in wanted)


def _ordered(patches: dict[str, Patch], paths: dict[str, Path]) -> list[Patch]:
    done: dict[str, Patch] = {}

    def visit(patch: Patch, trail: tuple[str, ...]) -> None:
        if patch.id in done:
            return
        if patch.id in trail:
            raise UsageError(
                f"{paths[patch.id]}: key `requires`: the patches {' -> '.join(trail)} require each other."
            )
        for key, others in (("requires", patch.requires), ("hardens", patch.hardens)):
            for other in others:
                if other not in patches:
                    raise UsageError(f"{paths[patch.id]}: key `{key}`: no patch is called {other!r}.")
        for needed in patch.requires:
            visit(patches[needed], (*trail, patch.id))
        done[patch.id] = patch

    for patch in patches.values():
        visit(patch, ())
    return list(done.values())


def load(folders: Sequence[Path] = ()) -> PatchSet:
    """Load the built-in patches and those in ``folders`` (a patch folder itself or a folder of them).

    Raises UsageError with file, key and reason for a malformed patch.
    """
    patches: dict[str, Patch] = {}
    paths: dict[str, Path] = {}
    digest = hashlib.sha256()
    for folder in (BUILT_IN, *folders):
        files = (
            [folder / "patch.toml"]
            if (folder / "patch.toml").is_file()
            else sorted(folder.glob("*/patch.toml"))
        )
        if not files:
            raise UsageError(
                f"{folder}: no patch.toml there or one folder below; give --patches a folder with one."
            )
        for path in files:
            patch, data = _load_one(path)
            if folder is not BUILT_IN:
                check(patch, path)
            if patch.id in patches:
                raise UsageError(
                    f"{path}: key `id`: {patch.id!r} is taken by {paths[patch.id]}; choose another."
                )
            patches[patch.id], paths[patch.id] = patch, path
            digest.update(data)
    return PatchSet(_ordered(patches, paths), digest.hexdigest())

"""Patches are data: one ``patch.toml`` each says what, why, how risky, and which edits at which sites."""

from __future__ import annotations

import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.codemods.examination import Codemod
    from patchkit.codemods.language.pattern import Pattern


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
        from patchkit.codemods.kinds.statements import Statements, Variant

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
    from patchkit.codemods.language.pattern import Pattern

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
    from patchkit.codemods.language.pattern import placeholders

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
        from patchkit.codemods.kinds.statements import Statements, Variant

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
        from patchkit.codemods.kinds.statements import Opening

        _require_bound("code", self.code, *self.given)
        known = _compile_signs("code", self.code) + _compile_signs("known", *self.known)
        return Opening(self.code, known, _compile("given", *self.given))


class AttributeSpec(EditSpec, frozen=True, kw_only=True, tag="class-attribute", forbid_unknown_fields=True):
    """Give the class a class attribute."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.definitions import ClassAttribute

        with _naming("code"):
            return ClassAttribute(self.code)


class MethodSpec(EditSpec, frozen=True, kw_only=True, tag="method", forbid_unknown_fields=True):
    """Give the class a method."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.definitions import Method

        with _naming("code"):
            return Method(self.code)


class BaseSpec(EditSpec, frozen=True, kw_only=True, tag="base-class", forbid_unknown_fields=True):
    """Give the class one more base."""

    looks_inside = False
    base: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.definitions import Base

        with _naming("base"):
            return Base(self.base)


class ParameterSpec(EditSpec, frozen=True, kw_only=True, tag="parameter", forbid_unknown_fields=True):
    """Give the function one more parameter."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.definitions import Parameter

        with _naming("code"):
            return Parameter(self.code)


class ModuleSpec(EditSpec, frozen=True, kw_only=True, tag="module-code", forbid_unknown_fields=True):
    """Give the module a definition."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.definitions import ModuleCode

        _require_module(self.scope)
        with _naming("code"):
            return ModuleCode(self.code)


class ImportSpec(EditSpec, frozen=True, kw_only=True, tag="import", forbid_unknown_fields=True):
    """Import a name into the module."""

    looks_inside = False
    code: str

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.definitions import Import

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
        from patchkit.codemods.kinds.calls import CallArgument

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
        from patchkit.codemods.kinds.calls import ArgumentValue

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
        from patchkit.codemods.kinds.calls import IsinstanceMember

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

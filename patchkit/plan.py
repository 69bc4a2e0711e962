"""A plan says, for patches and a tree, each edit's state and each file's new bytes; nothing is written."""

from __future__ import annotations

import enum
import gc
import re
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods.definitions import Import
from patchkit.codemods.edit import Finding, Standing, absent, ambiguous, ready
from patchkit.codemods.pattern import Pattern
from patchkit.codemods.scope import Scope, base_names, resolve
from patchkit.errors import ConflictError, TreeError
from patchkit.outline import Interest, Outline, interest_of
from patchkit.patchset import codemod_of
from patchkit.tree import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.patchset import AnyEdit, Fact, Patch
    from patchkit.tree import Tree


class State(str, enum.Enum):
    """State of an edit or of a patch, spelled as the command line prints it."""

    APPLIED = "applied"
    UPSTREAM = "upstream"
    PENDING = "pending"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True)
class EditStatus:
    """One edit on one tree: where its site is and how far along it is."""

    name: str
    file: str
    site: str
    state: State
    reason: str = ""


@dataclass(frozen=True)
class PatchStatus:
    """One patch on one tree."""

    patch: Patch
    state: State
    edits: tuple[EditStatus, ...]
    reason: str = ""


@dataclass(frozen=True)
class FileChange:
    """New bytes for one file of the tree; ``file`` is relative to the package folder (``srt/...``)."""

    file: str
    before: bytes
    after: bytes
    patches: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What applying ``patches`` to ``tree`` would do."""

    tree: Tree
    patches: tuple[PatchStatus, ...]
    changes: tuple[FileChange, ...]


def marker(patch: Patch) -> str:
    """Return what every comment of a patch starts with; it tells its edits from upstream's own."""
    return f"patchkit {patch.id}:"


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A syntax tree is millions of nodes that all stay: collecting garbage between them doubles the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_SERVING = "srt"
_FROM = re.compile(rb"^\s*from\s+([.\w]+)\s+import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)


class Modules:
    """The tree's files as syntax trees, parsed when first asked for."""

    def __init__(self, tree: Tree, interest: Interest | None = None) -> None:
        """Read ``tree``; with an ``interest`` the syntax trees lack the bodies of functions outside it."""
        self.tree = tree
        self._interest = interest
        self._parsed: dict[str, cst.Module | None] = {}
        self._sources: dict[str, bytes | None] = {}
        self._listing: list[str] | None = None
        self._homes: dict[str, list[str]] = {}
        self._outlines: dict[str, Outline | None] = {}
        self._mentions: dict[tuple[str, str], bool] = {}

    def source(self, file: str) -> bytes | None:
        """Return a file's bytes, ``None`` where the tree has no such file."""
        if file not in self._sources:
            self._sources[file] = self.tree.read(file)
        return self._sources[file]

    def get(self, file: str) -> cst.Module | None:
        """Return a file's syntax tree, ``None`` if there is no such file; TreeError if it does not parse."""
        if file not in self._parsed:
            source = self.source(file)
            self._parsed[file] = (
                None if source is None else self._parse(file, self._of_interest(file, source))
            )
        return self._parsed[file]

    def _of_interest(self, file: str, source: bytes) -> bytes:
        # Line ends that the parsers may count differently are rare enough to parse all of the file.
        if self._interest is None or file in self._interest.files or b"\f" in source or b"\r" in source:
            return source
        outline = self._outline(file)
        return source if outline is None else outline.without_bodies(self._interest.names)

    def _parse(self, file: str, source: bytes) -> cst.Module:
        try:
            module = cst.parse_module(source)
        except cst.ParserSyntaxError as error:
            where = f"{file}:{error.raw_line}"
            raise TreeError(
                f"{where}: not valid Python, so nothing can be planned; mend the file and try again."
            ) from None
        except (UnicodeDecodeError, LookupError, SyntaxError):
            raise TreeError(
                f"{file}: not UTF-8 nor what its coding line says; save it as UTF-8 and try again."
            ) from None
        # The parser drops a form feed in front of code, and lines that a carriage return alone ends.
        if (b"\f" in source or b"\r" in source) and module.bytes != source:
            raise TreeError(
                f"{file}: has form feeds or bare carriage returns, which a rewrite would lose; "
                "take them out and try again."
            )
        return module

    def mentions(self, file: str, name: str) -> bool:
        """Tell whether a file might define a class or function of this name; parses nothing."""
        if (file, name) not in self._mentions:
            source, word = self.source(file) or b"", name.encode()
            sign = rb"\b(class|def)\s+" + re.escape(word) + rb"\b"
            self._mentions[file, name] = word in source and re.search(sign, source) is not None
        return self._mentions[file, name]

    def bases(self, file: str, owner: str) -> list[str] | None:
        """Return the last names of the bases of a file's class, ``None`` where only a syntax tree can tell."""
        outline = None if self._parsed.get(file) is not None else self._outline(file)
        return None if outline is None else outline.bases(owner)

    def _outline(self, file: str) -> Outline | None:
        if file not in self._outlines:
            try:
                self._outlines[file] = Outline(self.source(file) or b"")
            except (SyntaxError, ValueError):
                self._outlines[file] = None
        return self._outlines[file]

    def homes(self, file: str, name: str) -> list[str]:
        """Return the files that may define a name of ``file``: the one that it is imported from, or any."""
        word = re.compile(rb"\b" + re.escape(name).encode() + rb"\b")
        for source in [
            found[1] for found in _FROM.finditer(self.source(file) or b"") if word.search(found[2])
        ]:
            package, _, module = source.decode().partition(".")
            home = f"{module.replace('.', '/')}.py"
            if package and (package != NAME or not _serves(home)):
                return []
            if package and self.mentions(home, name):
                return [home]
        return self.defining(name)

    def defining(self, name: str) -> list[str]:
        """Return the files of the serving package that define a top-level class or function of this name."""
        if self._listing is None:
            self._listing = self.tree.files(_SERVING)
        if name not in self._homes:
            word = name.encode()
            sign = re.compile(rb"^(class|(async )?def) " + re.escape(word) + rb"\b", re.MULTILINE)
            named = [file for file in self._listing if word in (self.source(file) or b"")]
            self._homes[name] = [file for file in named if sign.search(self.source(file) or b"")]
        return self._homes[name]


def _serves(file: str) -> bool:
    return file.startswith(f"{_SERVING}/")


@dataclass(frozen=True)
class _Place:
    file: str
    scope: Scope


class Workspace:
    """The tree as it would be after the edits made so far; a snapshot can be taken and gone back to."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.edited: dict[str, cst.Module] = {}

    def get(self, file: str) -> cst.Module | None:
        """Return the file's syntax tree with the edits so far."""
        return self.edited.get(file) or self.modules.get(file)

    def locate_first(self, files: Sequence[str], names: Sequence[str]) -> _Place | Finding:
        """Find the first of several names of a place that the tree has."""
        place = self.locate(files, names[0])
        for name in names[1:]:
            if isinstance(place, _Place) or place.standing is not Standing.ABSENT:
                break
            place = self.locate(files, name)
        return place

    def locate(self, files: Sequence[str], dotted: str) -> _Place | Finding:
        """Find the one place in the tree with this dotted name, in ``files`` or wherever it has moved."""
        there = [file for file in files if self.modules.source(file) is not None]
        if not dotted:
            places = [_Place(file, Scope(module, (), "")) for file in there if (module := self.get(file))]
        else:
            places = [place for file in there for place in self._in_file(file, dotted)]
            first = dotted.split(".", 1)[0]
            if not places and not any(self._binds(file, first) for file in there):
                moved = self.modules.defining(first) if any(map(_serves, files)) else []
                places = [
                    place for file in moved if file not in there for place in self._in_file(file, dotted)
                ]
        if len(places) == 1:
            return places[0]
        if places:
            where = ", ".join(sorted({place.file for place in places}))
            return ambiguous(f"{dotted or 'the file'} is there {len(places)} times ({where})")
        wanted = f"{dotted} in {' or '.join(files)}" if dotted else " or ".join(files)
        return absent(f"the tree has no {wanted}")

    def _binds(self, file: str, name: str) -> bool:
        assignment = rb"^" + re.escape(name).encode() + rb"\s*(:.*)?="
        source = self.modules.source(file) or b""
        return bool(self._resolve(file, name)) or re.search(assignment, source, re.MULTILINE) is not None

    def _resolve(self, file: str, dotted: str) -> list[_Place]:
        """Find a place in a file by its name; the file is parsed only if it may hold all parts of the name."""
        if file not in self.edited and not all(
            self.modules.mentions(file, part) for part in dotted.split(".")
        ):
            return []
        module = self.get(file)
        return [] if module is None else [_Place(file, scope) for scope in resolve(module, dotted)]

    def _in_file(self, file: str, dotted: str) -> list[_Place]:
        self.get(file)  # A file that a patch names has to be valid, whatever it holds.
        found = self._resolve(file, dotted)
        if found or "." not in dotted:
            return found
        owner, method = dotted.rsplit(".", 1)
        return self._inherited(file, owner, method, frozenset())

    def _bases(self, file: str, owner: str) -> list[str]:
        outlined = None if file in self.edited else self.modules.bases(file, owner)
        if outlined is not None:
            return outlined
        nodes = [place.scope.node for place in self._resolve(file, owner)]
        return [base for node in nodes if isinstance(node, cst.ClassDef) for base in base_names(node)]

    def _inherited(self, file: str, owner: str, method: str, seen: frozenset[str]) -> list[_Place]:
        """Follow a method that moved to a base class, also one in another file."""
        if owner in seen:
            return []
        for base in self._bases(file, owner):
            found: list[_Place] = []
            for home in [file] if self._resolve(file, base) else self.modules.homes(file, base):
                own = self._resolve(home, f"{base}.{method}")
                found += own or self._inherited(home, base, method, seen | {owner})
            if found:
                return found
        return []

    def at_home(self, need: Import) -> Import | None:
        """Return an import of what the tree defines from where it does, ``None`` if no one place does."""
        package, _, module = need.source.partition(".")
        if package != NAME or self._provides(module.replace(".", "/"), need.names):
            return need
        homes = {home for name in need.names for home in self.modules.defining(name)}
        if len(homes) != 1:
            return None
        (home,) = homes
        return need.moved_to(f"{NAME}.{home.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}")

    def _provides(self, module: str, names: set[str]) -> bool:
        """Tell whether a module, or a package's folder, has these names; those that edits added are there too."""
        file = f"{module}.py"
        source = self.modules.source(file) or self.modules.source(f"{module}/__init__.py") or b""
        return file in self.edited or all(
            name.encode() in source or self.modules.source(f"{module}/{name}.py") is not None
            for name in names
        )

    def holds(self, fact: Fact) -> bool:
        """Tell whether a fact is true of the tree with the edits so far."""
        place = self.locate(fact.files, fact.scope)
        if isinstance(place, Finding):
            return False
        root, path = place.scope.node, place.scope.path
        if fact.has and not Pattern.compile(fact.has).find(root, path):
            return False
        return not (fact.lacks and Pattern.compile(fact.lacks).find(root, path))


@dataclass(frozen=True)
class _Outcome:
    status: EditStatus
    finding: Finding


def _examine(space: Workspace, patch: Patch, spec: AnyEdit) -> _Outcome:
    place = space.locate_first(spec.files, spec.scopes)
    if isinstance(place, Finding):
        status = EditStatus(spec.name, spec.files[0], spec.scopes[0], State.CONFLICT, place.reason)
        return _Outcome(status, place)
    finding = codemod_of(spec).examine(place.scope, f"{marker(patch)} {spec.why}")
    if spec.imports:
        finding = _with_imports(space, place.scope, spec, finding)
    status = EditStatus(spec.name, place.file, place.scope.name, State.CONFLICT)
    return _Outcome(status, finding)


def _with_imports(space: Workspace, scope: Scope, spec: AnyEdit, finding: Finding) -> Finding:
    """Have an edit bring its imports; one in place by patchkit's own code also needs them to be there."""
    imports = [Import(code) for code in spec.imports]
    if finding.standing is Standing.PRESENT:
        unmet = [need for need in imports if need.used_but_missing(scope)]
    elif finding.standing is Standing.READY:
        unmet = [need for need in imports if need.missing(scope.module)]
    else:
        return finding
    if not unmet:
        return finding
    found = [space.at_home(need) for need in unmet]
    homeless = [need.code for need, home in zip(unmet, found, strict=True) if home is None]
    if homeless:
        return absent(f"`{homeless[0]}`: the tree has that neither there nor in one other place")

    def rewrite() -> cst.Module:
        changed = finding.rewrite() if finding.rewrite is not None else scope.module
        for need in found:
            changed = need.add(changed) if need is not None else changed
        return changed

    return ready(rewrite)


def _told(fact: Fact) -> str:
    where = " or ".join(fact.files)
    if fact.scope:
        where = f"{fact.scope} in {where}"
    said = [f"`{' '.join(fact.has.split())}`"] if fact.has else []
    said += [f"no `{' '.join(fact.lacks.split())}`"] if fact.lacks else []
    return f"{' and '.join(said)} in {where}" if said else where


def _shapes(space: Workspace, patch: Patch) -> frozenset[str]:
    return frozenset(name for name, facts in patch.shapes.items() if all(space.holds(fact) for fact in facts))


def _provenance(space: Workspace, patch: Patch, statuses: Sequence[EditStatus]) -> State:
    """Edits in place are patchkit's where one carries the patch's marker, otherwise upstream's.

    A patch that upstream never had (no ``landed``) is patchkit's too where another patch of it made the edit.
    """
    sign = (marker(patch) if patch.landed else "# patchkit ").encode()
    files = {status.file for status in statuses}
    ours = any(sign in (space.modules.source(file) or b"") for file in files)
    return State.APPLIED if ours else State.UPSTREAM


def _evaluate(space: Workspace, patch: Patch) -> PatchStatus:
    """Return the patch's state and, unless it conflicts, leave its pending edits made in ``space``."""
    if not all(space.holds(fact) for fact in patch.needs):
        unmet = next(fact for fact in patch.needs if not space.holds(fact))
        return PatchStatus(patch, State.NOT_APPLICABLE, (), f"needs a tree with {_told(unmet)}")
    before = dict(space.edited)
    # What marks an edit as in place is read off the tree itself: an earlier patch's edits are still to come.
    pristine = Workspace(space.modules)
    landed = bool(patch.landed) and all(pristine.holds(fact) for fact in patch.landed)
    shapes = _shapes(space, patch)
    if patch.one_of and not shapes & set(patch.one_of):
        known = " or ".join(_told(patch.shapes[name][0]) for name in patch.one_of)
        return PatchStatus(patch, State.CONFLICT, (), f"needs a tree with {known}")
    specs = [
        spec
        for spec in patch.edits
        if (not spec.shapes or shapes & set(spec.shapes)) and not (spec.own and landed)
    ]
    statuses: list[EditStatus] = []
    for spec in specs:
        outcome = _examine(space, patch, spec)
        status, finding = outcome.status, outcome.finding
        if finding.standing is Standing.PRESENT:
            status = replace(status, state=State.APPLIED)
            if (
                status.file in space.edited
                and _examine(pristine, patch, spec).finding.standing is not Standing.PRESENT
            ):
                status = replace(status, state=State.PENDING, reason="comes with a patch applied before it")
        elif finding.standing is Standing.READY and finding.rewrite is not None:
            status = replace(status, state=State.PENDING)
            space.edited[status.file] = finding.rewrite()
            again = _examine(space, patch, spec)
            if again.finding.standing is not Standing.PRESENT:
                why = again.finding.reason or "it matches once more"
                reason = f"the edit was made but is not found again ({why})"
                status = replace(status, state=State.CONFLICT, reason=reason)
        elif finding.standing is Standing.ABSENT and landed:
            status = replace(
                status, state=State.UPSTREAM, reason="upstream's change is there; it has moved on since"
            )
        elif finding.standing is Standing.ABSENT and spec.optional:
            status = replace(status, state=State.NOT_APPLICABLE, reason=spec.optional)
        else:
            status = replace(status, reason=finding.reason)
        statuses.append(status)
    if any(status.state is State.CONFLICT for status in statuses):
        space.edited = before
    return _summarise(space, patch, statuses)


def _summarise(space: Workspace, patch: Patch, statuses: list[EditStatus]) -> PatchStatus:
    provenance = _provenance(space, patch, statuses)
    settled = tuple(
        replace(status, state=provenance) if status.state is State.APPLIED else status for status in statuses
    )
    states = {status.state for status in settled} - {State.NOT_APPLICABLE}
    if not states:
        return PatchStatus(patch, State.NOT_APPLICABLE, settled, "no site of this patch is in the tree")
    if State.CONFLICT in states:
        first = next(status for status in settled if status.state is State.CONFLICT)
        reason = f"{first.file}: {first.site or 'module'}: {first.name}: {first.reason}"
        return PatchStatus(patch, State.CONFLICT, settled, reason)
    if states == {State.PENDING}:
        return PatchStatus(patch, State.PENDING, settled)
    if State.PENDING in states:
        count = sum(status.state is State.PENDING for status in settled)
        return PatchStatus(patch, State.PARTIAL, settled, f"{count} of {len(settled)} edits are missing")
    return PatchStatus(patch, State.APPLIED if State.APPLIED in states else State.UPSTREAM, settled)


def _run(
    modules: Modules, patches: Sequence[Patch]
) -> tuple[Workspace, tuple[PatchStatus, ...], dict[str, list[str]]]:
    space = Workspace(modules)
    touched: dict[str, list[str]] = {}
    statuses: list[PatchStatus] = []
    for patch in patches:
        before = dict(space.edited)
        failed = {s.patch.id for s in statuses if s.state in {State.CONFLICT, State.NOT_APPLICABLE}}
        status = _evaluate(space, patch)
        needed = [identifier for identifier in patch.requires if identifier in failed]
        if needed and status.state in {State.PENDING, State.PARTIAL}:
            space.edited = before
            blocker = next(s for s in statuses if s.patch.id == needed[0])
            state = blocker.state
            status = replace(status, state=state, reason=f"requires {needed[0]}, which is {state.value} here")
        statuses.append(status)
        for file, module in space.edited.items():
            if before.get(file) is not module:
                touched.setdefault(file, []).append(patch.id)
    return space, tuple(statuses), touched


@_collector_paused()
def inspect(tree: Tree, patches: Sequence[Patch]) -> tuple[PatchStatus, ...]:
    """Return each patch's status on ``tree``; TreeError where a file of interest cannot be read as Python."""
    return _run(Modules(tree, interest_of(patches)), patches)[1]


@_collector_paused()
def make_plan(tree: Tree, patches: Sequence[Patch]) -> Plan:
    """Return what applying ``patches`` in this order to ``tree`` would do; conflicts are states, no errors.

    The changes leave out every patch that conflicts, and every patch that requires one that does.
    ConflictError if an edit, against all its checks, would leave a file that does not compile.
    """
    space, statuses, touched = _run(Modules(tree), patches)
    changes = []
    for file, module in space.edited.items():
        before, after = space.modules.source(file), _encoded(file, module, touched[file])
        if before is not None and before != after:
            changes.append(FileChange(file, before, after, tuple(touched[file])))
            _require_valid(changes[-1])
    return Plan(tree, statuses, tuple(changes))


def _encoded(file: str, module: cst.Module, patches: Sequence[str]) -> bytes:
    try:
        return module.bytes
    except UnicodeEncodeError as error:
        raise ConflictError(
            f"{file}: {', '.join(patches)} would write {error.object[error.start]!r}, which is not in "
            f"{module.encoding}; save the file as UTF-8 and try again."
        ) from None


def _require_valid(change: FileChange) -> None:
    try:
        _compile(change.after)
    except SyntaxError as error:
        with suppress(SyntaxError):
            _compile(change.before)  # A tree may be written for a later Python than this one.
            raise ConflictError(
                f"{change.file}:{error.lineno}: {', '.join(change.patches)} would leave this line invalid "
                f"({error.msg}), so nothing was written; leave those patches out and report the file."
            ) from None


def _compile(source: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(source, "", "exec", dont_inherit=True)

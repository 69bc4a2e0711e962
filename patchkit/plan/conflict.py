"""A conflict as a person needs to see it: the site as found, as expected, and what the edit wanted to do."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import libcst as cst
import msgspec
from libcst.metadata import MetadataWrapper, PositionProvider

from patchkit.codemods.language import syntax
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import resolve
from patchkit.codemods.language.sites import closest, statement_at
from patchkit.codemods.language.statements import statement_path
from patchkit.plan.status import State
from patchkit.tree.modules import Modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path
    from patchkit.patchset.patch import Edit, Patch
    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.tree.tree import Tree


class Conflict(msgspec.Struct, frozen=True):
    """An edit that a tree has no certain site for; one without an ``edit`` is its whole patch.

    ``found`` are the lines ``line`` to ``end`` of the file, the first 1 and the end exclusive: the statement that
    comes nearest. It is empty where none does; ``line`` is then where the scope's code begins, the end of the
    file if it has no such scope, and 0 if there is no such file. ``expected`` and ``wanted`` are in the language
    of patterns: how the site may look, of several ways the one nearest to what was found, and the new code.
    """

    patch: str
    edit: str
    kind: str
    why: str
    file: str
    site: str
    reason: str
    line: int = 0
    end: int = 0
    found: str = ""
    expected: str = ""
    wanted: str = ""


def conflicts(tree: Tree, statuses: Iterable[PatchStatus]) -> tuple[Conflict, ...]:
    """Return every edit in conflict, with its site as ``tree`` has it; a patch that is not understood as one."""
    modules = Modules(tree)
    found: list[Conflict] = []
    for status in statuses:
        if status.state is not State.CONFLICT:
            continue
        stuck = [edit for edit in status.edits if edit.state is State.CONFLICT]
        found += [_conflict(modules, status.patch, edit) for edit in stuck]
        if not status.edits:
            found.append(Conflict(status.patch.id, "", "", status.patch.title, "", "", status.reason))
    return tuple(found)


def at_site(tree: Tree, patch: Patch, edit: EditStatus) -> Conflict:
    """Return how an edit conflicts with its site in ``tree``."""
    return _conflict(Modules(tree), patch, edit)


def _conflict(modules: Modules, patch: Patch, status: EditStatus) -> Conflict:
    spec = next(edit for edit in patch.edits if edit.name == status.name)
    kind = str(type(spec.kind).__struct_config__.tag)
    said = (patch.id, spec.name, kind, spec.why, status.file, status.site, status.reason)
    ways = spec.kind.ways or (("", "\n".join(spec.kind.written)),)
    source, module = modules.source(status.file), modules.get(status.file)
    if source is None or module is None:
        return Conflict(*said, expected=ways[0][0].strip(), wanted=ways[0][1].strip())
    # Bytes break into lines where Python's own do.
    lines = source.splitlines(keepends=True)
    start, end = span(module, status.site, spec, len(lines))
    found = b"".join(lines[start:end]).decode(module.encoding)
    way = max(ways, key=lambda each: difflib.SequenceMatcher(None, each[0], found).ratio())
    return Conflict(*said, start + 1, end + 1, found, way[0].strip(), way[1].strip())


def span(module: cst.Module, site: str, spec: Edit, end: int) -> tuple[int, int]:
    """Return the lines, from 0, of the statement of a scope that comes nearest to what an edit looks for.

    Equal where none does: at the first statement of the scope, or, if there is not one such scope, at ``end``.
    """
    scopes = resolve(module, site)
    if len(scopes) != 1:
        return end, end
    (scope,) = scopes
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    place = _nearest(scope, [find for find, _ in spec.kind.ways if find.strip()])
    if place:
        around = positions[syntax.node_at(module, place)]
        return around.start.line - 1, around.end.line
    if not scope.body:
        return end, end
    # The statements of a function on one line have no line of their own.
    first = positions.get(scope.body[0], positions[scope.node]).start.line - 1
    return first, first


def _nearest(scope: Scope, finds: Sequence[str]) -> Path | None:
    for find in finds:
        for match in Pattern.compile(find).find(scope.node, scope.path):
            place = statement_at(scope.module, statement_path(match))
            return place if len(place) > len(scope.path) else None
    near = (closest(scope, find) for find in finds)
    return next((place for place in near if place is not None and _is_plain(scope, place)), None)


def _is_plain(scope: Scope, place: Path) -> bool:
    """Tell whether a statement is no definition: all of a function is more than a site."""
    return not isinstance(syntax.node_at(scope.module, place), cst.FunctionDef | cst.ClassDef)

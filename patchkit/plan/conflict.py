"""Describe conflicts: the code that was found, the code that was expected, and the code that the edit would write."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
import msgspec
from libcst.metadata import MetadataWrapper, PositionProvider

from patchkit.codemods.language import syntax, texts
from patchkit.codemods.language.nearness import is_like, partly_bound
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import resolve
from patchkit.codemods.language.sites import (
    agreed,
    bindings_given,
    closest,
    nearest_of,
    statement_at,
    unmatched,
)
from patchkit.codemods.language.statements import statement_path
from patchkit.codemods.language.template import readable
from patchkit.plan import landing
from patchkit.plan.status import State
from patchkit.tree.modules import Modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.codemods.kind import Kind
    from patchkit.codemods.language.pattern import Match
    from patchkit.codemods.language.placeholders import Bindings
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.tree.tree import Tree

    _Form = tuple[str, str]


class Conflict(msgspec.Struct, frozen=True):
    """An edit without an unambiguous site in a tree; a conflict without an ``edit`` is about its whole patch.

    ``found`` are lines ``line`` (from 1) to ``end`` (exclusive) of the file: the statements that the edit looks for,
    from the first to the last that exist. If none exist, ``found`` is empty and ``line`` is the first line of the
    scope's code, the end of the class or file if the scope is missing, or 0 if the file is missing. ``expected`` is the
    closest of the forms that the edit accepts, and ``wanted`` its new code, both with this tree's names as far as they
    are known.
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
    """Return every edit in conflict with its site in ``tree``; a patch in conflict without edits counts as one."""
    modules = Modules(tree)
    stuck: list[Conflict] = []
    for status in statuses:
        if status.state is not State.CONFLICT:
            continue
        conflicting = [edit for edit in status.edits if edit.state is State.CONFLICT]
        stuck += [_conflict(modules, status.patch, edit) for edit in conflicting]
        if not status.edits:
            stuck.append(Conflict(status.patch.id, "", "", status.patch.title, "", "", status.reason))
    return tuple(stuck)


def at_site(tree: Tree, patch: Patch, edit: EditStatus) -> Conflict:
    """Return the conflict of an edit with its site in ``tree``."""
    return _conflict(Modules(tree), patch, edit)


def missing_line(tree: Tree, patch: Patch, status: EditStatus) -> str:
    """Return the line of an edit's new code that is missing at its site, and the closest line; empty without one."""
    if patch.diffs:
        return ""
    edit = next(edit for edit in patch.edits if edit.name == status.name)
    module = Modules(tree).get(status.file)
    scopes = resolve(module, status.site) if module is not None else []
    made = [Pattern.compile(texts.in_place(find, code)) for find, code in edit.kind.forms if code.strip()]
    is_near = len(scopes) == 1 and nearest_of(scopes[0], made)
    return unmatched(scopes[0], made).numbered() if is_near else ""


def _conflict(modules: Modules, patch: Patch, status: EditStatus) -> Conflict:
    edit = next(edit for edit in patch.edits if edit.name == status.name)
    kind = str(type(edit.kind).__struct_config__.tag)
    fields = (patch.id, edit.name, kind, edit.why, status.file, status.site, status.reason)
    if patch.diffs:
        clash = landing.clash(patch, modules.tree, status.name)
        return Conflict(*fields, *clash)
    forms = edit.kind.forms or (("", "\n".join(edit.kind.written)),)
    source, module = modules.source(status.file), modules.get(status.file)
    if source is None or module is None:
        return Conflict(*fields, expected=readable(forms[0][0], {}), wanted=readable(forms[0][1], {}))
    # `bytes.splitlines` splits where Python's tokenizer does; `str.splitlines` splits at more characters.
    lines = source.splitlines(keepends=True)
    start, end, place = _lines(module, status.site, edit.kind, forms, len(lines))
    text = b"".join(lines[start:end]).decode(module.encoding)
    if place is None:
        form = max(forms, key=lambda candidate: difflib.SequenceMatcher(None, candidate[0], text).ratio())
    else:
        form = place.form
    bindings = _known(module, status.site, edit.kind, place)
    return Conflict(*fields, start + 1, end + 1, text, *(readable(code, bindings) for code in form))


def _known(module: cst.Module, site: str, kind: Kind, place: _FoundPlace | None) -> Bindings:
    """Return what the names of an edit stand for at its site and around it, as far as that is known."""
    scopes = resolve(module, site)
    context = tuple(map(Pattern.compile, getattr(kind, "context", ())))
    around = bindings_given(scopes[0], context) if len(scopes) == 1 else {}
    bound = around if isinstance(around, dict) else {}
    if place is None:
        return bound
    (*block, (_, first)), (_, last) = place.first, place.last[-1]
    body = syntax.statements_of(syntax.node_at(module, tuple(block)))
    nodes: tuple[cst.CSTNode, ...] = (syntax.node_at(module, place.first),)  # An `elif` is in no block.
    if body is not None and first is not None and last is not None:
        nodes = tuple(body[first : last + 1])
    matched = place.bindings
    if matched is None:
        matched = partly_bound(Pattern.compile(place.form[0]), nodes)
    return {"found": nodes, **matched, **bound}


class _FoundPlace(NamedTuple):
    """The first and last statement that an edit looks for, and the form (pattern and new code) that found them.

    ``bindings`` are the names on which all matches agree; None if the form matches only in part.
    """

    first: Path
    last: Path
    form: _Form
    bindings: Bindings | None = None


def _lines(
    module: cst.Module, site: str, kind: Kind, forms: Sequence[_Form], end: int
) -> tuple[int, int, _FoundPlace | None]:
    """Return the range of lines, from 0, that an edit looks for, and the place and form that were found.

    Without a match, the range covers the nearest statements. Without those, it is empty: at the scope's first
    statement, after the class if the scope is missing from it, or else at ``end``. For an edit of a header, the range
    is the header.
    """
    scopes = resolve(module, site)
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    if len(scopes) != 1:
        outer = resolve(module, site.rpartition(".")[0]) if "." in site else []
        behind = positions[outer[0].node].end.line if len(outer) == 1 else end
        return behind, behind, None
    (scope,) = scopes
    node = scope.node
    is_in_header = kind.is_of_headers and isinstance(node, cst.FunctionDef)
    place = None if is_in_header else _place(scope, [form for form in forms if form[0].strip()])
    if place is not None:
        first, last = (positions[syntax.node_at(module, path)] for path in place[:2])
        return first.start.line - 1, last.end.line, place
    # The body of a one-line function has no line of its own.
    top = positions.get(scope.body[0], positions[node]).start.line - 1 if scope.body else end
    if kind.is_of_headers and isinstance(node, cst.FunctionDef | cst.ClassDef):
        first = positions[node.decorators[0] if node.decorators else node]
        return first.start.line - 1, max(top, positions[node].start.line), None
    return top, top, None


def _place(scope: Scope, forms: Sequence[_Form]) -> _FoundPlace | None:
    """Return the statements that an edit looks for in a scope, or the nearest ones; None if nothing is similar."""
    finds = {Pattern.compile(form[0]): form for form in forms}
    for find, form in finds.items():
        matches = find.find(scope.node, scope.path)
        if matches:
            return _around(scope, matches, form)
    near = nearest_of(scope, finds)
    if near is not None:
        find, run = near
        statements = [(*run.block, ("body", index)) for index in range(run.start, run.end)]
        if all(_is_plain(scope, path) for path in statements):
            return _FoundPlace(statements[0], statements[-1], finds[find])
    for find, form in finds.items():
        line = closest(scope, find.text)
        if line is not None and _is_plain(scope, line) and is_like(find, syntax.node_at(scope.module, line)):
            return _FoundPlace(line, line, form)
    return None


def _around(scope: Scope, matches: Sequence[Match], form: _Form) -> _FoundPlace | None:
    """Return the range from the first to the last match in one block, or None if they are in the scope's header."""
    first = statement_at(scope.module, statement_path(matches[0]))
    if len(first) <= len(scope.path):
        return None
    last = first
    for match in matches:
        end = match.path if match.start is None else (*match.path, ("body", (match.end or 1) - 1))
        place = statement_at(scope.module, end)
        if place[:-1] == first[:-1] and syntax.order(place) > syntax.order(last):
            last = place
    return _FoundPlace(first, last, form, agreed(matches))


def _is_plain(scope: Scope, place: Path) -> bool:
    """Return whether a statement is not a definition; a whole function or class is too much for a site."""
    return not isinstance(syntax.node_at(scope.module, place), cst.FunctionDef | cst.ClassDef)

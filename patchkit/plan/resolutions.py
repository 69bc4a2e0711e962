"""Record how a person resolved a conflict, and reuse the resolution, on request, wherever the same code occurs."""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.codemods.language import syntax
from patchkit.codemods.language.scope import resolve
from patchkit.lines import encoding_of
from patchkit.plan.markers import indent_of
from patchkit.plan.status import ACCEPTED, BY_HAND, IN_PLACE, FileChange, Plan, State, note_of
from patchkit.tree.nesting import parse_module
from patchkit.tree.nodes import walk
from patchkit.tree.source import fault_of, parsed_or_none
from patchkit.tree.text import newline_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import Tree


class Resolution(msgspec.Struct, frozen=True):
    """The lines, indented by ``indent``, with which a person replaced the ``found`` code.

    Resolutions of older versions have no ``found``.
    """

    patch: str
    edit: str
    indent: str
    text: str
    found: str = ""


ResolutionLookup = Callable[[str], Resolution | None]
"""A function that returns the resolution with a given key, or None."""


class RecalledFile(NamedTuple):
    """A file with recorded resolutions in it, and their edits as patch id and edit name."""

    text: bytes
    edits: tuple[tuple[str, str], ...]


def resolution(
    conflict: Conflict, source: bytes, text: bytes, note: str = ""
) -> tuple[str, Resolution] | None:
    """Return a person's resolution of a conflict in ``source`` with its key, or None.

    A ``note`` is put above it as a comment. Unchanged code is no resolution: the person edited another place. Nor is
    code that is not in the source's encoding.
    """
    name = _name(conflict, source)
    encoding = encoding_of(source)
    try:
        # `bytes.splitlines` splits where Python's tokenizer does; `str.splitlines` splits at more characters.
        lines = [line.decode(encoding) for line in text.splitlines()]
    except UnicodeDecodeError:
        return None
    if name and conflict.found.strip():
        name = name if _normalized(conflict.found) != _normalized("\n".join(lines)) else ""
    if not name:
        return None
    indent = indent_of(next((line for line in lines if line.strip()), "").encode()).decode()
    lines = [f"{indent}{note}", *lines] if note else lines
    return name, Resolution(conflict.patch, conflict.edit, indent, "\n".join(lines), conflict.found)


def dropped_names(
    text_found: bytes, expected: Iterable[str], text: bytes, files: tuple[bytes, bytes]
) -> list[str]:
    """Return the names that the found lines call or access, no pattern expects, and the new lines lack.

    ``files`` are the whole file before and after; names that moved elsewhere in it are not returned.
    """
    before, after = (Counter(re.findall(r"\w+", file.decode(errors="replace"))) for file in files)
    words = set(re.findall(r"\w+", f"{' '.join(expected)} {text.decode(errors='replace')}"))
    return sorted(name for name in _accessed_names(text_found) - words if after[name] < before[name])


def _accessed_names(code: bytes) -> set[str]:
    """Return the names of the attributes and called functions in some lines, none if the lines do not parse."""
    tree = parsed_or_none(textwrap.dedent(code.decode(errors="replace")))
    nodes = walk(tree) if tree is not None else []
    called = {
        node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return called | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def recall_resolutions(
    tree: Tree, conflicts: Iterable[Conflict], get: ResolutionLookup
) -> dict[str, RecalledFile]:
    """Return the files of ``tree`` with recorded resolutions in place of their conflicts."""
    recalled: dict[str, RecalledFile] = {}
    top: dict[str, int] = {}
    # From last to first, so that earlier line numbers stay valid.
    for conflict in sorted(conflicts, key=lambda conflict: (conflict.file, -conflict.line)):
        source = tree.read(conflict.file)
        if source is None or conflict.end > top.get(conflict.file, conflict.end):
            continue
        text, edits = recalled.get(conflict.file, RecalledFile(source, ()))
        written = _recall(conflict, source, text, get)
        if written is not None:
            recalled[conflict.file] = RecalledFile(written, (*edits, (conflict.patch, conflict.edit)))
            top[conflict.file] = conflict.line
    return recalled


def with_recalled(tree: Tree, plan: Plan, recalled: Mapping[str, RecalledFile]) -> Plan:
    """Return a plan that was made for the files in ``recalled`` as a plan for ``tree`` that includes their edits."""
    edits = frozenset(edit for entry in recalled.values() for edit in entry.edits)
    changes = {change.file: change for change in plan.changes}
    for file, entry in recalled.items():
        change = changes.get(file, FileChange(file, None, entry.text, ()))
        patches = tuple(dict.fromkeys((*change.patches, *(patch for patch, _ in entry.edits))))
        changes[file] = replace(change, before=tree.read(file), patches=patches)
    statuses = tuple(_pending(status, edits) for status in plan.patches)
    return Plan(tree, statuses, tuple(changes.values()), edits)


def _pending(status: PatchStatus, made: Collection[tuple[str, str]]) -> PatchStatus:
    edits = tuple(
        replace(edit, state=State.PENDING, reason="uses your resolution from elsewhere")
        if (status.patch.id, edit.name) in made
        else edit
        for edit in status.edits
    )
    state = State.PENDING if edits != status.edits and status.state in IN_PLACE else status.state
    return replace(status, state=state, edits=edits)


def _recall(conflict: Conflict, source: bytes, text: bytes, get: ResolutionLookup) -> bytes | None:
    """Return ``text``, which equals ``source`` up to the conflict, with the recorded resolution, or None."""
    name = _name(conflict, source)
    recalled = get(name) if name else None
    if recalled is None or (recalled.patch, recalled.edit) != (conflict.patch, conflict.edit):
        return None
    lines = text.splitlines(keepends=True)
    start, end = conflict.line - 1, conflict.end - 1
    indent = indent_of(lines[start]).decode() if start < len(lines) else recalled.indent
    code = recalled.text.split("\n") if recalled.text else []
    if indent != recalled.indent:
        # Reindenting would change multi-line strings.
        if '"""' in recalled.text or "'''" in recalled.text:
            return None
        code = [f"{indent}{line}" if line else "" for line in textwrap.dedent(recalled.text).split("\n")]
    if ACCEPTED not in recalled.text:
        code.insert(0, f"{indent}{note_of(conflict.patch, conflict.edit, BY_HAND)}")
    try:
        written = [line.encode(encoding_of(source)) + newline_of(source) for line in code]
    except UnicodeEncodeError:
        return None
    result = b"".join([*lines[:start], *written, *lines[end:]])
    return result if fault_of(result) is None or fault_of(text) is not None else None


def _name(conflict: Conflict, source: bytes) -> str:
    code = conflict.found if conflict.found.strip() else _scope(conflict, source)
    if not conflict.line or not code:
        return ""
    parts = (
        conflict.patch,
        conflict.edit,
        conflict.site if code != conflict.found else "",
        _normalized(code),
    )
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _scope(conflict: Conflict, source: bytes) -> str:
    scopes = resolve(parse_module(source), conflict.site) if conflict.site else []
    return syntax.code_of(scopes[0].node) if len(scopes) == 1 else ""


def _normalized(code: str) -> str:
    """Return code in a form that does not depend on comments, layout or indentation."""
    text = textwrap.dedent(code)
    tree = parsed_or_none(text)
    return " ".join(text.split()) if tree is None else ast.dump(tree)

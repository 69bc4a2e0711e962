"""What a person made of a conflict is known wherever the same code stands, and taken only when that is asked for."""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
import msgspec

from patchkit.codemods.language import syntax
from patchkit.codemods.language.scope import resolve
from patchkit.plan.markers import indent_of, newline_of
from patchkit.plan.status import ACCEPTED, BY_HAND, FileChange, Plan, State, note_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import Tree


class Resolution(msgspec.Struct, frozen=True):
    """The lines that took the place of what was ``found``, which were indented by ``indent``.

    One that was kept before does not say what was found.
    """

    patch: str
    edit: str
    indent: str
    text: str
    found: str = ""


Known = Callable[[str], Resolution | None]
"""Returns what a person wrote that is kept under a name."""


class Recalled(NamedTuple):
    """A file with what a person wrote before for some edits, each its patch's id and its name."""

    text: bytes
    edits: tuple[tuple[str, str], ...]


def resolution(
    conflict: Conflict, source: bytes, text: bytes, note: str = ""
) -> tuple[str, Resolution] | None:
    """Return what a person wrote for a conflict in ``source`` with the name to keep it under; None if it has none.

    A ``note`` stands above it as a comment. What was found and left as it was is no answer: the person wrote elsewhere.
    """
    name = _name(conflict, source)
    if name and conflict.found.strip():
        name = name if _meaning(conflict.found) != _meaning(text.decode(errors="surrogateescape")) else ""
    if not name:
        return None
    lines = text.decode(errors="surrogateescape").splitlines()
    indent = indent_of(next((line for line in lines if line.strip()), "").encode()).decode()
    lines = [f"{indent}{note}", *lines] if note else lines
    return name, Resolution(conflict.patch, conflict.edit, indent, "\n".join(lines), conflict.found)


def dropped(found: bytes, expected: Iterable[str], text: bytes, files: tuple[bytes, bytes]) -> list[str]:
    """Return what the lines that were found call or look up, no pattern expects, and the lines in their place lack.

    ``files`` are the whole file before and after: what went elsewhere in it is not lost.
    """
    before, after = (Counter(re.findall(r"\w+", file.decode(errors="replace"))) for file in files)
    known = set(re.findall(r"\w+", f"{' '.join(expected)} {text.decode(errors='replace')}"))
    return sorted(name for name in _asked(found) - known if after[name] < before[name])


def _asked(code: bytes) -> set[str]:
    """Return the names of the attributes and functions in some lines; none where they are no Python by themselves."""
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(code.decode(errors="replace")))))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    called = {
        node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return called | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def recalled(tree: Tree, conflicts: Iterable[Conflict], known: Known) -> dict[str, Recalled]:
    """Return the files of ``tree`` with what a person wrote before for the conflicts in them."""
    found: dict[str, Recalled] = {}
    top: dict[str, int] = {}
    # Last one first, so that the lines of those before stay right.
    for conflict in sorted(conflicts, key=lambda each: (each.file, -each.line)):
        source = tree.read(conflict.file)
        if source is None or conflict.end > top.get(conflict.file, conflict.end):
            continue
        text, edits = found.get(conflict.file, Recalled(source, ()))
        written = _recall(conflict, source, text, known)
        if written is not None:
            found[conflict.file] = Recalled(written, (*edits, (conflict.patch, conflict.edit)))
            top[conflict.file] = conflict.line
    return found


def with_recalled(tree: Tree, plan: Plan, found: Mapping[str, Recalled]) -> Plan:
    """Return a plan made for the files in ``found`` as one for ``tree``, which makes those edits too."""
    edits = frozenset(edit for known in found.values() for edit in known.edits)
    changes = {change.file: change for change in plan.changes}
    for file, known in found.items():
        change = changes.get(file, FileChange(file, None, known.text, ()))
        patches = tuple(dict.fromkeys((*change.patches, *(patch for patch, _ in known.edits))))
        changes[file] = replace(change, before=tree.read(file), patches=patches)
    statuses = tuple(_pending(status, edits) for status in plan.patches)
    return Plan(tree, statuses, tuple(changes.values()), edits)


def _pending(status: PatchStatus, made: Collection[tuple[str, str]]) -> PatchStatus:
    edits = tuple(
        replace(edit, state=State.PENDING, reason="as you resolved it elsewhere")
        if (status.patch.id, edit.name) in made
        else edit
        for edit in status.edits
    )
    there = {State.APPLIED, State.UPSTREAM}
    state = State.PENDING if edits != status.edits and status.state in there else status.state
    return replace(status, state=state, edits=edits)


def _recall(conflict: Conflict, source: bytes, text: bytes, known: Known) -> bytes | None:
    """Return ``text``, which is ``source`` up to the conflict, with what a person wrote for it; None if nobody did."""
    name = _name(conflict, source)
    found = known(name) if name else None
    if found is None or (found.patch, found.edit) != (conflict.patch, conflict.edit):
        return None
    lines = text.splitlines(keepends=True)
    start, end = conflict.line - 1, conflict.end - 1
    indent = indent_of(lines[start]).decode() if start < len(lines) else found.indent
    code = found.text
    if indent != found.indent:
        # To move the lines would change a string of several of them.
        if '"""' in code or "'''" in code:
            return None
        code = textwrap.indent(textwrap.dedent(code), indent)
    note = "" if ACCEPTED in code else f"{indent}{note_of(conflict.patch, conflict.edit, BY_HAND)}\n"
    written = [
        line.encode(errors="surrogateescape") + newline_of(source) for line in f"{note}{code}".splitlines()
    ]
    result = b"".join([*lines[:start], *written, *lines[end:]])
    return result if _is_python(result) or not _is_python(text) else None


def _is_python(text: bytes) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _name(conflict: Conflict, source: bytes) -> str:
    code = conflict.found if conflict.found.strip() else _scope(conflict, source)
    if not conflict.line or not code:
        return ""
    said = (conflict.patch, conflict.edit, conflict.site if code != conflict.found else "", _meaning(code))
    return hashlib.sha256("\0".join(said).encode(errors="surrogateescape")).hexdigest()


def _scope(conflict: Conflict, source: bytes) -> str:
    scopes = resolve(cst.parse_module(source), conflict.site) if conflict.site else []
    return syntax.code_of(scopes[0].node) if len(scopes) == 1 else ""


def _meaning(code: str) -> str:
    """Return code so that comments, layout and how deep it stands count for nothing."""
    text = textwrap.dedent(code)
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return " ".join(text.split())

"""Edits of a person around the edits of patches in a release, and whether their revert is correct."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.transaction.undo import undo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.plan.status import FileChange


@dataclass
class Tally:
    """How many changes were reverted exactly, how many were refused, and which were reverted wrongly."""

    exact: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return the counts as a row of a Markdown table."""
        return f"| {name} | {self.exact} | {self.refused} | {len(self.wrong)} |"


def code(text: bytes) -> list[bytes]:
    """Return the lines that are not blank."""
    return [line for line in text.splitlines() if line.strip()]


def blank_lines(changes: Sequence[FileChange]) -> Tally:
    """Put a blank line on both sides of each change, one at a time, and revert the change."""
    tally = Tally()
    for change in changes:
        if change.before is None or change.after is None:
            continue
        old, new = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
        for tag, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            mine = b"".join([*new[:start], b"\n", *new[start:end], b"\n", *new[end:]])
            left = undo(change.file, change.after, mine, change.before).text or b""
            if code(left) == code(change.before):
                tally.exact += 1
            else:
                tally.wrong.append(f"{change.file}:{start}")
    return tally


@dataclass(frozen=True)
class Function:
    start: int
    end: int


def functions(text: bytes) -> dict[tuple[str, ...], Function]:
    found = {}

    def walk(node: ast.AST, above: tuple[str, ...]) -> None:
        for below in ast.iter_child_nodes(node):
            if isinstance(below, (ast.FunctionDef, ast.ClassDef)):
                name = (*above, below.name)
                first = min([below.lineno, *(node.lineno for node in below.decorator_list)])
                if isinstance(below, ast.FunctionDef):
                    found[name] = Function(first - 1, below.end_lineno or 0)
                walk(below, name)
            else:
                walk(below, above)

    walk(ast.parse(text), ())
    return found


def copies(lines: list[bytes], name: str, known: Function) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield a copy of a function, and the file with it: after it, before it, or in a class."""
    body = lines[known.start : known.end]
    renamed = [re.sub(rb"\bdef %s\b" % name.encode(), b"def mine", line) for line in body]
    indent = len(body[0]) - len(body[0].lstrip())
    owned = [b"class Mine:\n", *(b"    " + line[indent:] if line.strip() else line for line in body)]
    yield renamed, [*lines[: known.end], b"\n", *renamed, *lines[known.end :]]
    yield renamed, [*lines[: known.start], *renamed, b"\n", *lines[known.start :]]
    yield owned, [*lines, b"\n\n", *owned]
    yield body, [*lines[: known.end], b"\n", *body, *lines[known.end :]]


def without(lines: list[bytes], part: list[bytes]) -> list[list[bytes]]:
    ends = range(len(part), len(lines) + 1)
    return [lines[: end - len(part)] + lines[end:] for end in ends if lines[end - len(part) : end] == part]


def copied_functions(changes: Sequence[FileChange]) -> Tally:
    """Copy each patched function, in each way of `copies`, and revert the change of its file.

    A second definition of the same name is always refused.
    """
    tally = Tally()
    for change in changes:
        if change.before is None or change.after is None:
            continue
        old, new = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
        before = functions(change.before)
        for name, function in functions(change.after).items():
            was = before.get(name, Function(0, 0))
            if old[was.start : was.end] == new[function.start : function.end]:
                continue
            for copy, mine in copies(new, name[-1], function):
                try:
                    merged = undo(change.file, change.after, b"".join(mine), change.before)
                except ConflictError:
                    tally.refused += 1
                    continue
                proof = code(merged.stripped or b"")
                kept = set(code(merged.text or b"")) - set(proof)
                left = without(proof, code(b"".join(copy)))
                imports = all(b"import" in line for line in kept)
                if code(change.before) in left and imports:
                    tally.exact += 1
                else:
                    tally.wrong.append(f"{change.file}: {'.'.join(name)}")
    return tally

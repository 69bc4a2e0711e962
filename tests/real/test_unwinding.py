"""Every edit that the patches make in a release is taken back from under what a person did around it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from support.releases import REFERENCE

from patchkit.errors import ConflictError
from patchkit.transaction.merge import merge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.releases import Releases


class Changed(NamedTuple):
    file: str
    before: bytes
    after: bytes


def changed(releases: Releases) -> list[Changed]:
    changes = releases.plan(REFERENCE).changes
    return [
        Changed(c.file, c.before, c.after) for c in changes if c.before is not None and c.after is not None
    ]


def code(text: bytes) -> list[bytes]:
    """Return the lines that are not blank."""
    return [line for line in text.splitlines() if line.strip()]


def test_blank_line_on_both_sides_of_any_site_stays_no_obstacle(releases: Releases) -> None:
    wrong, sites = [], 0
    for change in changed(releases):
        old, new = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
        for tag, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            sites += 1
            mine = b"".join([*new[:start], b"\n", *new[start:end], b"\n", *new[end:]])
            left = merge(change.file, change.after, mine, change.before).text or b""
            if code(left) != code(change.before):
                wrong.append(f"{change.file}:{start}")
    assert not wrong
    assert sites > 90


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
                first = min([below.lineno, *(each.lineno for each in below.decorator_list)])
                if isinstance(below, ast.FunctionDef):
                    found[name] = Function(first - 1, below.end_lineno or 0)
                walk(below, name)
            else:
                walk(below, above)

    walk(ast.parse(text), ())
    return found


def copies(lines: list[bytes], name: str, known: Function) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield a copy that a person made of a function, and the file with it: behind it, before it, in a class."""
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


def test_copy_of_any_patched_function_stays_and_the_function_itself_is_reverted(releases: Releases) -> None:
    wrong, exact, refused = [], 0, 0
    for change in changed(releases):
        old, new = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
        before = functions(change.before)
        for name, known in functions(change.after).items():
            was = before.get(name, Function(0, 0))
            if old[was.start : was.end] == new[known.start : known.end]:
                continue
            for copy, mine in copies(new, name[-1], known):
                try:
                    merged = merge(change.file, change.after, b"".join(mine), change.before)
                except ConflictError:
                    refused += 1
                    continue
                kept = [line for line in code(merged.text or b"") if line not in code(merged.proof or b"")]
                left = without(code(merged.proof or b""), code(b"".join(copy)))
                imports = all(b"import" in line for line in kept)
                if code(change.before) in left and imports:
                    exact += 1
                else:
                    wrong.append(f"{change.file}: {'.'.join(name)}")
    assert not wrong
    # A second definition of the same name is always refused.
    assert exact > 2 * refused > 60

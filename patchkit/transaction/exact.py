"""Undo a ported change in a file that has other changes: exactly, or with a conflict.

If no line of another change is adjacent, lines are undone. Otherwise statements are, in Python only, and each
statement that is kept must remain in the same blocks.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from patchkit.change.undefined import undefined_names
from patchkit.errors import ConflictError
from patchkit.transaction.merge import MergeResult, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Opcode = tuple[str, int, int, int, int]
_Header = tuple[str, str, str]
"""A statement's kind, its name, and its code without its blocks."""
_Path = tuple[_Header, ...]
_CONTEXT = 3
"""The number of lines around a change that must be the same to undo it."""
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def merge_exactly(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> MergeResult:
    """Make in ``ours`` each change from ``base`` to ``theirs``, as ``merge`` does, and no other.

    Raise ConflictError also if code of ``ours`` would be moved to another block, or use an undefined name.
    """
    if base is None or ours is None or theirs is None or base in (ours, theirs) or ours == theirs:
        return merge(file, base, ours, theirs)
    is_python = file.endswith(".py")
    merged = _merge_lines(base, ours, theirs)
    if merged is not None and (not is_python or _keeps_blocks(base, ours, theirs, merged)):
        text = merged
    elif not is_python:
        raise ConflictError(
            "the ported lines were edited after the port",
            where=file,
            advice="undo that edit and revert again",
        )
    else:
        text = merge(file, base, ours, theirs, exact=True).text or b""
        if not _keeps_blocks(base, ours, theirs, text):
            raise ConflictError(
                "other code was added inside a ported block",
                where=file,
                advice="move that code out of the block and revert again",
            )
    missing = undefined_names(ours, text) if is_python else []
    known = {name for name, _ in undefined_names(b"", theirs)} if missing else set[str]()
    for name, line in (each for each in missing if each[0] not in known):
        raise ConflictError(
            f"{name} would be undefined", where=f"{file}:{line}", advice="remove its use and revert again"
        )
    return MergeResult(text, text)


def undo_block(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return ``ours`` with the lines of ``theirs`` for all those from the first to the last that differ in ``base``.

    Return None if ``ours`` does not have these lines of ``base``, with the ones around them, at exactly one place, or
    has those of ``theirs`` too. This checks nothing else, and is much faster than ``merge_exactly`` if ``ours`` has
    other changes.
    """
    base_lines, their_lines = base.splitlines(keepends=True), theirs.splitlines(keepends=True)
    length = min(len(base_lines), len(their_lines))
    start = next((at for at in range(length) if base_lines[at] != their_lines[at]), length)
    # The equal lines at the end do not overlap those at the start.
    same = next(
        (at for at in range(length - start) if base_lines[-1 - at] != their_lines[-1 - at]), length - start
    )
    first, last = max(start - _CONTEXT, 0), max(same - _CONTEXT, 0)
    old, new = (b"".join(lines[first : len(lines) - last]) for lines in (base_lines, their_lines))
    text, old, new = (b"\n" + each for each in (ours, old, new))
    # Of equal lines, those that were changed cannot be distinguished.
    return None if text.count(old) != 1 or new in text else text.replace(old, new)[1:]


def _merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the result of both changes, or None if lines that they change are adjacent."""
    base_lines, our_lines, their_lines = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    their_changes, our_changes = _changes(base_lines, their_lines), _changes(base_lines, our_lines)
    for _, start, end, _, _ in their_changes:
        if any(start <= other[2] and other[1] <= end for other in our_changes):
            return None
    changes = [(code, our_lines) for code in our_changes] + [(code, their_lines) for code in their_changes]
    merged: list[bytes] = []
    last = 0
    for (_, start, end, source_start, source_end), source in sorted(changes, key=lambda each: each[0][1]):
        merged += [*base_lines[last:start], *source[source_start:source_end]]
        last = end
    text = b"".join([*merged, *base_lines[last:]])
    return (
        None
        if _has_removed_line(Counter(base_lines), Counter(our_lines), Counter(their_lines), text)
        else text
    )


def _changes(base: Sequence[bytes], other: Sequence[bytes]) -> list[_Opcode]:
    codes = SequenceMatcher(None, base, other, autojunk=False).get_opcodes()
    return [code for code in codes if code[0] != "equal"]


def _has_removed_line(
    base: Counter[bytes], ours: Counter[bytes], theirs: Counter[bytes], text: bytes
) -> bool:
    """Return whether a removed line occurs as often as before, because it was moved."""
    merged = Counter(text.splitlines(keepends=True))
    return any(
        line.strip() and ours[line] >= base[line] and merged[line] > ours[line] - times
        for line, times in (base - theirs).items()
    )


def _keeps_blocks(base: bytes, ours: bytes, theirs: bytes, merged: bytes) -> bool:
    """Return whether each statement of a result is in the same blocks as before, or as in ``theirs``."""
    try:
        base_paths, our_paths, their_paths, merged_paths = (
            list(_statement_paths(text)) for text in (base, ours, theirs, merged)
        )
    except (SyntaxError, ValueError, RecursionError):
        return False
    # A block with a changed header is still the same block.
    renamed = _renamed_headers(base_paths, our_paths) | _renamed_headers(base_paths, their_paths)
    b, o, t, m = (
        Counter(tuple(renamed.get(part, part) for part in path) for path in paths)
        for paths in (base_paths, our_paths, their_paths, merged_paths)
    )
    return not m - o - (t - b) and not o - m - (b - t)


def _renamed_headers(one: Sequence[_Path], other: Sequence[_Path]) -> dict[_Header, _Header]:
    """Return the changed headers of another version by the original ones, matched by kind and name, or by kind."""
    old_headers, new_headers = ({header for path in paths for header in path[:-1]} for paths in (one, other))
    found: dict[_Header, _Header] = {}
    for length in (2, 1):
        removed, added = (
            old_headers - new_headers - {*found.values()},
            new_headers - old_headers - found.keys(),
        )
        removed_by_key = {header[:length]: header for header in removed}
        counts = Counter(header[:length] for header in removed), Counter(header[:length] for header in added)
        found |= {
            header: removed_by_key[header[:length]]
            for header in added
            if counts[0][header[:length]] == counts[1][header[:length]] == 1
        }
    return found


def _statement_paths(text: bytes) -> Iterator[_Path]:
    """Yield each statement of a source with the headers of the blocks that contain it, outermost first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, "it", "exec", dont_inherit=True)
        module = ast.parse(text)
    remaining: list[tuple[ast.AST, _Path]] = [(each, ()) for each in module.body]
    while remaining:
        node, enclosing = remaining.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = f"{node.level} {node.module}" if isinstance(node, ast.ImportFrom) else ""
            yield from ((*enclosing, ("import", source, ast.dump(name))) for name in node.names)
            continue
        code: list[str] = []
        blocks: list[tuple[str, list[ast.AST]]] = []
        for name, part in ast.iter_fields(node):
            rows = part if isinstance(part, list) else [part]
            if any(isinstance(each, _BLOCKS) for each in rows):
                blocks.append((name, rows))
            else:
                code += [ast.dump(each) if isinstance(each, ast.AST) else repr(each) for each in rows]
        header = (type(node).__name__, str(getattr(node, "name", "")), " ".join(code))
        yield (*enclosing, header)
        for name, rows in blocks:
            remaining += [(each, (*enclosing, header, ("in", name, ""))) for each in rows]

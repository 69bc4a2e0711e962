"""Undo a ported change in a file that has other changes: exactly, or with a conflict.

If no line of another change is adjacent, lines are undone. Otherwise statements are, in Python only, and each
statement that stays must stay in the same blocks.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.plan.undefined import undefined_names
from patchkit.transaction.merge import MergeResult, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Opcode = tuple[str, int, int, int, int]
_Header = tuple[str, str, str]
"""A statement's kind, its name, and its code without its blocks."""
_Path = tuple[_Header, ...]
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def merged_exactly(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> MergeResult:
    """Make in ``ours`` each change from ``base`` to ``theirs``, as ``merge`` does, and no other.

    Raise ConflictError also if code of ``ours`` would be moved to another block, or use an undefined name.
    """
    if base is None or ours is None or theirs is None or base in (ours, theirs) or ours == theirs:
        return merge(file, base, ours, theirs)
    is_python = file.endswith(".py")
    made = _by_lines(base, ours, theirs)
    if made is not None and (not is_python or _keeps_its_place(base, ours, theirs, made)):
        text = made
    elif not is_python:
        raise ConflictError(
            "the ported lines were edited after the port",
            where=file,
            advice="undo that edit and revert again",
        )
    else:
        text = merge(file, base, ours, theirs, exact=True).text or b""
        if not _keeps_its_place(base, ours, theirs, text):
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


def _by_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the result of both changes if their lines are apart, else None."""
    lines, mine, wanted = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    made, others = _changes(lines, wanted), _changes(lines, mine)
    for _, start, end, _, _ in made:
        if any(start <= other[2] and other[1] <= end for other in others):
            return None
    taken = [(code, mine) for code in others] + [(code, wanted) for code in made]
    found: list[bytes] = []
    last = 0
    for (_, start, end, first, behind), source in sorted(taken, key=lambda each: each[0][1]):
        found += [*lines[last:start], *source[first:behind]]
        last = end
    text = b"".join([*found, *lines[last:]])
    return None if _is_left(Counter(lines), Counter(mine), Counter(wanted), text) else text


def _changes(base: Sequence[bytes], other: Sequence[bytes]) -> list[_Opcode]:
    codes = SequenceMatcher(None, base, other, autojunk=False).get_opcodes()
    return [code for code in codes if code[0] != "equal"]


def _is_left(base: Counter[bytes], ours: Counter[bytes], theirs: Counter[bytes], text: bytes) -> bool:
    """Return whether a removed line is still there as often as before, because it was moved."""
    made = Counter(text.splitlines(keepends=True))
    return any(
        line.strip() and ours[line] >= base[line] and made[line] > ours[line] - times
        for line, times in (base - theirs).items()
    )


def _keeps_its_place(base: bytes, ours: bytes, theirs: bytes, made: bytes) -> bool:
    """Return whether each statement of a result is in the same blocks as before, or as in ``theirs``."""
    try:
        was, mine, wanted, found = (list(_placed(text)) for text in (base, ours, theirs, made))
    except (SyntaxError, ValueError, RecursionError):
        return False
    # A block stays the same if its header changes.
    names = _renamed_headers(was, mine) | _renamed_headers(was, wanted)
    b, o, t, m = (
        Counter(tuple(names.get(part, part) for part in path) for path in paths)
        for paths in (was, mine, wanted, found)
    )
    return not m - o - (t - b) and not o - m - (b - t)


def _renamed_headers(one: Sequence[_Path], other: Sequence[_Path]) -> dict[_Header, _Header]:
    """Return the changed headers of another version by the original ones, matched by kind and name, or by kind."""
    had, has = ({header for path in paths for header in path[:-1]} for paths in (one, other))
    found: dict[_Header, _Header] = {}
    for length in (2, 1):
        gone, come = had - has - {*found.values()}, has - had - found.keys()
        old = {header[:length]: header for header in gone}
        times = Counter(header[:length] for header in gone), Counter(header[:length] for header in come)
        found |= {
            header: old[header[:length]]
            for header in come
            if times[0][header[:length]] == times[1][header[:length]] == 1
        }
    return found


def _placed(text: bytes) -> Iterator[_Path]:
    """Yield each statement of a source with the headers of the blocks that contain it, outermost first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, "it", "exec", dont_inherit=True)
        module = ast.parse(text)
    ahead: list[tuple[ast.AST, _Path]] = [(each, ()) for each in module.body]
    while ahead:
        node, around = ahead.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = f"{node.level} {node.module}" if isinstance(node, ast.ImportFrom) else ""
            yield from ((*around, ("import", source, ast.dump(name))) for name in node.names)
            continue
        said: list[str] = []
        blocks: list[tuple[str, list[ast.AST]]] = []
        for name, part in ast.iter_fields(node):
            rows = part if isinstance(part, list) else [part]
            if any(isinstance(each, _BLOCKS) for each in rows):
                blocks.append((name, rows))
            else:
                said += [ast.dump(each) if isinstance(each, ast.AST) else repr(each) for each in rows]
        header = (type(node).__name__, str(getattr(node, "name", "")), " ".join(said))
        yield (*around, header)
        for name, rows in blocks:
            ahead += [(each, (*around, header, ("in", name, ""))) for each in rows]

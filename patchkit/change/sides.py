"""Merge two sides of a Python file: git's merge by lines, and what conflicts in it by structure, as far as it is sure.

Git merges first, and all that it merges cleanly is taken over, so that the sides differ only where git has a conflict.
Each of these is merged exactly, as a revert has to, in both directions. What is refused, comes out differently, loses a
comment, or uses a name that the other side replaces, stays a conflict, and git writes its markers.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from patchkit.change import exact
from patchkit.change.blocks import merged_counts, same_statements
from patchkit.change.doubts import has_too_much, imports_twice, is_about_more, is_doubtful, restores_imports
from patchkit.change.lines import common_ends
from patchkit.change.outline import NoOutlineError
from patchkit.change.prose import united_lines
from patchkit.change.undefined import undefined_names
from patchkit.change.united import kept_comments, united, united_imports
from patchkit.errors import TreeError
from patchkit.tree.git import git
from patchkit.tree.limits import require_manageable
from patchkit.tree.source import fault_of
from patchkit.tree.text import decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.change.united import Three

_MARKER = 7
_MAX_LINES = 100_000
"""The most lines that are merged for the conflicts of one file together; more take longer than a person waits."""


class Sides(NamedTuple):
    """A text in three versions."""

    base: str
    ours: str
    theirs: str


class Merged(NamedTuple):
    """Three versions with the same text wherever their merge is sure; ``is_whole`` if that is everywhere."""

    sides: Sides
    is_whole: bool


_Part = str | Sides
"""A part of a merged text, or a conflict in it."""


def sides_of(base: bytes, ours: bytes, theirs: bytes) -> Sides | None:
    """Return three versions of a file, or None if one is not Python in UTF-8 with line feeds only, or is too large."""
    contents = (base, ours, theirs)
    ends = {content.endswith(b"\n") for content in contents}
    if len(ends) > 1 or any(b"\r" in content or b"\f" in content for content in contents):
        return None
    try:
        for content in contents:
            require_manageable("it", content)
        sides = Sides(*map(decoded, contents))
    except (TreeError, UnicodeDecodeError):
        return None
    has_mark = any(content.startswith(b"\xef\xbb\xbf") for content in contents)
    return None if has_mark or any(fault_of(text) is not None for text in sides) else sides


def merged(sides: Sides) -> Merged:
    """Merge two sides as far as it is sure."""
    if not sides.base.endswith("\n"):
        joined = merged(Sides(*(f"{text}\n" for text in sides)))
        return Merged(Sides(*(text.removesuffix("\n") for text in joined.sides)), joined.is_whole)
    parts = by_lines(sides)
    if not any(isinstance(part, Sides) for part in parts):
        clean = "".join(map(str, parts))
        clean = clean if fault_of(clean) is None else _sure(sides) or ""
        return Merged(Sides(clean, clean, clean) if clean else sides, bool(clean))
    if is_doubtful(sides, _joined(parts)):
        return Merged(_joined(parts), is_whole=False)
    parts = [
        part
        if isinstance(part, str)
        else united_imports(*part) or united_lines(part, _joined(parts[:index]), _joined(parts)) or part
        for index, part in enumerate(parts)
    ]
    text = _sure(_joined(parts))
    if text is None or any(isinstance(part, Sides) and is_about_more(part) for part in parts):
        _merge_each(parts)
    else:
        parts = [text]
    result = _joined(parts)
    if fault_of(result.ours) is not None or imports_twice(sides, result.ours):
        return Merged(sides, is_whole=False)
    is_whole = not any(isinstance(part, Sides) for part in parts)
    contents = (text.encode() for text in (sides.ours, result.ours, sides.theirs))
    # Also in what git merges, such as an import that it removes.
    if is_whole and (has_too_much(sides, result.ours) or undefined_names(*contents)):
        return Merged(sides, is_whole=False)
    return Merged(result, is_whole)


def _merge_each(parts: list[_Part]) -> None:
    """Merge the conflicts in a text one by one, the others as one of the sides has them."""
    left = _MAX_LINES
    places = [index for index, part in enumerate(parts) if isinstance(part, Sides)]
    for place in places if len(places) > 1 else ():
        part = parts[place]
        assert isinstance(part, Sides)
        for side in range(len(part)) if not is_about_more(part) else ():
            around = [piece if n == place else _side(piece, side) for n, piece in enumerate(parts)]
            whole = _joined(around)
            left -= whole.ours.count("\n")
            text = _sure(whole) if left > 0 else None
            head, tail = (_joined(pieces).ours for pieces in (around[:place], around[place + 1 :]))
            if text is not None and text.startswith(head) and text[len(head) :].endswith(tail):
                parts[place] = text[len(head) : len(text) - len(tail)]
                break


def by_lines(sides: Sides) -> list[_Part]:
    """Return git's merge of the lines."""
    marker = _MARKER
    while any(sign * marker in text for text in sides for sign in "<|=>"):
        marker += 1
    options = ("-p", "--diff3", f"--marker-size={marker}", "-L", "", "-L", "", "-L", "")
    with tempfile.TemporaryDirectory(prefix="patchkit-") as name:
        folder = Path(name)
        for label, text in zip(("base", "ours", "theirs"), sides, strict=True):
            (folder / label).write_bytes(text.encode())
        done = git(folder, "merge-file", *options, "ours", "base", "theirs")
    start, middle, between, end = (re.escape(sign * marker) for sign in "<|=>")
    pattern = rf"^{start} *\n(.*?)^{middle} *\n(.*?)^{between}\n(.*?)^{end} *\n"
    pieces = re.split(pattern, done.stdout.decode(), flags=re.DOTALL | re.MULTILINE)
    parts: list[_Part] = []
    for start_at in range(0, len(pieces), 4):
        parts.append(pieces[start_at])
        if start_at + 1 < len(pieces):
            ours, base, theirs = pieces[start_at + 1 : start_at + 4]
            parts.append(Sides(base, ours, theirs))
    return parts


def _joined(parts: Sequence[_Part]) -> Sides:
    """Return the three versions of a text in parts."""
    return Sides(*("".join(_side(part, side) for part in parts) for side in range(3)))


def _side(part: _Part, side: int) -> str:
    return part if isinstance(part, str) else part[side]


def _sure(sides: Sides) -> str | None:
    """Return the merge of two sides; None if both directions refuse it or they differ, or if something is lost."""
    if any(fault_of(text) is not None for text in sides):
        return None
    alike: Three | None = sides
    with suppress(NoOutlineError):
        alike = united(sides)
    if alike is None:
        return None
    base, ours, theirs = (text.encode() for text in alike)
    versions: list[str] = []
    for pair in ((theirs, ours), (ours, theirs)):
        with suppress(exact.RefusedError, exact.NotPythonError):
            versions.append(exact.merged("x.py", base, *pair).text.decode())
    if not versions or not same_statements(versions[0], versions[-1]):
        return None
    return next(
        (
            text
            for text in versions
            if merged_counts(*alike, text)
            and kept_comments(*sides, text)
            and not restores_imports(sides, text)
        ),
        None,
    )


def marked(sides: Sides, marker_size: int, labels: Sequence[str]) -> str:
    """Return a text with one conflict, of all lines between those at its start and end that no side changes."""
    rows = [text.splitlines(keepends=True) for text in sides]
    start, end = common_ends(*rows)
    base, ours, theirs = ("".join(row[start : len(row) - end]) for row in rows)
    before, after = "".join(rows[1][:start]), "".join(rows[1][len(rows[1]) - end :])
    one, two, three, four = (sign * marker_size for sign in "<|=>")
    return (
        f"{before}{one} {labels[0]}\n{ours}{two} {labels[1]}\n{base}"
        f"{three}\n{theirs}{four} {labels[2]}\n{after}"
    )

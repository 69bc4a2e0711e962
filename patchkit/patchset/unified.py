"""Read unified diffs: the files that each changes, and the text of a file after its hunks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import UsageError
from patchkit.tree.names import is_outside, is_unsafe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_GIT = re.compile(r'diff --git (?:"?a/(?P<old>.+?)"? "?b/(?P<new>.+?)"?)$')
_DEV_NULL = "/dev/null"
_NO_NEWLINE = "\\"
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: (\d+))?")
_EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""The blob id of an empty file."""


class DiffOptions(NamedTuple):
    """The options that name the diff and the tree that it was made on, for messages."""

    diff: str = "--from-diff"
    tree: str = "--on"
    earlier: str = "--on TREE"
    """How to name the tree from before the change, if the named one already has it."""


class Hunk(NamedTuple):
    """Lines of a file, from number ``first``, before and after a change."""

    header: str
    first: int
    old: list[str]
    new: list[str]


@dataclass
class FileSection:
    """A diff's section for one file."""

    old: str | None = None
    new: str | None = None
    is_binary: bool = False
    is_renamed: bool = False
    modes: list[str] = field(default_factory=list)
    base: str = ""
    """The blob id, perhaps abbreviated, of the file before the change; empty if the diff does not state it."""
    result: str = ""
    """The same of the file after it."""
    mode: str = ""
    """The file's mode, if the change keeps it."""
    hunks: list[Hunk] = field(default_factory=list)
    signs: tuple[str, str] = ("", "")
    """What stands before the two names: ``a/`` and ``b/``, or nothing."""

    @property
    def is_cut(self) -> bool:
        """Whether its hunks are missing, although the file's content changes."""
        changes = self.base != self.result and not self.is_binary and not self.hunks
        sides = {text for text in (self.base, self.result) if text.strip("0") and not _EMPTY.startswith(text)}
        return changes and bool(sides)


def sections(text: str, options: DiffOptions) -> Iterator[FileSection]:
    """Yield a diff's section for each file. Raise UsageError if one, or a hunk of it, is incomplete."""
    for section in _sections(text, options):
        if section.is_cut:
            raise UsageError(
                f"{options.diff}: {section.new or section.old} changes there without a hunk",
                advice="pass the complete diff",
            )
        yield section


def _sections(text: str, options: DiffOptions) -> Iterator[FileSection]:
    lines = text.split("\n")
    section: FileSection | None = None
    position = 0
    while position < len(lines):
        line = lines[position].removesuffix("\r")
        header = _GIT.match(line)
        if header:
            if section is not None:
                yield section
            section = FileSection(_unquoted(header["old"]), _unquoted(header["new"]), signs=("a/", "b/"))
        elif line.startswith("diff --git "):  # Other signs, or none: the lines below have the names.
            if section is not None:
                yield section
            section = FileSection()
        elif line.startswith("--- ") and position + 1 < len(lines) and lines[position + 1].startswith("+++ "):
            old, new = (_name(line.removesuffix("\r")) for line in lines[position : position + 2])
            if section is None or section.hunks:
                if section is not None:
                    yield section
                section = FileSection()
            signs = [_sign(name) for name in (old, new)]
            section.signs = (signs[0] or (signs[1] and "a/"), signs[1] or (signs[0] and "b/"))
            section.old, section.new = (
                name and name.removeprefix(sign) for name, sign in zip((old, new), signs, strict=True)
            )
            position += 1
        elif section is not None and line.startswith("@@ "):
            hunk, position = _hunk(lines, position, options)
            section.hunks.append(hunk)
            continue
        elif section is not None and not section.hunks:
            _read_header_line(section, line)
        position += 1
    if section is not None:
        yield section


def _read_header_line(section: FileSection, line: str) -> None:
    """Read a line between a file's name and its first hunk."""
    if line.startswith("new file mode "):
        section.old = None
        section.modes.append(line.rpartition(" ")[2])
    elif line.startswith("deleted file mode "):
        section.new = None
        section.modes.append(line.rpartition(" ")[2])
    elif line.startswith(("old mode ", "new mode ")):
        section.modes.append(line.rpartition(" ")[2])
    elif line.startswith("rename from "):
        section.is_renamed = True
        section.old = section.old or _unquoted(line.removeprefix("rename from "))
    elif line.startswith("rename to "):
        section.new = section.new or _unquoted(line.removeprefix("rename to "))
    elif index := _INDEX.match(line):
        section.base, section.result = index[1], index[2]
        section.mode = index[3] or ""
    elif line.startswith("Binary files ") or line == "GIT binary patch":
        section.is_binary = True


def _name(line: str) -> str | None:
    name = _unquoted(line[4:].partition("\t")[0].strip())
    return None if name == _DEV_NULL else name


def _sign(name: str | None) -> str:
    return name[:2] if name is not None and name.startswith(("a/", "b/")) else ""


def _unquoted(name: str) -> str:
    if "\\" not in name:
        return name.strip('"')
    return (
        name.strip('"')
        .encode("latin-1", "ignore")
        .decode("unicode_escape")
        .encode("latin-1", "ignore")
        .decode(errors="replace")
    )


def _hunk(lines: Sequence[str], position: int, options: DiffOptions) -> tuple[Hunk, int]:
    header = lines[position].removesuffix("\r")
    ranges = _HUNK.match(header)
    if ranges is None:
        raise UsageError(
            f"{options.diff}: {header!r} is not the header of a hunk", advice="pass a unified diff"
        )
    expected = [1 if ranges[group] is None else int(ranges[group]) for group in (2, 4)]
    old: list[str] = []
    new: list[str] = []
    position += 1
    while position < len(lines) and (len(old) < expected[0] or len(new) < expected[1]):
        line = lines[position]
        sign = line[:1] or " "
        if sign == _NO_NEWLINE:
            _without_newline(old, new, lines[position - 1][:1])
        elif sign in " +-":
            old += [f"{line[1:]}\n"] if sign != "+" else []
            new += [f"{line[1:]}\n"] if sign != "-" else []
        else:
            break
        position += 1
    if [len(old), len(new)] != expected:
        raise UsageError(
            f"{options.diff}: the hunk {header} has fewer lines than its header specifies",
            advice="pass the complete diff",
        )
    if position < len(lines) and lines[position].startswith(_NO_NEWLINE):
        _without_newline(old, new, lines[position - 1][:1])
        position += 1
    return Hunk(header, int(ranges[1]), old, new), position


def _without_newline(old: list[str], new: list[str], sign: str) -> None:
    for side in ([old] if sign != "+" else []) + ([new] if sign != "-" else []):
        if side:
            side[-1] = side[-1].removesuffix("\n").removesuffix("\r")


def text_after(file: str, source: str, hunks: Sequence[Hunk], options: DiffOptions) -> str:
    """Return a file's text after its hunks. Raise UsageError if the lines of a hunk are not in it."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", source)
    line_ends = {line.endswith("\r\n") for line in lines if line.endswith("\n")}
    shift = 0
    for hunk in hunks:
        old, new = ([_with_line_end(line, line_ends) for line in side] for side in (hunk.old, hunk.new))
        expected = hunk.first - (1 if old else 0) + shift
        offset = (
            min(_matches(lines, old), key=lambda place: abs(place - expected), default=None)
            if old
            else expected
        )
        if offset is None and new and any(_matches(lines, new)):
            raise UsageError(
                f"{options.diff}: {file}: the tree already has the change of {hunk.header.strip()}",
                advice=f"pass the tree from before the change with {options.earlier}",
            )
        if offset is None or not 0 <= offset <= len(lines):
            raise UsageError(
                f"{options.diff}: {file}: the lines of {hunk.header.strip()} are not in the tree",
                advice=f"pass the tree that the diff was made on with {options.tree}",
            )
        lines[offset : offset + len(old)] = new
        shift += len(new) - len(old)
    return "".join(lines)


def _with_line_end(line: str, line_ends: set[bool]) -> str:
    """Return a line with the line end of its file, if that is uniform; mail programs and editors change line ends."""
    if len(line_ends) != 1 or not line.endswith("\n"):
        return line
    return f"{line.removesuffix(chr(10)).removesuffix(chr(13))}{chr(13) + chr(10) if True in line_ends else chr(10)}"


def _matches(lines: Sequence[str], run: Sequence[str]) -> Iterator[int]:
    first = run[0]
    return (
        offset
        for offset in range(len(lines) - len(run) + 1)
        if lines[offset] == first and list(lines[offset : offset + len(run)]) == list(run)
    )


class Layout(NamedTuple):
    """How the names of a diff lead to the package: the folders that ``patch -p`` strips, and its place below them."""

    depth: int
    place: str

    def file(self, name: str) -> str | None:
        """Return a name as a path from the package, ``..`` for one outside; None if it is too short for that.

        Raise UsageError for an unsafe one.
        """
        parts = name.split("/")
        if any(map(is_unsafe, parts)):
            raise UsageError(
                f"{name!r} leads out of the tree, or into git's folder",
                advice="remove this file from the change",
            )
        rest, place = parts[self.depth :], [*filter(None, self.place.split("/"))]
        if not rest:
            return None
        if rest[: len(place)] == place and len(rest) > len(place):
            return "/".join(rest[len(place) :])
        return "/".join([".."] * len(place) + rest)

    def leading(self, name: str | None) -> str:
        """Return what is stripped of a name."""
        return "".join(f"{part}/" for part in (name or "").split("/")[: self.depth])


def layout_of(names: Sequence[str], is_of: Callable[[str, str], bool], places: Sequence[str]) -> Layout:
    """Return the layout in which names of a diff are files of the package: of several, that of most names.

    ``places`` are those that the package can have in a repository, the likeliest first, and ``is_of`` tells whether a
    name is that of a file of the package. Names without one of these places must be all those of its files.
    """
    depths = range(max((name.count("/") for name in names), default=0))
    for place in (*places, ""):
        best, most = Layout(0, place), 0
        for depth in depths:
            layout = Layout(depth, place)
            files = ((name, _file_or_none(layout, name)) for name in names)
            inside = [(name, file) for name, file in files if file and not is_outside(file)]
            is_known = place.count("/") or (place and depth == 0) or any(is_of(*pair) for pair in inside)
            if not place:
                is_known = len(inside) == len(names) and all(is_of(*pair) for pair in inside)
            if len(inside) > most and is_known:
                best, most = layout, len(inside)
        if most:
            return best
    return Layout(0, places[0])


def _file_or_none(layout: Layout, name: str) -> str | None:
    try:
        return layout.file(name)
    except UsageError:
        return None


def path_in_package(name: str, places: Sequence[str]) -> str | None:
    """Return a path relative to the package, None if it is outside. Raise UsageError for an unsafe one."""
    for place in places:
        if name.startswith(f"{place}/"):
            if any(map(is_unsafe, name.split("/"))):
                raise UsageError(
                    f"{name!r} leads out of the package", advice="remove this file from the change"
                )
            return name.removeprefix(f"{place}/")
    return None


def printed(name: str) -> str:
    """Return a path for a message."""
    return "".join(character if character.isprintable() else "?" for character in name)

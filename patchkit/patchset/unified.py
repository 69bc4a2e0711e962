"""Read unified diffs: the files that each changes, and the text of a file after its hunks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import UsageError
from patchkit.tree.names import is_unsafe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_GIT = re.compile(r'diff --git (?:"?a/(?P<old>.+?)"? "?b/(?P<new>.+?)"?)$')
_DEV_NULL = "/dev/null"
_NO_NEWLINE = "\\"
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.")


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
    hunks: list[Hunk] = field(default_factory=list)


def sections(text: str, options: DiffOptions) -> Iterator[FileSection]:
    """Yield a diff's section for each file. Raise UsageError if a hunk is incomplete."""
    lines = text.split("\n")
    section: FileSection | None = None
    at = 0
    while at < len(lines):
        line = lines[at].removesuffix("\r")
        header = _GIT.match(line)
        if header:
            if section is not None:
                yield section
            section = FileSection(_unquoted(header["old"]), _unquoted(header["new"]))
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            old, new = (_name(each.removesuffix("\r")) for each in lines[at : at + 2])
            if section is None or section.hunks:
                if section is not None:
                    yield section
                section = FileSection()
            section.old, section.new = old, new
            at += 1
        elif section is not None and line.startswith("@@ "):
            hunk, at = _hunk(lines, at, options)
            section.hunks.append(hunk)
            continue
        elif section is not None and not section.hunks:
            _read_header_line(section, line)
        at += 1
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
    elif index := _INDEX.match(line):
        section.base = index[1]
    elif line.startswith("Binary files ") or line == "GIT binary patch":
        section.is_binary = True


def _name(line: str) -> str | None:
    name = _unquoted(line[4:].partition("\t")[0].strip())
    if name == _DEV_NULL:
        return None
    return name[2:] if name.startswith(("a/", "b/")) else name


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


def _hunk(lines: Sequence[str], at: int, options: DiffOptions) -> tuple[Hunk, int]:
    header = lines[at].removesuffix("\r")
    ranges = _HUNK.match(header)
    if ranges is None:
        raise UsageError(
            f"{options.diff}: {header!r} is not the header of a hunk", advice="pass a unified diff"
        )
    expected = [1 if ranges[group] is None else int(ranges[group]) for group in (2, 4)]
    old: list[str] = []
    new: list[str] = []
    at += 1
    while at < len(lines) and (len(old) < expected[0] or len(new) < expected[1]):
        line = lines[at]
        sign = line[:1] or " "
        if sign == _NO_NEWLINE:
            _without_newline(old, new, lines[at - 1][:1])
        elif sign in " +-":
            old += [f"{line[1:]}\n"] if sign != "+" else []
            new += [f"{line[1:]}\n"] if sign != "-" else []
        else:
            break
        at += 1
    if [len(old), len(new)] != expected:
        raise UsageError(
            f"{options.diff}: the hunk {header} has fewer lines than its header specifies",
            advice="pass the complete diff",
        )
    if at < len(lines) and lines[at].startswith(_NO_NEWLINE):
        _without_newline(old, new, lines[at - 1][:1])
        at += 1
    return Hunk(header, int(ranges[1]), old, new), at


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
        at = (
            min(_matches(lines, old), key=lambda place: abs(place - expected), default=None)
            if old
            else expected
        )
        if at is None and new and any(_matches(lines, new)):
            raise UsageError(
                f"{options.diff}: {file}: the tree already has the change of {hunk.header.strip()}",
                advice=f"pass the tree from before the change with {options.earlier}",
            )
        if at is None or not 0 <= at <= len(lines):
            raise UsageError(
                f"{options.diff}: {file}: the lines of {hunk.header.strip()} are not in the tree",
                advice=f"pass the tree that the diff was made on with {options.tree}",
            )
        lines[at : at + len(old)] = new
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
        at
        for at in range(len(lines) - len(run) + 1)
        if lines[at] == first and list(lines[at : at + len(run)]) == list(run)
    )


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

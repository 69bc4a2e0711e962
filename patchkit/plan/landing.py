"""Evaluate a patch that is a diff: make its change in the tree as it is, and derive the state of each of its edits.

In place is what landing finds already there. What it can make is pending, with the merged text as the change; all else
is a conflict, with landing's reason. A file that it changes gets one comment that says whose the change is.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from patchkit.change.edits import Outcome
from patchkit.change.follow import Trees, alike, outlined
from patchkit.change.land import NOT_MADE, home_of, land
from patchkit.lines import encoding_of
from patchkit.memory import RecentCache
from patchkit.plan.comments import COMMENT_PREFIX, without_comments
from patchkit.plan.status import EditStatus, State
from patchkit.tree.source import INVALID, first_line, parsed
from patchkit.tree.text import newline_of
from patchkit.tree.tree import MemoryTree, TreeAbove

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.change.edits import EditOutcome
    from patchkit.change.land import LandedFile, Landing
    from patchkit.patchset.patch import BasedDiff, Patch
    from patchkit.tree.tree import Contents, Tree

_MADE = frozenset({Outcome.LANDED, Outcome.CHANGED})


class LandedDiff(NamedTuple):
    """A diff in a tree: its landing, and the edits of it that each of its parts is."""

    diff: BasedDiff
    landing: Landing
    edits: Mapping[str, Sequence[EditOutcome]]

    @property
    def is_in_place(self) -> bool:
        """Whether the tree has all of it."""
        return not any(edit.outcome in _MADE | NOT_MADE for edits in self.edits.values() for edit in edits)

    @property
    def is_clean(self) -> bool:
        """Whether all of it is there or can be made."""
        return not any(edit.outcome in NOT_MADE for edits in self.edits.values() for edit in edits)


def landed(patch: Patch, tree: Tree, markers: str = "") -> LandedDiff:
    """Return a patch's diff in a tree: the one that it has, else the one that fits, the nearest of several.

    With ``markers``, a name, the landing has the files with conflict markers.
    """
    candidates = []
    for diff in sorted(patch.diffs, key=lambda diff: -_nearness(diff, tree)):
        candidates.append(_landed(diff, tree, patch.id, markers))
        if candidates[-1].is_in_place:
            return candidates[-1]
    return next((candidate for candidate in candidates if candidate.is_clean), candidates[0])


def contents(patch: Patch, tree: Tree, source: LandedDiff) -> Contents:
    """Return the files that a landing changes, each with the comment of the patch."""
    comment = f"{COMMENT_PREFIX}{patch.id}: {''.join(filter(str.isprintable, patch.title))}"
    landing = source.landing
    if any(without_comments(before, patch.id) != before for before in map(tree.read, landing.contents)):
        # The comment of what is there stays where it is.
        landing = land(source.diff.files, Trees(_base(source.diff), tree), adapting=False)
    texts: dict[str, bytes | None] = {}
    for file, text in landing.contents.items():
        before = tree.read(file) or b""
        is_new = text is not None and file.endswith(".py") and without_comments(before, patch.id) == before
        texts[file] = _commented(before, text, comment) if is_new and text is not None else text
    return texts


def statuses(source: LandedDiff) -> list[EditStatus]:
    """Return the state of each edit of a patch; those in place are not yet told apart by whose they are."""
    return [_status(name, source) for name in source.diff.edits]


def is_edited(patch: Patch, tree: Tree, source: LandedDiff, status: EditStatus) -> bool:
    """Return whether a part of a diff that is pending in a file with the comment of the patch may be there in part.

    It is not if its class or function is that of the diff's base, as after a person took the change of it back.
    """
    text = tree.read(status.file)
    if text is None or without_comments(text, patch.id) == text:
        return False
    part = source.diff.edits[status.name]
    before, _ = source.diff.files[part.file]
    base, ours = outlined(before or b""), outlined(text)
    if base is None or ours is None:
        return before != text
    scopes = [(root.find(part.site) if part.site else root) for root in (base, ours)]
    codes = [
        None
        if scope is None
        else [item.code for item in scope.flat() if not (item.is_definition or item.children)]
        for scope in scopes
    ]
    return codes[0] != codes[1]


class Clash(NamedTuple):
    """What a diff's edit that cannot be made found in a file, what it expected and what it wants.

    ``found`` are the lines from number ``line`` to ``end`` (exclusive); 0 if the place is not known.
    """

    line: int
    end: int
    found: str
    expected: str
    wanted: str


def clash(patch: Patch, tree: Tree, name: str) -> Clash:
    """Return why an edit of a diff cannot be made in a tree."""
    source = landed(patch, tree)
    part, edits = source.diff.edits[name], source.edits[name]
    edit = next((edit_found for edit_found in edits if edit_found.outcome in NOT_MADE), None)
    region = edit.region if edit is not None else None
    if edit is None or region is None or not home_of(edit, source.landing.roots):
        texts = (edit.base_text, edit.wanted) if edit is not None else ("", "")
        expected, wanted = texts if any(texts) else (part.removed, part.added)
        return Clash(0, 0, "", expected.rstrip("\n"), wanted.rstrip("\n"))
    line, end = region.lines()
    own = tree.read(home_of(edit, source.landing.roots)) or b""
    # The comments of the patch are in the file, and not in what was merged.
    line, end = (_in_file(number, own, patch.id) for number in (line, end))
    text = b"".join(own.splitlines(keepends=True)[line - 1 : end - 1]).decode(errors="replace")
    return Clash(line, end, text, edit.base_text.rstrip("\n"), edit.wanted.rstrip("\n"))


def _in_file(number: int, text: bytes, identifier: str) -> int:
    """Return the number that a line without the comments of a patch has in the file."""
    start = f"{COMMENT_PREFIX}{identifier}:".encode()
    for line_number, line in enumerate(text.splitlines(), 1):
        if line_number <= number and line.strip().startswith(start):
            number += 1
    return number


def marked(patch: Patch, tree: Tree) -> Contents:
    """Return the files of a tree with conflict markers at the edits of a patch that cannot be made there."""
    source = landed(patch, tree, patch.id)
    in_order = (edit for file in source.landing.files for edit in file.edits)
    numbers = {edit: number for number, edit in enumerate(in_order, 1)}
    names = {
        f"{patch.id} edit-{numbers[edit]}": f"{patch.id} {name}"
        for name, edits in source.edits.items()
        for edit in edits
        if edit.outcome in NOT_MADE
    }
    pattern = re.compile(r"(?<=\(patchkit )\S+ edit-\d+(?=[,)])")

    def named(text: bytes) -> bytes:
        return pattern.sub(lambda match: names.get(match[0], match[0]), text.decode()).encode()

    changed = {file: text for file, text in source.landing.marked.items() if text != tree.read(file)}
    return {file: named(text) if text is not None else None for file, text in changed.items()}


def _status(name: str, source: LandedDiff) -> EditStatus:
    part, edits = source.diff.edits[name], source.edits[name]
    landed_file = _file(part.file, source.landing)
    file = landed_file.onto if landed_file is not None else part.file
    worst = next((edit for edit in edits if edit.outcome in NOT_MADE), None)
    if worst is not None:
        home = home_of(worst, source.landing.roots) or file
        return EditStatus(name, home, part.site, State.CONFLICT, worst.reason)
    made = next((edit for edit in edits if edit.outcome is Outcome.CHANGED), None) or next(
        (edit for edit in edits if edit.outcome is Outcome.LANDED), None
    )
    if made is None:
        return EditStatus(name, file, part.site, State.APPLIED)
    home = home_of(made, source.landing.roots) or file
    return EditStatus(name, home, part.site, State.PENDING, made.reason)


def _file(name: str, landing: Landing) -> LandedFile | None:
    return next((landed_file for landed_file in landing.files if landed_file.file == name), None)


class _Known(NamedTuple):
    """A landing, and all that it read of its tree."""

    diff: BasedDiff
    markers: str
    read: Contents
    listed: Mapping[tuple[str, str], list[str]]
    source: LandedDiff

    def holds(self, tree: Tree) -> bool:
        return all(tree.read(file) == text for file, text in self.read.items()) and all(
            tree.files(*arguments) == files for arguments, files in self.listed.items()
        )


_KNOWN: RecentCache[str, list[_Known]] = RecentCache(32)
_MOST_KNOWN = 4
"""The landings of a diff that are kept: in the tree itself, and with other patches before it."""


def _landed(diff: BasedDiff, tree: Tree, identifier: str, markers: str) -> LandedDiff:
    remembered = _KNOWN.get(f"{identifier} {diff.name}", list)
    for entry in remembered:
        if entry.diff == diff and entry.markers == markers and entry.holds(tree):
            return entry.source
    seen = _Seen(tree, "" if markers else identifier)
    landing = land(diff.files, Trees(_base(diff), seen), markers, adapting=False)
    source = LandedDiff(diff, landing, _by_part(diff, landing))
    remembered[:] = [_Known(diff, markers, seen.texts, seen.lists, source), *remembered[: _MOST_KNOWN - 1]]
    return source


def _by_part(diff: BasedDiff, landing: Landing) -> dict[str, list[EditOutcome]]:
    """Return the edits of a landing by the part of the diff that each belongs to.

    An edit of a whole file belongs to all parts of it, another to that of the innermost class or function around it.
    """
    parts: dict[str, list[EditOutcome]] = {name: [] for name in diff.edits}
    names: dict[str, list[str]] = {}
    for name, part in diff.edits.items():
        names.setdefault(part.file, []).append(name)
    moved = [landed_file for landed_file in landing.files if diff.files[landed_file.file][1] is None]
    for file, inside in names.items():
        own_landed = _file(file, landing)
        # A new file that is a deleted one under another name is a part of that one's edits.
        for landed_file in (own_landed,) if own_landed is not None else moved:
            for edit in landed_file.edits:
                for name in inside if not edit.site else [_nearest(diff, inside, edit.site)]:
                    parts[name].append(edit)
    return parts


def _nearest(diff: BasedDiff, names: Sequence[str], site: str) -> str:
    """Return the part in which a class or function is, else one that is in it, else the first."""
    around = [name for name in names if f"{site}.".startswith(f"{diff.edits[name].site}.")]
    inside = [name for name in names if diff.edits[name].site.startswith(f"{site}.")]
    rest = [name for name in names if not diff.edits[name].site]
    best = sorted(around, key=lambda name: -len(diff.edits[name].site))
    return [*best, *inside, *rest, *names][0]


def _nearness(diff: BasedDiff, tree: Tree) -> float:
    """Return how much of the files that a diff was made on a tree has."""
    versions = [(tree.read(file), before) for file, (before, _) in diff.files.items() if before is not None]
    return sum(1.0 if now == before else alike(now or b"", before) for now, before in versions)


@dataclass(frozen=True)
class _Seen(TreeAbove):
    """A tree without the comments of a patch (empty for all of it), which notes what is read of it."""

    identifier: str
    texts: dict[str, bytes | None] = field(default_factory=dict)
    lists: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def read(self, file: str) -> bytes | None:
        self.texts.setdefault(file, super().read(file))
        return without_comments(self.texts[file], self.identifier)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        self.lists.setdefault((folder, suffix), super().files(folder, suffix))
        return self.lists[folder, suffix]


def _base(diff: BasedDiff) -> MemoryTree:
    """Return the files that a diff was made on, and of the code besides them that it names the headers."""
    sites: dict[str, list[list[str]]] = {}
    for other in diff.others:
        file, _, site = other.partition("::")
        sites.setdefault(file, []).append(site.split(".") if site else [])
    headers = {file: "\n".join(_headers(lines)).encode() for file, lines in sites.items()}
    texts_before = {file: before for file, (before, _) in diff.files.items() if before is not None}
    new = diff.files.keys() - texts_before.keys()
    texts = {file: text for file, text in headers.items() if file not in new} | texts_before
    return MemoryTree(texts, package_label="the base of the diff", line_length=0)


def _headers(sites: Sequence[Sequence[str]], depth: int = 0) -> Iterator[str]:
    """Yield the lines of classes that contain each other as these names say."""
    inside: dict[str, list[Sequence[str]]] = {}
    for site in sites:
        if len(site) > depth:
            inside.setdefault(site[depth], []).append(site)
    for name, within in inside.items():
        yield f"{'    ' * depth}class {name}:"
        yield f"{'    ' * (depth + 1)}pass"
        yield from _headers(within, depth + 1)


def _commented(before: bytes, after: bytes, comment: str) -> bytes:
    """Return a text with a comment above the first statement that differs; unchanged if it is not valid Python."""
    lines = after.splitlines(keepends=True)
    old = before.splitlines(keepends=True)
    first = next((index for index, pair in enumerate(zip_longest(old, lines)) if pair[0] != pair[1]), 0) + 1
    try:
        statements = [
            (first_line(node) + 1, node.end_lineno or node.lineno)
            for node in ast.walk(parsed(after))
            if isinstance(node, ast.stmt) and not lines[first_line(node)][: node.col_offset].strip()
        ]
    except INVALID:
        return after
    around = max((extent for extent in statements if extent[0] <= first <= extent[1]), default=None)
    place = around or min((extent for extent in statements if extent[0] > first), default=None)
    index = place[0] - 1 if place is not None else len(lines)
    line = lines[index] if index < len(lines) else b""
    indent = line[: len(line) - len(line.lstrip(b" \t"))]
    end = newline_of(after)
    if index == len(lines) and lines and not lines[-1].endswith(b"\n"):
        lines[-1] += end
    written = comment.encode(encoding_of(after), "replace")
    return b"".join((*lines[:index], indent, written, end, *lines[index:]))

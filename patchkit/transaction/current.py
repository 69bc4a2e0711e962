"""Read the record of a tree without what its code no longer has: a record never says that something is applied."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from posixpath import basename
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.memory import RecentCache
from patchkit.plan import record
from patchkit.plan.markers import marked_conflicts
from patchkit.plan.record import Record, file_of, files_of
from patchkit.transaction.passages import followed
from patchkit.transaction.store import Store
from patchkit.transaction.swap import content_or_none, digest_or_none
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from patchkit.plan.record import AppliedFile, Layer
    from patchkit.tree.objects import GitTree
    from patchkit.tree.tree import CheckoutTree

# Commits of many patches compare the same contents many times, so that both are keyed by digests.
_lines_of: RecentCache[str | None, frozenset[bytes]] = RecentCache(256)
_added_by: RecentCache[tuple[str | None, str], tuple[frozenset[bytes], bool]] = RecentCache(1024)


def current_record(tree: CheckoutTree) -> Record:
    """Return the record of what the tree's code has. Raise TreeError if the record is damaged."""
    return still_there(record.read(tree), tree.read, Store(tree.package).get)


def current_or_none(tree: CheckoutTree) -> Record:
    """Return the record, empty also if it cannot be read, which the commands that write report."""
    try:
        return current_record(tree)
    except TreeError:
        return Record()


def absent(tree: CheckoutTree) -> dict[str, Path]:
    """Return the patches and ports of which the tree's code has nothing, each with its file that only the record has.

    A git stash may have their code. Those that git tracks are not among them, and none if it cannot tell.
    """
    with suppress(TreeError):
        names = record.read(tree).patches.keys() - current_record(tree).patches.keys()
        return _untracked(tree, names)
    return {}


def ports_of(tree: CheckoutTree, current: Record) -> dict[str, tuple[str, ...]]:
    """Return the ports in the ``current`` record of a tree, each with its files of which the tree has nothing."""
    recorded = record.read(tree) if current.ported else current

    def files(of: Record, name: str) -> set[str]:
        changes = (change for layer in of.layers for change in layer.files.items())
        return {file for file, change in changes if name in change.patches}

    return {
        name: tuple(sorted(files(recorded, name) - files(current, name))) for name in sorted(current.ported)
    }


def hidden_files(tree: CheckoutTree, after: Record) -> frozenset[str]:
    """Return the record's files of ports of which the tree lacks a part, and that ``after`` leaves as they are there.

    A git stash may have the rest. Those that git tracks are not among them.
    """
    with suppress(TreeError):
        recorded = record.read(tree)
        if recorded.ported:
            was, now, new = map(files_of, (recorded, current_record(tree), after))
            names = {name for name in recorded.ported if was[file_of(name)] != now.get(file_of(name))}
            left = {name for name in names if now.get(file_of(name)) == new.get(file_of(name))}
            return frozenset(path.name for path in _untracked(tree, left).values())
    return frozenset()


def _untracked(tree: CheckoutTree, names: Collection[str]) -> dict[str, Path]:
    """Return the record's files of those of some patches and ports that git does not track, none if it cannot tell."""
    checkout, folder = Checkout.tracking(tree.package) if names else None, tree.record_path
    if checkout is None or folder is None:
        return {}
    tracked = set(map(basename, checkout.staged([str(folder)])))
    return {name: folder / file_of(name) for name in sorted(names) if file_of(name) not in tracked}


def committed_record(tree: GitTree) -> Record:
    """Return the record of what a commit's code has, empty if it cannot be read."""
    try:
        return still_there(record.read(tree), tree.read, committed_content(tree))
    except TreeError:
        return Record()


def committed_content(tree: GitTree) -> Callable[[str], bytes]:
    """Return what reads a content by its digest from the repository of a commit, or raises TreeError."""

    def content(digest: str) -> bytes:
        blob = tree.repository.object(digest)
        if blob is None:
            raise TreeError(f"{tree.package_label} lacks {digest}", advice="git fetch it")
        return blob[1]

    return content


def lined_record(tree: CheckoutTree) -> Record:
    """Return the record of what has lines of its own in the tree's code, empty if it cannot be read."""
    return still_there(current_or_none(tree), tree.read, Store(tree.package).get, in_lines=True)


def unedited(tree: CheckoutTree) -> dict[str, bytes | None]:
    """Return the contents of the files that were not edited since they were recorded."""
    current = {file: (tree.read(file), change.applied) for file, change in current_record(tree).files.items()}
    return {file: text for file, (text, applied) in current.items() if digest_or_none(text) == applied}


def still_there(
    recorded: Record,
    read: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
    *,
    in_lines: bool = False,
) -> Record:
    """Return a record without the patches and ports that are gone from the files that ``read`` returns.

    They are if what stood in place of their lines before stands there again, as after a ``git stash`` that left the
    record. Other code there is an edit of a person's, or upstream's own: with ``in_lines`` it does not count.
    A file that is as it was between two writes, or before the first one, has none of the later ones.
    """
    current = {file: read(file) for file in recorded.files}
    digests = {file: digest_or_none(text) for file, text in current.items()}
    content = cache(content)
    ends = {file: _end(recorded, file, digest) for file, digest in digests.items()}
    layers: list[Layer] = []
    for level, layer in enumerate(recorded.layers):
        files = {
            file: change for file, change in layer.files.items() if (end := ends[file]) is None or level < end
        }
        there = {
            name
            for file, change in files.items()
            if ends[file] is not None
            or _remains(change, current[file], digests[file], content, in_lines=in_lines)
            for name in change.patches
        }
        # In one of its files a person may have replaced all that a patch wrote.
        kept = {file: change for file, change in files.items() if there.intersection(change.patches)}
        layers.append(layer.with_files(kept))
    return Record(tuple(layer for layer in layers if layer.files), recorded.writes, recorded.forked)


def _end(recorded: Record, file: str, digest: str | None) -> int | None:
    """Return how many layers made a file what it is, None if it was edited since."""
    levels = [
        (level, layer.files[file]) for level, layer in enumerate(recorded.layers) if file in layer.files
    ]
    after = next((level + 1 for level, change in reversed(levels) if change.applied == digest), None)
    return (
        next((level for level, change in levels if change.original == digest), None)
        if after is None
        else after
    )


def _remains(
    change: AppliedFile,
    current: bytes | None,
    digest: str | None,
    content: Callable[[str], bytes],
    *,
    in_lines: bool,
) -> bool:
    """Return whether a file that was edited since has a change of patchkit, or without ``in_lines`` what became of it.

    A lost file may have had it.
    """
    if current is None or change.applied is None:
        return change.original is not None
    try:
        added, has_markers = _added_lines(change.original, change.applied, content)
        # A person who resolved a conflict may have removed any of the lines.
        if has_markers or not added or _lines_of.get(digest, lambda: _lines(current)) & added:
            return True
        before, after = (content_or_none(text, content) for text in (change.original, change.applied))
        became = followed([(before, after, change.patches)], current)
        return became.is_there or bool(became.lost and not in_lines)
    except TreeError:
        return True


def _added_lines(
    original: str | None, applied: str, content: Callable[[str], bytes]
) -> tuple[frozenset[bytes], bool]:
    """Return the lines of a content that the original lacks, and whether it has the markers of conflicts.

    Raise TreeError if a content is lost.
    """

    def compare() -> tuple[frozenset[bytes], bool]:
        before = _lines(content(original)) if original is not None else frozenset[bytes]()
        after = content(applied)
        return _lines(after) - before, bool(marked_conflicts(after))

    return _added_by.get((original, applied), compare)


def _lines(text: bytes) -> frozenset[bytes]:
    return frozenset(line.strip() for line in text.splitlines() if line.strip())

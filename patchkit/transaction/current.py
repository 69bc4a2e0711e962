"""Find the record of a ledger that describes the tree's current files: a checkout may have changed its branch."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from patchkit.collector import RecentCache
from patchkit.errors import TreeError
from patchkit.plan.comments import COMMENT_PREFIX
from patchkit.plan.markers import blocks_in
from patchkit.transaction.swap import digest_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.transaction.ledger import AppliedFile, Ledger, Record

_PATCHKIT = b"patchkit"
"""Part of each comment that a patch adds, and of the runtime's imports and calls, vendored or not."""

# Commits of many patches compare the same contents many times, so that both are keyed by digests.
_lines_of: RecentCache[str | None, frozenset[bytes]] = RecentCache(256)
_added_by: RecentCache[tuple[str | None, str], tuple[frozenset[bytes], bool]] = RecentCache(1024)


def current_record(
    ledger: Ledger, read: Callable[[str], bytes | None], content: Callable[[str], bytes]
) -> Record | None:
    """Return the record that matches most of the files that ``read`` returns, the newest of equals, or None."""
    return next((record for record, _ in ranked_records(ledger, read, content)), None)


def ranked_records(
    ledger: Ledger, read: Callable[[str], bytes | None], content: Callable[[str], bytes]
) -> list[tuple[Record, bool]]:
    """Return the matching records, the best first, each with whether all of its files are unchanged since.

    A record matches if a file has the content that patchkit wrote, or still contains lines that patchkit wrote.
    """
    content = cache(content)
    files = frozenset[str]().union(*(record.files for record in ledger.records))
    current = {file: read(file) for file in files}
    digests = {file: digest_or_none(text) for file, text in current.items()}
    found: list[tuple[tuple[int, int, int, int], Record, bool]] = []
    for record in reversed(ledger.records):
        unedited = {file for file, known in record.files.items() if digests[file] == known.applied}
        others = (item for item in record.files.items() if item[0] not in unedited)
        remaining = [
            lines
            for file, known in others
            if (lines := _remaining_lines(known, current[file], digests[file], content))
        ]
        if unedited or remaining:
            score = (len(unedited), len(remaining), sum(remaining), -len(record.files))
            found.append((score, record, len(unedited) == len(record.files)))
    found.sort(key=lambda each: each[0], reverse=True)
    return [(record, exact) for _, record, exact in found]


def _remaining_lines(
    known: AppliedFile, current: bytes | None, digest: str | None, content: Callable[[str], bytes]
) -> int:
    """Return how many of the lines that patchkit wrote are in a file.

    Only lines that contain ``patchkit`` count if there are any; upstream may have written the others too.
    """
    if current is None or known.applied is None:
        return 0
    try:
        added, has_markers = _added_lines(known.original, known.applied, content)
    except TreeError:
        return 0
    named = frozenset(line for line in added if _PATCHKIT in line)
    # A person who resolved a conflict may have removed any of the lines.
    counted = named if named and not has_markers else added
    return len(_lines_of.get(digest, lambda: _lines(current)) & counted)


def _added_lines(
    original: str | None, applied: str, content: Callable[[str], bytes]
) -> tuple[frozenset[bytes], bool]:
    """Return the lines of a content that the original lacks, and whether it has the markers of conflicts.

    Raise TreeError if a content is lost.
    """

    def compare() -> tuple[frozenset[bytes], bool]:
        before = _lines(content(original)) if original is not None else frozenset[bytes]()
        after = content(applied)
        return _lines(after) - before, bool(blocks_in(after))

    return _added_by.get((original, applied), compare)


def patches_without_comments(
    ledger: Ledger,
    read: Callable[[str], bytes | None],
    committed: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
) -> dict[str, tuple[str, str]]:
    """Return the patches of records whose code is in a file without any comment of theirs: the file, and the comment.

    Code that is ``committed`` without a comment counts as upstream's.
    """
    found: dict[str, tuple[str, str]] = {}
    for record in ledger.records:
        for file, known in record.files.items():
            current = read(file)
            if current is None or known.original is None or known.applied is None:
                continue
            try:
                added, _ = _added_lines(known.original, known.applied, content)
            except TreeError:
                continue
            comments = sorted(line for line in added if line.startswith(COMMENT_PREFIX.encode()))
            code = added.difference(comments)
            if code and code <= _lines(current) and not code <= _lines(committed(file) or b""):
                for name in known.patches:
                    own_comments = [
                        comment.decode()
                        for comment in comments
                        if comment.startswith(f"{COMMENT_PREFIX}{name}:".encode())
                    ]
                    found |= {name: (file, own_comments[0])} if own_comments else {}
    return found


def _lines(text: bytes) -> frozenset[bytes]:
    return frozenset(line.strip() for line in text.splitlines() if line.strip())

"""Of a ledger's records, the one that is true of the tree as it stands: a checkout changes its branch."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.plan.markers import blocks_in
from patchkit.plan.marks import SIGN
from patchkit.transaction.swap import digest_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.transaction.ledger import AppliedFile, Ledger, Record

_OURS = b"patchkit"
"""Every comment that a patch leaves says it, and so do the runtime's imports and calls, vendored or not."""


def holding(
    ledger: Ledger, read: Callable[[str], bytes | None], content: Callable[[str], bytes]
) -> Record | None:
    """Return the record of which most stands in the files that ``read`` gives, and least does not, else None.

    Of equals it is the newest.
    """
    return next((record for record, _ in ranked(ledger, read, content)), None)


def ranked(
    ledger: Ledger, read: Callable[[str], bytes | None], content: Callable[[str], bytes]
) -> list[tuple[Record, bool]]:
    """Return the records that something in the files speaks for, most first, and whether all files stand as each says.

    A file that stands as patchkit left it speaks for its record, and so does one with something of what patchkit
    wrote, whoever edited it since.
    """
    content = cache(content)
    files = frozenset[str]().union(*(record.files for record in ledger.records))
    stands = {file: read(file) for file in files}
    digests = {file: digest_or_none(text) for file, text in stands.items()}
    found: list[tuple[tuple[int, int, int, int], Record, bool]] = []
    for record in reversed(ledger.records):
        same = {file for file, known in record.files.items() if digests[file] == known.applied}
        others = (item for item in record.files.items() if item[0] not in same)
        kept = [lines for file, known in others if (lines := _kept(known, stands[file], content))]
        if same or kept:
            score = (len(same), len(kept), sum(kept), -len(record.files))
            found.append((score, record, len(same) == len(record.files)))
    found.sort(key=lambda each: each[0], reverse=True)
    return [(record, exact) for _, record, exact in found]


def _kept(known: AppliedFile, stands: bytes | None, content: Callable[[str], bytes]) -> int:
    """Return how many lines a file has that patchkit wrote, of those that name it where there are some.

    What does not name it upstream may have written as well. A comment that says so may be gone, an import not.
    """
    if stands is None or known.applied is None:
        return 0
    try:
        before = _lines(content(known.original)) if known.original is not None else frozenset[bytes]()
        applied = content(known.applied)
    except TreeError:
        return 0
    brought = _lines(applied) - before
    signed = frozenset(line for line in brought if _OURS in line)
    # Of a conflict, a person who finishes it keeps what they like.
    sure = signed if signed and not blocks_in(applied) else brought
    return len(_lines(stands) & sure)


def nameless(
    ledger: Ledger,
    read: Callable[[str], bytes | None],
    committed: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
) -> dict[str, tuple[str, str]]:
    """Return the patches of records that nothing in the tree speaks for, although all of their code is in a file.

    Code that is ``committed`` without a comment is upstream's, as it is in any clone. With each patch comes that file
    and the comment that would say whose the code is.
    """
    found: dict[str, tuple[str, str]] = {}
    for record in ledger.records:
        for file, known in record.files.items():
            stands = read(file)
            if stands is None or known.original is None or known.applied is None:
                continue
            try:
                brought = _lines(content(known.applied)) - _lines(content(known.original))
            except TreeError:
                continue
            signs = sorted(line for line in brought if line.startswith(SIGN.encode()))
            code = brought.difference(signs)
            if code and code <= _lines(stands) and not code <= _lines(committed(file) or b""):
                for name in known.patches:
                    own = [sign.decode() for sign in signs if sign.startswith(f"{SIGN}{name}:".encode())]
                    found |= {name: (file, own[0])} if own else {}
    return found


def _lines(text: bytes) -> frozenset[bytes]:
    return frozenset(line.strip() for line in text.splitlines() if line.strip())

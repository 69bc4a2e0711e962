"""The journal: what a write changes, so that an interrupted one can be finished or taken back."""

from __future__ import annotations

from typing import Annotated

import msgspec

from patchkit.plan.record import FILE_PATTERN, OUTSIDE_PATTERN, RECORD_PATTERN, Digest
from patchkit.transaction.swap import FileKind

FORMAT = 1
Commit = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
WrittenFile = Annotated[str, msgspec.Meta(pattern=f"{FILE_PATTERN}|{OUTSIDE_PATTERN}|{RECORD_PATTERN}")]
"""The path from the package of a file or of the record, which may lead up to another folder of the checkout."""
Kinds = tuple[FileKind, FileKind]
"""The kinds of a file before and after a write."""


class Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A write in progress: each file's digests before and after it.

    ``kept`` are the other contents that the record refers to after it. ``made`` are the folders that the write creates,
    ``emptied`` those that it removes if they are empty. ``move`` is set if the write moves the checkout: the commits
    from which and to which; ``files`` are then the numbers of those that differ between them, in git's order, and
    ``made`` and ``emptied`` follow from the commits. ``kinds`` are those of links, and of files that get another mode,
    before and after it; the other files keep their modes.
    """

    files: dict[WrittenFile, tuple[Digest | None, Digest | None]]
    kept: tuple[Digest, ...] = ()
    made: tuple[WrittenFile, ...] = ()
    emptied: tuple[WrittenFile, ...] = ()
    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)] = FORMAT
    move: tuple[Commit, Commit] | msgspec.UnsetType = msgspec.UNSET
    kinds: dict[WrittenFile, Kinds] | msgspec.UnsetType = msgspec.UNSET

    @property
    def known_kinds(self) -> dict[str, Kinds]:
        """The kinds of links, and of files that get another mode, before and after the write."""
        return {} if isinstance(self.kinds, msgspec.UnsetType) else self.kinds

    @property
    def contents(self) -> frozenset[str]:
        """The digests of all contents that the write needs."""
        return frozenset((*self.kept, *(d for pair in self.files.values() for d in pair if d is not None)))


class _Versioned(msgspec.Struct, frozen=True):
    format: int


def decoded(content: bytes) -> Journal | int:
    """Return the journal in ``content``, or the number of its format if newer. Raise ValueError if it is damaged."""
    try:
        version = msgspec.json.decode(content, type=_Versioned).format
        return version if version > FORMAT else msgspec.json.decode(content, type=Journal)
    except RecursionError as error:  # It nests too deep.
        raise ValueError(str(error)) from None


def encoded(journal: Journal) -> bytes:
    """Return a journal as bytes."""
    return msgspec.json.format(msgspec.json.encode(journal), indent=1) + b"\n"

"""Read ledgers and journals of every format up to the current one; reject newer ones.

``docs/formats.md`` describes each format. Version 0.1 wrote format 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit.transaction.ledger import FORMAT, Digest, File, Journal, Layer, Ledger, Record

if TYPE_CHECKING:
    from collections.abc import Callable


_Kind = TypeVar("_Kind")


class DamagedError(ValueError):
    """The bytes are not a ledger or journal of any format."""


class NewerError(ValueError):
    """The bytes have a format of a newer patchkit, which the message names."""


class _Versioned(msgspec.Struct, frozen=True):
    # A journal of format 1 does not state its format.
    format: int = 1


class _Ledger1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    layers: tuple[Layer, ...]
    format: int = 1

    @property
    def upgraded(self) -> Ledger:
        return Ledger((Record(self.layers),) if self.layers else ())


class _Journal1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: dict[File, tuple[Digest, Digest]]
    ledger: _Ledger1

    @property
    def upgraded(self) -> Journal:
        return Journal(dict(self.files), self.ledger.upgraded)


def read_ledger(content: bytes) -> Ledger:
    """Return the ledger in ``content``. Raise DamagedError or NewerError if it cannot be read."""

    def read(content: bytes, version: int) -> Ledger:
        old = version == 1
        return _decode(content, _Ledger1).upgraded if old else _decode(content, Ledger)

    return _read_version(content, read)


def read_journal(content: bytes) -> Journal:
    """Return the journal in ``content``. Raise DamagedError or NewerError if it cannot be read."""

    def read(content: bytes, version: int) -> Journal:
        old = version == 1
        return _decode(content, _Journal1).upgraded if old else _decode(content, Journal)

    return _read_version(content, read)


def encoded(value: Ledger | Journal) -> bytes:
    """Return a ledger or a journal as bytes in the current format."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _read_version(content: bytes, read: Callable[[bytes, int], _Kind]) -> _Kind:
    version = _decode(content, _Versioned).format
    if version > FORMAT:
        raise NewerError(f"format {version}; this version reads up to {FORMAT}")
    return read(content, version)


def _decode(content: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(content, type=kind)
    # Content that nests too deep or is not Unicode raises RecursionError or ValueError.
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise DamagedError(str(error)) from None

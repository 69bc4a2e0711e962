"""Digests of texts and trees."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.tree.tree import CheckoutTree

_OWN = ".patchkit"
_LENGTH = 16


def digest(parts: Iterable[bytes]) -> str:
    """Return the start of the SHA-256 of parts, each with its length before it."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d\n" % len(part))
        whole.update(part)
    return whole.hexdigest()[:_LENGTH]


def contents(files: Mapping[str, bytes | None]) -> str:
    """Return the digest of the names and bytes of files; None is a file that goes."""
    return digest(
        part
        for name, text in sorted(files.items())
        for part in (name.encode(), b"gone" if text is None else b"is " + text)
    )


def content(tree: CheckoutTree) -> str:
    """Return the digest of the names and bytes of a tree's files, without those of patchkit's own folder."""
    files = sorted(path for path in tree.package.rglob("*.py") if _OWN not in path.parts)
    return digest(
        part
        for path in files
        for part in (path.relative_to(tree.package).as_posix().encode(), path.read_bytes())
    )

"""Recognise what only patchkit writes: a patch's comment, and an import of the runtime."""

from __future__ import annotations

import re

PREFIX = "patchkit "
"""The prefix of the comment's text; the patch's id and a colon follow it."""

COMMENT_PREFIX = f"# {PREFIX}"
"""The prefix as written in a file."""

_IMPORT = r"^from ([A-Za-z0-9_]+\._)?patchkit\.runtime[. ]"
TRACE = f"{COMMENT_PREFIX}[A-Za-z0-9_.-]+: |{_IMPORT}"
"""What shows that a file was patched, also without its comments: a regular expression for Python and for git."""

SIGNS = ("patchkit", "||||||| expected")
"""One of these texts is in each file with a comment of a patch, an import of the runtime, or a conflict marker."""

_COMMENT = re.compile(COMMENT_PREFIX.encode() + rb"([\w.-]+): ")


_TRACE = re.compile(TRACE.encode(), re.MULTILINE)
_RUNTIME = re.compile(_IMPORT.encode(), re.MULTILINE)


def is_patched(source: bytes | None) -> bool:
    """Return whether a file has a patch's comment or imports the runtime."""
    return source is not None and b"patchkit" in source and _TRACE.search(source) is not None


def runtime_line(source: bytes | None) -> int:
    """Return the number of the line on which a file imports the runtime, 0 if it does not."""
    match = _RUNTIME.search(source or b"")
    return source[: match.start()].count(b"\n") + 1 if source is not None and match is not None else 0


def comments_of(source: bytes, patch: str) -> tuple[str, ...]:
    """Return the words of a patch's comments in a file."""
    start = f"{COMMENT_PREFIX}{patch}: ".encode()
    if start not in source:
        return ()
    lines = (line.partition(start)[2] for line in source.splitlines())
    return tuple(words.decode(errors="replace").strip() for words in lines if words)


def without_comments(source: bytes | None, patch: str) -> bytes | None:
    """Return a file without a patch's comments on lines of their own; unchanged without a patch's id."""
    start = f"{COMMENT_PREFIX}{patch}:".encode()
    if source is None or not patch or start not in source:
        return source
    return re.sub(rb"^[ \t]*" + re.escape(start) + rb".*(\n|\Z)", b"", source, flags=re.MULTILINE)


def commenting_patches(source: bytes) -> frozenset[str]:
    """Return the ids of the patches that have a comment in a file."""
    return frozenset(name.decode() for name in _COMMENT.findall(source))

"""Write a file's change as a unified diff that ``git apply`` and ``patch -p1`` accept."""

from __future__ import annotations

import difflib
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.plan.status import FileChange


def unified(change: FileChange, name: str) -> bytes:
    """Return the unified diff of a change; ``name`` is the file's path below the tree's root."""
    # Iterating a stream splits at line feeds only, as git and patch do.
    before, after = (list(io.BytesIO(content or b"")) for content in (change.before, change.after))
    old = b"/dev/null" if change.before is None else _quoted(f"a/{name}")
    new = b"/dev/null" if change.after is None else _quoted(f"b/{name}")
    lines = difflib.diff_bytes(difflib.unified_diff, before, after, old, new)
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines
    )


def _quoted(name: str) -> bytes:
    """Return a name as git writes it: quoted if it has quotes, backslashes or unprintable characters."""
    raw = name.encode(errors="surrogateescape")
    if name.isprintable() and not {'"', "\\"} & set(name):
        return raw
    written = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in raw)
    return f'"{"".join(written)}"'.encode()

"""A temporary folder for a command's intermediate files."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a temporary folder and remove it afterwards. Raise TreeError if none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="patchkit-")
    except OSError as error:  # Python reports a full disk as a missing temporary folder.
        raise TreeError(
            f"no temporary folder can be made ({error.strerror}), and nothing was written",
            advice="free some space, or set TMPDIR to a folder that has some",
        ) from error
    with made as folder:
        yield Path(folder)

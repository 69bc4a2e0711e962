"""A temporary folder for what a command makes on the way and nobody keeps."""

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
    """Make a folder that is gone afterwards; TreeError where none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="patchkit-")
    except OSError as error:  # Where no temporary folder takes a byte, Python says that there is none.
        raise TreeError(
            f"there is no temporary folder to work in ({error.strerror}), and nothing was written",
            advice="free some space, or let TMPDIR name a folder that has some",
        ) from error
    with made as folder:
        yield Path(folder)

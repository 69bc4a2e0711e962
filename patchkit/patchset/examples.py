"""Read the examples of a patch folder: ``examples.toml`` beside ``patch.toml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.patchset.load import parsed
from patchkit.patchset.malformed import converted

if TYPE_CHECKING:
    from pathlib import Path

FILE = "examples.toml"


class PatchExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file before and after the patch.

    ``file`` is its path below the package folder. ``edit`` names one edit; by default all edits of the file are made.
    Without ``after`` the file stays as it is: because of a conflict whose reason contains ``refusal``, or else because
    it has the change already.
    """

    shows: str
    file: str
    before: str
    after: str = ""
    edit: str = ""
    refusal: str = ""


class ExamplesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The examples of a patch."""

    example: tuple[PatchExample, ...]


def examples_in(folder: Path) -> tuple[PatchExample, ...]:
    """Return a patch folder's examples. Raise UsageError, with file, key and reason, if they are malformed."""
    path = folder / FILE
    if not path.is_file():
        return ()
    return converted(parsed(path)[0], ExamplesFile, path).example

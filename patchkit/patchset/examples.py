"""The examples that a patch folder carries: ``examples.toml`` beside ``patch.toml``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from patchkit.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

FILE = "examples.toml"


class PatchExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file as trees have it and what the patch makes of it.

    ``file`` is the file's name below the package folder and ``edit`` one edit's, without which all of that file
    are made. Without ``after`` the file stays as it is: with a ``refusal`` because of that, otherwise because
    the change is there.
    """

    shows: str
    file: str
    before: str
    after: str = ""
    edit: str = ""
    refusal: str = ""


class ExamplesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All examples of a patch."""

    example: tuple[PatchExample, ...]


def examples_in(folder: Path) -> tuple[PatchExample, ...]:
    """Return a patch folder's examples; UsageError with file, key and reason for malformed ones."""
    path = folder / FILE
    if not path.is_file():
        return ()
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(raw, ExamplesFile).example
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML ({error}); mend it and try again.", where=path) from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{error}; mend that key and try again.", where=path) from None
    except OSError as error:
        raise UsageError(f"cannot be read ({error.strerror}).", where=path) from None

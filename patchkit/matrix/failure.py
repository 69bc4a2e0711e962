"""Why something could not be told of a ref, whatever went wrong with it: the other refs go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit.errors import PatchkitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_Told = TypeVar("_Told")


class Failure(msgspec.Struct, frozen=True):
    """Nothing could be told, for this reason."""

    reason: str


def attempted(work: Callable[[], _Told]) -> _Told | Failure:
    """Return what ``work`` comes to, or the failure of the ref that it is about; UsageError for a malformed patch."""
    try:
        return work()
    except UsageError:
        raise
    except PatchkitError as error:
        return Failure(str(error))
    except (RecursionError, MemoryError):
        return Failure(
            "a file of this ref nests deeper than can be read: patchkit status on a checkout names it."
        )
    except Exception as error:  # Objects that no git wrote break what reads them in any way.
        said = f"{type(error).__name__}: {error}"
        return Failure(
            f"this ref cannot be read ({said}): run git fsck there, and report it if git finds none."
        )

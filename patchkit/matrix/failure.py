"""Turn any error about one ref into a result, so that the other refs are still processed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit.errors import PatchkitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


class Failure(msgspec.Struct, frozen=True):
    """The reason why a ref has no result."""

    reason: str


def attempted(work: Callable[[], _Result]) -> _Result | Failure:
    """Return the result of ``work``, or a Failure. UsageError is raised, since it is about a patch and not the ref."""
    try:
        return work()
    except UsageError:
        raise
    except PatchkitError as error:
        return Failure(str(error))
    except (RecursionError, MemoryError):
        return Failure(
            "a file of this ref nests too deep to be read: run patchkit status on a checkout, which names it."
        )
    except Exception as error:  # Malformed objects can raise any exception in the code that reads them.
        message = f"{type(error).__name__}: {error}"
        return Failure(
            f"this ref cannot be read ({message}): run git fsck there, and report this if git finds no error."
        )

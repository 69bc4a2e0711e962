"""Of several patches those are taken back that can be, each whole; what is left is named with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, UsageError
from patchkit.transaction.revert import Reverted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class KeptGoing(NamedTuple):
    """What was taken back, and why each patch that is left was not."""

    reverted: Reverted
    left: Mapping[str, str]


def revert_each(names: Sequence[str], take_back: Callable[[str], Reverted], refusal: str) -> KeptGoing:
    """Take back each patch that can be, the one that came last first, until no further one can.

    ``refusal`` is why not all could be at once, which is the reason too for a patch that it names.
    """
    done: list[Reverted] = []
    ahead = list(reversed(names))
    while True:
        left: dict[str, str] = {}
        gone = {name for each in done for name in each.patches}
        for name in ahead:
            if name in gone:
                continue
            try:
                done.append(take_back(name))
            except (ConflictError, UsageError) as error:
                left[name] = refusal if name in refusal.split() else str(error)
            else:
                gone.update(done[-1].patches)
        if not left or len(left) == len(ahead):
            files = dict.fromkeys(file for each in done for file in each.files)
            return KeptGoing(Reverted(tuple(name for name in names if name in gone), tuple(files)), left)
        ahead = list(left)

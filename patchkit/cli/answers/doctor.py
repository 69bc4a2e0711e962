"""The answer of ``doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from patchkit.cli.answers.base import Answer, TreeAnswer
from patchkit.doctor.diagnosis import Touched  # noqa: TC001  # schemas are made of it
from patchkit.doctor.fixes import Fix  # noqa: TC001  # schemas are made of it
from patchkit.doctor.gains import Gain  # noqa: TC001  # schemas are made of it
from patchkit.doctor.keepers import Keeper  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.tree.tree import CheckoutTree


class Doctor(Answer, frozen=True, kw_only=True):
    """The answer of ``doctor``."""

    tree: TreeAnswer
    kept: bool
    verdict: str
    backends: tuple[Touched, ...]
    keepers: tuple[Keeper, ...]
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]
    fixes: tuple[Fix, ...]

    @classmethod
    def of(cls, tree: CheckoutTree, diagnosis: Diagnosis) -> Doctor:
        """Return the answer for a diagnosis."""
        return cls(tree=TreeAnswer.of(tree), **asdict(diagnosis))

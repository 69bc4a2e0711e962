"""A launch on a tree, examined: its outcomes, also with one branch, and the reach of the mirror in the tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit.reach import Reach
from patchkit.audit.runners import AuditedProgram
from patchkit.doctor.models import limits
from patchkit.doctor.outcome import agree
from patchkit.doctor.phrases import option
from patchkit.doctor.server import outcomes
from patchkit.plan.build import make_plan
from patchkit.tree.index import read_sources
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.doctor.launch import Launch
    from patchkit.doctor.outcome import Outcomes, ServerOutcome
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree

TOP_K = "speculative_eagle_topk"


class ExaminedTree:
    """A tree with its patches, read once for all of its servers; ``status`` returns the states of the patches.

    Unless it ``advises``, no patch or option is tried that might remove the mirror.
    """

    def __init__(
        self, tree: CheckoutTree, status: Callable[[], Sequence[PatchStatus]], *, advises: bool = True
    ) -> None:
        self.tree = tree
        self.advises = advises
        self._status = status

    @cached_property
    def statuses(self) -> Sequence[PatchStatus]:
        """The states of the patches."""
        return self._status()

    @cached_property
    def program(self) -> AuditedProgram:
        """The tree's code."""
        return AuditedProgram(read_sources(self.tree))

    @cached_property
    def changes(self) -> dict[str, bytes | None]:
        """The files that the default patches change, with their content after it."""
        plan = make_plan(self.tree, [status.patch for status in self.statuses if status.patch.default])
        return {change.file: change.after for change in plan.changes}

    @cached_property
    def patched(self) -> AuditedProgram:
        """The code with the default patches."""
        return AuditedProgram(read_sources(OverlayTree(self.tree, self.changes)), self.program)


@dataclass(frozen=True)
class ExaminedServer:
    """A launch on a tree: its outcomes, and those with one branch if it may have several."""

    program: AuditedProgram
    launch: Launch
    advises: bool = True

    @cached_property
    def outcomes(self) -> Outcomes:
        """The outcomes, by what is assumed of the model."""
        return outcomes(self.program, self.launch)

    @cached_property
    def reach(self) -> Reach:
        """Where the mirror is read in the tree."""
        return Reach(self.program)

    @cached_property
    def _single(self) -> tuple[Outcomes, str]:
        """The outcomes with one branch, and the options for it; both are empty if the launch has these already."""
        settings = {TOP_K: 1}
        if self.launch.get("speculative_num_steps") is None:
            # sglang takes all three of them or none.
            settings |= {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}
        numbers = {name: value for name, value in settings.items() if name in self.launch.parsed}
        if TOP_K not in numbers or all(self.launch.get(name) == value for name, value in numbers.items()):
            return [], ""
        option_text = " ".join(f"{option(name)} {value}" for name, value in numbers.items())
        return outcomes(self.program, self.launch.with_settings(numbers)), option_text

    def freed_by_one_branch(self, keeps: Callable[[ServerOutcome], bool]) -> tuple[str, ...]:
        """Return the options for one branch with which ``keeps`` becomes false, and for which models if not for all."""
        single, option_text = self._single
        examined = [
            (answers | others, keeps(other))
            for answers, outcome in self.outcomes
            if keeps(outcome)
            for others, other in single
            if agree(answers, others)
        ]
        freed = [model for model, is_kept in examined if not is_kept]
        kept = [model for model, is_kept in examined if is_kept]
        return (f"{option_text}{limits(freed, kept)}",) if freed else ()

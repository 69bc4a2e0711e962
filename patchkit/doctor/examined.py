"""A launch on a tree, examined: its outcomes, also with one branch, and the reach of the mirror in the tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit.reach import Reach
from patchkit.doctor.models import limits
from patchkit.doctor.phrases import option
from patchkit.doctor.server import outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.audit.runners import AuditedProgram
    from patchkit.doctor.evaluation.memory import KnownValues
    from patchkit.doctor.launch import Launch
    from patchkit.doctor.outcome import ServerOutcome

    Found = list[tuple[dict[str, bool], ServerOutcome]]

TOP_K = "speculative_eagle_topk"


@dataclass(frozen=True)
class ExaminedServer:
    """A launch on a tree: its outcomes, and those with one branch if it may have several."""

    program: AuditedProgram
    launch: Launch
    memory: KnownValues

    @cached_property
    def found(self) -> Found:
        """The outcomes, by what is assumed of the model."""
        return outcomes(self.program, self.launch, self.memory)

    @cached_property
    def reach(self) -> Reach:
        """Where the mirror is read in the tree."""
        return Reach(self.program)

    @cached_property
    def _single(self) -> tuple[Found, str]:
        """The outcomes with one branch, and the options for it; both are empty if the launch has these already."""
        settings = {TOP_K: 1}
        if self.launch.get("speculative_num_steps") is None:
            # sglang takes all three of them or none.
            settings |= {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}
        known = {name: value for name, value in settings.items() if name in self.launch.parsed}
        if TOP_K not in known or all(self.launch.get(name) == value for name, value in known.items()):
            return [], ""
        option_text = " ".join(f"{option(name)} {value}" for name, value in known.items())
        return outcomes(self.program, self.launch.with_settings(known), self.memory), option_text

    def freed_by_one_branch(self, keeps: Callable[[ServerOutcome], bool]) -> tuple[str, ...]:
        """Return the options for one branch with which ``keeps`` becomes false, and for which models if not for all."""
        single, option_text = self._single
        examined = [
            (answers | others, keeps(other))
            for answers, outcome in self.found
            if keeps(outcome)
            for others, other in single
            if all(others.get(fact, answer) is answer for fact, answer in answers.items())
        ]
        freed = [model for model, is_kept in examined if not is_kept]
        kept = [model for model, is_kept in examined if is_kept]
        return (f"{option_text}{limits(freed, kept)}",) if freed else ()

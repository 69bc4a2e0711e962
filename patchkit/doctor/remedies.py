"""Find the patches that free a server's mirror, by evaluating the tree's own decision with the patches applied."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from patchkit.audit.runners import AuditedProgram
from patchkit.doctor.optouts import OPTS_OUT
from patchkit.doctor.outcome import agree
from patchkit.doctor.server import outcomes
from patchkit.patchset.select import PatchSet
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.tree import mirror
from patchkit.tree.index import read_sources
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from patchkit.doctor.launch import Launch
    from patchkit.doctor.outcome import Answers, Outcomes, ServerOutcome
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree

_DECISION = re.compile(rf"\b[a-z]\w*_{mirror.FLAG}\b")


class Remedy(NamedTuple):
    """Patches that remove a cause, the models for which they do, and those for which it still keeps the mirror."""

    patches: tuple[str, ...]
    freed: tuple[Answers, ...]
    kept: tuple[Answers, ...]


class Trials:
    """A launch on copies of a tree with patches that it lacks; nothing is written."""

    def __init__(
        self,
        tree: CheckoutTree,
        program: AuditedProgram,
        launch: Launch,
        statuses: Sequence[PatchStatus],
    ) -> None:
        self._tree = tree
        self._program = program
        self._launch = launch
        self._patches = PatchSet(tuple(status.patch for status in statuses), "")
        self._lacking = [
            status.patch for status in statuses if status.state in (State.PENDING, State.PARTIAL)
        ]
        self._outcomes: dict[tuple[str, ...], Outcomes] = {}

    def opting_out(self, files: Collection[str]) -> list[str]:
        """Return the ids of the patches that let a backend opt out and change one of these files."""
        return [
            patch.id
            for patch in self._lacking
            if any(
                OPTS_OUT.search(code) is not None and not set(files).isdisjoint(edit.files)
                for edit in patch.edits
                for code in edit.kind.written
            )
        ]

    def deciding(self) -> list[str]:
        """Return the ids of the patches that change the decision."""
        return [
            patch.id
            for patch in self._lacking
            if any(
                _DECISION.search(text) is not None
                for edit in patch.edits
                for text in (*edit.scopes, *edit.kind.written)
            )
        ]

    def freeing(
        self, candidates: Sequence[str], models: Sequence[Answers], keeps: Callable[[ServerOutcome], bool]
    ) -> list[Remedy]:
        """Return the smallest sets of candidates with which ``keeps`` becomes false for some of these models.

        A larger set follows a smaller one only if it frees more models.
        """
        if not candidates:
            return []
        best = self._tried(tuple(candidates), models, keeps)
        remedies: list[Remedy] = []
        for size in range(1, len(candidates) + 1) if best.freed else ():
            for names in itertools.combinations(candidates, size):
                tried = self._tried(names, models, keeps)
                smaller = [one for one in remedies if set(one.patches) < set(names)]
                if tried.freed and all(len(tried.kept) < len(one.kept) for one in smaller):
                    remedies.append(tried)
            if any(len(one.kept) <= len(best.kept) for one in remedies):
                break
        return remedies

    def _tried(
        self, names: tuple[str, ...], models: Sequence[Answers], keeps: Callable[[ServerOutcome], bool]
    ) -> Remedy:
        """Return some patches with the models for which they free the mirror, and those for which they do not."""
        if names not in self._outcomes:
            plan = make_plan(self._tree, self._patches.select(names))
            changes = {change.file: change.after for change in plan.changes}
            program = AuditedProgram(read_sources(OverlayTree(self._tree, changes)), self._program)
            self._outcomes[names] = outcomes(program, self._launch.on(changes))
        matching = [
            (answers, outcome)
            for answers, outcome in self._outcomes[names]
            if any(agree(model, answers) for model in models)
        ]
        kept = [answers for answers, outcome in matching if outcome.refused is not None or keeps(outcome)]
        freed = [answers for answers, _ in matching if answers not in kept]
        return Remedy(names, tuple(freed), tuple(kept))

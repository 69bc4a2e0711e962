"""Verify that the patches in a tree are complete and fit its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings import baseline as baselines
from patchkit.findings.finding import Confidence
from patchkit.patchset import configuration
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.verify import engine
from patchkit.verify.subject import Criteria, Subject

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.change.land import Watch
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict


def criteria_of(
    tree: CheckoutTree, confidence: str = "likely", baseline: Path | None = None, *, importing: bool = False
) -> Criteria:
    """Return the criteria for a tree, whose fork's configuration may name a baseline if none is given."""
    named = baseline or configuration.baseline_of(tree.fork)
    baseline_findings = baselines.load(named) if named is not None else ()
    return Criteria(Confidence(confidence), baseline_findings, importing=importing)


def verify(tree: CheckoutTree, patches: PatchSet, criteria: Criteria, watch: Watch | None = None) -> Verdict:
    """Run every check on a patched tree; ``watch`` is called with each check's title, its number, and that of all."""
    return read_without_conflicts(
        tree, lambda read: engine.verify(Subject(read, tuple(patches), criteria), watch)
    )

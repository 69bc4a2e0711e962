"""The shape of every ``--json`` answer, from which the JSON Schemas in ``docs/schemas`` are made.

A key may come; none goes or changes its meaning without a line in the changelog.
"""

from __future__ import annotations

from typing import Any

import msgspec

from patchkit.audit.optout import OptOut
from patchkit.doctor.diagnosis import Keeper, Touched  # noqa: TC001  # schemas are made of it
from patchkit.doctor.worth import Worth  # noqa: TC001  # schemas are made of it
from patchkit.drafting.trial import Trial
from patchkit.findings.finding import Finding, Suppressed  # noqa: TC001  # schemas are made of it
from patchkit.matrix.answer import Matrix
from patchkit.patchset.runs import Run  # noqa: TC001  # schemas are made of it
from patchkit.plan.conflict import Conflict  # noqa: TC001  # schemas are made of it
from patchkit.series.backports import Backport  # noqa: TC001  # schemas are made of it
from patchkit.verify.result import Result  # noqa: TC001  # schemas are made of it


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class TreeAnswer(_Answer, frozen=True):
    """Which tree it is; ``version`` is null where the tree does not say."""

    root: str
    package: str
    version: str | None


class EditState(_Answer, frozen=True):
    """An edit: ``file`` below the package folder, ``site`` the dotted name there."""

    file: str
    site: str
    state: str
    reason: str


class PatchState(_Answer, frozen=True):
    """A patch: applied, upstream, pending, partial, conflict or not-applicable.

    ``ran``: whether it ran on a GPU on this release and gave its tokens, null where that is unknown.
    """

    id: str
    title: str
    state: str
    reason: str
    ran: bool | None
    edits: tuple[EditState, ...]


class _States(_Answer, frozen=True):
    tree: TreeAnswer
    patches: tuple[PatchState, ...]


class Status(_States, frozen=True):
    """``status``; ``unknown`` where the tree has patches that are not at hand."""

    unknown: tuple[str, ...] = ()


class FileDiff(_Answer, frozen=True):
    """What would change in a file."""

    file: str
    patches: tuple[str, ...]
    diff: str


class Diff(_Answer, frozen=True):
    """``diff``; ``conflicts`` has a site for each edit that has no certain one."""

    tree: TreeAnswer
    files: tuple[FileDiff, ...]
    conflicts: tuple[Conflict, ...]


class Made(_Answer, frozen=True):
    """A commit that ``--commit`` made."""

    patch: str
    commit: str


class Marked(_Answer, frozen=True):
    """A conflict that ``apply --markers`` left in a file, from ``line`` on."""

    patch: str
    edit: str
    file: str
    line: int


class Apply(_States, frozen=True):
    """``apply``; ``commits`` where it made some, ``inherited_opt_outs`` where classes of the tree inherit one.

    ``markers`` are the conflicts that it left with ``--markers``.
    """

    changed_files: tuple[str, ...]
    markers: tuple[Marked, ...] = ()
    inherited_opt_outs: tuple[dict[str, Any], ...] = ()
    commits: tuple[Made, ...] = ()


class Resolve(_Answer, frozen=True):
    """``resolve``: ``recorded`` is false where it was before, ``remembered`` true where it is offered elsewhere.

    ``accepted`` where the edit is in place on a person's word, ``given_up`` with ``--give-up``. With ``--export`` there
    are only ``files``, those written, and ``left``, what could not be.
    """

    tree: TreeAnswer
    patch: str = ""
    edit: str = ""
    recorded: bool = False
    remembered: bool = False
    accepted: bool = False
    given_up: bool = False
    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Left(_Answer, frozen=True):
    """A patch that ``revert --keep-going`` left."""

    patch: str
    reason: str


class Revert(_Answer, frozen=True):
    """``revert``; ``left`` are the patches that it left with ``--keep-going``."""

    tree: TreeAnswer
    reverted: tuple[str, ...]
    changed_files: tuple[str, ...]
    left: tuple[Left, ...] = ()


class Recover(_Answer, frozen=True):
    """``recover``: ``action`` is finished, rolled-back or nothing."""

    tree: TreeAnswer
    action: str
    files: tuple[str, ...]


class Export(_States, frozen=True):
    """``export``: the files written, in order."""

    files: tuple[str, ...]


class Report(_Answer, frozen=True):
    """``report --ledger``: a row for each patch in the tree."""

    tree: TreeAnswer
    rows: tuple[Backport, ...]


class MovedPatch(_Answer, frozen=True):
    """A patch now and after the move, and that in words."""

    id: str
    now: str
    then: str
    reason: str
    said: str


class RebaseCheck(_Answer, frozen=True):
    """``rebase-check``; ``merged`` and ``commits`` with ``--merge``."""

    tree: TreeAnswer
    onto: str
    patches: tuple[MovedPatch, ...]
    merged: str = ""
    commits: tuple[Made, ...] = ()


class Verify(_States, frozen=True):
    """``verify``; ``unknown`` where the tree has patches that are not at hand."""

    passed: bool
    seconds: float
    checks: tuple[Result, ...]
    unknown: tuple[str, ...] = ()


class OptOutAnswer(OptOut, frozen=True):
    """A backend, and whether nothing that it runs reads the mirror unguarded."""

    can_opt_out: bool


class Audit(_Answer, frozen=True):
    """``audit``; ``baseline`` counts the findings that it knew, ``opt_out`` is there with ``--suggest-opt-out``."""

    findings: tuple[Finding, ...]
    files_scanned: int
    seconds: float
    suppressed: tuple[Suppressed, ...]
    notes: tuple[str, ...]
    baseline: int
    opt_out: tuple[OptOutAnswer, ...] = ()


class Doctor(_Answer, frozen=True):
    """``doctor``."""

    tree: TreeAnswer
    kept: bool
    verdict: str
    backends: tuple[Touched, ...]
    keepers: tuple[Keeper, ...]
    worth: tuple[Worth, ...]
    notes: tuple[str, ...]


class New(_Answer, frozen=True):
    """``new``: ``exact`` if the edits make the files of the diff on its tree."""

    file: str
    edits: int
    exact: bool
    todo: tuple[str, ...]


class CheckedFolder(_Answer, frozen=True):
    """A patch folder: how many examples ran, and what is wrong."""

    patch: str
    folder: str
    examples: int
    faults: tuple[str, ...]


class CheckPatch(_Answer, frozen=True):
    """``check-patch``."""

    patches: tuple[CheckedFolder, ...]


class Listed(_Answer, frozen=True):
    """A patch in ``list``."""

    id: str
    title: str
    upstream: str
    risk: str
    no_switch: str
    requires: tuple[str, ...]
    hardens: tuple[str, ...]
    default: bool


class ShownEdit(_Answer, frozen=True):
    """An edit in ``show``."""

    name: str
    description: str


class Show(Listed, frozen=True):
    """``show``; ``runs`` is null where it is unknown where the patch ran."""

    why: str
    verify: str
    edits: tuple[ShownEdit, ...]
    runs: tuple[Run, ...] | None


ANSWERS: dict[str, Any] = {
    "list": tuple[Listed, ...],
    "show": Show,
    "status": Status,
    "diff": Diff,
    "apply": Apply,
    "resolve": Resolve,
    "revert": Revert,
    "recover": Recover,
    "verify": Verify,
    "audit": Audit,
    "matrix": Matrix,
    "export": Export,
    "report": Report,
    "rebase-check": RebaseCheck,
    "doctor": Doctor,
    "check-patch": CheckPatch,
    "new": New,
    "test": tuple[Trial, ...],
}
"""The answer of each command."""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's answer."""
    title = {"title": f"patchkit {command} --json", "$schema": "https://json-schema.org/draft/2020-12/schema"}
    return title | msgspec.json.schema(ANSWERS[command])

"""Generate the JSON Schema of every ``--json`` answer from the answer's structs."""

from __future__ import annotations

from typing import Any

import msgspec

from patchkit.cli.answers.apply import Apply
from patchkit.cli.answers.audit import Audit
from patchkit.cli.answers.check_patch import CheckPatch
from patchkit.cli.answers.diff import Diff
from patchkit.cli.answers.doctor import Doctor
from patchkit.cli.answers.export import Export
from patchkit.cli.answers.new import New
from patchkit.cli.answers.patches import Listed, Show
from patchkit.cli.answers.port import Port
from patchkit.cli.answers.rebase import Rebase
from patchkit.cli.answers.recover import Recover
from patchkit.cli.answers.report import Report
from patchkit.cli.answers.resolve import Resolve
from patchkit.cli.answers.revert import Revert
from patchkit.cli.answers.status import Status
from patchkit.cli.answers.verify import Verify
from patchkit.cli.renamed import NOW
from patchkit.commands.test import Trial
from patchkit.matrix.answer import Matrix

ANSWERS: dict[str, Any] = {
    "show": Show | tuple[Listed, ...],
    "list": tuple[Listed, ...],
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
    "rebase": Rebase,
    "rebase-check": Rebase,
    "doctor": Doctor,
    "check-patch": CheckPatch,
    "new": New,
    "port": Port,
    "test": tuple[Trial, ...],
}
"""The answer of each command; answers with certain options are listed under the command's former name."""


_WITH = {"show": ("show", "PATCH"), "test": ("test", "PATCH", "--on", "TREE")}
"""The arguments with which a command gives the listed answer."""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's answer."""
    words = (NOW | _WITH).get(command, (command,))
    title = {
        "title": f"patchkit {' '.join(words)} --json",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }
    return title | msgspec.json.schema(ANSWERS[command])

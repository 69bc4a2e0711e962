"""Generate the JSON Schema of every ``--json`` answer, and of files that a person writes, from their structs."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from patchkit.bench.recorded import Benchmark
from patchkit.cli.answers.apply import Apply, Recover
from patchkit.cli.answers.audit import Audit
from patchkit.cli.answers.check_patch import CheckPatch
from patchkit.cli.answers.diff import Diff
from patchkit.cli.answers.doctor import Doctor, DoctorFiles
from patchkit.cli.answers.export import Export
from patchkit.cli.answers.new import New
from patchkit.cli.answers.patches import Listed, Show
from patchkit.cli.answers.port import Port
from patchkit.cli.answers.rebase import Rebase
from patchkit.cli.answers.resolve import Resolve
from patchkit.cli.answers.revert import Revert
from patchkit.cli.answers.status import Ledger, Status
from patchkit.cli.answers.verify import Verify
from patchkit.commands.test import Trial
from patchkit.matrix.answer import Matrix

ANSWERS: dict[str, Any] = {
    "show": Show | tuple[Listed, ...],
    "status": Status,
    "status-ledger": Ledger,
    "diff": Diff,
    "apply": Apply,
    "resolve": Resolve,
    "revert": Revert,
    "apply-continue": Recover,
    "verify": Verify,
    "audit": Audit,
    "matrix": Matrix,
    "export": Export,
    "rebase": Rebase,
    "doctor": Doctor,
    "doctor-files": DoctorFiles,
    "bench": Benchmark,
    "new": New,
    "port": Port,
    "test": CheckPatch,
    "test-on": tuple[Trial, ...],
}
"""The answer of each command, also with the options that have one of their own."""


_WITH = {
    "apply-continue": "apply --continue",
    "doctor-files": "doctor FILE...",
    "show": "show PATCH",
    "status-ledger": "status --format ledger",
    "test": "test PATCH",
    "test-on": "test PATCH --on TREE",
}
"""The arguments with which a command gives the listed answer, where it is not named by the command alone."""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's answer."""
    title = {
        "title": f"patchkit {_WITH.get(command, command)} --json",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }
    return title | json_schema(ANSWERS[command])


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, the same with every release of msgspec."""

    def dedented(described: dict[str, Any]) -> dict[str, Any]:
        text = described.get("description")
        # Releases before 0.23 keep a docstring's indentation.
        return described | {"description": inspect.cleandoc(text)} if isinstance(text, str) else described

    schema_of_kind: dict[str, Any] = json.loads(json.dumps(msgspec.json.schema(kind)), object_hook=dedented)
    return schema_of_kind

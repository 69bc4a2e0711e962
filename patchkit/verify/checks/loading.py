"""Every patched module is imported, in a process of its own, with stand-ins for what is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from patchkit.verify import rules, stand_ins
from patchkit.verify.result import Outcome, Result

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject

CHECK, TITLE = "import", "Patched modules can be imported"
_SECONDS = 300


def check(subject: Subject) -> Result:
    """Import the modules that hold a patch's edits, tests left out, with this interpreter."""
    if find_spec("torch") is None:
        remedy = "pip install torch there; its CPU build will do"
        return _impossible(f"importing takes torch, which is not installed in {sys.prefix}", remedy)
    files = [file for file in subject.files if file.startswith("srt/")]
    modules = {f"sglang.{file.removesuffix('.py').replace('/', '.')}": file for file in files}
    request = {"path": str(subject.tree.package.parent), "modules": list(modules)}
    command = (sys.executable, stand_ins.__file__)
    try:
        run = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _impossible(f"the modules were not imported in {_SECONDS} s", "import one by hand to see why")
    lines = run.stdout.splitlines()
    if run.returncode or not lines:
        said = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
        return _impossible(f"the process that imports the modules ended: {said}", "mend what it names")
    answer = json.loads(lines[-1])
    findings = tuple(
        rules.broken(
            rules.LOADING, modules[name], line, message, "mend what the message names", expression=name
        )
        for name, (line, message) in answer["errors"].items()
    )
    notes = (f"stand-ins for {', '.join(answer['absent'])}",) if answer["absent"] else ()
    outcome = Outcome.FAILED if findings else Outcome.PASSED
    return Result(CHECK, TITLE, outcome, f"{len(modules)} modules", findings, notes)


def _impossible(message: str, remedy: str) -> Result:
    broken = rules.broken(rules.LOADING, "__init__.py", 1, message, remedy)
    return Result(CHECK, TITLE, Outcome.FAILED, "not made", (broken,))

"""Every patched module is imported, in a process of its own, with stand-ins for what is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.tree.sglang import module_of, serves
from patchkit.verify import stand_ins
from patchkit.verify.check import Found, broken, register

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject

LOADING = Rule("PV601", "import-error", "a patched module cannot be imported")
_SECONDS = 300


@register("import", "Patched modules can be imported", LOADING, order=90, of_patches=True, runs_code=True)
def check(subject: Subject) -> Found:
    """Import the modules that hold a patch's edits, tests left out, with this interpreter."""
    if find_spec("torch") is None:
        remedy = "pip install torch there; its CPU build will do"
        return _impossible(f"importing takes torch, which is not installed in {sys.prefix}", remedy)
    files = [file for file in subject.files if serves(file)]
    modules = {module_of(file): file for file in files}
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
        broken(LOADING, modules[name], line, message, "mend what the message names", expression=name)
        for name, (line, message) in answer["errors"].items()
    )
    notes = (f"stand-ins for {', '.join(answer['absent'])}",) if answer["absent"] else ()
    return Found(f"{len(modules)} modules", findings, notes)


def _impossible(message: str, remedy: str) -> Found:
    reason = broken(LOADING, "__init__.py", 1, message, remedy)
    return Found("not made", (reason,))

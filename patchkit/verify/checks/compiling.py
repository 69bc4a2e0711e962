"""Every file that patches change compiles; nothing is run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from patchkit.verify import rules
from patchkit.verify.result import Outcome, Result

if TYPE_CHECKING:
    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

CHECK, TITLE = "compile", "Changed files compile"


def check(subject: Subject) -> Result:
    """Compile the files that patches name, and those that the ledger or a patch's comment names."""
    named = {file for patch in subject.patches for edit in patch.edits for file in edit.files}
    recorded = {file for layer in subject.ledger.layers for file in layer.files}
    files = sorted(file for file in named.union(recorded, subject.signed) if file in subject.sources)
    findings = tuple(broken for file in files if (broken := _broken(file, subject.sources[file])))
    outcome = Outcome.FAILED if findings else Outcome.PASSED
    return Result(CHECK, TITLE, outcome, f"{len(files)} files", findings)


def _broken(file: str, source: bytes) -> Finding | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno or 1
        return rules.broken(rules.COMPILE, file, line, f"not valid Python: {error.msg}", "mend the file")
    except ValueError as error:
        return rules.broken(rules.COMPILE, file, 1, f"not valid Python: {error}", "mend the file")
    return None

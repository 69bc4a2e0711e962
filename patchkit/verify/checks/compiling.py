"""Check that every patched file compiles; no code is run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from patchkit import collector
from patchkit.findings.plural import counted
from patchkit.findings.rule import Rule
from patchkit.plan.vendor import FOLDER
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

OBSTACLE = "a file does not compile"
COMPILE = Rule("PV101", "does-not-compile", "a file that patches change is not valid Python")


@register("compile", "Changed files compile", COMPILE, order=10, of_patches=True)
def check(subject: Subject) -> CheckOutcome:
    """Compile every changed file."""
    files = changed_files(subject)
    findings = tuple(finding for file in files if (finding := finding_of(file, subject.sources[file])))
    return CheckOutcome(counted(len(files), "file"), findings, obstacle=OBSTACLE if findings else "")


def changed_files(subject: Subject) -> list[str]:
    """Return the files with edits of patches, those with a patch's comment, and the vendored runtime's."""
    named = {file for patch in subject.patches for edit in patch.edits for file in edit.files}
    inside = {file for file in subject.sources if file.startswith(f"{FOLDER}/")}
    return sorted(file for file in named.union(inside, subject.commented_files) if file in subject.sources)


@collector.cached(512)
def finding_of(file: str, source: bytes) -> Finding | None:
    """Return the finding that a file does not compile, None if it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, file, "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        deep = "nested deeper than this interpreter can compile"
        return violation(COMPILE, file, 1, deep, "split its longest expression")
    except SyntaxError as error:
        line = error.lineno or 1
        return violation(COMPILE, file, line, f"not valid Python: {error.msg}", "fix the syntax error")
    except ValueError as error:
        return violation(COMPILE, file, 1, f"not valid Python: {error}", "remove the null bytes")
    return None

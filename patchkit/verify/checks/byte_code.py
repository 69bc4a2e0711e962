"""Check that Python runs the patched files, and not byte code of their old content that it does not compare."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.rule import Rule
from patchkit.transaction import byte_code
from patchkit.verify.check import CheckOutcome, register, violation
from patchkit.verify.checks.compiling import changed_files

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject

STALE = Rule(
    "PV102", "byte-code-stale", "Python runs byte code of a file's old content, which it does not compare"
)
# Another version of Python runs byte code of its own.
_PYTHON = "Python {}.{}".format(*sys.version_info)


@register("byte-code", "Python runs the changed files", STALE, order=12, of_patches=True)
def check(subject: Subject) -> CheckOutcome:
    """Compare the hash in unchecked byte code with the files that patches change."""
    files = changed_files(subject)
    findings = []
    for file in files:
        path = subject.tree.package / file
        for name in byte_code.stale(path, subject.sources[file]) if path.is_file() else ():
            where = name.relative_to(path.parent) if name.is_relative_to(path.parent) else name
            message = f"{where} was compiled from other content, and {_PYTHON} does not compare them"
            findings.append(violation(STALE, file, 1, message, f"rm {shlex.quote(str(name))}"))
    return CheckOutcome(f"{counted(len(files), 'file')}, by byte code of {_PYTHON}", tuple(findings))

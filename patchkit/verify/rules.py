"""Every way in which a patched tree can fail a check, as every output format names it."""

from __future__ import annotations

from patchkit.audit.rules import RULES as AUDIT_RULES
from patchkit.findings.finding import Confidence, Finding
from patchkit.findings.rule import Rule

COMPILE = Rule("PV101", "does-not-compile", "a file that patches change is not valid Python")
PENDING = Rule("PV201", "patch-pending", "no patch is in the tree")
EDIT = Rule("PV202", "edit-missing", "an edit of a patch that the tree has is not in place")
CONFLICT = Rule("PV203", "edit-conflict", "code around an edit is not what the patch describes")
IMPORT = Rule("PV301", "import-unresolved", "an import of a patched file leads nowhere in the tree")
RUNTIME = Rule("PV302", "runtime-missing", "the runtime that patched code imports is not there")
OLDER = Rule("PV303", "runtime-older", "the runtime is older than what patched code imports")
NAME = Rule("PV304", "runtime-name", "the runtime API lacks a name that patched code uses")
HOOK = Rule("PV401", "hook-missing", "the overlap plan stream can reach a backend without its hook")
SIGNATURE = Rule("PV402", "signature", "a function does not accept what a caller in the tree passes")
SLOT = Rule("PV403", "backend-slot", "the decision reads a backend slot that does not exist")
LEDGER = Rule("PV501", "ledger-bytes", "the ledger and the tree's bytes disagree")
LOADING = Rule("PV601", "import-error", "a patched module cannot be imported")

RULES = AUDIT_RULES | {
    rule.id: rule
    for rule in (
        COMPILE,
        PENDING,
        EDIT,
        CONFLICT,
        IMPORT,
        RUNTIME,
        OLDER,
        NAME,
        HOOK,
        SIGNATURE,
        SLOT,
        LEDGER,
        LOADING,
    )
}


def broken(
    rule: Rule, file: str, line: int, message: str, remedy: str, *, function: str = "", expression: str = ""
) -> Finding:
    """Return the finding that ``file`` breaks ``rule``; ``remedy`` says what to do about it."""
    return Finding(
        rule.id, file, line, function or "module", expression, message, Confidence.CERTAIN, (), remedy
    )

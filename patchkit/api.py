"""The public Python API; each name is imported when it is first used.

The functions print nothing and never prompt or exit: they return values and raise PatchkitError. Trees come from
``tree.tree.open_tree``, patches from ``patchset.load.patches``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchkit.commands.apply import apply
    from patchkit.commands.audit import audit
    from patchkit.commands.bench import bench
    from patchkit.commands.check import CheckedPatch, check_patches
    from patchkit.commands.commit import commit
    from patchkit.commands.diff import diff
    from patchkit.commands.doctor import doctor
    from patchkit.commands.export import ExportResult, export
    from patchkit.commands.matrix import matrix
    from patchkit.commands.merge import merge
    from patchkit.commands.new import DraftedPatch, new
    from patchkit.commands.port import PortConflictError, PortResult, port, port_matrix
    from patchkit.commands.rebase_check import Move, rebase_check
    from patchkit.commands.recover import recover
    from patchkit.commands.report import report
    from patchkit.commands.resolve import (
        ResolveResult,
        SharedResolutions,
        export_resolutions,
        give_up,
        resolve,
    )
    from patchkit.commands.revert import commit_revert, revert, revert_what_can_be
    from patchkit.commands.status import status, tree_status
    from patchkit.commands.test import test
    from patchkit.commands.verify import verify
    from patchkit.plan.conflict import conflicts
    from patchkit.plan.refusal import PlanConflictError, describe_conflicts

_HOMES = {
    "apply": "patchkit.commands.apply",
    "audit": "patchkit.commands.audit",
    "bench": "patchkit.commands.bench",
    "CheckedPatch": "patchkit.commands.check",
    "check_patches": "patchkit.commands.check",
    "commit": "patchkit.commands.commit",
    "conflicts": "patchkit.plan.conflict",
    "diff": "patchkit.commands.diff",
    "doctor": "patchkit.commands.doctor",
    "ExportResult": "patchkit.commands.export",
    "export": "patchkit.commands.export",
    "matrix": "patchkit.commands.matrix",
    "merge": "patchkit.commands.merge",
    "DraftedPatch": "patchkit.commands.new",
    "new": "patchkit.commands.new",
    "port": "patchkit.commands.port",
    "port_matrix": "patchkit.commands.port",
    "PortConflictError": "patchkit.commands.port",
    "PortResult": "patchkit.commands.port",
    "Move": "patchkit.commands.rebase_check",
    "rebase_check": "patchkit.commands.rebase_check",
    "recover": "patchkit.commands.recover",
    "report": "patchkit.commands.report",
    "ResolveResult": "patchkit.commands.resolve",
    "resolve": "patchkit.commands.resolve",
    "export_resolutions": "patchkit.commands.resolve",
    "give_up": "patchkit.commands.resolve",
    "SharedResolutions": "patchkit.commands.resolve",
    "revert": "patchkit.commands.revert",
    "revert_what_can_be": "patchkit.commands.revert",
    "commit_revert": "patchkit.commands.revert",
    "status": "patchkit.commands.status",
    "tree_status": "patchkit.commands.status",
    "test": "patchkit.commands.test",
    "verify": "patchkit.commands.verify",
    "PlanConflictError": "patchkit.plan.refusal",
    "describe_conflicts": "patchkit.plan.refusal",
}

__all__ = [
    "CheckedPatch",
    "DraftedPatch",
    "ExportResult",
    "Move",
    "PlanConflictError",
    "PortConflictError",
    "PortResult",
    "ResolveResult",
    "SharedResolutions",
    "apply",
    "audit",
    "bench",
    "check_patches",
    "commit",
    "commit_revert",
    "conflicts",
    "describe_conflicts",
    "diff",
    "doctor",
    "export",
    "export_resolutions",
    "give_up",
    "matrix",
    "merge",
    "new",
    "port",
    "port_matrix",
    "rebase_check",
    "recover",
    "report",
    "resolve",
    "revert",
    "revert_what_can_be",
    "status",
    "test",
    "tree_status",
    "verify",
]


if not TYPE_CHECKING:  # With it in sight, a type checker would take any name for one of these.

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

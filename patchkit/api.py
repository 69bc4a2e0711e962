"""The public Python API; each name is imported when it is first used.

The functions print nothing and never prompt or exit: they return values and raise PatchkitError. Trees come from
``tree.tree.open_tree``, patches from ``patchset.load.patches``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchkit.commands.apply import apply as apply
    from patchkit.commands.audit import audit as audit
    from patchkit.commands.bench import bench as bench
    from patchkit.commands.check import CheckedPatch as CheckedPatch
    from patchkit.commands.check import check_patches as check_patches
    from patchkit.commands.commit import commit as commit
    from patchkit.commands.diff import diff as diff
    from patchkit.commands.doctor import doctor as doctor
    from patchkit.commands.export import ExportResult as ExportResult
    from patchkit.commands.export import export as export
    from patchkit.commands.matrix import matrix as matrix
    from patchkit.commands.merge import merge as merge
    from patchkit.commands.new import DraftedPatch as DraftedPatch
    from patchkit.commands.new import new as new
    from patchkit.commands.port import PortConflictError as PortConflictError
    from patchkit.commands.port import PortResult as PortResult
    from patchkit.commands.port import port as port
    from patchkit.commands.port import port_matrix as port_matrix
    from patchkit.commands.rebase_check import Move as Move
    from patchkit.commands.rebase_check import rebase_check as rebase_check
    from patchkit.commands.recover import recover as recover
    from patchkit.commands.report import report as report
    from patchkit.commands.resolve import ResolveResult as ResolveResult
    from patchkit.commands.resolve import SharedResolutions as SharedResolutions
    from patchkit.commands.resolve import export_resolutions as export_resolutions
    from patchkit.commands.resolve import give_up as give_up
    from patchkit.commands.resolve import resolve as resolve
    from patchkit.commands.revert import commit_revert as commit_revert
    from patchkit.commands.revert import revert as revert
    from patchkit.commands.revert import revert_what_can_be as revert_what_can_be
    from patchkit.commands.status import status as status
    from patchkit.commands.status import tree_status as tree_status
    from patchkit.commands.test import test as test
    from patchkit.commands.verify import verify as verify
    from patchkit.plan.conflict import conflicts as conflicts
    from patchkit.plan.refusal import PlanConflictError as PlanConflictError
    from patchkit.plan.refusal import describe_conflicts as describe_conflicts

_NAMES = {
    "commands.apply": ("apply",),
    "commands.audit": ("audit",),
    "commands.bench": ("bench",),
    "commands.check": ("CheckedPatch", "check_patches"),
    "commands.commit": ("commit",),
    "commands.diff": ("diff",),
    "commands.doctor": ("doctor",),
    "commands.export": ("ExportResult", "export"),
    "commands.matrix": ("matrix",),
    "commands.merge": ("merge",),
    "commands.new": ("DraftedPatch", "new"),
    "commands.port": ("PortConflictError", "PortResult", "port", "port_matrix"),
    "commands.rebase_check": ("Move", "rebase_check"),
    "commands.recover": ("recover",),
    "commands.report": ("report",),
    "commands.resolve": ("ResolveResult", "SharedResolutions", "export_resolutions", "give_up", "resolve"),
    "commands.revert": ("commit_revert", "revert", "revert_what_can_be"),
    "commands.status": ("status", "tree_status"),
    "commands.test": ("test",),
    "commands.verify": ("verify",),
    "plan.conflict": ("conflicts",),
    "plan.refusal": ("PlanConflictError", "describe_conflicts"),
}
_HOMES = {name: f"patchkit.{module}" for module, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)

if not TYPE_CHECKING:  # With it in sight, a type checker would take any name for one of these.

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

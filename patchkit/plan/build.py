"""Plan patches on a tree: compute each edit's state and each file's new bytes, without writing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from patchkit import memory
from patchkit.errors import ConflictError
from patchkit.plan.evaluate import evaluate
from patchkit.plan.locate import Overlay
from patchkit.plan.needed_bodies import needed_bodies
from patchkit.plan.package_name import with_package_name
from patchkit.plan.status import IN_PLACE, FileChange, PatchStatus, Plan, Stage, State
from patchkit.tree import sglang
from patchkit.tree.modules import Modules, WidenedError
from patchkit.tree.source import fault_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.plan.examinations import Examinations
    from patchkit.tree.tree import Tree


_Run: TypeAlias = tuple[Overlay, tuple[PatchStatus, ...], dict[str, list[str]]]


def _run(
    modules: Modules,
    patches: Sequence[Patch],
    watch: Callable[[PatchStatus, Overlay], None] | None = None,
    **options: Any,
) -> _Run:
    while True:
        with suppress(WidenedError):
            return _run_once(modules, patches, watch, **options)


def _run_once(
    modules: Modules,
    patches: Sequence[Patch],
    watch: Callable[[PatchStatus, Overlay], None] | None = None,
    *,
    examinations: Examinations | None = None,
    **options: bool,
) -> _Run:
    overlay = Overlay(modules, examinations)
    touched: dict[str, list[str]] = {}
    statuses: list[PatchStatus] = []
    old = _too_old(modules)
    for patch in patches:
        before = dict(overlay.edited)
        failed = {s.patch.id for s in statuses if s.state in {State.CONFLICT, State.NOT_APPLICABLE}}
        status = evaluate(overlay, patch, **options)
        if old and patch.built_in and not _is_present(status):
            status = PatchStatus(patch, State.NOT_APPLICABLE, (), old)
            overlay.edited = before
        needed = [identifier for identifier in patch.requires if identifier in failed]
        if needed and status.state in {State.PENDING, State.PARTIAL, State.CONFLICT}:
            overlay.edited = before
            blocker = next(s for s in statuses if s.patch.id == needed[0])
            is_stuck = status.state is State.CONFLICT and blocker.state is State.CONFLICT
            condition = "in conflict" if blocker.state is State.CONFLICT else "not applicable"
            if not is_stuck:
                reason = f"requires {needed[0]}, which is {condition}"
                status = replace(status, state=blocker.state, reason=reason)
        statuses.append(status)
        for file, module in overlay.edited.items():
            if before.get(file) is not module:
                touched.setdefault(file, []).append(patch.id)
        # Files that this patch needs and an earlier one edited are recorded for both, so that reverting the earlier one
        # keeps them.
        shared = {edit.file for edit in status.edits if edit.state is State.PENDING} & before.keys()
        for file in sorted(shared if status.state in {State.PENDING, State.PARTIAL} else ()):
            if patch.id not in touched.setdefault(file, []):
                touched[file].append(patch.id)
        if watch is not None:
            watch(status, overlay)
    return overlay, tuple(statuses), touched


def _too_old(modules: Modules) -> str:
    """Return the reason why a tree is older than the supported releases, empty if it is not."""
    # Reading the version may run git, which takes longer than looking at the files.
    if sglang.is_later(modules.source):
        return ""
    version = modules.version()
    if version is None and sglang.is_serving(modules.source):
        return f"sglang is too old, judging by its files: patches fit {sglang.OLDEST} and later"
    if sglang.is_too_old(version):
        return f"sglang {version} is too old: patches fit {sglang.OLDEST} and later"
    return ""


def _is_present(status: PatchStatus) -> bool:
    """Return whether a tree has a patch, or a part of it that patchkit wrote."""
    return status.state in IN_PLACE or any(edit.state is State.APPLIED for edit in status.edits)


@memory.collector_paused()
def inspect(
    tree: Tree,
    patches: Sequence[Patch],
    modules: Modules | None = None,
    examinations: Examinations | None = None,
) -> tuple[PatchStatus, ...]:
    """Return each patch's status on ``tree``. Raise TreeError if a file that a patch names is not valid Python.

    ``modules`` reads the tree's files, where they are shared with other trees. ``examinations`` has results of these
    patches on other trees.
    """
    patches = with_package_name(patches, tree.name)
    modules = modules or Modules(tree, needed_bodies(patches))
    return _run(modules, patches, examinations=examinations)[1]


@memory.collector_paused()
def make_plan(
    tree: Tree,
    patches: Sequence[Patch],
    *,
    try_closest_shape: bool = False,
    allow_partial: bool = False,
    modules: Modules | None = None,
) -> Plan:
    """Return what applying ``patches`` in this order to ``tree`` would do; conflicts are states, not errors.

    The changes leave out every patch that conflicts and every patch that requires one; with ``allow_partial`` they
    include those edits of a conflicting patch whose sites are unambiguous. ``modules`` reads the tree's files, where
    several plans share them. ``try_closest_shape`` is that of ``evaluate``. Raise ConflictError if an edit would leave
    a file that does not compile.
    """
    patches = with_package_name(patches, tree.name)
    modules = modules or Modules(tree, needed_bodies(patches))
    return _plan_of(
        tree, *_run(modules, patches, try_closest_shape=try_closest_shape, allow_partial=allow_partial)
    )


@memory.collector_paused()
def make_series(tree: Tree, patches: Sequence[Patch]) -> tuple[Plan, tuple[Stage, ...]]:
    """Return the plan of ``make_plan``, and its changes as one stage for each patch."""
    patches = with_package_name(patches, tree.name)
    stages: list[Stage] = []
    contents: dict[str, bytes | None] = {}

    def watch(status: PatchStatus, overlay: Overlay) -> None:
        if status.patch.id == patches[0].id:  # Also where the run begins again.
            stages.clear()
            contents.clear()
        overlay.format_together()
        name = status.patch.id
        after = {file: overlay.written(file, [name]) for file in overlay.edited}
        changes = []
        # A patch that conflicts drops its own edits only, so an unchanged text is no change of this patch.
        for file, text in after.items():
            before = contents.get(file, overlay.modules.source(file))
            if before != text:
                changes.append(FileChange(file, before, text, (name,)))
        contents.update(after)
        if changes:
            stages.append(Stage(status, tuple(changes)))

    plan = _plan_of(tree, *_run(Modules(tree, needed_bodies(patches)), patches, watch))
    return plan, tuple(stages)


def _plan_of(
    tree: Tree, overlay: Overlay, statuses: tuple[PatchStatus, ...], touched: dict[str, list[str]]
) -> Plan:
    changes = []
    overlay.format_together()
    for file in overlay.edited:
        before, after = overlay.modules.source(file), overlay.written(file, touched[file])
        if before != after:
            changes.append(FileChange(file, before, after, tuple(touched[file])))
            _require_valid(changes[-1])
    return Plan(tree, statuses, tuple(changes))


def _require_valid(change: FileChange) -> None:
    if not change.file.endswith(".py"):
        return
    fault = fault_of(change.after or b"")
    # The tree may need a later Python than this one.
    if fault is not None and fault_of(change.before or b"") is None:
        raise ConflictError(
            f"{', '.join(change.patches)} would leave this line invalid ({fault.reason}), so nothing was written",
            where=f"{change.file}:{fault.line}",
            advice="leave those patches out and report the file",
        )

"""Record edits that a person made by hand, and store them for the same code elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from patchkit.commands.patch_folder import staged
from patchkit.commands.status import tree_status
from patchkit.drafting.extension import extensions
from patchkit.errors import ConflictError, PatchkitError, UsageError, spelling_hint
from patchkit.plan.conflict import at_site, missing_line
from patchkit.plan.markers import marked_conflicts
from patchkit.plan.planner import Planner
from patchkit.plan.resolutions import dropped_names, resolution
from patchkit.plan.status import ACCEPTED, BY_HAND, IN_PLACE, EditStatus, State, note_of
from patchkit.transaction import resolve as resolving
from patchkit.transaction.conflicts import UNRECORDED, advice, before_markers, conflicts_in, recording
from patchkit.transaction.resolution_store import ResolutionStore
from patchkit.transaction.revert import recorded
from patchkit.transaction.write import read_consistently
from patchkit.tree.source import fault_of
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree, Contents, ReadTree


@dataclass(frozen=True)
class ResolveResult:
    """Whether an edit was newly recorded as made by hand, and whether its code was remembered for other trees."""

    recorded: bool
    remembered: bool
    accepted: bool = False
    """Whether it was accepted without a check of the code."""
    ported: bool = False
    """Whether the conflict is that of a port, so that it belongs to no loaded patch."""


@dataclass(frozen=True)
class SharedResolutions:
    """The files written, and the reason for each resolution that was left out."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]


def resolve(
    tree: CheckoutTree, patches: PatchSet, patch: str, edit: str, *, accept: bool = False
) -> ResolveResult:
    """Record that a person made an edit, and remember the code that replaced its conflict markers.

    The record is a comment in the code. Raise UsageError for an unknown edit. Raise ConflictError, and record nothing,
    if its conflict markers are still there, if the code does not have the edit's effect or lacks code of the tree's own
    (unless ``accept`` is set), or if patchkit made the edit.
    """

    def checked(read: ReadTree) -> ResolveResult | _CheckedEdit | tuple[ReadTree, str]:
        is_ported = not _is_loaded(patches, patch, edit)
        file = resolving.conflict_of(read, patch, edit) if is_ported else None
        if file is None:
            return _checked(read, patches, patch, edit, accept=accept)
        _require_valid(read, file, patch, edit)
        return read, file

    outcome = read_consistently(tree, checked)
    if isinstance(outcome, ResolveResult):
        return outcome
    if not isinstance(outcome, _CheckedEdit):
        return _resolve_ported(*outcome, patch, edit)
    is_unchecked = outcome.check is None
    manual_edit = resolving.record_manual_edit(
        outcome.read, outcome.patch, outcome.status, outcome.check, outcome.note
    )
    if manual_edit is None or not manual_edit.is_whole:
        return ResolveResult(recorded=True, remembered=False, accepted=is_unchecked)
    conflict = at_site(
        OverlayTree(tree, {outcome.status.file: manual_edit.original}), outcome.patch, outcome.status
    )
    stored = resolution(
        conflict, manual_edit.original, manual_edit.text, outcome.note.text if is_unchecked else ""
    )
    remembered = stored is not None and ResolutionStore(tree).put(*stored)
    return ResolveResult(recorded=True, remembered=remembered, accepted=is_unchecked)


class _CheckedEdit(NamedTuple):
    """An edit that can be recorded in the tree as it was ``read``; ``check`` is None if it is accepted unchecked."""

    read: ReadTree
    patch: Patch
    status: EditStatus
    check: resolving.EditCheck | None
    note: resolving.Note


def _checked(
    tree: ReadTree, patches: PatchSet, patch: str, edit: str, *, accept: bool
) -> ResolveResult | _CheckedEdit:
    """Return what is to be recorded for an edit of a loaded patch, or that there is nothing to record."""
    if (patch, edit) in resolving.manual_edits(tree):
        return ResolveResult(recorded=False, remembered=False)
    if patch not in patches.ids and patch in recorded(tree):
        raise UsageError(
            f"{patch} has no conflict {edit!r} in {tree.package}",
            advice=f"patchkit status {tree.argument} lists the conflicts",
        )
    named = patches.get(patch)
    _require_edit(named, edit)
    _require_no_markers(tree, patch, edit)
    before = before_markers(tree)
    status = _status_of(tree, patches, before, patch, edit)
    missing = not _is_in_place(status)
    if not missing and (patch, edit) in resolving.made_by_patchkit(tree):
        raise ConflictError(f"{patch} {edit} was made by patchkit, so there is nothing to record")
    if status.reason in (ACCEPTED, BY_HAND):
        return ResolveResult(recorded=False, remembered=False)
    if missing and not accept:
        reason = (
            missing_line(OverlayTree(tree, before), named, status) if status.state is State.CONFLICT else ""
        )
        raise ConflictError(
            f"{patch} {edit} is not in place: {reason or status.reason or 'patchkit apply can make it'}",
            where=f"{status.file}: {status.site or 'module'}",
            advice=f"run patchkit diff {patch} to see what it changes, or patchkit resolve --accept {patch} {edit} to "
            "record it without this check",
        )
    if tree.read(status.file) is None:
        raise ConflictError(
            f"{patch} {edit} cannot be in place, because the file does not exist",
            where=status.file,
            advice="create it first",
        )

    def is_in_place(file: str, text: bytes) -> bool:
        try:
            return _is_in_place(_status_of(tree, patches, {**before, file: text}, patch, edit))
        except PatchkitError:
            return False

    check = None if missing else is_in_place
    manual_edit = resolving.manual_edit_for(tree, named, status, check)
    definition = next(candidate for candidate in named.edits if candidate.name == edit)
    finds = [find for find, _ in definition.kind.forms]
    current = before.get(status.file) or tree.read(status.file) or b""
    lost = (
        dropped_names(manual_edit.found, finds, manual_edit.text, (manual_edit.original, current))
        if manual_edit and not accept
        else []
    )
    if manual_edit is not None and lost:
        raise ConflictError(
            f"{patch} {edit}: your code lacks {', '.join(lost)}, which was between the markers",
            where=f"{status.file}:{manual_edit.line}",
            advice=f"restore it, or confirm the removal with patchkit resolve --accept {patch} {edit}",
        )
    line = at_site(OverlayTree(tree, before), named, status).line
    note = resolving.Note(note_of(patch, edit, ACCEPTED if missing else BY_HAND), line)
    return _CheckedEdit(tree, named, status, check, note)


def _is_loaded(patches: PatchSet, patch: str, edit: str) -> bool:
    return patch in patches.ids and edit in [edit.name for edit in patches.get(patch).edits]


def _require_valid(tree: CheckoutTree, file: str, patch: str, edit: str) -> None:
    """Raise ConflictError unless a port's conflict is resolved and its file compiles; there is no other check."""
    _require_no_markers(tree, patch, edit)
    fault = fault_of(_without_other_conflicts(tree.read(file) or b"")) if file.endswith(".py") else None
    if fault is not None:
        raise ConflictError(
            "not valid Python",
            where=f"{file}:{fault.line}",
            advice=f"fix it, then run patchkit resolve {patch} {edit} again",
        )


def _resolve_ported(tree: ReadTree, file: str, patch: str, edit: str) -> ResolveResult:
    """Record that a person resolved a conflict of a port."""
    if not resolving.record_ported(tree, patch, EditStatus(edit, file, "", State.PENDING)):
        raise ConflictError(
            f"the conflict of {patch} {edit} and the code around it are not in the file",
            where=file,
            advice=f"there is nothing to record; patchkit status {tree.argument} lists the conflicts",
        )
    return ResolveResult(recorded=True, remembered=False, ported=True)


def _without_other_conflicts(text: bytes) -> bytes:
    """Return a text with blank lines in place of the markers of other conflicts and all but what was found."""
    lines = text.splitlines(keepends=True)
    for block in marked_conflicts(text):
        behind = block.start + 1 + block.found
        lines[block.start] = b"\n"
        lines[behind : block.end] = [b"\n"] * (block.end - behind)
    return b"".join(lines)


def _require_no_markers(tree: CheckoutTree, patch: str, edit: str) -> None:
    """Raise ConflictError if the markers of an edit's conflict are still there."""
    for file, blocks in conflicts_in(tree).items():
        for block in blocks:
            if (block.patch, block.edit) == (patch, edit):
                raise ConflictError(
                    "the conflict markers are still there",
                    where=f"{file}:{block.start + 1}",
                    advice=advice(block),
                )


class ConflictingEdit(NamedTuple):
    """An edit in conflict; ``is_unfinished`` is whether the tree has its markers, or unrecorded code in their place."""

    status: EditStatus
    is_unfinished: bool


def open_edits(tree: CheckoutTree, patches: PatchSet, patch: str) -> tuple[ConflictingEdit, ...]:
    """Return the edits of a patch or port that are in conflict. Raise UsageError for a name that neither has."""
    statuses = tree_status(tree, patches)
    unfinished = [edit for name, edit in statuses.unfinished if name == patch]
    if patch not in patches.ids and not unfinished and patch not in recorded(tree):
        patches.get(patch)
    edits = {
        edit.name: edit
        for status in statuses.patches
        for edit in status.edits
        if status.patch.id == patch and edit.state is State.CONFLICT
    }
    for name in unfinished:
        reason = f"{UNRECORDED}: {recording(patch, name)}"
        edits.setdefault(name, EditStatus(name, "", "", State.CONFLICT, reason))
    return tuple(ConflictingEdit(edit, name in unfinished) for name, edit in edits.items())


def give_up(tree: CheckoutTree, patches: PatchSet, patch: str, edit: str) -> str:
    """Replace an edit's conflict markers by the code found there before, and return the file; the edit is left out.

    Raise UsageError for an unknown edit, and ConflictError, with nothing written, if there are no markers of it.
    """
    if _is_loaded(patches, patch, edit) or resolving.conflict_of(tree, patch, edit) is None:
        _require_edit(patches.get(patch), edit)
    return resolving.give_up(tree, patch, edit)


def export_resolutions(tree: CheckoutTree, patches: PatchSet, folder: Path) -> SharedResolutions:
    """Write the resolutions recorded in the repository of ``tree`` to ``folder``, as patch folders for ``--patches``.

    Raise UsageError, with nothing written, if a patch has a folder there already or there is nothing to write.
    """
    texts, left_out = extensions(ResolutionStore(tree), patches)
    files = {folder / name / "patch.toml": text for name, text in sorted(texts.items())}
    existing = next((file for file in files if file.exists()), None)
    if existing is not None:
        raise UsageError(f"{existing} already exists", advice="name another folder")
    if not files:
        what = "can be written as a patch folder" if left_out else "is recorded"
        raise UsageError(
            f"no resolution of {tree.root} {what}",
            reasons=left_out,
            advice="resolve a conflict of patchkit apply --markers with patchkit resolve first",
        )
    with staged({file.parent: {file.name: text.encode()} for file, text in files.items()}):
        pass
    return SharedResolutions(tuple(files), left_out)


def _require_edit(patch: Patch, name: str) -> None:
    names = [edit.name for edit in patch.edits]
    if name not in names:
        hint = spelling_hint(name, names)
        raise UsageError(
            f"{patch.id} has no edit {name!r}", advice=f"{hint}patchkit show {patch.id} lists them"
        )


def _status_of(
    tree: CheckoutTree, patches: PatchSet, contents: Contents, patch: str, edit: str
) -> EditStatus:
    """Return an edit's status in files with these contents. Raise ConflictError if it does not apply to the tree."""
    statuses = Planner(tree, patches).statuses(patches.select([patch]), contents)
    status = next(s for s in statuses if s.patch.id == patch)
    edits = [candidate for candidate in status.edits if candidate.name == edit]
    if not edits:
        raise ConflictError(
            f"{patch} {edit} does not apply to this tree: {status.reason or 'the edit is for another shape'}",
            advice=f"patchkit status {tree.argument} shows the state of {patch}",
        )
    return next((candidate for candidate in edits if not _is_in_place(candidate)), edits[0])


def _is_in_place(edit: EditStatus) -> bool:
    return edit.state in IN_PLACE

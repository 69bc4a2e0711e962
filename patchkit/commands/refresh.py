"""Take the code as it is now into a patch of one's own, as ``quilt refresh`` does."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from patchkit.commands.patch_folder import staged
from patchkit.drafting.change import Facts
from patchkit.drafting.patch import draft_patch
from patchkit.errors import ConflictError, UsageError
from patchkit.patchset import load
from patchkit.patchset.diffs import BASE
from patchkit.plan.comments import without_comments
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch
from patchkit.plan.status import FileChange
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.transaction.current import current_record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import concurrent_change_error, digest_or_none
from patchkit.transaction.write import locked, write_all
from patchkit.tree.git import object_id
from patchkit.tree.scratch import scratch
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from patchkit.patchset.patch import BasedDiff, Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree, Contents


def refresh(tree: CheckoutTree, patches: PatchSet, name: str, folders: Sequence[Path]) -> Path:
    """Write what the tree has of a patch that is a diff as its diff, record it, and return the diff's path.

    ``folders`` are those of patches. Raise UsageError if none of them has the patch, and ConflictError, with nothing
    written, if it is not applied, or if another patch changed its files too.
    """
    patch = patches.get(name)
    folder = _folder_of(patch, tree, folders)
    read, changes = read_without_conflicts(tree, lambda read: (read, _changes(read, patch)))
    before = {change.file: change.before for change in changes}
    written = [
        FileChange(change.file, change.before, without_comments(change.after, patch.id)) for change in changes
    ]
    draft = draft_patch(OverlayTree(read, before), written, Facts(name))
    if draft.left_out or not draft.edits:
        raise ConflictError(
            f"{name} cannot be made of the code as it is",
            reasons=draft.left_out or ("nothing of it is left",),
            advice=f"patchkit revert {name} takes it back",
        )
    diff = _diff_for(patch, before)
    files = {name: text for name, text in draft.files.items() if name.startswith(f"{BASE}/")}
    files[diff] = draft.files["change.diff"]
    unused = _unused(folder, patch, diff, files)
    applied = _applied(patch, folder, diff, files, unused)
    digests = {
        change.file: AppliedFile(digest_or_none(change.before), digest_or_none(change.after), (name,))
        for change in changes
    }
    texts = [text for change in changes for text in (change.before, change.after) if text is not None]
    with staged({folder: files}), locked(tree) as store:
        if not read.is_unchanged:
            raise concurrent_change_error(tree.package)
        write_all(tree, store, {}, current_record(tree).renewed(digests, applied), kept=texts)
    for path in unused:
        path.unlink()
    return folder / diff


def _applied(
    patch: Patch, folder: Path, diff: str, files: Mapping[str, bytes], unused: Sequence[Path]
) -> AppliedPatch:
    """Return what the record says of a patch whose folder has these ``files`` in place of those ``unused``."""
    with scratch() as place:
        copy = place / folder.name
        shutil.copytree(folder, copy, ignore=lambda _folder, _names: [path.name for path in unused])
        for name, text in files.items():
            (copy / name).write_bytes(text)
        loaded = load.patches([copy]).get(patch.id)
    (made,) = (based for based in loaded.diffs if based.name == diff)
    edits = tuple(AppliedEdit(name, part.file) for name, part in made.edits.items())
    return AppliedPatch(patch.id, tuple(patch.requires), edits, form=loaded.form)


def _folder_of(patch: Patch, tree: CheckoutTree, folders: Sequence[Path]) -> Path:
    """Return the folder of a patch of one's own. Raise UsageError if it is not one, or is no diff."""
    for file in load.own_files(folders, tree.fork):
        if patch.diffs and load.named_in(file) == patch.id and any(file.parent.glob("change*.diff")):
            return file.parent
    raise UsageError(
        f"{patch.id} is not a patch of your own that is a diff",
        advice=f"patchkit resolve --accept {patch.id} EDIT accepts one edit",
    )


def _changes(tree: CheckoutTree, patch: Patch) -> list[FileChange]:
    """Return what the tree has of a patch: each file before it and now."""
    layers = current_record(tree).layers
    store = Store(tree.package)
    changes: list[FileChange] = []
    for file in dict.fromkeys(file for layer in layers for file in layer.files):
        entries = [layer.files[file] for layer in layers if file in layer.files]
        names = {name for entry in entries for name in entry.patches}
        if patch.id not in names:
            continue
        if others := ", ".join(sorted(names - {patch.id})):
            raise ConflictError(
                f"{others} changed it too, so what belongs to {patch.id} is not known",
                where=file,
                advice=f"run patchkit revert {others}, then try again",
            )
        original = entries[0].original
        changes.append(FileChange(file, None if original is None else store.get(original), tree.read(file)))
    if not changes:
        raise ConflictError(
            f"{patch.id} is not applied here", advice=f"run patchkit apply {patch.id}, and edit its code"
        )
    return changes


def _diff_for(patch: Patch, before: Contents) -> str:
    """Return the name of the patch's diff for a tree with these files: the one made on them, or that of the patch."""

    def fits(diff: BasedDiff) -> bool:
        return all(versions[0] == before.get(file) for file, versions in diff.files.items())

    return next(filter(fits, patch.diffs), patch.diffs[0]).name


def _unused(folder: Path, patch: Patch, diff: str, files: Mapping[str, bytes]) -> list[Path]:
    """Return the files before the change that only the former diff was made on."""
    others = (based for based in patch.diffs if based.name != diff)
    used = {object_id(text) for based in others for text, _ in based.files.values() if text is not None}
    named = (folder / BASE).iterdir() if (folder / BASE).is_dir() else ()
    return [path for path in named if path.name not in used and f"{BASE}/{path.name}" not in files]

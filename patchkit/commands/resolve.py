"""What a person wrote in place of an edit is recorded as that edit, and remembered for the same code elsewhere."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.drafting.extension import extensions
from patchkit.errors import ConflictError, PatchkitError, UsageError
from patchkit.plan.conflict import at_site, short_of
from patchkit.plan.planner import Planner
from patchkit.plan.resolutions import dropped, resolution
from patchkit.plan.status import ACCEPTED, BY_HAND, EditStatus, State, note_of
from patchkit.transaction import resolve as resolving
from patchkit.transaction.remembered import Remembered
from patchkit.transaction.revert import recorded
from patchkit.transaction.unfinished import advice, before_markers, unfinished
from patchkit.transaction.write import require_settled
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

    Contents = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Resolved:
    """Whether an edit was recorded as made by hand now, and what was written for it is known elsewhere."""

    recorded: bool
    remembered: bool
    accepted: bool = False
    """Whether it is in place on the person's word alone."""
    ported: bool = False
    """Whether a port left its conflict, so that no patch at hand knows it."""


@dataclass(frozen=True)
class SharedResolutions:
    """The files written, and why each resolution that is in none of them was left out."""

    files: tuple[Path, ...]
    left: tuple[str, ...]


def resolve(
    tree: CheckoutTree, patches: PatchSet, patch: str, edit: str, *, accept: bool = False
) -> Resolved:
    """Record that a person made an edit, and remember what they wrote where apply had left its conflict.

    UsageError for an unknown edit; ConflictError, and nothing recorded, while its markers stand, if the code
    does not have what the edit is for, if it lost something of the tree's own, or if patchkit made it. With ``accept``
    the person's word counts for the code. A comment there says who made it.
    """
    require_settled(tree)
    is_by_hand = (patch, edit) in resolving.by_hand(tree)
    file = None if _is_at_hand(patches, patch, edit) else resolving.conflict_of(tree, patch, edit)
    if file is not None:
        return _resolve_ported(tree, file, patch, edit)
    if is_by_hand:
        return Resolved(recorded=False, remembered=False)
    if patch not in patches.ids and patch in recorded(tree):
        raise UsageError(
            f"{patch} left no conflict {edit!r} in {tree.package}",
            advice=f"patchkit status {tree.root} shows what does",
        )
    named = patches.get(patch)
    _require_edit(named, edit)
    if (patch, edit) in resolving.made(tree):
        raise ConflictError(f"{patch}: {edit} was made by patchkit itself, so there is nothing to record.")
    _require_out(tree, patch, edit)
    before = before_markers(tree)
    status = _status_of(tree, patches, before, patch, edit)
    missing = not _is_in_place(status)
    if status.reason in (ACCEPTED, BY_HAND):
        return Resolved(recorded=False, remembered=False)
    if missing and not accept:
        why = short_of(OverlayTree(tree, before), named, status) if status.state is State.CONFLICT else ""
        raise ConflictError(
            f"{status.file}: {status.site or 'module'}: {patch}: {edit} is not in place: "
            f"{why or status.reason or 'patchkit apply can make it'}; patchkit diff shows what it is for, and resolve "
            "--accept takes your word for it."
        )
    if tree.read(status.file) is None:
        raise ConflictError(f"{status.file} is not there, so {patch} {edit} cannot be in place.")

    def holds(file: str, text: bytes) -> bool:
        try:
            return _is_in_place(_status_of(tree, patches, {**before, file: text}, patch, edit))
        except PatchkitError:
            return False

    check = None if missing else holds
    made = resolving.written_for(tree, named, status, check)
    spec = next(each for each in named.edits if each.name == edit)
    finds = [find for find, _ in spec.kind.ways]
    now = before.get(status.file) or tree.read(status.file) or b""
    lost = dropped(made.found, finds, made.text, (made.original, now)) if made and not accept else []
    if made is not None and lost:
        raise ConflictError(
            f"{status.file}:{made.line}: {patch}: {edit}: {', '.join(lost)} was found there and is not in what you "
            "wrote: put it back, or say with resolve --accept that it is to go."
        )
    line = at_site(OverlayTree(tree, before), named, status).line
    word = resolving.Word(note_of(patch, edit, ACCEPTED if missing else BY_HAND), line)
    found = resolving.record_by_hand(tree, named, status, check, word)
    if found is None or not found.is_whole:
        return Resolved(recorded=True, remembered=False, accepted=missing)
    conflict = at_site(OverlayTree(tree, {status.file: found.original}), named, status)
    kept = resolution(conflict, found.original, found.text, word.note if missing else "")
    remembered = kept is not None and Remembered(tree).put(*kept)
    return Resolved(recorded=True, remembered=remembered, accepted=missing)


def _is_at_hand(patches: PatchSet, patch: str, edit: str) -> bool:
    return patch in patches.ids and edit in [each.name for each in patches.get(patch).edits]


def _resolve_ported(tree: CheckoutTree, file: str, patch: str, edit: str) -> Resolved:
    """Record what a person made of a conflict of a port, whose outcome nothing but their word tells."""
    _require_out(tree, patch, edit)
    try:
        ast.parse(tree.read(file) or b"" if file.endswith(".py") else b"")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise ConflictError(
            f"{file}:{line}: this is not valid Python: mend it, and run patchkit resolve {patch} {edit} again."
        ) from None
    if not resolving.record_ported(tree, patch, EditStatus(edit, file, "", State.PENDING)):
        raise ConflictError(
            f"{file}: the conflict of {patch} {edit} is gone with the code around it, so there is nothing to record."
        )
    return Resolved(recorded=True, remembered=False, ported=True)


def _require_out(tree: CheckoutTree, patch: str, edit: str) -> None:
    """Raise ConflictError while the markers of a conflict stand."""
    for file, blocks in unfinished(tree).items():
        for block in blocks:
            if (block.patch, block.edit) == (patch, edit):
                raise ConflictError(
                    f"{file}:{block.start + 1}: the conflict still stands there: {advice(block)}."
                )


def give_up(tree: CheckoutTree, patches: PatchSet, patch: str, edit: str) -> str:
    """Put back what apply found where it left the conflict of an edit, and return the file; the edit stays out.

    UsageError for an unknown edit; ConflictError, and nothing written, where no conflict of it stands.
    """
    if _is_at_hand(patches, patch, edit) or resolving.conflict_of(tree, patch, edit) is None:
        _require_edit(patches.get(patch), edit)
    return resolving.give_up(tree, patch, edit)


def export_resolutions(tree: CheckoutTree, patches: PatchSet, folder: Path) -> SharedResolutions:
    """Write what a person made of conflicts in the repository of ``tree`` to ``folder``, for ``--patches``.

    UsageError, and nothing written, if a patch has a folder there already, or if there is nothing to write.
    """
    texts, left = extensions(Remembered(tree), patches)
    files = {folder / name / "patch.toml": text for name, text in sorted(texts.items())}
    taken = next((file for file in files if file.exists()), None)
    if taken is not None:
        raise UsageError(f"{taken} is there already: name another folder.")
    if not files:
        why = f" ({'; '.join(left)})" if left else ""
        raise UsageError(f"no resolution of {tree.root} can be written as a patch folder{why}.")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return SharedResolutions(tuple(files), left)


def _require_edit(patch: Patch, name: str) -> None:
    names = [edit.name for edit in patch.edits]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"{patch.id} has no edit {name!r}: {hint}patchkit show {patch.id} lists them.")


def _status_of(
    tree: CheckoutTree, patches: PatchSet, contents: Contents, patch: str, edit: str
) -> EditStatus:
    """Return how an edit stands in files with these contents; ConflictError if it is not for the tree."""
    statuses = Planner(tree, patches).statuses(patches.select([patch], only=True), contents)
    status = next(s for s in statuses if s.patch.id == patch)
    found = [each for each in status.edits if each.name == edit]
    if not found:
        raise ConflictError(
            f"{patch}: {edit} is not for this tree: {status.reason or 'its shape is another'}."
        )
    return next((each for each in found if not _is_in_place(each)), found[0])


def _is_in_place(edit: EditStatus) -> bool:
    return edit.state in {State.APPLIED, State.UPSTREAM}

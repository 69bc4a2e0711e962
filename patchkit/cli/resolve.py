"""``patchkit resolve``: record an edit that was made by hand, leave it out, or export resolutions."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet


@options.command(
    "resolve",
    click.argument("words", nargs=-1, metavar="[TREE] PATCH [EDIT]", shell_complete=options.completed),
    options.flag(
        "--accept",
        "Record the edit even if patchkit cannot find it in the code; without EDIT, take the code as it is now "
        "into PATCH, a diff of your own.",
    ),
    options.flag("--give-up giving_up", "Restore the code that conflicted, and leave the edit out."),
    click.option(
        "--export",
        "folder",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write all your resolutions to DIR, as patch folders for --patches.",
    ),
    options.shared,
)
def command(given: options.Target, *, accept: bool, giving_up: bool, folder: Path | None) -> None:
    """PATCH and EDIT are the names that the conflict and its markers show; without EDIT, the edits of PATCH that are in
    conflict are listed. Code that you wrote in place of the markers of
    apply --markers is stored; apply --resolved uses it again where the same code conflicts. revert removes the edit
    with its patch.
    """
    from patchkit.cli.answers.resolve import Resolve
    from patchkit.commands.resolve import ResolveResult, give_up, resolve
    from patchkit.transaction.revert import recorded

    words = given.words
    if folder is not None:
        if len(words) > 1 or accept or giving_up:
            raise UsageError("--export writes every resolution", advice="name only a TREE with it")
        _export(given, folder)
        return
    if len(words) not in (1, 2, 3):
        raise UsageError("no patch is named", advice="patchkit resolve [TREE] PATCH [EDIT]")
    if accept and giving_up:
        raise UsageError("--accept cannot be combined with --give-up", advice="leave out one of them")
    patches = given._replace(words=words[:-2]).patches()
    if len(words) == 1 or (len(words) == 2 and words[0] not in patches and os.path.isdir(words[0])):
        target = given.on(words[0] if len(words) == 2 else None)
        if accept and words[-1] in patches and patches.get(words[-1]).diffs:
            _refresh(target, patches, words[-1])
            return
        if accept or giving_up:
            named = shlex.join(("patchkit", "resolve", *words))
            raise UsageError(
                f"no edit of {words[-1]} is named", advice=f"{named} lists its edits in conflict"
            )
        _list_open(target, patches, words[-1])
        return
    *tree, patch, edit = words
    target = given.on(tree[0] if tree else None)
    opened = target.open()
    if giving_up:
        file = give_up(opened, patches, patch, edit)
        if given.as_json:
            console.emit(
                Resolve.of(
                    ResolveResult(recorded=False, remembered=False),
                    tree=opened,
                    patch=patch,
                    edit=edit,
                    given_up=True,
                )
            )
            return
        console.say(f"Restored {escaped(file)} where {patch} {edit} was in conflict; the edit is left out.")
        if patch in recorded(opened):
            console.say_next((f"revert{target.tail} {patch}", "reverts the other edits of the patch"))
        else:
            console.say_next((f"status{target.tail}", "shows what is left"))
        return
    with console.working(opened):
        done = resolve(opened, patches, patch, edit, accept=accept)
    if given.as_json:
        console.emit(Resolve.of(done, tree=opened, patch=patch, edit=edit))
        return
    if not done.recorded:
        console.say(f"{patch} {edit} is already recorded.")
        return
    how = "accepted by hand, in a comment in the code" if done.accepted else "made by hand"
    console.say(f"{patch} {edit} is recorded as {how}.")
    if done.remembered:
        console.say("patchkit apply --resolved will use it wherever the same code conflicts.")
    if done.ported:
        console.say_next((f"status{target.tail}", "shows what is left to resolve"))
    else:
        console.say_next((f"apply{target.tail}", "applies the rest"))
    console.say_new_files(opened, ())


def _refresh(target: options.Target, patches: PatchSet, patch: str) -> None:
    from patchkit.cli.answers.resolve import Resolve
    from patchkit.commands.refresh import refresh

    tree = target.open()
    with console.working(tree):
        written = refresh(tree, patches, patch, target.folders)
    if target.as_json:
        console.emit(Resolve.of(tree=tree, patch=patch, files=(str(written),)))
        return
    console.say(f"{escaped(str(written))} has the code of {escaped(patch)} as it is now.")
    console.say_next((f"test {shlex.quote(str(written.parent))}", "checks the patch"))


def _list_open(target: options.Target, patches: PatchSet, patch: str) -> None:
    from patchkit.cli.answers.resolve import OpenEdit, Resolve
    from patchkit.commands.resolve import open_edits

    tree = target.open()
    with console.working(tree):
        opened = open_edits(tree, patches, patch)
    if target.as_json:
        edits = tuple(OpenEdit.of(edit, edit=edit.name) for edit, _ in opened)
        console.emit(Resolve.of(tree=tree, patch=patch, open=edits))
        return
    if not opened:
        console.say(f"{escaped(patch)} has no edit in conflict.")
        return
    for edit, _ in opened:
        console.say_edit(patch, edit)
    first = next((edit.name for edit, is_unfinished in opened if is_unfinished), None)
    if first is not None:
        console.say_unfinished(target.tail, patch, first)
    else:
        command = f"apply{target.tail} {shlex.quote(patch)} --markers"
        console.say_next((command, "writes conflict markers, to resolve by hand"))


def _export(given: options.Target, folder: Path) -> None:
    from patchkit.cli.answers.resolve import Resolve
    from patchkit.commands.resolve import export_resolutions

    target = given.on(given.words[0] if given.words else None)
    tree = target.open()
    done = export_resolutions(tree, given.patches(), folder)
    if given.as_json:
        console.emit(Resolve.of(done, tree=tree, left=done.left_out))
        return
    for file in done.files:
        console.say(escaped(str(file)))
    for reason in done.left_out:
        console.say(f"left out: {escaped(reason)}")
    console.say_next((f"apply{target.tail} --patches {shlex.quote(str(folder))}", "uses them"))

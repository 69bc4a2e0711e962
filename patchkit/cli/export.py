"""``patchkit export``: write patches as a series of files for ``git am``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import console, options
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from pathlib import Path


@options.command(
    "export",
    options.tree_and_patches,
    options.output_folder("Write the series to DIR, which is created if needed.", required=True),
    options.folders,
    options.as_json,
)
def command(given: options.Target, *, folder: Path) -> None:
    """`git am DIR/*.patch` applies them to the commit that TREE has checked out, one commit for each patch;
    files with CRLF line ends need `git am --keep-cr`. TREE is only read; uncommitted changes are ignored. Without
    PATCH, every default patch that fits is written; a group does not include its opt-in patches.
    """
    from patchkit.cli.answers.base import LeftOutAnswer, states
    from patchkit.cli.answers.export import Export
    from patchkit.commands.export import export
    from patchkit.plan.refusal import describe_left_out

    patches = given.patches()
    target = given.target(patches)
    tree = target.open()
    with console.working(tree):
        exported = export(tree, patches, folder, target.ids)
    if given.as_json:
        console.emit(
            Export.of(
                exported,
                tree=tree,
                patches=states(tree, exported.patches),
                left=LeftOutAnswer.each(exported.left),
            )
        )
        return
    for path in exported.files:
        console.say(escaped(str(path)))
    if exported.has_crlf:
        console.say("Some changed files have CRLF line ends: apply the series with git am --keep-cr.")
    if exported.left:
        console.say(escaped(describe_left_out(exported.left)))
    elif not exported.files:
        console.say("Nothing to export: every patch that fits is already in that commit.")

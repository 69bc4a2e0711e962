"""``patchkit export``: the patches as a series of files that ``git am`` applies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("export")
@options.options(
    options.tree_and_patches,
    click.option(
        "-o",
        "--output",
        "folder",
        required=True,
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write the series here; the folder is made if it is not there.",
    ),
    click.option("--only", is_flag=True, help="Do not bring along the patches that harden a PATCH."),
    options.folders,
    options.as_json,
)
def command(
    *, arguments: Sequence[str], folder: Path, only: bool, folders: Sequence[Path], as_json: bool
) -> None:
    """Write what `git am DIR/*.patch` needs to apply each PATCH to the commit that TREE has checked out.

    One file, and so one commit, a patch. TREE is only read, and what is not committed in it does not count.
    """
    from patchkit.cli import console
    from patchkit.cli.answers.export import Export
    from patchkit.commands.export import export
    from patchkit.findings.printable import escaped
    from patchkit.plan.refusal import describe_left

    patches = options.at_hand(folders, arguments)
    words = options.understood(arguments, False, folders, patches)
    tree = words.open()
    with console.working(tree):
        exported = export(tree, patches, folder, words.ids, only=only)
    if as_json:
        console.emit(Export.of(tree, exported))
        return
    for path in exported.files:
        console.say(escaped(str(path)))
    if exported.left:
        console.say(escaped(describe_left(exported.left)))
    elif not exported.files:
        console.say("Nothing to export: every patch that fits is in that commit.")

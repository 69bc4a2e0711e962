"""``patchkit revert``: what the ledger records is taken back; a person's edits stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@click.command("revert")
@options.options(
    options.tree_and_patches, options.everything, options.installed, options.folders, options.as_json
)
def command(
    *,
    arguments: Sequence[str],
    everything: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Take back each PATCH; edits that a person made since stay."""
    from patchkit.cli import console
    from patchkit.cli.answers.revert import Revert
    from patchkit.commands.revert import revert
    from patchkit.findings.printable import escaped
    from patchkit.patchset import load

    patches = load.patches(folders)
    words = options.understood(arguments, installed, folders, patches, everything=everything)
    tree = words.open()
    with console.working(tree):
        reverted = revert(tree, patches, words.ids)
    if as_json:
        console.emit(Revert.of(tree, reverted))
        return
    for name in reverted.patches:
        console.say(f"[green]<[/] {escaped(name)}")
    if reverted.patches:
        console.say(f"\nChanged {console.count(reverted.files)}.")
        console.say_next((f"status{words.tail}", "shows what is left"))
    else:
        console.say("Nothing to revert.")

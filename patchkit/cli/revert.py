"""``patchkit revert``: revert patches, keeping other changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@click.command("revert")
@options.options(
    options.tree_and_patches,
    options.everything("Revert every patch, as without PATCH."),
    click.option(
        "--keep-going",
        is_flag=True,
        help="Leave patches that cannot be reverted, revert the others, and exit 1.",
    ),
    options.installed,
    options.folders,
    options.as_json,
)
@click.pass_context
def command(
    context: click.Context,
    *,
    arguments: Sequence[str],
    everything: bool,
    keep_going: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Revert patches in TREE; your own changes since are kept.

    Without PATCH, every patch is reverted. A group includes its opt-in patches that are applied.
    """
    from patchkit.cli import console
    from patchkit.cli.answers.revert import Revert
    from patchkit.commands.revert import KeptGoing, revert, revert_what_can_be
    from patchkit.findings.printable import escaped

    patches = options.loaded_patches(folders, arguments, installed=installed)
    known = options.with_recorded(patches, arguments, installed=installed)
    target = options.target_of(arguments, installed, folders, known, everything=everything)
    tree = target.open()
    with console.working(tree):
        reverted, left = (
            revert_what_can_be(tree, patches, target.ids)
            if keep_going
            else KeptGoing(revert(tree, patches, target.ids), {})
        )
    if as_json:
        console.emit(Revert.of(tree, reverted, left))
        context.exit(1 if left else 0)
    for name in reverted.patches:
        console.say(f"[green]<[/] {escaped(name)}")
    for name, reason in left.items():
        console.say(f"[red]![/] {escaped(name)}: {escaped(reason)}")
    if reverted.patches:
        console.say(f"\nChanged {console.count(reverted.files)}.")
        console.say_next((f"status{target.tail}", "shows what is left"))
    elif not left:
        console.say("Nothing to revert.")
    if left:
        context.exit(1)

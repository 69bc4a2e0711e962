"""``patchkit check-patch DIR``: what is wrong with a patch of one's own, before anybody applies it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("check-patch")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--on",
    "trees",
    multiple=True,
    metavar="TREE",
    help="A tree whose files the new code has to be right in; can be repeated.",
)
@options.options(options.as_json)
def command(*, folder: Path, trees: Sequence[str], as_json: bool) -> None:
    """Check the patch in DIR, or those one folder below, run their examples and look for undefined names."""
    from patchkit.cli import console
    from patchkit.cli.answers.check_patch import CheckPatch
    from patchkit.commands.check import check_patches
    from patchkit.findings.printable import escaped

    checked = check_patches(folder, [options.Words(tree, False).open() for tree in trees])
    faulty = [each for each in checked if each.faults]
    if as_json:
        console.emit(CheckPatch.of(checked))
    else:
        for each in checked:
            said = f"{each.examples} example{'' if each.examples == 1 else 's'}"
            mark = f"[red]{len(each.faults)} wrong[/]" if each.faults else "[green]fine[/]"
            console.say(f"[bold]{escaped(each.patch)}[/]  {mark}, {said}")
            for fault in each.faults:
                console.say(f"  {escaped(fault)}")
    if faulty:
        raise click.exceptions.Exit(1)

"""``patchkit test``: a patch is tried on copies of trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("test")
@click.argument("patch", metavar="PATCH")
@click.argument("more", nargs=-1, metavar="", type=click.Path(path_type=Path))
@options.options(
    click.option(
        "--on",
        "trees",
        multiple=True,
        required=True,
        metavar="TREE...",
        type=click.Path(path_type=Path),
        help="The trees to try it on; several may follow.",
    ),
    options.folders,
    options.as_json,
)
@click.pass_context
def command(
    context: click.Context,
    *,
    patch: str,
    more: Sequence[Path],
    trees: Sequence[Path],
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Apply PATCH, an id or a folder, to a copy of each TREE, verify that, and take it back.

    Exit code 1 if it conflicts somewhere, a check fails that did not before, or revert is not exact.
    """
    from patchkit.cli import console
    from patchkit.commands.test import test
    from patchkit.findings.printable import escaped
    from patchkit.patchset import load

    own = Path(patch)
    is_folder = (own / "patch.toml").is_file()
    patches = options.at_hand((*folders, own) if is_folder else folders)
    name = load.named_in(own / "patch.toml") if is_folder else patch
    trials = [test(tree, patches, name) for tree in (*trees, *more)]
    if as_json:
        console.emit(trials)
    for trial in () if as_json else trials:
        mark = "[red]![/]" if trial.problems else "[green]>[/]"
        console.say(
            f"{mark} {escaped(trial.tree)} ({trial.version or 'version unknown'}): {trial.state}, "
            f"{console.count(trial.files)}"
        )
        for problem in trial.problems:
            console.say(f"    {escaped(problem)}")
    if any(trial.problems for trial in trials):
        context.exit(1)

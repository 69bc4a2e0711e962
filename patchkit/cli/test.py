"""``patchkit test``: check a patch folder by its examples, or try a patch on copies of trees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence


@options.command(
    "test",
    click.argument("patch", metavar="PATCH"),
    click.argument("more", nargs=-1, metavar=""),
    click.option(
        "--on",
        "trees",
        multiple=True,
        metavar="TREE...",
        help="Try the patch on these trees; several may follow.",
    ),
    options.folders,
    options.as_json,
)
def command(given: options.Target, *, patch: str, more: Sequence[str], trees: Sequence[str]) -> int:
    """PATCH is a patch folder, or a folder of patch folders. Without --on, patches are validated, their examples are
    run, and undefined names in their code are reported. With --on, PATCH, which can also be the name of a patch that
    patchkit show lists, is applied to a copy of each tree, verified, and reverted. Exit code 1 if anything fails.
    """
    from patchkit.commands.test import test
    from patchkit.patchset import load

    own = Path(patch)
    if not trees:
        if not more and (os.path.exists(patch) or os.sep in patch):
            return _check(own, as_json=given.as_json)
        known_patches = load.patches(given.folders)
        if not more and patch not in known_patches:
            raise options.unknown_word(patch, known_patches)
        raise UsageError(
            "no trees are named", advice="name them with --on, such as --on ../release-a ../release-b"
        )
    is_folder = (own / "patch.toml").is_file()
    folders = (*given.folders, own) if is_folder else given.folders
    patches = given._replace(folders=folders).patches()
    name = load.named_in(own / "patch.toml") if is_folder else patch
    trials = [test(options.located(tree), patches, name) for tree in (*trees, *more)]
    if given.as_json:
        console.emit(trials)
    for trial in () if given.as_json else trials:
        tried = trial.files or trial.problems
        mark = "[red]failed[/]" if trial.problems else "[green]ok[/]" if tried else "[dim]-[/]"
        result = (
            f"{trial.state}, {console.count(trial.files)}" if tried else f"{trial.state}: nothing to test"
        )
        console.say(f"{mark} {escaped(trial.tree)} ({trial.version or 'version unknown'}): {result}")
        for problem in trial.problems:
            console.say(f"    {escaped(problem)}")
    return int(any(trial.problems for trial in trials))


def _check(folder: Path, *, as_json: bool) -> int:
    """Print what is wrong with the patches in ``folder``; return 1 if anything is."""
    from patchkit.cli.answers.check_patch import CheckedFolder, CheckPatch
    from patchkit.commands.check import check_patches

    checked = check_patches(folder)
    if as_json:
        console.emit(CheckPatch(patches=tuple(map(CheckedFolder.of, checked))))
    for checked_patch in () if as_json else checked:
        examples = counted(checked_patch.examples, "example")
        mark = (
            f"[red]{counted(len(checked_patch.faults), 'fault')}[/]"
            if checked_patch.faults
            else "[green]ok[/]"
        )
        console.say(f"[bold]{escaped(checked_patch.patch)}[/]  {mark}, {examples}")
        for fault in checked_patch.faults:
            console.say(f"  {escaped(fault)}")
    return int(any(checked_patch.faults for checked_patch in checked))

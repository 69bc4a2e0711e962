"""``patchkit merge-driver``: merge a Python file for git, by lines first and then by structure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence


@options.command(
    "merge-driver",
    click.argument("files", nargs=-1, metavar="[BASE OURS THEIRS [PATH]]"),
    click.option("--install", "change", flag_value="install", help="Let git use it in this repository."),
    click.option("--uninstall", "change", flag_value="uninstall", help="Take --install back."),
    options.flag("--global everywhere", "With these: in all of your repositories."),
    click.option(
        "--marker-size",
        type=click.IntRange(min=1),
        default=7,
        metavar="N",
        help="The length of conflict markers (default: 7).",
    ),
    click.option(
        "--labels",
        nargs=3,
        metavar="OURS BASE THEIRS",
        help="The names in conflict markers.",
    ),
)
def command(
    _given: options.Target,
    *,
    files: Sequence[str],
    change: str | None,
    everywhere: bool,
    marker_size: int,
    labels: Sequence[str] | None,
) -> int:
    """After --install git calls it in every merge, rebase, cherry-pick, am -3 and stash pop: git's merge by lines
    first, and where lines conflict, the statements. It writes OURS, and exits 0, or 1 with conflict markers around what
    is not sure. PATH is the file's name in the repository. What is not valid Python is merged as git merges it.
    """
    from patchkit.commands import merge_driver

    if change:
        if files:
            raise UsageError(f"--{change} takes no files", advice="leave out one of them")
        where = "all of your repositories" if everywhere else "this repository"
        if change == "install":
            written = merge_driver.install(Path(), everywhere=everywhere)
            console.say(escaped(f"Git merges Python files with patchkit in {where}, as {written} says."))
            return 0
        written, is_changed = merge_driver.uninstall(Path(), everywhere=everywhere)
        done = "no longer merges" if is_changed else "did not merge"
        console.say(escaped(f"Git {done} Python files with patchkit in {where}."))
        return 0
    if everywhere:
        raise UsageError("--global is for --install and --uninstall", advice="add one of them")
    if len(files) not in (3, 4):
        raise UsageError(
            "three files are needed: base, ours and theirs",
            advice="patchkit merge-driver BASE OURS THEIRS [PATH], or --install",
        )
    paths = merge_driver.Files(*map(Path, files[:3]))
    is_whole = merge_driver.merge(paths, files[-1] if len(files) > 3 else files[1], marker_size, labels or ())
    return int(not is_whole)

"""``patchkit report --ledger``: the rows that a fork's own list of backports wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options
from patchkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@click.command("report")
@options.options(
    options.tree,
    click.option("--ledger", is_flag=True, help="A row a patch that TREE has, as a Markdown table."),
    options.installed,
    options.folders,
    options.as_json,
)
def command(
    *, tree: str | None, ledger: bool, installed: bool, folders: Sequence[Path], as_json: bool
) -> None:
    """Say of each patch in TREE where it is from, its files, how it came, what was verified, and when it goes.

    TREE is verified for that, as patchkit verify does.
    """
    from patchkit.cli import console
    from patchkit.cli.answers.report import Report
    from patchkit.commands.report import report
    from patchkit.findings.printable import plain
    from patchkit.series.backports import markdown

    if not ledger:
        raise UsageError("which report? patchkit report --ledger prints the rows of a list of backports.")
    patches = options.at_hand(folders, [tree], installed=installed)
    opened = options.Words(tree, installed, folders).open()
    with console.checking() as watch:
        rows = report(opened, patches, watch)
    if as_json:
        console.emit(Report.of(opened, rows))
    else:
        click.echo(plain(markdown(rows)), nl=False)

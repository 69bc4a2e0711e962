"""``patchkit check-patch DIR``: the name that ``test`` without trees had before; it goes with the next release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import options
from patchkit.cli.test import check

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("check-patch", hidden=True)
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
    check(folder, trees, as_json=as_json)

"""``patchkit check-patch``: the former name of ``test`` without trees, which the next release removes."""

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
    help="Also look for undefined names in the patched files of this tree; may be repeated.",
)
@options.options(options.as_json)
def command(*, folder: Path, trees: Sequence[str], as_json: bool) -> None:
    """Check the patch in DIR, or the patches directly below it: run their examples and find undefined names."""
    check(folder, trees, as_json=as_json)

#!/usr/bin/env python3
"""Revert every change that the patches make in a release after simulated edits around it.

The edits are a blank line on both sides of each change, then a copy of each patched function after it, before it,
in another class and under another name. Prints the table of docs/reliability.md; exits 1 if there is an error.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

from support.releases import REFERENCE, Releases  # noqa: E402
from support.unwinding import blank_lines, copied_functions  # noqa: E402


@click.command(help=__doc__)
def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        changes = Releases(Path(folder)).plan(REFERENCE).changes
    tallies = {
        "a blank line on both sides of a change": blank_lines(changes),
        "a copy of a patched function": copied_functions(changes),
    }
    click.echo("| | exact | refused | wrong |\n| --- | ---: | ---: | ---: |")
    for name, tally in tallies.items():
        click.echo(tally.row(name))
    for line in (line for tally in tallies.values() for line in tally.wrong):
        click.echo(f"wrong: {line}")
    sys.exit(any(tally.wrong for tally in tallies.values()))


if __name__ == "__main__":
    main()

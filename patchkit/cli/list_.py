"""``patchkit list``: one line a patch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch


@click.command("list")
@options.options(options.folders, options.as_json)
def command(*, folders: Sequence[Path], as_json: bool) -> None:
    """Name the patches."""
    answer(tuple(options.at_hand(folders)), as_json=as_json)


def answer(patches: Sequence[Patch], *, as_json: bool) -> None:
    """Print one line a patch, or all in JSON."""
    from patchkit.cli import console
    from patchkit.cli.answers.patches import Listed
    from patchkit.findings.printable import escaped

    if as_json:
        console.emit(list(map(Listed.of, patches)))
        return
    width = max((len(patch.id) for patch in patches), default=0)
    for patch in patches:
        off = "" if patch.default else f" ({patch.left_out or 'off until it is named'})"
        console.say(f"[bold]{escaped(patch.id.ljust(width))}[/]  {escaped(patch.title + off)}")
    console.say_next(("show PATCH", "tells more"), ("status TREE", "shows what a tree has"))

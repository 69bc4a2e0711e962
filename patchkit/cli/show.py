"""``patchkit show PATCH``: everything that a patch says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch


@click.command("show")
@click.argument("patch")
@options.options(options.folders, options.as_json)
def command(*, patch: str, folders: Sequence[Path], as_json: bool) -> None:
    """Say what PATCH changes, why, and at what risk."""
    from patchkit.cli import console
    from patchkit.patchset import load
    from patchkit.patchset.describe import brief

    found = load.patches(folders).get(patch)
    if as_json:
        edits = [{"name": edit.name, "description": edit.why} for edit in found.edits]
        console.emit(brief(found) | {"why": found.why, "verify": found.verify, "edits": edits})
        return
    _say(found)


def _say(patch: Patch) -> None:
    from rich.markup import escape

    from patchkit.cli.console import say
    from patchkit.findings.printable import escaped

    say(f"[bold]{escaped(patch.id)}[/]  {escaped(patch.title)}\n\n{escape(patch.why.strip())}\n")
    links = {
        "Upstream": patch.upstream,
        "Requires": " ".join(patch.requires),
        "Hardens": " ".join(patch.hardens),
    }
    for name, text in {
        **links,
        "Risk": patch.risk,
        "No switch": patch.no_switch,
        "Verify": patch.verify,
    }.items():
        if text:
            say(f"[bold]{name}:[/] {escape(text.strip())}")
    say("\n[bold]Edits:[/]")
    for edit in patch.edits:
        say(f"  {escaped(edit.name)}: {escaped(edit.why)}")

"""``patchkit show PATCH``: everything that a patch says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import list_, options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.runs import Run


@click.command("show")
@click.argument("patch")
@options.options(options.folders, options.as_json)
def command(*, patch: str, folders: Sequence[Path], as_json: bool) -> None:
    """Say what PATCH changes, why, and at what risk; of a group, such as @speed, which patches it has."""
    from patchkit.cli import console
    from patchkit.cli.answers.patches import Show
    from patchkit.patchset import runs

    patches = options.at_hand(folders)
    if patch.startswith("@"):
        list_.answer(patches.group(patch), as_json=as_json)
        return
    found = patches.get(patch)
    places = runs.read().where(found.id)
    if as_json:
        console.emit(Show.whole(found, places))
        return
    _say(found, places)


def _say(patch: Patch, places: Sequence[Run] | None) -> None:
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
    if places:
        say("\n[bold]Ran on a GPU:[/]")
        for release in dict.fromkeys(run.release for run in places):
            say(f"  {escaped(_told(release, [run for run in places if run.release == release]))}")
    elif places is not None:
        say("\nIt was never run on a GPU.")


def _told(release: str, runs: Sequence[Run]) -> str:
    """Return where a patch ran on one release: families and backends, GPUs, and the latest day."""
    backends: dict[tuple[str, bool], list[str]] = {}
    for run in runs:
        backends.setdefault((run.family, run.identical), []).append(run.backend)
    said = [
        f"{family} on {', '.join(dict.fromkeys(names))}" + ("" if identical else " (tokens differ)")
        for (family, identical), names in backends.items()
    ]
    gpus = ", ".join(dict.fromkeys(run.gpu for run in runs))
    return f"{release}: {'; '.join(said)}; {gpus}, {max(run.date for run in runs)}"

"""``patchkit show``: list the patches, or show the details of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.findings.printable import escaped
from patchkit.plan.status import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.patch import Affects, Edit, Patch
    from patchkit.patchset.runs import KnownRuns, Run

_TOKENS = {True: "", None: " (where the unpatched release fails)", False: " (tokens differ)"}


@options.command(
    "show",
    click.argument("patch", required=False, shell_complete=options.completed),
    options.folders,
    options.as_json,
)
def command(given: options.Target, *, patch: str | None) -> None:
    """PATCH can also be a group, such as mirror or @mirror: its patches are listed, with what a server gains."""
    from patchkit.cli.answers.patches import Listed, Show
    from patchkit.patchset import runs
    from patchkit.patchset.select import GROUP, GROUPS

    patches = given.patches(cached=True)
    if patch not in patches and f"{GROUP}{patch}" in patches:
        patch = f"{GROUP}{patch}"
    if patch is None or patch.startswith(GROUP):
        listed = tuple(patches) if patch is None else patches.group(patch)
        if given.as_json:
            console.emit(list(map(Listed.of, listed)))
        else:
            if patch and (gain := GROUPS.get(patch.removeprefix(GROUP))):
                console.say(f"{gain[0].upper()}{gain[1:]}.\n")
            _list(listed, given.tail)
        return
    shown, known_runs = patches.get(patch), runs.read()
    if given.as_json:
        console.emit(Show.of_patch(shown, known_runs))
    else:
        _show(shown, known_runs)


def _list(patches: Sequence[Patch], tail: str) -> None:
    width = max((len(patch.id) for patch in patches), default=0)
    for patch in patches:
        mark = "" if patch.default else f" ({patch.left_out or 'opt-in'})"
        console.say(f"[bold]{escaped(patch.id.ljust(width))}[/]  {escaped(patch.title + mark)}")
    console.say_next(
        (f"show{tail} PATCH", "shows details"), (f"status{tail} TREE", "shows the state of a tree")
    )


def _show(patch: Patch, known_runs: KnownRuns) -> None:
    """Print a patch, which is its own first part, and its other parts: their words, their edits and their runs."""
    affects = patch.affects
    symptom = (
        {"Symptom": affects.symptom, "Affects": _affected(affects), "Fixed upstream in": affects.fixed_in}
        if affects is not None
        else {}
    )
    for part in patch.all_parts:
        name, is_first = name_of(patch, part), part is patch
        off = f" ({part.left_out})" if part.left_out and not is_first else ""
        start = "" if is_first else "\n"
        console.say(
            f"{start}[bold]{escaped(name)}[/]  {escaped(part.title + off)}\n\n{console.flowing(part.why)}\n"
        )
        texts = {
            **(symptom if is_first else {}),
            "Upstream": part.upstream,
            "Requires": " ".join(patch.requires) if is_first else "",
            "Formerly": part.formerly,
            "Risk": part.risk,
            "No switch": part.no_switch,
            **({"Remove when": patch.remove_when, "Verify": patch.verify} if is_first else {}),
        }
        for title, text in texts.items():
            if text:
                console.say(f"[bold]{title}:[/] {console.flowing(text)}")
        _say_edits(patch.edits_of(part.name), known_runs.where(name))


def _say_edits(edits: Sequence[Edit], places: Sequence[Run] | None) -> None:
    console.say("\n[bold]Edits:[/]")
    for edit in edits:
        console.say(f"  {escaped(edit.name)}: {escaped(edit.why)}")
        sites = (": ".join(filter(None, place)) for place in edit.places)
        console.say(f"    [dim]{escaped(' or '.join(sites))}[/]")
    if places:
        console.say("\n[bold]Ran on a GPU:[/]")
        for release in dict.fromkeys(run.release for run in places):
            console.say(
                f"  {escaped(_runs_text(release, [run for run in places if run.release == release]))}"
            )
    elif places is not None:
        console.say("\nNever run on a GPU.")


def _affected(affects: Affects) -> str:
    servers = f"servers with {' '.join(affects.when.split())}" if affects.when else ""
    return "; ".join(filter(None, (affects.concerns, servers)))


def _runs_text(release: str, runs: Sequence[Run]) -> str:
    """Return where a patch ran on one release: model families, backends, GPUs, and the latest date."""
    backends: dict[tuple[str, bool | None], list[str]] = {}
    for run in runs:
        backends.setdefault((run.family, run.identical), []).append(run.backend)
    families = [
        f"{family} on {', '.join(dict.fromkeys(names))}{_TOKENS[identical]}"
        for (family, identical), names in backends.items()
    ]
    gpus = ", ".join(dict.fromkeys(run.gpu for run in runs))
    return f"{release}: {'; '.join(families)}; {gpus}, {max(run.date for run in runs)}"

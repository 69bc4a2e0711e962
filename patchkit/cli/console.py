"""How commands speak: to a person at a glance, with what to type next; to a script, in JSON."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins
from rich.console import Console

from patchkit.errors import UsageError
from patchkit.findings.printable import escaped, plain
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from msgspec import Struct

    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree

_OPT_IN = "opt-in"
"""Stands, among the states, for what is not applied because nobody named it."""

_LEFT_OUT = "left-out"
"""Stands, among the states, for what a fork does not want, whatever the code says."""

_STYLES: dict[str, str] = {
    State.APPLIED: "green",
    State.UPSTREAM: "green",
    State.PENDING: "yellow",
    State.PARTIAL: "yellow",
    State.CONFLICT: "red",
    State.NOT_APPLICABLE: "dim",
    _OPT_IN: "dim",
    _LEFT_OUT: "dim",
}
_FEW = 4
"""So many patches of one state are named in its line; of more, their groups are counted."""


def group_of(status: PatchStatus) -> str:
    """Return the state under which a patch is listed."""
    if status.patch.left_out and status.state not in {State.APPLIED, State.UPSTREAM}:
        return _LEFT_OUT
    is_off = status.state is State.PENDING and not status.patch.default
    return _OPT_IN if is_off else status.state


def working(tree: CheckoutTree) -> AbstractContextManager[object]:
    """Say on stderr, if it is a terminal, that ``tree`` is being read."""
    console = Console(stderr=True)
    return console.status(f"reading {escaped(str(tree.package))}") if console.is_terminal else nullcontext()


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Give a function that shows on stderr, if it is a terminal, what is done and how much of how much."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=None)

        def watch(what: str, done: int, of: int) -> None:
            shown.update(task, description=what, completed=done, total=of)

        yield watch


@contextmanager
def checking() -> Iterator[Callable[[str, int], None] | None]:
    """Give a function that shows on stderr, if it is a terminal, which check is being made and of how many."""
    with progress() as shown:
        made = -1

        def watch(title: str, count: int) -> None:
            nonlocal made
            made += 1
            if shown is not None:
                shown(title, made, count)

        yield watch if shown is not None else None


@contextmanager
def writing(output: Path | None) -> Iterator[Console]:
    """Give the console that writes to ``output``, or stdout's; UsageError if that file cannot be written."""
    if output is None:
        yield Console(highlight=False, soft_wrap=True)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            yield Console(file=file, highlight=False, soft_wrap=True)
    except OSError as error:
        raise UsageError(
            f"cannot write the answer: {error.strerror}", where=output, advice="name another file with -o"
        ) from error


def written(answer: Struct | Sequence[Struct]) -> str:
    """Return an answer in JSON."""
    # msgspec's own encoder refuses names of files that are no Unicode, and writes what an ASCII stdout refuses.
    return json.dumps(to_builtins(answer), indent=2)


def emit(answer: Struct | Sequence[Struct]) -> None:
    """Print an answer in JSON."""
    click.echo(written(answer))


def stdout() -> Console:
    """Return where answers for people go."""
    return Console(highlight=False)


def say(text: str) -> None:
    """Print a line for a person; the text is rich's markup."""
    stdout().print(plain(text), soft_wrap=True)


def say_states(statuses: Sequence[PatchStatus], *, verbose: bool = False) -> None:
    """Print a line a state, then each conflict's site and reason; with ``verbose`` each patch with its title."""
    say("")
    groups = {state: [each for each in statuses if group_of(each) == state] for state in _STYLES}
    for state, group in groups.items():
        if group:
            names = "" if verbose else f"  {escaped(_named(group))}"
            say(f"[{_STYLES[state]}]{str.__str__(state):14}[/] {len(group):3}{names}")
        for status in group if verbose else ():
            say(f"    [bold]{escaped(status.patch.id)}[/]  {escaped(status.patch.title)}")
            if state not in {State.CONFLICT, State.PARTIAL} and (
                why := status.patch.left_out or status.reason
            ):
                say(f"      {escaped(why)}")
    _say_conflicts([*groups[State.CONFLICT], *groups[State.PARTIAL]])
    reasons = {status.reason for status in groups[State.NOT_APPLICABLE]}
    if not verbose and len(reasons) == 1 < len(groups[State.NOT_APPLICABLE]):
        say(f"\n{escaped(*reasons)}")


def _named(group: Sequence[PatchStatus]) -> str:
    if len(group) <= _FEW:
        return " ".join(status.patch.id for status in group)
    counts = Counter(status.patch.group or "other" for status in group)
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _say_conflicts(statuses: Sequence[PatchStatus]) -> None:
    """Print a conflict in three lines: the patch, the place, the reason; those of one reason alone once."""
    others: dict[str, list[str]] = {}
    for status in statuses:
        conflicts = [edit for edit in status.edits if edit.state is State.CONFLICT]
        for edit in conflicts:
            say(f"\n[bold]{escaped(status.patch.id)}[/]  {escaped(edit.name)}: {escaped(status.patch.title)}")
            say(f"  --> {escaped(f'{edit.file}: {edit.site}')}")
            say(f"  {escaped(edit.reason)}")
        if not conflicts:
            others.setdefault(status.reason, []).append(status.patch.id)
    for reason, names in others.items():
        say(f"\n[bold]{escaped(' '.join(names))}[/]\n  {escaped(reason)}")


def say_never_run(statuses: Sequence[PatchStatus], version: str | None) -> None:
    """Print which patches, of those that patchkit wrote or would write, never ran on the release of a tree."""
    from patchkit.patchset import runs

    ours = {State.APPLIED, State.PENDING, State.PARTIAL}
    meant = (s.patch.id for s in statuses if s.state in ours and group_of(s) != _LEFT_OUT)
    told = runs.never_run(meant, version)
    if told:
        say(f"\n{escaped(told)}")


def say_next(*steps: tuple[str, str]) -> None:
    """Print what to type next: each step is a command without its first word, and what it does."""
    said = (f"[bold]patchkit {escaped(command)}[/] {does}" for command, does in steps)
    say(f"\nNext: {'; '.join(said)}")


def count(files: Sequence[str]) -> str:
    """Return how many files there are, in words."""
    return f"{len(files)} file{'s' * (len(files) != 1)}"

"""Print answers, as text for people and as JSON for scripts, and show progress."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli.options import runnable
from patchkit.errors import TreeError
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped, excerpt, plain
from patchkit.plan.status import LEFT_OUT, OPT_IN, STYLES, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from msgspec import Struct
    from rich.console import Console

    from patchkit.change.land import Watch
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.tree.tree import CheckoutTree

_EXPLAINED = (State.EDITED, State.CONFLICT, State.PARTIAL)
"""The states of patches whose edits are explained one by one."""
_MAX_LISTED = 4
"""The most patches of one state that are listed by name; for more, groups are counted."""


def working(tree: CheckoutTree) -> AbstractContextManager[object]:
    """Show on stderr, if it is a terminal, that ``tree`` is being read."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(f"reading {escaped(tree.package.name)}") if console.is_terminal else nullcontext()


@contextmanager
def progress() -> Iterator[Watch | None]:
    """Yield a function that shows progress on stderr, such as ``7 of 26 files: porting a.py``.

    Its arguments are the noun and the current step, the number done, and their total. Yield None if stderr is not a
    terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=None)

        def watch(what: str, done: int, of: int) -> None:
            shown.update(task, description=f"{done} of {of} {what}", completed=done, total=of)

        yield watch


def written(answer: Struct | Sequence[Struct]) -> str:
    """Return an answer as JSON."""
    from msgspec import to_builtins

    # msgspec's own encoder rejects file names that are not Unicode, and writes characters that an ASCII stdout rejects.
    return json.dumps(to_builtins(answer), indent=2)


def emit(answer: Struct | Sequence[Struct]) -> None:
    """Print an answer as JSON."""
    click.echo(written(answer))


def flowing(text: str) -> str:
    """Return prose as markup for `say`: on a terminal the lines of a paragraph become one, which is wrapped there."""
    from rich.markup import escape

    return escape(_LINE_END.sub(" ", text.strip()) if stdout().is_terminal else text.strip())


_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")


def stdout() -> Console:
    """Return the console for text answers."""
    from patchkit.cli.output import Stdout

    return Stdout(highlight=False)


def say(text: str) -> None:
    """Print a line of rich markup."""
    stdout().print(plain(text), soft_wrap=True)


def place(tree: CheckoutTree) -> str:
    """Return the words for a tree above what is said of it."""
    return f"sglang {tree.version or '(version unknown)'} in {tree.package}"


def say_states(tree: CheckoutTree, statuses: Sequence[PatchStatus], *, verbose: bool = False) -> None:
    """Print a line for each state (with ``verbose``, for each patch), then each conflict with its site and reason."""
    say("")
    labels = [(status.label, status) for status in statuses]
    groups = {state: [status for label, status in labels if label == state] for state in STYLES}
    for state, group in groups.items():
        if group:
            names = "" if verbose else f"  {escaped(_named(group))}"
            say(f"[{STYLES[state]}]{str.__str__(state):14}[/] {len(group):3}{names}")
        for status in group if verbose else ():
            say(f"    [bold]{escaped(_marked(status))}[/]{_titled('  ', status.patch)}")
            if state not in _EXPLAINED and (why := status.patch.left_out or status.reason):
                say(f"      {escaped(runnable(why))}")
    _say_conflicts([status for state in _EXPLAINED for status in groups[state]])
    reasons = {status.reason for status in groups[State.NOT_APPLICABLE]}
    if not verbose and len(reasons) == 1 < len(groups[State.NOT_APPLICABLE]):
        say(f"\n{escaped(runnable(*reasons))}")
    elif not verbose and reasons:
        say("\nnot-applicable: the tree lacks the code that these patches change")
    _say_deleted(tree, statuses)


def _say_deleted(tree: CheckoutTree, statuses: Sequence[PatchStatus]) -> None:
    """Print what brings back the files of these patches that are deleted, and that git has."""
    from patchkit.tree.checkout import Checkout

    files = {tree.package / file for status in statuses for edit in status.patch.edits for file in edit.files}
    missing = [file for file in files if not file.exists()]
    with suppress(TreeError):
        checkout = Checkout.tracking(tree.package) if missing else None
        gone = checkout.deleted(missing) if checkout is not None else {}
        if gone:
            command = _git(tree, "restore", sorted({*gone.values()}))
            what = f"{counted(len(gone), 'file')} that these patches change"
            say(
                f"\nGit has {what} and the tree does not: [bold]{escaped(command)}[/] brings back what is deleted."
            )


def _git(tree: CheckoutTree, verb: str, paths: Iterable[Path]) -> str:
    """Return the git command for these paths of a tree, as it is typed in the current folder."""
    here, root = Path.cwd(), tree.root.resolve()
    start = here if here.is_relative_to(root) else root
    where = () if start == here else ("-C", min(str(root), os.path.relpath(root, here), key=len))
    return shlex.join(("git", *where, verb, *(_typed(os.path.relpath(path, start)) for path in paths)))


def _typed(path: str) -> str:
    """Return a path so that a command does not take it for an option."""
    return f"./{path}" if path.startswith("-") else path


def _marked(status: PatchStatus) -> str:
    """Return a patch's id, marked if it is opt-in, so that apply does not complete it unless it is named."""
    is_off = status.patch.opt_in and status.state in {State.CONFLICT, State.PARTIAL}
    return f"{status.patch.id} ({OPT_IN})" if is_off else status.patch.id


def _named(group: Sequence[PatchStatus]) -> str:
    if len(group) <= _MAX_LISTED:
        return " ".join(map(_marked, group))
    counts = Counter(status.patch.group or "other" for status in group)
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _titled(separator: str, patch: Patch) -> str:
    """Return a patch's title after a separator; empty if only its id is known, as of a ported change."""
    return f"{separator}{escaped(patch.title)}" if patch.title != patch.id else ""


def _say_conflicts(statuses: Sequence[PatchStatus]) -> None:
    """Print each conflict in three lines: patch, location, reason. Patches with only a reason are grouped by it."""
    from patchkit.transaction.edited import accepting

    others: dict[str, list[PatchStatus]] = {}
    for status in statuses:
        conflicts = [
            edit for edit in status.edits if edit.state in {State.CONFLICT, State.EDITED} or edit.difference
        ]
        for edit in conflicts:
            say("")
            say_edit(_marked(status), edit, _titled(": ", status.patch))
            for line in excerpt(edit.difference):
                say(escaped(line))
            if edit.difference and "accepts the change" not in edit.reason:
                say(f"  {escaped(runnable(accepting(status.patch, edit.name)))}")
        if not conflicts:
            others.setdefault(status.reason, []).append(status)
    for reason, alike in others.items():
        title = _titled("  ", alike[0].patch) if len(alike) == 1 else ""
        names = " ".join(map(_marked, alike))
        say(f"\n[bold]{escaped(names)}[/]{title}\n  {escaped(runnable(reason))}")


def say_edit(patch: str, edit: EditStatus, title: str = "") -> None:
    """Print an edit in conflict in three lines: its patch and name, its location, and the reason."""
    where = ": ".join(filter(None, (edit.file, edit.site)))
    say(f"[bold]{escaped(patch)}[/]  {escaped(edit.name)}{title}")
    if where:
        say(f"  --> {escaped(where)}")
    say(f"  {escaped(runnable(edit.reason or 'a person changed its code'))}")


def say_never_run(statuses: Sequence[PatchStatus], version: str | None) -> None:
    """Print which patches that are applied, or that apply would apply, never ran on a GPU with the tree's release."""
    from patchkit.patchset import runs

    ours = {State.APPLIED, State.EDITED, State.PENDING, State.PARTIAL}
    relevant = (
        name for s in statuses if s.state in ours and s.label not in {LEFT_OUT, OPT_IN} for name in s.names
    )
    note = runs.never_run(relevant, version)
    if note:
        say(f"\n{escaped(note)}")


def say_next(*steps: tuple[str, str]) -> None:
    """Print the next steps, each a command without ``patchkit`` and what it does."""
    described = (f"[bold]patchkit {escaped(command)}[/] {does}" for command, does in steps)
    say(f"\nNext: {'; '.join(described)}")


def by_hooks(tree: CheckoutTree, files: Iterable[str], commits: Sequence[str]) -> str:
    """Return how many files these commits of a change of ``files`` have from git's hooks, empty if none."""
    from patchkit.series.commit import changed_by_hooks

    more = changed_by_hooks(tree, files, commits)
    return f"; git's hooks changed {counted(len(more), 'more file')}" if more else ""


def say_new_files(tree: CheckoutTree, files: Iterable[str]) -> None:
    """Print what ``say_absent`` does, and how git gets to know what a write of these files made, if it has to.

    ``git commit -a`` leaves that out.
    """
    from patchkit.transaction.history import new_files

    say_absent(tree)
    paths = new_files(tree, files)
    if paths:
        command = _git(tree, "add", paths)
        say(f"git commit -a leaves new files out: [bold]{escaped(command)}[/] adds them.")


def say_absent(tree: CheckoutTree) -> None:
    """Print what only the record has, and what removes it from there."""
    from patchkit.transaction.current import absent

    files = absent(tree)
    if files:
        command = shlex.join(
            ("rm", *(_typed(min(str(path), os.path.relpath(path), key=len)) for path in files.values()))
        )
        names, them = escaped(", ".join(files)), "it" if len(files) == 1 else "them"
        say(
            f"\nRecorded, but not in the tree: {names}. Unless a git stash has {them}, [bold]{escaped(command)}[/] "
            "removes the record."
        )


def say_unfinished(tail: str, patch: str, edit: str) -> None:
    """Print the next steps for an edit of which the tree has conflict markers."""
    say_next(
        (f"resolve{tail} {patch} {edit}", "records your resolution"), (f"revert{tail}", "reverts all patches")
    )


def marking(tail: str, statuses: Iterable[PatchStatus]) -> list[tuple[str, str]]:
    """Return the step that writes conflict markers, if an edit of a patch is in conflict."""
    names = [
        status.patch.id
        for status in statuses
        if status.state is State.CONFLICT
        and any(edit.state is State.CONFLICT and not edit.difference for edit in status.edits)
    ]
    command = f"apply{tail} {shlex.join(names)} --markers"
    return [(command, "writes conflict markers, to resolve by hand")] if names else []


def count(files: Sequence[str]) -> str:
    """Return the number of files as text, such as ``1 file`` or ``2 files``."""
    return counted(len(files), "file")

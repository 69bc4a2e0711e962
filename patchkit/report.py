"""What a command found or did: for a person at a glance, with what to type next; for a script, in JSON."""

from __future__ import annotations

import difflib
import io
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from patchkit.plan import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from patchkit.patchset import Patch
    from patchkit.plan import FileChange, PatchStatus, Plan
    from patchkit.transaction import Applied, Recovery, Reverted
    from patchkit.tree import CheckoutTree

_UNNAMED = "unnamed"
"""Stands, among the states, for what is not applied because nobody named it."""

_GROUPS: dict[str, tuple[str, str, str]] = {
    State.APPLIED: ("Applied by patchkit", ">", "green"),
    State.UPSTREAM: ("Upstream's own", "=", "green"),
    State.PENDING: ("Not applied", "+", "yellow"),
    State.PARTIAL: ("Applied in part", "~", "yellow"),
    State.CONFLICT: ("In conflict", "!", "red"),
    State.NOT_APPLICABLE: ("Not for this tree", "-", "dim"),
    _UNNAMED: ("Off until it is named", "o", "dim"),
}


def _group(status: PatchStatus) -> str:
    is_off = status.state is State.PENDING and not status.patch.default
    return _UNNAMED if is_off else status.state


def working(tree: CheckoutTree) -> AbstractContextManager[object]:
    """Say on stderr, if it is a terminal, that ``tree`` is being read."""
    console = Console(stderr=True)
    return console.status(f"reading {escape(str(tree.package))}") if console.is_terminal else nullcontext()


def print_list(patches: Sequence[Patch], *, as_json: bool) -> None:
    """Print one line a patch."""
    if as_json:
        _emit([_brief(patch) for patch in patches])
        return
    width = max((len(patch.id) for patch in patches), default=0)
    for patch in patches:
        off = "" if patch.default else " (off until it is named)"
        _say(f"[bold]{escape(patch.id.ljust(width))}[/]  {escape(patch.title + off)}")
    _say_next(("show PATCH", "tells more"), ("status TREE", "shows what a tree has"))


def print_patch(patch: Patch, *, as_json: bool) -> None:
    """Print everything that a patch says of itself."""
    if as_json:
        edits = [{"name": edit.name, "description": edit.description} for edit in patch.edits]
        _emit(_brief(patch) | {"why": patch.why, "verify": patch.verify, "edits": edits})
        return
    _say(f"[bold]{escape(patch.id)}[/]  {escape(patch.title)}\n\n{escape(patch.why.strip())}\n")
    links = {
        "Upstream": patch.upstream,
        "Requires": " ".join(patch.requires),
        "Hardens": " ".join(patch.hardens),
    }
    for name, text in {**links, "Risk": patch.risk, "Verify": patch.verify}.items():
        if text:
            _say(f"[bold]{name}:[/] {escape(text.strip())}")
    _say("\n[bold]Edits:[/]")
    for edit in patch.edits:
        _say(f"  {escape(edit.name)}: {escape(edit.description)}")


def print_status(tree: CheckoutTree, statuses: Sequence[PatchStatus], tail: str, *, as_json: bool) -> None:
    """Print each patch's state, and every conflict's site and reason; ``tail`` follows the next command."""
    if as_json:
        _emit(place(tree) | states(statuses))
        return
    _say(f"sglang {tree.version or '(version unknown)'} in {escape(str(tree.package))}")
    _say_states(statuses)
    found = {_group(status) for status in statuses}
    if found & {State.PENDING, State.PARTIAL}:
        _say_next((f"diff{tail}", "shows what is missing"), (f"apply{tail}", "applies it"))
    elif State.APPLIED in found:
        _say_next((f"revert{tail}", "takes back what patchkit applied"))


def print_applied(tree: CheckoutTree, applied: Applied, tail: str, *, as_json: bool, dry_run: bool) -> None:
    """Print what an apply came to, or, with ``dry_run``, would come to."""
    if as_json:
        _emit(place(tree) | states(applied.patches) | {"changed_files": list(applied.files)})
        return
    _say_states(applied.patches)
    if dry_run and applied.files:
        _say(f"\nWould change {_count(applied.files)}.")
        _say_next((f"apply{tail}", "does it"))
    elif applied.files:
        _say(f"\nChanged {_count(applied.files)}.")
        _say_next((f"revert{tail}", "takes it back"))
    else:
        _say("\nNothing changed.")


def print_reverted(tree: CheckoutTree, reverted: Reverted, tail: str, *, as_json: bool) -> None:
    """Print what a revert took back."""
    if as_json:
        _emit(place(tree) | {"reverted": list(reverted.patches), "changed_files": list(reverted.files)})
        return
    for name in reverted.patches:
        _say(f"[green]<[/] {escape(name)}")
    if reverted.patches:
        _say(f"\nChanged {_count(reverted.files)}.")
        _say_next((f"status{tail}", "shows what is left"))
    else:
        _say("Nothing to revert.")


def print_recovery(tree: CheckoutTree, recovery: Recovery, tail: str, *, as_json: bool) -> None:
    """Print how an interrupted write ended."""
    if as_json:
        _emit(place(tree) | {"action": recovery.action, "files": list(recovery.files)})
    elif recovery.files:
        _say(f"{recovery.action.capitalize().replace('-', ' ')}: {_count(recovery.files)}.")
        _say_next((f"status{tail}", "shows where the tree is"))
    else:
        _say("Nothing to recover.")


def print_diff(tree: CheckoutTree, planned: Plan, *, as_json: bool) -> None:
    """Print the plan's changes as a diff that ``git apply`` and ``patch -p1`` take in the tree's root."""
    texts = {change.file: _diff(tree, change) for change in planned.changes}
    if as_json:
        files = [
            {
                "file": change.file,
                "patches": change.patches,
                "diff": texts[change.file].decode(errors="replace"),
            }
            for change in planned.changes
        ]
        _emit(place(tree) | {"files": files})
        return
    text = b"".join(texts.values())
    if _stdout().is_terminal:
        coloured = Syntax("", "diff", background_color="default").highlight(text.decode(errors="replace"))
        _stdout().print(coloured, soft_wrap=True, end="")
    else:
        click.echo(text, nl=False)


def _diff(tree: CheckoutTree, change: FileChange) -> bytes:
    name = (tree.package / change.file).relative_to(tree.root).as_posix().encode()
    # Bytes read from a stream break into lines at line feeds alone, as git and patch see them.
    before, after = (list(io.BytesIO(content)) for content in (change.before, change.after))
    lines = difflib.diff_bytes(difflib.unified_diff, before, after, b"a/" + name, b"b/" + name)
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines
    )


def place(tree: CheckoutTree) -> dict[str, Any]:
    """Return which tree it is, as every JSON answer says it."""
    return {"tree": {"root": str(tree.root), "package": str(tree.package), "version": tree.version}}


def states(statuses: Iterable[PatchStatus]) -> dict[str, Any]:
    """Return each patch's and each edit's state, as every JSON answer says them."""
    return {
        "patches": [
            {
                "id": status.patch.id,
                "title": status.patch.title,
                "state": status.state.value,
                "reason": status.reason,
                "edits": [
                    {"file": edit.file, "site": edit.site, "state": edit.state.value, "reason": edit.reason}
                    for edit in status.edits
                ],
            }
            for status in statuses
        ]
    }


def _brief(patch: Patch) -> dict[str, Any]:
    return {
        "id": patch.id,
        "title": patch.title,
        "upstream": patch.upstream,
        "risk": patch.risk,
        "requires": patch.requires,
        "hardens": patch.hardens,
        "default": patch.default,
    }


def _emit(answer: object) -> None:
    click.echo(json.dumps(answer, indent=2))


def _stdout() -> Console:
    return Console(highlight=False)


def _say(text: str) -> None:
    _stdout().print(text, soft_wrap=True)


def _say_states(statuses: Sequence[PatchStatus]) -> None:
    width = max((len(status.patch.id) for status in statuses), default=0)
    for state, (heading, mark, style) in _GROUPS.items():
        group = [status for status in statuses if _group(status) == state]
        if group:
            _say(f"\n{heading}:")
        for status in group:
            _say(f"  [{style}]{mark} {escape(status.patch.id.ljust(width))}[/]  {escape(status.patch.title)}")
            conflicts = [edit for edit in status.edits if edit.state is State.CONFLICT]
            for edit in conflicts:
                _say(f"      {escape(f'{edit.file}: {edit.site}: {edit.name}: {edit.reason}')}")
            if status.reason and not conflicts:
                _say(f"      {escape(status.reason)}")


def _say_next(*steps: tuple[str, str]) -> None:
    said = (f"[bold]patchkit {escape(command)}[/] {does}" for command, does in steps)
    _say(f"\nNext: {'; '.join(said)}")


def _count(files: Sequence[str]) -> str:
    return f"{len(files)} file{'s' * (len(files) != 1)}"

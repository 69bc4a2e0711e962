"""``patchkit diff``: print what apply would change, as a diff for ``git apply`` and ``patch -p1``, and conflicts."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import ConflictError
from patchkit.findings.printable import plain, printable

if TYPE_CHECKING:
    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree


@options.command("diff", options.tree_and_patches, options.shared)
def command(given: options.Target) -> None:
    """Without PATCH, prints the changes of every default patch that fits; a group does not include its opt-in patches.
    Conflicts, and patches that are left out because of them, are printed on stderr.
    """
    from patchkit.commands.diff import diff
    from patchkit.plan.conflict import conflicts
    from patchkit.plan.refusal import describe_conflicts, describe_left_out

    patches = given.patches()
    target = given.target(patches)
    requested = patches.requested(target.ids)
    tree = target.open()
    with console.working(tree):
        planned = diff(tree, patches, target.ids)
    _print(tree, planned, conflicts(planned.tree, planned.patches), as_json=given.as_json)
    if any(name in requested for name in planned.left_out):
        raise ConflictError(
            describe_conflicts(planned.patches),
            advice=f"edit that code, or run patchkit apply --markers{target.whole_tail}",
        )
    if planned.left_out and not given.as_json:
        click.echo(f"\n{printable(describe_left_out(planned.left_out))}", err=True)
    if target.ids and not planned.changes and not given.as_json:
        states = ", ".join(f"{s.patch.id} {s.label}" for s in planned.patches)
        click.echo(f"note: apply would change nothing: {printable(states)}", err=True)


def _print(tree: CheckoutTree, planned: Plan, conflicts: tuple[Conflict, ...], *, as_json: bool) -> None:
    from rich.syntax import Syntax

    from patchkit.cli.answers.base import LeftOutAnswer
    from patchkit.cli.answers.diff import Diff, FileDiff
    from patchkit.plan.diff import unified

    changes = planned.changes
    names = {
        change.file: (tree.package / change.file).relative_to(tree.root).as_posix() for change in changes
    }
    texts = {change.file: unified(change, names[change.file]) for change in changes}
    if as_json:
        console.emit(
            Diff.of(
                tree=tree,
                files=tuple(
                    FileDiff.of(change, diff=texts[change.file].decode(errors="replace"))
                    for change in changes
                ),
                conflicts=conflicts,
                left=LeftOutAnswer.each(planned.left_out),
            )
        )
        return
    text = b"".join(texts.values())
    out = console.stdout()
    if out.is_terminal:
        coloured = Syntax("", "diff", background_color="default").highlight(
            plain(text.decode(errors="replace"))
        )
        out.print(coloured, soft_wrap=True, end="")
    else:
        click.echo(text, nl=False)
    # stdout must stay valid input for git apply.
    for conflict in conflicts:
        click.echo(plain(_conflict_text(conflict)), err=True)


def _conflict_text(conflict: Conflict) -> str:
    """Return a conflict as ``status`` prints it, with the code that was found, that was expected, and that is new."""
    edit = ": ".join(filter(None, (conflict.edit, conflict.why)))
    place = f"{conflict.file}:{conflict.line}" if conflict.line else conflict.file
    where = ": ".join(filter(None, (place, conflict.site)))
    head = [
        printable(f"{conflict.patch}  {edit}"),
        printable(f"  --> {where}") if where else "",
        printable(f"  {options.runnable(conflict.reason)}"),
    ]
    sections = {
        "found": conflict.found,
        "expected": conflict.expected,
        f"wanted ({conflict.kind})": conflict.wanted,
    }
    parts = [
        f"  {name}:\n{indent(dedent(text).rstrip(), '    ')}"
        for name, text in sections.items()
        if text.strip()
    ]
    return "\n".join(["", *filter(None, head), *parts])

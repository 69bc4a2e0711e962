"""``patchkit status``: show each patch's state and every conflict, or write a fork's list of backports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.findings.printable import escaped, plain
from patchkit.plan.status import IN_PLACE, State

if TYPE_CHECKING:
    from collections.abc import Collection

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import TreeStatus
    from patchkit.tree.tree import CheckoutTree


@options.command(
    "status",
    options.tree_and_patches,
    options.flag("-v --verbose", "List every patch with its title and reason."),
    options.flag("--check", "Exit 1 unless TREE has every PATCH (default: every default patch) that fits."),
    click.option(
        "--format",
        "style",
        type=click.Choice(["text", "json", "ledger"]),
        default="text",
        show_default=True,
        help="Output format; ledger verifies TREE and prints a Markdown table of its patches.",
    ),
    options.shared,
)
def command(given: options.Target, *, verbose: bool, check: bool, style: str) -> int:
    """edited: a person changed what patchkit wrote. upstream: TREE has upstream's own change. unknown: TREE has the
    change, and nothing tells whose it is. conflict: TREE has other code at a place that the patch changes. left-out:
    the configuration leaves the patch out. pending: apply would make the change. opt-in: apply makes it only if you
    name the patch. partial: apply would make the rest, of an opt-in patch only if you name it. not-applicable: TREE
    lacks the code that the patch changes. Without PATCH, every patch is shown.
    """
    from patchkit.commands.status import tree_status

    patches = given.patches(cached=True)
    target = given.target(patches)
    named = frozenset(patches.named(target.ids, whole_groups=True))
    opened = target.open()
    if style == "ledger":
        _say_ledger(opened, patches, named, as_json=given.as_json)
        if not check:
            return 0
    with console.working(opened):
        statuses = _only(tree_status(opened, patches), named)
    if style != "ledger":
        _say(
            opened, statuses, target, verbose=verbose or bool(named), as_json=given.as_json or style == "json"
        )
    # A patch that is not applicable cannot be applied, so it does not fail the check.
    done = IN_PLACE | {State.NOT_APPLICABLE}
    wanted = [status for status in statuses.patches if named or status.patch.default]
    return int(check and any(status.state not in done for status in wanted))


def _only(status: TreeStatus, named: Collection[str]) -> TreeStatus:
    """Return a tree's status with the named patches alone, or all of it if none is named."""
    if not named:
        return status
    return replace(
        status,
        patches=tuple(patch for patch in status.patches if patch.patch.id in named),
        unknown=(),
        ports={},
        unfinished=tuple(edit for edit in status.unfinished if edit[0] in named),
    )


def _say_ledger(tree: CheckoutTree, patches: PatchSet, named: Collection[str], *, as_json: bool) -> None:
    from patchkit.cli.answers.status import Ledger
    from patchkit.commands.report import report
    from patchkit.series.backports import markdown

    with console.progress() as watch:
        rows = tuple(row for row in report(tree, patches, watch) if not named or row.patch in named)
    if as_json:
        console.emit(Ledger.of(tree=tree, rows=rows))
    else:
        click.echo(plain(markdown(rows)).encode(), nl=False)


def _say(
    tree: CheckoutTree, status: TreeStatus, target: options.Target, *, verbose: bool, as_json: bool
) -> None:
    from patchkit.plan.fitting import is_lacking, is_left_out

    if as_json:
        from patchkit.cli.answers.base import states
        from patchkit.cli.answers.status import Status

        absent = {name: files for name, files in status.ports.items() if files}
        of = {"patches": states(tree, status.patches), "ports": tuple(status.ports), "absent_files": absent}
        console.emit(Status.of(status, tree=tree, **of))
        return
    console.say(escaped(console.place(tree)))
    console.say_states(tree, status.patches, verbose=verbose)
    if status.unknown:
        console.say("\nIn the tree, but not among the loaded patches (--patches DIR loads more):")
    for name in status.unknown:
        console.say(f"  [yellow]?[/] {escaped(name)}")
    for status_of_patch in status.patches:
        is_removable = status_of_patch.patch.remove_when and status_of_patch.state is State.UPSTREAM
        if (is_removable or is_lacking(status_of_patch)) and not verbose:
            reason = escaped(options.runnable(status_of_patch.reason))
            console.say(f"\n{escaped(status_of_patch.patch.id)}: {reason}")
    if status.ports:
        absent_from = ((name, ", ".join(files)) for name, files in status.ports.items())
        ported = ", ".join(f"{name} (not in {files})" if files else name for name, files in absent_from)
        console.say(f"\nPorted: {escaped(ported)}")
    console.say_absent(tree)
    console.say_never_run(status.patches, tree.version)
    if unreadable := _unreadable(tree):
        console.say(f"\nNote: {escaped(unreadable)}")
        return
    tail, labels = target.whole_tail, {patch.label for patch in status.patches}
    shown = ((patch.state if target.ids else patch.label, is_left_out(patch)) for patch in status.patches)
    fits = any(state == State.PENDING and not is_out for state, is_out in shown)
    in_part = [patch.patch for patch in status.patches if patch.label == State.PARTIAL]
    opt_in = [patch.id for patch in in_part if patch.opt_in]
    can_revert = State.APPLIED in labels and State.EDITED not in labels
    marking = console.marking(tail, (patch for patch in status.patches if patch.patch.default))
    if status.unfinished:
        console.say_unfinished(target.tail, *status.unfinished[0])
    elif fits or len(opt_in) < len(in_part):
        console.say_next(
            (f"apply{tail}", f"applies the {'named' if target.ids else 'pending'} patches"),
            (f"diff{tail}", "shows the changes"),
        )
    elif opt_in or marking or can_revert:
        names = " ".join(opt_in)
        rest = [(f"apply{target.tail} {names}", f"makes the rest of {escaped(names)}")] if opt_in else []
        # Nobody chose the rest of what upstream has in part.
        rest += [(f"show {name}", "has its risk") for name in opt_in]
        undo = [(f"revert{tail}", "reverts the patches")] if can_revert and not marking else []
        console.say_next(*rest, *marking, *undo)


def _unreadable(tree: CheckoutTree) -> str:
    """Return why apply and revert cannot read the record, empty if they can."""
    from patchkit.errors import TreeError
    from patchkit.plan import record

    try:
        record.read(tree)
    except TreeError as error:
        return str(error)
    return ""

"""``patchkit rebase``: check how a move to another commit affects each patch, and merge that commit on request."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.commands.port import PortedChange
    from patchkit.commands.rebase_check import Move


@options.command(
    "rebase",
    options.tree,
    click.option(
        "--onto",
        "ref",
        required=True,
        metavar="REF",
        help="The commit, branch or tag to move to.",
    ),
    options.flag(
        "--merge merging",
        "Merge REF into the current branch: revert the patches on both sides, merge, and apply them again; exit 1 "
        "if one conflicts and is left out.",
    ),
    options.folders,
    options.as_json,
)
def command(given: options.Target, *, ref: str, merging: bool) -> int:
    """Shows for each patch and each ported commit whether REF has it, and if not, whether it applies there or
    conflicts. Exit code 1 if a patch that TREE has, a default patch or a ported commit conflicts, or was edited in REF.
    TREE is changed only with --merge.
    """
    from patchkit.cli.answers.rebase import Rebase
    from patchkit.commands.merge import clean_head, is_merged, merge, merge_obstacle
    from patchkit.commands.rebase_check import ports_there, rebase_check

    patches = given.patches()
    opened = given.open()
    if merging:
        clean_head(opened)
    with console.working(opened):
        moves = rebase_check(opened, patches, ref)
        ports = ports_there(opened, ref)
    if not given.as_json:
        _say(moves, ports)
    merged = None
    if merging:
        with console.working(opened):
            merged = merge(opened, patches, ref)
    if given.as_json:
        console.emit(Rebase.made_of(opened, ref, moves, ports, merged))
    elif merged is None and is_merged(opened, ref):
        console.say(f"\nThis branch already has {escaped(ref)}.")
    elif merged is None and (obstacle := merge_obstacle(opened, ref)):
        console.say(f"\nNote: {escaped(options.runnable(str(obstacle)))}")
    elif merged is None:
        console.say_next(
            (
                f"rebase{given.tail} --onto {shlex.quote(ref)} --merge",
                "merges it and applies the patches again",
            )
        )
    elif merged.is_new:
        applied = counted(len(merged.commits), "patch")
        console.say(f"\nMerged {escaped(ref)} at {merged.merged[:9]}; {applied} applied.")
        for name, reason in merged.left_out.items():
            console.say(f"  [red]![/] {escaped(name)} is left out: {escaped(options.runnable(reason))}")
        again = f"apply{given.tail} {shlex.join(merged.left_out)} --markers"
        more = [(again, "applies what was left out, with conflict markers")] if merged.left_out else []
        console.say_next(*more, (f"verify{given.tail}", "checks the result"))
    else:
        console.say(f"\nNothing to merge: this branch already has {escaped(ref)}.")
    stuck = {State.CONFLICT, State.EDITED}
    is_stuck = any(move.then.state in stuck and move.counts for move in moves)
    if merged is not None:
        return int(bool(merged.left_out))
    return int(is_stuck or not all(port.is_whole for port in ports))


def _say(moves: Sequence[Move], ports: Sequence[PortedChange]) -> None:
    width = max(
        (len(name) for name in (*(m.patch for m in moves), *(p.change.facts.id for p in ports))), default=0
    )
    for move in moves:
        console.say(f"{escaped(move.patch.ljust(width))}  {move.now.label:14} {escaped(move.summary)}")
        if move.then.reason:
            console.say(f"{'':{width}}  {'':14} {escaped(options.runnable(move.then.reason))}")
    for port in ports:
        name = port.change.facts.id.ljust(width)
        console.say(f"{escaped(name)}  {'ported':14} {escaped(_summary(port))}")
        console.say(f"{'':{width}}  {'':14} {escaped(port.change.title)}")


def _summary(port: PortedChange) -> str:
    """Return what becomes of a ported commit, in a few words."""
    if not port.is_whole:
        return "; it needs ".join(filter(None, ("conflicts there", ", ".join(port.needs))))
    if not port.is_made:
        return "in place there: drop yours"
    return "applies there" if port.is_clean else "applies there, for a person to look at"

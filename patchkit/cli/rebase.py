"""``patchkit rebase``: check how a move to another commit affects each patch, and merge that commit on request."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.commands.rebase_check import Move


@click.command("rebase")
@options.options(
    options.tree,
    click.option(
        "--onto",
        "ref",
        required=True,
        metavar="REF",
        help="The commit, branch or tag to move to.",
    ),
    click.option(
        "--merge",
        "merging",
        is_flag=True,
        help="Merge REF into the current branch: revert the patches on both sides, merge, and apply them again.",
    ),
    options.folders,
    options.as_json,
)
@click.pass_context
def command(
    context: click.Context,
    *,
    tree: str | None,
    ref: str,
    merging: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Check how a move to REF affects each patch, or merge REF.

    Shows for each patch whether REF has it from upstream, and if not, whether it applies there or conflicts. Exit code
    1 if a patch that TREE has or a default patch conflicts, or was edited in REF. TREE is changed only with --merge.
    """
    from patchkit.cli import console
    from patchkit.cli.answers.rebase import Rebase
    from patchkit.commands.merge import is_merged, merge, merge_obstacle
    from patchkit.commands.rebase_check import rebase_check
    from patchkit.findings.plural import counted
    from patchkit.findings.printable import escaped
    from patchkit.plan.status import State

    patches = options.loaded_patches(folders, [tree])
    target = options.Target(tree, False, folders)
    opened = target.open()
    with console.working(opened):
        moves = rebase_check(opened, patches, ref)
    if not as_json:
        _say(moves)
    merged = None
    if merging:
        with console.working(opened):
            merged = merge(opened, patches, ref)
    if as_json:
        console.emit(Rebase.made_of(opened, ref, moves, merged))
    elif merged is None and is_merged(opened, ref):
        console.say(f"\nThis branch already has {escaped(ref)}.")
    elif merged is None and (obstacle := merge_obstacle(opened, ref)):
        console.say(f"\nNote: {escaped(options.runnable(str(obstacle)))}")
    elif merged is None:
        console.say_next(
            (
                f"rebase{target.tail} --onto {shlex.quote(ref)} --merge",
                "merges it and applies the patches again",
            )
        )
    elif merged.is_new:
        applied = counted(len(merged.commits), "patch")
        console.say(f"\nMerged {escaped(ref)} at {merged.merged[:9]}; {applied} applied.")
        console.say_next((f"verify{target.tail}", "checks the result"))
    else:
        console.say(f"\nNothing to merge: this branch already has {escaped(ref)}.")
    stuck = {State.CONFLICT, State.EDITED}
    if not merging and any(move.then.state in stuck and move.counts for move in moves):
        context.exit(1)


def _say(moves: Sequence[Move]) -> None:
    from patchkit.cli import console
    from patchkit.findings.printable import escaped

    width = max((len(move.patch) for move in moves), default=0)
    for move in moves:
        console.say(f"{escaped(move.patch.ljust(width))}  {move.now.label:14} {escaped(move.summary)}")
        if move.then.reason:
            console.say(f"{'':{width}}  {'':14} {escaped(options.runnable(move.then.reason))}")

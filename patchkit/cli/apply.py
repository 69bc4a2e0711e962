"""``patchkit apply``: patches are written to a tree with what they need, or nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options
from patchkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.series.commit import Commit
    from patchkit.transaction.apply import Applied
    from patchkit.tree.tree import CheckoutTree


@click.command("apply")
@options.options(
    options.tree_and_patches,
    click.option(
        "--all",
        "everything",
        is_flag=True,
        help="Every patch that is on by default, or nothing if one conflicts.",
    ),
    click.option(
        "--dry-run", is_flag=True, help="Check everything and say what would change; write nothing."
    ),
    click.option(
        "--keep-going", is_flag=True, help="Leave out a PATCH too that conflicts, apply the rest, and exit 1."
    ),
    click.option(
        "--markers", is_flag=True, help="Write what is certain and conflict markers at the rest, and exit 1."
    ),
    click.option(
        "--resolved", is_flag=True, help="Write what you resolved by hand wherever the same code stands."
    ),
    click.option("--only", is_flag=True, help="Do not bring along the patches that harden a PATCH."),
    click.option("--allow-dirty", is_flag=True, help="Change files that have uncommitted changes too."),
    click.option(
        "--runtime",
        type=click.Choice(["import", "vendored"]),
        help="Let patched code import the installed patchkit, or a copy inside TREE (default: as TREE has it).",
    ),
    click.option(
        "--commit", "committing", is_flag=True, help="Make one commit a patch on the current branch."
    ),
    options.installed,
    options.folders,
    options.as_json,
)
@click.pass_context
def command(
    context: click.Context,
    *,
    arguments: Sequence[str],
    everything: bool,
    dry_run: bool,
    keep_going: bool,
    markers: bool,
    resolved: bool,
    only: bool,
    allow_dirty: bool,
    runtime: str | None,
    committing: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Apply each PATCH, or every member of a group such as @speed, with what it requires and what hardens it.

    Without a PATCH everything is applied that is on by default and fits. What is in conflict is left out, with all that
    needs it, and the others are applied; with --all, or where a PATCH or what it requires is among that, nothing is
    written and the exit code is 3.
    """
    from patchkit.cli import console
    from patchkit.commands.apply import apply
    from patchkit.commands.commit import commit
    from patchkit.plan.refusal import PlanConflictError, describe_conflicts
    from patchkit.transaction.apply import Applied

    patches = options.at_hand(folders, arguments, installed=installed)
    words = options.understood(arguments, installed, folders, patches, everything=everything)
    if committing and (dry_run or allow_dirty):
        raise UsageError(
            "--commit commits what apply changes and no more: leave out --dry-run and --allow-dirty."
        )
    if committing and (markers or resolved):
        raise UsageError("--commit commits what is whole: finish the conflicts without it, then commit them.")
    ids = tuple(patch.id for patch in patches.select()) if everything else words.ids
    tree = words.open()
    commits: tuple[Commit, ...] = ()
    try:
        with console.working(tree):
            if committing:
                done = commit(tree, patches, ids, only=only, keep_going=keep_going, runtime=runtime or "")
                applied, commits = done.applied, done.commits
            else:
                applied = apply(
                    tree,
                    patches,
                    ids,
                    only=only,
                    keep_going=keep_going,
                    markers=markers,
                    resolved=resolved,
                    allow_dirty=allow_dirty,
                    dry_run=dry_run,
                    runtime=runtime or "",
                )
    except PlanConflictError as error:
        _print(tree, Applied(error.plan.patches, ()), words, as_json=as_json, dry_run=dry_run)
        raise
    _print(tree, applied, words, as_json=as_json, dry_run=dry_run, commits=commits)
    if (keep_going or markers) and describe_conflicts(applied.patches):
        context.exit(1)


def _print(
    tree: CheckoutTree,
    applied: Applied,
    words: options.Words,
    *,
    as_json: bool,
    dry_run: bool,
    commits: Sequence[Commit] = (),
) -> None:
    from patchkit.cli import console
    from patchkit.cli.answers.apply import Apply
    from patchkit.findings.printable import escaped
    from patchkit.plan.refusal import describe_left
    from patchkit.plan.status import State

    if as_json:
        console.emit(Apply.of(tree, applied, commits))
        return
    would = dry_run and bool(applied.files)
    console.say_states(applied.patches, {State.APPLIED: "Would be applied by patchkit"} if would else None)
    for heir in applied.heirs:
        console.say(
            f"\nNote: {escaped(heir.told)}: patchkit verify says whether it breaks; {escaped(heir.remedy)}."
        )
    for file, block in applied.marked:
        console.say(f"\n{escaped(file)}:{block.start + 1}: {block.patch} {block.edit}: conflict markers.")
    console.say_never_run(applied.patches, tree.version)
    if applied.left:
        console.say(f"\n{escaped(describe_left(applied.left))} patchkit diff{words.whole_tail} shows where.")
    if applied.resolved_elsewhere:
        known = applied.resolved_elsewhere
        console.say(f"{known} of the conflicts you resolved elsewhere, and --resolved writes the same here.")
    if would:
        console.say(f"\nWould change {console.count(applied.files)}.")
        console.say_next((f"apply{words.whole_tail}", "does it"))
    elif commits:
        number = len({one.commit for one in commits})
        console.say(f"\nChanged {console.count(applied.files)} in {number} commit{'s' * (number != 1)}.")
        console.say_next((f"verify{words.tail}", "proves what is committed"))
    elif applied.marked:
        _, first = applied.marked[0]
        console.say(
            f"\nChanged {console.count(applied.files)}; edit what is between the markers and take them out."
        )
        console.say_next(
            (f"resolve{words.tail} {first.patch} {first.edit}", "records what you made of it"),
            (f"revert{words.tail}", "takes all back"),
        )
    elif applied.files:
        console.say(f"\nChanged {console.count(applied.files)}.")
        console.say_next((f"revert{words.tail}", "takes it back"))
    else:
        console.say("\nNothing changed.")

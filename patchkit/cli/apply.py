"""``patchkit apply``: apply patches with their requirements, or finish or roll back an interrupted write."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import TreeError, UsageError
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped
from patchkit.plan.status import ACCEPTED, BY_HAND, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.series.commit import CommitResult
    from patchkit.tree.tree import CheckoutTree


@options.command(
    "apply",
    options.tree_and_patches,
    options.flag("--all everything", "Apply every default patch, or none if one of them conflicts."),
    options.flag("--dry-run", "Show what would change; write nothing."),
    options.flag("--keep-going", "Leave out patches that conflict, apply the others, and exit 1."),
    options.flag("--markers", "Write the edits that fit and conflict markers for the others, and exit 1."),
    options.flag("--resolved", "Use your earlier resolutions for conflicts with the same code."),
    options.allow_dirty,
    click.option(
        "--runtime",
        type=click.Choice(["import", "vendored"]),
        help="Make patched code import the runtime from the installed patchkit, or from a copy in TREE (default: "
        "what TREE uses already, otherwise import).",
    ),
    options.flag("--commit committing", "Commit each patch on the current branch."),
    options.flag(
        "--verify verifying",
        "With --commit: check the commits first, as patchkit verify does; if a check fails, change nothing and "
        "exit 1.",
    ),
    options.flag(
        "--continue continuing", "Finish an interrupted write, or roll it back if no file was changed yet."
    ),
    options.flag("--abort aborting", "Roll back an interrupted write."),
    options.shared,
)
def command(
    given: options.Target,
    *,
    everything: bool,
    dry_run: bool,
    keep_going: bool,
    markers: bool,
    resolved: bool,
    continuing: bool,
    aborting: bool,
    allow_dirty: bool,
    runtime: str | None,
    committing: bool,
    verifying: bool,
) -> int:
    """Without PATCH, every default patch that fits is applied; patches that conflict, and patches that need them, are
    left out. Of a group, the default patches are applied and the opt-in patches are listed: read their risk (patchkit
    show PATCH), then apply them by name.

    If a named patch, a patch that it requires or, with --all, any default patch conflicts, nothing is written and the
    exit code is 3.
    """
    if continuing or aborting:
        _end(given, continuing=continuing, aborting=aborting)
        return 0
    from patchkit.commands.apply import apply
    from patchkit.plan.refusal import PlanConflictError, describe_conflicts
    from patchkit.series.commit import CommitResult
    from patchkit.transaction.apply import ApplyResult
    from patchkit.verify.result import UnverifiedError

    patches = given.patches()
    target = given.target(patches, everything=everything)
    if verifying and not committing:
        raise UsageError("--verify needs --commit", advice="add it, or run patchkit verify afterwards")
    if committing and (dry_run or allow_dirty):
        raise UsageError(
            "--commit cannot be combined with --dry-run or --allow-dirty", advice="leave them out"
        )
    if committing and (markers or resolved):
        raise UsageError(
            "--commit cannot be combined with --markers or --resolved",
            advice="finish the conflicts without it, then commit them",
        )
    ids = tuple(patch.id for patch in patches.select()) if everything else target.ids
    tree = target.open()
    try:
        with console.working(tree):
            if committing:
                from patchkit.commands.commit import commit

                done = commit(
                    tree, patches, ids, keep_going=keep_going, runtime=runtime or "", verifying=verifying
                )
            else:
                applied = apply(
                    tree,
                    patches,
                    ids,
                    keep_going=keep_going,
                    markers=markers,
                    resolved=resolved,
                    allow_dirty=allow_dirty,
                    dry_run=dry_run,
                    runtime=runtime or "",
                )
                done = CommitResult(applied, ())
    except (PlanConflictError, UnverifiedError) as error:
        verdict = error.verdict if isinstance(error, UnverifiedError) else None
        done = CommitResult(ApplyResult(error.plan.patches, ()), (), verdict)
        _print(tree, done, target, dry_run=dry_run)
        raise
    opt_in = () if given.as_json else _opt_in(tree, patches, target.ids)
    again = "".join(f" {word}" for word in options.typed(*_REPEATED))
    _print(tree, done, target, dry_run=dry_run, committing=committing, opt_in=opt_in, again=again)
    return int((keep_going or markers) and bool(describe_conflicts(done.applied.patches)))


_ENDING = ("words", "continuing", "aborting", "installed", "as_json")
_REPEATED = ("everything", "keep_going", "markers", "resolved", "allow_dirty", "runtime")


def _opt_in(tree: CheckoutTree, patches: PatchSet, names: Sequence[str]) -> tuple[Patch, ...]:
    """Return the opt-in patches of the named groups that are not named themselves and that the tree lacks."""
    from patchkit.commands.status import status

    groups = [name for name in dict.fromkeys(names) if name in patches.groups]
    off_by_default = {patch.id for name in groups for patch in patches.group(name) if not patch.default}
    if off_by_default <= set(names):
        return ()
    pending = [status.patch for status in status(tree, patches) if status.state is State.PENDING]
    return tuple(
        patch for patch in pending if patch.id in off_by_default.difference(names) and not patch.left_out
    )


def _end(given: options.Target, *, continuing: bool, aborting: bool) -> None:
    """Finish or roll back the interrupted write. Raise UsageError for options that only a new write takes."""
    from patchkit.cli.answers.apply import Recover
    from patchkit.commands.recover import recover
    from patchkit.transaction.conflicts import conflicts_in

    how = "--abort" if aborting else "--continue"
    words = given.words
    others = [param.opts[0] for param in options.typed_parameters() if param.name not in _ENDING]
    if continuing and aborting:
        others = ["--continue"]
    missing = [word for word in words if not os.path.exists(word)]
    # A damaged patch must not keep a write from being finished, so patches are loaded only for this message.
    if others or len(words) > 1 or (missing and missing[0] in options.Target().patches()):
        raise UsageError(f"{how} takes only a TREE", advice=f"leave out {(others or missing or words)[-1]}")
    target = given.on(words[0] if words else None)
    opened = target.open()
    recovery = recover(opened, roll_back=aborting)
    if given.as_json:
        console.emit(Recover.of(recovery, tree=opened))
    elif recovery.action == "nothing":
        console.say(f"Nothing to {how.removeprefix('--')}: no write was interrupted.")
        # Git's options of these names are for conflicts, so users may try them on those of apply --markers.
        with suppress(TreeError):
            for block in tuple(chain.from_iterable(conflicts_in(opened).values()))[:1]:
                console.say_unfinished(target.tail, block.patch, block.edit)
    else:
        done = recovery.action.capitalize().replace("-", " ")
        console.say(f"{done}: {console.count(recovery.files)}.")
        console.say_next((f"status{target.tail}", "shows the state of the tree"))
        console.say_new_files(opened, recovery.files)


def _print(
    tree: CheckoutTree,
    done: CommitResult,
    target: options.Target,
    *,
    dry_run: bool,
    committing: bool = False,
    opt_in: Sequence[Patch] = (),
    again: str = "",
) -> None:
    """Print what was applied; ``again`` are the options to repeat after a dry run."""
    from patchkit.cli.answers.apply import Apply
    from patchkit.cli.output import writing
    from patchkit.commands.apply import describe_committing, describe_resolutions
    from patchkit.plan.refusal import describe_left_out
    from patchkit.transaction.conflicts import UNRECORDED
    from patchkit.verify import text

    if target.as_json:
        console.emit(Apply.made_of(tree, done))
        return
    applied, commits, verdict = done.applied, done.commits, done.verdict
    is_planned = dry_run and bool(applied.files)
    if is_planned:
        console.say("\nAfter apply:")
    console.say_states(tree, applied.patches)
    for status in applied.patches:
        if status.patch.id in target.ids and status.state is State.NOT_APPLICABLE:
            console.say(f"\n{escaped(status.patch.id)}: {escaped(options.runnable(status.reason))}")
    for status in applied.patches:
        for edit_status in status.edits if status.patch.diffs and status.state is not State.CONFLICT else ():
            is_made = edit_status.state in {State.APPLIED, State.PENDING}
            if is_made and edit_status.reason not in {"", ACCEPTED, BY_HAND}:
                place = ": ".join(filter(None, (edit_status.file, edit_status.site)))
                console.say(
                    f"\nNote: {escaped(status.patch.id)}: {escaped(place)}: {escaped(edit_status.reason)}."
                )
    for backend in applied.inheriting:
        console.say(
            f"\nNote: {escaped(backend.description)}. patchkit verify{target.tail} checks whether that fails; "
            f"{escaped(options.runnable(f'{backend.remedy}.'))}"
        )
    if applied.marked:
        console.say("\nConflict markers:")
    for file, block in applied.marked:
        console.say(f"  {escaped(file)}:{block.start + 1}  {escaped(f'{block.patch} {block.edit}')}")
    console.say_never_run(applied.patches, tree.version)
    if opt_in:
        console.say("\nOpt-in, and not applied because only their group was named:")
    for patch in opt_in:
        console.say(f"  [bold]{escaped(patch.id)}[/]  {escaped(patch.title)}")
    if applied.left_out:
        console.say(
            f"\n{escaped(describe_left_out(applied.left_out))} patchkit diff{target.whole_tail} shows where."
        )
    if applied.resolved_elsewhere:
        describe = describe_committing if committing else describe_resolutions
        clause = describe(applied.resolved_elsewhere, applied.patches)
        console.say(escaped(options.runnable(f"{clause}.")))
    conflicting = {status.patch.id for status in applied.patches if status.state is State.CONFLICT}
    for name, edit in applied.unrecorded:
        if name not in conflicting:
            console.say(f"\n[bold]{escaped(name)}[/]  {escaped(edit)}: {UNRECORDED}.")
    if verdict is not None and not verdict.passed:
        console.say("")
        with writing(None) as out:
            text.show(verdict, out, console.place(tree), target.tail)
    marking = console.marking(target.tail, applied.patches) if "--markers" not in again else []
    if is_planned:
        console.say(f"\nWould change {console.count(applied.files)}.")
        console.say_next((f"apply{target.whole_tail}{again}", "applies the patches"))
    elif commits:
        made = list(dict.fromkeys(one.commit for one in commits))
        more = console.by_hooks(tree, applied.files, made)
        console.say(f"\nChanged {console.count(applied.files)} in {counted(len(made), 'commit')}{more}.")
        if verdict is not None:
            console.say(text.summary(verdict))
        if not applied.unrecorded:
            checking = (f"verify{target.tail}", "checks the result")
            reverting = (f"revert{target.tail} --commit", "reverts the patches")
            console.say_next(reverting if verdict is not None else checking, *marking)
    elif applied.marked:
        _, first = applied.marked[0]
        console.say(
            f"\nChanged {console.count(applied.files)}. Edit the code between the markers and remove them."
        )
        console.say_unfinished(target.tail, first.patch, first.edit)
    elif applied.files:
        console.say(f"\nChanged {console.count(applied.files)}.")
        if not applied.unrecorded:
            console.say_next(*(marking or [(f"revert{target.tail}", "reverts the patches")]))
    else:
        console.say("\nNothing changed.")
        if marking and applied.left_out and not applied.unrecorded:
            console.say_next(*marking)
    if applied.unrecorded and not (is_planned or applied.marked):
        console.say_unfinished(target.tail, *applied.unrecorded[0])
    if applied.files and not (is_planned or commits or applied.marked):
        console.say_new_files(tree, applied.files)

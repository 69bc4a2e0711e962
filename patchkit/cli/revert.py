"""``patchkit revert``: revert patches, keeping other changes."""

from __future__ import annotations

import shlex

from patchkit.cli import console, options
from patchkit.errors import ConflictError
from patchkit.findings.printable import escaped, excerpt


@options.command(
    "revert",
    options.tree_and_patches,
    options.flag("--all everything", "Revert every patch, as without PATCH."),
    options.flag("--keep-going", "Leave patches that cannot be reverted, revert the others, and exit 1."),
    options.flag("--commit committing", "Commit it on the current branch."),
    options.shared,
)
def command(given: options.Target, *, everything: bool, keep_going: bool, committing: bool) -> int:
    """Without PATCH, every patch is reverted, except a port that was committed, which must be named. A group includes
    its opt-in patches that are applied.
    """
    from patchkit.cli.answers.revert import LeftPatch, Revert
    from patchkit.commands.revert import (
        PartialRevert,
        commit_revert,
        remaining_ports,
        revert,
        revert_what_can_be,
    )

    patches = given.patches()
    target = given.target(given.with_recorded(patches), everything=everything)
    tree = target.open()
    try:
        with console.working(tree):
            reverted, not_reverted, commit = (
                commit_revert(tree, patches, target.ids, keep_going=keep_going)
                if committing
                else revert_what_can_be(tree, patches, target.ids)
                if keep_going
                else PartialRevert(revert(tree, patches, target.ids), {})
            )
            remaining = {} if target.ids else remaining_ports(tree, patches)
            ports = {name: committed for name, committed in remaining.items() if name not in not_reverted}
            is_whole = not not_reverted and all(ports.values())
    except ConflictError as refusal:
        if not keep_going and len(target.ids) != 1:
            refusal.advice += "; --keep-going reverts each patch that it can"
        if given.as_json and refusal.difference:
            console.emit(Revert.of(refusal, tree=tree, reverted=(), changed_files=()))
        raise
    if given.as_json:
        left = (LeftPatch.of(error, patch=name, reason=str(error)) for name, error in not_reverted.items())
        console.emit(
            Revert.of(
                tree=tree,
                reverted=reverted.patches,
                changed_files=reverted.files,
                left=tuple(left),
                ports=tuple(ports),
                commit=commit,
            )
        )
        return int(not is_whole)
    if reverted.patches:
        console.say(f"Reverted: {escaped(', '.join(reverted.patches))}.")
    for name, error in not_reverted.items():
        console.say(f"[red]![/] {escaped(name)}: {escaped(options.runnable(str(error)))}")
        for line in excerpt(error.difference):
            console.say(escaped(line))
    if reverted.patches:
        how = f" in 1 commit{console.by_hooks(tree, reverted.files, [commit])}" if commit else ""
        console.say(f"\nChanged {console.count(reverted.files)}{how}.")
    elif not not_reverted:
        console.say("Nothing to revert.")
    committed = [name for name, is_committed in ports.items() if is_committed]
    others = [name for name in ports if name not in committed]
    for names, one, several in (
        (committed, "was ported and committed, and stays", "were ported and committed, and stay"),
        (
            others,
            "was ported, conflicts with other changes, and stays",
            "were ported, conflict with other changes, and stay",
        ),
    ):
        if names:
            console.say(f"{escaped(', '.join(names))} {one if len(names) == 1 else several}.")
    steps = [(f"status{target.tail}", "shows what is left")] if reverted.patches else []
    if ports:
        steps.append((f"revert{target.tail} {shlex.join(ports)}", "reverts what was ported"))
    if steps:
        console.say_next(*steps)
    if reverted.files and not commit:
        console.say_new_files(tree, reverted.files)
    elif not reverted.patches:
        console.say_absent(tree)
    return int(not is_whole)

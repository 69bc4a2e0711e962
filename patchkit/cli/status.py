"""``patchkit status``: each patch's state, and every conflict's site and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.plan.status import Standing
    from patchkit.tree.tree import CheckoutTree


@click.command("status")
@options.options(
    options.tree,
    click.option("--check", is_flag=True, help="Exit 1 unless every patch that fits TREE is in it."),
    options.installed,
    options.folders,
    options.as_json,
)
@click.pass_context
def command(
    context: click.Context,
    *,
    tree: str | None,
    check: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Say of each patch whether TREE has it."""
    from patchkit.cli import console
    from patchkit.cli.answers.status import Status
    from patchkit.commands.status import standing
    from patchkit.plan.status import State

    words = options.Words(tree, installed, folders)
    patches = options.at_hand(folders, [tree], installed=installed)
    opened = words.open()
    with console.working(opened):
        found = standing(opened, patches)
    if as_json:
        console.emit(Status.of(opened, found))
    else:
        _say(opened, found, words.tail)
    # What is not applicable has nothing to do here, so it cannot fail a check either.
    done = {State.APPLIED, State.UPSTREAM, State.NOT_APPLICABLE}
    if check and any(status.patch.default and status.state not in done for status in found.patches):
        context.exit(1)


def _say(tree: CheckoutTree, standing: Standing, tail: str) -> None:
    from patchkit.cli import console
    from patchkit.findings.printable import escaped
    from patchkit.plan.status import State

    console.say(f"sglang {tree.version or '(version unknown)'} in {escaped(str(tree.package))}")
    console.say_states(standing.patches)
    if standing.unknown:
        console.say(
            "\nIn the tree, and not among the patches at hand (--patches DIR brings a folder of patches):"
        )
    for name in standing.unknown:
        console.say(f"  [yellow]?[/] {escaped(name)}")
    console.say_never_run(standing.patches, tree.version)
    found = {console.group_of(status) for status in standing.patches}
    if found & {State.PENDING, State.PARTIAL}:
        console.say_next((f"diff{tail}", "shows what is missing"), (f"apply{tail}", "applies it"))
    elif State.APPLIED in found:
        console.say_next((f"revert{tail}", "takes back what patchkit applied"))

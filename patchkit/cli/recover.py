"""``patchkit recover``: an interrupted write is finished or taken back."""

from __future__ import annotations

import click

from patchkit.cli import options


@click.command("recover")
@options.options(options.tree, options.installed, options.as_json)
def command(*, tree: str | None, installed: bool, as_json: bool) -> None:
    """Finish or roll back an interrupted write to TREE."""
    from patchkit.cli import console
    from patchkit.cli.answers.recover import Recover
    from patchkit.commands.recover import recover

    words = options.Words(tree, installed)
    opened = words.open()
    recovery = recover(opened)
    if as_json:
        console.emit(Recover.of(opened, recovery))
    elif recovery.files:
        done = recovery.action.capitalize().replace("-", " ")
        console.say(f"{done}: {console.count(recovery.files)}.")
        console.say_next((f"status{words.tail}", "shows where the tree is"))
    else:
        console.say("Nothing to recover.")

"""``patchkit resolve PATCH EDIT``: what a person wrote in place of an edit is recorded as that edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options
from patchkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@click.command("resolve")
@click.argument("words", nargs=-1, metavar="[TREE] PATCH EDIT")
@options.options(options.installed, options.folders, options.as_json)
def command(*, words: Sequence[str], installed: bool, folders: Sequence[Path], as_json: bool) -> None:
    """Record that you made EDIT of PATCH by hand, once the code has what the edit is for.

    What you wrote between the markers of apply --markers is remembered, and offered wherever the same code
    stands: apply --resolved takes it. revert takes it back with the patch.
    """
    from patchkit.cli import console
    from patchkit.cli.answers.resolve import Resolve
    from patchkit.commands.resolve import resolve
    from patchkit.patchset import load

    if len(words) not in (2, 3):
        raise UsageError("which edit? Name its patch and then the edit: patchkit resolve [TREE] PATCH EDIT.")
    patches = load.patches(folders)
    *tree, patch, edit = words
    asked = options.Words(tree[0] if tree else None, installed, folders)
    opened = asked.open()
    with console.working(opened):
        done = resolve(opened, patches, patch, edit)
    if as_json:
        console.emit(Resolve.of(opened, patch, edit, done))
        return
    if not done.recorded:
        console.say(f"{patch} {edit} is recorded already.")
        return
    console.say(f"{patch} {edit} is recorded as made by hand.")
    if done.remembered:
        console.say("Where the same code stands, patchkit apply --resolved writes the same.")
    console.say_next((f"apply{asked.tail}", "applies the rest"))

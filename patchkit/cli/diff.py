"""``patchkit diff``: what apply would change, as a diff that ``git apply`` and ``patch -p1`` take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import options
from patchkit.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.plan.status import FileChange
    from patchkit.tree.tree import CheckoutTree


@click.command("diff")
@options.options(options.tree_and_patches, options.installed, options.folders, options.as_json)
def command(*, arguments: Sequence[str], installed: bool, folders: Sequence[Path], as_json: bool) -> None:
    """Print what apply would change, as a unified diff."""
    from patchkit import api
    from patchkit.cli import console
    from patchkit.patchset import load

    patches = load.patches(folders)
    words = options.understood(arguments, installed, folders, patches)
    tree = words.open()
    with console.working(tree):
        planned = api.diff(tree, patches, words.ids)
    _print(tree, planned.changes, as_json=as_json)
    conflicts = api.describe_conflicts(planned.patches)
    if conflicts:
        raise ConflictError(f"{conflicts}: patchkit status{words.tail} says why.")


def _print(tree: CheckoutTree, changes: Sequence[FileChange], *, as_json: bool) -> None:
    from rich.syntax import Syntax

    from patchkit.cli import console
    from patchkit.plan.answer import place
    from patchkit.plan.diff import unified

    names = {
        change.file: (tree.package / change.file).relative_to(tree.root).as_posix() for change in changes
    }
    texts = {change.file: unified(change, names[change.file]) for change in changes}
    if as_json:
        files = [
            {
                "file": change.file,
                "patches": change.patches,
                "diff": texts[change.file].decode(errors="replace"),
            }
            for change in changes
        ]
        console.emit(place(tree) | {"files": files})
        return
    text = b"".join(texts.values())
    out = console.stdout()
    if out.is_terminal:
        coloured = Syntax("", "diff", background_color="default").highlight(text.decode(errors="replace"))
        out.print(coloured, soft_wrap=True, end="")
    else:
        click.echo(text, nl=False)

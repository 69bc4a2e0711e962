"""``patchkit new``: draft a patch folder from a diff or a commit."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped
from patchkit.tree.limits import read_named

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


@options.command(
    "new",
    click.argument("identifier", metavar="PATCH-ID"),
    click.option(
        "--from-diff",
        "diffs",
        metavar="FILE",
        multiple=True,
        type=options.FILE,
        help="A unified diff, or mails of git format-patch; a series, also of several files, is one patch.",
    ),
    click.option(
        "--from-commit",
        "commit",
        metavar="COMMIT",
        help="A commit in TREE's repository, or a range such as v1..topic.",
    ),
    click.option(
        "--base",
        metavar="FILE",
        multiple=True,
        type=options.FILE,
        help="A diff to apply first that is not part of the patch; may be repeated.",
    ),
    click.option("--on", "tree", metavar="TREE", help="The tree that the change was made on."),
    options.output_folder("Write the draft to DIR (default: ./PATCH-ID)."),
    options.as_json,
)
def command(
    given: options.Target,
    *,
    identifier: str,
    diffs: tuple[Path, ...],
    commit: str | None,
    base: tuple[Path, ...],
    folder: Path | None,
) -> None:
    """DIR gets the change as a diff, with the files that it was made on, so that it can be made in trees that have
    drifted. What you have to complete is marked `todo` in its patch.toml.
    """
    from patchkit.cli.answers.new import New
    from patchkit.commands.new import new

    if bool(diffs) is (commit is not None):
        what = "--from-diff cannot be combined with --from-commit" if diffs else "no change is named"
        raise UsageError(what, advice="name one with --from-diff FILE or --from-commit COMMIT")
    opened = given.open()
    texts = [_text(path, "--from-diff") for path in diffs]
    base_texts = [_text(path, "--base") for path in base]
    place = folder or Path(identifier)
    with console.progress() as watch:
        drafted = new(
            opened, identifier, place, diff=texts, commit=commit or "", base=base_texts, watch=watch
        )
    if given.as_json:
        console.emit(New.of(drafted))
        return
    console.say(f"{escaped(str(drafted.file))}: {counted(drafted.edits, 'edit')} drafted.")
    if drafted.todo:
        console.say("To finish by hand:")
    for item in drafted.todo:
        console.say(f"  [yellow]![/] {escaped(item)}")
    rest = "" if drafted.exact else ", except for what is left out"
    console.say(f"On the tree of the diff, the patch makes the same change{rest}.")
    made = shlex.quote(str(drafted.file.parent))
    added, other = _tree_before(commit, opened) if commit else ("", given.tree or ".")
    which = f"the tree that [bold]{escaped(added)}[/] checks out" if added else "the tree"
    console.say_next(
        (f"test {made}", "lists what is still marked `todo`"),
        (f"test {made} --on {shlex.quote(other)}", f"tries it on a copy of {which}"),
    )


def _tree_before(commit: str, tree: CheckoutTree) -> tuple[str, str]:
    """Return the git command that checks out the tree as it was before a commit, and where that tree will be."""
    from patchkit.drafting.difference import parent_of
    from patchkit.tree.git import place_of

    root = tree.root.resolve()
    inside = place_of(root)
    top = root.parents[inside.count("/")] if inside else root
    here = Path.cwd()
    folder = [] if here == top else ["-C", os.path.relpath(top, here)]
    words = ("git", *folder, "worktree", "add", "../before", parent_of(commit))
    return shlex.join(words), os.path.relpath(top.parent / "before" / inside, here)


def _text(path: Path, option: str) -> str:
    try:
        return read_named(path).decode()
    except UnicodeDecodeError:
        raise UsageError("the diff is not UTF-8", where=path, advice=f"name another with {option}") from None

"""``patchkit new``: a patch folder is drafted from a diff or a commit."""

from __future__ import annotations

from pathlib import Path

import click

from patchkit.cli import options
from patchkit.errors import UsageError
from patchkit.tree.limits import read_named


@click.command("new")
@click.argument("identifier", metavar="PATCH-ID")
@options.options(
    click.option(
        "--from-diff",
        "diff",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A unified diff, such as git diff prints.",
    ),
    click.option("--from-commit", "commit", metavar="COMMIT", help="A commit in TREE's repository."),
    click.option("--on", "tree", metavar="TREE", help="The tree that the change was made on."),
    click.option(
        "-o",
        "--output",
        "folder",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write the draft to DIR (default: ./PATCH-ID).",
    ),
    options.as_json,
)
def command(
    *,
    identifier: str,
    diff: Path | None,
    commit: str | None,
    tree: str | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Draft a patch from a diff or a commit.

    Its edits find their places by names and structure; what you have to decide is marked `todo` in the draft.
    """
    from patchkit.cli import console
    from patchkit.cli.answers.new import New
    from patchkit.commands.new import new
    from patchkit.findings.printable import escaped

    if (diff is None) is (commit is None):
        raise UsageError(
            "a patch is drafted from one change",
            advice="name one of --from-diff FILE and --from-commit COMMIT",
        )
    opened = options.Words(tree, False).open()
    try:
        text = read_named(diff).decode() if diff is not None else ""
    except UnicodeDecodeError:
        raise UsageError(
            "the diff is not UTF-8", where=diff, advice="name another with --from-diff"
        ) from None
    drafted = new(opened, identifier, folder or Path(identifier), diff=text, commit=commit or "")
    if as_json:
        console.emit(New.of(drafted))
        return
    console.say(
        f"{escaped(str(drafted.file))}: {drafted.edits} edits drafted, {drafted.hunks} of them hunks; "
        f"{len(drafted.todo)} things to do by hand."
    )
    for one in drafted.todo:
        console.say(f"  [yellow]![/] {escaped(one)}")
    said = (
        "make the files of the diff"
        if drafted.exact
        else "make the files of the diff but for what is left out"
    )
    console.say(f"On that tree the edits {said}.")
    console.say_next((f"test {drafted.file.parent} --on TREE", "tries it on a copy of each tree"))

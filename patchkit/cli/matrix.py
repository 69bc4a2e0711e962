"""``patchkit matrix``: each patch's state on many refs of a repository, without a checkout."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from patchkit.cli import options
from patchkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from patchkit.matrix.answer import Matrix, PatchDiff
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.conflict import Conflict

FORMATS = ("text", "json", "csv", "html")


@click.command("matrix")
@click.argument("words", nargs=-1, metavar="REPO", required=True)
@click.option(
    "--refs",
    "patterns",
    multiple=True,
    metavar="PATTERN...",
    help="Refs (refs/heads/release/*), revisions or ranges (A..B); several may follow, or repeat the option.",
)
@click.option("--format", "style", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the answer to this file."
)
@click.option("--verify", is_flag=True, help="Apply to a temporary copy of each state and verify that.")
@click.option("--jobs", type=click.IntRange(1), help="Processes to use (default: one a core).")
@options.folders
@click.pass_context
def command(
    context: click.Context,
    *,
    words: Sequence[str],
    patterns: Sequence[str],
    style: str,
    as_json: bool,
    output: Path | None,
    verify: bool,
    jobs: int | None,
    folders: Sequence[Path],
) -> None:
    """Say of each patch what it comes to on each ref of REPO, a clone or a bare repository.

    REPO is only read. What was examined is remembered, so an interrupted run goes on where it stopped.
    Exit code 1 if a ref cannot be read or, with --verify, does not verify.
    """
    from patchkit.cli import console
    from patchkit.commands.matrix import matrix
    from patchkit.patchset import load

    style = options.style_of(style, as_json=as_json)
    if not patterns:
        raise UsageError("which refs? Name them with --refs, such as --refs 'refs/heads/release/*'.")
    patches = load.patches(folders)
    diffs: dict[str, tuple[PatchDiff, ...]] = {}
    conflicts: dict[str, tuple[Conflict, ...]] = {}
    is_page = style == "html"
    with console.progress() as watch:
        found = matrix(
            Path(words[0]),
            (*patterns, *words[1:]),
            patches,
            verify=verify,
            jobs=jobs,
            watch=watch,
            diffs=diffs if is_page else None,
            conflicts=conflicts if is_page else None,
        )
    with console.writing(output) as out:
        _answer(found, patches, style, _Opened(diffs, conflicts), out)
    if any(row.error or (row.verified and not row.verified.passed) for row in found.rows):
        context.exit(1)


class _Opened(NamedTuple):
    """What the cells of the page open to, by the state of the files."""

    diffs: Mapping[str, Sequence[PatchDiff]]
    conflicts: Mapping[str, Sequence[Conflict]]


def _answer(matrix: Matrix, patches: PatchSet, style: str, opened: _Opened, out: Console) -> None:
    from patchkit.cli import console
    from patchkit.matrix.formats import table, text

    if style == "text":
        text.show(matrix, out)
        return
    if style == "json":
        written = console.written(matrix)
    elif style == "csv":
        written = table.document(matrix)
    else:
        from patchkit.matrix.formats import page

        today = datetime.now(timezone.utc).date().isoformat()
        written = page.document(matrix, {patch.id: patch.title for patch in patches}, *opened, today)
    out.file.write(f"{written}\n")

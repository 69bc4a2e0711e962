"""``patchkit matrix``: show each patch's state on many refs of a repository, without a checkout."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from patchkit.matrix.survey import SurveyResult
    from patchkit.matrix.tasks import Task
    from patchkit.patchset.select import PatchSet

FORMATS = ("text", "json", "csv", "html")


@options.command(
    "matrix",
    click.argument("words", nargs=-1, metavar="REPO", required=True),
    click.option(
        "--refs",
        "patterns",
        multiple=True,
        metavar="PATTERN...",
        help="At least one ref (refs/heads/release/*, or ** to match slashes too), revisions or ranges (A..B). "
        "Several may follow, and the option may be repeated.",
    ),
    options.styled(FORMATS),
    options.output,
    options.flag("--verify", "Also apply the patches to a temporary copy of each ref and verify it."),
    options.flag("-v --verbose", "A line for each patch, not for each group of patches."),
    click.option("--jobs", type=click.IntRange(1), help="Number of processes (default: one for each core)."),
    options.folders,
)
def command(
    given: options.Target,
    *,
    patterns: Sequence[str],
    style: str,
    output: Path | None,
    verify: bool,
    verbose: bool,
    jobs: int | None,
) -> int:
    """REPO is a clone or a bare repository, and is only read. Results are cached, so an interrupted run continues where
    it stopped. Exit code 1 if a ref cannot be read or, with --verify, fails verification.
    """
    from patchkit.cli.output import writing
    from patchkit.commands.matrix import matrix
    from patchkit.matrix.tasks import CONFLICTS, DIFFS, VERIFY
    from patchkit.patchset import load

    style = given.style(style)
    if not patterns:
        raise UsageError(
            "no refs are named", advice="name them with --refs, such as --refs 'refs/heads/release/*'"
        )
    patches = load.patches(given.folders)
    tasks: list[Task[Any]] = [VERIFY] if verify else []
    tasks += [DIFFS, CONFLICTS] if style == "html" else []
    with console.progress() as watch:
        surveyed = matrix(
            Path(given.words[0]),
            (*patterns, *given.words[1:]),
            patches,
            patches_of=partial(load.patches, given.folders),
            tasks=tasks,
            jobs=jobs,
            watch=watch,
        )
    for note in surveyed.notes:
        click.echo(f"note: {printable(note)}", err=True)
    with writing(output) as out:
        _answer(surveyed, patches, style, out, verbose=verbose)
    rows = surveyed.matrix.rows
    return int(any(row.error or (row.verified and not row.verified.passed) for row in rows))


def _answer(surveyed: SurveyResult, patches: PatchSet, style: str, out: Console, *, verbose: bool) -> None:
    from patchkit.cli.output import put
    from patchkit.matrix.formats import table, text

    matrix = surveyed.matrix
    groups = {} if verbose else {patch.id: patch.group for patch in patches if patch.group}
    if style == "text":
        text.show(matrix, groups, out)
        return
    if style == "json":
        written = console.written(matrix)
    elif style == "csv":
        written = table.document(matrix)
    else:
        from patchkit.matrix.formats import page
        from patchkit.matrix.tasks import CONFLICTS, DIFFS
        from patchkit.patchset.select import GROUPS

        today = datetime.now(timezone.utc).date().isoformat()
        titles = GROUPS | dict.fromkeys(matrix.patches, "") | {patch.id: patch.title for patch in patches}
        diffs, conflicts = surveyed.results(DIFFS), surveyed.results(CONFLICTS)
        written = page.document(matrix, groups, titles, diffs, conflicts, date=today)
    put(written, out)

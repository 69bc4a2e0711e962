"""``patchkit verify``: check that the patches in a tree are complete and fit its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.findings import formats

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict

FORMATS = ("text", "json", *formats.names(), "html")


@options.command(
    "verify",
    options.tree,
    options.installed,
    options.styled(FORMATS),
    options.output,
    click.option(
        "--level",
        type=click.Choice(["code", "import"]),
        default="code",
        show_default=True,
        help="What to check; import also imports the patched modules, in another process, and needs torch.",
    ),
    click.option(
        "--min-confidence",
        type=click.Choice(options.CONFIDENCES),
        default="likely",
        show_default=True,
        help="Fail on audit findings that are at least this certain.",
    ),
    options.baseline,
    options.folders,
)
def command(
    given: options.Target,
    *,
    style: str,
    output: Path | None,
    level: str,
    min_confidence: str,
    baseline: Path | None,
) -> int:
    """Compiles the changed files, looks for every edit, checks imports and calls between backends and workers, compares
    files with what patchkit recorded, and runs the audit. Exit code 1 if a check fails. TREE's code runs only with
    --level import.
    """
    from patchkit.commands.verify import criteria_of, verify

    style = given.style(style)
    patches = given.patches()
    opened = given.open()
    criteria = criteria_of(opened, min_confidence, baseline, importing=level == "import")
    with console.progress() as watch:
        verdict = verify(opened, patches, criteria, watch)
    _answer(_written(verdict, style), output, verdict, opened, given.tail)
    if not verdict.passed and style == "text" and output is None:
        console.say_next((f"status{given.tail}", "shows each patch's state"))
    return int(not verdict.passed)


def _written(verdict: Verdict, style: str) -> str | None:
    """Return the result in a format other than text, or None for text."""
    if style == "text":
        return None
    from patchkit.audit.rules import RULES
    from patchkit.cli.answers.base import states
    from patchkit.cli.answers.verify import Verify
    from patchkit.findings.answer import SectionedReport
    from patchkit.verify import engine, page, text

    if style == "json":
        subject = verdict.subject
        return console.written(
            Verify.of(
                verdict,
                subject,
                tree=subject.tree,
                patches=states(subject.tree, verdict.statuses),
                seconds=round(verdict.seconds, 3),
                checks=verdict.results,
            )
        )
    if style == "html":
        return page.document(verdict)
    tree = verdict.subject.tree
    prefix = f"{tree.package.relative_to(tree.root).as_posix()}/"
    rules = RULES | engine.rules()
    return formats.document(style, SectionedReport("patchkit verify", text.sections(verdict), rules, prefix))


def _answer(
    written: str | None, output: Path | None, verdict: Verdict, tree: CheckoutTree, tail: str
) -> None:
    from patchkit.cli.output import put, writing
    from patchkit.verify import text

    with writing(output) as out:
        if written is None:
            text.show(verdict, out, console.place(tree), tail)
        else:
            put(written, out)

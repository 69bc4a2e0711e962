"""``patchkit audit``: find code that fails without the CPU mirror, and backends that can run without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.findings import formats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.audit.optout import OptOut
    from patchkit.findings.report import Report
    from patchkit.tree.tree import CheckoutTree

FORMATS = ("text", "json", *formats.names())


@options.command(
    "audit",
    options.tree,
    options.installed,
    options.styled(FORMATS),
    options.flag("--explain", "Show why each value can be None, and a guard to add."),
    click.option(
        "--min-confidence",
        type=click.Choice(options.CONFIDENCES),
        help="Show only findings that are at least this certain (default: show all, fail on likely ones).",
    ),
    options.baseline,
    options.flag(
        "--allow-unread", "Report folders that cannot be read, such as links, as notes instead of failing."
    ),
    options.flag(
        "--suggest-opt-out", "Also show for each attention backend whether it can run without the mirror."
    ),
)
def command(
    given: options.Target,
    *,
    style: str,
    explain: bool,
    min_confidence: str | None,
    baseline: Path | None,
    allow_unread: bool,
    suggest_opt_out: bool,
) -> int:
    """The CPU mirror (seq_lens_cpu) is the host copy of a batch's sequence lengths. Patches make it optional, and code
    that reads it when it is None fails. TREE is only read; none of its code runs. Exit code 1 if there are findings
    that are at least likely.
    """
    from patchkit.commands.audit import audit
    from patchkit.findings import baseline as baselines
    from patchkit.findings.finding import Confidence
    from patchkit.patchset import configuration

    style = given.style(style)
    opened = given.open()
    baseline = baseline or configuration.baseline_of(opened.fork)
    baseline_findings = baselines.load(baseline) if baseline is not None else ()
    with console.progress() as watch:
        result = audit(opened, baseline_findings, allow_unread=allow_unread, watch=watch)
    judged = result.at_least(Confidence(min_confidence or "likely"))
    # Other tools treat every finding in these formats as a failure.
    report = result if min_confidence is None and style in ("text", "json") else judged
    entries = _opt_outs(opened) if suggest_opt_out else None
    _answer(report, entries, opened, style, explain=explain)
    return int(bool(judged.findings))


def _answer(
    report: Report, entries: Sequence[OptOut] | None, tree: CheckoutTree, style: str, *, explain: bool
) -> None:
    from msgspec import UNSET

    from patchkit.audit import text
    from patchkit.audit.rules import RULES
    from patchkit.cli.answers.audit import Audit
    from patchkit.cli.output import Stdout, put
    from patchkit.findings.answer import Section, SectionedReport
    from patchkit.lines import decoded_lines

    if style == "json":
        console.emit(
            Audit.of(
                report,
                seconds=round(report.seconds, 3),
                baseline=len(report.known),
                opt_out=UNSET if entries is None else tuple(entries),
            )
        )
    elif style == "text":
        out = Stdout(soft_wrap=True)
        text.show(report, out, lambda file: decoded_lines(tree.read(file) or b""), explain)
        text.show_opt_outs(entries or (), out)
    else:
        prefix = f"{tree.package.relative_to(tree.root).as_posix()}/"
        section = Section("patchkit audit", f"{report.files_scanned} files", report)
        put(formats.document(style, SectionedReport("patchkit audit", (section,), RULES, prefix)))


def _opt_outs(tree: CheckoutTree) -> tuple[OptOut, ...]:
    from patchkit.audit.optout import suggest
    from patchkit.audit.runners import AuditedProgram
    from patchkit.tree.index import read_sources

    return suggest(AuditedProgram(read_sources(tree)))

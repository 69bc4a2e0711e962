"""Print an audit: findings by file with their source lines, and a summary."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from patchkit.findings.finding import Confidence
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from patchkit.audit.optout import OptOut
    from patchkit.findings.finding import Finding
    from patchkit.findings.report import Report

_STYLES = {Confidence.CERTAIN: "bold red", Confidence.LIKELY: "yellow", Confidence.POSSIBLE: "cyan"}


def show(
    report: Report, console: Console, source: Callable[[str], Sequence[str]], explain: bool = False
) -> None:
    """Print the report; ``source`` returns a file's lines, ``explain`` adds each finding's path and guard."""
    for file, findings in groupby(report.findings, key=lambda finding: finding.file):
        console.print(f"[bold]{escaped(file)}[/bold]")
        lines = source(file)
        for finding in findings:
            _show(finding, console, lines, explain)
    for note in report.notes:
        console.print(f"note: {escaped(note)}", style="dim")
    console.print(_summary(report))


def _show(finding: Finding, console: Console, lines: Sequence[str], explain: bool) -> None:
    style = _STYLES[finding.confidence]
    console.print(
        f"  {finding.line:>5}  [{style}]{finding.confidence.value}[/{style}] {finding.rule} "
        f"{escaped(finding.message)} [dim]({escaped(finding.function)})[/dim]"
    )
    if finding.line <= len(lines):
        console.print(f"         {escaped(lines[finding.line - 1].strip())}", style="dim", highlight=False)
    if explain:
        for step in finding.path:
            console.print(f"           {escaped(f'{step.file}:{step.line}: {step.text}')}", highlight=False)
        console.print(f"           {escaped(finding.guard)}", style="green", highlight=False)


def _summary(report: Report) -> str:
    counts = Counter(finding.confidence for finding in report.findings)
    parts = [f"{counts[confidence]} {confidence.value}" for confidence in Confidence if counts[confidence]]
    summary = f"{counted(len(report.findings), 'finding')} ({', '.join(parts)})" if parts else "No findings"
    extras = [
        f"{count} {what}"
        for count, what in ((len(report.suppressed), "suppressed"), (len(report.known), "in the baseline"))
        if count
    ]
    suffix = f"; {', '.join(extras)}" if extras else ""
    return f"{summary} in {report.files_scanned} files, {report.seconds:.1f} s{suffix}."


def show_opt_outs(entries: Sequence[OptOut], console: Console) -> None:
    """Print for each backend whether it could opt out, and the reads that prevent it."""
    if entries:
        console.print("\nAttention backends and the CPU mirror:")
    for entry in entries:
        if entry.opted_out:
            state = (
                "[green]opted out[/green]"
                if entry.can_opt_out
                else "[red]opted out, but reads the mirror[/red]"
            )
        else:
            state = "[green]can opt out[/green]" if entry.can_opt_out else "[yellow]cannot opt out[/yellow]"
        place = escaped(f"{entry.file}:{entry.line}")
        console.print(f"[bold]{escaped(entry.backend)}[/bold]: {state} [dim]({place})[/dim]", highlight=False)
        for finding in entry.in_the_way:
            where = escaped(f"{finding.file}:{finding.line}: {finding.function}: {finding.expression}")
            console.print(f"    {where}", highlight=False)

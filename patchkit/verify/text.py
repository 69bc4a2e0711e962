"""Print a verdict: one line per check with its findings below it, and a summary of all; or a section per check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.answer import Section
from patchkit.findings.printable import escaped, excerpt
from patchkit.findings.report import Report
from patchkit.findings.suggestion import completed
from patchkit.verify.result import CheckState

if TYPE_CHECKING:
    from rich.console import Console

    from patchkit.verify.result import Verdict

_MARKS = {
    CheckState.PASSED: ("ok", "green"),
    CheckState.FAILED: ("FAILED", "bold red"),
    CheckState.SKIPPED: ("-", "dim"),
}


def show(verdict: Verdict, console: Console, place: str, tail: str) -> None:
    """Print the verdict; ``place`` names the tree, ``tail`` is appended to the commands that findings name."""
    console.print(escaped(place), highlight=False)
    console.print()
    width = max(len(result.title) for result in verdict.results)
    for result in verdict.results:
        mark, style = _MARKS[result.outcome]
        text = f"{escaped(result.title.ljust(width))}  [dim]{escaped(result.summary)}[/]"
        console.print(f"  [{style}]{mark.ljust(6)}[/]  {text}", highlight=False)
        for finding in result.findings:
            where = f"{finding.file}:{finding.line}"
            console.print(f"          {escaped(f'{where} {finding.message}')}", highlight=False)
            for line in excerpt(finding.expression, " " * 10) if "\n" in finding.expression else ():
                console.print(escaped(line), highlight=False)
            console.print(f"          [dim]{escaped(completed(finding.guard, tail))}[/]", highlight=False)
        for note in result.notes:
            console.print(f"          [dim]note: {escaped(completed(note, tail))}[/]", highlight=False)
    console.print()
    console.print(summary(verdict), highlight=False)


def sections(verdict: Verdict) -> tuple[Section, ...]:
    """Return a verdict as output formats take it: one section a check."""
    return tuple(
        Section(
            f"patchkit verify {result.check}",
            result.title,
            Report(result.findings, 0, result.seconds, notes=result.notes),
            result.summary if result.outcome is CheckState.SKIPPED else "",
        )
        for result in verdict.results
    )


def summary(verdict: Verdict) -> str:
    """Return how many checks passed, failed and were left out, as markup."""
    failed = [result for result in verdict.results if result.outcome is CheckState.FAILED]
    left_out = sum(result.outcome is CheckState.SKIPPED for result in verdict.results)
    rest = f"{f'; {left_out} skipped' if left_out else ''} ({verdict.seconds:.1f} s)."
    made = len(verdict.results) - left_out
    if failed:
        return f"[bold red]{len(failed)} of {made} checks failed[/]{rest}"
    return f"[green]All {made} checks passed[/]{rest}"

"""What an audit prints."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import asdict, replace
from rich.console import Console

from patchkit.audit.optout import OptOut
from patchkit.audit.text import show, show_opt_outs
from patchkit.findings.finding import Confidence, Finding, Step, Suppressed
from patchkit.findings.report import Report

FINDING = Finding(
    rule="PK104",
    file="srt/a.py",
    line=2,
    function="total",
    expression="batch.seq_lens_sum + 1",
    message="arithmetic [with] a mirror",
    confidence=Confidence.LIKELY,
    path=(Step("srt/b.py", 7, "it is None"), Step("srt/a.py", 2, "passed on")),
    guard="test it 7",
)
OTHER = replace(FINDING, file="srt/z.py", line=9, confidence=Confidence.CERTAIN, function="other")
LINES = {"srt/a.py": ["def total(batch):", "    return batch.seq_lens_sum + 1"], "srt/z.py": ["", ""]}


def printed(report: Report, explain: bool = False) -> list[str]:
    out = io.StringIO()
    show(report, Console(file=out, width=200), LINES.__getitem__, *([True] if explain else []))
    return out.getvalue().splitlines()


def test_findings_are_listed_below_their_files_with_their_source() -> None:
    report = Report((FINDING, replace(FINDING, line=1), OTHER), 3, 1.25, (), ("one is [not] read",))
    assert printed(report) == [
        "srt/a.py",
        "      2  likely PK104 arithmetic [with] a mirror (total)",
        "         return batch.seq_lens_sum + 1",
        "      1  likely PK104 arithmetic [with] a mirror (total)",
        "         def total(batch):",
        "srt/z.py",
        "      9  certain PK104 arithmetic [with] a mirror (other)",
        "note: one is [not] read",
        "3 findings (1 certain, 2 likely) in 3 files, 1.2 s.",
    ]


def test_an_explained_finding_has_its_path_and_its_guard() -> None:
    assert printed(Report((FINDING,), 1, 0.0), explain=True)[3:] == [
        "           srt/b.py:7: it is None",
        "           srt/a.py:2: passed on",
        "           test it 7",
        "1 finding (1 likely) in 1 files, 0.0 s.",
    ]


@pytest.mark.parametrize(
    ("suppressed", "known", "said"),
    [
        (0, 0, "No findings in 2 files, 0.0 s."),
        (2, 0, "No findings in 2 files, 0.0 s; 2 suppressed."),
        (0, 3, "No findings in 2 files, 0.0 s; 3 in the baseline."),
        (1, 1, "No findings in 2 files, 0.0 s; 1 suppressed, 1 in the baseline."),
    ],
)
def test_the_summary_counts_what_is_not_shown(suppressed: int, known: int, said: str) -> None:
    hidden = Suppressed(**asdict(FINDING), reason="prefill only")
    report = Report((), 2, 0.0, suppressed=(hidden,) * suppressed, known=(FINDING,) * known)
    assert printed(report) == [said]


def test_colours_tell_findings_source_and_notes_apart_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system="standard")
    show(Report((OTHER, replace(FINDING, line=1)), 2, 0.0, (), ("one 7",)), console, LINES.__getitem__, True)
    text = out.getvalue()
    for styled in (
        "\x1b[1msrt/z.py\x1b[0m\n",
        "\x1b[1;31mcertain\x1b[0m",
        "\x1b[33mlikely\x1b[0m",
        "\x1b[2m         def total(batch):\x1b[0m\n",
        "           srt/b.py:7: it is None\n",
        "\x1b[32m           test it 7\x1b[0m\n",
        "\x1b[2mnote: one ",
    ):
        assert styled in text, styled


def test_each_backend_is_listed_with_the_reads_that_prevent_its_opt_out() -> None:
    entries = [
        OptOut("Fast", "srt/fast.py", 3, True, ()),
        OptOut("Wrong", "srt/wrong.py", 4, True, (FINDING,)),
        OptOut("Ready", "srt/ready.py", 5, False, ()),
        OptOut("Slow", "srt/slow.py", 6, False, (FINDING,)),
    ]
    out = io.StringIO()
    show_opt_outs(entries, Console(file=out, width=200))
    read = "    srt/a.py:2: total: batch.seq_lens_sum + 1"
    assert out.getvalue().splitlines() == [
        "",
        "Attention backends and the CPU mirror:",
        "Fast: opted out (srt/fast.py:3)",
        "Wrong: opted out, but reads the mirror (srt/wrong.py:4)",
        read,
        "Ready: can opt out (srt/ready.py:5)",
        "Slow: cannot opt out (srt/slow.py:6)",
        read,
    ]


def test_a_tree_without_backends_has_no_list_of_them() -> None:
    out = io.StringIO()
    show_opt_outs([], Console(file=out, width=200))
    assert out.getvalue() == ""

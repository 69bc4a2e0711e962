from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import msgspec
import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif
from rich.console import Console
from support.audited import program

from patchkit.audit import text
from patchkit.audit.engine import audit
from patchkit.audit.rules import RULES
from patchkit.cli.answers.audit import Audit
from patchkit.findings import baseline
from patchkit.findings.answer import Section, SectionedReport
from patchkit.findings.finding import Confidence, Finding
from patchkit.findings.formats import github, junit, sarif
from patchkit.findings.printable import printable
from patchkit.findings.report import Report

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
# place: srt/managers/example.py
from sglang.srt.managers.lengths import longest


def plan(batch):
    return longest(batch.seq_lens_cpu)


def total(batch):
    return batch.seq_lens_sum + 1  # patchkit: mirror-present (only prefill batches come here)
# place: srt/managers/lengths.py
def longest(values):
    return values.max()
"""


def found() -> Report:
    report = audit(program(SOURCE))
    assert len(report.findings) == 1
    assert len(report.suppressed) == 1
    return report


def answer(report: Report, prefix: str = "") -> SectionedReport:
    return SectionedReport("patchkit audit", (Section("patchkit audit", "1 file", report),), RULES, prefix)


def log_of(report: Report, prefix: str = "") -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.document(answer(report, prefix)))
    Sarif.model_validate(log)
    return log


def test_sarif_satisfies_the_schema_and_contains_the_path() -> None:
    report = found()
    log = log_of(report, "python/sglang/")
    result, suppressed = log["runs"][0]["results"]
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "PK101"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "python/sglang/srt/managers/lengths.py"
    assert place["region"]["startLine"] == 2
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert any("passed to longest()" in step["location"]["message"]["text"] for step in steps)
    assert suppressed["suppressions"][0]["justification"] == "only prefill batches come here"


def test_sarif_of_a_clean_tree_satisfies_the_schema() -> None:
    log = log_of(audit(program("")))
    assert log["runs"][0]["results"] == []


def test_sarif_marks_what_the_baseline_has() -> None:
    report = found()
    log = log_of(report.against(report.findings))
    assert log["runs"][0]["results"][0]["baselineState"] == "unchanged"


def test_sarif_fingerprints_survive_a_shifted_line() -> None:
    shifted = audit(program(SOURCE.replace("def longest", "\n\n\ndef longest")))
    prints = [log_of(report)["runs"][0]["results"][0]["partialFingerprints"] for report in (found(), shifted)]
    assert prints[0] == prints[1]


def test_junit_has_a_failure_per_finding_and_a_skip_per_suppression() -> None:
    suite = ElementTree.fromstring(junit.document(answer(found()))).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "values" in (failure.get("message") or "")


def test_junit_of_a_clean_tree_has_one_passed_test() -> None:
    suite = ElementTree.fromstring(junit.document(answer(audit(program(""))))).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


def test_github_commands_name_the_file_and_escape_what_would_end_them() -> None:
    line = github.document(answer(found(), "python/sglang/"))
    assert line.startswith("::error file=python/sglang/srt/managers/lengths.py,line=2,title=PK101 longest::")
    report = Report((), 1, 0.0, notes=("50% done\nnext",))
    assert github.document(answer(report)) == "::notice::50%25 done%0Anext"


def test_text_shows_the_source_line_and_explains_on_request() -> None:
    report = found()
    output = []
    for explain in (False, True):
        page = io.StringIO()
        console = Console(file=page, width=200, soft_wrap=True)
        text.show(report, console, lambda _file: ["def longest(values):", "    return values.max()"], explain)
        output.append(page.getvalue())
    assert "return values.max()" in output[0]
    assert "1 finding (1 certain)" in output[0]
    assert "1 suppressed" in output[0]
    assert "passed to longest() as values" not in output[0]
    assert "passed to longest() as values" in output[1]


def test_the_json_contract_has_its_keys_and_reads_back() -> None:
    report = found()
    data = json.loads(json.dumps(msgspec.to_builtins(Audit.of(report, baseline=len(report.known)))))
    assert {"findings", "files_scanned", "seconds"} <= data.keys()
    keys = {"rule", "file", "line", "function", "expression", "message", "confidence", "path", "guard"}
    assert data["findings"][0].keys() == keys
    assert msgspec.convert(data["findings"], tuple[Finding, ...]) == report.findings


def hostile() -> SectionedReport:
    file = "srt/own model\n::error::x\x1b[31m.py"
    finding = Finding("PK101", file, 1, "f\x07", "e\x00", "m\x1b]0;x", Confidence.LIKELY, (), "g")
    return answer(Report((finding,), 1, 0.0))


def test_names_that_hold_control_characters_break_no_document() -> None:
    suite = ElementTree.fromstring(junit.document(hostile())).find("testsuite")
    assert suite is not None
    case = suite.find("testcase")
    assert case is not None
    assert case.get("classname") == "srt/own model\\n::error::x\\x1b[31m.py"
    log = json.loads(sarif.document(hostile()))
    Sarif.model_validate(log)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "srt/own%20model%0A%3A%3Aerror%3A%3Ax%1B%5B31m.py"


def test_a_name_with_a_newline_starts_no_workflow_command() -> None:
    document = github.document(hostile())
    assert len(document.splitlines()) == 1
    written = io.StringIO()
    text.show(
        hostile().sections[0].report, Console(file=written, width=200, soft_wrap=True), lambda _file: []
    )
    output = written.getvalue()
    assert not any(line.lstrip().startswith("::error") for line in output.splitlines())
    assert "\x1b[31m" not in output


def test_a_failing_finding_of_any_confidence_is_an_error_in_github_annotations() -> None:
    assert github.document(hostile()).startswith("::error file=")


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u202e", "\u2066"])
def test_a_change_of_text_direction_is_spelled(mark: str) -> None:
    assert printable(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


def test_half_characters_are_spelled_in_sarif_and_kept_in_a_baseline(tmp_path: Path) -> None:
    report = found()
    halves = {
        "file": "srt/\udcff.py",
        "function": "\udcff",
        "expression": "'\ud800' + '😀' + '\\\\udcff'",
        "message": "\udcff",
    }
    odd = msgspec.structs.replace(report.findings[0], **halves)
    log = sarif.document(answer(msgspec.structs.replace(report, findings=(odd,))))
    (result, _) = msgspec.json.decode(log)["runs"][0]["results"]
    assert result["message"]["text"].startswith("\\udcff. ")
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "\\udcff"
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"findings": [msgspec.to_builtins(odd)]}))
    assert baseline.load(path) == (odd,)

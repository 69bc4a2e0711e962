from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.audited import HERE, MemoryTree, prelude, program

from patchkit.audit import solver
from patchkit.audit.engine import audit
from patchkit.errors import TreeError, UsageError
from patchkit.findings.baseline import load
from patchkit.findings.finding import Confidence

if TYPE_CHECKING:
    from pathlib import Path

READ = "def total(batch):\n    return batch.seq_lens_sum + 1"


PRESENT = "# patchkit: mirror-present"


@pytest.mark.parametrize(
    ("source", "line", "reasons", "is_noted"),
    [
        pytest.param(f"{READ}  {PRESENT} (prefill only)", 0, ["prefill only"], False, id="on the line"),
        pytest.param(
            READ.replace("    return", f"    {PRESENT} (why)\n    return"),
            0,
            ["why"],
            False,
            id="alone above",
        ),
        pytest.param(f"{READ}  {PRESENT}", 2, [], True, id="no reason"),
        pytest.param(f"{READ}  {PRESENT} ( )", 2, [], True, id="an empty reason"),
        pytest.param(f"{READ}  # the mirror is present here", 2, [], False, id="another comment"),
        pytest.param(
            READ.replace("    return", f"    extra = 1  {PRESENT} (no)\n    return"),
            3,
            [],
            False,
            id="behind code",
        ),
        pytest.param(f"# one\x0ctwo\n{READ}", 3, [], False, id="a form feed above"),
        pytest.param(
            f"# one\x0ctwo\n{READ}  {PRESENT} (why)", 0, ["why"], False, id="a form feed above the comment"
        ),
    ],
)
def test_a_comment_with_a_reason_suppresses_its_line_or_the_one_below_it(
    source: str, line: int, reasons: list[str], is_noted: bool
) -> None:
    report = audit(program(f"{source}\n"))
    assert [finding.line for finding in report.findings] == [line] * bool(line)
    assert [entry.reason for entry in report.suppressed] == reasons
    assert any("needs a reason" in note for note in report.notes) is is_noted


def test_the_baseline_absorbs_as_many_findings_as_it_has() -> None:
    twice = f"{READ}\n\n\ndef other(batch):\n    return batch.seq_lens_sum + 1\n"
    known = audit(program(READ)).findings
    report = audit(program(twice)).against(known)
    assert [finding.function for finding in report.findings] == ["other"]
    assert len(report.known) == 1


def test_a_baseline_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text('{"findings": [{"rule": "PK101"}]}')
    with pytest.raises(UsageError, match="not a baseline"):
        load(path)


def test_a_minimum_confidence_can_be_set() -> None:
    report = audit(
        program("# place: srt/models/fork.py\ndef f(forward_batch):\n    len(forward_batch.seq_lens_cpu)\n")
    )
    assert [finding.confidence for finding in report.findings] == [Confidence.POSSIBLE]
    assert report.at_least(Confidence.LIKELY).findings == ()
    assert report.at_least(Confidence.POSSIBLE) == report


def test_a_tree_without_the_flag_has_no_findings_and_a_note() -> None:
    files = {name: text.replace("needs_cpu_seq_lens", "keeps") for name, text in prelude().items()}
    report = audit(MemoryTree({**files, "srt/managers/example.py": f"{READ}\n"}))
    assert report.findings == ()
    assert any("every backend keeps the mirror" in note for note in report.notes)


def test_a_tree_that_has_the_flag_and_the_runtime_but_no_decision_has_nothing_to_report() -> None:
    files = {name: text.replace("decide_needs_cpu_seq_lens", "decide") for name, text in prelude().items()}
    source = f"from patchkit.runtime import api_1 as patchkit_api\n\n\n{READ}\n"
    assert audit(MemoryTree({**files, "srt/managers/example.py": source})).findings == ()


def test_a_file_that_does_not_parse_is_noted_and_the_rest_is_audited() -> None:
    files = {
        **prelude(),
        "srt/managers/broken.py": "seq_lens_cpu = (\n",
        "srt/managers/example.py": f"{READ}\n",
    }
    report = audit(MemoryTree(files))
    assert len(report.findings) == 1
    assert any("srt/managers/broken.py does not parse" in note for note in report.notes)


def test_the_path_leads_from_the_batch_to_the_use() -> None:
    source = """\
def plan(batch):
    return outer(batch.seq_lens_cpu)


def outer(values):
    return inner(values)


def inner(values):
    return max(values)
"""
    (finding,) = audit(program(source)).findings
    assert [step.line for step in finding.path] == [2, 2, 6]
    assert "seq_lens_cpu is None" in finding.path[0].text
    assert "passed to inner() as values" in finding.path[-1].text
    assert "if values is not None" in finding.guard


def test_the_path_of_a_batch_that_is_passed_on_names_the_call() -> None:
    source = """\
def plan(batch):
    if batch.seq_lens_sum is None:
        batch.seq_lens_sum = 0
    return inner(batch)


def inner(batch):
    return max(batch.seq_lens_cpu)
"""
    (finding,) = audit(program(source)).findings
    assert [step.line for step in finding.path] == [1, 4]
    assert "passed to inner() as batch" in finding.path[-1].text


def test_an_unset_slot_is_explained_by_the_configuration() -> None:
    source = (HERE / "corpus" / "breaks" / "unset_backend_slot.py").read_text()
    messages = [finding.message for finding in audit(program(source)).findings if finding.rule == "PK111"]
    assert messages
    assert all("is None if the configuration leaves the slot unset" in message for message in messages)


def test_an_audit_that_does_not_end_is_an_error_that_names_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solver, "_SECONDS", -1)
    with pytest.raises(TreeError, match=r"srt/managers/example.py: the audit of total did not end"):
        audit(MemoryTree({**prelude(), "srt/managers/example.py": f"{READ}\n"}))


def test_the_order_of_hashes_does_not_matter() -> None:
    script = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from support.audited import HERE, program\nfrom patchkit.audit.engine import audit\n"
        "for path in sorted((HERE / 'corpus' / 'breaks').glob('*.py')):\n"
        "    print(audit(program(path.read_text())).findings)\n"
    )
    command = [sys.executable, "-c", script, str(HERE.parent)]
    outputs = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "PK101" in outputs.pop()

"""What a finding says, how sure it is, and what stands for folders that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.audited import MemoryTree, prelude, program

from patchkit import cache
from patchkit.audit import engine
from patchkit.audit.engine import audit, unread_noted
from patchkit.findings.finding import Confidence, Finding

if TYPE_CHECKING:
    from patchkit.findings.report import Report

BACKENDS = """\
# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False
    def init_forward_metadata(self, forward_batch): {body}
"""


def findings(source: str) -> list[Finding]:
    return list(audit(program(source)).findings)


def of_backend(body: str) -> Finding:
    (finding,) = findings(BACKENDS.format(body=body))
    return finding


@pytest.mark.parametrize(
    ("source", "confidence"),
    [
        # Nothing tests the step, so that it may be another.
        ("def plan(batch): batch.seq_lens_cpu.max()", "likely"),
        ("def plan(batch):\n    if batch.forward_mode.is_decode(): batch.seq_lens_cpu.max()", "certain"),
        ("def plan(batch):\n    if not batch.forward_mode.is_idle(): batch.seq_lens_cpu.max()", "certain"),
        (
            "def plan(batch):\n    batch.forward_mode = ForwardMode.DECODE\n    batch.seq_lens_cpu.max()",
            "certain",
        ),
        (
            "def plan(batch, flag):\n    if flag: batch.seq_lens_cpu = [1]\n"
            "    if batch.forward_mode.is_decode(): batch.seq_lens_cpu.max()",
            "likely",
        ),
        # A batch of another step may have its mirror.
        (
            "def plan(batch):\n    batch.forward_mode = ForwardMode.EXTEND\n    batch.seq_lens_cpu.max()",
            "likely",
        ),
        ("def plan(batch): use(batch)\ndef use(batch): batch.seq_lens_cpu.max()", "certain"),
        ("# place: srt/layers/a.py\ndef plan(batch): batch.seq_lens_cpu.max()", "possible"),
        (
            "# place: srt/models/a.py\ndef plan(batch):\n"
            "    if batch.forward_mode.is_decode(): batch.seq_lens_cpu.max()",
            "possible",
        ),
        (BACKENDS.format(body="forward_batch.seq_lens_cpu.max()"), "likely"),
    ],
)
def test_how_sure_a_finding_is(source: str, confidence: str) -> None:
    assert [finding.confidence.value for finding in findings(source)] == [confidence]


def test_a_finding_names_the_step_and_the_class_that_inherits_the_code() -> None:
    own = of_backend("forward_batch.seq_lens_cpu.max()").message
    assert own.endswith("`forward_batch.seq_lens_cpu` is None in a decode step without the mirror")
    heir = "class HeirBackend(FastBackend):\n    def other(self): return 'seq_lens_cpu'\n"
    source = BACKENDS.format(body="self.plan(forward_batch)").replace("FastBackend", "BaseBackend") + (
        "    def plan(self, forward_batch): forward_batch.seq_lens_cpu.max()\n"
    )
    assert findings(source)[0].message.endswith("` is None in a decode step without the mirror")
    kept = source.replace("needs_cpu_seq_lens = False", "needs_cpu_seq_lens = True")
    inherited = findings(
        kept + heir.replace("FastBackend", "BaseBackend") + "    needs_cpu_seq_lens = False\n"
    )
    assert [finding.message.partition(" without ")[2] for finding in inherited] == [
        "the mirror, in code that HeirBackend inherits"
    ]


def test_a_backend_that_inherits_the_opt_out_is_told_how_to_keep_the_mirror() -> None:
    source = BACKENDS.format(body="pass") + (
        "class HeirBackend(FastBackend):\n"
        "    def init_forward_metadata(self, forward_batch): forward_batch.seq_lens_cpu.max()\n"
    )
    (finding,) = findings(source)
    assert finding.guard.endswith("; or `needs_cpu_seq_lens = True` on HeirBackend keeps the mirror for it")
    assert "; or " not in of_backend("forward_batch.seq_lens_cpu.max()").guard


def test_a_verifys_lists_are_possible_findings_of_what_a_backend_hands_on() -> None:
    body = "return forward_batch.forward_mode.is_target_verify() and bound(forward_batch.extend_seq_lens_cpu)"
    helper = "# place: srt/layers/bounds.py\n# seq_lens_cpu\ndef bound(lens): max(lens)\n"
    source = BACKENDS.format(body=body).replace(
        "class Fast", "from sglang.srt.layers.bounds import bound\nclass Fast"
    )
    (finding,) = findings(source + helper)
    assert (finding.file, finding.confidence.value) == ("srt/layers/bounds.py", "possible")
    assert finding.message.endswith("`lens` is not set in a target verify step")


@pytest.mark.parametrize(
    ("expression", "subject"),
    [
        ("batch.seq_lens_cpu.max()", "batch.seq_lens_cpu"),
        ("getattr(batch.seq_lens_cpu, 'shape')", "batch.seq_lens_cpu"),
        ("batch.seq_lens_cpu[0]", "batch.seq_lens_cpu"),
        ("1 + batch.seq_lens_sum", "batch.seq_lens_sum"),
        ("batch.seq_lens_sum + 1", "batch.seq_lens_sum"),
        ("-batch.seq_lens_sum", "batch.seq_lens_sum"),
        ("batch.seq_lens_sum > 1", "batch.seq_lens_sum"),
        ("1 < batch.seq_lens_sum", "batch.seq_lens_sum"),
        ("1 in batch.seq_lens_cpu", "batch.seq_lens_cpu"),
        ("max(1, batch.seq_lens_sum)", "batch.seq_lens_sum"),
        ("torch.tensor(batch.seq_lens_cpu)", "batch.seq_lens_cpu"),
        ("flag.copy_(batch.seq_lens_cpu)", "batch.seq_lens_cpu"),
        ("flag[: batch.seq_lens_sum]", "batch.seq_lens_sum"),
        ("[*batch.seq_lens_cpu]", "*batch.seq_lens_cpu"),
    ],
)
def test_a_message_names_the_part_that_is_none(expression: str, subject: str) -> None:
    (finding,) = findings(f"def plan(batch, flag): return {expression}")
    assert f": `{subject}` is None in a decode step" in finding.message


@pytest.mark.parametrize("length", [120, 121])
def test_an_expression_of_more_than_120_characters_is_shortened(length: int) -> None:
    whole = "batch.seq_lens_sum + ".ljust(length, "1")
    (finding,) = findings(f"def plan(batch): return {whole}")
    assert finding.expression == (whole if length == 120 else f"{whole[:117]}...")


def test_findings_are_in_the_order_of_files_and_lines() -> None:
    source = "# place: srt/managers/{}.py\ndef plan(batch): batch.seq_lens_cpu[batch.seq_lens_sum + 1]\n"
    found = findings(source.format("b") + source.format("a"))
    assert [(finding.file[-4:], finding.rule) for finding in found] == [
        ("a.py", "PK102"),
        ("a.py", "PK104"),
        ("b.py", "PK102"),
        ("b.py", "PK104"),
    ]


def test_of_several_ways_to_a_use_the_shortest_is_told() -> None:
    source = """\
def short(batch): use(batch.seq_lens_cpu)
def long(batch): between(batch.seq_lens_cpu)
def between(lens): use(lens)
def use(lens): lens.max()
"""
    (finding,) = findings(source)
    assert [step.line for step in finding.path] == [1, 1]


class _Unread(MemoryTree):
    def unread(self, folder: str) -> list[str]:
        return [f"{folder}/linked"]


def test_a_folder_that_cannot_be_read_is_a_finding_before_the_others_or_a_note() -> None:
    tree = _Unread({**prelude(), "srt/managers/a.py": "def plan(batch): batch.seq_lens_cpu.max()\n"})
    report = audit(tree)
    unread, other = report.findings
    assert (unread.rule, unread.file, unread.line, unread.confidence) == (
        "PK100",
        "srt/linked",
        1,
        Confidence.CERTAIN,
    )
    assert unread.path == ()
    assert unread.message == "a linked or unreadable folder, which was not audited"
    assert unread.guard.endswith("or ignore it with --allow-unread")
    noted = unread_noted(report)
    assert noted.findings == (other,)
    assert noted.notes == ("srt/linked is a linked or unreadable folder, which was not audited",)


def test_an_audit_that_is_kept_is_the_same_and_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], Report] = {}
    monkeypatch.setattr(cache, "load", lambda folder, name, kind: kept.get((folder, name)))
    monkeypatch.setattr(cache, "save", lambda folder, name, report: kept.update({(folder, name): report}))
    tree = program("def plan(batch): batch.seq_lens_cpu.max()\n")
    seen: list[tuple[str, int, int]] = []
    first = engine.audit_cached(tree, lambda *progress: seen.append(progress))
    assert len(kept) == 1
    assert [one[1] for one in seen] == list(range(seen[0][2]))
    assert all(one[0].startswith("functions: ") for one in seen)
    calls = len(seen)
    again = engine.audit_cached(tree, lambda *progress: seen.append(progress))
    assert again.findings == first.findings == audit(tree).findings
    assert len(seen) == calls
    other = program("def plan(batch): batch.seq_lens_cpu.min()\n")
    assert engine.audit_cached(other).findings != first.findings

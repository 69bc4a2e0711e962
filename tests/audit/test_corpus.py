from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.audited import HERE, expected, program

from patchkit.audit.engine import audit

if TYPE_CHECKING:
    from pathlib import Path

BREAKS = sorted((HERE / "corpus" / "breaks").glob("*.py"))
CLEAN = sorted((HERE / "corpus" / "clean").glob("*.py"))


def test_the_corpus_is_large_and_half_of_it_is_clean() -> None:
    assert len(BREAKS) + len(CLEAN) >= 60
    assert abs(len(BREAKS) - len(CLEAN)) <= 6


@pytest.mark.parametrize("path", BREAKS, ids=lambda path: path.stem)
def test_every_marked_line_is_reported_and_no_other(path: Path) -> None:
    source = path.read_text()
    marks = expected(source)
    assert marks
    findings = audit(program(source)).findings
    assert {(f.file, f.line, f.rule) for f in findings} == {(m.file, m.line, m.rule) for m in marks}
    sure = {(f.file, f.line): f.confidence.value for f in findings}
    for mark in marks:
        assert mark.confidence in (None, sure[(mark.file, mark.line)])


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.stem)
def test_a_clean_program_has_no_finding(path: Path) -> None:
    source = path.read_text()
    assert not expected(source)
    report = audit(program(source))
    assert [(f.file, f.line, f.rule, f.message) for f in report.findings] == []
    assert report.files_scanned > 5


def test_the_prelude_alone_is_clean() -> None:
    assert audit(program("")).findings == ()


@pytest.mark.parametrize(
    ("stem", "certainty"),
    [("attribute_on_the_mirror", "is"), ("loop_that_drops_its_guard", "can be")],
)
def test_a_message_says_whether_a_mirror_is_none_or_can_be(stem: str, certainty: str) -> None:
    (path,) = (path for path in BREAKS if path.stem == stem)
    messages = [finding.message for finding in audit(program(path.read_text())).findings]
    assert messages
    assert all(f"` {certainty} None in a " in message for message in messages), messages

"""What the audit advises at each kind of use."""

from __future__ import annotations

import pytest

from patchkit.audit.rules import RULES, Use, guard

LENS, SUM = "batch.seq_lens_cpu", "batch.seq_lens_sum"


@pytest.mark.parametrize(
    ("use", "value", "advice"),
    [
        (Use.SLOT, "backend", "skip unset slots: test `backend is not None` before reading the flag"),
        (
            Use.STALE,
            "self.buffers.seq_lens_cpu",
            "pass None if the batch has no mirror, instead of `self.buffers",
        ),
        (Use.ASSERT, LENS, "replace the assertion with a branch for `batch.seq_lens_cpu is None`"),
        (Use.ASSERT, SUM, "replace the assertion with a branch for `batch.seq_lens_sum is None`"),
        (Use.ARITHMETIC, SUM, "if batch.seq_lens_sum is None: use the batch size times the longest context"),
        (Use.COPY, SUM, "if batch.seq_lens_sum is None: use the batch size times the longest context"),
        (Use.COPY, LENS, "guard with `if batch.seq_lens_cpu is not None`; otherwise use the lengths of"),
        (Use.ITERATION, LENS, "guard with `if batch.seq_lens_cpu is not None`; otherwise use the lengths of"),
        (
            Use.ATTRIBUTE,
            LENS,
            "guard `x.max()` with `if batch.seq_lens_cpu is not None`; otherwise compute it",
        ),
        (Use.SLICE, LENS, "guard `x.max()` with `if batch.seq_lens_cpu is not None`; otherwise compute it"),
    ],
)
def test_the_advice_for_a_use(use: Use, value: str, advice: str) -> None:
    assert guard(use, "x.max()", value).startswith(advice)


def test_uses_that_raise_nothing_are_those_that_compare_select_or_are_stale() -> None:
    assert {use for use in Use if not use.fatal} == {Use.COMPARISON, Use.SLICE, Use.STALE}


def test_each_rule_has_an_id_of_its_own() -> None:
    assert sorted(RULES) == [f"PK{number}" for number in range(100, 113)]

from __future__ import annotations

import pytest
from support.releases import PATCHES

from patchkit.patchset import condition

OPTIONS: dict[str, object] = {
    "topk": 4,
    "backend": "fa3",
    "overlap": True,
    "missing": None,
    "page": condition.UNKNOWN,
}


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("topk > 1", True),
        ("1 < topk <= 4", True),
        ("topk > 4", False),
        ("overlap", True),
        ("not overlap", False),
        ("missing", False),
        ("missing > 1", False),
        ("missing < 1", False),
        ("missing != 'x'", True),
        ("missing == None", True),
        ("topk != -1", True),
        ("topk > -1", True),
        ("backend in ('fa3', 'fa4')", True),
        ("backend not in ('fa3', 'fa4')", False),
        ("'fa4' in (backend, missing)", False),
        ("topk > 1 and\nbackend == 'fa3'", True),
        ("topk == 1 or backend == 'triton'", False),
        # An option of unknown value makes a condition neither true nor false, unless the rest decides it.
        ("page > 1", True),
        ("not page > 1", True),
        ("page", True),
        ("page in (1, 2)", True),
        ("4 in (page, topk)", True),
        ("4 not in (page, topk)", False),
        ("page > 1 and topk == 1", False),
        ("page > 1 and topk == 4", True),
        ("page > 1 > topk", False),
        ("page > 1 or topk == 1", True),
        ("not (page > 1 or topk == 4)", False),
        ("(topk > 1) == overlap", True),
    ],
)
def test_a_condition_holds_or_may_hold(text: str, held: bool) -> None:
    assert condition.holds(text, OPTIONS.__getitem__) is held


@pytest.mark.parametrize(
    "text", ["topk >", "a = 1", "f(x)", "a.b", "[1]", "lambda: 1", "~a", "a + 1", "(" * 500]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Python expression|a condition consists of"):
        condition.parsed(text)


def test_a_condition_names_the_options_that_it_reads() -> None:
    assert condition.names("topk > 1 and backend in ('fa3', other)") == {"topk", "backend", "other"}


def test_every_built_in_fix_names_its_symptom() -> None:
    fixes = [patch for patch in PATCHES if patch.affects is not None]
    assert fixes
    for patch in fixes:
        assert patch.affects is not None
        assert patch.affects.symptom[-1] != "."
        # An issue may be open in the last release.
        assert patch.affects.fixed_in or "/pull/" not in patch.upstream, (
            f"{patch.id}: the first release with the fix"
        )

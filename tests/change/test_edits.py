"""The record of a merge's edits: what is refused, what conflicts, and what of it is shown."""

from __future__ import annotations

import pytest

from patchkit.change.edits import EditLog, EditOutcome, Outcome
from patchkit.change.outline import Item, outline
from patchkit.change.regions import Region

BASE = "class Desk:\n    days = 14\n    def lend(self):\n        return 1\n"


def items(text: str = BASE) -> list[Item]:
    return [each for each in outline(text).walk() if each.parent is not None]


CLS, DAYS, LEND, RETURN = items()


def test_an_edit_that_is_refused_is_recorded_with_its_texts() -> None:
    log = EditLog({(DAYS, ""): (Outcome.UNMET, "no"), (LEND, "header"): (Outcome.CONFLICT, "never")})
    assert not log.is_refused((RETURN, ""))
    assert not log.is_refused((LEND, ""))
    assert log.edits == []
    assert log.is_refused((DAYS, ""), base=DAYS, theirs=RETURN, region=Region.of(DAYS))
    assert log.is_refused((LEND, "header"), base=LEND)
    one, other = log.edits
    assert (one.site, one.outcome, one.reason) == ("Desk", Outcome.UNMET, "no")
    assert (one.base_text, one.ours_text, one.wanted) == ("days = 14\n", "days = 14\n", "return 1\n")
    assert (one.place, one.line) == (CLS, 2)
    assert (other.site, other.outcome, other.base_text, other.wanted) == (
        "Desk.lend",
        Outcome.CONFLICT,
        "def lend(self):\n",
        "",
    )
    assert (other.place, other.line, other.ours_text) == (None, 0, "")


def test_what_is_refused_inside_an_item() -> None:
    log = EditLog({(RETURN, ""): (Outcome.UNMET, "no")})
    assert log.is_refused_inside(CLS)
    assert log.is_refused_inside(DAYS, LEND)
    assert log.is_refused_inside(RETURN)
    assert not log.is_refused_inside(DAYS)
    assert not EditLog().is_refused_inside(CLS)


@pytest.mark.parametrize(
    ("outcome", "is_explained"),
    [
        (Outcome.LANDED, False),
        (Outcome.ALREADY, False),
        (Outcome.CHANGED, True),
        (Outcome.KEPT, True),
        (Outcome.CONFLICT, True),
    ],
)
def test_an_outcome_has_its_texts_if_something_is_to_be_explained(
    outcome: Outcome, is_explained: bool
) -> None:
    log = EditLog()
    log.record(DAYS, outcome, "why", theirs=RETURN, ours=LEND, key=(DAYS, ""))
    log.record(DAYS, outcome)
    one, other = log.edits
    assert (one.site, one.outcome, one.reason, one.wanted) == ("Desk", outcome, "why", "return 1\n")
    assert (one.place, one.key, one.line) == (LEND, (DAYS, ""), LEND.line)
    assert (one.base_text, one.ours_text) == (("days = 14\n", LEND.dedented) if is_explained else ("", ""))
    assert (other.reason, other.wanted, other.ours_text, other.place, other.key) == ("", "", "", None, None)


def test_a_conflict_has_the_region_of_this_trees_item() -> None:
    log = EditLog()
    log.conflict(DAYS, RETURN, LEND, "it differs")
    log.conflict(DAYS, None, LEND, "it goes")
    one, other = log.edits
    assert (one.outcome, one.reason, one.base_text, one.ours_text, one.wanted) == (
        Outcome.CONFLICT,
        "it differs",
        "days = 14\n",
        LEND.dedented,
        "return 1\n",
    )
    assert one.region == Region(CLS, 1, 2)
    assert (one.line, one.place) == (LEND.line, CLS)
    assert other.wanted == ""


def test_the_line_of_an_edit_is_that_of_its_region_or_its_place() -> None:
    assert EditOutcome("", Outcome.LANDED).line == 0
    assert EditOutcome("", Outcome.LANDED, place=RETURN).line == 4
    assert EditOutcome("", Outcome.LANDED, place=CLS, region=Region(CLS, 1, 2)).line == 3

"""Abstract values: their join where two branches meet, and what a check leaves of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.audit.values import ANY, NONE, SOME, Environment, Refinement, Value, fresh, join
from patchkit.findings.finding import Step

MISSING = Value(NONE, tainted=True, trail=(Step("a.py", 1, "it is None"),))
HERE = ("local", "here", "")
THERE = ("field", "path:batch", "there")


def test_a_value_that_only_one_way_named_keeps_its_name() -> None:
    batch = Value(SOME)
    named = batch.copy()
    named.obj = "path:batch"
    assert join(batch, named).obj == join(named, batch).obj == "path:batch"


def test_a_name_is_not_that_of_another_value() -> None:
    assert join(Value(SOME, obj="path:batch"), Value(SOME)).obj is None


def test_two_names_of_one_value_are_none() -> None:
    batch = Value(SOME, obj="path:batch")
    other = batch.copy()
    other.obj = "path:other"
    assert join(batch, other).obj is None


def test_a_class_that_one_way_tested_for_is_not_known_behind_it() -> None:
    batch = Value(SOME)
    tested = batch.copy()
    tested.cls = "ScheduleBatch"
    assert join(batch, tested).cls is None


@pytest.mark.parametrize(
    ("field", "same", "other"),
    [("cls", "ForwardBatch", "ScheduleBatch"), ("truth", True, False), ("kind", "list", "Tensor")],
)
def test_what_both_ways_agree_on_is_kept(field: str, same: object, other: object) -> None:
    def value(content: object) -> Value:
        value = Value(SOME)
        setattr(value, field, content)
        return value

    assert getattr(join(value(same), value(same)), field) == same
    assert getattr(join(value(same), value(other)), field) is None
    assert getattr(join(value(same), Value(SOME)), field) is None


@pytest.mark.parametrize("field", ["cls", "obj"])
def test_none_says_nothing_against_the_class_and_name_of_the_other_way(field: str) -> None:
    there = Value(SOME)
    setattr(there, field, "Batch")
    for absent in (Value(NONE), MISSING):
        assert getattr(join(there, absent), field) == getattr(join(absent, there), field) == "Batch"
    assert getattr(join(there, Value(ANY)), field) is getattr(join(Value(ANY), there), field) is None


def test_modes_are_joined_where_both_ways_know_them() -> None:
    decode, verify = (Value(SOME, modes=frozenset({mode})) for mode in ("DECODE", "TARGET_VERIFY"))
    assert join(decode, verify).modes == frozenset({"DECODE", "TARGET_VERIFY"})
    assert join(decode, Value(SOME)).modes is join(Value(SOME), decode).modes is None


def test_items_are_joined_one_by_one_if_there_are_as_many() -> None:
    pair = Value(SOME, items=(Value(SOME), MISSING))
    other = Value(SOME, items=(MISSING, Value(SOME)))
    joined = join(pair, other).items
    assert joined is not None
    assert [item.nulls for item in joined] == [ANY, ANY]
    for shorter in (Value(SOME, items=(Value(SOME),)), Value(SOME)):
        assert join(pair, shorter).items is join(shorter, pair).items is None


def test_what_is_missing_on_one_way_can_be_missing_behind_both() -> None:
    for joined in (join(Value(SOME), MISSING), join(MISSING, Value(SOME))):
        assert (joined.nulls, joined.tainted, joined.missing, joined.trail) == (
            ANY,
            True,
            True,
            MISSING.trail,
        )
    plain = join(Value(SOME), Value(NONE))
    assert (plain.nulls, plain.tainted, plain.missing) == (ANY, False, False)
    # None there is not for lack of the mirror once a check has left no None.
    assert not join(Value(SOME, tainted=True), Value(NONE)).tainted


def test_the_join_of_one_run_time_value_is_still_that_one() -> None:
    value = Value(ANY)
    assert join(value, value) is value
    assert join(value, value.copy()) is value
    assert join(value.narrowed(SOME), value.narrowed(NONE)).identity == value.identity
    other = Value(ANY)
    assert join(value, other).identity not in (value.identity, other.identity)


def test_a_fresh_value_is_equal_and_another() -> None:
    value = replace(MISSING, cls="ForwardBatch", obj="path:batch", kind="list", truth=True)
    assert fresh(value) == value
    assert fresh(value).identity != value.identity
    assert fresh(value).trail == value.trail


def test_how_a_value_came_about_does_not_make_it_another() -> None:
    known = Value(SOME, trail=MISSING.trail, refinement=Refinement({1: SOME}, None))
    assert known == Value(SOME)
    assert known != Value(SOME, truth=True)


def test_a_copy_is_equal_and_the_same_value() -> None:
    value = Value(
        NONE, True, "Batch", "path:b", frozenset({"DECODE"}), False, "list", (Value(SOME),), MISSING.trail
    )
    copied = value.copy()
    assert (copied, copied.trail, copied.identity) == (value, value.trail, value.identity)


def test_a_check_leaves_what_can_still_be() -> None:
    value = replace(MISSING, nulls=ANY)
    present, absent = value.narrowed(SOME), value.narrowed(NONE)
    assert (present.nulls, present.tainted, present.missing) == (SOME, False, False)
    assert (absent.nulls, absent.tainted, absent.missing) == (NONE, True, True)
    assert not Value(ANY).narrowed(NONE).tainted


def test_a_trail_has_each_step_once_and_ends() -> None:
    steps = [Step("a.py", line, "passed on") for line in range(2, 40)]
    value = MISSING.via(steps[0]).via(steps[0])
    assert [step.line for step in value.trail] == [1, 2]
    for step in steps:
        value = value.via(step)
    assert [step.line for step in value.trail] == list(range(1, 17))
    assert Value(SOME).via(steps[0]).trail == ()
    assert Value(NONE).via(steps[0]).trail == ()


def test_a_check_counts_wherever_the_value_is_held() -> None:
    value, other = Value(ANY), Value(ANY)
    env = Environment({HERE: value, THERE: value.copy(), ("local", "other", ""): other})
    assert env.narrow(value, SOME)
    assert [held.nulls for held in env.cells.values()] == [SOME, SOME, ANY]
    assert not env.narrow(env.cells[HERE], NONE)
    assert env.narrow(env.cells[HERE], SOME)


def test_a_test_of_a_mode_counts_wherever_the_mode_is_held() -> None:
    mode = Value(SOME, modes=frozenset({"DECODE", "TARGET_VERIFY"}))
    env = Environment({HERE: mode, THERE: mode.copy(), ("local", "other", ""): fresh(mode)})
    env.restrict_modes(mode, frozenset({"DECODE"}))
    assert [held.modes for held in env.cells.values()] == [{"DECODE"}, {"DECODE"}, mode.modes]
    assert mode.modes == frozenset({"DECODE", "TARGET_VERIFY"})


def test_a_stored_condition_restricts_what_it_implies() -> None:
    value, other = Value(ANY), Value(ANY)
    env = Environment({HERE: value, THERE: other})
    assert not env.apply(None)
    assert env.apply({})
    assert env.apply({value.identity: SOME})
    assert [held.nulls for held in env.cells.values()] == [SOME, ANY]
    assert not env.apply({value.identity: NONE})


def test_a_copied_state_is_independent_and_knows_that_a_mode_was_tested() -> None:
    env = Environment({HERE: Value(ANY)}, mode_checked=True)
    copied = env.copy()
    copied.cells[THERE] = Value(SOME)
    assert copied.mode_checked
    assert list(env.cells) == [HERE]
    assert Environment().cells == {}
    assert not Environment().mode_checked

"""The abstract value after two branches join."""

from __future__ import annotations

from patchkit.audit.interpreter.values import SOME, Value, join


def test_a_value_that_only_one_way_named_keeps_its_name() -> None:
    batch = Value(SOME)
    named = batch.copy()
    named.obj = "path:batch"
    assert join(batch, named).obj == join(named, batch).obj == "path:batch"


def test_a_name_is_not_that_of_another_value() -> None:
    assert join(Value(SOME, obj="path:batch"), Value(SOME)).obj is None


def test_a_class_that_one_way_tested_for_is_not_known_behind_it() -> None:
    batch = Value(SOME)
    tested = batch.copy()
    tested.cls = "ScheduleBatch"
    assert join(batch, tested).cls is None

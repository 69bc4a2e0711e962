from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from patchkit import collector

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    gc.enable()


def test_the_collector_is_off_for_as_long_as_it_is_paused() -> None:
    with collector.paused():
        assert not gc.isenabled()
        with collector.paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_turns_it_on_again() -> None:
    with pytest.raises(LookupError), collector.paused():
        raise LookupError
    assert gc.isenabled()


def test_a_collector_that_somebody_turned_off_stays_off() -> None:
    gc.disable()
    with collector.paused():
        pass
    assert not gc.isenabled()

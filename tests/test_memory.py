from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from support.audited import program
from support.toys import TOYS, apply

from patchkit import memory
from patchkit.audit.engine import audit
from patchkit.commands.verify import verify
from patchkit.findings.finding import Confidence
from patchkit.patchset.select import PatchSet
from patchkit.tree.index import Module
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.tree import CheckoutTree


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    gc.enable()


@pytest.fixture
def _unfrozen() -> Iterator[None]:
    """What the session froze is frozen again afterwards."""
    threshold = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700)
    yield
    gc.set_threshold(*threshold)
    gc.freeze()


def test_the_collector_is_off_for_as_long_as_it_is_paused() -> None:
    with memory.collector_paused():
        assert not gc.isenabled()
        with memory.collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_turns_it_on_again() -> None:
    with pytest.raises(LookupError), memory.collector_paused():
        raise LookupError
    assert gc.isenabled()


def test_a_collector_that_somebody_turned_off_stays_off() -> None:
    gc.disable()
    with memory.collector_paused():
        pass
    assert not gc.isenabled()


@pytest.mark.usefixtures("_unfrozen")
def test_what_was_made_counts_as_old_afterwards_and_is_not_looked_through_for_the_next_few_objects() -> None:
    with memory.collector_paused():
        made: list[list[int]] = [[] for _ in range(2000)]
    assert any(each is made for each in gc.get_objects(generation=2))


def test_garbage_made_while_it_is_paused_goes_with_a_full_collection() -> None:
    class Ring:
        def __init__(self) -> None:
            self.self = self

    with memory.collector_paused():
        known = weakref.ref(Ring())
    assert known() is not None
    gc.collect()
    assert known() is None


MANY_WORKS = """
import gc, sys
from patchkit import memory

gc.collect()
before = sys.getallocatedblocks()
memory._MAX_NEW_BLOCKS = memory._bound = before + 50_000
most = 0
for _ in range(30):
    with memory.collector_paused():
        for _ in range(10_000):
            ring = []
            ring.append(ring)
        del ring
    most = max(most, sys.getallocatedblocks() - before)
print(most)
"""


def test_garbage_of_one_work_after_another_does_not_pile_up() -> None:
    # A process of its own: what is allowed grows with what else is there.
    command = [sys.executable, "-c", MANY_WORKS]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    # All of it would be six hundred thousand blocks.
    assert int(output) < 300_000


@pytest.mark.usefixtures("_unfrozen")
def test_what_somebody_froze_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with memory.collector_paused():
            made: list[list[int]] = [[] for _ in range(2000)]
        assert len(made) == 2000
        assert gc.get_freeze_count() >= frozen - 100 > 0
    finally:
        gc.unfreeze()


def test_what_is_kept_for_further_work_is_let_go_of_before_it_is_too_much() -> None:
    @memory.cached(100)
    def made(number: int) -> list[list[int]]:
        return [[number] for _ in range(10_000)]

    most = before = sys.getallocatedblocks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_MAX_NEW_BLOCKS", 50_000)
        patch.setattr(memory, "_bound", before + 50_000)
        for number in range(50):
            with memory.collector_paused():
                made(number)
            most = max(most, sys.getallocatedblocks())
    assert most - before < 100_000


def test_what_is_used_again_is_kept_when_what_was_not_is_forgotten() -> None:
    made: list[str] = []

    @memory.cached(100)
    def of(name: str) -> str:
        made.append(name)
        return name

    for name in ("used", "unused"):
        of(name)
    for _ in range(2):
        memory.forget_unused()
        of("used")
    of("unused")
    assert made == ["used", "unused", "unused"]


def test_a_cache_keeps_the_last_results_and_no_more_than_twice_as_many() -> None:
    made: list[int] = []

    @memory.cached(10)
    def of(number: int) -> int:
        made.append(number)
        return number

    for number in (*range(30), *range(20, 30)):
        of(number)
    assert made == [*range(30)]
    for number in range(10):
        of(number)
    assert made == [*range(30), *range(10)]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Module]]:
    """Every module that a test parses."""
    made: list[weakref.ref[Module]] = []
    initialise = Module.__init__

    def recorded(module: Module, *given: Any, **named: Any) -> None:
        initialise(module, *given, **named)
        made.append(weakref.ref(module))

    monkeypatch.setattr(Module, "__init__", recorded)
    memory.forget()
    gc.disable()
    return made


def are_freed(modules: list[weakref.ref[Module]]) -> bool:
    for cache in memory._caches:
        cache.clear()
    return bool(modules) and not any(module() for module in modules)


def test_no_syntax_tree_of_an_audit_waits_for_the_collector(parsed: list[weakref.ref[Module]]) -> None:
    source = "class Pool:\n    def total(self, batch):\n        return batch.seq_lens_sum + self.one()\n"
    assert audit(program(source)).findings
    assert are_freed(parsed)


def test_no_syntax_tree_of_a_verify_waits_for_the_collector(
    tree: CheckoutTree, parsed: list[weakref.ref[Module]]
) -> None:
    apply(tree, *TOYS)
    assert verify(tree, PatchSet(TOYS, ""), Criteria(Confidence.CERTAIN))
    assert are_freed(parsed)


@pytest.mark.parametrize(
    ("share", "left"), [(0.4, ["common", "earlier", "later"]), (0.8, ["common", "later"]), (1.2, [])]
)
def test_of_much_what_the_last_work_used_stays_cached(
    monkeypatch: pytest.MonkeyPatch, share: float, left: list[str]
) -> None:
    cache: memory.RecentCache[str, str] = memory.RecentCache(16)
    monkeypatch.setattr(memory, "_caches", [cache])
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: int(share * memory._MAX_CACHED_BLOCKS))
    for used in (("common", "earlier"), ("common", "later")):
        for source in used:
            cache.get(source, lambda: "made")
        memory.forget_if_large()
    known = [each for each in ("common", "earlier", "later") if cache.get(each, lambda: "again") == "made"]
    assert known == left

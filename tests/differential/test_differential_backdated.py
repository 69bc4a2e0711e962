"""0.5.13 with upstream's patches taken out and this project's put in their place does what 0.5.13 does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from backdated import lay_out
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import run
from trees import DEFAULT, DrivenTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from releases import Releases

    from patchkit.tree import OverlayTree

EXAMPLES = settings(max_examples=10)


@pytest.fixture(scope="module")
def lacking(
    backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """The release without upstream's patches."""
    folder = tmp_path_factory.mktemp("driven")
    tree = DrivenTree("backdated", lambda: lay_out(backdated, releases, folder).root)
    yield tree
    tree.stop()


@pytest.fixture(scope="module")
def repatched(
    backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """The release with this project's patches in the place of upstream's."""
    folder = tmp_path_factory.mktemp("driven")

    def make() -> Path:
        tree = lay_out(backdated, releases, folder)
        run("apply", tree.root, *DEFAULT)
        return tree.root

    tree = DrivenTree("repatched", make)
    yield tree
    tree.stop()


# ---- the future map's lengths ----------------------------------------------------------------------------------

DEVICES = ("cuda", "hip", "cpu")


ROW, LENGTH = st.integers(0, 23), st.integers(1, 5000)
BATCH = st.lists(ROW, unique=True, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.dictionaries(ROW, LENGTH, max_size=6)),
        st.tuples(st.just("resolve"), BATCH),
        st.tuples(st.just("prefill"), BATCH.filter(bool)),
        st.tuples(st.just("idle"), st.just([])),
    ),
    min_size=1,
    max_size=8,
)
"""What a schedule does with a future map: batches of requests with and without published lengths, idle ones too."""


def schedules(needed: st.SearchStrategy[bool]) -> st.SearchStrategy[list[tuple[bool, str, list[Any]]]]:
    """Return several schedules at a time, so that one round trip serves all."""
    return st.lists(st.tuples(needed, st.sampled_from(DEVICES), STEPS), min_size=6, max_size=12)


@EXAMPLES
@given(drawn=schedules(st.booleans()))
def test_batches_take_from_the_future_map_what_upstreams_take(
    repatched: DrivenTree, upstream: DrivenTree, drawn: list[Any]
) -> None:
    assert repatched.ask_many("backdated.resolves", drawn) == upstream.ask_many("backdated.resolves", drawn)


@EXAMPLES
@given(drawn=schedules(st.just(True)))
def test_with_the_mirror_the_future_map_does_what_it_did(
    lacking: DrivenTree, repatched: DrivenTree, drawn: list[Any]
) -> None:
    assert repatched.ask_many("backdated.resolves", drawn) == lacking.ask_many("backdated.resolves", drawn)


@pytest.mark.parametrize("device", DEVICES)
def test_without_the_mirror_lengths_advance_and_the_host_reads_none(
    repatched: DrivenTree, device: str
) -> None:
    steps = [("publish", {3: 50, 5: 61}), ("resolve", [5, 3]), ("idle", [])]
    published, resolved, idle = repatched.ask("backdated.resolves", False, device, steps)
    waits = ["published.synchronize" if device == "hip" else "published.wait"]
    assert published == {"waits": ["published.record"], "reads": []}
    assert resolved == {"lens": [61, 50], "mirror": None, "sum": None, "waits": waits, "reads": []}
    assert idle == {"lens": [], "mirror": None, "sum": None, "waits": waits, "reads": []}


@pytest.mark.parametrize("device", DEVICES)
def test_with_the_mirror_it_holds_the_advanced_lengths(repatched: DrivenTree, device: str) -> None:
    steps = [("publish", {3: 50, 5: 61}), ("resolve", [5, 3])]
    _, resolved = repatched.ask("backdated.resolves", True, device, steps)
    assert (resolved["lens"], resolved["mirror"], resolved["sum"]) == ([61, 50], [61, 50], 111)

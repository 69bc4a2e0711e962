"""0.5.18 with the guards plans a batch without the mirror as one that has it; without the guards it raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.trees import DEFAULT, DrivenTree, ProbeError, as_released, with_patches
from support.releases import LATEST

if TYPE_CHECKING:
    from support.releases import Releases

LATER = "0.5.18"
LENS = [[3, 7, 1], [5], [12, 12]]
GATHERING = (
    "0.5.15",
    "0.5.15.post1",
    "0.5.16",
    "0.5.17",
    LATER,
    "0.5.19",
    "0.5.20",
    "0.5.21",
    "0.5.22",
    LATEST,
)
"""Releases in which DeepSeek's models gather a cache for decode context parallelism."""
PREFIXES = [([4, 0, 6], [2, 2, 2]), ([8], [1]), ([0, 0], [3, 1])]


@pytest.fixture(scope="module")
def later(releases: Releases) -> DrivenTree:
    """The release as it is."""
    return as_released(releases, LATER)


@pytest.fixture(scope="module")
def guarded(releases: Releases) -> DrivenTree:
    """The release with every patch that needs no naming."""
    return with_patches(releases, "guarded", DEFAULT, LATER)


@pytest.mark.parametrize("lens", LENS)
def test_the_graph_of_a_prefill_is_planned_from_lengths_that_the_batch_left_on_the_device(
    later: DrivenTree, guarded: DrivenTree, lens: list[int]
) -> None:
    expected = later.ask("later_batches.prefill_graph", lens, True, full=True)
    assert expected == {"planned": [[*lens, 0]], "reads": []}
    assert guarded.ask("later_batches.prefill_graph", lens, True, full=True) == expected
    assert guarded.ask("later_batches.prefill_graph", lens, False, full=True) == expected | {"reads": ["cpu"]}
    with pytest.raises(ProbeError, match="TypeError"):
        later.ask("later_batches.prefill_graph", lens, False, full=True)


@pytest.mark.parametrize("release", GATHERING)
@pytest.mark.parametrize("mirror", [True, False])
def test_a_prefill_whose_graph_has_breaks_is_planned_without_copying_the_lengths_to_the_host(
    releases: Releases, release: str, mirror: bool
) -> None:
    expected = {"planned": [[3, 7] if mirror else None], "reads": []}
    for tree in (as_released(releases, release), with_patches(releases, "guarded", DEFAULT, release)):
        assert tree.ask("later_batches.prefill_graph", [3, 7], mirror, full=False) == expected


@pytest.mark.parametrize(("prefixes", "new"), PREFIXES)
def test_context_parallelism_gathers_the_same_for_a_batch_without_its_lists(
    later: DrivenTree, guarded: DrivenTree, prefixes: list[int], new: list[int]
) -> None:
    expected = later.ask("later_batches.context_parallel", prefixes, new, True)
    assert expected["dcp_extend_prefix_lens_sum"] == sum(prefixes)
    assert expected["reads"] == []
    assert guarded.ask("later_batches.context_parallel", prefixes, new, True) == expected
    result = guarded.ask("later_batches.context_parallel", prefixes, new, False)
    assert result == expected | {"reads": ["__int__", "tolist"]}
    with pytest.raises(ProbeError, match="TypeError"):
        later.ask("later_batches.context_parallel", prefixes, new, False)


@pytest.mark.parametrize("release", GATHERING)
def test_a_verify_of_deepseek_without_context_parallelism_gathers_nothing_and_reads_no_list(
    releases: Releases, release: str
) -> None:
    nothing: dict[str, object] = {"gathered": None, "reads": []}
    for tree in (as_released(releases, release), with_patches(releases, "guarded", DEFAULT, release)):
        assert tree.ask("later_batches.without_context_parallelism", [4, 9], 3) == nothing


@pytest.mark.parametrize("lens", LENS)
def test_a_shared_pool_is_translated_for_a_batch_with_the_sum_and_without_the_lengths(
    later: DrivenTree, guarded: DrivenTree, lens: list[int]
) -> None:
    expected = later.ask("later_batches.shared_pool", lens, 4, True, True)
    assert expected["reads"] == []
    assert guarded.ask("later_batches.shared_pool", lens, 4, True, True) == expected
    for has_sum in (True, False):
        result = guarded.ask("later_batches.shared_pool", lens, 4, has_sum, False)
        assert result == expected | {"reads": ["item", "item"]}
    with pytest.raises(ProbeError, match="TypeError"):
        later.ask("later_batches.shared_pool", lens, 4, True, False)

"""Linear attention without the mirror: a replay plans what upstream's does, and who is not known keeps the mirror."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import sessions
from support.driven.trees import DrivenTree, ProbeError, as_released
from support.sweeps import examples

if TYPE_CHECKING:
    from support.releases import Releases

OPTED_OUT = ("gdn", "mamba2")
KEEPING = ("kda", "lightning")
EAGER = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [4, 4, 4]}
EXAMPLES = examples(5)

Session = dict[str, Any]
Sessions = list[Session]


@pytest.fixture(scope="module")
def successor(releases: Releases) -> DrivenTree:
    """The first release in which upstream's own replay says how many requests are padding."""
    return as_released(releases, "0.5.14")


@st.composite
def several(draw: st.DrawFn, *modes: str) -> Sessions:
    """Draw sessions with batches smaller than their graph, as large, and idle, with trees and without."""
    topk = st.sampled_from([1, 4])
    drawn = draw(st.lists(sessions(modes or ("decode", "verify"), (1,), topk=topk), min_size=2, max_size=4))
    for session in drawn:
        for batch in session["batches"]:
            if draw(st.integers(0, 4)) == 0:
                batch |= {"rows": [], "lens": [], "accepted": []}
    return drawn


def driven(
    tree: DrivenTree, drawn: Sessions, kind: str, *, mirror: bool = True, disable: str = ""
) -> list[Sessions]:
    """Return what each session's replays planned, each where its graph was captured."""
    results: list[Sessions] = tree.ask_many(
        "linear_attention.replays", [(session, kind, mirror, disable) for session in drawn]
    )
    for session, replayed in zip(drawn, results, strict=True):
        for batch, replay in zip(session["batches"], replayed, strict=True):
            assert replay.pop("in_place")
            assert replay["ran"] == [len(batch["lens"]), batch["graph"]]
    return results


def plans(results: list[Sessions]) -> list[Sessions]:
    """Return what was planned, without how the host came by it."""
    aside = ("handed_mirror", "host_reads")
    return [
        [{name: value for name, value in replay.items() if name not in aside} for replay in replayed]
        for replayed in results
    ]


def assert_padded(drawn: Sessions, results: list[Sessions]) -> None:
    """Assert that a graph's rows beyond its batch have no state, no tokens and no request."""
    for session, replayed in zip(drawn, results, strict=True):
        tokens = session["server"]["draft_tokens"] if session["mode"] == "verify" else 1
        for batch, replay in zip(session["batches"], replayed, strict=True):
            count, bs = len(batch["lens"]), batch["graph"]
            starts = replay["query_start_loc"][1]
            assert starts == [min(row, count) * tokens for row in range(bs + 1)]
            assert replay["mamba_cache_indices"][1][count:] == [-1] * (bs - count)
            assert -1 not in replay["mamba_cache_indices"][1][:count]
            assert replay["rows"] == [*batch["rows"], *[0] * (bs - count)]


@pytest.mark.parametrize("kind", OPTED_OUT)
@EXAMPLES
@given(drawn=several())
def test_a_replay_with_the_mirror_is_planned_as_before(
    every_tree: tuple[DrivenTree, ...], hardened: DrivenTree, kind: str, drawn: Sessions
) -> None:
    unpatched, patched, upstream = every_tree
    for before, after in ((unpatched, patched), (upstream, hardened)):
        result = driven(after, drawn, kind)
        assert plans(result) == plans(driven(before, drawn, kind))
        assert_padded(drawn, result)


@pytest.mark.parametrize("kind", OPTED_OUT)
@EXAMPLES
@given(drawn=several("verify"))
def test_a_replay_without_the_mirror_is_planned_as_with_it_and_the_host_reads_nothing(
    patched: DrivenTree, hardened: DrivenTree, kind: str, drawn: Sessions
) -> None:
    for tree in (patched, hardened):
        result = driven(tree, drawn, kind, mirror=False)
        assert plans(result) == plans(driven(tree, drawn, kind))
        assert_padded(drawn, result)
        for replay in itertools.chain(*result):
            assert (replay["handed_mirror"], replay["host_reads"]) == (False, 0)


@pytest.mark.parametrize("kind", OPTED_OUT)
@EXAMPLES
@given(drawn=several("verify"))
def test_a_replay_without_the_mirror_is_planned_as_the_successors_own(
    patched: DrivenTree, hardened: DrivenTree, successor: DrivenTree, kind: str, drawn: Sessions
) -> None:
    expected = plans(driven(successor, drawn, kind, mirror=False))
    for tree in (patched, hardened):
        assert plans(driven(tree, drawn, kind, mirror=False)) == expected


ONE_TOKEN: Session = {
    "server": {"draft_tokens": 3, "seed": 7},
    "mode": "verify",
    "graphs": [4],
    "batches": [{"graph": 4, "rows": [3, 5, 7, 9], "lens": [40, 1, 50, 2]}],
}


def test_a_request_of_one_token_is_no_padding(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, successor: DrivenTree
) -> None:
    # There the mirror has a fill value in it, and the state of the last request goes unread and unwritten.
    for tree in (unpatched, upstream):
        (result,) = driven(tree, [ONE_TOKEN], "gdn")
        assert result[0]["query_start_loc"][1] == [0, 3, 6, 9, 9]
        assert result[0]["mamba_cache_indices"][1][3] == -1
    expected = plans(driven(successor, [ONE_TOKEN], "gdn"))
    assert_padded([ONE_TOKEN], expected)
    for mirror in (True, False):
        assert plans(driven(patched, [ONE_TOKEN], "gdn", mirror=mirror)) == expected


@pytest.mark.parametrize("kind", [*OPTED_OUT, *KEEPING])
def test_a_backend_that_is_switched_off_counts_as_before(
    unpatched: DrivenTree, patched: DrivenTree, kind: str
) -> None:
    assert driven(patched, [ONE_TOKEN], kind, disable="28579") == driven(unpatched, [ONE_TOKEN], kind)


@EXAMPLES
@given(
    halves=st.lists(
        st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size))),
        min_size=2,
        max_size=2,
    )
)
def test_the_halves_of_a_graph_count_their_own_padding(
    patched: DrivenTree, hardened: DrivenTree, halves: list[tuple[int, int]]
) -> None:
    sizes, fills = [list(each) for each in zip(*halves, strict=True)]
    for tree in (patched, hardened):
        result = tree.ask("linear_attention.halves", sizes, fills)
        assert result == [[min(row, size - padded) for row in range(size + 1)] for size, padded in halves]


def test_a_replay_without_its_padding_counts_it_and_without_the_mirror_is_an_error(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    for tree in (unpatched, patched):
        assert tree.ask("linear_attention.without_a_word", True) == [0, 1, 2, 2]
    with pytest.raises(ProbeError, match="TypeError"):
        unpatched.ask("linear_attention.without_a_word", False)
    with pytest.raises(
        ProbeError, match="RuntimeError: A graph of 3 requests is replayed without the CPU mirror"
    ):
        patched.ask("linear_attention.without_a_word", False)


@pytest.mark.parametrize("kind", OPTED_OUT)
def test_a_replay_of_the_successor_without_its_padding_takes_none_of_it_for_requests(
    patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree, kind: str
) -> None:
    # Its captures have no padding, and come without the mirror, as such a replay does.
    assert upstream.ask("linear_attention.unsaid", kind, False) == [0, 1, 2, 3]
    for tree in (patched, hardened):
        assert tree.ask("linear_attention.unsaid", kind, True) == [0, 1, 2, 2]
        assert tree.ask("linear_attention.unsaid", kind, False, capture=True) == [0, 1, 2, 3]
        with pytest.raises(
            ProbeError, match="RuntimeError: A graph of 3 requests is replayed without the CPU mirror"
        ):
            tree.ask("linear_attention.unsaid", kind, False)


@pytest.mark.parametrize("kind", OPTED_OUT)
@pytest.mark.parametrize("mode", ["verify", "decode"])
@pytest.mark.parametrize("topk", [1, 4])
def test_a_batch_without_a_graph_is_planned_as_before_with_the_mirror_and_without_it(
    every_tree: tuple[DrivenTree, ...], mode: str, kind: str, topk: int
) -> None:
    unpatched, patched, upstream = every_tree
    expected = unpatched.ask("linear_attention.eager", kind, mode, EAGER, True, topk)
    assert expected["mamba_cache_indices"] is not None
    for tree, mirror in itertools.product((patched, upstream), (True, False)):
        assert tree.ask("linear_attention.eager", kind, mode, EAGER, mirror, topk) == expected


def test_an_eager_draft_extend_needs_no_mirror(
    unpatched: DrivenTree, patched: DrivenTree, hardened: DrivenTree
) -> None:
    expected = unpatched.ask("linear_attention.eager", "gdn", "extend v2", EAGER, True)
    for mirror in (True, False):
        assert patched.ask("linear_attention.eager", "gdn", "extend v2", EAGER, mirror) == expected
        # Only layers with full attention run there, and nothing is planned for others any more.
        result = hardened.ask("linear_attention.eager", "gdn", "extend v2", EAGER, mirror)
        assert result == dict.fromkeys(expected) | {"host_reads": 0}


@pytest.mark.parametrize("topk", [1, 4])
def test_the_plan_streams_hook_copies_a_trees_links_anew(
    unpatched: DrivenTree, patched: DrivenTree, hardened: DrivenTree, topk: int
) -> None:
    for tree in (patched, hardened):
        result = tree.ask("linear_attention.linked_after_the_draft", topk)
        assert result["kept"] == result["made"]
        assert result["without_a_graph"] is (topk > 1)
    with pytest.raises(ProbeError, match="NotImplementedError"):
        unpatched.ask("linear_attention.linked_after_the_draft", topk)


def test_a_server_keeps_the_mirror_for_whichever_of_the_two_reads_it(
    patched: DrivenTree, hardened: DrivenTree, upstream: DrivenTree, successor: DrivenTree
) -> None:
    cases = [(kind, full) for kind in (*OPTED_OUT, *KEEPING) for full in (True, False)]
    for kind, full in cases:
        reads = full or kind in KEEPING
        for tree in (patched, hardened, successor):
            assert tree.ask("linear_attention.keeps_mirror", kind, full)["says"] is reads, (kind, full)
        for tree in (patched, hardened):
            result = tree.ask("linear_attention.keeps_mirror", kind, full)
            assert result == {"says": reads, "kept": reads, "context": 200, "row": 216}, (kind, full)
            both = tree.ask("linear_attention.keeps_mirror", kind, full, outer="hybrid")
            assert both["kept"] is reads, (kind, full)
        assert upstream.ask("linear_attention.keeps_mirror", kind, full)["kept"], (kind, full)


@pytest.mark.parametrize("outer", ["", "hybrid"])
def test_a_server_with_the_patch_switched_off_keeps_the_mirror(
    patched: DrivenTree, hardened: DrivenTree, outer: str
) -> None:
    for tree in (patched, hardened):
        result = tree.ask("linear_attention.keeps_mirror", "gdn", False, disable="28579", outer=outer)
        assert result["kept"] is True


def test_a_backend_of_full_attention_without_the_flag_counts_as_a_reader(patched: DrivenTree) -> None:
    assert patched.ask("linear_attention.keeps_mirror", "gdn", None)["kept"] is True

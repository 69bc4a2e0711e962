from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import CONTEXT, sessions
from support.driven.trees import ProbeError
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

EXAMPLES = examples(3)
BATCH = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [1, 1, 1]}
SERVER = {"context": CONTEXT, "page_size": 32, "draft_tokens": 4}

Sessions = list[dict[str, Any]]

# An interpreted kernel runs for every step, request and graph.
FEW: dict[str, Any] = {"sizes": (1, 2, 3), "most": 2, "steps": st.integers(2, 4)}
several = st.lists(sessions(["draft decode"], (32, 64), **FEW), min_size=2, max_size=3)
several_mha = st.lists(sessions(["draft decode"], (16, 64), swa=st.booleans(), **FEW), min_size=2, max_size=3)


def driven(tree: DrivenTree, drawn: Sessions, mirror: bool = True, kind: str = "mla") -> list[dict[str, Any]]:
    results = tree.ask_many("draft_steps.replays", [(kind, session, mirror) for session in drawn])
    return [replay for session in results for replay in session["replayed"]]


def steps(results: list[dict[str, Any]]) -> list[Any]:
    return [result["steps"] for result in results]


@EXAMPLES
@given(drawn=several)
def test_each_step_of_a_replay_is_planned_as_the_common_template_did(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, drawn: Sessions
) -> None:
    before, ours, theirs = (driven(tree, drawn) for tree in (unpatched, patched, upstream))
    assert steps(ours) == steps(before) == steps(theirs)
    assert {each["launches"] for each in before} == {1}
    assert {text["launches"] for text in ours} == {text["launches"] for text in theirs} == {0}


@EXAMPLES
@given(drawn=several)
def test_a_replay_without_the_mirror_is_planned_as_one_with_it_and_reads_nothing(
    patched: DrivenTree, upstream: DrivenTree, drawn: Sessions
) -> None:
    expected = steps(driven(patched, drawn))
    for tree in (patched, upstream):
        result = driven(tree, drawn, mirror=False)
        assert steps(result) == expected
        assert {(each["launches"], each["host_reads"]) for each in result} == {(0, 0)}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_each_step_of_an_eager_draft_is_planned_as_the_common_template_did(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, count: int
) -> None:
    server = SERVER | {"steps": count}
    before = unpatched.ask("draft_steps.eager", "mla", server, BATCH, True)
    assert len(before["steps"]) == count - 1
    assert before["launches"] == 1
    assert before["indices"] is not None
    for tree in (patched, upstream):
        for mirror in (True, False):
            result = tree.ask("draft_steps.eager", "mla", server, BATCH, mirror)
            assert result == {"steps": before["steps"], "launches": 0, "indices": None}


def test_the_common_template_needed_the_sum(unpatched: DrivenTree) -> None:
    server = SERVER | {"steps": 3}
    session = {"server": server, "graphs": [4], "batches": [BATCH | {"graph": 4, "stride": -1}]}
    with pytest.raises(ProbeError, match="NoneType"):
        unpatched.ask("draft_steps.eager", "mla", server, BATCH, False)
    with pytest.raises(ProbeError, match="NoneType"):
        unpatched.ask("draft_steps.replays", "mla", session, False)


@EXAMPLES
@given(drawn=several_mha)
def test_an_opted_out_mha_draft_replays_the_same_lengths_with_the_mirror_and_without_it(
    patched: DrivenTree, opted_out: DrivenTree, drawn: Sessions
) -> None:
    expected = driven(patched, drawn, kind="mha")
    for mirror in (True, False):
        result = driven(opted_out, drawn, mirror, kind="mha")
        assert {(each["launches"], each["host_reads"]) for each in result} == {(0, 0)}
        for actual, wanted in zip(steps(result), steps(expected), strict=True):
            assert len(actual) == len(wanted)
            for ours, theirs in zip(actual, wanted, strict=True):
                for name in ("cache_seqlens_int32", "cu_seqlens_q", "cu_seqlens_k", "max_seq_len_q"):
                    assert ours[name] == theirs[name], name

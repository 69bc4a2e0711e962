from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.accepted_rows import (
    accepted_logits,
    ask_for_accepted,
    load_accepted_rows,
    narrow_draft_extend,
    own_accepted_states,
)

WIDTH = 3


def batch(count: int, **named: Any) -> Any:
    made = {
        "batch_size": count,
        "seq_lens": torch.ones(count),
        "spec_info": SimpleNamespace(),
        "forward_mode": SimpleNamespace(is_draft_extend_v2=lambda: True),
        "global_num_tokens_gpu": None,
        "next_token_logits_buffer": torch.zeros(count * WIDTH, 2),
    }
    return SimpleNamespace(**made | named)


class EagleDraftWorker:
    """The tree's own worker."""


class EAGLEDraftExtendCudaGraphRunner(SimpleNamespace):
    """The tree's own runner."""


def runner() -> Any:
    model = SimpleNamespace(server_args=SimpleNamespace())
    return EAGLEDraftExtendCudaGraphRunner(
        model_runner=model, eagle_worker=EagleDraftWorker(), capture_bs=[2, 4]
    )


def test_every_graph_of_a_runner_reads_one_buffer_whose_rows_it_has() -> None:
    graphs, made = [batch(4), batch(2)], runner()
    for graph in graphs:
        narrow_draft_extend(made, graph)
        assert len(graph.next_token_logits_buffer) == graph.batch_size
    for accepted in ([3, 3, 3, 3], [1]):
        rows = torch.arange(len(accepted)) * WIDTH + torch.tensor(accepted) - 1
        asking = batch(len(accepted))
        ask_for_accepted(asking, rows, made.model_runner)
        load_accepted_rows(made, asking)
        for graph in graphs:
            read = graph.spec_info.select_index
            assert read[: len(rows)].tolist() == rows[: graph.batch_size].tolist()
            assert int(read.max()) < graph.batch_size * WIDTH


def test_a_graph_for_all_rows_is_handed_none() -> None:
    made, graph = runner(), batch(4, global_num_tokens_gpu=torch.zeros(1))
    narrow_draft_extend(made, graph)
    assert not hasattr(graph.spec_info, "select_index")
    load_accepted_rows(made, batch(1))


@pytest.mark.parametrize("of_worker", [True, False])
def test_a_forks_own_class_which_may_name_no_rows_has_graphs_for_all(*, of_worker: bool) -> None:
    made, graph = runner(), batch(4)
    owner = made.eagle_worker if of_worker else made
    owner.__class__ = type("ForksOwn", (type(owner),), {})
    narrow_draft_extend(made, graph)
    assert not hasattr(graph.spec_info, "select_index")
    assert len(graph.next_token_logits_buffer) == 4 * WIDTH
    load_accepted_rows(made, batch(1))


def test_a_batch_that_names_no_rows_is_refused_by_a_graph_that_computes_no_others() -> None:
    made = runner()
    narrow_draft_extend(made, batch(4))
    with pytest.raises(RuntimeError, match="PATCHKIT_DISABLE=35546"):
        load_accepted_rows(made, batch(1))


def test_states_of_a_graph_outlive_its_next_replay() -> None:
    left, rows = torch.tensor([[1.0], [2.0]]), torch.tensor([2, 4])
    kept = own_accepted_states(left, rows)
    left.zero_()
    assert kept.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("taken", [accepted_logits, own_accepted_states])
def test_rows_are_taken_of_all_and_not_of_what_was_taken_before(taken: Any) -> None:
    every, rows = torch.arange(6.0).view(6, 1), torch.tensor([1, 5])
    assert taken(every, rows).tolist() == taken(every[rows], rows).tolist() == [[1.0], [5.0]]

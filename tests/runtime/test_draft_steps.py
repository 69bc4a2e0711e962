from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.backends.draft_steps import init_draft_steps, out_graph_draft_steps, replay_draft_steps

STEPS = (1, 2, 4)


class Recorder:
    """A step's backend that remembers how it was called and has no other method."""

    def __init__(self, step: int, calls: list[Any]) -> None:
        self.step, self.calls = step, calls

    def init_forward_metadata(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append(("init", self.step, args, kwargs))

    def init_forward_metadata_replay_cuda_graph(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append(("replay", self.step, args, kwargs))

    def init_forward_metadata_out_graph(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append(("out_graph", self.step, args, kwargs))


@pytest.fixture(params=STEPS)
def draft(request: pytest.FixtureRequest) -> SimpleNamespace:
    """A multi-step backend with one backend a step, none of whose templates may be called."""
    calls: list[Any] = []
    backends = [Recorder(step, calls) for step in range(request.param)]
    return SimpleNamespace(speculative_num_steps=request.param, attn_backends=backends, calls=calls)


def test_an_eager_draft_plans_every_step_but_the_last(draft: SimpleNamespace) -> None:
    batch = object()
    init_draft_steps(draft, batch)
    assert draft.calls == [("init", step, (batch,), {}) for step in range(draft.speculative_num_steps - 1)]


@pytest.mark.parametrize("mirror", [None, "a mirror"])
def test_a_replay_plans_every_step_but_the_last_from_the_batch(
    draft: SimpleNamespace, mirror: str | None
) -> None:
    batch = SimpleNamespace(
        req_pool_indices="indices", seq_lens="lens", spec_info="spec info", seq_lens_cpu=mirror
    )
    replay_draft_steps(draft, batch, 8, "decode")
    keywords = {
        "seq_lens_sum": None,
        "encoder_lens": None,
        "forward_mode": "decode",
        "spec_info": "spec info",
        "seq_lens_cpu": mirror,
    }
    assert draft.calls == [
        ("replay", step, (8, "indices", "lens"), keywords) for step in range(draft.speculative_num_steps - 1)
    ]


def test_planning_outside_of_the_graph_gives_every_step_but_the_last_the_same_view(
    draft: SimpleNamespace,
) -> None:
    view = object()
    out_graph_draft_steps(draft, view)
    assert draft.calls == [
        ("out_graph", step, (view,), {}) for step in range(draft.speculative_num_steps - 1)
    ]

"""A draft in one graph passes on what the tree's own does, and runs only where nothing else would have been done."""

from __future__ import annotations

import random
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from support.captured import Graph
from support.chains import CONTEXT, HIDDEN, ROWS, SIZES, WIDTH, Drafting, Mode, chain, planned

from patchkit.runtime.draft_graph import capture_draft, run_draft
from patchkit.runtime.step_inputs import verify_slots

if TYPE_CHECKING:
    from collections.abc import Callable


class EAGLEDraftCudaGraphRunner(SimpleNamespace):
    """Captures and replays a draft's graphs."""

    def _replay_graph(self, key: object, _: object) -> None:
        self.backend.replay(key)


class DecodeCudaGraphRunner(SimpleNamespace):
    """Captures and replays the target's graphs."""


class TritonAttnBackend(SimpleNamespace):
    """A step's backend of sglang's own class."""


class TritonMultiStepDraftBackend:
    """Plans the steps of a draft: the slots that each request has."""

    def __init__(self, table: torch.Tensor) -> None:
        self.attn_backends = [TritonAttnBackend(sliding_window_size=None) for _ in range(WIDTH - 2)]
        self.table = table
        self.planned: list[list[int]] = []

    def init_forward_metadata_out_graph(self, batch: Any) -> None:
        assert (batch.seq_lens_cpu, batch.seq_lens_sum, batch.num_padding) == (None, None, 0)
        self.planned = planned(self.table, batch)


class FullCudaGraphBackend:
    """Captures graphs for a runner."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.graphs: dict[object, Graph] = {}
        self._outputs: dict[object, Any] = {}

    def capture_one(
        self, key: object, run: Callable[[], Any], *, post_warmup_hook: Callable[[], None] | None
    ) -> None:
        run()
        assert post_warmup_hook is None
        self.graphs[key] = graph = Graph()
        self._outputs[key] = self.server.capture(graph, None, None, run)

    def replay(self, key: object) -> None:
        self.graphs[key].replay()


class Server(Drafting):
    """The parts of a worker that such a graph has to do with."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self.steps = TritonMultiStepDraftBackend(self.table)
        largest = max(SIZES)
        model = SimpleNamespace(decode_cuda_graph_runner=DecodeCudaGraphRunner())
        self.target_worker = SimpleNamespace(model_runner=model)
        self.bound: list[object] = []
        self.draft_runner = SimpleNamespace(
            server_args=SimpleNamespace(enable_two_batch_overlap=False, moe_a2a_backend="none"),
            device_timer=None,
            model_config=SimpleNamespace(model_is_mrope=False),
            kv_index_translator=SimpleNamespace(is_translating=False, bind_runner_slots=self.bound.append),
        )
        self.req_to_token_pool = SimpleNamespace(req_to_token=self.table, free_slots=list(range(1, ROWS)))
        self.runner: Any = EAGLEDraftCudaGraphRunner(
            eagle_worker=self,
            model_runner=self.draft_runner,
            backend=FullCudaGraphBackend(self),
            capture_bs=SIZES,
            max_bs=largest,
            speculative_num_steps=WIDTH - 1,
            seq_len_fill_value=1,
            disable_padding=False,
            require_gathered_buffer=False,
            require_mlp_sync=False,
            enable_torch_compile=False,
            draft_attn_backend=self.steps,
            buffers=SimpleNamespace(
                seq_lens=torch.zeros(largest, dtype=torch.int64), hidden_states=torch.zeros(largest, HIDDEN)
            ),
        )
        self.cuda_graph_runner = self.runner
        self.tree_mask_mode, self.device = "mode", "cpu"
        self.parents = torch.arange(-1, WIDTH - 2).repeat(largest, 1)
        self.order = torch.arange(WIDTH - 1).repeat(largest, 1)
        self.change(changes)

    def forward(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        """Draft as the tree's own graph does."""
        drafts = self.drafts_of(batch)
        return self.parents[: len(drafts)], self.order[: len(drafts)], drafts, None

    def capture_all(self) -> Server:
        own = dict.fromkeys(("req_pool_indices", "out_cache_loc", "positions", "topk_p", "topk_index"))
        for size in sorted(SIZES, reverse=True):
            batch = SimpleNamespace(
                **own,
                batch_size=size,
                seq_lens=self.runner.buffers.seq_lens[:size],
                seq_lens_cpu="mirror",
                seq_lens_sum=size,
                spec_info=SimpleNamespace(topk_p=None, topk_index=None, hidden_states=None),
            )
            before = dict(vars(batch))
            capture_draft(self.runner, size, batch, partial(self.forward, batch))
            assert vars(batch) == before
        return self


# The class of sglang's own worker.
Server.__name__ = "EagleDraftWorker"


def build(batch: Any, drafted: Any, *tree: Any, **named: Any) -> Any:
    """Stand for the tree's function that builds a verify's input."""
    return SimpleNamespace(batch=batch, drafted=drafted, tree=tree, named=named)


def build_later(*given: Any, **named: Any) -> Any:
    """Stand for that of later trees, whose input has room for slots."""
    made = build(*given, **named)
    made.prepared_out_cache_loc = None
    return made


def build_with_slots(*given: Any, **named: Any) -> Any:
    """Stand for that of later trees, which looks up the slots with the tree of one branch."""
    made = build(*given, **named)
    made.prepared_out_cache_loc = "own"
    return made


@pytest.mark.parametrize("builds", [build, build_later])
def test_the_tree_builds_its_verify_from_what_the_graph_drafted(builds: Callable[..., Any]) -> None:
    draw, server = random.Random(1), Server().capture_all()
    for _ in range(30):
        count = draw.randint(1, max(SIZES))
        requests = [(row, draw.randrange(1, 50)) for row in draw.sample(range(1, ROWS), count)]
        batch = server.batch(requests, draw)
        made = run_draft(server, batch, builds)
        size = next(each for each in SIZES if each >= count)
        table, given = server.table.tolist(), batch.spec_info
        slots = [[table[row][length + at] for at in range(WIDTH)] for row, length in requests]
        parents, order, tokens, probabilities = made.tree
        assert (made.batch, made.drafted, probabilities) == (batch, given, None)
        assert parents.tolist() == server.parents[:count].tolist()
        assert order.tolist() == server.order[:count].tolist()
        assert tokens.tolist() == [
            chain(
                int(given.topk_index[at, 0]),
                given.hidden_states[at].tolist(),
                table[row][:length],
            )
            for at, (row, length) in enumerate(requests)
        ]
        # The draft itself wrote where the verify does, and nothing for padding.
        written, begins = server.written[-1]
        assert written == [
            slots[at][step] if at < count else 0 for at in range(size) for step in range(WIDTH - 1)
        ]
        assert begins == [length for _, length in requests] + [0] * (size - count)
        found = made.prepared_out_cache_loc if builds is build_later else verify_slots(batch, WIDTH)
        assert found is not None
        assert found.view(count, WIDTH).tolist() == slots
        assert made.named == {
            "target_worker": server.target_worker,
            "topk": 1,
            "num_steps": WIDTH - 1,
            "num_draft_tokens": WIDTH,
            "tree_mask_mode": "mode",
            "device": "cpu",
        }


REQUESTS = [(3, 9), (5, 1)]


def step(server: Server, builds: Callable[..., Any] = build, **changes: Any) -> Any:
    """Draft two requests."""
    return run_draft(server, server.batch(REQUESTS, random.Random(3), **changes), builds)


@pytest.mark.parametrize(("mirror", "total", "known"), [(True, None, 10), (True, 7, 7), (False, None, None)])
def test_the_sum_by_which_the_tree_sizes_a_mask_is_known_where_the_mirror_is(
    mirror: bool, total: int | None, known: int | None
) -> None:
    made = step(
        Server().capture_all(),
        seq_lens_cpu=torch.tensor([9, 1]) if mirror else None,
        seq_lens_sum=total,
    )
    assert made.batch.seq_lens_sum == known


def test_padding_has_no_token_or_state_of_an_earlier_batch() -> None:
    server = Server().capture_all()
    full = server.batch([(3, 9), (5, 1), (6, 2), (7, 4)], random.Random(3))
    full.spec_info.hidden_states, full.spec_info.topk_index = torch.ones(4, HIDDEN), torch.ones(4, 1).long()
    assert run_draft(server, full, build) is not None
    graphs = server.runner.patchkit_drafts
    run_draft(server, server.batch([(3, 9), (5, 1), (6, 2)], random.Random(3)), build)
    assert not graphs.states[3:].any()
    assert not graphs.index[3:].any()


def test_slots_that_the_tree_has_looked_up_are_kept() -> None:
    assert step(Server().capture_all(), build_with_slots).prepared_out_cache_loc == "own"


def test_each_capture_binds_the_slots_of_the_graphs_own_batch() -> None:
    assert len(Server().capture_all().bound) == 2 * len(SIZES)


@pytest.mark.parametrize(
    "change",
    [
        {"topk": 2},
        {"speculative_num_draft_tokens": WIDTH + 1},
        {"target_worker__model_runner__decode_cuda_graph_runner": None},
        {"target_worker__model_runner__decode_cuda_graph_runner": SimpleNamespace()},
        {"target_worker__model_runner__lora_manager": object()},
        {"runner__buffers__offsets_of_a_fork": torch.zeros(4)},
        {"runner__buffers__draft_probs": torch.zeros(4)},
        {"runner__require_gathered_buffer": True},
        {"runner__require_mlp_sync": True},
        {"runner__enable_torch_compile": True},
        {"runner__backend": SimpleNamespace()},
        {"runner__backend": None},
        {"draft_runner__server_args__enable_two_batch_overlap": True},
        {"draft_runner__server_args__moe_a2a_backend": "deepep"},
        {"draft_runner__server_args__enable_return_hidden_states": True},
        {"draft_runner__server_args__enable_return_routed_experts": True},
        {"draft_runner__server_args__speculative_use_rejection_sampling": True},
        {"draft_runner__server_args__enable_lora": True},
        {"draft_runner__server_args__enable_pdmux": True},
        {"draft_runner__server_args__speculative_adaptive": True},
        {"draft_runner__server_args__pp_size": 2},
        {"draft_runner__server_args__tp_size": 2},
        {"draft_runner__model_config__model_is_mrope": True},
        {"draft_runner__kv_index_translator__is_translating": True},
        {"draft_runner__canary_manager": object()},
        {"steps__attn_backends": [TritonAttnBackend(sliding_window_size=128)]},
        {"steps__attn_backends": [TritonAttnBackend(use_sliding_window_kv_pool=True)]},
        {"steps__attn_backends": [SimpleNamespace()]},
        {"steps__window_rail": True},
        {"runner__draft_attn_backend": SimpleNamespace()},
        {"req_to_token_pool__free_slots": list(range(ROWS))},
        {"req_to_token_pool__req_to_token": torch.zeros(CONTEXT, ROWS, dtype=torch.int32).T},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_draft_is_captured_for(change: dict[str, Any]) -> None:
    server = Server(**change).capture_all()
    assert server.graphs == []
    assert run_draft(server, SimpleNamespace(), build) is None


class FlashAttentionBackend(SimpleNamespace):
    """A step's backend of sglang's own class."""


@pytest.mark.parametrize(("mirror", "count"), [(False, len(SIZES)), (True, 0)])
def test_flash_attention_that_plans_on_the_device_is_captured(mirror: bool, count: int) -> None:
    step_backend = FlashAttentionBackend(fa_impl_ver=3, topk=1, needs_cpu_seq_lens=mirror)
    assert len(Server(steps__attn_backends=[step_backend]).capture_all().graphs) == count


@pytest.mark.parametrize("owner", ["worker", "runner"])
def test_no_draft_is_captured_for_a_forks_own_class(owner: str) -> None:
    server = Server()
    made = {"worker": server, "runner": server.runner}[owner]
    made.__class__ = type("ForksOwn", (type(made),), {})
    if owner == "runner":
        # It may have a worker of another form.
        made.eagle_worker = object()
    assert server.capture_all().graphs == []


@pytest.mark.parametrize(
    ("kind", "name"), [(Server, "draft"), (EAGLEDraftCudaGraphRunner, "execute")], ids=["draft", "execute"]
)
def test_no_draft_is_captured_where_a_fork_has_code(
    kind: type, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def of_fork(self: Any, batch: Any) -> None:
        self.hidden_states = self.notes_of_fork(batch.seq_lens)

    monkeypatch.setattr(kind, name, of_fork, raising=False)
    assert Server().capture_all().graphs == []
    assert "code of its own (notes_of_fork)" in caplog.text


def test_a_server_starts_without_what_a_fork_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = Server()
    del server.runner.seq_len_fill_value
    assert server.capture_all().graphs == []
    assert "no draft runs as a whole graph" in caplog.text


def test_no_draft_is_captured_with_the_patch_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "pk-draft-graph")
    assert Server().capture_all().graphs == []


@pytest.mark.parametrize(
    "change",
    [{"plan_stream": object()}, {"speculative_num_draft_tokens": WIDTH + 1}, {"cuda_graph_runner": None}],
    ids=lambda change: next(iter(change)),
)
def test_a_batch_is_drafted_as_before_with(change: dict[str, Any]) -> None:
    server = Server().capture_all()
    server.change(change)
    assert step(server) is None


@pytest.mark.parametrize(
    "change",
    [
        {"forward_mode": Mode(decodes=False)},
        {"global_num_tokens": [2]},
        {"seq_lens": torch.tensor([9, 1], dtype=torch.int32)},
        {"seq_lens": torch.ones(5, dtype=torch.int64)},
        {"spec_info__topk_index": torch.zeros(2, 2, dtype=torch.int64)},
        {"spec_info__hidden_states": None},
        {"spec_info__hidden_states": torch.zeros(2, HIDDEN + 1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_as_before_is_drafted_a_batch_with(change: dict[str, Any]) -> None:
    server = Server().capture_all()
    assert step(server, **change) is None
    assert step(server) is not None


@pytest.mark.parametrize("failure", [RuntimeError, AttributeError])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_capture_that_fails_ends_all(
    fails_at: int, failure: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = Server(fails_at=fails_at, failure=failure("out of memory")).capture_all()
    assert step(server) is None
    assert [record.getMessage() for record in caplog.records] == [
        "patchkit: no draft runs as a whole graph: out of memory"
    ]


def test_a_rank_that_times_its_drafts_replays_what_the_others_do() -> None:
    server = Server().capture_all()
    timed = server.time()
    assert step(server) is not None
    assert timed == [("eagle_draft", 1)]


def test_a_draft_without_hidden_states_is_captured() -> None:
    server = Server(runner__buffers__hidden_states=None)
    tree = server.parents[:2], server.order[:2]
    server.forward = lambda batch: (*tree, batch.spec_info.topk_index.repeat(1, WIDTH - 1), None)  # type: ignore[method-assign]
    assert step(server.capture_all(), spec_info__hidden_states=None) is not None


def test_drafts_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = Server().capture_all()
    for number in range(10):
        step(server, forward_mode=Mode(decodes=number % 4 > 0))
    assert [record.getMessage() for record in caplog.records] == [
        "patchkit: drafts of [1, 2, 4] requests run as whole graphs",
        "patchkit: of 1 drafts, 0 ran as a whole graph",
        "patchkit: of 10 drafts, 7 ran as a whole graph",
    ]

"""A head graph leaves its verify what it needs, and runs only where nothing else would have been done."""

from __future__ import annotations

import gc
import random
import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.captured import Graph
from support.chains import CONTEXT, HIDDEN, ROWS, SIZES, WIDTH, Drafting, Mode, chain, planned

from patchkit.runtime.head_graph import capture_head, is_prepared, run_head
from patchkit.runtime.step_inputs import verify_slots
from patchkit.runtime.triton_attention import replay_triton_verify

MASK = max(SIZES) * WIDTH * (CONTEXT + WIDTH)


class EAGLEDraftCudaGraphRunner(SimpleNamespace):
    """Captures and replays a draft's graphs."""

    def replay(self, batch: Any) -> None:
        """Copy a draft's inputs."""
        self.buffers.seq_lens.copy_(batch.seq_lens)


class CudaGraphRunner(SimpleNamespace):
    """Captures and replays the target's graphs."""


def _extend(_query: object, *, skip_prefix_custom_mask: bool = True) -> None:
    """Stand for the kernel."""


def _reading_all(_query: object, *, skip_prefix_custom_mask: bool = False) -> None:
    """Stand for a fork's kernel."""


class TritonAttnBackend:
    """Has the buffers of sglang's own class."""

    def __init__(self, table: torch.Tensor) -> None:
        self.sliding_window_size = None
        self.req_to_token = table
        self.num_draft_tokens = WIDTH
        self.extend_attention_fwd = _extend
        self.kv_indptr = torch.zeros(max(SIZES) + 1, dtype=torch.int32)
        self.qo_indptr, self.mask_indptr = (torch.zeros(max(SIZES) + 1, dtype=torch.int64) for _ in range(2))
        self.cuda_graph_kv_indices = torch.zeros(max(SIZES) * CONTEXT, dtype=torch.int64)
        self.cuda_graph_custom_mask = torch.zeros(MASK, dtype=torch.uint8)

    def init_forward_metadata_replay_cuda_graph(
        self, size: int, rows: Any, lens: Any, *given: Any, seq_lens_cpu: Any
    ) -> None:
        assert seq_lens_cpu is None
        assert given[:2] == (None, None)
        assert len(rows) == size
        assert replay_triton_verify(self, rows, lens, given[-1])  # type: ignore[arg-type]


class TritonMultiStepDraftBackend:
    """Plans the steps of a draft: the slots that each request has."""

    def __init__(self, table: torch.Tensor) -> None:
        self.attn_backends = [TritonAttnBackend(table) for _ in range(WIDTH - 2)]
        self.table = table
        self.planned: list[list[int]] = []

    def init_forward_metadata_replay_cuda_graph(self, batch: Any, size: int) -> None:
        assert batch.seq_lens_cpu is None
        self.planned = planned(self.table, batch)
        assert len(self.planned) == size


class Server(Drafting):
    """The parts of a worker that a head has to do with."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self.backend, self.steps = TritonAttnBackend(self.table), TritonMultiStepDraftBackend(self.table)
        largest = max(SIZES)

        def zeros(*shape: int, kind: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=kind)

        names = ("input_ids", "out_cache_loc", "positions")
        target_buffers = {name: zeros(largest * WIDTH) for name in names} | {
            "req_pool_indices": zeros(largest),
            "seq_lens": zeros(largest, kind=torch.int32),
            "mamba_track_indices": None,
        }
        self.target = CudaGraphRunner(
            buffers=SimpleNamespace(**target_buffers),
            num_tokens_per_bs=WIDTH,
            bs=0,
            raw_bs=0,
            raw_num_token=0,
            attn_backend=self.backend,
            capture_hidden_mode="full",
            capture_forward_mode="verify",
            get_spec_info=lambda _: SimpleNamespace(custom_mask="the whole"),
            output_buffers=dict.fromkeys(SIZES, "output"),
        )
        self.target.model_runner = SimpleNamespace(graph_runner=self.target, hisparse_coordinator=None)
        self.target_worker = SimpleNamespace(model_runner=self.target.model_runner)
        self.draft_runner = SimpleNamespace(
            server_args=SimpleNamespace(enable_two_batch_overlap=False, moe_a2a_backend="none"),
            device_timer=None,
            model_config=SimpleNamespace(model_is_mrope=False),
        )
        self.pool = SimpleNamespace(req_to_token=self.table, free_slots=list(range(1, ROWS)))
        self.runner: Any = EAGLEDraftCudaGraphRunner(
            eagle_worker=self,
            model_runner=self.draft_runner,
            capture_bs=SIZES,
            max_bs=max(SIZES),
            num_tokens_per_bs=1,
            speculative_num_steps=WIDTH - 1,
            seq_len_fill_value=1,
            disable_padding=False,
            require_gathered_buffer=False,
            require_mlp_sync=False,
            enable_torch_compile=False,
            draft_attn_backend=self.steps,
            stream=None,
            buffers=SimpleNamespace(
                seq_lens=zeros(largest, kind=torch.int32), hidden_states=torch.zeros(largest, HIDDEN)
            ),
            _create_graph=Graph,
            _capture_init=lambda run: [run() for _ in range(2)],
            _capture_graph=self.capture,
        )
        self.cuda_graph_runner = self.runner
        self.change(changes)

    def forward(self, batch: Any) -> tuple[None, None, torch.Tensor]:
        """Draft as the tree's own graph does."""
        return None, None, self.drafts_of(batch)

    def capture_all(self) -> Server:
        own = dict.fromkeys(
            ("req_pool_indices", "seq_lens_cpu", "out_cache_loc", "positions", "topk_p", "topk_index")
        )
        for size in sorted(SIZES, reverse=True):
            batch = SimpleNamespace(
                **own,
                batch_size=size,
                seq_lens=self.runner.buffers.seq_lens[:size],
                req_to_token_pool=self.pool,
                spec_info=SimpleNamespace(topk_p=None, topk_index=None, hidden_states=None),
            )
            capture_head(self.runner, size, batch, partial(self.forward, batch), None)
            assert batch.positions is None
        return self


# The class of sglang's own worker.
Server.__name__ = "EagleDraftWorker"


def drafted(server: Server, batch: Any) -> Any:
    return run_head(server, batch, SimpleNamespace)


def forward_batch(batch: Any, made: Any) -> Any:
    """Return the batch of a verify, as the tree makes it from what the draft left."""
    return SimpleNamespace(
        input_ids=made.draft_token,
        positions=made.positions,
        out_cache_loc=verify_slots(batch, WIDTH),
        seq_lens=batch.seq_lens,
        req_pool_indices=batch.req_pool_indices,
        capture_hidden_mode="full",
        spec_info=made,
    )


def test_a_head_leaves_in_the_targets_buffers_what_a_verify_needs() -> None:
    draw, server = random.Random(1), Server().capture_all()
    own, backend = server.target.buffers, server.backend
    for _ in range(30):
        count = draw.randint(1, max(SIZES))
        requests = [(row, draw.randrange(1, 50)) for row in draw.sample(range(1, ROWS), count)]
        batch = server.batch(requests, draw)
        for value in (own.input_ids, own.positions, own.out_cache_loc, own.seq_lens, own.req_pool_indices):
            value.fill_(7)
        backend.cuda_graph_custom_mask.fill_(7)
        made = drafted(server, batch)
        size = next(each for each in SIZES if each >= count)
        table, given = server.table.tolist(), batch.spec_info
        slots = [table[row][length + at] for row, length in requests for at in range(WIDTH)]
        tokens = []
        for at, (row, length) in enumerate(requests):
            state, first = given.hidden_states[at].tolist(), int(given.topk_index[at, 0])
            tokens += [int(given.bonus_tokens[at]), *chain(first, state, table[row][:length])]
        positions = [length + at for _, length in requests for at in range(WIDTH)]
        assert made.draft_token.tolist() == own.input_ids[: len(tokens)].tolist() == tokens
        assert made.positions.tolist() == own.positions[: len(tokens)].tolist() == positions
        assert own.out_cache_loc[: size * WIDTH].tolist() == slots + [0] * (size - count) * WIDTH
        assert own.seq_lens[:size].tolist() == [length for _, length in requests] + [1] * (size - count)
        assert own.req_pool_indices[:size].tolist() == [row for row, _ in requests] + [0] * (size - count)
        # The draft itself wrote where the verify does, and nothing for padding.
        written, begins = server.written[-1]
        assert written == [
            slots[at * WIDTH + step] if at < count else 0 for at in range(size) for step in range(WIDTH - 1)
        ]
        assert begins == [length for _, length in requests] + [0] * (size - count)
        for at, (_, length) in enumerate(requests):
            start = int(backend.mask_indptr[at])
            mask = backend.cuda_graph_custom_mask[start : start + WIDTH * (length + WIDTH)]
            seen = mask.view(WIDTH, length + WIDTH)[:, length:]
            assert seen.tolist() == torch.ones(WIDTH, WIDTH).tril().tolist()
        verify = forward_batch(batch, made)
        assert verify.out_cache_loc.tolist() == slots
        assert is_prepared(server.target, verify)
        assert (server.target.bs, server.target.raw_bs) == (size, count)
        assert server.target.raw_num_token == count * WIDTH


REQUESTS = [(3, 9), (5, 1)]


def step(server: Server, **changes: Any) -> Any:
    """Draft two requests."""
    return drafted(server, server.batch(REQUESTS, random.Random(3), **changes))


def test_a_chain_is_a_tree_of_one_branch() -> None:
    made = step(Server().capture_all())
    assert made.retrieve_index.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert made.retrieve_next_token.tolist() == [[1, 2, 3, -1]] * 2
    assert made.retrieve_next_sibling.tolist() == [[-1] * WIDTH] * 2
    assert (made.topk, made.spec_steps, made.draft_token_num) == (1, WIDTH - 1, WIDTH)


@pytest.mark.parametrize(
    "change",
    [
        {"topk": 2},
        {"speculative_num_draft_tokens": WIDTH + 1},
        {"target__num_tokens_per_bs": WIDTH + 1},
        {"target__buffers__mamba_track_indices": torch.zeros(4)},
        {"target__buffers__out_cache_loc_swa": torch.zeros(4)},
        {"target_worker__model_runner__graph_runner": None},
        {"target_worker__model_runner__hisparse_coordinator": object()},
        {"target_worker__model_runner__lora_manager": object()},
        {"runner__buffers__offsets_of_a_fork": torch.zeros(4)},
        {"runner__require_gathered_buffer": True},
        {"runner__require_mlp_sync": True},
        {"runner__enable_torch_compile": True},
        {"draft_runner__server_args__enable_two_batch_overlap": True},
        {"draft_runner__server_args__moe_a2a_backend": "deepep"},
        {"draft_runner__server_args__enable_return_hidden_states": True},
        {"draft_runner__server_args__enable_return_routed_experts": True},
        {"draft_runner__server_args__enable_lora": True},
        {"draft_runner__server_args__enable_pdmux": True},
        {"draft_runner__server_args__speculative_adaptive": True},
        {"draft_runner__server_args__pp_size": 2},
        {"draft_runner__model_config__model_is_mrope": True},
        {"draft_runner__model_is_mrope": True},
        {"draft_runner__server_args__tp_size": 2},
        {"backend__sliding_window_size": 128},
        {"backend__enable_deterministic": True},
        {"backend__extend_attention_fwd": _reading_all},
        {"target__attn_backend": SimpleNamespace()},
        {"steps__attn_backends": [SimpleNamespace()]},
        {"runner__draft_attn_backend": SimpleNamespace()},
        {"target_worker__model_runner__graph_runner": SimpleNamespace()},
        {"pool__free_slots": list(range(ROWS))},
        {"pool__req_to_token": torch.zeros(CONTEXT, ROWS, dtype=torch.int32).T},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_head_is_captured_for(change: dict[str, Any]) -> None:
    server = Server(**change).capture_all()
    assert server.graphs == []
    assert drafted(server, SimpleNamespace()) is None


@pytest.mark.parametrize("owner", ["worker", "runner", "target"])
def test_no_head_is_captured_for_a_forks_own_class(owner: str) -> None:
    server = Server()
    made = {"worker": server, "runner": server.runner, "target": server.target}[owner]
    made.__class__ = type("ForksOwn", (type(made),), {})
    if owner == "runner":
        # It may have a worker of another form.
        made.eagle_worker = object()
    assert server.capture_all().graphs == []
    assert drafted(server, SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Server, "draft"), (EAGLEDraftCudaGraphRunner, "replay"), (CudaGraphRunner, "replay_prepare")],
)
def test_no_head_is_captured_where_a_fork_has_code(
    kind: type, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def of_fork(self: Any, batch: Any) -> None:
        self.hidden_states = self.notes_of_fork(batch.seq_lens)

    monkeypatch.setattr(kind, name, of_fork, raising=False)
    assert Server().capture_all().graphs == []
    assert "code of its own (notes_of_fork)" in caplog.text


def test_no_head_is_captured_on_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.3")
    assert Server().capture_all().graphs == []


@pytest.mark.parametrize("named", ["pk-head-graph", "pk-step-inputs", "pk-triton-replay"])
def test_no_head_is_captured_with_a_patch_switched_off(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", named)
    assert Server().capture_all().graphs == []


@pytest.mark.parametrize(
    "change",
    [
        {"plan_stream": object()},
        {"speculative_num_draft_tokens": WIDTH + 1},
        {"target_worker__model_runner__graph_runner": CudaGraphRunner()},
        {"cuda_graph_runner": None},
    ],
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
        {"spec_info__hidden_states": torch.zeros(2, HIDDEN, dtype=torch.float64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_as_before_is_drafted_a_batch_with(change: dict[str, Any]) -> None:
    server = Server().capture_all()
    assert step(server, **change) is None
    assert step(server) is not None


def test_without_padding_a_batch_of_another_size_is_drafted_as_before() -> None:
    server = Server(runner__disable_padding=True).capture_all()
    assert step(server) is not None
    assert drafted(server, server.batch([*REQUESTS, (6, 2)], random.Random(3))) is None


@pytest.mark.parametrize("name", ["input_ids", "positions", "out_cache_loc", "seq_lens", "req_pool_indices"])
def test_a_verify_with_another_tensor_is_prepared_as_before(name: str) -> None:
    server = Server().capture_all()
    batch = server.batch(REQUESTS, random.Random(3))
    verify = forward_batch(batch, drafted(server, batch))
    setattr(verify, name, getattr(verify, name).clone())
    assert not is_prepared(server.target, verify)


def test_a_verify_for_other_hidden_states_or_another_runner_is_prepared_as_before() -> None:
    server = Server().capture_all()
    for target, mode in ((server.target, "last"), (CudaGraphRunner(capture_hidden_mode="full"), "full")):
        batch = server.batch(REQUESTS, random.Random(3))
        verify = forward_batch(batch, drafted(server, batch))
        verify.capture_hidden_mode = mode
        assert not is_prepared(target, verify)


def test_a_verify_is_prepared_by_a_head_once() -> None:
    server = Server().capture_all()
    batch = server.batch(REQUESTS, random.Random(3))
    verify = forward_batch(batch, drafted(server, batch))
    assert [is_prepared(server.target, verify) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("spec_info", [None, SimpleNamespace()])
def test_a_batch_that_no_head_drafted_is_prepared_as_before(spec_info: Any) -> None:
    assert not is_prepared(CudaGraphRunner(), SimpleNamespace(spec_info=spec_info))


def test_a_size_without_a_graph_of_the_target_has_no_head() -> None:
    server = Server()
    del server.target.output_buffers[4]
    assert len(server.capture_all().graphs) == 2
    assert step(server) is not None
    assert drafted(server, server.batch([*REQUESTS, (6, 2)], random.Random(3))) is None


@pytest.mark.parametrize("failure", [RuntimeError, AttributeError])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_capture_that_fails_ends_all_heads(
    fails_at: int, failure: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = Server(fails_at=fails_at, failure=failure("out of memory")).capture_all()
    assert step(server) is None
    assert [record.getMessage() for record in caplog.records] == [
        "patchkit: no draft runs as a head graph: out of memory"
    ]


def test_the_targets_former_graphs_are_freed_when_it_captures_others() -> None:
    server = Server().capture_all()
    former = weakref.ref(server.target)
    graphs = CudaGraphRunner(**vars(server.target) | {"output_buffers": {}})
    server.target_worker = SimpleNamespace(model_runner=SimpleNamespace(graph_runner=graphs))
    server.target = graphs
    graphs.model_runner = server.target_worker.model_runner
    for graph in server.graphs:
        # A real graph does not keep what it was captured from.
        graph.run = None
    gc.collect()
    assert former() is None
    assert step(server) is None


def test_a_rank_that_times_its_drafts_replays_what_the_others_do() -> None:
    server = Server().capture_all()
    timed = server.time()
    assert step(server) is not None
    assert timed == [("eagle_draft", 1)]


def test_a_draft_without_hidden_states_has_a_head() -> None:
    server = Server(runner__buffers__hidden_states=None)
    server.forward = lambda batch: (None, None, batch.spec_info.topk_index.repeat(1, WIDTH - 1))  # type: ignore[method-assign]
    assert step(server.capture_all(), spec_info__hidden_states=None) is not None


def test_the_first_trees_name_the_bonus_token_otherwise() -> None:
    server = Server().capture_all()
    batch = server.batch(REQUESTS, random.Random(3))
    batch.spec_info.verified_id = batch.spec_info.__dict__.pop("bonus_tokens")
    made = drafted(server, batch)
    assert made.draft_token.view(2, WIDTH)[:, 0].tolist() == batch.spec_info.verified_id.tolist()


def test_drafts_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = Server().capture_all()
    for number in range(100):
        step(server, forward_mode=Mode(decodes=number % 4 > 0))
    assert [record.getMessage() for record in caplog.records] == [
        "patchkit: drafts of [1, 2, 4] requests run as head graphs",
        "patchkit: of 1 drafts, 0 ran as a head graph",
        "patchkit: of 10 drafts, 7 ran as a head graph",
        "patchkit: of 100 drafts, 75 ran as a head graph",
    ]

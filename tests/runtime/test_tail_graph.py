"""A tail graph passes on what a draft-extend of its own would, and runs only where it would."""

from __future__ import annotations

import gc
import random
import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.captured import Capturing, Graph

from patchkit.runtime.tail_graph import capture_tail, run_tail
from patchkit.runtime.triton_attention import is_plain_triton, replay_triton_extend

WIDTH, VOCABULARY, HIDDEN, ROWS, CONTEXT = 3, 17, 4, 9, 64
SIZES = [1, 2, 4]


class EAGLEDraftExtendCudaGraphRunner(SimpleNamespace):
    """Captures and replays a draft-extend's graphs."""


class CudaGraphRunner(SimpleNamespace):
    """Captures and replays the target's graphs."""


class FullCudaGraphBackend:
    """Captures the graphs of a later tree's runner."""

    def __init__(self, server: Server) -> None:
        self._outputs: dict[Any, Any] = {}
        self._tp_group = SimpleNamespace(world_size=1)
        self._graphs: dict[Any, Graph] = {}
        self._server = server

    def capture_one(self, key: Any, run: Any, *, post_warmup_hook: Any) -> None:
        graph = self._graphs[key] = Graph()
        for _ in range(2):
            run()
            post_warmup_hook()
        self._outputs[key] = self._server.capture(graph, None, None, run)

    def replay(self, key: Any, *_: Any) -> None:
        self._graphs[key].replay()


class TritonAttnBackend:
    """Has the buffers of sglang's own class."""

    def __init__(self, req_to_token: torch.Tensor) -> None:
        self.sliding_window_size = None
        self.req_to_token = req_to_token
        self.kv_indptr = torch.zeros(max(SIZES) + 1, dtype=torch.int32)
        self.qo_indptr = torch.zeros(max(SIZES) + 1, dtype=torch.int64)
        self.cuda_graph_kv_indices = torch.zeros(max(SIZES) * CONTEXT, dtype=torch.int64)


class _Planning(TritonAttnBackend):
    """The class of a later tree, which plans a replay by its batch."""

    on_after_cuda_graph_warmup = staticmethod(lambda: None)

    def init_forward_metadata_out_graph(self, batch: Any) -> None:
        assert batch.seq_lens_cpu is batch.seq_lens_sum is None
        extended = [WIDTH] * batch.batch_size
        assert (
            batch.spec_info.extend_seq_lens_cpu == batch.spec_info.extend_seq_lens_tensor.tolist() == extended
        )
        assert is_plain_triton(self)
        replay_triton_extend(self, batch.batch_size, batch.req_pool_indices, batch.seq_lens, WIDTH)


_Planning.__name__ = "TritonAttnBackend"


class Model:
    """Writes each token to its slot, and derives its logits from all that its request then has."""

    def __init__(self, backend: TritonAttnBackend) -> None:
        self.backend, self.cache = backend, torch.zeros(ROWS * CONTEXT + 1, HIDDEN, dtype=torch.float64)
        generator = torch.Generator().manual_seed(1)
        self.embedding = torch.randn((VOCABULARY, HIDDEN), generator=generator, dtype=torch.float64)
        self.head = torch.randn((HIDDEN, VOCABULARY), generator=generator, dtype=torch.float64)

    def forward(self, batch: Any) -> Any:
        states = (
            self.embedding[batch.input_ids] + batch.positions[:, None] / 7 + batch.spec_info.hidden_states
        )
        self.cache[batch.out_cache_loc] = states
        starts, slots = self.backend.kv_indptr, self.backend.cuda_graph_kv_indices
        queries = self.backend.qo_indptr
        read = torch.stack(
            [
                self.cache[slots[starts[row] : starts[row + 1]]].sum(0).expand(int(queries[1]), -1)
                for row in range(batch.batch_size)
            ]
        ).flatten(0, 1)
        chosen = (states + read / 50)[batch.spec_info.select_index]
        return SimpleNamespace(next_token_logits=chosen @ self.head, hidden_states=chosen)


class Server(Capturing):
    """The parts of a worker that a tail has to do with; its target's graphs are buffers that a test fills."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self.table = torch.arange(1, ROWS * CONTEXT + 1, dtype=torch.int32).view(ROWS, CONTEXT)
        self.backend = TritonAttnBackend(self.table)
        self.model = Model(self.backend)
        largest = max(SIZES)
        tokens = largest * WIDTH
        buffers = {
            "input_ids": torch.zeros(tokens, dtype=torch.int64),
            "req_pool_indices": torch.zeros(largest, dtype=torch.int64),
            "out_cache_loc": torch.zeros(tokens, dtype=torch.int64),
            "positions": torch.zeros(tokens, dtype=torch.int64),
            "seq_lens": torch.ones(largest, dtype=torch.int32),
        }
        states = torch.zeros(tokens, HIDDEN, dtype=torch.float64)
        self.outputs = {size: SimpleNamespace(hidden_states=states[: size * WIDTH]) for size in SIZES}
        self.target = CudaGraphRunner(
            buffers=SimpleNamespace(**buffers),
            num_tokens_per_bs=WIDTH,
            bs=0,
            raw_bs=0,
            output_buffers=self.outputs,
        )
        self.target_worker = SimpleNamespace(model_runner=SimpleNamespace(graph_runner=self.target))
        args = SimpleNamespace(enable_two_batch_overlap=False, moe_a2a_backend="none")
        self.draft_runner = SimpleNamespace(
            server_args=args,
            device_timer=None,
            model_config=SimpleNamespace(model_is_mrope=False),
        )
        self.runner: Any = EAGLEDraftExtendCudaGraphRunner(
            eagle_worker=self,
            model_runner=self.draft_runner,
            capture_bs=SIZES,
            num_tokens_per_bs=WIDTH,
            require_gathered_buffer=False,
            require_mlp_sync=False,
            enable_torch_compile=False,
            draft_extend_attn_backend=self.backend,
            stream=None,
            buffers=SimpleNamespace(**{name: value.clone() for name, value in buffers.items()}),
            _create_graph=Graph,
            _capture_init=lambda run: [run() for _ in range(2)],
            _capture_graph=self.capture,
        )
        self.runner.buffers.hidden_states = states.clone()
        self.cuda_graph_runner_for_draft_extend = self.runner
        self.topk = 1
        self.plan_stream = None
        self.speculative_num_draft_tokens = WIDTH
        self.prepares = False
        self.change(changes)

    def capture_all(self, *, narrow: bool = True) -> Server:
        rows = torch.zeros(max(SIZES), dtype=torch.int64)
        for size in sorted(SIZES, reverse=True):
            batch = SimpleNamespace(
                batch_size=size,
                seq_lens=self.runner.buffers.seq_lens[:size],
                **dict.fromkeys(
                    ["input_ids", "req_pool_indices", "out_cache_loc", "positions", "extend_seq_lens"]
                ),
                seq_lens_cpu=torch.ones(size),
                seq_lens_sum=size,
                spec_info=SimpleNamespace(select_index=rows[:size] if narrow else None, hidden_states=None),
                forward_mode=SimpleNamespace(is_draft_extend_v2=lambda: True),
            )
            capture_tail(self.runner, size, batch, partial(self.model.forward, batch), None)
        return self

    def verify(self, requests: list[tuple[int, int]], accepted: list[int], draw: random.Random) -> Any:
        """Leave what a target's replay leaves for requests, each a row of the pool and a length; return the result.

        What it does not write of its buffers is what an earlier batch left there.
        """
        count = len(requests)
        size = next(each for each in SIZES if each >= count)
        own, tokens = self.target.buffers, count * WIDTH
        own.seq_lens.fill_(1)
        own.out_cache_loc.zero_()
        for request, (row, length) in enumerate(requests):
            part = slice(request * WIDTH, (request + 1) * WIDTH)
            own.seq_lens[request], own.req_pool_indices[request] = length, row
            own.out_cache_loc[part] = self.table[row, length : length + WIDTH].long()
            own.positions[part] = torch.arange(length, length + WIDTH)
        output = self.outputs[size].hidden_states
        output.copy_(torch.randn(output.shape, generator=torch.Generator().manual_seed(draw.randrange(999))))
        self.target.bs, self.target.raw_bs, self.target._replay_graph_key = size, count, f"{size} requests"
        chosen = torch.tensor([draw.randrange(VOCABULARY) for _ in range(tokens)], dtype=torch.int32)
        lens, prepared = torch.tensor(accepted, dtype=torch.int32), None
        if self.prepares:
            prepared = (lens - 1, torch.arange(count) * WIDTH + lens - 1, chosen.long())
        return SimpleNamespace(
            prepared_draft_extend_inputs=prepared,
            can_run_cuda_graph=True,
            logits_output=SimpleNamespace(hidden_states=output[:tokens]),
            next_token_ids=chosen,
            accept_lens=lens,
            next_draft_input=SimpleNamespace(),
        )

    def extended(self, requests: list[tuple[int, int]], result: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens and states of a draft-extend of the same, made without a graph or padding."""
        rows, lens = (torch.tensor(each) for each in zip(*requests, strict=True))
        backend = TritonAttnBackend(self.table)
        ends = (lens + WIDTH).tolist()
        slots = [self.table[row, :end].long() for row, end in zip(rows.tolist(), ends, strict=True)]
        backend.kv_indptr = torch.tensor([0, *ends]).cumsum(0)
        backend.qo_indptr = torch.arange(len(requests) + 1) * WIDTH
        backend.cuda_graph_kv_indices = torch.cat(slots)
        positions = (lens[:, None] + torch.arange(WIDTH)).flatten()
        model = Model(backend)
        model.cache = self.model.cache.clone()
        left = model.forward(
            SimpleNamespace(
                batch_size=len(requests),
                input_ids=result.next_token_ids.long(),
                positions=positions,
                out_cache_loc=self.table.long()[rows.repeat_interleave(WIDTH), positions],
                spec_info=SimpleNamespace(
                    hidden_states=result.logits_output.hidden_states,
                    select_index=torch.arange(len(requests)) * WIDTH + result.accept_lens - 1,
                ),
            )
        )
        return left.next_token_logits.argmax(-1, keepdim=True), left.hidden_states


class LaterServer(Server):
    """A later tree's: backends capture the graphs, and the target's are known by a key."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self.backend = self.model.backend = self.runner.draft_extend_attn_backend = _Planning(self.table)
        for runner in (self.runner, self.target):
            runner.captured_req_width = runner.num_tokens_per_bs
            runner.backend = FullCudaGraphBackend(self)
            del runner.num_tokens_per_bs
        del self.runner._create_graph, self.runner._capture_init, self.runner._capture_graph
        del self.target.output_buffers
        self.runner._replay_graph = self.runner.backend.replay
        self.target.backend._outputs |= {f"{size} requests": left for size, left in self.outputs.items()}
        self.target._make_graph_key = "{} requests".format
        self.target_worker.model_runner = SimpleNamespace(decode_cuda_graph_runner=self.target)
        given = self.draft_runner.server_args
        given.resolved_dict = lambda: {name: value for name, value in vars(given).items() if value != "given"}
        given.dcp_size, given.enable_lora, given.pp_size = 1, None, "given"
        self.draft_runner.shared_read_done_event = object()
        self.change(changes)


# The class of sglang's own worker.
Server.__name__ = LaterServer.__name__ = "EagleDraftWorker"


@pytest.mark.parametrize("kind", [Server, LaterServer], ids=["first", "later"])
def test_a_tail_passes_on_what_a_draft_extend_does_and_owns_it(kind: type[Server]) -> None:
    draw, server, kept = random.Random(1), kind().capture_all(), []
    lens = {row: draw.randrange(1, 20) for row in range(1, ROWS)}
    for _ in range(40):
        rows = draw.sample(sorted(lens), draw.randint(1, max(SIZES)))
        requests = [(row, lens[row]) for row in rows]
        accepted = [draw.randint(1, WIDTH) for _ in rows]
        server.prepares = kind is LaterServer and draw.random() < 0.5
        result = server.verify(requests, accepted, draw)
        expected = server.extended(requests, result)
        assert run_tail(server, result)
        kept.append((result.next_draft_input, expected))
        lens |= {
            row: (lens[row] + count if lens[row] < 50 else 1)
            for row, count in zip(rows, accepted, strict=True)
        }
    # What each step passed on is read after all others ran.
    for passed, (tokens, states) in kept:
        assert passed.topk_index.tolist() == tokens.tolist()
        assert passed.hidden_states.tolist() == states.tolist()
        assert passed.topk_p.tolist() == [[1.0]] * len(tokens)


REQUESTS = [(3, 9), (5, 1)]


def step(server: Server, **changes: Any) -> tuple[bool, Any]:
    """Verify two requests and change what the verify leaves; return whether a tail ran, and the result."""
    result = server.verify(REQUESTS, [2, 1], random.Random(3))
    for name, value in changes.items():
        setattr(result, name, value)
    return run_tail(server, result), result.next_draft_input


def test_without_any_change_a_tail_runs() -> None:
    assert step(Server().capture_all())[0]


@pytest.mark.parametrize(
    "change",
    [
        {"topk": 2},
        {"target__num_tokens_per_bs": WIDTH + 1},
        {"target__buffers__seq_lens": torch.ones(4, dtype=torch.int64)},
        {"target__buffers__out_cache_loc": torch.zeros(12, dtype=torch.int32)},
        {"target__buffers__out_cache_loc_swa": torch.zeros(12, dtype=torch.int32)},
        {"runner__buffers__hidden_states": torch.zeros(12, HIDDEN + 1, dtype=torch.float64)},
        {"runner__buffers__hidden_states": None},
        {"runner__buffers__offsets_of_a_fork": torch.zeros(4)},
        {"runner__require_gathered_buffer": True},
        {"runner__require_mlp_sync": True},
        {"runner__enable_torch_compile": True},
        {"draft_runner__server_args__enable_two_batch_overlap": True},
        {"draft_runner__server_args__moe_a2a_backend": "deepep"},
        {"draft_runner__server_args__enable_return_hidden_states": True},
        {"draft_runner__model_config__model_is_mrope": True},
        {"draft_runner__model_is_mrope": True},
        {"backend__sliding_window_size": 128},
        {"target_worker__model_runner__graph_runner": None},
        {"draft_runner__server_args__tp_size": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_tail_is_captured_for(change: dict[str, Any]) -> None:
    server = Server(**change).capture_all()
    assert server.graphs == []
    assert not run_tail(server, SimpleNamespace())


@pytest.mark.parametrize("owner", ["worker", "runner", "target"])
def test_no_tail_is_captured_for_a_forks_own_class(owner: str) -> None:
    server = Server()
    made = {"worker": server, "runner": server.runner, "target": server.target}[owner]
    made.__class__ = type("ForksOwn", (type(made),), {})
    if owner == "runner":
        # It may have a worker of another form.
        made.eagle_worker = object()
    assert server.capture_all().graphs == []
    assert not run_tail(server, SimpleNamespace())


@pytest.mark.parametrize("method", ["_draft_extend_for_decode", "prepare_for_draft_extend"])
@pytest.mark.parametrize("kind", [Server, LaterServer], ids=["first", "later"])
def test_no_tail_is_captured_where_a_fork_has_code_in_the_draft_extend(
    kind: type[Server], method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def extend(self: Any, batch: Any, result: Any) -> None:
        self.hidden_states = [self.notes_of_fork(each) for each in (batch.seq_lens, result.accept_lens)]

    monkeypatch.setattr(kind, method, extend, raising=False)
    assert kind().capture_all().graphs == []
    assert "code of its own (notes_of_fork)" in caplog.text


def test_no_tail_is_captured_where_the_lm_head_computes_all_rows() -> None:
    assert Server().capture_all(narrow=False).graphs == []


def test_no_tail_is_captured_on_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.3")
    assert Server().capture_all().graphs == []


@pytest.mark.parametrize("named", ["pk-tail-graph", "26397", "35546", "pk-triton-replay"])
def test_no_tail_is_captured_with_a_patch_switched_off(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", named)
    assert Server().capture_all().graphs == []


@pytest.mark.parametrize(
    "change",
    [
        {"topk": 2},
        {"target__captured_req_width": WIDTH + 1},
        {"runner__backend": SimpleNamespace(_tp_group=None)},
        {"target__backend": SimpleNamespace()},
        {"runner__buffers__dsa_seed_topk_capture": torch.zeros(1)},
        {"runner__buffers__mamba_track_indices": torch.zeros(1)},
        {"draft_runner__canary_manager": object()},
        {"draft_runner__kv_index_translator": SimpleNamespace(is_translating=True)},
        {"target_worker__model_runner__lora_manager": object()},
        {"backend__use_sliding_window_kv_pool": True},
        {"draft_runner__server_args__dcp_size": 2},
        {"draft_runner__server_args__enable_lora": True},
        {"draft_runner__server_args__enable_pdmux": True},
        {"draft_runner__server_args__enable_unified_memory": True},
        {"draft_runner__server_args__pp_size": 2},
        {"draft_runner__server_args__speculative_adaptive": True},
        {"draft_runner__server_args__return_hidden_states_mode": "last"},
        {"draft_runner__server_args__speculative_moe_a2a_backend": "deepep"},
        {"draft_runner__server_args__speculative_use_rejection_sampling": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_tail_is_captured_in_a_later_tree_for(change: dict[str, Any]) -> None:
    server = LaterServer(**change).capture_all()
    assert server.graphs == []
    assert not run_tail(server, SimpleNamespace())


def test_in_a_later_tree_the_scheduler_waits_for_all_that_a_tail_reads() -> None:
    server = LaterServer().capture_all()
    assert step(server)[0]
    assert server.draft_runner.shared_read_done_event is None


def test_behind_another_graph_of_the_same_size_the_draft_is_extended_as_before() -> None:
    server = LaterServer().capture_all()
    result = server.verify(REQUESTS, [2, 1], random.Random(3))
    server.target._replay_graph_key = "2 requests with an adapter"
    assert not run_tail(server, result)


def test_where_the_forward_plans_a_tail_does_not() -> None:
    planned = []
    for captured in (True, False):
        server = LaterServer()
        server.backend.qo_indptr[:] = torch.arange(max(SIZES) + 1) * WIDTH
        attributes = {"fa_impl_ver": 3, "topk": 1, "needs_cpu_seq_lens": False}
        backend = type("FlashAttentionBackend", (), attributes)()
        backend.draft_extend_metadata_captured_in_graph = lambda captured=captured: captured
        backend.on_after_cuda_graph_warmup = lambda: None
        server.runner.draft_extend_attn_backend = backend
        planned.append(len(server.capture_all().graphs))
    assert planned == [3, 0]


def test_a_draft_extend_of_spec_v1_is_left_alone() -> None:
    server = Server()
    batch = SimpleNamespace(forward_mode=SimpleNamespace(is_draft_extend_v2=lambda: False))
    capture_tail(server.runner, 4, batch, lambda: None, None)
    assert not run_tail(server, SimpleNamespace())


@pytest.mark.parametrize(
    "change",
    [
        {"plan_stream": object()},
        {"speculative_num_draft_tokens": WIDTH + 1},
        {"target_worker__model_runner__graph_runner": SimpleNamespace(bs=2, raw_bs=2, output_buffers={})},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_draft_is_extended_as_before_with(change: dict[str, Any]) -> None:
    server = Server().capture_all()
    result = server.verify(REQUESTS, [2, 1], random.Random(3))
    server.change(change)
    assert not run_tail(server, result)
    assert vars(result.next_draft_input) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"can_run_cuda_graph": False},
        {"logits_output": SimpleNamespace(hidden_states=torch.zeros(6, HIDDEN, dtype=torch.float64))},
        {"accept_lens": torch.ones(1, dtype=torch.int32)},
        {"next_token_ids": torch.zeros(2 * WIDTH + 2, dtype=torch.int32)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_draft_is_extended_as_before_behind_a_verify_with(change: dict[str, Any]) -> None:
    ran, following = step(Server().capture_all(), **change)
    assert not ran
    assert vars(following) == {}


def test_a_rank_that_times_its_draft_extends_replays_what_the_others_do() -> None:
    server = Server().capture_all()
    timed = server.time()
    assert step(server)[0]
    assert timed == [("eagle_draft_extend", 1)]


def test_a_target_whose_graph_was_captured_again_has_no_tail_of_that_size() -> None:
    server = Server().capture_all()
    server.target.output_buffers[2] = SimpleNamespace(hidden_states=torch.zeros(6, HIDDEN))
    assert not step(server)[0]


def test_a_size_without_a_graph_of_the_target_has_no_tail() -> None:
    server = Server()
    del server.target.output_buffers[4]
    server.capture_all()
    assert len(server.graphs) == 2
    assert step(server)[0]


@pytest.mark.parametrize("failure", [RuntimeError, AttributeError])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_capture_that_fails_ends_all_tails(
    fails_at: int, failure: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = Server(fails_at=fails_at, failure=failure("out of memory")).capture_all()
    assert not step(server)[0]
    assert [record.getMessage() for record in caplog.records] == [
        "patchkit: no draft-extend runs as a tail graph: out of memory"
    ]


def test_the_targets_former_graphs_are_freed_when_it_captures_others() -> None:
    server = Server().capture_all()
    outputs = server.target.output_buffers
    former = [
        weakref.ref(each) for each in (server.target, *(left.hidden_states for left in outputs.values()))
    ]
    others = {
        size: SimpleNamespace(hidden_states=left.hidden_states.clone()) for size, left in outputs.items()
    }
    graphs = CudaGraphRunner(**vars(server.target) | {"output_buffers": others})
    server.target = server.target_worker.model_runner.graph_runner = graphs
    server.outputs, outputs = others, None
    server.graphs.clear()
    for tail in server.runner.patchkit_tails.by_size.values():
        # A real graph does not keep what it was captured from.
        tail.replay.__self__.run = None
    gc.collect()
    assert [each() for each in former] == [None] * 4
    result = server.verify(REQUESTS, [2, 1], random.Random(3))
    assert not run_tail(server, result)


def test_it_does_not_matter_whether_runners_share_buffers() -> None:
    passed = []
    for shared in (False, True):
        server = Server()
        if shared:
            states = server.runner.buffers.hidden_states
            server.runner.buffers = SimpleNamespace(**vars(server.target.buffers), hidden_states=states)
        ran, following = step(server.capture_all())
        assert ran
        passed.append([value.tolist() for value in vars(following).values()])
    assert passed[0] == passed[1]


def test_what_a_graph_has_in_its_memory_before_a_step_does_not_matter() -> None:
    passed = []
    for poison in (0, 1):
        server = Server().capture_all()
        for graph in server.graphs:
            for left in graph.left:
                left.fill_(poison)
        passed.append([value.tolist() for value in vars(step(server)[1]).values()])
    assert passed[0] == passed[1]


def test_draft_extends_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = Server().capture_all()
    for number in range(100):
        step(server, can_run_cuda_graph=number % 4 > 0)
    assert [record.getMessage() for record in caplog.records] == [
        "patchkit: draft-extends of [1, 2, 4] requests run as tail graphs",
        "patchkit: of 1 draft-extends, 0 ran as a tail graph",
        "patchkit: of 10 draft-extends, 7 ran as a tail graph",
        "patchkit: of 100 draft-extends, 75 ran as a tail graph",
    ]

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from patchkit.runtime import flashinfer, host_plans
from patchkit.runtime.api_1 import (
    capture_flashinfer_draft_extend,
    graphs_draft_extend,
    noting_plans,
    plan_extend_from_host,
    plan_verify_from_host,
    replay_flashinfer_draft_extend,
    step_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE, TOKENS = 3, 4
MODE = SimpleNamespace(is_draft_extend_v2=lambda: True, is_target_verify=lambda: False)


class Event:
    """An event that writes down what is done to it."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def synchronize(self) -> None:
        self._notes.append("wait")

    def record(self) -> None:
        self._notes.append("record")


class Wrapper:
    """A wrapper whose plan is the layout that it was handed."""

    def __init__(self, notes: list[str], device: torch.Tensor, read: tuple[torch.Tensor, ...]) -> None:
        self._device = device
        self._notes = notes
        self._qo_indptr_buf, self._paged_kv_indptr_buf, self._paged_kv_last_page_len_buf = self._read = read
        self._plan_info: list[int] | None = None

    def begin_forward(self, starts: Any, keys: Any, slots: Any, last_pages: Any, **named: Any) -> None:
        del slots, named
        self._notes.append("by device" if starts is self._device else "by host")
        for buffer, given in zip(self._read, (starts, keys, last_pages), strict=True):
            buffer.copy_(given)
        self._plan_info = [int(keys[-1])]


class FlashInferAttnBackend:
    """As much of the tree's backend as a plan looks at."""

    num_wrappers, prefill_backend, dispatch_reason = 1, "fa2", None

    def __init__(self) -> None:
        self.cuda_graph_qo_indptr = (torch.zeros(SIZE + 1, dtype=torch.int32),)
        self.kv_indptr = (torch.zeros(SIZE + 1, dtype=torch.int32),)
        self.kv_last_page_len = torch.ones(SIZE, dtype=torch.int32)
        self.workspace_buffer = self.forward_metadata = None
        self.cuda_graph_kv_indices = (torch.zeros(64, dtype=torch.int32),)
        self.indices_updater_prefill = self

    def update(self, rows: Any, lens: Any, mirror: Any, total: int, **named: Any) -> None:
        del rows, mirror
        starts, keys = self.cuda_graph_qo_indptr[0], self.kv_indptr[0]
        starts[1:] = torch.cumsum(lens - named["prefix_lens"], 0)
        keys[1:] = torch.cumsum(lens, 0)
        (wrapper,) = named["prefill_wrappers"]
        wrapper.begin_forward(starts, keys, torch.empty(total), self.kv_last_page_len, causal=True)


class Server:
    """A backend with one captured graph."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes: list[str] = []
        self.backend: Any = FlashInferAttnBackend()
        worker: Any = SimpleNamespace(
            server_args=SimpleNamespace(speculative_token_map=None),
            draft_extend_attn_backend=self.backend,
            speculative_num_draft_tokens=TOKENS,
        )
        assert graphs_draft_extend(worker, False, on_cuda=True, flashinfer_tokens=TOKENS)
        monkeypatch.setattr(host_plans, "behind", self._behind)
        capture = capture_flashinfer_draft_extend
        assert self._forwarded(capture, make_wrapper=self._wrapper, make_metadata=lambda *made: made)
        self.notes.clear()

    def _behind(self, device: torch.device, event: Any) -> Any:
        event = event or Event(self.notes)
        event.record()
        return event

    def _wrapper(self, *given: Any, **named: Any) -> Wrapper:
        buffers = ("qo_indptr_buf", "paged_kv_indptr_buf", "paged_kv_last_page_len_buf")
        read = tuple(named[name] for name in buffers)
        self.wrapper = Wrapper(self.notes, self.backend.cuda_graph_qo_indptr[0], read)
        return self.wrapper

    def _forwarded(self, function: Callable[..., bool], **named: Any) -> bool:
        return function(self.backend, MODE, SIZE, torch.zeros(SIZE), torch.tensor([9, 5, 7]), **named)

    def _replayed(self, lens: torch.Tensor, total: int | None) -> bool:
        known = {"seq_lens_cpu": lens, "seq_lens_sum": total}
        return self._forwarded(replay_flashinfer_draft_extend, **known, from_host=True)

    def replay(self, mirror: list[int] | None = None, total: int | None = 21) -> list[str]:
        """Return what a replay did, in order."""
        self.notes.clear()
        lens = torch.tensor(mirror or [9, 5, 7])
        assert self._replayed(lens, total)
        assert self.wrapper._plan_info == [21]
        return list(self.notes)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_a_plan_by_the_host_waits_until_the_last_has_left_the_pinned_buffer(server: Server) -> None:
    assert server.replay() == ["by device", "record", "wait", "by host", "record"]
    assert server.replay() == server.replay() == ["wait", "by host", "record"]
    # The ordinary plan waits by itself, and leaves from the same buffer.
    assert server.replay([1, 1, 1]) == server.replay(total=None) == ["by device", "record"]
    assert server.replay() == ["wait", "by host", "record"]


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError])
def test_a_flashinfer_that_refuses_host_lengths_is_logged_once_and_not_tried_again(
    server: Server, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    plan = server.wrapper.begin_forward

    def refusing(starts: Any, *given: Any, **named: Any) -> None:
        if starts is not server.backend.cuda_graph_qo_indptr[0]:
            raise error("on the host")
        plan(starts, *given, **named)

    server.wrapper.begin_forward = refusing  # type: ignore[method-assign]
    assert server.replay() == ["by device", "record", "wait", "by device", "record"]
    assert server.replay() == ["by device", "record"]
    assert caplog.text.count("cannot plan from lengths on the host") == 1


def test_a_flashinfer_that_leaves_another_layout_plans_as_ever(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    plan = server.wrapper.begin_forward

    def ignoring(starts: Any, *given: Any, **named: Any) -> None:
        plan(starts, *given, **named)
        if starts is not server.backend.cuda_graph_qo_indptr[0]:
            server.backend.kv_indptr[0][1] += 1

    server.wrapper.begin_forward = ignoring  # type: ignore[method-assign]
    assert server.replay()[-2:] == server.replay() == ["by device", "record"]
    assert server.backend.kv_indptr[0].tolist() == [0, 9, 14, 21]
    assert caplog.text.count("plan from lengths on the host differs") == 1


def test_a_wrapper_without_a_readable_plan_is_planned_as_before(server: Server) -> None:
    server.wrapper.begin_forward = lambda *given, **named: None  # type: ignore[method-assign]
    server.notes.clear()
    for _ in range(2):
        server.wrapper._plan_info = None
        assert server._replayed(torch.tensor([9, 5, 7]), 21)
    plans: Any = vars(server.wrapper)["patchkit_plans"]
    assert plans.by_host is False


def test_what_is_not_a_draft_extend_of_a_backend_that_was_asked_for_is_left_to_the_tree(
    server: Server,
) -> None:
    other = SimpleNamespace(is_draft_extend_v2=lambda: False, is_target_verify=lambda: True)
    unasked: Any = FlashInferAttnBackend()
    rows, lens = torch.zeros(SIZE), torch.ones(SIZE)
    for backend, mode in ((server.backend, other), (unasked, MODE)):
        assert not replay_flashinfer_draft_extend(
            backend, mode, SIZE, rows, lens, seq_lens_cpu=None, seq_lens_sum=3
        )
    made: Any = {"make_wrapper": server._wrapper, "make_metadata": lambda *made: made}
    assert not capture_flashinfer_draft_extend(unasked, MODE, SIZE, rows, lens, **made)
    assert unasked.forward_metadata is None


def test_an_event_is_behind_what_is_queued_on_a_stream_and_where_there_is_none_nothing_is() -> None:
    assert host_plans.behind(torch.device("cpu"), None) is None
    notes: list[str] = []
    event: Any = Event(notes)
    assert host_plans.behind(torch.device("cuda"), event) is event
    assert notes == ["record"]


def test_a_fork_that_plans_by_keywords_plans_as_ever() -> None:
    calls: list[dict[str, Any]] = []
    wrapper = SimpleNamespace(plan=lambda **named: calls.append(named))
    each = torch.ones(SIZE, dtype=torch.int32)
    layout = host_plans.Layout(host_plans.ends(each), host_plans.ends(each), each)
    for _ in range(2):
        host_plans.HostPlanner(wrapper, layout).plan(qo_indptr="device", page_size=1)
    assert calls == [{"qo_indptr": "device", "page_size": 1}] * 2


@pytest.mark.parametrize("wrong", [[9, 5], [9, 5, 8]])
def test_a_mirror_that_does_not_fit_the_batch_is_left_alone(wrong: list[int]) -> None:
    wrapper = object.__new__(Wrapper)
    batch: Any = SimpleNamespace(
        forward_mode=MODE,
        seq_lens_cpu=torch.tensor(wrong),
        seq_lens_sum=sum(wrong) + (wrong[-1] == 8),
        extend_seq_lens_cpu=[TOKENS] * SIZE,
        extend_prefix_lens_cpu=[each - TOKENS for each in wrong],
    )
    planner: Any = plan_extend_from_host(wrapper, batch)
    assert planner._layout is None
    batch.seq_lens_cpu, batch.seq_lens_sum = torch.tensor([9, 5, 7]), 21
    batch.extend_prefix_lens_cpu = [5, 1, 3]
    fitting: Any = plan_extend_from_host(wrapper, batch)
    assert [each.tolist() for each in fitting._layout] == [[0, 4, 8, 12], [0, 9, 14, 21], [9, 5, 7]]


@pytest.mark.parametrize("prefixes", [None, [5, 0, 3]])
def test_an_extend_shorter_than_its_lengths_is_planned_as_before(prefixes: list[int] | None) -> None:
    # It is widened to the front, where a request of one token has nothing.
    batch: Any = SimpleNamespace(
        forward_mode=MODE,
        seq_lens_cpu=torch.tensor([9, 3, 7]),
        seq_lens_sum=19,
        extend_seq_lens_cpu=[TOKENS] * SIZE,
        extend_prefix_lens_cpu=prefixes,
    )
    planner: Any = plan_extend_from_host(object.__new__(Wrapper), batch)
    assert planner._layout is None


@pytest.mark.parametrize(
    ("kind", "planned"), [("EAGLE_VERIFY", True), ("DFLASH_VERIFY", False), (None, False)]
)
def test_a_verify_is_planned_from_the_mirror_of_a_worker_that_is_known_to_have_the_lengths(
    kind: str | None, planned: bool
) -> None:
    mode: Any = SimpleNamespace(is_target_verify=lambda: True)
    spec = SimpleNamespace(draft_token_num=TOKENS)
    if kind is not None:
        spec.spec_input_type = SimpleNamespace(name=kind)
    lens = torch.tensor([9, 5, 7])
    planner: Any = plan_verify_from_host(
        object.__new__(Wrapper), mode, spec, seq_lens_cpu=lens, seq_lens_sum=21, size=SIZE
    )
    assert (planner._layout is not None) is planned


def test_a_draft_is_planned_by_the_host_once_the_last_plans_have_left_the_pinned_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []

    def behind(device: torch.device, event: Any) -> Any:
        event = event or Event(notes)
        event.record()
        return event

    monkeypatch.setattr(flashinfer, "behind", behind)
    offsets = torch.tensor([[0, 10, 16], [0, 11, 18]], dtype=torch.int32)
    backend = SimpleNamespace(kv_indptr=offsets, topk=1, speculative_num_steps=3)
    planned: list[int] = []
    plan = noting_plans(backend, lambda step, _: planned.append(step))
    spec_info = SimpleNamespace(topk_p=torch.zeros(2, 1))
    batch = SimpleNamespace(seq_lens_cpu=torch.tensor([9, 5]), seq_lens_sum=14, spec_info=spec_info)
    for expected in (["record"], ["wait", "record"], ["wait", "record"]):
        notes.clear()
        assert step_offsets(backend, batch, 2).tolist() == offsets.tolist()
        for each in range(2):
            plan(each, batch)
        assert notes == expected
    assert planned == [0, 1] * 3

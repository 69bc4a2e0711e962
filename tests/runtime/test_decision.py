from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.runtime.api_1 import (
    UNDECLARED,
    decide_needs_cpu_seq_lens,
    decide_with_piecewise_graphs,
    report_mirror,
    spec_v2_backends,
    with_draft_positions,
    with_switches,
)

READS = SimpleNamespace(needs_cpu_seq_lens=True)
OPTED_OUT = SimpleNamespace(needs_cpu_seq_lens=False)
SLOTS = (None, READS, OPTED_OUT, UNDECLARED, SimpleNamespace())
FREE = SimpleNamespace(enable_two_batch_overlap=False, disable_piecewise_cuda_graph=True)


def needs(*backends: object, server: object = FREE) -> bool:
    return decide_needs_cpu_seq_lens(server, backends)


@pytest.mark.parametrize("backends", [*itertools.product(SLOTS, repeat=3)])
def test_target_draft_and_draft_extend_in_every_combination(backends: tuple[object, ...]) -> None:
    assert needs(*backends) is not all(backend is None or backend is OPTED_OUT for backend in backends)


@pytest.mark.parametrize(
    "names", [("prefill_backend", "decode_backend"), ("full_attn_backend", "linear_attn_backend")]
)
@pytest.mark.parametrize("sides", [*itertools.product((READS, OPTED_OUT, UNDECLARED), repeat=2)])
def test_the_flag_of_a_wrapper_is_ignored_where_a_wrapped_backend_has_another(
    names: tuple[str, str], sides: tuple[object, object]
) -> None:
    wrapper = SimpleNamespace(needs_cpu_seq_lens=False, **dict(zip(names, sides, strict=True)))
    assert needs(wrapper) is not (sides == (OPTED_OUT, OPTED_OUT))


def test_names_of_kernels_are_no_backends() -> None:
    names = {"prefill_backend": "fa2", "decode_backend": "auto"}
    assert not needs(SimpleNamespace(needs_cpu_seq_lens=False, **names))
    assert needs(SimpleNamespace(needs_cpu_seq_lens=True, **names))


@given(st.lists(st.sampled_from(SLOTS), max_size=9))
def test_a_worker_of_many_layers_needs_the_mirror_if_any_layer_does(backends: list[object]) -> None:
    assert needs(*backends) is any(needs(backend) for backend in backends)


@given(
    st.lists(st.sampled_from(SLOTS), max_size=5).flatmap(
        lambda slots: st.tuples(st.just(slots), st.permutations(slots))
    )
)
def test_the_order_of_the_slots_does_not_matter(pair: tuple[list[object], list[object]]) -> None:
    before, after = pair
    assert needs(*before) is needs(*after)


@pytest.mark.parametrize(
    ("overlap", "no_piecewise", "forced"),
    [(False, True, False), (False, False, True), (True, True, True), (True, False, True)],
)
def test_server_modes_that_read_the_mirror_outside_of_any_backend_force_it(
    overlap: bool, no_piecewise: bool, forced: bool
) -> None:
    server = SimpleNamespace(enable_two_batch_overlap=overlap, disable_piecewise_cuda_graph=no_piecewise)
    assert needs(OPTED_OUT, server=server) is forced
    assert needs(READS, server=server) is True


@pytest.mark.parametrize("setting", ["enable_two_batch_overlap", "disable_piecewise_cuda_graph"])
def test_a_server_without_the_setting_keeps_the_mirror(setting: str) -> None:
    known = {name: value for name, value in vars(FREE).items() if name != setting}
    assert needs(OPTED_OUT, server=SimpleNamespace(**known)) is True


@pytest.mark.parametrize(
    ("settings", "forced"),
    [
        ({}, False),
        ({"disable_piecewise_cuda_graph": False}, False),
        ({"cuda_graph_config": SimpleNamespace(prefill=SimpleNamespace(backend="tc_piecewise"))}, False),
        ({"enable_breakable_cuda_graph": True}, True),
        ({"speculative_algorithm": "EAGLE3"}, False),
        ({"speculative_algorithm": "NGRAM"}, True),
        ({"speculative_algorithm": "ngram"}, True),
        ({"speculative_algorithm": None}, False),
        ({"enable_two_batch_overlap": True}, True),
    ],
)
def test_piecewise_graphs_that_run_prefills_alone_force_nothing(
    settings: dict[str, object], forced: bool
) -> None:
    server = SimpleNamespace(**{**vars(FREE), **settings})
    assert decide_with_piecewise_graphs(server, [OPTED_OUT]) is forced
    assert decide_with_piecewise_graphs(server, [READS]) is True


def test_with_the_patch_off_piecewise_graphs_force_the_mirror_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "28633")
    assert decide_with_piecewise_graphs(FREE, [OPTED_OUT]) is False
    for backend, kept in (("tc_piecewise", True), ("disabled", False)):
        config = SimpleNamespace(prefill=SimpleNamespace(backend=backend))
        server = SimpleNamespace(enable_two_batch_overlap=False, cuda_graph_config=config)
        assert decide_with_piecewise_graphs(server, [OPTED_OUT]) is kept
    captures = SimpleNamespace(enable_two_batch_overlap=False, disable_piecewise_cuda_graph=False)
    assert decide_with_piecewise_graphs(captures, [OPTED_OUT]) is True


def test_the_flag_of_a_base_class_holds_for_a_subclass() -> None:
    class Base:
        needs_cpu_seq_lens = False

    class Fork(Base):
        pass

    class ForkThatReads(Base):
        needs_cpu_seq_lens = True

    assert needs(Fork()) is False
    assert needs(ForkThatReads()) is True


TARGET = SimpleNamespace(model_runner=SimpleNamespace(attn_backend=OPTED_OUT))


def test_without_a_draft_worker_the_target_decides() -> None:
    assert spec_v2_backends(None, TARGET) == (OPTED_OUT,)


def test_a_draft_worker_names_its_backends() -> None:
    worker = SimpleNamespace(spec_v2_attn_backends=[OPTED_OUT, None, READS])
    assert spec_v2_backends(worker, TARGET) == (OPTED_OUT, None, READS)


def test_a_draft_worker_that_names_none_keeps_the_mirror() -> None:
    assert needs(*spec_v2_backends(SimpleNamespace(), TARGET)) is True


def test_a_draft_worker_that_plans_on_a_stream_keeps_the_mirror() -> None:
    worker = SimpleNamespace(spec_v2_attn_backends=[OPTED_OUT], plan_stream=object())
    assert needs(*spec_v2_backends(worker, TARGET)) is True


def test_a_draft_worker_whose_plan_stream_is_off_names_its_backends() -> None:
    worker = SimpleNamespace(spec_v2_attn_backends=[OPTED_OUT], plan_stream=None)
    assert needs(*spec_v2_backends(worker, TARGET)) is False


class HybridAttnBackend:
    needs_cpu_seq_lens = False

    def __init__(self, *sides: object) -> None:
        self.prefill_backend, self.decode_backend = sides


class TRTLLMMLABackend:
    needs_cpu_seq_lens = False


class ForkOfTRTLLMMLA(TRTLLMMLABackend):
    pass


class ForkThatReads(TRTLLMMLABackend):
    needs_cpu_seq_lens = True


WORKER = object()


@pytest.mark.parametrize(
    ("disable", "backends", "worker", "keeps", "idle"),
    [
        ("", [OPTED_OUT], WORKER, [], ""),
        ("26128", [OPTED_OUT, None], WORKER, ["26128"], ""),
        ("26128", [OPTED_OUT], None, [], "26128"),
        ("26824", [OPTED_OUT, UNDECLARED], WORKER, [], "26824"),
        ("26824", [TRTLLMMLABackend()], WORKER, ["26824"], ""),
        ("26824", [ForkOfTRTLLMMLA()], WORKER, ["26824"], ""),
        # Keeps the mirror anyway.
        ("26824", [ForkThatReads()], WORKER, [], "26824"),
        ("26824", [HybridAttnBackend(OPTED_OUT, TRTLLMMLABackend())], WORKER, ["26824"], ""),
        ("26824,pk-hybrid-opt-out", [HybridAttnBackend(OPTED_OUT, OPTED_OUT)], WORKER, ["pk-hybrid-opt-out"], "26824"),
        # Acts elsewhere.
        ("31364", [OPTED_OUT], WORKER, [], ""),
    ],
)  # fmt: skip
def test_a_disabled_patch_reads_the_mirror_if_a_backend_runs_without_it_by_that_patch(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    disable: str,
    backends: list[object],
    worker: object,
    keeps: list[str],
    idle: str,
) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", disable)
    found = with_switches(backends, worker)
    assert found[: len(backends)] == tuple(backends)
    names = [vars(each)["name"] for each in found[len(backends) :]]
    assert names == [f"PATCHKIT_DISABLE={patch}" for patch in keeps]
    assert needs(*found) is (bool(keeps) or UNDECLARED in backends or any(map(needs, backends)))
    warned = [record.message for record in caplog.records]
    assert [
        f" names {idle}, which does not change whether the CPU mirror is kept: " in message
        for message in warned
    ] == [True] * bool(idle)


@pytest.mark.parametrize("mrope", [True, False])
def test_a_draft_with_multimodal_positions_reads_the_mirror(mrope: bool) -> None:
    runner = SimpleNamespace(model_is_mrope=mrope)
    worker = SimpleNamespace(_draft_worker=SimpleNamespace(draft_runner=runner))
    assert needs(*with_draft_positions([OPTED_OUT], worker)) is mrope
    for other in (None, SimpleNamespace(), SimpleNamespace(_draft_worker=SimpleNamespace())):
        assert with_draft_positions([OPTED_OUT], other) == (OPTED_OUT,)


@pytest.mark.parametrize(
    ("needed", "backends", "worker", "settings", "said"),
    [
        (False, [OPTED_OUT], WORKER, {}, "not kept"),
        (False, [OPTED_OUT], None, {}, "kept for decoding without speculation"),
        (True, [READS], None, {}, "kept for decoding without speculation"),
        (True, [OPTED_OUT, TRTLLMMLABackend(), ForkThatReads()], WORKER, {}, "kept for ForkThatReads"),
        (True, [UNDECLARED], WORKER, {}, "kept for undeclared backends"),
        (True, [OPTED_OUT], WORKER, {"speculative_algorithm": "ngram"}, "kept for n-gram speculation"),
        # A release decides by what no patch knows.
        (True, [OPTED_OUT], WORKER, {}, "kept for the tree's own decision"),
    ],
)
def test_the_log_names_what_keeps_the_mirror_whoever_decides(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    needed: bool,
    backends: list[object],
    worker: object,
    settings: dict[str, object],
    said: str,
) -> None:
    monkeypatch.delenv("PATCHKIT_DISABLE", raising=False)
    with caplog.at_level("INFO"):
        report_mirror(needed, backends, worker, SimpleNamespace(**{**vars(FREE), **settings}))
    (record,) = caplog.records
    assert f"sequence lengths is {said}; patches in the tree" in record.message

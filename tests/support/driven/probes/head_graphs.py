"""Drafts of one chain and their verifies, prepared by the tree's own worker, runners and backends."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.flashattention_backend import FlashAttentionMultiStepBackend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend, TritonMultiStepDraftBackend
from sglang.srt.layers.attention.triton_ops.extend_attention import extend_attention_fwd
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.model_executor import cuda_graph_runner
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner, DecodeInputBuffers
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode
from sglang.srt.speculative import eagle_draft_cuda_graph_runner as drafts
from sglang.srt.speculative import eagle_utils
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.eagle_utils import TreeMaskMode
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker

from . import attention_backends as backends
from . import flash_attention, forward_batches, repeatable
from .accepted_rows import Graph
from .decisions import bare
from .step_inputs import _interpreted

CONTEXT, HIDDEN, VOCABULARY, POISON = 64, 3, 23, 5
_NOTHING = SimpleNamespace(capture=lambda **_: None, replay=lambda: None)


class _Graph(Graph):
    def replay(self) -> None:
        """Compute into the same memory again."""
        for into, found in zip(self.left, self.run(), strict=True):
            into.copy_(found.clone())


def _build(*given: Any) -> None:
    """Stand in for the kernel that builds a tree, for chains."""
    _, _, lens, mask, positions, places, following, siblings, _, _, width, mode = given
    places.copy_(torch.arange(places.numel()).view(places.shape))
    following.copy_(torch.arange(1, width + 1).expand_as(following))
    following[:, -1] = -1
    siblings.fill_(-1)
    positions.copy_((lens[:, None] + torch.arange(width)).flatten())
    start = 0
    for length in lens.tolist():
        before = length if mode == TreeMaskMode.FULL_MASK else 0
        part = mask[start : start + width * (before + width)].view(width, before + width)
        part[:, before:] = torch.ones(width, width).tril().to(mask.dtype)
        start += part.numel()


class _Draft:
    """The draft's runner: each token is written to its slot, and logits follow from all that its request then has."""

    def __init__(self, makes: Any, slots: int) -> None:
        vars(self).update(vars(makes))
        generator = torch.Generator().manual_seed(1)
        self.embedding = torch.randn((VOCABULARY, HIDDEN), generator=generator, dtype=torch.float64)
        self.head = torch.randn((HIDDEN, VOCABULARY), generator=generator, dtype=torch.float64)
        self.cache = torch.zeros((slots, HIDDEN), dtype=torch.float64)

    def forward(self, batch: Any, **_: Any) -> Any:
        """Run one step of the draft."""
        size, given = batch.batch_size, batch.spec_info.hidden_states
        states = self.embedding[batch.input_ids] + batch.positions[:, None] / 7 + given / 3
        self.cache[batch.out_cache_loc] = states
        attended = backends.attended(batch.attn_backend, size, "decode_cuda_graph_metadata")
        states = states + torch.stack([self.cache[slots].sum(0) for slots in attended]) / 50
        output = SimpleNamespace(next_token_logits=states @ self.head, hidden_states=states)
        return SimpleNamespace(logits_output=output)


def _backends(case: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return what makes batches, and the target's and the draft's backend."""
    width, largest = case["draft_tokens"], max(case["captured"])
    server = {"context": CONTEXT, "page_size": 1, "draft_tokens": width, "steps": width - 1}
    server |= {"mla": case["backend"] == "fa3 on MLA"}
    with backends.OnCpu():
        if case["backend"] == "triton":
            runner = backends.model_runner(**server)
            target: Any = TritonAttnBackend(runner)
            draft: Any = TritonMultiStepDraftBackend(runner, 1, width - 1)
        else:
            runner = flash_attention._runner(server)
            target = flash_attention._backend(server)
            draft = FlashAttentionMultiStepBackend(runner, 1, width - 1)
            for each in draft.attn_backends:
                each.fa_impl_ver = 3
        table = runner.req_to_token_pool.req_to_token.contiguous()
        # The first row is that of padding, as in the tree's pool.
        table[0] = 0
        for each in (target, draft, *draft.attn_backends):
            each.req_to_token = table
        runner.req_to_token_pool.req_to_token = table
        runner.req_to_token_pool.free_slots = list(range(1, len(table)))
        target.init_cuda_graph_state(largest, largest * width)
        draft.init_cuda_graph_state(largest, largest)
    makes = forward_batches.runner()
    vars(makes).update(
        req_to_token_pool=runner.req_to_token_pool,
        tp_group=SimpleNamespace(world_size=1, barrier=lambda: None),
        device_timer=None,
        hisparse_coordinator=None,
        is_draft_worker=False,
    )
    vars(makes.server_args).update(
        speculative_num_draft_tokens=width,
        speculative_eagle_topk=1,
        enable_return_hidden_states=case.get("returns_states", False),
    )
    return makes, target, draft


def _target(case: dict[str, Any], makes: Any, backend: Any) -> Any:
    """Return the target's own runner, whose graphs note what they read."""
    width, sizes = case["draft_tokens"], case["captured"]
    largest = max(sizes)
    more = {"enable_mamba_track": False, "require_mlp_tp_gather": False, "is_encoder_decoder": False}
    buffers = DecodeInputBuffers.create(
        device="cpu",
        max_bs=largest,
        max_num_token=largest * width,
        hidden_size=HIDDEN,
        vocab_size=VOCABULARY,
        dtype=torch.float32,
        dp_size=1,
        pp_size=1,
        seq_len_fill_value=1,
        encoder_len_fill_value=0,
        num_tokens_per_bs=width,
        cache_loc_dtype=torch.int64,
        **more,
    )
    made: Any = bare(CudaGraphRunner)
    model = SimpleNamespace(**vars(makes) | {"attn_backend": backend})
    vars(made).update(
        model_runner=model,
        buffers=buffers,
        attn_backend=backend,
        capture_bs=sizes,
        max_bs=largest,
        num_tokens_per_bs=width,
        speculative_num_steps=width - 1,
        speculative_num_draft_tokens=width,
        capture_forward_mode=ForwardMode.TARGET_VERIFY,
        capture_hidden_mode=CaptureHiddenMode.FULL,
        seq_len_fill_value=1,
        deepep_adapter=_NOTHING,
        read=[],
        **dict.fromkeys(
            (
                *("require_mlp_tp_gather", "require_gathered_buffer", "require_mlp_sync", "disable_padding"),
                *("enable_two_batch_overlap", "is_encoder_decoder", "enable_pdmux", "is_dllm"),
                "nsa_enable_prefill_cp",
            ),
            False,
        ),
    )
    output = LogitsProcessorOutput(next_token_logits=None)
    keys = {size: made._make_graph_key(size) for size in sizes}
    made.output_buffers = dict.fromkeys(keys.values(), output)
    made.graphs = {}
    for size, key in keys.items():
        spec = made.get_spec_info(size * width)
        backend.init_forward_metadata_capture_cuda_graph(
            size,
            size * width,
            buffers.req_pool_indices[:size],
            buffers.seq_lens[:size],
            None,
            made.capture_forward_mode,
            spec,
        )
        made.graphs[key] = SimpleNamespace(replay=lambda size=size: made.read.append(_read(made, size)))
    model.graph_runner = made
    return made


def _read(target: Any, size: int) -> dict[str, Any]:
    """Return what the target's graph of a size reads for its requests, and where padding writes."""
    own, width, count, backend = target.buffers, target.num_tokens_per_bs, target.raw_bs, target.attn_backend
    tokens, lens = count * width, own.seq_lens[:size].tolist()
    masks = []
    if isinstance(backend, TritonAttnBackend):
        for request, length in enumerate(lens[:count]):
            start = int(backend.mask_indptr[request])
            part = backend.cuda_graph_custom_mask[start : start + width * (length + width)]
            masks.append(part.view(width, length + width)[:, length:].tolist())
        assert backend.qo_indptr[: size + 1].tolist() == [width * at for at in range(size + 1)]
    else:
        plan = backend.target_verify_metadata[size]
        masks.append(plan.cu_seqlens_k.tolist())
    return {
        "size": [size, target.bs, target.raw_bs, target.raw_num_token],
        "inputs": [
            getattr(own, name)[:tokens].tolist() for name in ("input_ids", "positions", "out_cache_loc")
        ],
        "rows": own.req_pool_indices[:count].tolist(),
        "lens": lens,
        "padding": own.out_cache_loc[tokens : size * width].tolist(),
        "attended": [
            slots.tolist() for slots in backends.attended(backend, size, "target_verify_metadata")[:count]
        ],
        "masks": masks,
    }


def _runner(case: dict[str, Any], worker: Any, backend: Any) -> Any:
    """Return the draft's own runner, with its graphs captured."""
    sizes, steps = case["captured"], case["draft_tokens"] - 1
    drafts.set_dp_buffer_len = drafts.set_is_extend_in_batch = lambda *_: None
    drafts.set_global_graph_memory_pool = drafts.get_global_graph_memory_pool = lambda *_: None
    size = max(sizes)
    wide = {
        name: torch.zeros(size, dtype=torch.int64) for name in ("input_ids", "req_pool_indices", "positions")
    }
    narrow = {
        name: torch.ones(size, dtype=torch.int32) for name in ("seq_lens", "seq_lens_cpu", "extend_seq_lens")
    }
    if case.get("shares"):
        own = worker.target_worker.model_runner.graph_runner.buffers
        wide = {name: getattr(own, name)[:size] for name in wide}
        narrow["seq_lens"] = own.seq_lens
    made: Any = bare(drafts.EAGLEDraftCudaGraphRunner)
    vars(made).update(
        eagle_worker=worker,
        model_runner=worker.draft_runner,
        draft_attn_backend=backend,
        buffers=drafts.EagleDraftInputBuffers(
            **wide,
            **narrow,
            out_cache_loc=torch.zeros(size * steps, dtype=torch.int64),
            mrope_positions=torch.zeros(3, size, dtype=torch.int64),
            topk_p=torch.zeros(size, 1),
            topk_index=torch.zeros(size, 1, dtype=torch.int64),
            hidden_states=torch.zeros(size, HIDDEN, dtype=torch.float64),
            global_num_tokens_gpu=None,
            global_num_tokens_for_logprob_gpu=None,
        ),
        capture_bs=sizes,
        max_bs=size,
        num_tokens_per_bs=1,
        speculative_num_steps=steps,
        topk=1,
        stream=None,
        seq_len_fill_value=1,
        extend_seq_lens_cpu=[1] * size,
        deepep_adapter=_NOTHING,
        graphs={},
        output_buffers={},
        _create_graph=_Graph,
        _capture_init=lambda run: [run() for _ in range(2)],
        _capture_graph=lambda graph, _pool, _stream, run: graph.capture(run),
        **dict.fromkeys(
            (
                *("require_mlp_tp_gather", "require_attn_tp_gather", "require_gathered_buffer"),
                *("require_mlp_sync", "disable_padding", "enable_torch_compile"),
            ),
            False,
        ),
    )
    for each in sorted(sizes, reverse=True):
        made.graphs[each], made.output_buffers[each] = made.capture_one_batch_size(each, None)
    return made


def _worker(case: dict[str, Any]) -> Any:
    # Compiled, it would compute the same, after a minute.
    torch.compiler.set_stance("force_eager")
    width = case["draft_tokens"]
    makes, target_backend, draft_backend = _backends(case)
    cuda_graph_runner.enable_num_token_non_padded = lambda *_: False
    eagle_utils.sgl_build_tree_kernel_efficient = _build
    worker: Any = bare(EagleDraftWorker)
    table = makes.req_to_token_pool.req_to_token
    draft: Any = _Draft(makes, int(table.max()) + 1)
    draft.draft_attn_backend = draft_backend
    draft.model_config = SimpleNamespace(vocab_size=VOCABULARY, model_is_mrope=False)
    generator = torch.Generator().manual_seed(7)
    target = _target(case, makes, target_backend)
    vars(worker).update(
        topk=1,
        speculative_num_steps=width - 1,
        speculative_num_draft_tokens=width,
        draft_runner=draft,
        draft_attn_backend=draft_backend,
        req_to_token_pool=makes.req_to_token_pool,
        target_worker=SimpleNamespace(model_runner=target.model_runner),
        tree_mask_mode=TreeMaskMode.FULL_MASK,
        hot_token_id=torch.randperm(VOCABULARY, generator=generator) if case.get("hot") else None,
        plan_stream=None,
        device="cpu",
    )
    worker.cuda_graph_runner = _runner(case, worker, draft_backend)
    return worker


def _batch(step: dict[str, Any], number: int) -> Any:
    count = len(step["rows"])
    batch = forward_batches.make_batch({"lens": step["lens"], "mode": "DECODE", "mirror": True, "sum": True})
    generator = torch.Generator().manual_seed(number)
    batch.req_pool_indices = torch.tensor(step["rows"])
    tokens = torch.randint(VOCABULARY, (2, count), generator=generator)
    spec_info = EagleDraftInput(
        topk_p=torch.ones(count, 1),
        topk_index=tokens[0][:, None],
        hidden_states=torch.randn((count, HIDDEN), generator=generator, dtype=torch.float64),
    )
    # Its name in the oldest trees.
    name = "bonus_tokens" if hasattr(spec_info, "bonus_tokens") else "verified_id"
    setattr(spec_info, name, tokens[1].to(torch.int64 if number % 2 else torch.int32))
    batch.spec_info = spec_info
    return batch


def _poison(worker: Any) -> None:
    """Leave in the target's buffers what no step may read."""
    target = worker.target_worker.model_runner.graph_runner
    for name in ("input_ids", "positions", "out_cache_loc", "seq_lens", "req_pool_indices"):
        getattr(target.buffers, name).fill_(POISON)
    for name in ("cuda_graph_custom_mask", "cuda_graph_kv_indices"):
        if hasattr(target.attn_backend, name):
            getattr(target.attn_backend, name).fill_(POISON)


def _planned_eagerly(backend: Any, count: int) -> dict[str, Any]:
    """Return what a backend has planned for a verify without a graph."""
    plan = backend.forward_metadata
    if not isinstance(backend, TritonAttnBackend):
        attended = [plan.page_table[row, : plan.cache_seqlens_int32[row]].tolist() for row in range(count)]
        return {"attended": attended}
    starts, tokens = plan.kv_indptr.tolist(), plan.max_extend_len
    masks = []
    for row in range(count):
        length, start = starts[row + 1] - starts[row], int(plan.mask_indptr[row])
        part = plan.custom_mask[start : start + tokens * (length + tokens)].view(tokens, length + tokens)
        masks.append(part[:, length:].int().tolist())
    return {"starts": starts, "attended": plan.kv_indices[: starts[-1]].tolist(), "masks": masks}


@repeatable
def verified(case: dict[str, Any], steps: list[dict[str, Any]], disable: str = "") -> dict[str, Any]:
    """Draft and verify each batch; return what each verify reads and is made of, and what the drafts have written.

    With ``shares`` the draft's buffers are in the memory of the target's. ``then`` says what a step does between the
    two: it gives the verify other ``tokens`` or ``positions``, asks for other hidden states, or for no graph.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    worker, made = _worker(case), []
    forward_batches._serve(enable_mamba_extra_buffer=lambda: False)
    _interpreted()
    target = worker.target_worker.model_runner.graph_runner
    target.capture = lambda: None
    asks, prepared = target.recapture_if_needed, []

    def noting(batch: Any) -> None:
        prepared.append(number)
        asks(batch)

    target.recapture_if_needed = noting
    names = (
        *("retrieve_index", "retrieve_next_token", "retrieve_next_sibling", "draft_token", "positions"),
        *("spec_steps", "topk", "draft_token_num", "retrieve_cum_len", "seq_lens_sum"),
    )
    for number, step in enumerate(steps):
        _poison(worker)
        batch, then = _batch(step, number), step.get("then")
        batch.spec_info = verify = worker.draft(batch)
        found = {name: backends.plain(getattr(verify, name)) for name in names}
        if then == "tokens":
            verify.draft_token = verify.draft_token + 1
        elif then == "positions":
            verify.positions = verify.positions + 1
        elif then == "states":
            target.capture_hidden_mode = CaptureHiddenMode.LAST
        target.can_run = lambda _, then=then: then != "eager"
        with backends.OnCpu():
            planned, graph = verify.prepare_for_v2_verify(
                worker.req_to_token_pool, batch, worker.target_worker
            )
        if graph:
            target.replay(planned, skip_attn_backend_init=True)
        else:
            target.read.append(_planned_eagerly(target.attn_backend, len(step["rows"])))
        made.append(found | {"slots": backends.plain(planned.out_cache_loc), "graph": graph})
    heads = getattr(worker.cuda_graph_runner, "patchkit_heads", None)
    return {
        "verifies": made,
        "read": target.read,
        # The first slot is that of padding.
        "cache": worker.draft_runner.cache[1:].tolist(),
        "heads": 0 if heads is None else heads.steps[True],
        # The steps in which the tree prepared the replay of the verify.
        "prepared": prepared,
    }


def attended(lens: list[int], width: int, seed: int) -> list[Any]:
    """Verify chains by Triton's own kernel, with the whole mask of a tree and with one that is poison over the context.

    Return both outputs.
    """
    count, dim = len(lens), 16
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    query, keys, values = (drawn(count * width, 1, dim) for _ in range(3))
    cache = drawn(2, sum(lens) + 1, 1, dim)
    starts, masks = [
        torch.tensor([0, *each]).cumsum(0) for each in (lens, [width * (at + width) for at in lens])
    ]
    whole = torch.ones(int(masks[-1]), dtype=torch.uint8)
    places = torch.zeros((3, count, width), dtype=torch.int64)
    positions = torch.zeros(count * width, dtype=torch.int64)
    _build(
        None, None, torch.tensor(lens), whole, positions, *places, None, None, width, TreeMaskMode.FULL_MASK
    )
    poisoned = torch.zeros_like(whole)
    for request, length in enumerate(lens):
        part = slice(int(masks[request]), int(masks[request + 1]))
        into, given = (mask[part].view(width, length + width) for mask in (poisoned, whole))
        into[:, length:] = given[:, length:]
    outputs = []
    for mask in (whole, poisoned):
        output = torch.zeros_like(query)
        extend_attention_fwd(
            *(query, keys, values, output, *cache),
            torch.arange(count + 1) * width,
            starts.to(torch.int32),
            torch.arange(sum(lens)) + 1,
            *(mask, True, masks, width, 1.0, 1.0),
        )
        outputs.append(output.tolist())
    return outputs

"""Steps of the v1 worker from a verify's logits to the inputs of its draft-extend."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode
from sglang.srt.speculative import eagle_info, eagle_worker
from sglang.srt.speculative.eagle_info import EagleVerifyInput
from sglang.srt.speculative.eagle_worker import EAGLEWorker

from . import repeatable
from .decisions import bare
from .drafts import HIDDEN, _Operators
from .lengths import set_server
from .verified import _links, _verify_tree

WIDTH = 60
SLOTS = 300


class _Request(SimpleNamespace):
    """A request that ends after so many tokens."""

    def check_finished(self) -> None:
        """Ends are looked up when asked for."""

    def finished(self) -> bool:
        """Return whether it has as many tokens as it wants."""
        return bool(len(self.output_ids) >= self.limit)


def _request(limit: int, returns: bool) -> _Request:
    counts = ("kv_committed_len", "kv_allocated_len", "spec_verify_ct")
    drafts = ("spec_num_correct_drafts", "spec_accepted_drafts")
    made = _Request(output_ids=[], limit=limit, require_reasoning=False, grammar=None, histogram=[])
    vars(made).update(dict.fromkeys((*counts, *drafts), 0), return_hidden_states=returns)
    made.update_spec_correct_drafts_histogram = made.histogram.append
    made.update_spec_acceptance_histogram = made.histogram.append
    return made


def _verify_input(draw: random.Random, drafts: torch.Tensor, depth: int) -> Any:
    rows, tokens = drafts.shape
    made: Any = bare(EagleVerifyInput)
    vars(made).update(
        draft_token=drafts.flatten(),
        draft_token_num=tokens,
        num_tokens_per_req=tokens,
        spec_steps=depth - 1,
        topk=3,
        grammar=None,
        capture_hidden_mode=CaptureHiddenMode.FULL,
        seq_lens_cpu=None,
        **_links(draw, rows, tokens),
    )
    return made


def _plain(value: Any) -> Any:
    return [str(value.dtype), value.tolist()] if isinstance(value, torch.Tensor) else value


@repeatable
def steps(case: dict[str, Any], disable: str = "") -> list[dict[str, Any]]:
    """Verify random trees of a batch, step after step; return all that is left after each of them."""
    os.environ["PATCHKIT_DISABLE"] = disable
    server = set_server(enable_mamba_extra_buffer=lambda: False)
    eagle_info.get_global_server_args = lambda: server
    eagle_info.verify_tree_greedy_func = _verify_tree
    eagle_info.SIMULATE_ACC_LEN = 0
    # Without a GPU every batch is verified so: what counts is what the batch says.
    eagle_info.TREE_SPEC_KERNEL_AVAILABLE = False
    draw = random.Random(case["seed"])
    torch.manual_seed(case["seed"])
    lens, tokens, depth = case["lens"], case["tokens"], case["depth"]
    rows = len(lens)
    pool = SimpleNamespace(req_to_token=torch.zeros((rows, WIDTH), dtype=torch.int32))
    allocator: Any = TokenToKVPoolAllocator(SLOTS, torch.float16, "cpu", SimpleNamespace(), need_sort=False)
    tree = SimpleNamespace(token_to_kv_pool_allocator=allocator, is_chunk_cache=lambda: True)
    seen: list[Any] = []
    forwarded = SimpleNamespace(can_run_cuda_graph=True)
    eagle_worker.add_output_logprobs_for_spec_v1 = lambda *given: seen.append(
        _plain(given[2].next_token_logits)
    )
    configs = ("hybrid_gdn_config", "mamba2_config", "hybrid_lightning_config")
    worker: Any = bare(EAGLEWorker)
    vars(worker).update(
        page_size=1,
        speculative_num_steps=depth - 1,
        token_to_kv_pool_allocator=allocator,
        target_worker=SimpleNamespace(
            forward_batch_generation=lambda *_, **__: forwarded,
            model_runner=SimpleNamespace(**dict.fromkeys(configs)),
        ),
    )
    batch: Any = SimpleNamespace(
        reqs=[_request(limit, case.get("returns", False)) for limit in case["limits"]],
        seq_lens=torch.tensor(lens),
        seq_lens_cpu=torch.tensor(lens),
        req_pool_indices=torch.randperm(rows),
        req_to_token_pool=pool,
        token_to_kv_pool_allocator=allocator,
        tree_cache=tree,
        device="cpu",
        model_config=SimpleNamespace(think_end_id=None, spec_hidden_size=HIDDEN, dtype=torch.float32),
        has_grammar=False,
        return_logprob=case.get("logprobs", False),
        sampling_info=_sampling(),
        get_model_worker_batch=lambda **_: SimpleNamespace(capture_hidden_mode=CaptureHiddenMode.FULL),
    )
    batch.batch_size = batch.sampling_info.count = lambda: len(batch.reqs)
    for row, length in zip(batch.req_pool_indices.tolist(), lens, strict=True):
        pool.req_to_token[row, :length] = allocator.alloc(length)
    found = []
    for _ in range(case["steps"]):
        count = len(batch.reqs)
        drafts, targets = torch.randint(case["vocabulary"], (2, count, tokens)).unbind()
        output: Any = SimpleNamespace(
            next_token_logits=torch.nn.functional.one_hot(targets.flatten(), case["vocabulary"]).float(),
            hidden_states=torch.arange(count * tokens * HIDDEN).view(-1, HIDDEN) / 8,
        )
        forwarded.logits_output = output
        batch.forward_mode = ForwardMode.DECODE
        batch.spec_info = _verify_input(draw, drafts, depth)
        operators = _Operators()
        with operators:
            requests = batch.reqs
            # 0.5.11 passes the input, too.
            given = (batch, batch.spec_info)[: EAGLEWorker.verify.__code__.co_argcount - 1]
            verified = worker.verify(*given)
            result = next(each for each in verified if type(each).__name__ == "EagleVerifyOutput")
            extend = getattr(result, "draft_extend_input", None) or result.draft_input
            lasting = [at for at, request in enumerate(requests) if not request.finished()]
            if lasting:
                batch.spec_info = extend
                lens_after, lens_cpu_after, rows_after = (
                    batch.seq_lens,
                    batch.seq_lens_cpu,
                    batch.req_pool_indices,
                )
                extend.prepare_extend_after_decode(batch, speculative_num_steps=depth - 1)
        left = {
            name: _plain(value)
            for made in (extend, result)
            for name, value in vars(made).items()
            if isinstance(value, (torch.Tensor, list))
        }
        left |= {
            "requests": [[vars(each)[name] for name in _KEPT if name in vars(each)] for each in requests],
            "pool": pool.req_to_token.tolist(),
            "free": allocator.free_pages.tolist(),
            "written": _plain(batch.out_cache_loc),
            "states": _plain(output.hidden_states),
            "seen": seen[:],
            "operators": operators.seen,
        }
        found.append(left)
        if not lasting:
            break
        keep = torch.tensor(lasting)
        batch.reqs = [requests[at] for at in lasting]
        batch.seq_lens, batch.req_pool_indices = lens_after[keep], rows_after[keep]
        batch.seq_lens_cpu = lens_cpu_after[keep]
        found[-1]["lens"] = [batch.seq_lens.tolist(), batch.seq_lens_cpu.tolist()]
    return found


_KEPT = ("output_ids", "kv_committed_len", "spec_verify_ct", "spec_num_correct_drafts", "histogram")


def drafted(lens: list[int]) -> dict[str, Any]:
    """Return what the v1 worker gives a draft of several branches."""
    allocator = SimpleNamespace(restore_state=lambda _: None)
    worker: Any = bare(EAGLEWorker)
    vars(worker).update(page_size=1, topk=3, speculative_num_steps=2, token_to_kv_pool_allocator=allocator)
    vars(worker).update(extend_lens=None, num_new_pages_per_topk=None)
    eagle_worker.alloc_token_slots = lambda _, count, **__: (torch.arange(count), None)
    eagle_worker.assign_draft_cache_locs = {(len(lens),): lambda *_: None}
    batch: Any = SimpleNamespace(
        reqs=[SimpleNamespace(decode_batch_idx=0) for _ in lens],
        seq_lens=torch.tensor(lens),
        seq_lens_cpu=torch.tensor(lens),
        req_pool_indices=torch.arange(len(lens)),
        req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros((len(lens), WIDTH), dtype=torch.int32)),
        tree_cache=None,
        spec_info=SimpleNamespace(),
        sampling_info=_sampling(),
        batch_size=lambda: len(lens),
        maybe_evict_swa=lambda: None,
    )
    worker._draft_preprocess_decode(batch)
    return {
        "sum": batch.seq_lens_sum,
        "slots": _plain(batch.out_cache_loc),
        "positions": _plain(batch.spec_info.positions),
    }


class _Sampling(SimpleNamespace):
    def __len__(self) -> int:
        """Return the number of requests, which none of the code that runs compares."""
        return int(self.count())


def _sampling() -> _Sampling:
    penalties = SimpleNamespace(is_required=False)
    return _Sampling(
        is_all_greedy=True,
        has_custom_logit_processor=False,
        penalizer_orchestrator=penalties,
        logit_bias=None,
    )

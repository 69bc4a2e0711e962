"""The probabilities that a sampled verify accepts drafts by, and how often each kind of renormalisation ran."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt import server_args
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.sampling import sampling_batch_info
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative import eagle_info, eagle_utils, ngram_info

from . import repeatable
from .decisions import bare

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKENS = 3


class _Reached(Exception):  # noqa: N818 - ends a verify where its drafts are accepted
    pass


def _keep_likeliest(probs: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    ranks = probs.argsort(descending=True, stable=True).argsort()
    kept = torch.where(ranks < counts[:, None], probs, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def _keep_mass(probs: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
    ordered, order = probs.sort(descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.zeros_like(probs).scatter(-1, order, torch.where(before < masses[:, None], ordered, 0.0))
    return kept / kept.sum(-1, keepdim=True)


def _settings() -> None:
    settings = SimpleNamespace(
        enable_deterministic_inference=False,
        enable_custom_logit_processor=False,
        speculative_use_rejection_sampling=False,
        speculative_accept_threshold_single=1.0,
        speculative_accept_threshold_acc=1.0,
    )
    for module in (server_args, sampling_batch_info, eagle_info, ngram_info, _of_samples()[0]):
        vars(module)["get_global_server_args"] = lambda: settings


def _batch(requests: list[dict[str, Any]]) -> Any:
    made = bare(ScheduleBatch)
    vars(made).update(reqs=[], device="cpu")
    for each in requests:
        parameters = SamplingParams(**each)
        parameters.normalize(None)
        made.reqs.append(SimpleNamespace(sampling_params=parameters, custom_logit_processor=None))
    return made


def _of_samples() -> tuple[Any, Callable[..., Any]]:
    """Return the module of the tree's verify of worker v2, and the verify."""
    if hasattr(eagle_utils, "eagle_sample"):
        return eagle_utils, eagle_utils.eagle_sample
    module: Any = import_module("sglang.srt.speculative.eagle_info_v2")
    return module, module.EagleVerifyInputV2Mixin.sample


def _verify_input(kind: type, requests: int) -> Any:
    made = bare(kind)
    shape = (requests, _TOKENS)
    links = torch.arange(requests * _TOKENS).view(shape)
    vars(made).update(
        draft_token=torch.zeros(requests * _TOKENS, dtype=torch.int64),
        draft_token_num=_TOKENS,
        spec_steps=_TOKENS - 1,
        topk=1,
        grammar=None,
        device="cpu",
        retrieve_index=links,
        retrieve_next_token=links,
        retrieve_next_sibling=links,
    )
    return made


def paths() -> list[str]:
    """Return the workers with a verify of their own: since 0.5.14 they all have that of v2."""
    return ["v2", "v1", "ngram"] if hasattr(ngram_info.NgramVerifyInput, "_sampling_verify") else ["v2"]


@repeatable
def verified(
    path: str, requests: list[dict[str, Any]], scores: list[float], joined: int = 0
) -> dict[str, Any]:
    """Verify with a worker (``path``: v2, v1 or ngram) requests with the sampling parameters ``asked``.

    ``scores`` are the logits of a row, rotated by its number. The last ``joined`` requests join a batch of the others.
    """
    first = len(requests) - joined
    _settings()
    # Penalties refer to their batch weakly.
    running, joining = _batch(requests[:first]), _batch(requests[first:])
    sampling = SamplingBatchInfo.from_schedule_batch(running, len(scores))
    if joined:
        sampling.merge_batch(SamplingBatchInfo.from_schedule_batch(joining, len(scores)))
    ran: list[str] = []
    seen: list[torch.Tensor] = []

    def top_k(probs: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        ran.append("top-k")
        return _keep_likeliest(probs, counts)

    def top_p(probs: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
        ran.append("top-p")
        return _keep_mass(probs, masses)

    def accept(**given: Any) -> None:
        seen.append(given["target_probs"])
        raise _Reached

    kernels = {
        "top_k_renorm_prob": top_k,
        "top_p_renorm_prob": top_p,
        "tree_speculative_sampling_target_only": accept,
    }
    samples, sample = _of_samples()
    for module in (eagle_info, ngram_info, samples, import_module("sgl_kernel")):
        vars(module).update(kernels, TREE_SPEC_KERNEL_AVAILABLE=True)
    rows = [
        scores[row % len(scores) :] + scores[: row % len(scores)] for row in range(len(requests) * _TOKENS)
    ]
    output = SimpleNamespace(next_token_logits=torch.tensor(rows))
    batch = SimpleNamespace(
        forward_mode=ForwardMode.TARGET_VERIFY,
        seq_lens=torch.full((len(requests),), 8),
        sampling_info=sampling,
        input_ids=torch.zeros(len(requests) * _TOKENS, dtype=torch.int64),
        device="cpu",
        batch_size=lambda: len(requests),
    )
    kind = ngram_info.NgramVerifyInput if path == "ngram" else eagle_info.EagleVerifyInput
    drafts = _verify_input(kind, len(requests))
    try:
        if path == "v2":
            sample(drafts, batch, output)
        elif path == "v1":
            drafts.verify(batch, output, None, 1)
        else:
            drafts._sampling_verify(batch, output, sampling)
    except _Reached:
        pass
    (probs,) = seen
    return {"probs": probs.flatten(0, 1).tolist(), "ran": ran}

"""The backend that a layer of multi-head latent attention assumes, in each part of a speculating server."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from sglang.srt import server_args
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.models.deepseek_v2 import DeepseekV2AttentionMLA
from sglang.srt.speculative.draft_utils import DraftBackendFactory

from . import servers


def _runner(settings: Any, *, drafts: bool) -> Any:
    """Return a runner that has made its backend."""
    made = MagicMock(server_args=settings, is_draft_worker=drafts)
    made._get_attention_backend = ModelRunner._get_attention_backend.__get__(made)
    made._get_attention_backend_from_str = lambda name, **_: SimpleNamespace(kind=name)
    ModelRunner.init_attention_backend(made)
    return made


def _steps(settings: Any, runner: Any) -> Any:
    """Return the backends of a draft's steps, of which the first drafts alone."""
    names = {settings.attention_backend, settings.speculative_draft_attention_backend}
    kinds = {
        name: lambda name=name: SimpleNamespace(attn_backends=[SimpleNamespace(kind=name)]) for name in names
    }
    factory = DraftBackendFactory(settings, runner, 1, 3)
    return factory._create_backend("decode_attention_backend", kinds, "{backend_type}").attn_backends[0]


def _followed(backend: Any, mode: str) -> list[str]:
    """Return the backend that runs, the one that the layer assumes, and how the layer computes."""
    batch: Any = SimpleNamespace(
        forward_mode=ForwardMode[mode], attn_backend=backend, extend_prefix_lens_cpu=[0]
    )
    within: Any = nullcontext()
    if find_spec("sglang.srt.model_executor.forward_context"):
        context = import_module("sglang.srt.model_executor.forward_context")
        within = context.forward_context(context.ForwardContext(attn_backend=backend))
    layer: Any = SimpleNamespace(disable_chunked_prefix_cache=False)
    with within:
        method = DeepseekV2AttentionMLA.dispatch_attn_forward_method(layer, batch)
    return [backend.kind, layer.current_attention_backend, method.name]


def of_each_part(
    target: str, draft: str | None, *, settings_of_its_own: bool = False
) -> dict[str, list[str]]:
    """Start a target and its draft, which may have other settings; return what each part's layers assume.

    For each: the backend that runs, the one that the layer assumes, and how the layer computes.
    """
    settings = servers._raw({"model_path": "x", "attention_backend": target})
    server_args.set_global_server_args_for_scheduler(settings)
    verifier = _runner(settings, drafts=False)
    if settings_of_its_own:
        theirs = servers._raw({"model_path": "x", "attention_backend": draft})
    else:
        theirs = settings
        object.__setattr__(settings, "speculative_draft_attention_backend", draft)
    drafter = _runner(theirs, drafts=True)
    return {
        "target prefill": _followed(verifier.attn_backend, "EXTEND"),
        "target decode": _followed(verifier.attn_backend, "DECODE"),
        "draft prefill": _followed(drafter.attn_backend, "EXTEND"),
        "draft step": _followed(_steps(theirs, drafter), "DECODE"),
    }

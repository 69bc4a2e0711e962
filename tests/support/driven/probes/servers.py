"""What a server's scheduler decides about the mirror, as its own settings, workers and registries make it."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import textwrap
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args as server_args_module
from sglang.srt.configs.model_config import AttentionArch
from sglang.srt.layers.attention import attention_registry, hybrid_attn_backend
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.managers import scheduler as scheduler_module
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative import draft_utils
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

FACTS = {
    "multi-head latent attention (MLA)": "mla",
    "sliding-window layers": "sliding",
    "local attention": "local",
    "cross attention": "cross",
    "multimodal rotary positions (M-RoPE)": "mrope",
    "an architecture that sglang runs without piecewise CUDA graphs": "pictures",
    "the architecture LlamaForCausalLM": "llama",
}


class _Blank(SimpleNamespace):
    """A model, or its runner, with no more than what tells one server from another."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def _model(facts: set[str]) -> Any:
    arch = "LlamaForCausalLM" if "llama" in facts else "NoSuchForCausalLM"
    return _Blank(
        attention_arch=AttentionArch.MLA if "mla" in facts else AttentionArch.MHA,
        hf_config=SimpleNamespace(architectures=[arch]),
        is_piecewise_cuda_graph_disabled_model=False,
        is_multimodal="pictures" in facts,
        is_multimodal_piecewise_cuda_graph_supported=False,
    )


def _settings(given: dict[str, Any], facts: set[str]) -> Any:
    settings = _raw({"model_path": "x", "device": "cuda", "page_size": 1, **given})
    model = _model(facts)
    # Later trees remember a model by this name, earlier ones ask the settings themselves.
    settings.__dict__ |= {
        "_model_config": model,
        "get_model_config": lambda: model,
        "use_mla_backend": lambda: "mla" in facts,
    }
    if settings.pp_size and settings.pp_size > 1:
        settings.disable_overlap_schedule = True
    settings._resolved_overrides = []
    for handler in ("_handle_piecewise_cuda_graph", "_handle_speculative_decoding"):
        if hasattr(settings, handler):
            getattr(settings, handler)()
    # Where later trees settle what concerns speculation. Which algorithm a draft model stands for it asks a checkpoint.
    hook = _module("sglang.srt.arg_groups.speculative_hook")
    if hook is not None:
        utils = _module("sglang.srt.utils.hf_transformers_utils")
        utils.get_config = lambda *_, **__: SimpleNamespace(architectures=["x"])
        hook.handle_speculative_decoding(settings)
    return settings


def _raw(given: dict[str, Any]) -> Any:
    """Return settings as they are given, which no server has settled yet."""
    kind: Any = ServerArgs
    if not hasattr(kind, "__dataclass_fields__"):
        return kind(**given)
    settings = object.__new__(ServerArgs)
    for field in dataclasses.fields(kind):
        value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        object.__setattr__(settings, field.name, None if value is dataclasses.MISSING else value)
    for name, value in given.items():
        object.__setattr__(settings, name, value)
    return settings


def _settled(settings: Any) -> Any:
    """Return the settings as a server reads them once they are settled."""
    views = _module("sglang.srt.arg_groups.overrides")
    return views.resolved_view(settings) if hasattr(views, "resolved_view") else settings


def _module(name: str) -> Any:
    return importlib.import_module(name) if importlib.util.find_spec(name) is not None else None


_FLAG = "needs_cpu_seq_lens"
_ASSIGNED: dict[Any, Any] = {}


def _assignment(init: Any) -> Any:
    """Return a constructor that does no more than set the flag as this one does; None where it sets none."""
    if init not in _ASSIGNED:
        try:
            made = ast.parse(textwrap.dedent(inspect.getsource(init))).body[0]
        except (OSError, TypeError):
            made = None
        _ASSIGNED[init] = None
        if isinstance(made, ast.FunctionDef):
            made.body = [
                one
                for one in made.body
                if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == f"self.{_FLAG}"
            ]
            if made.body:
                for arg in (*made.args.args, *made.args.kwonlyargs):
                    arg.annotation = None
                space: dict[str, Any] = {}
                exec(compile(ast.Module([made], []), "x", "exec"), init.__globals__, space)
                _ASSIGNED[init] = space["__init__"]
    return _ASSIGNED[init]


def _made(facts: set[str], real: Any) -> Any:
    def init(self: Any, runner: Any = None, *args: Any, **keywords: Any) -> None:
        if _assignment(real) is not None:
            _assignment(real)(self, runner, *args, **keywords)
        self.fa_impl_ver = keywords.get("fa_impl_ver", 3)
        self.topk = _settled(runner.server_args).speculative_eagle_topk or 0
        self.use_mla = "mla" in facts
        self.use_sliding_window_kv_pool = self.has_swa = "sliding" in facts
        self.has_local_attention = "local" in facts
        self.is_encoder_decoder = "cross" in facts
        if "MultiStep" in type(self).__name__:
            self.attn_backends = []
        if "MultiStep" in type(self).__name__ and "Flash" in type(self).__name__:
            from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend

            each = FlashAttentionBackend(runner, fa_impl_ver=self.fa_impl_ver)
            self.attn_backends = [each] * (args[1] - 1)

    return init


_REAL: dict[type, Any] = {}


def _real(cls: type) -> Any:
    """Return the tree's own constructor of a class: its own, or the one that it inherits."""
    return _REAL.setdefault(
        cls,
        next(
            _REAL.get(each, vars(each)["__init__"])
            for each in cls.__mro__
            if each in _REAL or "__init__" in vars(each)
        ),
    )


def _stand_in(facts: set[str]) -> None:
    """Let every backend be made without a GPU; what its flag asks of it is all that it has."""
    seen = set()
    pending = list(AttentionBackend.__subclasses__())
    while pending:
        cls = pending.pop()
        if cls not in seen and cls is not hybrid_attn_backend.HybridAttnBackend:
            seen.add(cls)
            pending += cls.__subclasses__()
            setattr(cls, "__init__", _made(facts, _real(cls)))  # noqa: B010
            setattr(cls, "__abstractmethods__", frozenset())  # noqa: B010
    for module in (
        "cutlass_mla_backend",
        "flashattention_backend",
        "flashinfer_backend",
        "flashinfer_mla_backend",
        "flashmla_backend",
        "triton_backend",
        "trtllm_mha_backend",
        "trtllm_mla_backend",
    ):
        try:
            found = __import__(f"sglang.srt.layers.attention.{module}", fromlist=["x"])
        except ImportError:
            continue
        for cls in vars(found).values():
            if isinstance(cls, type) and cls.__module__ == found.__name__ and "Backend" in cls.__name__:
                setattr(cls, "__init__", _made(facts, _real(cls)))  # noqa: B010
                cls.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def _runner(settings: Any, facts: set[str], *, drafts: bool) -> Any:
    final = _settled(settings)
    override = final.speculative_draft_attention_backend
    runner = _Blank(
        server_args=settings,
        is_draft_worker=drafts,
        draft_attention_backend=override if drafts else None,
        use_mla_backend="mla" in facts,
        model_config=_model(facts),
        init_new_workspace=False,
        model_is_mrope="mrope" in facts,
        plan_stream_for_flashinfer=object(),
        device="cpu",
        spec_algorithm=SpeculativeAlgorithm.from_string(final.speculative_algorithm),
    )
    runner.model_config.is_encoder_decoder = "cross" in facts
    make = lambda name: attention_registry.ATTENTION_BACKENDS[name](runner)  # noqa: E731
    if hasattr(settings, "get_attention_backends"):
        prefill, decode = settings.get_attention_backends()
    else:
        prefill, decode = _module("sglang.srt.arg_groups.overrides").attention_backends_of(final)
    if drafts and override:
        runner.attn_backend = make(override)
    elif prefill == decode:
        runner.attn_backend = make(decode)
    else:
        runner.attn_backend = hybrid_attn_backend.HybridAttnBackend(
            runner, decode_backend=make(decode), prefill_backend=make(prefill)
        )
    return runner


def _publish(settings: Any) -> None:
    """Let the tree's own runtime context, where it has one, hand the settings out."""
    context = _module("sglang.srt.runtime_context")
    if hasattr(context, "publish"):
        # What settles a server's settings has run: the whole of it would ask for a GPU and a checkpoint.
        settings.__dict__["_resolution_finished"] = True
        spawned = getattr(context, "SpawnRanks", None)
        context.publish(
            settings,
            role="scheduler",
            **({"ranks": spawned(world_rank=0, gpu_id=0)} if spawned is not None else {}),
        )


class _RefusedError(Exception):
    """What would start no server."""


def _keeps(given: dict[str, Any], facts: set[str], environment: dict[str, str]) -> tuple[bool, bool | None]:
    for name in ("SGLANG_ENABLE_OVERLAP_PLAN_STREAM", "PATCHKIT_DISABLE"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    _stand_in(facts)
    torch.cuda.get_device_capability = attention_registry.get_device_capability = lambda *_: (9, 0)
    try:
        settings = _settings(given, facts)
        server_args_module._global_server_args = draft_utils_args = settings
        _publish(settings)
        settings.__dict__["use_mla_backend"] = "mla" in facts
        draft_utils.get_global_server_args = lambda: draft_utils_args
        final = _settled(settings)
        algorithm = SpeculativeAlgorithm.from_string(final.speculative_algorithm)
        kind = algorithm.create_worker(settings)
        target, draft = (_runner(settings, facts, drafts=each) for each in (False, True))
        made = type(kind.__name__, (kind,), {})
        setattr(made, "__abstractmethods__", frozenset())  # noqa: B010
        worker: Any = object.__new__(made)
        known = {
            "server_args": settings,
            "draft_model_runner": draft,
            "topk": final.speculative_eagle_topk,
            "speculative_num_steps": final.speculative_num_steps,
        }
        taken = inspect.signature(draft_utils.DraftBackendFactory).parameters
        factory = draft_utils.DraftBackendFactory(**{name: known[name] for name in taken if name in known})
        drafting = SimpleNamespace(draft_runner=draft, model_runner=draft, draft_runner_list=[draft])
        if algorithm.is_eagle() or algorithm.is_standalone():
            drafting.draft_attn_backend = factory.create_decode_backend()
            drafting.draft_extend_attn_backend = factory.create_draft_extend_backend()
            drafting.draft_extend_attn_backend_list = [drafting.draft_extend_attn_backend]
        plan = environment.get("SGLANG_ENABLE_OVERLAP_PLAN_STREAM") == "1"
        # A property of its class, in some workers, is set by its own name in others.
        for name, value in {
            "_target_worker": SimpleNamespace(model_runner=target),
            "target_worker": SimpleNamespace(model_runner=target),
            "_draft_worker": drafting,
            "draft_worker": drafting,
            "draft_model_runner": draft,
            "plan_stream": object() if plan else None,
        }.items():
            if not isinstance(getattr(kind, name, None), property):
                object.__setattr__(worker, name, value)
    except (AssertionError, ValueError, KeyError) as error:
        raise _RefusedError(f"{type(error).__name__}: {error}") from None
    overlaps = not final.disable_overlap_schedule
    return overlaps, _decided(settings, worker, target, algorithm, overlaps=overlaps)


def _decided(settings: Any, worker: Any, target: Any, algorithm: Any, *, overlaps: bool) -> bool | None:
    module = SimpleNamespace(Stream=lambda: None, stream=lambda _: None, Event=lambda: None)
    setattr(torch, "get_device_module", lambda _: module)  # noqa: B010
    flags: list[bool] = []
    name = "decide_needs_cpu_seq_lens"
    decide = getattr(scheduler_module, name, None)
    if decide is None:
        return None

    def listening(*args: Any, **keywords: Any) -> bool:
        flags.append(bool(decide(*args, **keywords)))
        return flags[-1]

    setattr(scheduler_module, name, listening)
    scheduler = object.__new__(scheduler_module.Scheduler)
    vars(scheduler).update(
        device="cpu",
        forward_stream=None,
        enable_overlap=overlaps,
        server_args=settings,
        draft_worker=worker,
        tp_worker=SimpleNamespace(model_runner=target),
        max_running_requests=4,
        chunked_prefill_size=16,
        model_config=SimpleNamespace(context_len=32),
        spec_algorithm=algorithm,
        req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(4, 8)),
    )
    try:
        scheduler.init_overlap()
    except Exception:
        if not flags:
            raise
    finally:
        setattr(scheduler_module, name, decide)
    return flags[-1] if flags else None


def decisions(
    requests: list[tuple[dict[str, Any], dict[str, str]]], models: list[list[str]]
) -> list[list[tuple[bool, bool | None] | str]]:
    """Return, for each server and kind of model, whether it overlaps and what is decided, or why none would start.

    A decision of None: nothing in the tree asks for one.
    """
    found: list[list[tuple[bool, bool | None] | str]] = []
    for given, environment in requests:
        row: list[tuple[bool, bool | None] | str] = []
        for model in models:
            try:
                row.append(_keeps(given, {FACTS[fact] for fact in model}, environment))
            except _RefusedError as error:
                row.append(str(error))
        found.append(row)
    return found


def settled(
    requests: list[tuple[dict[str, Any], dict[str, str]]], models: list[list[str]]
) -> list[list[dict[str, Any]]]:
    """Return the plain settings of each server with each kind of model, none of one that would not start."""
    found: list[list[dict[str, Any]]] = []
    for given, environment in requests:
        for name in ("SGLANG_ENABLE_OVERLAP_PLAN_STREAM", "PATCHKIT_DISABLE"):
            os.environ.pop(name, None)
        os.environ.update(environment)
        row: list[dict[str, Any]] = []
        for model in models:
            try:
                settings = _settings(given, {FACTS[fact] for fact in model})
            except (AssertionError, ValueError, KeyError):
                row.append({})
                continue
            final = _settled(settings)
            names = getattr(ServerArgs, "__struct_fields__", None) or ServerArgs.__dataclass_fields__
            values = {name: getattr(final, name, None) for name in names}
            plain = (bool, int, float, str, type(None))
            row.append({name: value for name, value in values.items() if isinstance(value, plain)})
        found.append(row)
    return found

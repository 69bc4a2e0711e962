"""A server's start: the scheduler makes workers, pools, attention backends and graph runners in the tree's order."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import sglang
import torch
from sglang.srt import server_args as server_args_module
from sglang.srt.configs.model_config import AttentionArch, ModelConfig
from sglang.srt.managers import tp_worker
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.model_executor import model_runner as model_runner_module
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

CONTEXT, REQUESTS, SLOTS, LAYERS, HEADS, HEAD_DIM, VOCABULARY = 64, 4, 256, 2, 2, 8, 32

WORKERS: dict[str, dict[str, Any]] = {
    "none": {},
    "eagle": {"speculative_algorithm": "EAGLE"},
    "eagle3": {"speculative_algorithm": "EAGLE3"},
    "standalone": {"speculative_algorithm": "STANDALONE"},
    "multi-layer": {"speculative_algorithm": "EAGLE", "enable_multi_layer_eagle": True},
    "frozen-kv": {"speculative_algorithm": "FROZEN_KV_MTP"},
    "ngram": {"speculative_algorithm": "NGRAM"},
    "dflash": {"speculative_algorithm": "DFLASH"},
}
_TREE = str(Path(sglang.__file__).parent)
_MARK = re.compile(r"\s*# patchkit ([\w-]+:.*)")


class _StartedError(Exception):
    """Raised once the scheduler has made everything that this probe needs."""


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"sglang.srt.{name}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("sglang.srt"):
            return None
        raise


for _name in (
    "configs.qwen3_next",
    *(
        f"layers.attention.{name}_backend"
        for name in (
            *("deepseek_v4", "flashattention", "flashinfer", "flashinfer_mla", "hybrid_linear_attn"),
            *("linear.gdn", "linear.kda", "triton", "trtllm_mha", "trtllm_mla"),
        )
    ),
    *("speculative.dflash_worker", "speculative.frozen_kv_mtp_worker", "speculative.ngram_worker"),
    *(
        f"speculative.{name}_worker_v2"
        for name in ("dflash", "eagle", "frozen_kv_mtp", "multi_layer_eagle", "standalone")
    ),
):
    # Once for all starts of this tree, each of which is made in a fork.
    _module(_name)


class _OnCpu(TorchFunctionMode):
    """Allocates on the CPU what the tree would allocate on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        kwargs.pop("pin_memory", None)
        args = tuple(
            "cpu" if isinstance(argument, str) and argument.startswith("cuda") else argument
            for argument in args
        )
        return func(*args, **kwargs)


class _Config:
    """What a checkpoint's configuration says: names that it lacks are absent."""

    architectures: ClassVar[list[str]] = ["LlamaForCausalLM"]
    num_hidden_layers = LAYERS
    num_attention_heads = HEADS
    num_key_value_heads = HEADS
    head_dim = HEAD_DIM
    hidden_size = HEADS * HEAD_DIM
    vocab_size = VOCABULARY
    torch_dtype = dtype = torch.bfloat16
    model_type = "llama"
    dflash_config: ClassVar[dict[str, Any]] = {"mask_token_id": 1, "target_layer_ids": [0]}

    def get_text_config(self) -> _Config:
        return self


def _hybrid_linear() -> Any:
    """Return the configuration of a model whose first layer has linear attention, its second full attention."""
    cls = _module("configs.qwen3_next").Qwen3NextConfig
    config = object.__new__(cls)
    vars(config).update(
        {
            name: value
            for name, value in vars(_Config).items()
            if not name.startswith("_") and not callable(value)
        },
        architectures=["Qwen3NextForCausalLM"],
        full_attention_interval=LAYERS,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=HEAD_DIM,
        linear_value_head_dim=HEAD_DIM,
        linear_num_key_heads=HEADS,
        linear_num_value_heads=HEADS,
        get_text_config=lambda: config,
    )
    return config


class _ModelConfig:
    """What the tree knows of a model: None or False where nothing is said."""

    context_len = CONTEXT
    num_hidden_layers = num_attention_layers = LAYERS
    num_attention_heads = num_key_value_heads = HEADS
    head_dim = v_head_dim = swa_head_dim = swa_v_head_dim = HEAD_DIM
    hidden_size = spec_hidden_size = HEADS * HEAD_DIM
    vocab_size = VOCABULARY
    dtype = torch.bfloat16
    is_generation = True
    model_path = "stand-in"
    kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim = 16, 8, 8
    scaling = 1.0

    def __init__(self, family: str) -> None:
        self.attention_arch = AttentionArch.MLA if family == "mla" else AttentionArch.MHA
        self.hf_config: Any = _hybrid_linear() if family == "hybrid-linear" else _Config()
        self.hf_text_config = self.hf_config
        self.full_attention_layer_ids = list(range(LAYERS))
        self.swa_attention_layer_ids: list[int] = []
        if family == "mla":
            vars(self.hf_config).update(
                kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, q_lora_rank=16
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def get_num_kv_heads(self, *_: Any, **__: Any) -> int:
        return HEADS

    get_num_attention_heads = get_swa_num_kv_heads = get_num_kv_heads

    def get_total_num_kv_heads(self, *_: Any) -> int:
        return HEADS

    get_total_num_attention_heads = get_max_num_attention_heads = get_total_num_kv_heads


class _Model(torch.nn.Module):
    """A model without weights."""

    hot_token_id = shared_experts_config = candidate_selector = lilicorr = None
    config = _Config()
    backbone_hidden_size = HEADS * HEAD_DIM

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList()
        self.lm_head = SimpleNamespace(weight=torch.zeros(VOCABULARY, HEADS * HEAD_DIM))

    def forward(
        self, input_ids: Any, positions: Any, forward_batch: Any, pp_proxy_tensors: Any = None
    ) -> None:
        raise NotImplementedError

    def get_embed_and_head(self) -> Any:
        return self.lm_head.weight, self.lm_head.weight

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    set_embed_and_head = set_embed = set_eagle3_layers_to_capture = _nothing
    set_dflash_layers_to_capture = set_block_size = _nothing


class _Group:
    """A group of one rank."""

    world_size = ws = 1
    rank = rank_in_group = local_rank = 0
    is_first_rank = is_last_rank = True
    ranks: ClassVar[list[int]] = [0]
    cpu_group = device_group = None
    device = torch.device("cpu")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("comm"):
            return None
        return lambda *_, **__: None


class _Stream:
    """A stream, an event or a graph of a GPU that is not there."""

    device = torch.device("cpu")
    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _without_a_gpu() -> None:
    cuda = torch.cuda

    def of_device(answer: Any) -> Any:
        return lambda *_: answer

    properties = SimpleNamespace(
        multi_processor_count=4,
        total_memory=1 << 33,
        name="stand-in",
        major=9,
        minor=0,
        L2_cache_size=1 << 20,
        is_integrated=False,
    )
    for name, value in {
        "Stream": _Stream,
        "Event": _Stream,
        "CUDAGraph": _Stream,
        "current_stream": lambda *_: _Stream(),
        "stream": lambda *_: nullcontext(),
        "set_stream": lambda *_: None,
        "set_device": lambda *_: None,
        "current_device": lambda: 0,
        "synchronize": lambda *_: None,
        "empty_cache": lambda *_: None,
        "mem_get_info": of_device((1 << 32, 1 << 33)),
        "memory_reserved": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "get_device_properties": of_device(properties),
        "get_device_capability": of_device((9, 0)),
        "get_device_name": of_device("stand-in"),
        "graph_pool_handle": of_device((0, 0)),
        "device_count": lambda: 1,
    }.items():
        setattr(cuda, name, value)


def _alone() -> None:
    """Have every parallel group be one of one rank."""
    for name in ("distributed.parallel_state", "layers.dp_attention"):
        module = _module(name)
        for each, kind in getattr(module, "__annotations__", {}).items():
            if "GroupCoordinator" in str(kind):
                setattr(module, each, _Group())
        for each, value in {
            "_ATTN_TP_RANK": 0,
            "_ATTN_TP_SIZE": 1,
            "_ATTN_DP_RANK": 0,
            "_ATTN_DP_SIZE": 1,
            "_LOCAL_ATTN_DP_SIZE": 1,
            "_LOCAL_ATTN_DP_RANK": 0,
            "_ENABLE_DP_ATTENTION_FLAG": False,
        }.items():
            if hasattr(module, each):
                setattr(module, each, value)


def _replace(owner: Any, **values: Any) -> None:
    """Put stand-ins where the tree has the names."""
    for name, value in values.items():
        if hasattr(owner, name):
            setattr(owner, name, value)


def _made(cls: Any, **values: Any) -> Any:
    wanted = inspect.signature(cls.__init__).parameters
    return cls(**{name: value for name, value in values.items() if name in wanted})


def _pools(runner: Any) -> dict[str, Any]:
    from sglang.srt.mem_cache import memory_pool
    from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator

    common = {
        "page_size": runner.page_size,
        "dtype": torch.bfloat16,
        "layer_num": LAYERS,
        "device": "cpu",
        "enable_memory_saver": False,
        "head_num": HEADS,
        "head_dim": HEAD_DIM,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "start_layer": 0,
        "end_layer": LAYERS - 1,
        "max_context_len": CONTEXT + 16,
    }
    rows, kind = memory_pool.ReqToTokenPool, memory_pool.MHATokenToKVPool
    if runner.use_mla_backend:
        kind = memory_pool.MLATokenToKVPool
    if _FAMILY == "hybrid-linear":
        rows, kind = memory_pool.HybridReqToTokenPool, memory_pool.HybridLinearKVPool
        config = runner.model_config.hf_config
        common |= {
            "mamba_size": REQUESTS,
            "mamba_spec_state_size": REQUESTS,
            "cache_params": config.mamba2_cache_params,
            "mamba_layer_ids": config.linear_layer_ids,
            "full_attention_layer_ids": [0] if runner.is_draft_worker else config.full_attention_layer_ids,
            "enable_mamba_extra_buffer": False,
            "speculative_num_draft_tokens": 4,
            "speculative_eagle_topk": 1,
            "enable_kvcache_transpose": False,
        }
    requests = runner.req_to_token_pool or _made(rows, **common, size=REQUESTS)
    pool = _made(kind, **common, size=SLOTS, mamba_pool=getattr(requests, "mamba_pool", None))
    allocator = runner.token_to_kv_pool_allocator or _made(
        TokenToKVPoolAllocator, size=SLOTS, dtype=torch.bfloat16, device="cpu", kvcache=pool, need_sort=False
    )
    return {
        "max_total_num_tokens": SLOTS,
        "max_running_requests": REQUESTS,
        "req_to_token_pool": requests,
        "token_to_kv_pool": pool,
        "token_to_kv_pool_allocator": allocator,
        "memory_pool_config": SimpleNamespace(
            max_total_num_tokens=SLOTS,
            max_running_requests=REQUESTS,
            full_max_total_num_tokens=SLOTS,
            swa_max_total_num_tokens=SLOTS,
            mem_fraction_static=0.5,
        ),
    }


def _light_runners() -> None:
    """Have runners load no weights and size no memory; everything else is the tree's."""

    def load_model(self: Any) -> None:
        self.model = _Model()
        self.sliding_window_size = None
        self.prefill_aware_swa = False
        self.dtype = torch.bfloat16
        self.weight_load_mem_usage = 0
        self.loader = SimpleNamespace(preloaded_weights_bytes=0)
        self.load_config = None
        self.remote_instance_weight_info = self.startup_weight_load = None

    def init_memory_pool(self: Any, *_: Any) -> None:
        made = _pools(self)
        vars(self).update(made, max_token_pool_size=SLOTS)

    def init_kv_cache_configurator(self: Any, *_: Any, **__: Any) -> None:
        result = SimpleNamespace(
            **_pools(self),
            full_max_total_num_tokens=SLOTS,
            swa_max_total_num_tokens=SLOTS,
            unified_memory_pool=None,
        )
        self.kv_cache_configurator = SimpleNamespace(
            configure=lambda **_: result, logical_token_capacity=lambda *_, **__: SLOTS
        )

    def configure_kv_cache_dtype(self: Any) -> None:
        self.kv_cache_dtype = torch.bfloat16
        self.kv_cache_dtype_str = "auto"

    def init_torch_distributed(self: Any) -> float:
        self.tp_group = self.pp_group = self.attention_tp_group = self.attn_cp_group = (
            self.attention_cp_group
        ) = _Group()
        self.local_omp_cpuid = None
        self.pre_model_load_memory = 1.0
        return 1.0

    def nothing(*_: Any, **__: Any) -> None:
        return None

    _replace(
        ModelRunner,
        load_model=load_model,
        init_memory_pool=init_memory_pool,
        init_kv_cache_configurator=init_kv_cache_configurator,
        configure_kv_cache_dtype=configure_kv_cache_dtype,
        init_cublas=nothing,
        kernel_warmup=nothing,
        init_shared_mooncake_transfer_engine=nothing,
        model_specific_adjustment=nothing,
        check_quantized_moe_compatibility=nothing,
        _prepare_moe_topk=nothing,
    )
    bootstrap: Any = getattr(model_runner_module, "bootstrap", None)
    if hasattr(bootstrap, "measure_pre_model_load_memory"):
        bootstrap.measure_pre_model_load_memory = lambda **_: 1.0
    else:
        ModelRunner.init_torch_distributed = init_torch_distributed
    _replace(
        model_runner_module,
        set_global_expert_location_metadata=nothing,
        compute_initial_expert_location_metadata=nothing,
        prepare_moe_topk=nothing,
        get_available_gpu_memory=lambda *_, **__: 1.0,
        monkey_patch_vllm_parallel_state=nothing,
    )
    utils = _module("utils.common") or _module("utils")
    _replace(tp_worker, broadcast_pyobj=lambda given, *_, **__: given, set_random_seed=nothing)
    ModelConfig.from_server_args = staticmethod(lambda *_, **__: _ModelConfig(_FAMILY))
    _replace(utils, get_available_gpu_memory=lambda *_, **__: 1.0)

    for name in ("layers.attention.flashinfer_backend", "layers.attention.flashinfer_mla_backend"):
        for wrapper in (
            "BatchDecodeWithPagedKVCacheWrapper",
            "BatchMLAPagedAttentionWrapper",
            "BatchPrefillWithPagedKVCacheWrapper",
            "BatchPrefillWithRaggedKVCacheWrapper",
        ):
            setattr(_module(name), wrapper, _Stream)
    _replace(_module("layers.attention.attention_registry"), get_device_capability=lambda *_: (9, 0))
    for name in ("layers.attention.trtllm_mla_backend", "layers.attention.trtllm_mha_backend"):
        _replace(_module(name), make_persistent_multi_ctas_kv_counter_buffer=nothing)
    _replace(_module("speculative.ngram_worker"), NgramCorpus=_Stream)
    # Whose draft-extend has a graph on a GPU only.
    _replace(_module("speculative.eagle_worker_v2"), _is_cuda=True)
    _replace(_module("model_loader.utils"), get_model_architecture=lambda _: (_Model, "stand-in"))

    def stop(self: Any) -> None:
        raise _StartedError

    tp_worker.TpModelWorker.get_worker_info = stop


_FAMILY = "llama"
_SIZES = dict.fromkeys(
    [
        "tp_size",
        "pp_size",
        "dp_size",
        "moe_ep_size",
        "moe_tp_size",
        "moe_dp_size",
        "attn_tp_size",
        "attn_dp_size",
        "attn_cp_size",
        "dcp_size",
        "attn_dcp_size",
    ],
    1,
)


def _graphs() -> Any:
    module = _module("model_executor.cuda_graph_config")
    if module is None:
        return None
    made = module.default_cuda_graph_config()
    made.decode.backend, made.decode.bs, made.decode.max_bs = "full", [1, 2], 2
    made.prefill.backend = "disabled"
    return made


def _arguments(kind: str, prefill: str, decode: str) -> Any:
    cls = server_args_module.ServerArgs
    cls.__post_init__ = lambda self: None
    _replace(cls, resolve_once=lambda self: None)
    values: dict[str, Any] = {
        "model_path": "stand-in",
        "device": "cuda",
        "page_size": 1,
        "attention_backend": decode if prefill == decode else None,
        "prefill_attention_backend": prefill,
        "decode_attention_backend": decode,
        "cuda_graph_bs": [1, 2],
        "cuda_graph_bs_decode": [1, 2],
        "cuda_graph_max_bs": 2,
        "cuda_graph_max_bs_decode": 2,
        "torch_compile_max_bs": 1,
        "chunked_prefill_size": 32,
        "max_prefill_tokens": 32,
        "max_running_requests": REQUESTS,
        "random_seed": 1,
        "skip_tokenizer_init": True,
        "mem_fraction_static": 0.5,
        "disable_piecewise_cuda_graph": True,
        "disable_prefill_cuda_graph": True,
        "sampling_backend": "pytorch",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "speculative_draft_model_path": "stand-in",
        "disable_overlap_schedule": kind in ("ngram", "dflash", "frozen-kv"),
        "load_format": "dummy",
        "grammar_backend": "none",
        "model_impl": "auto",
        "cuda_graph_config": _graphs(),
        **WORKERS[kind],
    }
    names = (
        {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set(dir(cls))
    )
    return cls(**{name: value for name, value in values.items() if name in names})


def start(
    kind: str, backends: str, family: str, *, plan_stream: bool, resolved: dict[str, Any] | None = None
) -> tuple[list[str], list[str]]:
    """Start a server; return the kinds of what was made, and the comments of patches in them or in what ran.

    ``resolved``: what the tree makes of arguments that were not typed, where it keeps that apart from them.
    """
    prefill, _, decode = backends.partition("/")
    decode = decode or prefill
    global _FAMILY  # noqa: PLW0603 - what stands in for the tree's functions asks for it
    _FAMILY = family
    os.environ["SGLANG_ENABLE_OVERLAP_PLAN_STREAM"] = "1" if plan_stream else "0"
    _without_a_gpu()
    _alone()
    _light_runners()
    arguments = _arguments(kind, prefill, decode)
    if resolved:
        _module("arg_groups.overrides").declare_resolution(arguments, "stand-in", **resolved)
    context = _module("runtime_context")
    if context is not None and hasattr(context, "publish"):
        ranks = (
            {"ranks": context.SpawnRanks(world_rank=0, gpu_id=0)} if hasattr(context, "SpawnRanks") else {}
        )
        context.publish(arguments, role="scheduler", **ranks)
        if hasattr(context.get_parallel(), "override_permanently"):
            fields: tuple[str, ...] = getattr(context, "_parallel_fields", tuple)()
            groups = [name for name in fields if name.endswith("_group")]
            context.get_parallel().override_permanently(**{name: _Group() for name in groups})
    elif hasattr(server_args_module, "set_global_server_args_for_scheduler"):
        server_args_module.set_global_server_args_for_scheduler(arguments)
    ranks = dict.fromkeys(
        [
            "gpu_id",
            "tp_rank",
            "moe_ep_rank",
            "pp_rank",
            "attn_cp_rank",
            "moe_dp_rank",
            "dp_rank",
            "attn_tp_rank",
            "attn_dp_rank",
        ],
        0,
    )
    scheduler: Any = object.__new__(Scheduler)
    vars(scheduler).update(
        ranks,
        ps=dataclasses.make_dataclass("Ranks", [*ranks, *_SIZES])(**ranks, **_SIZES),
        server_args=arguments,
        nccl_port=0,
        spec_algorithm=SpeculativeAlgorithm.from_string(arguments.speculative_algorithm),
        send_to_tokenizer=SimpleNamespace(send_output=None),
        ipc_channels=SimpleNamespace(send_to_tokenizer=SimpleNamespace(send_output=None)),
        model_config=_ModelConfig(_FAMILY),
        enable_overlap=True,
        enable_unified_memory=False,
    )
    _uncaptured()
    with _OnCpu(), _watched() as patches, suppress(_StartedError):
        scheduler.init_model_worker()
    kinds = _kinds(scheduler)
    for each in kinds:
        patches.update(*map(_patches_in_class, each.__mro__))
    return sorted(kind.__name__ for kind in kinds), sorted(patches)


@contextmanager
def _watched() -> Iterator[set[str]]:
    """Collect the patches that wrote in a function that is called."""
    found: set[str] = set()
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code not in seen:
            seen.add(code)
            if code.co_filename.startswith(_TREE) and code.co_flags & inspect.CO_OPTIMIZED:
                found.update(_patches_in(code))

    sys.settrace(called)
    try:
        yield found
    finally:
        sys.settrace(None)


def _patches_in(code: CodeType) -> Iterator[str]:
    lines = _lines(code.co_filename)
    first = code.co_firstlineno
    # What a patch adds whole has its mark above it.
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    last = max((line for *_, line in code.co_lines() if line), default=first)
    return _marks(lines[first - 1 : last])


@cache
def _patches_in_class(cls: type) -> frozenset[str]:
    file = str(getattr(sys.modules[cls.__module__], "__file__", ""))
    if not file.startswith(_TREE):
        return frozenset()
    lines = _lines(file)
    first = next(n for n, line in enumerate(lines) if re.match(rf"class {cls.__name__}\b", line))
    outside = (n for n, line in enumerate(lines[first + 1 :], first + 1) if re.match(r"[^\s)#]", line))
    return frozenset(_marks(lines[first : next(outside, None)]))


def _marks(lines: list[str]) -> Iterator[str]:
    return (mark[1] for line in lines if (mark := _MARK.match(line)))


@cache
def _lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def _uncaptured() -> None:
    """Have no graph runner capture: all that it makes before is made."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.srt") and "runner" in name:
            for cls in list(vars(module).values()):
                if isinstance(cls, type) and cls.__name__.endswith("GraphRunner") and "capture" in vars(cls):
                    setattr(cls, "capture", lambda *_, **__: None)  # noqa: B010 - which types do not know


def _kinds(scheduler: Any) -> set[type]:
    kinds: set[type] = set()
    seen: set[int] = set()
    todo = [scheduler]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, (list, tuple)):
            todo += each
        elif isinstance(each, dict):
            todo += each.values()
        elif type(each).__module__.startswith("sglang.srt") and hasattr(each, "__dict__"):
            if type(each).__name__.endswith(("Worker", "WorkerV2", "Backend", "Runner")):
                kinds.add(type(each))
            todo += vars(each).values()
    return kinds

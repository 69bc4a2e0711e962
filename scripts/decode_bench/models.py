"""The model families besides the Llama: their configurations and engine options.

A folder contains only ``config.json``: the engine gets ``load_format="dummy"``, and ``startup/bench_weights.py``
fills the weights. Every model type is known to transformers or sglang, so that no code is loaded from a folder and
nothing is looked up in a hub.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# None: sglang's default.
Option = bool | int | float | str | None

_Config = dict[str, object]

VOCABULARY = 32000
HIDDEN = 2048
LAYERS = 8
EXPERTS = 8
# The head size for which every attention backend of the benchmark has kernels.
HEAD = 128
# Tokens in the window of a layer; prompts are longer.
WINDOW = 128
POSITIONS = 131072
# Replaced in a server's options by the file of the tokens that a draft can propose, every second one.
TOKEN_MAP = "a token map"
_ROPE = {"rope_theta": 10000.0, "rope_type": "default"}


class ModelError(Exception):
    """An unknown model, or a folder with another one."""


@dataclass(frozen=True)
class Model:
    """A model family: its folders and additional engine options."""

    # The folder's name.
    name: str
    # The name in the documentation.
    family: str
    target: Mapping[str, object]
    # None: the draft is in the target's folder, or is the target.
    draft: Mapping[str, object] | None
    options: Mapping[str, Option]


def model(name: str) -> Model:
    """Return the model of that name. Raise ModelError if there is none."""
    try:
        return MODELS[name]
    except KeyError:
        raise ModelError(
            f"{name!r} is no model of this benchmark: name one of {', '.join(MODELS)}."
        ) from None


def write(model: Model, folder: Path) -> tuple[str, str]:
    """Write the model's configurations below ``folder`` and return the folders of target and draft.

    Raise ModelError if a folder has another configuration, since an engine may be reading it.
    """
    target = _written(folder / model.name, model.target)
    if TOKEN_MAP in model.options.values():
        import torch

        torch.save(torch.arange(0, VOCABULARY, 2), token_map(str(target)))
    draft = target if model.draft is None else _written(folder / f"{model.name}-draft", model.draft)
    return str(target), str(draft)


def token_map(target: str) -> str:
    """Return the file of the tokens that the draft of a target can propose."""
    return f"{target}/token_map.pt"


def _written(folder: Path, config: Mapping[str, object]) -> Path:
    content = json.dumps(dict(config), indent=1) + "\n"
    file = folder / "config.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    elif file.read_text() != content:
        raise ModelError(f"{file} is of another version of this benchmark: remove {folder} and run again.")
    return folder.resolve()


def _config(architecture: str, model_type: str, heads: int, kv_heads: int, **own: object) -> _Config:
    """Return a configuration: the common keys, overridden by the model's own."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 3 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": POSITIONS,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    } | own


def _eagle3_draft() -> _Config:
    """Return the configuration of a draft of one Llama layer for a target of `HIDDEN` columns."""
    return _config(
        "LlamaForCausalLMEagle3",
        "llama",
        heads=16,
        # As many columns as the embedding, which its attention copies.
        kv_heads=16,
        num_hidden_layers=1,
        draft_vocab_size=VOCABULARY,
        rope_parameters=_ROPE,
    )


def _alternating(first: str, second: str, every: int) -> list[str]:
    """Return a kind for each layer: ``second`` for the last of each ``every``, else ``first``."""
    return [second if layer % every == every - 1 else first for layer in range(LAYERS)]


# The draft is in the target's folder: its multi-token prediction layer, or the target itself.
_EAGLE: Mapping[str, Option] = {"load_format": "dummy", "speculative_algorithm": "EAGLE"}
_EAGLE3: Mapping[str, Option] = {"load_format": "dummy", "speculative_algorithm": "EAGLE3"}
_STANDALONE: Mapping[str, Option] = {"load_format": "dummy", "speculative_algorithm": "STANDALONE"}
# sglang's default may be compiled for minutes.
_TRITON_EXPERTS: Mapping[str, Option] = {"moe_runner_backend": "triton"}

_QWEN3_EXPERTS: Mapping[str, object] = {
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
}

_DEEPSEEK = Model(
    "deepseek-mla",
    "DeepSeek MLA",
    _config(
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        heads=16,
        kv_heads=16,
        head_dim=64,
        q_lora_rank=768,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        # The prediction layer has experts anyway.
        first_k_dense_replace=LAYERS + 1,
        moe_layer_freq=1,
        moe_intermediate_size=512,
        n_routed_experts=EXPERTS,
        n_shared_experts=1,
        num_experts_per_tok=2,
        # More experts per token than groups, or FlashInfer compiles a kernel to select them.
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        routed_scaling_factor=1.0,
        scoring_func="sigmoid",
        topk_method="noaux_tc",
        num_nextn_predict_layers=1,
        rope_parameters=_ROPE,
    ),
    None,
    {**_EAGLE, **_TRITON_EXPERTS},
)

_QWEN3_NEXT = Model(
    "qwen3-next",
    "Qwen3-Next",
    _config(
        "Qwen3NextForCausalLM",
        "qwen3_next",
        heads=16,
        kv_heads=2,
        full_attention_interval=4,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        decoder_sparse_step=1,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        **_QWEN3_EXPERTS,
        partial_rotary_factor=0.25,
        rope_theta=10000.0,
        rope_scaling=_ROPE,
    ),
    None,
    {**_EAGLE, **_TRITON_EXPERTS},
)

_NEMOTRON_H = Model(
    "nemotron-h",
    "Nemotron-H",
    _config(
        "NemotronHForCausalLM",
        "nemotron_h",
        heads=16,
        kv_heads=4,
        layers_block_type=["mamba", "mlp", "mamba", "attention", "mamba", "mlp", "mamba", "attention"],
        mtp_layers_block_type=["attention"],
        num_nextn_predict_layers=1,
        mlp_hidden_act="relu2",
        layer_norm_epsilon=1e-6,
        mamba_num_heads=64,
        mamba_head_dim=64,
        mamba_n_groups=8,
        n_groups=8,
        ssm_state_size=128,
        mamba_d_conv=4,
        mamba_chunk_size=256,
    ),
    None,
    # No release of sglang so far supports Triton for this class.
    {**_EAGLE, "attention_backend": "fa3"},
)

_OLMO3 = Model(
    "olmo3",
    "Olmo3",
    _config(
        "Olmo3ForCausalLM",
        "olmo3",
        heads=16,
        kv_heads=16,
        sliding_window=WINDOW,
        layer_types=_alternating("sliding_attention", "full_attention", every=4),
        rope_theta=10000.0,
        # sglang's own configuration class reads the base from here.
        rope_scaling=_ROPE,
    ),
    None,
    {**_STANDALONE, "attention_backend": "fa3"},
)

_QWEN3_MOE = Model(
    "qwen3-moe",
    "Qwen3 MoE",
    _config(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        heads=16,
        kv_heads=4,
        moe_intermediate_size=768,
        decoder_sparse_step=1,
        **_QWEN3_EXPERTS,
        rope_parameters=_ROPE,
    ),
    _eagle3_draft(),
    {**_EAGLE3, **_TRITON_EXPERTS},
)

_LLAMA_TOKEN_MAP = Model(
    "llama-token-map",
    "Llama with a token map",
    _config("LlamaForCausalLM", "llama", heads=16, kv_heads=4, rope_parameters=_ROPE),
    _config(
        "LlamaForCausalLMEagle",
        "llama",
        heads=16,
        kv_heads=16,
        num_hidden_layers=1,
        rope_parameters=_ROPE,
    ),
    {**_EAGLE, "speculative_token_map": TOKEN_MAP},
)

# The draft of a model of pictures and text, whose positions have three rows.
_LLAMA_MROPE = Model(
    "llama-mrope",
    "Llama with an M-RoPE draft",
    _config("LlamaForCausalLM", "llama", heads=16, kv_heads=4, rope_parameters=_ROPE),
    {**_eagle3_draft(), "rope_parameters": {**_ROPE, "mrope_section": [16, 24, 24]}},
    _EAGLE3,
)

_MIMO_V2 = Model(
    "mimo-v2",
    "MiMo-V2",
    _config(
        "MiMoV2FlashForCausalLM",
        # The published model has its own class; sglang only reads attributes, which any class keeps.
        "llama",
        heads=16,
        kv_heads=4,
        v_head_dim=HEAD,
        swa_num_attention_heads=16,
        swa_num_key_value_heads=4,
        swa_head_dim=HEAD,
        swa_v_head_dim=HEAD,
        swa_rope_theta=10000.0,
        sliding_window_size=WINDOW,
        hybrid_layer_pattern=[int(layer % 4 != 0) for layer in range(LAYERS)],
        moe_layer_freq=[0] * LAYERS,
        partial_rotary_factor=1.0,
        layernorm_epsilon=1e-6,
        rope_parameters=_ROPE,
    ),
    None,
    # In releases so far, Triton cannot compile a window together with a tree mask.
    {**_EAGLE, "attention_backend": "fa3"},
)

_GPT_OSS = Model(
    "gpt-oss",
    "gpt-oss",
    _config(
        "GptOssForCausalLM",
        "gpt_oss",
        heads=32,
        kv_heads=8,
        head_dim=64,
        attention_bias=True,
        intermediate_size=1024,
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        sliding_window=WINDOW,
        swiglu_limit=7.0,
        layer_types=_alternating("sliding_attention", "full_attention", every=2),
        rope_parameters=_ROPE,
    ),
    _eagle3_draft(),
    {**_EAGLE3, **_TRITON_EXPERTS},
)

_GEMMA3 = Model(
    "gemma3",
    "Gemma 3",
    _config(
        "Gemma3ForCausalLM",
        "gemma3_text",
        heads=16,
        kv_heads=4,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=HEAD,
        sliding_window=WINDOW,
        layer_types=_alternating("sliding_attention", "full_attention", every=4),
        rope_parameters={
            "sliding_attention": _ROPE,
            "full_attention": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 1.0},
        },
    ),
    None,
    {**_STANDALONE, "attention_backend": "fa3"},
)

MODELS: Mapping[str, Model] = {
    one.name: one
    for one in (
        *(
            _DEEPSEEK,
            _QWEN3_NEXT,
            _NEMOTRON_H,
            _OLMO3,
            _QWEN3_MOE,
            _LLAMA_TOKEN_MAP,
            _LLAMA_MROPE,
            _MIMO_V2,
            _GPT_OSS,
            _GEMMA3,
        ),
    )
}

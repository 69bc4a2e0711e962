"""Kinds of models, as reduced configurations: what a tree's settings may depend on where no model is known."""

from __future__ import annotations

from typing import Any, NamedTuple

MLA = "multi-head latent attention (MLA)"
SPARSE = "sparse attention over an index (DSA)"
SLIDING = "sliding-window layers"
LOCAL = "local attention"
CROSS = "cross attention"
MROPE = "multimodal rotary positions (M-RoPE)"
LINEAR = "linear-attention layers"
LLAMA = "the architecture LlamaForCausalLM"
UNGRAPHED = "an architecture that sglang runs without piecewise CUDA graphs"
FACTS = (MLA, SPARSE, SLIDING, LOCAL, CROSS, MROPE, LINEAR, LLAMA, UNGRAPHED)
"""What settings or the decision about the mirror may ask of a model."""


class ModelKind(NamedTuple):
    """A kind of model: the facts that tell it from the usual one, and a configuration of it."""

    facts: tuple[str, ...]
    config: dict[str, Any]


_DENSE = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
}
EXPERTS = {
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_local_experts": 64,
    "moe_intermediate_size": 1536,
}
_LATENT = {
    **{
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    },
    **{
        "first_k_dense_replace": 3,
        "moe_layer_freq": 1,
        "n_group": 8,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
    },
    **{
        "num_nextn_predict_layers": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
    },
    **{"topk_group": 4, "topk_method": "noaux_tc"},
}
_IMAGES = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14}


def _named(architecture: str, model_type: str, **others: Any) -> dict[str, Any]:
    return {**_DENSE, "architectures": [architecture], "model_type": model_type, **others}


_MULTIMODAL_TEXT = {**_DENSE, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}

KINDS = (
    ModelKind((), _named("Qwen3ForCausalLM", "qwen3")),
    ModelKind((LLAMA,), _named("LlamaForCausalLM", "llama")),
    ModelKind(
        (MLA,),
        _named(
            "DeepseekV3ForCausalLM",
            "deepseek_v3",
            **EXPERTS,
            **_LATENT,
            num_key_value_heads=32,
            head_dim=192,
        ),
    ),
    ModelKind(
        (MLA, SPARSE),
        _named(
            "DeepseekV32ForCausalLM",
            "deepseek_v32",
            **{**EXPERTS, **_LATENT, "num_key_value_heads": 32, "head_dim": 192},
            **{"index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048},
        ),
    ),
    ModelKind(
        (SLIDING,),
        _named(
            "GptOssForCausalLM",
            "gpt_oss",
            **{**EXPERTS, "head_dim": 64, "sliding_window": 128},
            layer_types=["sliding_attention", "full_attention"] * 16,
        ),
    ),
    ModelKind(
        (LOCAL, SLIDING),
        _named(
            "Llama4ForConditionalGeneration",
            "llama4",
            text_config={
                **_DENSE,
                **EXPERTS,
                **{
                    "max_position_embeddings": 10485760,
                    "model_type": "llama4_text",
                    "attention_chunk_size": 8192,
                    "interleave_moe_layer_step": 1,
                },
                "no_rope_layers": [1, 1, 1, 0] * 8,
            },
            vision_config={**_IMAGES, "model_type": "llama4_vision_model"},
        ),
    ),
    ModelKind(
        (CROSS, UNGRAPHED),
        _named(
            "WhisperForConditionalGeneration",
            "whisper",
            **{
                "is_encoder_decoder": True,
                "d_model": 1280,
                "encoder_attention_heads": 20,
                "encoder_layers": 32,
            },
            **{"decoder_attention_heads": 20, "decoder_layers": 32, "max_source_positions": 1500},
            **{"max_target_positions": 448, "num_mel_bins": 128},
        ),
    ),
    ModelKind(
        (MROPE, UNGRAPHED),
        _named(
            "Qwen2_5_VLForConditionalGeneration",
            "qwen2_5_vl",
            **{name: value for name, value in _MULTIMODAL_TEXT.items() if name not in _DENSE},
            text_config={**_MULTIMODAL_TEXT, "model_type": "qwen2_5_vl_text"},
            vision_config={**_IMAGES, "model_type": "qwen2_5_vl"},
        ),
    ),
    ModelKind(
        (LINEAR,),
        _named(
            "Qwen3NextForCausalLM",
            "qwen3_next",
            **EXPERTS,
            **{"full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128},
            **{"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128},
            **{"decoder_sparse_step": 1, "shared_expert_intermediate_size": 512},
            layer_types=["linear_attention"] * 3 * 8 + ["full_attention"] * 8,
        ),
    ),
)
"""The kinds; the first one is usual."""

"""Reduced configurations of public models by their names: what settings ask of each."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from patchkit.doctor.execution.kinds import (
    EXPERTS,
    KINDS,
    LINEAR,
    LLAMA,
    LOCAL,
    MLA,
    MROPE,
    SLIDING,
    SPARSE,
    UNGRAPHED,
    ModelKind,
)


class NamedModel(NamedTuple):
    """Models of a name: a pattern for it, the facts of their kind, and how their configuration differs from it."""

    name: str
    pattern: str
    facts: tuple[str, ...]
    differs: dict[str, Any]

    @property
    def kind(self) -> ModelKind:
        """Their kind, with a configuration of them."""
        like = next((kind for kind in KINDS if kind.facts == self.facts), KINDS[0])
        return ModelKind(self.facts, {**like.config, **self.differs})


def _like(
    architecture: str, model_type: str, heads: int, shared: int, layers: int, **others: Any
) -> dict[str, Any]:
    """Return what differs in a model with a number of heads that share others' keys and values."""
    of_heads = {"num_attention_heads": heads, "num_key_value_heads": shared, "num_hidden_layers": layers}
    return {"architectures": [architecture], "model_type": model_type, **of_heads, **others}


_WINDOWS = {"sliding_window": 1024, "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 10}

# The first that fits counts.
MODELS = (
    NamedModel(
        "DeepSeek-V3.2",
        r"deepseek-v3\.2",
        (MLA, SPARSE),
        _like("DeepseekV32ForCausalLM", "deepseek_v32", 128, 128, 61),
    ),
    NamedModel(
        "DeepSeek-V3",
        r"deepseek-(v3|r1(?!-distill))",
        (MLA,),
        _like("DeepseekV3ForCausalLM", "deepseek_v3", 128, 128, 61),
    ),
    NamedModel(
        "Kimi-K2",
        r"kimi-k2(?!\.)",
        (MLA,),
        _like("DeepseekV3ForCausalLM", "kimi_k2", 64, 64, 61, n_routed_experts=384, n_group=1, topk_group=1),
    ),
    NamedModel("GLM-5", r"glm-5", (MLA, SPARSE), _like("GlmMoeDsaForCausalLM", "glm_moe_dsa", 64, 64, 78)),
    NamedModel(
        "GLM-4.5", r"glm-4\.[5-7](?!v)", (), _like("Glm4MoeForCausalLM", "glm4_moe", 96, 8, 92, **EXPERTS)
    ),
    NamedModel("gpt-oss", r"gpt-oss", (SLIDING,), {"num_attention_heads": 64}),
    NamedModel("Llama-4", r"llama-4", (LOCAL, SLIDING), {}),
    NamedModel("Llama", r"llama-?[23]|distill-llama", (LLAMA,), {}),
    NamedModel(
        "Qwen3-Next",
        r"qwen3-next",
        (LINEAR,),
        {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256},
    ),
    NamedModel("Qwen2.5-VL", r"qwen2\.5-vl", (MROPE, UNGRAPHED), {}),
    NamedModel(
        "Qwen3-MoE",
        r"qwen3-(coder-)?\d+b-a\d+b",
        (),
        _like("Qwen3MoeForCausalLM", "qwen3_moe", 64, 4, 94, **EXPERTS),
    ),
    NamedModel("Qwen3", r"qwen3-\d[\d.]*b", (), {}),
    NamedModel(
        "Qwen2.5",
        r"qwen2(\.5)?-(coder-)?\d[\d.]*b|distill-qwen",
        (),
        _like("Qwen2ForCausalLM", "qwen2", 28, 4, 28),
    ),
    NamedModel(
        "MiniMax-M2", r"minimax-m2", (), _like("MiniMaxM2ForCausalLM", "minimax_m2", 48, 8, 62, **EXPERTS)
    ),
    NamedModel("Mixtral", r"mixtral", (), _like("MixtralForCausalLM", "mixtral", 32, 8, 32, **EXPERTS)),
    NamedModel("Mistral-7B", r"mistral-7b", (), _like("MistralForCausalLM", "mistral", 32, 8, 32)),
    NamedModel(
        "Gemma 3",
        r"gemma-?3-(4|12|27)b",
        (SLIDING, UNGRAPHED),
        {
            **_like("Gemma3ForConditionalGeneration", "gemma3", 32, 16, 60),
            "text_config": KINDS[0].config
            | _like("Gemma3ForCausalLM", "gemma3_text", 32, 16, 60, **_WINDOWS, head_dim=128),
            "vision_config": {
                **{"hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16},
                **{"image_size": 896, "model_type": "siglip_vision_model", "num_hidden_layers": 27},
                "patch_size": 14,
            },
        },
    ),
)


def by_name(path: str) -> NamedModel | None:
    """Return the models of which a path or a repository names one; None for another one."""
    name = path.replace("_", "-").lower()
    return next((model for model in MODELS if re.search(rf"(^|[/-])({model.pattern})", name)), None)

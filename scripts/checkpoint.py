"""Write an EAGLE3 checkpoint on which a wrong sequence length or a stale KV entry changes the tokens.

A Llama target whose next token always depends on the whole context, and a one-layer EAGLE3 draft that predicts it
well enough to accept more than 1.5 tokens per decode step, without training:

* The embedding is in the first ``kv_heads * head_dim`` columns of the hidden state and reaches the output head through
  the residual stream; the layers add a context-dependent part of about `CONTEXT` times its size. The largest logit is
  then often, but not always, the one that the last token alone would give.
* The draft has the same embedding and head, and its attention copies: query and key are the same selection of the
  embedding's columns, so that each token attends to itself, and value and output projections copy those columns. It
  predicts what the last token alone would give. The value projection also subtracts the previous hidden state,
  so that the second and third draft step see one token and not a sum.
"""

from __future__ import annotations

import json
import math
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
from safetensors.torch import save_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

# Root mean square of the layers' part relative to the embedding's; with 0.3, draft and target agree on about one half.
CONTEXT = 0.26
# Standard deviation of the attention scores: large enough for one wrong KV entry to change the result.
SCORE = 3.0
# The same for the draft's own part: it must depend on the context a little.
DRAFT_CONTEXT = 0.05
# Tokens that are never generated: the first ones, the end token among them.
SPECIAL = 3
# Shards written at a time; each holds a few hundred megabytes of host memory until it is on disk.
WRITERS = 6

Shard = tuple[str, "dict[str, Tensor]"]


@dataclass(frozen=True)
class Shape:
    """Sizes of the target; the draft has the same with one layer."""

    layers: int = 32
    hidden: int = 4096
    intermediate: int = 14336
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 32000

    @property
    def carried(self) -> int:
        """Columns of the hidden state that hold the embedding: as many as one token's values."""
        return self.kv_heads * self.head_dim


class Weights:
    """Named random matrices: the same name, shape and device type always give the same numbers."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def normal(self, name: str, rows: int, columns: int, scale: float) -> Tensor:
        """A ``(rows, columns)`` bfloat16 matrix of standard deviation `scale`."""
        generator = torch.Generator(self.device).manual_seed(zlib.crc32(name.encode()))
        matrix = torch.empty(rows, columns, dtype=torch.bfloat16, device=self.device)
        return matrix.normal_(0.0, scale, generator=generator)

    def ones(self, size: int) -> Tensor:
        """The bfloat16 weight of a norm that only normalises."""
        return torch.ones(size, dtype=torch.bfloat16, device=self.device)


def _vocabulary(shape: Shape, weights: Weights) -> tuple[Tensor, Tensor]:
    """Embedding of root mean square one, in the carried columns only, and an independent head."""
    embedding = torch.zeros(shape.vocabulary, shape.hidden, dtype=torch.bfloat16, device=weights.device)
    scale = math.sqrt(shape.hidden / shape.carried)
    embedding[:, : shape.carried] = weights.normal("embedding", shape.vocabulary, shape.carried, scale)
    head = weights.normal("head", shape.vocabulary, shape.hidden, 1 / math.sqrt(shape.hidden))
    # A logit of zero is never the largest, so no request ends at the end token by chance.
    head[:SPECIAL] = 0
    return embedding, head


def _mlp(shape: Shape, weights: Weights, prefix: str, scale: float) -> dict[str, Tensor]:
    into = 1 / math.sqrt(shape.hidden)
    return {
        f"{prefix}.gate_proj.weight": weights.normal(
            f"{prefix}.gate", shape.intermediate, shape.hidden, into
        ),
        f"{prefix}.up_proj.weight": weights.normal(f"{prefix}.up", shape.intermediate, shape.hidden, into),
        f"{prefix}.down_proj.weight": weights.normal(
            f"{prefix}.down", shape.hidden, shape.intermediate, scale / math.sqrt(shape.intermediate)
        ),
    }


def target_shards(shape: Shape, weights: Weights) -> Iterator[Shard]:
    """One shard a layer and one for the vocabulary, in a Llama checkpoint's names."""
    embedding, head = _vocabulary(shape, weights)
    yield (
        "vocabulary",
        {
            "model.embed_tokens.weight": embedding,
            "lm_head.weight": head,
            "model.norm.weight": weights.ones(shape.hidden),
        },
    )
    into = 1 / math.sqrt(shape.hidden)
    sharp = into * math.sqrt(SCORE)
    queries = shape.heads * shape.head_dim
    # Attention averages a few values, which halves them; the MLP adds the smaller part, as it sees one token
    # only.
    added = CONTEXT * math.sqrt(3 / shape.layers)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        attention = f"{prefix}.self_attn"
        yield (
            f"layer-{layer:03d}",
            {
                f"{attention}.q_proj.weight": weights.normal(f"{attention}.q", queries, shape.hidden, sharp),
                f"{attention}.k_proj.weight": weights.normal(
                    f"{attention}.k", shape.carried, shape.hidden, sharp
                ),
                f"{attention}.v_proj.weight": weights.normal(
                    f"{attention}.v", shape.carried, shape.hidden, into
                ),
                f"{attention}.o_proj.weight": weights.normal(
                    f"{attention}.o", shape.hidden, queries, added / math.sqrt(queries)
                ),
                f"{prefix}.input_layernorm.weight": weights.ones(shape.hidden),
                f"{prefix}.post_attention_layernorm.weight": weights.ones(shape.hidden),
                **_mlp(shape, weights, f"{prefix}.mlp", added / 2),
            },
        )


def draft_shards(shape: Shape, weights: Weights) -> Iterator[Shard]:
    """One shard in the names of an EAGLE3 draft whose vocabulary is the target's."""
    embedding, head = _vocabulary(shape, weights)
    carried = torch.eye(shape.carried, dtype=torch.bfloat16, device=weights.device)
    group = shape.heads // shape.kv_heads

    def columns(first: Tensor, second: Tensor | None = None) -> Tensor:
        # The layer's input is the normed embedding beside the normed hidden state.
        matrix = torch.zeros(len(first), 2 * shape.hidden, dtype=torch.bfloat16, device=weights.device)
        matrix[:, : shape.carried] = first
        if second is not None:
            matrix[:, shape.hidden : shape.hidden + shape.carried] = second
        return matrix

    per_head = carried.view(shape.kv_heads, shape.head_dim, shape.carried)
    queries = per_head.repeat_interleave(group, dim=0).reshape(-1, shape.carried)
    output = torch.zeros(
        shape.hidden, shape.heads * shape.head_dim, dtype=torch.bfloat16, device=weights.device
    )
    output[: shape.carried] = queries.T / group
    # The target's hidden states enter beside the carried columns, where they disturb the guess only a little.
    fc = weights.normal(
        "draft.fc", shape.hidden, 3 * shape.hidden, DRAFT_CONTEXT / math.sqrt(3 * shape.hidden)
    )
    fc[: shape.carried] = 0
    yield (
        "draft",
        {
            "embed_tokens.weight": embedding,
            "lm_head.weight": head,
            "fc.weight": fc,
            "norm.weight": weights.ones(shape.hidden),
            "midlayer.input_layernorm.weight": weights.ones(shape.hidden),
            "midlayer.hidden_norm.weight": weights.ones(shape.hidden),
            "midlayer.post_attention_layernorm.weight": weights.ones(shape.hidden),
            "midlayer.self_attn.q_proj.weight": columns(queries),
            "midlayer.self_attn.k_proj.weight": columns(carried),
            "midlayer.self_attn.v_proj.weight": columns(carried, -carried),
            "midlayer.self_attn.o_proj.weight": output,
            **_mlp(shape, weights, "midlayer.mlp", DRAFT_CONTEXT),
        },
    )


def _config(shape: Shape, architecture: str, layers: int) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": layers,
        "vocab_size": shape.vocabulary,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        # For a context of 128k; no weight depends on it.
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": SPECIAL - 1,
        "torch_dtype": "bfloat16",
    }


def _write(folder: Path, config: dict[str, Any], shards: Iterator[Shard]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    places: dict[str, str] = {}
    total = 0
    with ThreadPoolExecutor(WRITERS) as writers:
        pending = []
        for name, tensors in shards:
            file = f"{name}.safetensors"
            places |= dict.fromkeys(tensors, file)
            total += sum(tensor.nbytes for tensor in tensors.values())
            on_host = {key: tensor.cpu() for key, tensor in tensors.items()}
            pending.append(writers.submit(save_file, on_host, folder / file, {"format": "pt"}))
        for writing in pending:
            writing.result()
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    # Written last: its presence shows that the folder is complete.
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def write_checkpoint(folder: Path, shape: Shape, device: str) -> tuple[Path, Path]:
    """Write target and draft below `folder`, unless they are there, and return their two folders.

    The numbers follow from `shape` and the kind of `device` ("cpu", "cuda") alone: PyTorch's generators
    differ between the two. At the default shape with 32 layers it takes 17 GB of disk.
    """
    target, draft = folder / f"target-{shape.layers}", folder / f"draft-{shape.layers}"
    weights = Weights(device)
    if not (target / "config.json").exists():
        _write(target, _config(shape, "LlamaForCausalLM", shape.layers), target_shards(shape, weights))
    if not (draft / "config.json").exists():
        config = _config(shape, "LlamaForCausalLMEagle3", 1) | {"draft_vocab_size": shape.vocabulary}
        _write(draft, config, draft_shards(shape, weights))
    return target, draft


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--layers", type=int, default=32, show_default=True, help="Layers of the target.")
def main(folder: Path, layers: int) -> None:
    """Write target and draft of the Llama 8B shape below FOLDER and print their folders."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for path in write_checkpoint(folder, Shape(layers=layers), device):
        click.echo(path)


if __name__ == "__main__":
    main()

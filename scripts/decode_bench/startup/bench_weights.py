"""Fill a model without a checkpoint with weights on which a wrong length, slot or stale cache entry changes tokens.

sglang's own dummy weights are so small that every context gives nearly the same logits. These work like those of
``checkpoint.py`` for a Llama, with any kind of layer:

* The residual stream carries the embedding to an independent output head, and all layers together add a
  context-dependent part of about `CONTEXT` times its size. The next token is then often, but not always, the one that
  the last token alone would give, and attention is sharp enough for a single entry to matter.
* A draft copies the embedding of its last token, so that it predicts what that token alone would give, and adds a small
  part of its own. If the target is its own draft, both are filled alike.

The numbers depend only on a parameter's name, its shape and the kind of device. A parameter that is split among ranks
is drawn for each rank, so a model on two GPUs differs from that on one; replicated parameters are equal on all ranks.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import math
import re
import sys
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from torch import Tensor
    from torch.nn import Module

WEIGHTS = "sglang.srt.model_loader.weight_utils"
LOADER = "sglang.srt.model_loader.loader"
FUNCTION = "initialize_dummy_weights"

# Size of the layers' part relative to the embedding's: of a target, and of a draft.
CONTEXT = 0.35
DRAFT_CONTEXT = 0.08
# Standard deviation of attention scores.
SCORE = 3.0
# The same for a router's scores, so that rounding rarely decides between experts.
ROUTING = 2.0
# Tokens that are never generated: the first ones, the end token among them.
SPECIAL = 3
# Small time steps of a state-space layer, so that its state covers some tens of tokens.
TIME_STEP = -3.0

_DRAFT = re.compile(r"NextN|MTP|Eagle", re.IGNORECASE)
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|embeddings|word_embeddings)\.weight$")
_HEAD = re.compile(r"(^|\.)(lm_head|shared_head\.head)\.weight$")
# The embedding's columns come first, or the first of several hidden states.
_COMBINED = re.compile(r"(^|\.)(eh_proj|fc)\.weight$")
# The last matrices of a layer's branches; of these, those whose input is one token only.
_OUTPUT = re.compile(r"(^|\.)(o_proj|out_proj|down_proj|dense)\.weight$|(^|\.)(w2_weight|down_proj)$")
_ONE_TOKEN = re.compile(r"down_proj|w2_weight")
_QUERY = re.compile(r"(^|\.)(q_b_proj|q_proj)\.weight$")
_ROUTER = re.compile(r"(^|\.)(gate|router|shared_expert_gate)\.weight$")


def fill(model: Module, *_: object, **__: object) -> None:
    """Fill every parameter of an unquantized model; what else sglang passes is about its own numbers."""
    _Filling(model).run()


def install() -> None:
    """Replace sglang's function that fills dummy weights. Raise RuntimeError if it is imported already."""
    if WEIGHTS in sys.modules or LOADER in sys.modules:
        raise RuntimeError(
            f"{LOADER} is imported already and keeps its own {FUNCTION}: install before importing sglang."
        )
    sys.meta_path.insert(0, _Finder())


class _Filling:
    def __init__(self, model: Module) -> None:
        import torch

        self._torch = torch
        self._model = model
        self._modules: Mapping[str, Module] = dict(model.named_modules())
        kind = type(model).__name__
        self._is_eagle3 = "Eagle3" in kind
        branches = sum(1 for name, _ in model.named_parameters() if _OUTPUT.search(name))
        # Independent parts add up by their squares.
        self._added = (DRAFT_CONTEXT if _DRAFT.search(kind) else CONTEXT) / math.sqrt(max(1, branches))

    def run(self) -> None:
        seen = set()
        for path, module in self._modules.items():
            for own, parameter in module.named_parameters(recurse=False):
                # Some are known by two names.
                if id(parameter) in seen or not self._torch.is_floating_point(parameter):
                    continue
                seen.add(id(parameter))
                name = f"{path}.{own}" if path else own
                if self._torch.finfo(parameter.dtype).bits < 16:
                    raise ValueError(
                        f"{name} is quantized ({parameter.dtype}), and these weights are not: "
                        "give the model no quantization."
                    )
                self._fill(name, own, path, module, parameter.data)

    def _fill(self, name: str, own: str, path: str, module: Module, data: Tensor) -> None:
        shard = _shard(module)
        if "norm" in type(module).__name__.lower() or "norm" in own.lower():
            self._fill_norm(path, module, data)
        elif _EMBEDDING.search(name):
            # Gemma multiplies by the root of the size.
            scaled = hasattr(module, "embed_scale")
            self._normal(data, f"embedding {shard}", 1 / math.sqrt(data.shape[-1]) if scaled else 1.0)
        elif _HEAD.search(name):
            self._normal(data, f"head {shard}", 1 / math.sqrt(data.shape[-1]))
            # A logit of zero is never the largest, so no request ends at the end token by chance.
            data[:SPECIAL] = 0
        elif _COMBINED.search(name) and data.dim() == 2 and data.shape[1] > data.shape[0]:
            size = data.shape[0]
            self._normal(data, f"{name} {shard}", DRAFT_CONTEXT / math.sqrt(data.shape[1]))
            first = size * int(getattr(module, "tp_rank", 0) or 0)
            # Of all columns that one embedding takes: a rank may hold some of the rows only.
            data[:, : size * _ranks(module)] = 0
            self._one_to_one(data, first)
        elif self._is_eagle3 and path.endswith("self_attn.qkv_proj"):
            self._fill_copying(path, module, data)
        elif self._is_eagle3 and path.endswith("self_attn.o_proj"):
            data.zero_()
            self._one_to_one(data.T, data.shape[1] * int(getattr(module, "tp_rank", 0) or 0))
        elif own in ("A_log", "A"):
            self._uniform(data, f"{name} {shard}", 0.0, 1.5)
            if own == "A":
                # Under this name sglang stores the decay, not its logarithm.
                data.exp_().neg_()
        elif own == "dt_bias":
            self._normal(data, f"{name} {shard}", 1.0)
            data.add_(TIME_STEP)
        elif own == "D":
            data.fill_(1.0)
        elif own == "sinks" or "sink_bias" in own:
            self._normal(data, f"{name} {shard}", 1.0)
        elif "conv1d" in name and data.dim() > 1:
            self._normal(data, f"{name} {shard}", 1 / math.sqrt(data.shape[-1]))
        elif data.dim() < 2 or own.endswith("bias"):
            data.zero_()
        else:
            self._normal(data, f"{name} {shard}", self._gain(name) / math.sqrt(data.shape[-1]))
            if queries := self._queries(module):
                data[:queries] *= SCORE

    def _gain(self, name: str) -> float:
        """Return a matrix's gain: the size of its output relative to its input."""
        if _OUTPUT.search(name):
            if _ONE_TOKEN.search(name):
                return self._added
            # What attention averages has about half the size of a normed row; a state's output is normed.
            return (1.5 if "out_proj" in name else 2.0) * self._added
        if _ROUTER.search(name):
            return ROUTING
        return SCORE if _QUERY.search(name) else 1.0

    @staticmethod
    def _queries(module: Module) -> int:
        """Return the number of query rows in a matrix for queries, keys and values."""
        if not hasattr(module, "num_kv_heads"):
            return 0
        return int(getattr(module, "num_heads", 0)) * int(getattr(module, "head_size", 0))

    def _fill_norm(self, path: str, module: Module, data: Tensor) -> None:
        layer, _, own = path.rpartition(".")
        gain = 1.0
        if own in ("q_norm", "query_layernorm"):
            gain = SCORE
        elif own.startswith("post_") and f"{layer}.post_feedforward_layernorm" in self._modules:
            # In such a layer both norm what a branch adds, whatever its matrices gave.
            gain = self._added
        # Gemma's add one to the weight, and keep the sum.
        above_one = "Gemma" in type(module).__name__ or hasattr(module, "gemma_weight")
        data.fill_(gain - 1.0 if above_one else gain)
        if hasattr(module, "gemma_weight"):
            module.get_buffer("gemma_weight").copy_(data + 1.0)

    def _fill_copying(self, path: str, module: Module, data: Tensor) -> None:
        """Make each token of an EAGLE3 draft attend to itself, and copy its embedding to the hidden state.

        The layer's input is the normed embedding beside the normed hidden state, and the hidden state itself is
        added to the output of attention.
        """
        rows, columns = data.shape[0] // 3, data.shape[1] // 2
        ranks = _ranks(module)
        if data.shape[0] != 3 * rows or rows * ranks != columns:
            raise ValueError(
                f"{path} has {tuple(data.shape)} weights: a draft of EAGLE3 needs num_attention_heads and "
                "num_key_value_heads times head_dim to be hidden_size, to hand an embedding on."
            )
        first = rows * int(getattr(module, "tp_rank", 0) or 0)
        data.zero_()
        queries, keys, values = data.split(rows)
        # Sharp enough for long contexts.
        self._one_to_one(queries, first, SCORE)
        self._one_to_one(keys, first)
        self._one_to_one(values, first)
        self._one_to_one(values, columns + first, -1.0)

    def _one_to_one(self, matrix: Tensor, first: int, value: float = 1.0) -> None:
        """Map column ``first + i`` to row i."""
        rows = self._torch.arange(matrix.shape[0], device=matrix.device)
        matrix[rows, rows + first] = value

    def _generator(self, data: Tensor, key: str) -> Any:
        return self._torch.Generator(data.device).manual_seed(zlib.crc32(key.encode()))

    def _normal(self, data: Tensor, key: str, scale: float) -> None:
        drawn = self._torch.empty(data.shape, dtype=self._torch.float32, device=data.device)
        data.copy_(drawn.normal_(0.0, scale, generator=self._generator(data, key)))

    def _uniform(self, data: Tensor, key: str, low: float, high: float) -> None:
        drawn = self._torch.empty(data.shape, dtype=self._torch.float32, device=data.device)
        data.copy_(drawn.uniform_(low, high, generator=self._generator(data, key)))


def _ranks(module: Module) -> int:
    return int(getattr(module, "tp_size", 1) or 1)


def _shard(module: Module) -> str:
    """Return an identifier of this rank's part of a split parameter, the same on all ranks for a replicated one."""
    ranks = [getattr(module, rank, 0) or 0 for rank in ("tp_rank", "moe_tp_rank", "moe_ep_rank")]
    rows = getattr(getattr(module, "shard_indices", None), "org_vocab_start_index", 0)
    return " ".join(map(str, [*ranks, rows]))


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if not hasattr(module, FUNCTION):
            raise RuntimeError(f"{module.__name__} has no {FUNCTION}: find what fills dummy weights there.")
        # The loader imports it by name, later.
        setattr(module, FUNCTION, fill)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != WEIGHTS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec

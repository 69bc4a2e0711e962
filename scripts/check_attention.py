"""Check on a Hopper GPU that attention gives the same bits without the copies and plans that patchkit saves.

usage: python scripts/check_attention.py --tree A [--site FOLDER] [--cases 60]

Requires a GPU, torch, Triton and sglang's kernel library. The kernels that tree A imports attend to random batches:
with packed queries, keys and values and one plan per layer, and with strided rows as a projection returns them and
one plan for all layers of a forward, eagerly and in a graph whose lengths change between capture and replays. Exits
0 if all outputs are bitwise identical.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import torch
from rich.progress import track

from patchkit.runtime import api_1 as patchkit_api

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS, HEAD_DIM, TOKENS = 3, 128, 65536


class FlashAttentionBackend(SimpleNamespace):
    """Has the name of the tree's own class, which the runtime checks."""


class TritonAttnBackend(SimpleNamespace):
    """Likewise."""


class VerifyMode:
    """A forward's mode."""

    @staticmethod
    def is_target_verify() -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Case:
    """A batch of a verify; ``context`` is the number of tokens that a row of the page table covers."""

    batch: int
    tokens: int
    heads: int
    kv_heads: int
    page_size: int
    context: int
    num_splits: int
    softcap: float

    @classmethod
    def drawn(cls, rng: random.Random) -> Case:
        """Return a random case."""
        heads, kv_heads = rng.choice([(32, 8), (16, 2), (64, 8), (8, 8), (4, 1), (40, 8)])
        return cls(
            batch=rng.choice([1, 1, 2, 3, 8, 16, 40]),
            tokens=rng.choice([1, 2, 4, 8]),
            heads=heads,
            kv_heads=kv_heads,
            page_size=rng.choice([1, 16, 64]),
            context=rng.choice([1024, 4096, 32768]),
            num_splits=rng.choice([0, 0, 0, 1]),
            softcap=rng.choice([0.0, 0.0, 30.0]),
        )

    def lens(self, rng: random.Random) -> list[int]:
        """Return random lengths, short and long, within the case's table."""
        most = min(self.context, TOKENS // self.batch)
        return [rng.randint(self.tokens, rng.choice([self.tokens, 64, 600, most])) for _ in range(self.batch)]


def projected(case: Case) -> list[torch.Tensor]:
    """Return queries, keys and values, [tokens, heads * head_dim] each, as one projection returns them."""
    widths = [n * HEAD_DIM for n in (case.heads, case.kv_heads, case.kv_heads)]
    rows = torch.randn(case.batch * case.tokens, sum(widths), device="cuda", dtype=torch.bfloat16)
    return list(rows.split(widths, dim=1))


def same_with_one_plan(case: Case, rng: random.Random) -> bool:
    """Return whether FlashAttention-3 gives the same with one plan for all layers as with one per layer."""
    from sgl_kernel.flash_attn import get_scheduler_metadata
    from sglang.jit_kernel.flash_attention import flash_attn_with_kvcache

    pages = TOKENS // case.page_size
    width = case.context // case.page_size
    table = torch.randint(pages, (case.batch, width), device="cuda", dtype=torch.int32)
    metadata = SimpleNamespace(
        page_table=table,
        cache_seqlens_int32=torch.empty(case.batch, device="cuda", dtype=torch.int32),
        cu_seqlens_q=torch.arange(case.batch + 1, device="cuda", dtype=torch.int32) * case.tokens,
    )
    backend = FlashAttentionBackend(
        fa_impl_ver=3,
        topk=1,
        forward_metadata=metadata,
        _get_scheduler_metadata=get_scheduler_metadata,
        _disable_scheduler_metadata_precompute=False,
    )
    queries = [projected(case)[0] for _ in range(LAYERS)]
    shape = (pages, case.page_size, case.kv_heads, HEAD_DIM)
    caches = [torch.randn(2, *shape, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
    batch: Any = SimpleNamespace(forward_mode=VerifyMode)

    def forward(patched: bool) -> list[torch.Tensor]:
        outputs = []
        for number, (rows, (keys, values)) in enumerate(zip(queries, caches, strict=True)):
            layer: Any = SimpleNamespace(layer_id=number)
            attend: Callable[..., Any] = flash_attn_with_kvcache
            if patched:
                attend = patchkit_api.planned_once(backend, batch, layer, attend)
                query = patchkit_api.queries(backend, rows, case.heads, HEAD_DIM)
            else:
                query = rows.contiguous().view(-1, case.heads, HEAD_DIM)
            outputs.append(
                attend(
                    q=query,
                    k_cache=keys,
                    v_cache=values,
                    page_table=metadata.page_table,
                    cache_seqlens=metadata.cache_seqlens_int32,
                    cu_seqlens_q=metadata.cu_seqlens_q,
                    max_seqlen_q=case.tokens,
                    softmax_scale=HEAD_DIM**-0.5,
                    causal=True,
                    window_size=(-1, -1),
                    softcap=case.softcap,
                    num_splits=case.num_splits,
                    ver=3,
                )
            )
        return outputs

    def set_lens() -> None:
        metadata.cache_seqlens_int32.copy_(torch.tensor(case.lens(rng), dtype=torch.int32))

    set_lens()
    same = _equal(forward(True), forward(False))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = forward(True)
    for _ in range(3):
        set_lens()
        graph.replay()
        graph.replay()
        same &= _equal(outputs, forward(False))
    return same


def same_in_place(case: Case, rng: random.Random) -> bool:
    """Return whether Triton's extend kernel gives the same for strided rows as for packed ones."""
    from sglang.srt.layers.attention.triton_ops.extend_attention import extend_attention_fwd

    def cumulated(counts: list[int]) -> torch.Tensor:
        return torch.tensor([0, *counts]).cumsum(0).to("cuda", torch.int32)

    rows, keys, values = projected(case)
    lens = case.lens(rng)
    slots = torch.randint(TOKENS, (sum(lens),), device="cuda")
    cache = torch.randn(2, TOKENS, case.kv_heads, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    backend = TritonAttnBackend()
    outputs = []
    for of in (lambda tensors: patchkit_api.in_place(backend, tensors), torch.Tensor.contiguous):
        output = torch.zeros(rows.shape[0], case.heads, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
        extend_attention_fwd(
            rows.view(-1, case.heads, HEAD_DIM),
            of(keys.view(-1, case.kv_heads, HEAD_DIM)),
            of(values.view(-1, case.kv_heads, HEAD_DIM)),
            output,
            *cache,
            cumulated([case.tokens] * case.batch),
            cumulated(lens),
            slots,
            None,
            True,
            None,
            case.tokens,
            1.0,
            1.0,
            HEAD_DIM**-0.5,
            logit_cap=case.softcap,
        )
        outputs.append([output])
    return _equal(*outputs)


def _equal(outputs: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    pairs = zip(outputs, others, strict=True)
    return all(torch.equal(one, other) and bool(one.isfinite().all()) for one, other in pairs)


@click.command()
@click.option("--tree", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option(
    "--site",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the packages that the tree imports.",
)
@click.option("--cases", default=60, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(tree: Path, site: Path | None, cases: int, seed: int) -> None:
    """Compare random batches and print how many differ."""
    sys.path[:0] = [str(folder) for folder in (tree, site) if folder is not None]
    rng = random.Random(seed)
    torch.manual_seed(seed)
    wrong = []
    for case in track([Case.drawn(rng) for _ in range(cases)], "Attending"):
        for name, same in (("one plan", same_with_one_plan), ("in place", same_in_place)):
            if not same(case, rng):
                wrong.append(name)
                click.echo(f"{name} differs: {case}")
    click.echo(f"{cases} batches of {LAYERS} layers, eagerly and in 3 replays each: {len(wrong)} differ.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Check on a GPU that a verify's tree mask is written inside its memory, whatever the batch and the lengths.

usage: python scripts/check_tree_mask.py --tree unpatched=A --tree patched=B --control unpatched --out FOLDER

Requires a GPU, torch and sglang's kernel library. In each tree the worker's own draft selects the buffer of the
mask and runs the kernel that writes it, for Triton alone, as the side of a hybrid that verifies, and beside linear
attention. The batches are one smaller than the largest graph, as large, and one larger, with requests up to the
length of their row of the pool. Allocations of the tree are placed between guards; a changed guard is an overflow.
Under

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --target-processes all python ... --no-guards

the sanitizer checks plain allocations instead. Exits 0 if no tree overflows, and every control does.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import torch
from decode_bench.options import site_option, tree_option
from decode_bench.trees import contender, located
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.overrides import TorchFunctionMode

from patchkit.errors import PatchkitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

ATTENTION = "sglang.srt.layers.attention"
WORKER = "sglang.srt.speculative.eagle_worker_v2"
OWNERS = ("triton", "hybrid", "linear")
ALLOCATING = {"zeros", "ones", "full", "empty", "new_ones", "new_zeros", "new_full", "new_empty"}
# Differs from a mask's 0 and 1.
GUARD = 0xA5
# The alignment of GPU allocations.
ALIGNMENT = 512


@dataclass(frozen=True)
class Case:
    """A batch of ``count`` requests of ``length`` tokens each, for a server with graphs of up to ``graph`` requests."""

    owner: str
    count: int
    length: int
    graph: int
    context: int
    tokens: int
    known: bool

    @property
    def row(self) -> int:
        """Return the tokens of a request's row in the pool: the context and room for a speculation."""
        return self.context + self.tokens + 4

    @property
    def written(self) -> int:
        """Return the number of mask elements that the kernel writes."""
        return self.count * self.tokens * (self.length + self.tokens)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case; ``overflow`` is None if it did not run, for the reason ``error``."""

    tree: str
    case: Case
    elements: int | None = None
    overflow: bool | None = None
    error: str | None = None


def drawn_up(graph: int, context: int, tokens: int) -> list[Case]:
    """Return the cases of a server."""
    row = context + tokens + 4
    return [
        Case(owner, count, length, graph, context, tokens, known)
        for owner in OWNERS
        for count in sorted({max(graph - 1, 1), graph, graph + 1})
        for length in (1, context // 2, context - tokens, row - tokens)
        for known in (True, False)
    ]


class Guards(TorchFunctionMode):
    """Places allocations between guards."""

    def __init__(self, guard_size: int) -> None:
        super().__init__()
        self._guard_size = -(-guard_size // ALIGNMENT) * ALIGNMENT
        self._edges: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, and move its new tensors between guards."""
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in ALLOCATING or not made.numel():
            return made
        size = made.numel() * made.element_size()
        memory = torch.full(
            (self._guard_size + size + self._guard_size,), GUARD, dtype=torch.uint8, device=made.device
        )
        self._edges += [memory[: self._guard_size], memory[self._guard_size + size :]]
        inside = memory[self._guard_size : self._guard_size + size].view(made.dtype).view(made.shape)
        return inside.copy_(made)

    def broken(self) -> bool:
        """Return whether a guard has changed."""
        return any(bool((edge != GUARD).any()) for edge in self._edges)


def target(case: Case, device: str) -> Any:
    """Return a target's backend from the tree's classes, with the graph state that a mask needs."""
    triton = importlib.import_module(f"{ATTENTION}.triton_backend").TritonAttnBackend
    leaf = object.__new__(triton)
    vars(leaf).update(
        cuda_graph_custom_mask=None,
        device=device,
        is_draft_runner=False,
        max_context_len=case.context,
        max_kv_splits=1,
        num_draft_tokens=case.tokens,
        num_head=1,
        req_to_token=torch.zeros(case.graph + 2, case.row, dtype=torch.int32, device=device),
        skip_prefill=False,
        sliding_window_size=None,
        swa_v_head_dim=None,
        use_sliding_window_kv_pool=False,
        v_head_dim=1,
        _translate_kv_loc=None,
        _verify_mask=None,
    )
    leaf.init_cuda_graph_state(case.graph, case.graph * case.tokens)
    if case.owner == "triton":
        return leaf
    if case.owner == "linear":
        made = object.__new__(
            importlib.import_module(f"{ATTENTION}.hybrid_linear_attn_backend").HybridLinearAttnBackend
        )
        made.full_attn_backend, made.linear_attn_backend = leaf, None
    else:
        made = object.__new__(importlib.import_module(f"{ATTENTION}.hybrid_attn_backend").HybridAttnBackend)
        made.prefill_backend = made.decode_backend = leaf
        settings = SimpleNamespace(speculative_attention_mode="prefill")
        made.model_runner = SimpleNamespace(server_args=settings)
        made.spec_attn_is_decode, made.spec_attn_is_prefill = False, True
    if not hasattr(made, "max_context_len"):
        made.max_context_len = case.context
    return made


def chain(count: int, tokens: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return parents, selected tokens and their ids of a draft in which each token follows the previous one.

    The kernel follows parents to the first token; a token that is its own parent would be an endless loop.
    """
    chosen = torch.arange(tokens - 1, device=device).repeat(count, 1)
    return chosen - 1, chosen, torch.zeros_like(chosen)


def drafted(case: Case, device: str) -> torch.Tensor:
    """Return the mask that the worker's draft writes for a verify."""
    worker = importlib.import_module(WORKER)
    tree_masks = importlib.import_module("sglang.srt.speculative.eagle_utils").TreeMaskMode
    modes = importlib.import_module("sglang.srt.model_executor.forward_batch_info").ForwardMode
    count, tokens = case.count, case.tokens

    def whole(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.int64, device=device)

    results = chain(count, tokens, device)
    prepared = SimpleNamespace(forward_mode=modes.DECODE), True
    batch = SimpleNamespace(
        forward_mode=modes.DECODE,
        seq_lens=whole(count) + case.length,
        seq_lens_cpu=torch.full((count,), case.length) if case.known else None,
        seq_lens_sum=count * case.length if case.known else None,
        # The last tokens have another name in the oldest trees.
        spec_info=SimpleNamespace(
            bonus_tokens=whole(count), verified_id=whole(count), prepare_for_v2_draft=lambda *_: prepared
        ),
    )
    drafting = object.__new__(worker.EagleDraftWorker)
    vars(drafting).update(
        prepare_for_draft=lambda *_, **__: prepared,
        req_to_token_pool=None,
        cuda_graph_runner=SimpleNamespace(replay=lambda _: results, execute=lambda _: (*results, None)),
        draft_runner=SimpleNamespace(canary_manager=None),
        target_worker=SimpleNamespace(model_runner=SimpleNamespace(attn_backend=target(case, device))),
        device=device,
        topk=1,
        speculative_num_steps=tokens - 1,
        speculative_num_draft_tokens=tokens,
        tree_mask_mode=tree_masks.FULL_MASK,
    )
    mask: torch.Tensor = drafting.draft(batch).custom_mask
    return mask


def checked(tree: str, case: Case, device: str, guarded: bool) -> Outcome:
    """Return the outcome of a case in the imported tree."""
    # Room for what a batch above the largest graph writes past its mask.
    guards = Guards(2 * case.tokens * (case.row + case.tokens) * (case.count + 1 - case.graph + 1))
    try:
        if guarded:
            with guards:
                elements = drafted(case, device).numel()
        else:
            elements = drafted(case, device).numel()
        if device == "cuda":
            torch.cuda.synchronize()
        return Outcome(tree, case, elements, guards.broken() if guarded else None)
    except Exception as error:
        # Such as a release that needs the mirror; the other cases continue.
        return Outcome(tree, case, error=f"{type(error).__name__}: {error}")


def use(folders: list[str]) -> None:
    """Import sglang from the first of ``folders``."""
    sys.path[:0] = folders
    # An optional kernel library with a missing dependency fails only on the first import.
    with contextlib.suppress(ImportError):
        importlib.import_module(WORKER)


def table(outcomes: list[Outcome], controls: tuple[str, ...]) -> Table:
    """Return the outcomes, one line per tree, owner and number of requests."""
    made = Table("tree", "mask of", "requests", "largest graph", "cases", "overflows", "errors")
    lines = dict.fromkeys(
        (outcome.tree, outcome.case.owner, outcome.case.count, outcome.case.graph) for outcome in outcomes
    )
    for tree, owner, count, graph in lines:
        of = [o for o in outcomes if (o.tree, o.case.owner, o.case.count) == (tree, owner, count)]
        made.add_row(
            f"{tree} (control)" if tree in controls else tree,
            owner,
            str(count),
            str(graph),
            str(len(of)),
            str(sum(bool(o.overflow) for o in of)),
            str(sum(o.error is not None for o in of)),
        )
    return made


def passed(outcomes: list[Outcome], controls: tuple[str, ...]) -> bool:
    """Return whether no tree overflowed or failed, and each control overflowed."""
    overflowed = {outcome.tree for outcome in outcomes if outcome.overflow}
    trees_passed = all(
        not outcome.overflow and outcome.error is None for outcome in outcomes if outcome.tree not in controls
    )
    return trees_passed and overflowed >= set(controls)


@click.command()
@tree_option("A tree to check, a path or REPOSITORY@REF.")
@click.option(
    "--control",
    "controls",
    multiple=True,
    metavar="NAME",
    help="A tree that must overflow, such as the unpatched release.",
)
@site_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for results.json."
)
@click.option("--graph", type=click.IntRange(min=1), default=8, show_default=True, help="The largest graph.")
@click.option("--context", type=click.IntRange(min=64), default=8192, show_default=True)
@click.option("--tokens", type=click.IntRange(min=2), default=4, show_default=True, help="Draft tokens.")
@click.option(
    "--guards/--no-guards", default=True, show_default=True, help="Place allocations between guards."
)
def main(
    *,
    places: dict[str, str],
    controls: tuple[str, ...],
    site: Path | None,
    out: Path,
    graph: int,
    context: int,
    tokens: int,
    guards: bool,
) -> None:
    """Write each tree's masks and print where one was written past its end."""
    for name in controls:
        if name not in places:
            raise UsageError(f"--control {name} is not a tree: add --tree {name}=PLACE.")
    if controls and not guards:
        raise UsageError("--no-guards cannot detect the overflow of a --control: leave one of them out.")
    out.mkdir(parents=True, exist_ok=True)
    trees = [contender(name, located(place, out / "trees" / name)) for name, place in places.items()]
    if not torch.cuda.is_available():
        raise UsageError("torch finds no GPU: run this on a machine with one.")
    outcomes: list[Outcome] = []
    console = Console(stderr=True)
    for tree in trees:
        folders = [str(folder) for folder in (tree.folder, site) if folder is not None]
        # One process per tree: a process cannot import two, and an illegal access ends it.
        with ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), initializer=use, initargs=(folders,)
        ) as process:
            for case in track(drawn_up(graph, context, tokens), tree.name, console=console):
                try:
                    outcomes.append(process.submit(checked, tree.name, case, "cuda", guards).result())
                except BrokenProcessPool as error:
                    outcomes.append(Outcome(tree.name, case, error=f"the process ended: {error}"))
        found = [asdict(outcome) for outcome in outcomes]
        (out / "results.json").write_text(json.dumps({"command": sys.argv, "outcomes": found}, indent=1))
    Console(width=120).print(table(outcomes, controls))
    for outcome in outcomes:
        if outcome.error and outcome.tree not in controls:
            click.echo(f"{outcome.tree}: {outcome.case}: {outcome.error}")
    sys.exit(not passed(outcomes, controls))


if __name__ == "__main__":
    try:
        main()
    except PatchkitError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)

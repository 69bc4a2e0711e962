"""What accepted paths of trees leave, by torch and by the kernels, beside a walk by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.chain import compact_trees, moves_of_paths, uninitialised_buffers
from patchkit.backends.commit import commit_paths
from patchkit.backends.step_buffers import AcceptedPaths, VerifiedTrees, VerifyBuffers

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH = 37

Case = tuple[int, int, int, int]
cases: st.SearchStrategy[Case] = st.tuples(
    st.integers(1, 6), st.sampled_from([1, 2, 3, 5]), st.sampled_from([0, 1, 3, 12]), st.integers(0, 1000)
)
"""Requests, depth, by how much there are more draft tokens, and a seed."""


def made(case: Case) -> tuple[AcceptedPaths, torch.Tensor]:
    """Return paths on slots of their own, in a pool of as many rows, and the target's tokens."""
    requests, depth, more, seed = case
    tokens = depth + more
    generator = torch.Generator().manual_seed(seed)

    def some(most: int, count: int) -> torch.Tensor:
        return torch.randint(most, (count,), generator=generator)

    drafts = some(depth, requests).to(torch.int32)
    index = torch.full((requests, depth), -1, dtype=torch.int32)
    for request, count in enumerate(drafts.tolist()):
        path = torch.randperm(tokens, generator=generator)[: count + 1].sort().values
        index[request, : count + 1] = request * tokens + path
    slots = torch.randperm(999, generator=generator)[: requests * tokens]
    pool = some(999, requests * _WIDTH).to(torch.int32).view(requests, _WIDTH)
    rows = torch.randperm(requests, generator=generator)
    lens = some(_WIDTH - tokens, requests)
    # The last one is in no place.
    return AcceptedPaths(index, drafts, lens, slots, rows, pool), some(99, requests * tokens + 1).to(
        torch.int32
    )


def walked(case: Case) -> dict[str, Any]:
    paths, predicted = made(case)
    requests, depth, more, _ = case
    tokens = depth + more
    lens, slots, index = paths.lens.tolist(), paths.slots.tolist(), paths.places.tolist()
    found: dict[str, Any] = {name: [] for name in ("places", "tokens", "counts", "bonus", "starts")}
    found |= {name: [] for name in ("kept", "positions", "freed", "to", "source", "order", "lens")}
    pool = paths.req_to_token.tolist()
    for request in range(requests):
        path = [place for place in index[request] if place != -1]
        row = pool[paths.rows[request]]
        found["starts"].append(len(found["places"]))
        found["to"] += row[lens[request] : lens[request] + len(path)]
        for at, place in enumerate(path):
            row[lens[request] + at] = slots[place]
        found["places"] += path
        found["tokens"] += [int(predicted[place]) for place in path]
        found["counts"].append(len(path))
        found["bonus"].append(int(predicted[path[-1]]))
        found["kept"] += [slots[place] for place in path]
        found["positions"] += range(lens[request], lens[request] + len(path))
        own = range(request * tokens, (request + 1) * tokens)
        found["freed"] += [slots[place] for place in own if place not in path]
        found["order"] += path + [0] * (depth - len(path)) + list(own)[depth:]
        found["lens"].append(lens[request] + len(path))
    found["source"] = [*found["kept"]]
    for name in ("to", "source"):
        found[name] += [0] * (requests * depth - len(found[name]))
    found["pool"] = pool
    return found


COMMITTED = ("places", "tokens", "counts", "bonus", "starts", "kept", "positions", "freed", "lens", "pool")
MOVED = ("to", "source", "order")


def of(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found[name] for name in names}


def lists(values: Any) -> dict[str, Any]:
    return {name: value.tolist() for name, value in values._asdict().items()}


def derived(case: Case) -> dict[str, Any]:
    """Return what a verify of the trees leaves, but for the places, which the paths have."""
    paths, predicted = made(case)
    requests, depth, more, _ = case
    tokens, lens = depth + more, paths.lens.tolist()
    found = walked(case)
    chosen = [int(predicted[place]) for place in found["order"]]
    return {
        "tokens": chosen,
        "wide_tokens": chosen,
        "accepted": found["counts"],
        "drafts": paths.drafts.tolist(),
        "bonus": found["bonus"],
        "wide_bonus": found["bonus"],
        "lens_after": found["lens"],
        "last": [row * tokens + count - 1 for row, count in enumerate(found["counts"])],
        "prefixes": lens,
        "extends": [tokens] * requests,
        "starts": [row * tokens for row in range(requests)],
        "extended": [length + tokens for length in lens],
        "positions": [length + at for length in lens for at in range(tokens)],
    }


def trees_of(case: Case) -> tuple[VerifiedTrees, VerifyBuffers]:
    paths, predicted = made(case)
    buffers = uninitialised_buffers(case[0], case[1] + case[2], torch.device("cpu"))
    buffers.narrow.fill_(-77)
    buffers.wide.fill_(-77)
    return VerifiedTrees(predicted[:-1], paths.places, paths.drafts, paths.lens), buffers


def found_of(buffers: VerifyBuffers) -> dict[str, Any]:
    assert set(buffers.places.tolist()) <= {-77}
    return {name: value for name, value in lists(buffers).items() if name not in ("narrow", "wide", "places")}


@given(cases)
def test_torch_finds_what_a_walk_finds(case: Case) -> None:
    paths, predicted = made(case)
    total = len(walked(case)["places"])
    assert of(lists(moves_of_paths(paths)), MOVED) == of(walked(case), MOVED)
    committed = lists(commit_paths(paths, predicted, total))
    after = {"lens": paths.lens.tolist(), "pool": paths.req_to_token.tolist()}
    assert of(committed | after, COMMITTED) == of(walked(case), COMMITTED)
    trees, buffers = trees_of(case)
    compact_trees(trees, buffers)
    assert found_of(buffers) == derived(case)


def by_kernels(case: Case, wide: bool, around: Around) -> tuple[dict[str, Any], dict[str, Any]]:
    from patchkit.backends.chain_kernel import compact_trees_by_kernel, moves_by_kernel
    from patchkit.backends.commit_kernel import commit_by_kernel

    paths, predicted = made(case)
    if not wide:
        paths = paths._replace(rows=paths.rows.to(torch.int32))
    # Of the right sizes; their content is the kernels' to write.
    moves = moves_of_paths(paths)
    moves.buffer.fill_(-77)
    launch(moves_by_kernel, paths, moves, around=around)
    committed = commit_paths(paths, predicted, int((paths.drafts + 1).sum()))
    committed.narrow.fill_(-77)
    committed.wide.fill_(-77)
    again, _ = made(case)
    launch(commit_by_kernel, again, predicted, committed, around=around)
    trees, buffers = trees_of(case)
    launch(compact_trees_by_kernel, trees, buffers, around=around)
    after = {"lens": again.lens.tolist(), "pool": again.req_to_token.tolist()}
    return lists(moves) | lists(committed) | after, found_of(buffers)


@given(cases, st.booleans(), arounds)
def test_the_kernels_find_what_a_walk_finds(
    by_kernel: Callable[..., Any], case: Case, wide: bool, around: Around
) -> None:
    found, outcome = by_kernel(by_kernels, case, wide, around)
    assert of(found, (*MOVED, *COMMITTED)) == of(walked(case), (*MOVED, *COMMITTED))
    assert outcome == derived(case)

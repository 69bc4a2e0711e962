"""What follows from a verified chain, by torch and by the kernel, beside a walk by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.chain import uninitialised_buffers, verify_chains
from patchkit.backends.step_buffers import DraftedChains, VerifyBuffers

if TYPE_CHECKING:
    from collections.abc import Callable


def drafted(requests: int, tokens: int, seed: int) -> DraftedChains:
    generator = torch.Generator().manual_seed(seed)
    candidates, targets = torch.randint(2, (2, requests, tokens), generator=generator).unbind()
    return DraftedChains(
        candidates, targets.contiguous(), torch.randint(1 << 30, (requests,), generator=generator)
    )


def walked(given: DraftedChains) -> dict[str, list[int]]:
    """Follow each chain from token to token, and count what the target agrees with."""
    requests, tokens = given.candidates.shape
    found: dict[str, list[int]] = {
        name: [] for name in VerifyBuffers._fields if name not in ("narrow", "wide")
    }
    for row in range(requests):
        right = 0
        while right + 1 < tokens and given.candidates[row, right + 1] == given.targets[row, right]:
            right += 1
        chosen = [int(each) if at <= right else 0 for at, each in enumerate(given.targets[row])]
        found["tokens"] += chosen
        found["wide_tokens"] += chosen
        found["accepted"].append(right + 1)
        found["places"] += [row * tokens + at if at <= right else -1 for at in range(tokens)]
        found["drafts"].append(right)
        found["bonus"].append(int(given.targets[row, right]))
        found["wide_bonus"].append(int(given.targets[row, right]))
        found["lens_after"].append(int(given.lens[row]) + right + 1)
        found["last"].append(row * tokens + right)
        found["prefixes"].append(int(given.lens[row]))
        found["extends"].append(tokens)
        found["starts"].append(row * tokens)
        found["extended"].append(int(given.lens[row]) + tokens)
        found["positions"] += [int(given.lens[row]) + at for at in range(tokens)]
    return found


def fields_of(made: VerifyBuffers) -> dict[str, list[int]]:
    return {name: value.tolist() for name, value in made._asdict().items() if name not in ("narrow", "wide")}


@given(st.integers(0, 6), st.integers(1, 6), st.integers(0, 1000))
def test_torch_finds_what_a_walk_finds(requests: int, tokens: int, seed: int) -> None:
    given_, made = (
        drafted(requests, tokens, seed),
        uninitialised_buffers(requests, tokens, torch.device("cpu")),
    )
    verify_chains(given_, made)
    assert fields_of(made) == walked(given_)


def found_by_kernel(requests: int, tokens: int, seed: int, around: Around) -> dict[str, list[int]]:
    from patchkit.backends.chain_kernel import verify_chains_by_kernel

    made = uninitialised_buffers(requests, tokens, torch.device("cpu"))
    made.narrow.fill_(-77)
    made.wide.fill_(-77)
    launch(verify_chains_by_kernel, drafted(requests, tokens, seed), made, around=around)
    return fields_of(made)


# Also as many tokens as a block is not a multiple of.
@given(st.integers(0, 6), st.sampled_from([1, 2, 3, 4, 5, 8, 17]), st.integers(0, 1000), arounds)
def test_the_kernel_finds_what_a_walk_finds(
    by_kernel: Callable[..., Any], requests: int, tokens: int, seed: int, around: Around
) -> None:
    found = by_kernel(found_by_kernel, requests, tokens, seed, around)
    assert found == walked(drafted(requests, tokens, seed))

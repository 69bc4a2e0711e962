"""Doctor refuses the servers that a tree refuses as it settles their settings, executed: these, at the same line."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.driven.trees import DEFAULT, as_released, with_patches
from support.sweeps import crossed

from patchkit.doctor.evaluation.memory import Memory
from patchkit.doctor.launch import Launch
from patchkit.doctor.options import Arguments
from patchkit.doctor.server import outcomes
from patchkit.tree.index import Program, read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.releases import Releases

CHOICES: dict[str, list[Any]] = {
    "attention_backend": [
        *("triton", "fa3", "flashinfer", "trtllm_mha", "trtllm_mla", "flashmla", "cutlass_mla", None)
    ],
    "prefill_attention_backend": [*[None] * 9, "fa3", "trtllm_mha"],
    "decode_attention_backend": [*[None] * 9, "triton", "trtllm_mha"],
    "speculative_draft_attention_backend": [*[None] * 9, "triton"],
    "speculative_algorithm": [
        *("EAGLE", "EAGLE3", "EAGLE3", "STANDALONE", "NEXTN", "NGRAM", "DFLASH", "FROZEN_KV_MTP")
    ],
    "speculative_eagle_topk": [None, 1, 1, 4, 4],
    "speculative_num_steps": [None, 1, 3, 3, 3],
    "speculative_num_draft_tokens": [None, 4, 8],
    "page_size": [None, None, 1, 16, 64],
    "disable_overlap_schedule": [*[False] * 5, True],
    "disable_radix_cache": [*[False] * 5, True],
    "enable_dp_attention": [*[False] * 7, True],
    "enable_two_batch_overlap": [*[False] * 8, True],
    "speculative_use_rejection_sampling": [*[False] * 6, True],
    "speculative_adaptive": [*[False] * 8, True],
    "speculative_draft_window_size": [*[None] * 8, -1, 512],
    "mamba_scheduler_strategy": [*[None] * 5, "no_buffer", "extra_buffer"],
    "mamba_radix_cache_strategy": [*[None] * 5, "no_buffer", "extra_buffer_lazy"],
    "disaggregation_mode": [*["null"] * 4, "prefill", "decode"],
    "pp_size": [*[1] * 6, 2],
    "chunked_prefill_size": [*[None] * 6, 100],
    "speculative_draft_model_path": [None, *["y"] * 5],
}
EACH = 30
BACKENDS = ("srt/layers/", "srt/model_executor/", "srt/speculative/draft_utils.py")


def servers(tree: Any, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield servers, drawn at random, with those of the tree's settings that they are given."""
    draw = random.Random(seed)
    known = Arguments(tree).defaults
    for _ in range(EACH):
        drawn = {name: draw.choice(values) for name, values in CHOICES.items()}
        given = {name: value for name, value in drawn.items() if name in known and value is not None}
        yield given, {"SGLANG_ENABLE_SPEC_V2": draw.choice("01")} if draw.random() < 0.2 else {}


@pytest.mark.parametrize(
    ("patched", "version"), crossed((True, False), ("0.5.12.post1", "0.5.14", "0.5.20", "0.5.17"), one_in=2)
)
def test_doctor_refuses_what_the_tree_refuses_as_it_starts(
    releases: Releases, version: str, patched: bool
) -> None:
    tree: Any = releases.tree(version)
    driven = as_released(releases, version)
    if patched:
        tree = releases.applied(version, *DEFAULT)
        driven = with_patches(releases, "patched", DEFAULT, version)
    program = Program(read_sources(tree))
    defaults = Arguments(tree).defaults
    launches = list(servers(tree, seed=len(version) + patched))
    executed = driven.ask("servers.refusals", launches)
    memory = Memory()
    wrong: list[str] = []
    compared: set[str] = set()
    for (given, environment), places in zip(launches, executed, strict=True):
        found = outcomes(program, Launch(given, defaults, environment), memory)
        # The model that is executed is none of those that make a difference; its backends are not made.
        refused = {
            answered.refused.where
            for facts, answered in found
            if not any(facts.values()) and answered.refused
        }
        refused_at = {place for place in refused if not place.startswith(BACKENDS)}
        if refused_at and not (all(places) and refused_at <= set(places)):
            wrong.append(f"{given} {environment}: starts or ends at {places}, and doctor says {refused_at}")
        (first, *others) = places
        # Without a backend, sglang takes one by the GPU.
        if given.get("attention_backend") and first.startswith("srt/") and {*others} == {first}:
            compared.add(first)
            if refused_at != {first}:
                wrong.append(f"{given} {environment}: is refused at {first}, and doctor says {refused_at}")
    assert not wrong, f"{len(wrong)} of {len(launches)}:\n" + "\n".join(wrong[:8])
    started = sum("" in places for places in executed)
    assert started, executed
    assert len(compared) > 2, "one refusal is no comparison"


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.20"])
def test_doctor_refuses_the_values_that_the_trees_parser_refuses_in_its_words(
    releases: Releases, version: str
) -> None:
    executed = as_released(releases, version).ask("servers.wrong_values", "bogus!")
    arguments = Arguments(releases.tree(version))
    wrong, compared = [], 0
    for option, message in executed.items():
        refused = arguments.launch([option, "bogus!"]).refused if option != "--config" else None
        reason = refused.why if refused is not None else ""
        compared += bool(reason)
        if reason and _words(reason) != _words(message):
            wrong.append(f"{message!r}, and doctor: {reason!r}")
        # A function of the tree converts the others, or a call computes their choices.
        if not reason and re.search("invalid (int|float) value|'(triton|fa3|lru)',", message):
            wrong.append(f"{message!r}, and doctor accepts it")
    assert not wrong, "\n".join(wrong)
    assert compared > 100


def _words(message: str) -> list[str]:
    """Python 3.12 prints choices without quotes, and those of a set come in any order."""
    return sorted(re.split("[ ,']+", message.replace("')", ")").removesuffix(")")))

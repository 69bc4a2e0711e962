"""Doctor says what the tree's own decision, executed, returns for the same settings: patched trees and not."""

from __future__ import annotations

import collections
import random
from typing import TYPE_CHECKING, Any

import pytest
from support.driven.trees import DEFAULT, as_released, with_patches

from patchkit.audit.runners import AuditedProgram
from patchkit.doctor.declared import declared
from patchkit.doctor.launch import Case, Launch
from patchkit.doctor.server import outcomes
from patchkit.tree.index import Index, read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.releases import Releases


MROPE = "multimodal rotary positions (M-RoPE)"
ALONE = [
    [],
    ["multi-head latent attention (MLA)"],
    ["sliding-window layers"],
    ["local attention"],
    ["cross attention"],
    [MROPE],
    ["an architecture that sglang runs without piecewise CUDA graphs"],
    ["the architecture LlamaForCausalLM"],
]
CHOICES: dict[str, list[Any]] = {
    "attention_backend": [
        *("triton", "triton", "fa3", "fa3", "fa4", "flashinfer", "trtllm_mha", "trtllm_mla", "flashmla")
    ],
    "prefill_attention_backend": [*[None] * 9, "fa3", "flashinfer", "triton"],
    "decode_attention_backend": [*[None] * 6, "triton", "fa3"],
    "speculative_draft_attention_backend": [*[None] * 9, "triton", "fa3", "flashinfer"],
    "speculative_attention_mode": ["prefill", "decode"],
    "speculative_algorithm": [
        *("EAGLE", "EAGLE3", "EAGLE3", "STANDALONE", "NEXTN", "NGRAM", "DFLASH", "FROZEN_KV_MTP")
    ],
    "topk and steps": [*[(1, 3)] * 5, (1, 1), (2, 3), (4, 5), (None, None)],
    "disable_piecewise_cuda_graph": [False, True, True],
    "enable_breakable_cuda_graph": [*[False] * 8, True],
    "disable_overlap_schedule": [*[False] * 8, True],
    "page_size": [1, 64],
    "enable_dp_attention": [*[False] * 5, True],
    "enable_two_batch_overlap": [*[False] * 8, True],
    "disaggregation_mode": ["null", "prefill", "decode"],
    "plan stream": [*[False] * 8, True],
}
EACH = 30
RELEASES = ("0.5.12.post1", "0.5.13", "0.5.14", "0.5.17", "0.5.20", "0.5.23")


def servers(tree: Any, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield servers, drawn at random, with those of the tree's settings that they are given."""
    draw = random.Random(seed)
    index = Index(tree.read)
    known = declared(index, lambda: (), str(tree.package_label)).fields
    for _ in range(EACH):
        drawn = {name: draw.choice(values) for name, values in CHOICES.items()}
        topk, steps = drawn.pop("topk and steps")
        # What no server of that kind starts with.
        algorithm = drawn["speculative_algorithm"]
        if topk is None and algorithm in ("DFLASH", "FROZEN_KV_MTP"):
            topk, steps = 1, 3
        if algorithm in ("DFLASH", "STANDALONE", "NGRAM"):
            drawn["enable_dp_attention"] = False
        if algorithm == "NGRAM" or topk != 1:
            drawn["page_size"] = 1
        stream = {"SGLANG_ENABLE_OVERLAP_PLAN_STREAM": "1"} if drawn.pop("plan stream") else {}
        tokens = None if topk is None else topk * steps + 1
        drawn |= {
            "speculative_eagle_topk": topk,
            "speculative_num_steps": steps,
            "speculative_num_draft_tokens": tokens,
        }
        drawn["speculative_draft_model_path"] = "y"
        yield {name: value for name, value in drawn.items() if name in known and value is not None}, stream


def _unchanged(*_: object) -> Launch:
    raise AssertionError("a decision changes no launch")


# Opt-in patches with which further backends are freed, in releases that have none of upstream's opt-outs.
OPT_IN = ("29343", "pk-trtllm-mha-opt-out")
TREES = [
    *((version, how) for version in RELEASES for how in ("plain", "default")),
    *((version, "opted") for version in RELEASES[:3]),
]


def _represents(version: str, how: str) -> bool:
    """Return whether a tree is the first release, as it is or with the most patches."""
    return version == RELEASES[0] and how != "default"


@pytest.mark.parametrize(
    ("version", "how"),
    [pytest.param(*tree, marks=() if _represents(*tree) else pytest.mark.sweep) for tree in TREES],
)
def test_doctor_reports_for_each_server_what_the_trees_own_decision_returns(
    releases: Releases, version: str, how: str
) -> None:
    patches = {"plain": (), "default": DEFAULT, "opted": (*DEFAULT, *OPT_IN)}[how]
    patched = bool(patches)
    tree: Any = releases.tree(version)
    driven = as_released(releases, version)
    if patched:
        tree = releases.applied(version, *patches)
        driven = with_patches(releases, "patched", patches, version)
    program = AuditedProgram(read_sources(tree))
    launches = list(servers(tree, seed=len(version) + patched))
    executed = driven.ask("servers.decisions", launches, ALONE)
    settled = driven.ask("servers.settled", launches, ALONE)
    wrong: list[str] = []
    why: collections.Counter[str] = collections.Counter()
    decided = 0
    verdicts = set()
    for (given, environment), kept, settings in zip(launches, executed, settled, strict=True):
        decisions = set()
        for model, expected, values in zip(ALONE, kept, settings, strict=True):
            if isinstance(expected, str):
                why[expected] += 1
                continue
            facts = {fact: fact in model for each in ALONE for fact in each}
            case = Case(facts, facts, values)
            ((_, outcome),) = outcomes(program, Launch({}, environment, (case,), _unchanged))
            overlap, decision = expected
            decided += decision is not None
            # Such a draft keeps the mirror of any server of a patched release before 0.5.14.
            if model != [MROPE]:
                decisions.add(decision is not False or not overlap)
            if outcome.refused:
                wrong.append(f"{given} {environment} {model}: starts, and doctor says {outcome.refused}")
            elif (outcome.overlap, outcome.answer) != expected:
                wrong.append(f"{given} {environment} {model}: {outcome} but {expected}")
        verdicts.add(frozenset(decisions))
    assert not wrong, f"{len(wrong)} of {decided}:\n" + "\n".join(wrong[:8])
    if not patched and version == "0.5.12.post1":
        assert decided == 0, "a tree without the decision is asked for none"
        return
    started = sum(isinstance(each, tuple) for row in executed for each in row)
    assert started > len(launches) * len(ALONE) / 2, why.most_common(5)
    assert decided > 60
    assert {frozenset({True}), frozenset({False})} <= verdicts
    if patched and version == "0.5.12.post1":
        assert frozenset({True, False}) in verdicts

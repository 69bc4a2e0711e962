"""A fork that has one site written in its own way gets every upgrade that does not need it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.releases import REFERENCE, Releases, fingerprints, run, states_in

from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

SPECULATIVE = "srt/speculative"


class Fork(NamedTuple):
    """A release, what a fork has made of one of its sites, what conflicts there, and what needs one of those."""

    version: str
    file: str
    old: str
    new: str
    conflicting: frozenset[str]
    needing: frozenset[str] = frozenset()


FORKS = {
    "one patch": Fork(
        REFERENCE,
        f"{SPECULATIVE}/eagle_draft_cuda_graph_runner.py",
        "copy_(forward_batch.spec_info.topk_p)",
        "copy_(forward_batch.spec_info.topk_p.clamp(0, 1))",
        frozenset({"28465"}),
        frozenset({"pk-tail-graph"}),
    ),
    "one patch of a later release": Fork(
        "0.5.14",
        f"{SPECULATIVE}/eagle_worker_v2.py",
        "select_top_k_tokens(",
        "our_own_choice(",
        frozenset({"26424"}),
    ),
    "a part of a seed": Fork(
        REFERENCE,
        "srt/layers/attention/triton_backend.py",
        "max(forward_batch.extend_seq_lens_cpu)",
        "longest_of(forward_batch.extend_seq_lens_cpu)",
        frozenset({"26128"}),
        frozenset(
            {
                *("26824", "28579", "31364", "32886"),
                *("pk-dead-work", "pk-fa3-branches", "pk-hybrid-opt-out", "pk-verify-outputs"),
            }
        ),
    ),
}


@pytest.mark.parametrize(
    "fork",
    [
        pytest.param(fork, id=name, marks=() if name == "a part of a seed" else pytest.mark.sweep)
        for name, fork in FORKS.items()
    ],
)
def test_all_that_fits_is_applied_and_verifies(releases: Releases, tmp_path: Path, fork: Fork) -> None:
    tree = releases.copy(fork.version, tmp_path)
    expected = states_in(json.loads(run("apply", tree.root, "--dry-run", "--json").stdout))
    text = (tree.package / fork.file).read_text()
    assert fork.old in text
    (tree.package / fork.file).write_text(text.replace(fork.old, fork.new))
    before = fingerprints(tree.root)
    run("apply", tree.root, *fork.conflicting, code=3)
    run("apply", tree.root, "--all", code=3)
    assert fingerprints(tree.root) == before
    applied = json.loads(run("apply", tree.root, "--json").stdout)
    left = fork.conflicting | fork.needing
    assert {each["patch"] for each in applied["left"]} == left
    states = states_in(applied)
    assert {states[name] for name in fork.conflicting} == {"conflict"}
    # Of a patch that requires one in conflict, the tree may lack the place.
    others = {patch.id for patch in load.patches() if left.isdisjoint({patch.id, *patch.requires})}
    assert {name: states[name] for name in states.keys() & others} == {
        name: state for name, state in expected.items() if name in others
    }
    run("verify", tree.root)
    patched = fingerprints(tree.root)
    again = json.loads(run("apply", tree.root, "--json").stdout)
    assert again["changed_files"] == []
    assert {each["patch"] for each in again["left"]} == left
    assert fingerprints(tree.root) == patched
    run("status", tree.root, "--check", code=1)
    configuration = tree.root / "patchkit.toml"
    configuration.write_text(f"left_out = {json.dumps(sorted(left))}\n")
    run("status", tree.root, "--check")
    configuration.unlink()
    run("revert", tree.root)
    assert fingerprints(tree.root) == before

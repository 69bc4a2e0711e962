"""Every release that patches apply to starts with them: what they put on the way reads only what exists by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.constructed import CASES, CONSTRUCTED, PATCHES, RELEASES, on
from support.driven.trees import DrivenTree, ProbeError

from patchkit.patchset import load
from patchkit.patchset.patch import parts_by_comment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.releases import Releases

pytestmark = pytest.mark.usefixtures("_parsed_once")


@pytest.fixture(scope="module", params=RELEASES)
def started(
    request: pytest.FixtureRequest, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, DrivenTree]]:
    """A release with every patch that has no conflict with it, those that take naming too."""
    version: str = request.param

    def make() -> Path:
        tree = releases.copy(version, tmp_path_factory.mktemp(version))
        for change in releases.plan(version).changes:
            assert change.after is not None
            (tree.package / change.file).parent.mkdir(parents=True, exist_ok=True)
            (tree.package / change.file).write_bytes(change.after)
        return tree.root

    tree = DrivenTree(version, make)
    yield version, tree
    tree.stop()


def test_a_patched_release_makes_its_workers_backends_and_graph_runners(
    started: tuple[str, DrivenTree],
) -> None:
    version, tree = started
    made: set[str] = set()
    comments: set[str] = set()
    for case in CASES:
        if version not in case.lacking:
            kinds, wrote = tree.ask(
                "start_up.start", case.worker, case.backends, case.family, plan_stream=case.plan_stream
            )
            made.update(kinds)
            comments.update(wrote)
    assert made == on(version, CONSTRUCTED)
    parts = parts_by_comment(load.patches())
    assert {parts[comment] for comment in comments} == on(version, PATCHES)
    # FlashInfer's MLA backend has no hook: the server says so before it captures its own graphs.
    with pytest.raises(ProbeError, match="cannot verify with the overlap plan stream"):
        tree.ask("start_up.start", "eagle", "flashinfer", "mla", plan_stream=True)


KEEP_WHAT_WAS_TYPED = ("0.5.20", "0.5.23")
"""Releases whose arguments stay as typed, and that keep what became of them elsewhere."""


@pytest.mark.parametrize("started", KEEP_WHAT_WAS_TYPED, indirect=True)
def test_a_hybrid_whose_mode_was_resolved_starts_where_the_side_that_then_verifies_has_the_hook(
    started: tuple[str, DrivenTree],
) -> None:
    _, tree = started
    for mode in ("prefill", "decode"):
        resolved = {"speculative_attention_mode": mode}
        for prefill, decode in (("flashinfer", "trtllm_mha"), ("trtllm_mha", "flashinfer")):
            question = ("start_up.start", "eagle", f"{prefill}/{decode}", "llama")
            if {"prefill": prefill, "decode": decode}[mode] == "trtllm_mha":
                tree.ask(*question, plan_stream=True, resolved=resolved)
            else:
                with pytest.raises(ProbeError, match="FlashInferAttnBackend cannot verify"):
                    tree.ask(*question, plan_stream=True, resolved=resolved)


@pytest.mark.parametrize("started", KEEP_WHAT_WAS_TYPED, indirect=True)
def test_a_wrapper_starts_where_what_it_wraps_has_the_hook_and_else_says_who_lacks_it(
    started: tuple[str, DrivenTree],
) -> None:
    _, tree = started
    for name in ("backend", "dense"):
        message, raises = tree.ask("overlap.wrapped", name, "fa")
        assert message.startswith("FlashAttentionBackend cannot verify")
        assert raises
        assert tree.ask("overlap.wrapped", name, "triton") == (None, False)

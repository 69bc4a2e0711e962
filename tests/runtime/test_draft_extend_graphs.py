"""A draft-extend graph that patchkit adds is one whose runner fills all that the draft reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.runtime.api_1 import graphs_draft_extend


class FlashAttentionBackend:
    """A stand-in for the tree's own class, by whose name the runtime goes."""

    fa_impl_ver = 3
    topk = 1


class TritonAttnBackend:
    """Likewise, of a backend that every tree lists."""


class TRTLLMHAAttnBackend:
    """Likewise, of one that 25002 lists."""


class Fork(TRTLLMHAAttnBackend):
    """A fork's subclass, which the list takes too."""


PLAIN, MULTIMODAL = SimpleNamespace(model_is_mrope=False), SimpleNamespace(model_is_mrope=True)


@pytest.mark.parametrize(
    ("backend", "listed", "draft", "graphs"),
    [
        (FlashAttentionBackend(), False, PLAIN, True),
        (FlashAttentionBackend(), False, MULTIMODAL, False),
        # As later trees know it, and where nothing is known.
        (FlashAttentionBackend(), False, SimpleNamespace(model_config=MULTIMODAL), False),
        (FlashAttentionBackend(), False, SimpleNamespace(model_config=PLAIN), True),
        (FlashAttentionBackend(), False, SimpleNamespace(), True),
        (TRTLLMHAAttnBackend(), True, PLAIN, True),
        (TRTLLMHAAttnBackend(), True, MULTIMODAL, False),
        (Fork(), True, MULTIMODAL, False),
        # The tree's own choice.
        (TritonAttnBackend(), True, MULTIMODAL, True),
        (TRTLLMHAAttnBackend(), True, SimpleNamespace(model_config=MULTIMODAL), False),
    ],
)
def test_a_draft_with_multimodal_positions_gets_no_graph_that_does_not_copy_them(
    backend: object, listed: bool, draft: object, graphs: bool
) -> None:
    worker: Any = SimpleNamespace(
        server_args=SimpleNamespace(speculative_token_map=None),
        draft_runner=draft,
        draft_extend_attn_backend=backend,
        speculative_num_draft_tokens=4,
    )
    assert graphs_draft_extend(worker, listed, on_cuda=True) is graphs


@pytest.mark.parametrize(
    ("mirror", "branches", "disable", "graphs"),
    [
        (False, True, "", True),
        # The runner has room for a chain, the backend reads the mirror, or the patch is switched off.
        (False, False, "", False),
        (True, True, "", False),
        (False, True, "pk-tree-extend-graph", False),
    ],
)
@pytest.mark.parametrize("window", [False, True])
def test_a_draft_of_several_branches_gets_a_graph_where_a_tree_fits(  # noqa: PLR0917
    monkeypatch: pytest.MonkeyPatch, mirror: bool, branches: bool, disable: str, graphs: bool, window: bool
) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", disable)
    backend: Any = FlashAttentionBackend()
    # Of those no tree's tokens have run.
    backend.has_swa, graphs = window, graphs and not window
    vars(backend).update(topk=4, needs_cpu_seq_lens=mirror, use_sliding_window_kv_pool=False)
    worker: Any = SimpleNamespace(
        server_args=SimpleNamespace(speculative_token_map=None),
        draft_runner=PLAIN,
        draft_extend_attn_backend=backend,
        speculative_num_draft_tokens=8,
    )
    assert graphs_draft_extend(worker, False, on_cuda=True, branches=branches) is graphs

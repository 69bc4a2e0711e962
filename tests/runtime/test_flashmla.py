from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.flashmla import as_flashmla_verify, flashmla_bounds, flashmla_needs_mirror


class Mode(enum.Enum):
    TARGET_VERIFY = 1
    DRAFT_EXTEND_V2 = 2

    def is_draft_extend_v2(self) -> bool:
        return self is Mode.DRAFT_EXTEND_V2


class FlashMLABackend:
    pass


class Subclass(FlashMLABackend):
    pass


def test_a_subclass_keeps_the_mirror() -> None:
    assert not flashmla_needs_mirror(FlashMLABackend())
    assert flashmla_needs_mirror(Subclass())


def test_bounds_fill_the_table_and_leave_room_for_a_draft() -> None:
    backend: Any = SimpleNamespace(cuda_graph_kv_indices=torch.zeros(1, 3), num_draft_tokens=4)
    assert flashmla_bounds(backend, 2).tolist() == [3 * 64 - 4] * 2
    backend.num_draft_tokens = None
    assert flashmla_bounds(backend, 1).tolist() == [3 * 64]


def test_a_draft_extend_that_was_not_planned_is_not_computed_as_a_verify() -> None:
    batch: Any = SimpleNamespace(
        forward_mode=Mode.DRAFT_EXTEND_V2,
        seq_lens=torch.ones(1),
        seq_lens_cpu=None,
        spec_info=SimpleNamespace(),
    )
    with pytest.raises(AttributeError, match="patchkit_planned_verify"):
        as_flashmla_verify(batch)

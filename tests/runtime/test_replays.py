from __future__ import annotations

import pytest
import torch

from patchkit.runtime.api_1 import padded_replay, replay_padding


def test_the_padding_of_the_replay_counts_and_not_that_in_the_mirror() -> None:
    with padded_replay(4, 3):
        assert replay_padding(4, torch.tensor(2)) == 1
        assert replay_padding(4, None) == 1
    with padded_replay(4, 4):
        assert replay_padding(4, None) == 0
    with padded_replay(4, 0):
        assert replay_padding(4, None) == 4


def test_the_mirror_counts_where_the_replay_is_of_another_graph_or_unknown() -> None:
    assert replay_padding(4, 2) == 2
    with padded_replay(4, 3):
        assert replay_padding(2, 2) == 2
        with padded_replay(2, 2):
            assert replay_padding(2, 1) == 0
        assert replay_padding(4, 2) == 1
    assert replay_padding(4, 2) == 2


def test_a_replay_that_fails_leaves_nothing_behind() -> None:
    with pytest.raises(KeyError), padded_replay(4, 3):
        raise KeyError
    assert replay_padding(4, 2) == 2


def test_unknown_padding_is_an_error_with_advice() -> None:
    with pytest.raises(RuntimeError, match="PATCHKIT_DISABLE=28579"):
        replay_padding(4, None)
    with padded_replay(7, 3), pytest.raises(RuntimeError, match="graph of 4 requests"):
        replay_padding(4, None)


def test_where_the_patch_is_off_the_mirror_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "28579")
    with padded_replay(4, 3):
        assert replay_padding(4, 2) == 2

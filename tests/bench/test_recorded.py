"""Recorded answers of ``bench``: which server a file is of, and what a ratio says beside that of the same tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.answers import record

from patchkit.bench.recorded import RECORDED, recorded

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "options", "server"),
    [
        ("llama-8-fa3-0.5.18", "", ("Llama", 8, "fa3", 1)),
        ("mla-32-default-0.5.23", "--attention-backend triton", ("DeepSeek MLA", 32, "triton", 1)),
        ("qwen3-next-4-fa3-text-0.5.23", "--speculative-eagle-topk 4", ("Qwen3-Next", 4, "fa3", 4)),
        (
            "other-8-both-0.5.14",
            "--prefill-attention-backend fa3 --decode-attention-backend triton",
            ("other", 8, "fa3+triton", 1),
        ),
    ],
)
def test_a_server_is_told_by_the_name_of_its_file_and_by_its_command(
    tmp_path: Path, name: str, options: str, server: tuple[str, int, str, int]
) -> None:
    record(tmp_path, name, 0.9, "26128", options=options)
    (found,) = recorded(tmp_path)
    assert (found.model, found.layers, found.backend, found.top_k) == server


def test_a_file_that_tells_no_server_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "fa3", 0.9, "26128")
    with pytest.raises(ValueError, match="MODEL-LAYERS-BACKEND"):
        recorded(tmp_path)


def test_the_same_trees_ratio_counts_for_its_kind_of_gpu_whichever_tree_was_slower(tmp_path: Path) -> None:
    record(tmp_path, "llama-8-fa3-same", 1.25)
    record(tmp_path, "llama-8-fa3-a", 0.81, "26128")
    record(tmp_path, "llama-8-fa3-b", 0.78, "26128")
    record(tmp_path, "llama-8-fa3-c", 0.81, "26128", gpu="NVIDIA H100")
    gains = {each.name[-1]: each.gain(each.answer.batches[0]) for each in recorded(tmp_path)}
    assert gains.pop("e").startswith("none")
    assert gains == {
        "a": "none: the same tree twice differs as much",
        "b": "22.0% less time for each step",
        "c": "19.0% less time for each step",
    }


def test_the_same_trees_ratio_beside_busy_gpus_does_not_count_for_a_machine_that_did_nothing_else(
    tmp_path: Path,
) -> None:
    for others, ratio in {None: 1.25, 3: 1.3, 0: 1.05}.items():
        record(tmp_path, f"llama-8-fa3-same-{others}", ratio, others=others)
        record(tmp_path, f"llama-8-fa3-a-{others}", 0.9, "26128", others=others)
    said = {each.name: each.gain(each.answer.batches[0])[:5] for each in recorded(tmp_path)}
    assert {others: said[f"llama-8-fa3-a-{others}"] for others in (None, 3, 0)} == {
        None: "none:",
        3: "none:",
        0: "10.0%",
    }


def test_only_a_patched_release_over_itself_is_what_patches_gain(tmp_path: Path) -> None:
    record(tmp_path, "llama-8-fa3-same", 1.0)
    record(tmp_path, "llama-8-fa3-default", 0.9, "26128")
    record(tmp_path, "llama-8-fa3-opted", 0.9, "26128", "29343")
    record(tmp_path, "llama-8-fa3-over", 0.9, "26128", over="0.5.23")
    assert [each.name for each in recorded(tmp_path) if each.is_of({"26128", "28465"})] == [
        "llama-8-fa3-default"
    ]


def test_what_is_recorded_here_names_no_place_of_a_machine() -> None:
    found = recorded(RECORDED)
    assert found
    for each in found:
        assert "/" not in each.answer.command.replace("models/", ""), each.name
        assert not any(tree.package.startswith("/") for tree in each.answer.trees), each.name

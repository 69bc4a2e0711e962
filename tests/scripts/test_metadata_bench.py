"""The metadata benchmark's imports, comparisons and figures, without GPU or sglang."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from metadata_bench import backends, measure, stand_ins

from patchkit.backends import trtllm

TREE = {
    "srt/layers/attention/trtllm_mha_backend.py": """\
import torch
from sglang.srt.layers.attention.flashinfer_backend import FlashInferAttnBackend
from sglang.srt.layers.attention.utils import double, missing
from sglang.srt.utils import is_flashinfer_available

if is_flashinfer_available():
    import flashinfer


class TRTLLMHAAttnBackend(FlashInferAttnBackend):
    def replay(self, lens):
        return double(lens)
""",
    "srt/layers/attention/utils.py": """\
from sglang.jit_kernel.utils import is_arch_support_pdl
from sglang.srt.layers.attention.triton_ops.cache_ops import missing


def double(lens):
    return FACTOR * lens


FACTOR = 2
""",
    "srt/model_executor/forward_batch_info.py": """\
from enum import IntEnum
from sglang.srt.server_args import get_global_server_args


class ForwardMode(IntEnum):
    DECODE = 5
""",
}


def write_tree(root: Path, **replaced: str) -> Path:
    for name, text in (TREE | replaced).items():
        file = root / "sglang" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize("named", ["", "sglang"])
def test_a_trees_own_code_runs_with_stand_ins_for_the_rest(tmp_path: Path, named: str) -> None:
    modules = stand_ins.import_tree(write_tree(tmp_path) / named)
    assert modules.mha().replay(torch.tensor([1, 2])).tolist() == [2, 4]
    assert modules.modes.DECODE == 5


def test_two_trees_do_not_see_each_other_and_leave_nothing_behind(tmp_path: Path) -> None:
    finders = list(sys.meta_path)
    utils = "srt/layers/attention/utils.py"
    other = write_tree(tmp_path / "b", **{utils: TREE[utils].replace("FACTOR = 2", "FACTOR = 3")})
    first, second = (stand_ins.import_tree(path) for path in (write_tree(tmp_path / "a"), other))
    assert [modules.mha().replay(1) for modules in (first, second)] == [2, 3]
    assert sys.meta_path == finders
    assert not any(name.partition(".")[0] == "sglang" for name in sys.modules)


def test_a_folder_without_sglang_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="contains no sglang package"):
        stand_ins.import_tree(tmp_path)


def event(category: str, name: str, duration: float = 0.0) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "dur": duration}


def test_launches_copies_waits_and_busy_time_are_averages_over_the_calls() -> None:
    events = [
        *[event("kernel", "cumsum", 3.0)] * 6,
        *[event("gpu_memcpy", "Memcpy DtoH", 1.0)] * 2,
        event("gpu_memset", "Memset", 0.5),
        event("cuda_runtime", "cudaStreamSynchronize", 9.0),
        event("cuda_runtime", "cudaLaunchKernel", 9.0),
        event("cuda_runtime", "cudaDeviceSynchronize", 9.0),
        {"ph": "M", "cat": "kernel", "name": "not a span"},
    ]
    assert measure.count_activity(events, 2) == measure.Activity(3.0, 1.5, 0.5, 10.25)


def test_ratios_are_taken_round_by_round() -> None:
    ratio = measure.ratio([10.0, 40.0, 90.0], [10.0, 20.0, 30.0])
    assert ratio is not None
    assert (ratio.median, ratio.lowest, ratio.highest) == (2.0, 1.0, 3.0)


VERIFY = next(mode for mode in backends.MODES if mode.name == "MHA verify")


def replay(*lens: int) -> backends.Replay:
    return backends.Replay(torch.arange(len(lens)), torch.tensor(lens), torch.tensor(lens), None)


def metadata(**replaced: torch.Tensor) -> SimpleNamespace:
    tensors = {
        "cache_seqlens_int32": torch.tensor([20, 5], dtype=torch.int32),
        "page_table": torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=torch.int32),
    }
    return SimpleNamespace(max_seq_len_q=4, **(tensors | replaced))


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({}, []),
        ({"page_table": torch.tensor([[1, 2, 9], [4, 9, 9]], dtype=torch.int32)}, []),
        ({"page_table": torch.tensor([[1, 9, 3], [4, 5, 6]], dtype=torch.int32)}, ["page_table"]),
        ({"cache_seqlens_int32": torch.tensor([20, 6], dtype=torch.int32)}, ["cache_seqlens_int32"]),
        ({"cache_seqlens_int32": torch.tensor([20, 5])}, ["cache_seqlens_int32"]),
    ],
    ids=["same", "stale columns", "own page", "length", "type"],
)
def test_only_what_is_specified_counts_as_a_difference(
    replaced: dict[str, torch.Tensor], expected: list[str]
) -> None:
    found = backends.differences(metadata(**replaced), metadata(), replay(16, 1), VERIFY, page_size=16)
    assert found == expected


@pytest.mark.parametrize(
    ("page_size", "swa", "expected"),
    # Pages of 20 and 5 tokens, each read, written and perhaps translated; rows, lengths and offsets.
    [(16, False, 3 * 36 + 56), (1, False, 25 * 8 + 56), (16, True, 3 * 72 + 56)],
)
def test_the_floor_counts_each_own_page_once(page_size: int, swa: bool, expected: int) -> None:
    assert backends.bytes_moved(VERIFY, replay(16, 1), page_size, swa=swa) == expected


@pytest.mark.parametrize("skipped", [False, True])
def test_a_fallback_that_leaves_one_element_other_than_the_kernel_differs(
    monkeypatch: pytest.MonkeyPatch, skipped: bool
) -> None:
    held = torch.tensor([7, 7])
    values = SimpleNamespace(lens=held.clone())
    contender: Any = SimpleNamespace(metadata=lambda _: values)

    def kernel(*_: object) -> None:
        values.lens[0] = 1

    def fallback() -> None:
        if not skipped:
            values.lens[0] = 1

    monkeypatch.setattr(trtllm, "fill", kernel)
    monkeypatch.setattr(backends, "fill_by_torch", fallback)
    assert backends.fallback_differs(contender, lambda _: getattr(trtllm, "fill")(), 2) is skipped  # noqa: B009
    assert torch.equal(values.lens, held)

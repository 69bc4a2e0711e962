"""Which GPUs a server takes, and whether a second server fits into their memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchkit.bench.command import server_command
from patchkit.bench.gpus import GpuLoad, all_gpus, fits_beside, host_load, taken_gpus

if TYPE_CHECKING:
    from pathlib import Path

LISTED = "\n".join(f"{number}, GPU-a{number}, Stand-in, 4, 80000, 0" for number in range(4))


@pytest.fixture(autouse=True)
def _four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{LISTED}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        ("python3 -m sglang.launch_server", "0"),
        ("python3 -m sglang.launch_server --tp 2", "01"),
        ("python3 -m sglang.launch_server --tp-size=2 --base-gpu-id 1", "12"),
        ("python3 -m sglang.launch_server --tp 2 --dp 2", "0123"),
        ("python3 -m sglang.launch_server --tp 2 --dp 2 --enable-dp-attention", "01"),
        ("CUDA_VISIBLE_DEVICES=3,1 python3 -m sglang.launch_server --tp 2", "31"),
        ("env CUDA_VISIBLE_DEVICES=GPU-a2 python3 -m sglang.launch_server", "2"),
        ("CUDA_VISIBLE_DEVICES= python3 -m sglang.launch_server", ""),
    ],
)
def test_a_servers_gpus_are_those_that_its_command_names(command: str, numbers: str) -> None:
    found = server_command(command)
    assert "".join(gpu.number for gpu in taken_gpus(all_gpus(), found.environment, *found.gpus)) == numbers


def test_other_gpus_in_use_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def others(*taken: int) -> int:
        return host_load(all_gpus(), taken_gpus(all_gpus(), {}, *taken)).other_gpus

    assert others() == 0
    busy = LISTED.replace(", 0", ", 90")
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{busy}'\n")
    assert others(1, 2) == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert others() == 3


@pytest.mark.parametrize(
    ("taken", "fits"), [((20000,), True), ((39000,), False), ((20000, 60000), False), ((), False)]
)
def test_a_second_server_fits_where_each_gpu_has_as_much_left_and_a_tenth(
    taken: tuple[int, ...], fits: bool
) -> None:
    before = tuple(GpuLoad(str(number), "", "", 10, 80000, 0) for number in range(len(taken)))
    after = tuple(gpu._replace(used=gpu.used + used) for gpu, used in zip(before, taken, strict=True))
    assert fits_beside(before, after) is fits

"""The data that ranks with DP attention exchange about a step, and how often the host reads it from the device."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.batch_overlap.two_batch_overlap import TboDPAttentionPreparer

from .decisions import bare
from .recorders import DeviceTensor, PretendedCuda, plain

try:
    _gathers: Any = import_module("sglang.srt.managers.scheduler_components.dp_attn")
except ModuleNotFoundError:
    _gathers = import_module("sglang.srt.managers.scheduler_dp_attn_mixin")


def gathered(
    rows: list[list[int]], device: str, inactive: int | None = None, attn_tp: int = 1
) -> dict[str, Any]:
    """Gather ``rows``, the numbers of each rank, of which each group of ``attn_tp`` has the same.

    The rank ``inactive`` has ended. Returns what the ranks know then, and the host's reads of values on ``device``.
    """
    kind = _gathers.MLPSyncBatchInfo
    required = [each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING]
    info = kind(
        **dict.fromkeys(required, 0) | {"dp_size": len(rows) // attn_tp, "tp_size": attn_tp, "cp_size": 1}
    )

    def gather(
        output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: None = None, async_op: bool = False
    ) -> None:
        width = input_tensor.shape[0]
        with torch._C.DisableTorchFunctionSubclass():
            output_tensor.view(-1, width).copy_(torch.tensor([row[:width] for row in rows]))

    torch.distributed.all_gather_into_tensor = gather
    active = torch.tensor([int(rank != inactive) for rank in range(len(rows))])
    ranks = SimpleNamespace(active_ranks=active, active_ranks_cpu=active)
    _gathers.get_tp_group = lambda: ranks
    preparer = bare(TboDPAttentionPreparer)
    preparer.enable_two_batch_overlap, preparer.local_tbo_split_seq_index = True, 3
    with PretendedCuda():
        info.all_gather(device=device, group=None)
        split = preparer.compute_output(info.tp0_info[:, 4:6])
    known = {name: value for name, value in vars(info).items() if name not in required}
    return {"known": plain(known), "split": [split[0], str(split[1])], "reads": DeviceTensor.reads}

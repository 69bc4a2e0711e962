"""The GPUs for which settings can be executed, each as the tree's code asks about it."""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """A kind of GPU: its family, what it is called, compute capability, memory in MiB, processors, and AMD's name."""

    family: str
    name: str
    capability: tuple[int, int]
    memory: int
    processors: int
    gcn: str = ""

    @property
    def is_amd(self) -> bool:
        """Whether it runs ROCm instead of CUDA."""
        return bool(self.gcn)


GPUS = {
    "a100": Gpu("Ampere", "NVIDIA A100-SXM4-80GB", (8, 0), 81920, 108),
    "l40s": Gpu("Ada", "NVIDIA L40S", (8, 9), 46068, 142),
    "h100": Gpu("Hopper", "NVIDIA H100 80GB HBM3", (9, 0), 81559, 132),
    "h200": Gpu("Hopper", "NVIDIA H200", (9, 0), 143771, 132),
    "b200": Gpu("Blackwell", "NVIDIA B200", (10, 0), 183359, 148),
    "b300": Gpu("Blackwell", "NVIDIA B300 SXM6 AC", (10, 3), 275040, 148),
    "gb200": Gpu("Blackwell", "NVIDIA GB200", (10, 0), 189471, 152),
    "rtx5090": Gpu("consumer Blackwell", "NVIDIA GeForce RTX 5090", (12, 0), 32607, 170),
    "mi300x": Gpu("CDNA 3", "AMD Instinct MI300X", (9, 4), 196592, 304, "gfx942"),
    "mi355x": Gpu("CDNA 4", "AMD Instinct MI355X", (9, 5), 294896, 256, "gfx950"),
}
USUAL = ("h100", "b200")
"""The GPUs that are asked about where none is named."""

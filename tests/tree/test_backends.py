from __future__ import annotations

import pytest
from support.audited import MemoryTree

from patchkit.tree.backends import heirs_of

ROOT = "class AttentionBackend:\n    needs_cpu_seq_lens = True\n"
FAST = """\
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens: bool = False

    def init_replay(self, bs, seq_lens, seq_lens_cpu):
        self.lens = seq_lens
"""


def names(own: str) -> list[tuple[str, str, tuple[str, ...]]]:
    header = "from sglang.srt.layers.attention.fast_backend import FastBackend\n\n\n"
    tree = MemoryTree(
        {
            "srt/layers/attention/base_attn_backend.py": ROOT,
            "srt/layers/attention/fast_backend.py": FAST,
            "srt/layers/attention/own_backend.py": header + own,
        }
    )
    return [(heir.cls.name, heir.base.name, heir.methods) for heir in heirs_of(tree)]


READS = """\
class OwnBackend(FastBackend):
    def init_replay(self, bs, seq_lens, seq_lens_cpu):
        self.longest = seq_lens_cpu.max()
"""


def test_a_class_that_inherits_the_opt_out_and_reads_the_mirror_is_an_heir() -> None:
    assert names(READS) == [("OwnBackend", "FastBackend", ("init_replay",))]


def test_a_grandchild_is_an_heir_too() -> None:
    between = "class Between(FastBackend):\n    pass\n\n\n"
    found = names(between + READS.replace("(FastBackend)", "(Between)"))
    assert found == [("OwnBackend", "FastBackend", ("init_replay",))]


@pytest.mark.parametrize(
    "own",
    [
        READS.replace("    def", "    needs_cpu_seq_lens = True\n\n    def"),
        READS.replace("    def", "    needs_cpu_seq_lens = False\n\n    def"),
        READS.replace("(FastBackend)", ""),
        "class OwnBackend(FastBackend):\n    def init_replay(self, bs, seq_lens, seq_lens_cpu):\n"
        "        super().init_replay(bs, seq_lens, seq_lens_cpu)\n",
        "class OwnBackend(FastBackend):\n    def init_replay(self, bs, seq_lens, seq_lens_cpu):\n"
        "        assert seq_lens_cpu is None\n",
    ],
    ids=[
        "keeps the mirror",
        "opts out itself",
        "no heir",
        "only hands it to its base",
        "only tests for None",
    ],
)
def test_another_class_is_none(own: str) -> None:
    assert names(own) == []

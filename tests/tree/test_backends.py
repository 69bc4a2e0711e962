from __future__ import annotations

import pytest

from patchkit import memory
from patchkit.tree.backends import Backends, InheritingBackend, inheriting_backends
from patchkit.tree.index import Program
from patchkit.tree.tree import MemoryTree

ROOT = "class AttentionBackend:\n    needs_cpu_seq_lens = True\n"
FAST = """\
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens: bool = False

    def init_replay(self, bs, seq_lens, seq_lens_cpu):
        self.lens = seq_lens
"""


def inheriting(own: str) -> tuple[InheritingBackend, ...]:
    header = "from sglang.srt.layers.attention.fast_backend import FastBackend\n\n\n"
    tree = MemoryTree(
        {
            "srt/layers/attention/base_attn_backend.py": ROOT.encode(),
            "srt/layers/attention/fast_backend.py": FAST.encode(),
            "srt/layers/attention/own_backend.py": (header + own).encode(),
        }
    )
    return inheriting_backends(tree)


def names(own: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(backend.name, backend.base, backend.methods) for backend in inheriting(own)]


READS = """\
class OwnBackend(FastBackend):
    def init_replay(self, bs, seq_lens, seq_lens_cpu):
        self.longest = seq_lens_cpu.max()
"""


def test_a_class_that_inherits_the_opt_out_and_reads_the_mirror_is_found() -> None:
    assert names(READS) == [("OwnBackend", "FastBackend", ("init_replay",))]


def test_what_was_found_is_readable_after_the_syntax_trees_are_freed() -> None:
    (inheriting_backend,) = inheriting(READS)
    memory.forget()
    assert inheriting_backend.description == (
        "OwnBackend (srt/layers/attention/own_backend.py:4) inherits the opt-out of FastBackend and reads the mirror "
        "in init_replay"
    )


def test_a_grandchild_inherits_it_too() -> None:
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
        "reads nothing",
        "only hands it to its base",
        "only tests for None",
    ],
)
def test_another_class_is_none(own: str) -> None:
    assert names(own) == []


INSIDE = """
class AttentionBackend: ...
class StateBackend(AttentionBackend):
    needs_cpu_seq_lens = False
    def init_forward_metadata(self, batch): ...
class GatedBackend(StateBackend): ...
class PagedBackend(AttentionBackend):
    needs_cpu_seq_lens = False
    def init_forward_metadata(self, batch): ...
class Wrapper(AttentionBackend):
    def __init__(self, {full}, {state}):
        self.both = [full, state]
    def init_forward_metadata(self, batch): ...
"""


@pytest.mark.parametrize(
    ("full", "state", "inside"),
    [
        ("full: AttentionBackend", "state: StateBackend", {"StateBackend", "GatedBackend"}),
        ("full: 'AttentionBackend'", "state: 'linear.StateBackend'", {"StateBackend", "GatedBackend"}),
        # What may be any backend says nothing of a kind, and a kind alone may be the whole of another.
        ("full: AttentionBackend", "state: AttentionBackend", set()),
        ("full: int", "state: StateBackend", set()),
        ("full", "state", set()),
    ],
)
def test_a_backend_that_another_takes_beside_any_serves_inside_it(
    full: str, state: str, inside: set[str]
) -> None:
    file = "srt/layers/attention/some_backend.py"
    backends = Backends(Program({file: INSIDE.format(full=full, state=state).encode()}))
    assert {cls.name for cls in backends.all if backends.serves_inside(cls)} == inside

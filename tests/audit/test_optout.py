from __future__ import annotations

from support.audited import MemoryTree, prelude, program

from patchkit.audit.optout import OptOut, suggest
from patchkit.audit.runners import AuditedProgram
from patchkit.tree.index import read_sources

READER = """\
# place: srt/layers/attention/slow_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class SlowBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        self.longest = self.bound(forward_batch)

    def init_replay(self, bs, seq_lens_sum):
        return seq_lens_sum * bs

    def bound(self, forward_batch):
        return forward_batch.seq_lens_cpu.max()
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.slow_backend import SlowBackend


class ForkBackend(SlowBackend):
    def init_replay(self, bs, seq_lens_sum):
        return bs

    def bound(self, forward_batch):
        return forward_batch.seq_lens.max()
# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        self.total = forward_batch.seq_lens.sum()
"""


def suggestions(tree: MemoryTree) -> dict[str, OptOut]:
    return {entry.backend: entry for entry in suggest(AuditedProgram(read_sources(tree)))}


def test_the_reads_that_prevent_an_opt_out_are_listed_for_a_backend() -> None:
    slow = suggestions(program(READER))["SlowBackend"]
    assert not slow.can_opt_out
    assert {(finding.function, finding.rule) for finding in slow.in_the_way} == {
        ("SlowBackend.init_replay", "PK104"),
        ("SlowBackend.bound", "PK101"),
    }


def test_a_fork_that_overrides_every_read_can_opt_out() -> None:
    fork = suggestions(program(READER))["ForkBackend"]
    assert fork.can_opt_out
    assert not fork.opted_out


def test_a_backend_that_opted_out_is_listed_as_such() -> None:
    fast = suggestions(program(READER))["FastBackend"]
    assert fast.opted_out
    assert fast.can_opt_out


def test_an_unpatched_tree_gets_suggestions_too() -> None:
    files = {name: text.replace("needs_cpu_seq_lens", "keeps") for name, text in prelude().items()}
    files["srt/layers/attention/slow_backend.py"] = READER.partition("# place: srt/layers/attention/fork")[0]
    assert not suggestions(MemoryTree(files))["SlowBackend"].can_opt_out


def test_what_an_inherited_mirror_free_backend_calls_is_followed() -> None:
    source = """\
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.attention.bounds import bound


class ForkBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        self.longest = bound(forward_batch.seq_lens_cpu)
# place: srt/layers/attention/bounds.py
def bound(lens):
    return int(lens.max())
"""
    fork = suggestions(program(source))["ForkBackend"]
    assert [(finding.file, finding.line) for finding in fork.in_the_way] == [
        ("srt/layers/attention/bounds.py", 2)
    ]

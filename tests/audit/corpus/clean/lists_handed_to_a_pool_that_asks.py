# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = True

    def forward_extend(self, forward_batch):
        pool = self.pool
        return pool.workspace(forward_batch.extend_prefix_lens_cpu)


# place: srt/mem_cache/fork_pool.py
class ForkPool:
    def workspace(self, extend_prefix_lens_cpu):
        return 0 if extend_prefix_lens_cpu is None else sum(extend_prefix_lens_cpu)

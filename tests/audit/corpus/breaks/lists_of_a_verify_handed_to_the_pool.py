# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = True

    def __init__(self, runner):
        self.pool = runner.token_to_kv_pool

    def forward_extend(self, forward_batch):
        pool = self.pool
        return pool.workspace(forward_batch.extend_prefix_lens_cpu, forward_batch.batch_size)


# place: srt/mem_cache/fork_pool.py
class ForkPool:
    def workspace(self, extend_prefix_lens_cpu, count):
        return self._fill(extend_prefix_lens_cpu, count)

    def _fill(self, extend_prefix_lens_cpu, count):
        return [int(extend_prefix_lens_cpu[i]) for i in range(count)]  # finds PK102 possible

# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def _is_sparse(self, forward_batch, rows) -> bool:
        return (
            not self.dense
            and forward_batch.forward_mode.is_extend()
            and self._is_prefill(forward_batch)
            and rows > 8
        )

    def _is_prefill(self, forward_batch) -> bool:
        return not forward_batch.forward_mode.is_target_verify()

    def forward_extend(self, forward_batch, rows):
        if self._is_sparse(forward_batch, rows) and not self.paged:
            return forward_batch.seq_lens_cpu.max()

# ruff: noqa
# place: srt/model_executor/decode_graph_runner.py
class DecodeGraphRunner:
    def replay(self, forward_batch):
        self.attn_backend.init_replay(4, forward_batch.seq_lens_sum)


# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_replay(self, bs, seq_lens_sum):
        return seq_lens_sum * bs  # finds PK104

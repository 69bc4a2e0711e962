# ruff: noqa
# place: srt/model_executor/decode_graph_runner.py
class DecodeGraphRunner:
    def replay(self, forward_batch):
        self.attn_backend.init_replay(
            4, forward_batch.spec_info, None if forward_batch.seq_lens_cpu is None else self.mirror
        )


# place: srt/layers/attention/wrapping_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class WrappingBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_replay(self, bs, spec_info, seq_lens_cpu):
        for side in self.attn_backend_list:
            side.init_replay(bs, spec_info, seq_lens_cpu)


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_replay(self, bs, spec_info, seq_lens_cpu):
        if spec_info is None:
            return self.fill(bs)
        return seq_lens_cpu[:bs]  # finds PK102

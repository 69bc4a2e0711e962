# ruff: noqa
# place: srt/models/fork_model.py
from sglang.srt.model_executor.forward_context import get_attn_backend


class ForkModel:
    def attend(self, own_forward_batch):
        if own_forward_batch.extend_prefix_lens_cpu is not None:
            get_attn_backend().plan_chunks(own_forward_batch)
        self.norm(own_forward_batch)
        return self.out.project(own_forward_batch.seq_lens)


# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def plan_chunks(self, own_forward_batch):
        return any(own_forward_batch.extend_prefix_lens_cpu)

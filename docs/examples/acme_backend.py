"""A fork's own attention backend, which upstream does not have."""

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class AcmeAttnBackend(AttentionBackend):
    """Reads the batch's total length to size its indices, and nothing else on the host."""

    def __init__(self, runner):
        self.device = runner.device
        self.max_context_len = runner.model_config.context_len

    def init_forward_metadata(self, forward_batch):
        """Plan a forward."""
        self.seq_lens = forward_batch.seq_lens
        self.kv_indices = torch.empty(forward_batch.seq_lens_sum, dtype=torch.int64, device=self.device)

# ruff: noqa
# place: srt/model_executor/decode_graph_runner.py
class DecodeGraphRunner:
    def replay(self, forward_batch):
        forward_batch.seq_lens_cpu = forward_batch.seq_lens.cpu()
        lens = forward_batch.spec_info.seq_lens_cpu
        self.attn_backend.init_replay(4, seq_lens_cpu=self.buffers.seq_lens_cpu)
        return lens

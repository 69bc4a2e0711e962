# place: srt/model_executor/fork_graph_runner.py
from types import SimpleNamespace


class ForkGraphRunner:
    def replay(self, forward_batch, buffers):
        view = SimpleNamespace(
            seq_lens_cpu=None if forward_batch.seq_lens_cpu is None else buffers.seq_lens_cpu[:4]
        )
        if forward_batch.seq_lens_cpu is not None:
            buffers.seq_lens_cpu[:4].copy_(forward_batch.seq_lens_cpu)
            forward_batch.seq_lens_cpu = buffers.seq_lens_cpu[:4]
        return view

    def capture_one(self, forward_batch, buffers):
        return SimpleNamespace(seq_lens_cpu=buffers.seq_lens_cpu)

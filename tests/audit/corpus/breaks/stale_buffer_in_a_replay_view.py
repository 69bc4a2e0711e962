# place: srt/model_executor/fork_graph_runner.py
from types import SimpleNamespace


class ForkGraphRunner:
    def replay(self, forward_batch, buffers):
        if forward_batch.seq_lens_cpu is not None:
            buffers.seq_lens_cpu[:4].copy_(forward_batch.seq_lens_cpu)
        self.plan(SimpleNamespace(seq_lens_cpu=buffers.seq_lens_cpu[:4]))  # finds PK112 likely
        self.start(4, seq_lens_cpu=self.buffers.seq_lens_cpu)  # finds PK112 likely
        forward_batch.seq_lens_cpu = buffers.seq_lens_cpu  # finds PK112 likely

# ruff: noqa
# place: srt/speculative/fork_worker.py
import torch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.speculative.base_spec_worker import BaseDraftWorker
from sglang.srt.speculative.fork_graph_runner import ForkGraphRunner


class ForkDraftWorker(BaseDraftWorker):
    def __init__(self):
        self.graph = ForkGraphRunner(self)

    def draft(self, batch):
        batch.seq_lens_sum = torch.sum(batch.seq_lens).item()
        forward_batch = ForwardBatch.init_new(batch, self.runner)
        if self.graph.can_run(forward_batch):
            return self.graph.execute(forward_batch)

    def draft_again(self, batch):
        kept = self.graph
        return kept.execute(ForwardBatch.init_new(batch, self.runner))


# place: srt/speculative/fork_graph_runner.py
class ForkGraphRunner:
    def can_run(self, forward_batch):
        return forward_batch.batch_size < 8

    def execute(self, forward_batch):
        return forward_batch.seq_lens_sum + 1  # finds PK104

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
            return self.graph.replay(forward_batch)


# place: srt/speculative/fork_graph_runner.py
class ForkGraphRunner:
    def can_run(self, forward_batch):
        return forward_batch.batch_size < 8

    def replay(self, forward_batch):
        return forward_batch.seq_lens_sum + 1


# place: srt/speculative/layers_worker.py
from sglang.srt.speculative.base_spec_worker import BaseDraftWorker


class LayersDraftWorker(BaseDraftWorker):
    def draft(self, forward_batch):
        self.total = forward_batch.seq_lens_sum
        return [self.layers.of(step).replay(forward_batch) for step in range(3)]

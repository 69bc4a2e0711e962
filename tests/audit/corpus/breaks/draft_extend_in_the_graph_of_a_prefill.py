# ruff: noqa
# place: srt/model_executor/model_runner.py
class ModelRunner:
    def forward(self, forward_batch):
        if forward_batch.forward_mode.is_extend(include_draft_extend_v2=True):
            if self.prefill_graph_runner.can_run_graph(forward_batch):
                return self.prefill_graph_runner.execute(forward_batch)
        return self.model.forward(forward_batch)


# place: srt/model_executor/prefill_graph_runner.py
class PrefillGraphRunner:
    def can_run_graph(self, forward_batch) -> bool:
        return self._fits(forward_batch.forward_mode.is_target_verify(), forward_batch.extend_prefix_lens_cpu)

    def _fits(self, is_target_verify, prefix_lens):
        if is_target_verify:
            return False
        return prefix_lens is None or len(prefix_lens) < 8

    def execute(self, forward_batch):
        self.lens[: forward_batch.batch_size].copy_(forward_batch.seq_lens_cpu)  # finds PK109 certain

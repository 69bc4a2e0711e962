# ruff: noqa
# place: srt/speculative/old_worker.py
class OldWorker:
    def forward_batch_generation(self, batch):
        return self.draft(batch)

    def draft(self, batch):
        return batch.seq_lens_cpu.clone()

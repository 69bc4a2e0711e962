# ruff: noqa
# place: srt/managers/example.py
class ScheduleBatchTools:
    def filter(self, batch, keep):
        if batch.seq_lens_cpu is not None:
            batch.seq_lens_cpu = batch.seq_lens_cpu[keep]
        batch.seq_lens_sum = None

# ruff: noqa
# place: srt/managers/example.py
class Scheduler:
    def prepare(self, batch):
        if not batch.spec_algorithm.is_none():
            return
        batch.seq_lens_cpu = batch.seq_lens_cpu + 1

# ruff: noqa
# place: srt/managers/example.py
from sglang.srt.managers.lengths import allocate


class Scheduler:
    def prepare(self, batch):
        if not batch.spec_algorithm.is_none():
            return
        allocate(batch)
        batch.seq_lens_sum = None


# place: srt/managers/lengths.py
def allocate(batch):
    return batch.seq_lens_cpu + 1

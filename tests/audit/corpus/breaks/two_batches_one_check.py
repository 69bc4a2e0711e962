# ruff: noqa
# place: srt/managers/example.py
class ScheduleBatchTools:
    def merge(self, left, right_batch):
        batch = right_batch
        total = batch.seq_lens_sum
        return total + 1  # finds PK104

# ruff: noqa
# place: srt/managers/example.py
class Keeper:
    def total(self):
        current = self.running_batch
        return current.seq_lens_sum + 1  # finds PK104

# ruff: noqa
# place: srt/managers/example.py
from elsewhere import Pages


class Keeper:
    def __init__(self):
        self.batch: Pages = Pages()

    def total(self):
        return self.batch.seq_lens_sum + 1

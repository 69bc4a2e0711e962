# ruff: noqa
# place: srt/managers/example.py
class Reporter:
    def __init__(self, scheduler):
        self.scheduler = scheduler

    def report(self, batch):
        lengths = []
        if batch.forward_mode.is_mixed_chunk():
            lengths.append(1)
        elif batch.forward_mode.is_decode():
            for length in batch.seq_lens_cpu:  # finds PK103 certain
                lengths.append(length)
        return lengths

# ruff: noqa
# place: srt/managers/example.py
def total(forward_batch):
    if forward_batch.extend_seq_lens_cpu:
        return sum(forward_batch.extend_seq_lens_cpu)
    return 0

# ruff: noqa
# place: srt/managers/example.py
def room(forward_batch, bound):
    total = forward_batch.seq_lens_sum or bound
    return total + 1

# ruff: noqa
# place: srt/managers/example.py
def room(forward_batch, bs, longest):
    total = forward_batch.seq_lens_sum
    if total is None:
        total = bs * longest
    return total + 1

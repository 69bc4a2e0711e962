# ruff: noqa
# place: srt/managers/example.py
def total(forward_batch):
    setattr(forward_batch, "seq_lens_cpu", forward_batch.seq_lens.cpu())
    return forward_batch.seq_lens_cpu.max()

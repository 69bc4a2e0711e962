# ruff: noqa
# place: srt/managers/example.py
def rows(forward_batch):
    return forward_batch.spec_info.seq_lens_cpu.shape[0]  # finds PK101

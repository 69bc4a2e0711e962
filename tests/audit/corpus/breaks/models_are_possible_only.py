# ruff: noqa
# place: srt/models/fork_model.py
def forward(forward_batch):
    return max(forward_batch.seq_lens_cpu)  # finds PK106 possible

# ruff: noqa
# place: srt/managers/example.py
def forward(batch, launch):
    launch(batch.seq_lens_cpu, total=batch.seq_lens_sum)

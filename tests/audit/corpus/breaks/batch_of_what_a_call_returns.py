# ruff: noqa
# place: srt/managers/example.py
def plan(runner):
    current = runner.step().forward_batch
    return current.seq_lens_cpu.max()  # finds PK101

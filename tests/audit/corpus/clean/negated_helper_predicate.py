# ruff: noqa
# place: srt/managers/example.py
def plan(batch):
    if not has_mirror(batch):
        return 0
    return batch.seq_lens_cpu.sum()


def has_mirror(batch):
    return batch.seq_lens_cpu is not None

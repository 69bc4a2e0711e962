# ruff: noqa
# place: srt/managers/example.py
def total(batches):
    found = 0
    for batch in batches:
        if batch.seq_lens_cpu is None:
            continue
        found += int(batch.seq_lens_cpu.sum())
    return found

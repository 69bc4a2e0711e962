# ruff: noqa
# place: srt/managers/example.py
def allocate(seq_lens_cpu, page):
    return len(seq_lens_cpu) * page

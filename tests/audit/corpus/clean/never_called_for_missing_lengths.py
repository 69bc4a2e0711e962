# ruff: noqa
# place: srt/managers/example.py
def report(batch, log):
    log(f"lengths {batch.seq_lens_cpu}")

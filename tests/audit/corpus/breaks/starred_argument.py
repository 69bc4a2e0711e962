# ruff: noqa
# place: srt/managers/example.py
def plan(batch, launch):
    return launch(*batch.seq_lens_cpu)  # finds PK103

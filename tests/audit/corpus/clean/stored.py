# ruff: noqa
# place: srt/managers/example.py
def keep(batch, holder):
    holder.lens = batch.seq_lens_cpu
    return {"lens": batch.seq_lens_cpu}

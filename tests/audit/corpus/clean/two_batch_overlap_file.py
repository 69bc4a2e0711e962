# ruff: noqa
# place: srt/batch_overlap/two_batch_overlap.py
def split(batch):
    return batch.seq_lens_cpu.tolist()

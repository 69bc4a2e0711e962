# ruff: noqa
# place: srt/managers/fork_totals.py
from sglang.srt.managers.schedule_batch import ScheduleBatch


def completed(batch: ScheduleBatch):
    if batch.seq_lens_sum is None and batch.seq_lens_cpu is not None:
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())


def size_of_pages(batch: ScheduleBatch):
    batch.seq_lens_sum = int(batch.seq_lens.sum())
    completed(batch)
    return batch.seq_lens_sum * 2


def report(batch: ScheduleBatch):
    completed(batch)

# ruff: noqa
# place: srt/managers/example.py
def plan(args, batch):
    if args.enable_two_batch_overlap():
        return batch.seq_lens_cpu.max()

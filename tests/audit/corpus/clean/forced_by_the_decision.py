# ruff: noqa
# place: srt/managers/example.py
def split(server_args, batch):
    if server_args.enable_two_batch_overlap:
        return batch.seq_lens_cpu.tolist()
    return None

# ruff: noqa
# place: srt/managers/example.py
def split(forward_batch):
    if forward_batch.forward_mode.is_target_verify():
        return None
    if forward_batch.forward_mode.is_extend():
        return max(forward_batch.extend_seq_lens_cpu)
    return None

def replay(batch, buffers):
    plan(buffers.seq_lens_cpu[:4] if batch.seq_lens_cpu is not None else None)


def plan(lens):
    return lens.max()  # finds PK101

# ruff: noqa
class AttentionBackend:
    needs_cpu_seq_lens: bool = True

    def init_forward_metadata(self, forward_batch):
        raise NotImplementedError

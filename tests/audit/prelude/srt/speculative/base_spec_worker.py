# ruff: noqa
class BaseDraftWorker:
    """Names seq_lens_cpu so that the file counts as one that matters."""


class BaseSpecWorker:
    draft_extend_attn_backend = None

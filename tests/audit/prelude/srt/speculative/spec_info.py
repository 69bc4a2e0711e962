# ruff: noqa
class SpecInput:
    """Carries seq_lens_cpu and seq_lens_sum of a verify step."""

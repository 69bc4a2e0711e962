# ruff: noqa
# place: srt/speculative/fork_info.py
from sglang.srt.speculative.spec_info import SpecInput


class ForkVerifyInput(SpecInput):
    def rows(self, width):
        return self.seq_lens_sum * width  # finds PK104

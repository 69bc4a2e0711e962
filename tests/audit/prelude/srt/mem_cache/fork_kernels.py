# ruff: noqa
# None of them reads seq_lens_sum: a method of that name says nothing of who calls it.
class Gather:
    def execute(self, pages): ...


class Scatter:
    def execute(self, pages): ...


class Pack:
    def execute(self, pages): ...


class Unpack:
    def execute(self, pages): ...


class Quantize:
    def execute(self, pages): ...


class Dequantize:
    def execute(self, pages): ...

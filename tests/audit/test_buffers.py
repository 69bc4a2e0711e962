"""When a graph's buffer of the mirror holds lengths of the batch that is run."""

from __future__ import annotations

import ast

import pytest

from patchkit.audit.buffers import always_refreshed, is_buffer
from patchkit.tree.index import Module


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("self.buffers.seq_lens_cpu", True),
        ("buffers.seq_lens_sum", True),
        ("self.graph_buffer.seq_lens_cpu", True),
        ("self.buffers.seq_lens", False),
        ("self.buffered.seq_lens_cpu", False),
        ("self.rebuffers.seq_lens_cpu", False),
        ("batch.seq_lens_cpu", False),
    ],
)
def test_an_attribute_that_is_a_buffer_of_the_mirror(source: str, holds: bool) -> None:
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Attribute)
    assert is_buffer(node) is holds


FILL = "buffers.seq_lens_cpu.copy_(lens)"


@pytest.mark.parametrize(
    ("source", "refreshed"),
    [
        (FILL, True),
        ("buffers.seq_lens_cpu[:bs].copy_(lens)", True),
        ("buffers.seq_lens_cpu[:bs][0].copy_(lens)", True),
        ("buffers.seq_lens_cpu.fill_(1)", False),
        ("buffers.seq_lens.copy_(lens)", False),
        ("lens.copy_(buffers.seq_lens_cpu)", False),
        ("seq_lens_cpu.copy_(lens)", False),
        ("copy_(buffers.seq_lens_cpu)", False),
        (f"found = {FILL}", False),
        (f"def replay():\n    {FILL}", True),
        (f"class Runner:\n    def replay(self):\n        {FILL}", True),
        (f"if lens:\n    {FILL}", True),
        (f"if lens:\n    pass\nelse:\n    {FILL}", True),
        (f"for each in lens:\n    {FILL}", True),
        (f"try:\n    pass\nfinally:\n    {FILL}", True),
        (f"if batch.seq_lens_cpu is not None:\n    {FILL}", False),
        (f"if batch.seq_lens_sum is None:\n    pass\nelse:\n    {FILL}", True),
        (f"if ready and seq_lens_cpu is not None:\n    {FILL}", False),
        (f"if batch.seq_lens is not None:\n    {FILL}", True),
        (f"if batch.seq_lens_cpu:\n    {FILL}", True),
        ("if batch.seq_lens_cpu is not None:\n    pass", False),
        (f"if batch.seq_lens_cpu is not None:\n    pass\n{FILL}", True),
        ("", False),
    ],
)
def test_a_file_that_refills_its_buffer_without_asking_for_the_mirror(source: str, refreshed: bool) -> None:
    assert always_refreshed(Module("a.py", source.encode(), ast.parse(source))) is refreshed

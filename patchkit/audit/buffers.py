"""A graph's buffer of the mirror, which holds an earlier batch's lengths unless it is refilled."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from patchkit.tree import mirror
from patchkit.tree.index import last_name
from patchkit.tree.nodes import BLOCKS, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.tree.index import Module

KIND = "buffer of the mirror"
_BUFFERS = re.compile(r"(?:^|_)buffers?$")


def is_buffer(node: ast.Attribute) -> bool:
    """Return whether an attribute is a buffer of the mirror, such as ``self.buffers.seq_lens_cpu``."""
    return node.attr in mirror.MIRROR and bool(_BUFFERS.search(last_name(node.value)))


@lru_cache(maxsize=256)
def always_refreshed(module: Module) -> bool:
    """Return whether a file refills its buffer of the mirror even if the batch has no mirror."""
    return any(_unguarded(module.tree.body))


def _unguarded(body: Sequence[ast.AST]) -> Iterator[ast.Call]:
    """Yield the copies into a buffer of the mirror that no test of the mirror guards."""
    for statement in body:
        if isinstance(statement, ast.If) and _asks(statement.test):
            yield from _unguarded(statement.orelse)
            continue
        for field in BLOCKS:
            yield from _unguarded(getattr(statement, field, []))
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            if isinstance(called, ast.Attribute) and called.attr == "copy_" and _fills(called.value):
                yield statement.value


def _asks(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Compare) and last_name(node.left) in mirror.MIRROR for node in walk(test))


def _fills(receiver: ast.expr) -> bool:
    while isinstance(receiver, ast.Subscript):
        receiver = receiver.value
    return isinstance(receiver, ast.Attribute) and is_buffer(receiver)

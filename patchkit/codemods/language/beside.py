"""Identify a place by its neighbours: the statements above and below it, and the one around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from patchkit.codemods.language import syntax, texts
from patchkit.codemods.language.placeholders import as_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path

_BLOCKS = frozenset({"body", "orelse", "handlers", "finalbody", "cases"})


def statements(key: str, text: str) -> tuple[cst.BaseStatement, ...]:
    """Return the statements of a text without placeholders. Raise ValueError that names the key."""
    with texts.naming(key):
        return tuple(map(syntax.as_statement, as_written(text).body)) if text.strip() else ()


def head(key: str, text: str) -> cst.BaseStatement | None:
    """Return the one statement of a text, whose blocks are not compared; None if the text is empty."""
    found = statements(key, text)
    if len(found) > 1:
        raise ValueError(f"key `{key}`: not one statement: {text.strip()!r}")
    return found[0] if found else None


def is_head(wanted: cst.BaseStatement | None, node: cst.CSTNode | None) -> bool:
    """Return whether a statement is the wanted one.

    A definition is compared by its name, an import by its module, another statement with blocks by its header.
    """
    if wanted is None or node is None or type(wanted) is not type(node):
        return False
    if isinstance(wanted, (cst.FunctionDef, cst.ClassDef)):
        return syntax.same(wanted.name, getattr(node, "name", None))
    fields = syntax.meaning_fields(type(wanted))
    imports = [_imported(each) for each in (wanted, node)]
    if all(imports):
        return imports[0] == imports[1]
    if isinstance(wanted, cst.BaseCompoundStatement):
        fields = tuple(name for name in fields if name not in _BLOCKS)
    return all(syntax.same(getattr(wanted, name), getattr(node, name)) for name in fields)


def _imported(statement: cst.CSTNode) -> str:
    """Return the module that a statement imports names from."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.ImportFrom):
        return ""
    return "." * len(small.relative) + ("" if small.module is None else syntax.code_of(small.module))


def starts_with(wanted: Sequence[cst.BaseStatement], body: Sequence[cst.BaseStatement], at: int) -> bool:
    """Return whether these statements occur in sequence from ``at``, in any layout."""
    start = body[at : at + len(wanted)]
    return len(start) == len(wanted) and all(map(syntax.same, wanted, start))


class Block(NamedTuple):
    """A block of statements, its path, and the statement that contains it."""

    path: Path
    body: tuple[cst.BaseStatement, ...]
    around: cst.CSTNode | None


def blocks(scope: Scope) -> Iterator[Block]:
    """Yield every block of a scope."""
    for path, block in syntax.blocks_in(scope.node, scope.path):
        body = tuple(syntax.statements_of(block) or ())
        around = next(
            (
                node
                for cut in range(len(path) - 1, len(scope.path) - 1, -1)
                if isinstance(node := syntax.node_at(scope.module, path[:cut]), cst.BaseCompoundStatement)
            ),
            None,
        )
        yield Block(path, body, around)


class Neighbours(NamedTuple):
    """The statements directly above, below and around a place; None matches anything."""

    above: cst.BaseStatement | None
    below: cst.BaseStatement | None
    around: cst.BaseStatement | None

    @classmethod
    def read(cls, behind: str, before: str, within: str) -> Neighbours:
        """Return the neighbours in three keys. Raise ValueError that names the malformed key."""
        return cls(head("behind", behind), head("before", before), head("within", within))

    def beside(self, block: Block, start: int, end: int) -> int:
        """Return how many of the neighbours above and below are present."""
        above = block.body[start - 1] if start else None
        below = block.body[end] if end < len(block.body) else None
        return is_head(self.above, above) + is_head(self.below, below)

    def score(self, block: Block, start: int, end: int) -> int:
        """Return how many of the neighbours are present."""
        return self.beside(block, start, end) + is_head(self.around, block.around)

    def is_bare(self, block: Block, start: int, end: int) -> bool:
        """Return whether the neighbours above and below are adjacent; the block's end replaces a missing one."""
        above = block.body[start - 1] if start else None
        below = block.body[end] if end < len(block.body) else None
        return (
            (is_head(self.above, above) if self.above is not None else start == 0)
            and (is_head(self.below, below) if self.below is not None else end == len(block.body))
            and (self.above is not None or self.below is not None)
        )

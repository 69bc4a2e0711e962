"""Draft edits of single items in a long statement: arguments, elements, operands, imported names, parameters."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING, NamedTuple

from patchkit.drafting.change import EditDraft
from patchkit.drafting.draft import meaning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_Texts = tuple["Sequence[str]", "Sequence[str]"]
"""The lines of a text before and after."""
_MIN_NAMES = 2
"""The fewest names with which an expression is unambiguous."""
_MIN_LINES = 3
"""The fewest lines of an item inside which changes are searched."""


def _segment(lines: Sequence[str], node: ast.expr | ast.arg | ast.keyword) -> str:
    """Return the source of a node; its columns count bytes."""
    end = node.end_lineno or node.lineno
    found = [line.encode() for line in lines[node.lineno - 1 : end]]
    found[-1] = found[-1][: node.end_col_offset]
    found[0] = found[0][node.col_offset :]
    return b"\n".join(found).decode()


class _Item(NamedTuple):
    """An item of a list: its text, its meaning, and its expression if it has one."""

    text: str
    meaning: str
    node: ast.AST | None


def item_edits(at: str, texts: _Texts, old: ast.AST, new: ast.AST) -> list[EditDraft] | None:
    """Return the edits between two versions of a statement; None if more than a few items of lists change."""
    found = _Comparison(at, texts).edits(old, new, "")
    if (
        found is not None
        or not isinstance(old, (ast.If, ast.While))
        or not isinstance(new, (ast.If, ast.While))
    ):
        return found
    names = {node.id for node in ast.walk(old.test) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(old.test) if isinstance(node, ast.Attribute)}
    if len(names | attributes) < _MIN_NAMES:
        return None
    find, code = (_segment(text, node.test) for text, node in zip(texts, (old, new), strict=True))
    return [EditDraft("rewrite", at, {"find": find, "code": code})]


def parameter_edits(at: str, texts: _Texts, old: ast.arguments, new: ast.arguments) -> Iterator[EditDraft]:
    """Yield the edits of added, removed and changed parameters."""
    if meaning(old) == meaning(new):
        return
    comparison = _Comparison(at, texts)
    for one, other in zip(_parameters(texts[0], old), _parameters(texts[1], new), strict=True):
        yield from comparison.list_edits("parameters", "", one, other) or ()


def _parameters(text: Sequence[str], arguments: ast.arguments) -> tuple[list[_Item], list[_Item]]:
    """Return the parameters that can be passed by position, and the others."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))

    def items(pairs: Iterable[tuple[ast.arg, ast.expr | None]]) -> list[_Item]:
        found = []
        for arg, default in pairs:
            code = _segment(text, arg)
            if default is not None:
                equal = " = " if arg.annotation is not None else "="
                code += f"{equal}{_segment(text, default)}"
            value = f"{meaning(arg)} {'' if default is None else meaning(default)}"
            found.append(_Item(code, value, None))
        return found

    positional = zip(plain, [*defaults, *arguments.defaults], strict=True)
    return items(positional), items(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))


class _Comparison:
    """Compare expressions of two texts, for edits of one scope."""

    def __init__(self, at: str, texts: _Texts) -> None:
        self._at = at
        self._texts = texts

    def edits(self, old: ast.AST, new: ast.AST, target: str) -> list[EditDraft] | None:
        """Return the edits of the lists in an expression or statement; None if something else changes."""
        if meaning(old) == meaning(new):
            return []
        if type(old) is not type(new):
            return None
        edits: list[EditDraft] = []
        lists = _list(self._texts[0], old), _list(self._texts[1], new)
        fields = {"args", "keywords", "elts", "keys", "values", "names"} if lists[0] is not None else set()
        if isinstance(old, (ast.Assign, ast.AnnAssign)):
            targets = old.targets if isinstance(old, ast.Assign) else [old.target]
            target = ast.unparse(targets[0])
        for name, one in ast.iter_fields(old):
            other = getattr(new, name)
            if name in fields:
                continue
            inner = self._field_edits(one, other, target)
            if inner is None:
                return None
            edits += inner
        if lists[0] is not None and lists[1] is not None:
            kind, of, one = lists[0]
            found = self.list_edits(kind, of or (target if kind == "elements" else ""), one, lists[1][2])
            if found is None:
                return None
            edits += found
        return edits

    def _field_edits(self, one: object, other: object, target: str) -> list[EditDraft] | None:
        if isinstance(one, ast.AST) and isinstance(other, ast.AST):
            return self.edits(one, other, target)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            edits: list[EditDraft] = []
            for pair in zip(one, other, strict=True):
                inner = self._field_edits(*pair, "")
                if inner is None:
                    return None
                edits += inner
            return edits
        return [] if one == other else None

    def list_edits(
        self, kind: str, of: str, one: Sequence[_Item], other: Sequence[_Item]
    ) -> list[EditDraft] | None:
        """Return the edits between two versions of a list; None if too few items stay."""
        keys = [each.meaning for each in one], [each.meaning for each in other]
        matcher = difflib.SequenceMatcher(None, *keys, autojunk=False)
        if not any(tag == "equal" for tag, *_ in matcher.get_opcodes()) and not of:
            return None
        edits: list[EditDraft] = []
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag == "equal":
                continue
            inner = self._edits_inside(one[i1:i2], other[j1:j2]) if i2 - i1 == j2 - j1 else None
            if inner is not None:
                edits += inner
                continue
            table = {
                "list": kind,
                "find": [each.text for each in one[i1:i2]],
                "code": [each.text for each in other[j1:j2]],
                "behind": one[i1 - 1].text if i1 else "",
                "before": one[i2].text if i2 < len(one) else "",
                "of": of,
            }
            edits.append(EditDraft("items", self._at, {key: value for key, value in table.items() if value}))
        return edits

    def _edits_inside(self, old: Sequence[_Item], new: Sequence[_Item]) -> list[EditDraft] | None:
        """Return the edits inside long items; None if one is short or changes in another way."""
        edits: list[EditDraft] = []
        for one, other in zip(old, new, strict=True):
            if one.node is None or other.node is None or one.text.count("\n") < _MIN_LINES:
                return None
            inner = self.edits(one.node, other.node, "")
            if inner is None:
                return None
            edits += inner
        return edits


def _list(text: Sequence[str], node: ast.AST) -> tuple[str, str, list[_Item]] | None:
    """Return a list's kind, its owner and its items; None if a node is not a list."""

    def code(part: ast.expr | ast.keyword, prefix: str = "") -> str:
        return prefix + _segment(text, part)

    if isinstance(node, ast.Call):
        arguments: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        arguments.sort(key=lambda each: (each.lineno, each.col_offset))
        items = [
            _Item(code(each.value, "**"), f"**{meaning(each.value)}", each.value)
            if isinstance(each, ast.keyword) and each.arg is None
            else _Item(code(each), meaning(each), each)
            for each in arguments
        ]
        return "arguments", code(node.func), items
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return "elements", "", [_Item(code(each), meaning(each), each) for each in node.elts]
    if isinstance(node, ast.Dict):
        pairs = [
            _Item(code(value, "**"), f"**{meaning(value)}", value)
            if key is None
            else _Item(f"{code(key)}: {code(value)}", f"{meaning(key)}: {meaning(value)}", value)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return "elements", "", pairs
    if isinstance(node, ast.BoolOp):
        return "operands", "", [_Item(code(each), meaning(each), each) for each in node.values]
    if isinstance(node, ast.ImportFrom):
        names = [_Item(ast.unparse(each), meaning(each), None) for each in node.names]
        return "names", f"{'.' * node.level}{node.module or ''}", names
    return None

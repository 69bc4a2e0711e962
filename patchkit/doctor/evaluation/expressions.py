"""Evaluate expressions of a tree's code with the values that are known; the value of any other is ``Unknown``."""

from __future__ import annotations

import ast
import operator
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from patchkit.doctor.evaluation.values import (
    UNKNOWN_TEXT,
    CallFrame,
    Lambda,
    UndecidedError,
    Unknown,
    is_plain,
    label,
    native,
)
from patchkit.patchset.condition import COMPARISONS
from patchkit.tree.index import Class
from patchkit.tree.nodes import unparsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    ast.Is: lambda one, other: one is other or one == other,
    ast.IsNot: lambda one, other: not (one is other or one == other),
}
_CALCULATED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.BitOr: operator.or_,
}
_MAX_RESULT = 2**20
"""The most items of a sequence and bits of a number that are calculated; no setting of a server has as many."""
_MAX_ITEMS = 2**12
"""The most numbers of a range that are gone through; of a longer one an unknown number is."""
_OPPOSITE = {ast.NotEq: ast.Eq, ast.NotIn: ast.In, ast.IsNot: ast.Is}
_SEQUENCES = (str, bytes, tuple, list)
_METHODS = {kind: f"_eval_{kind.__name__.lower()}" for kind in ast.expr.__subclasses__()}
"""The name of the method that evaluates expressions of a class; a class without one has no known values."""
_NAMED = {ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.Is: "is"}


class ExpressionEvaluator(ABC):
    """The expressions of functions; what names, attributes and calls yield is up to the evaluator of functions."""

    @abstractmethod
    def truth(self, value: Any) -> bool:
        """Return whether a value counts as true."""

    @abstractmethod
    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute. Raise UndecidedError if none is known."""

    @abstractmethod
    def _name(self, name: str, frame: CallFrame) -> Any: ...

    @abstractmethod
    def _assign(self, target: ast.expr, value: Any, frame: CallFrame) -> None: ...

    @abstractmethod
    def _eval_call(self, node: ast.Call, frame: CallFrame) -> Any: ...

    def _text(self, node: ast.expr, frame: CallFrame) -> str:
        """Return the text of an expression, with ``UNKNOWN_TEXT`` for each part whose value is not known."""
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part, frame) for part in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._text(node.left, frame) + self._text(node.right, frame)
        shown, form = node, ""
        if isinstance(node, ast.FormattedValue):
            shown = node.value
            form = self._text(node.format_spec, frame) if node.format_spec is not None else ""
        value = self._eval(shown, frame)
        if not is_plain(value) or is_wide(form):
            return UNKNOWN_TEXT
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("r"):
            value = repr(value)
        try:
            return str(native(format, value, form))
        except UndecidedError:
            return UNKNOWN_TEXT

    def _eval_joinedstr(self, node: ast.JoinedStr, frame: CallFrame) -> Any:
        text = self._text(node, frame)
        return Unknown(unparsed(node)) if UNKNOWN_TEXT in text else text

    def _eval(self, node: ast.expr, frame: CallFrame) -> Any:
        evaluate = getattr(self, _METHODS[type(node)], None)
        return evaluate(node, frame) if evaluate is not None else Unknown(unparsed(node))

    def _eval_constant(self, node: ast.Constant, _: CallFrame) -> Any:
        return node.value

    def _eval_name(self, node: ast.Name, frame: CallFrame) -> Any:
        return self._name(node.id, frame)

    def _eval_attribute(self, node: ast.Attribute, frame: CallFrame) -> Any:
        return self.attribute(self._eval(node.value, frame), node.attr)

    def _eval_boolop(self, node: ast.BoolOp, frame: CallFrame) -> Any:
        value: Any = None
        for operand in node.values:
            value = self._eval(operand, frame)
            if operand is not node.values[-1] and self.truth(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _eval_unaryop(self, node: ast.UnaryOp, frame: CallFrame) -> Any:
        value = self._eval(node.operand, frame)
        if isinstance(node.op, ast.Not):
            return not self.truth(value)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, (int, float)) else value

    def _eval_compare(self, node: ast.Compare, frame: CallFrame) -> Any:
        left = self._eval(node.left, frame)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._eval(right_node, frame)
            result = self._compared(left, type(op), right)
            if isinstance(result, Unknown) and len(node.ops) == 1:
                return result
            if not self.truth(result):
                return False
            left = right
        return True

    def _compared(self, left: Any, op: type[ast.cmpop], right: Any) -> Any:
        if op in _OPPOSITE:
            return not self.truth(self._compared(left, _OPPOSITE[op], right))
        if op is ast.In and not isinstance(left, Unknown) and isinstance(right, (tuple, list, set, dict)):
            return native(operator.contains, right, left)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return Unknown(f"{label(left)} {_NAMED[op]} {label(right)}")
        try:
            return native(_COMPARED[op], left, right)
        except UndecidedError:
            return Unknown(f"{label(left)} {_NAMED[op]} {label(right)}")

    def _eval_binop(self, node: ast.BinOp, frame: CallFrame) -> Any:
        left, right = self._eval(node.left, frame), self._eval(node.right, frame)
        if isinstance(node.op, ast.BitOr) and (isinstance(left, bool) or isinstance(right, bool)):
            return self.truth(left) or self.truth(right)
        calculate = _CALCULATED.get(type(node.op))
        if calculate is None or _is_huge(node.op, left, right):
            return Unknown(unparsed(node))
        try:
            return native(calculate, left, right)
        except UndecidedError:
            return Unknown(unparsed(node))

    def _eval_ifexp(self, node: ast.IfExp, frame: CallFrame) -> Any:
        return self._eval(node.body if self.truth(self._eval(node.test, frame)) else node.orelse, frame)

    def _eval_namedexpr(self, node: ast.NamedExpr, frame: CallFrame) -> Any:
        value = self._eval(node.value, frame)
        self._assign(node.target, value, frame)
        return value

    def _eval_lambda(self, node: ast.Lambda, frame: CallFrame) -> Any:
        return Lambda(node, frame)

    def _eval_starred(self, node: ast.Starred, frame: CallFrame) -> Any:
        return self._eval(node.value, frame)

    def _eval_tuple(self, node: ast.Tuple | ast.List | ast.Set, frame: CallFrame) -> tuple[Any, ...]:
        values: list[Any] = []
        for element in node.elts:
            value = self._eval(element, frame)
            values += self.listed(value) if isinstance(element, ast.Starred) else [value]
        return tuple(values)

    def _eval_list(self, node: ast.List, frame: CallFrame) -> list[Any]:
        return list(self._eval_tuple(node, frame))

    _eval_set = _eval_tuple

    def _eval_dict(self, node: ast.Dict, frame: CallFrame) -> dict[Any, Any]:
        pairs = [
            (self._eval(key, frame), self._eval(value, frame))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        table: dict[Any, Any] = native(dict, pairs)
        return table

    def _eval_subscript(self, node: ast.Subscript, frame: CallFrame) -> Any:
        owner, index = self._eval(node.value, frame), self._eval(node.slice, frame)
        if isinstance(owner, Class) and isinstance(index, str):
            if index not in owner.fields:
                raise UndecidedError(f"{owner.name} has no member {index}")
            return self.attribute(owner, index)
        if isinstance(owner, (tuple, list, dict, str)) and not isinstance(index, Unknown):
            return native(operator.getitem, owner, index)
        return Unknown(f"{label(owner)}[{label(index)}]")

    def _eval_listcomp(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: CallFrame
    ) -> list[Any]:
        inner = CallFrame(frame.module, frame.owner, dict(frame.names), [], frame.function)
        return list(self._comprehended(node, node.generators, inner))

    _eval_generatorexp = _eval_setcomp = _eval_listcomp

    def _comprehended(
        self,
        node: ast.ListComp | ast.GeneratorExp | ast.SetComp,
        generators: Sequence[ast.comprehension],
        frame: CallFrame,
    ) -> Iterator[Any]:
        if not generators:
            yield self._eval(node.elt, frame)
            return
        first, *others = generators
        for value in self.listed(self._eval(first.iter, frame)):
            self._assign(first.target, value, frame)
            if all(self.truth(self._eval(test, frame)) for test in first.ifs):
                yield from self._comprehended(node, others, frame)

    def _eval_yield(self, node: ast.Yield, frame: CallFrame) -> None:
        frame.yielded.append(self._eval(node.value, frame) if node.value is not None else None)

    def _eval_yieldfrom(self, node: ast.YieldFrom, frame: CallFrame) -> None:
        frame.yielded += self.listed(self._eval(node.value, frame))

    def _given(self, node: ast.Call, frame: CallFrame) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = self._eval_tuple(ast.Tuple(node.args, ast.Load()), frame)
        return args, {word.arg: self._eval(word.value, frame) for word in node.keywords if word.arg}

    def listed(self, value: Any) -> list[Any]:
        """Return a value's items; those of an unknown value are one unknown item."""
        if isinstance(value, Unknown):
            return [Unknown(f"{value.name}[i]")]
        return list(value) if isinstance(value, (dict, frozenset, list, range, set, str, tuple)) else []


def is_long(values: range) -> bool:
    """Return whether a range has more numbers than are evaluated."""
    return bool(values[_MAX_ITEMS:])


def is_wide(form: str) -> bool:
    """Return whether a format states a width or a precision that no text of a server has."""
    return re.search(r"\d{5}", form) is not None


def _is_huge(op: ast.operator, left: Any, right: Any) -> bool:
    """Return whether the result of a calculation would be too large to be a setting."""
    if isinstance(op, ast.Mult):
        for values, times in ((left, right), (right, left)):
            if isinstance(values, _SEQUENCES) and isinstance(times, int):
                return len(values) * times > _MAX_RESULT
    return isinstance(op, (ast.Add, ast.Mult)) and _size(left) + _size(right) > _MAX_RESULT


def _size(value: Any) -> int:
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, _SEQUENCES) else 0

"""Evaluate what a server runs as it starts, and report a ``raise`` or ``assert`` only if it is certainly reached.

If a condition is undecided, both branches are evaluated: whatever one of them sets is unknown afterwards, and whatever
one of them raises is not reported.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from patchkit.doctor.evaluation.evaluator import Evaluator
from patchkit.doctor.evaluation.values import (
    STRANGE,
    Bound,
    Frame,
    Instance,
    Member,
    RaisedError,
    ReturnedValue,
    Unknown,
    is_plain,
    label,
    message,
)
from patchkit.tree.index import last_name
from patchkit.tree.nodes import is_named, unparsed, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from patchkit.doctor.evaluation.memory import Memory
    from patchkit.tree.index import Class, Program

_MISSING = object()
# No server needs more steps than this to settle its settings.
_STEPS = 100_000
# The rounds of a loop or a recursion whose end is unknown: values that it sets are unknown after the first, and values
# that depend on these after the second.
_ROUNDS = 2
_LONG = 64
_PLAIN_ENUMS = frozenset({"IntEnum", "StrEnum", "int", "str"})
_MUTATES = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault", "sort", "update"}
)


class RefusedError(Exception):
    """The evaluated code certainly raises; ``where`` is the file and line.

    ``filled`` is False if the message contains values that are not known, or is code.
    """

    def __init__(self, why: str, where: str, filled: bool = True) -> None:
        super().__init__(why)
        self.where = where
        self.filled = filled


class UnendingError(Exception):
    """The evaluation exceeds the limit of steps."""


class _UndecidedError(Exception):
    """An expression depends on an undecided condition."""


class _IncomparableError(Exception):
    """Two values that have no order are compared; the text is Python's."""


_SIGNS: dict[type[ast.cmpop], str] = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<="}
_UNEVALUATED = (*STRANGE, RaisedError, _UndecidedError)


class CertainEvaluator(Evaluator):
    """Evaluates whole functions; ``decide`` answers a question, with None if the answer is unknown."""

    def __init__(
        self,
        program: Program,
        known: Mapping[str, Callable[..., Any]],
        decide: Callable[[str], bool | None],
        memory: Memory,
        settings: Any,
    ) -> None:
        native: dict[str, Callable[..., Any]] = {
            "setattr": self._setattr,
            "run_post_process_pass": self._declared_by,
        }
        super().__init__(program, {**known, **native}, lambda _: False, memory)
        self._decide = decide
        self._settings = settings
        self._doubts = 0
        self._silent = 0
        self._steps = 0
        self._running: list[Any] = []

    def value(self, node: ast.expr, cls: Class) -> Any:
        """Return the value of an expression in a class's body."""
        return self._eval(node, Frame(cls.module, cls, {}, []))

    # Conditions.

    def truth(self, value: Any) -> bool:
        """Return whether a value counts as true. Raise _UndecidedError if that is unknown."""
        result = self._truth_or_none(value)
        if result is None:
            raise _UndecidedError
        return result

    def _truth_or_none(self, value: Any) -> bool | None:
        if isinstance(value, Unknown):
            return self._decide(value.name)
        cls = value.cls if isinstance(value, (Member, Instance)) else None
        counts = cls is not None and any(self.method_of(cls, name, value) for name in ("__bool__", "__len__"))
        return None if counts or isinstance(value, Member) else bool(value)

    def _compared(self, left: Any, op: type[ast.cmpop], right: Any) -> Any:
        left = self._plain_value(left)
        if op in (ast.In, ast.NotIn) and isinstance(right, (dict, frozenset, list, set, tuple)):
            each = [self._plain_value(one) for one in right]
            decisive = [_is_decisive(left, one) for one in each]
            found = any(is_decisive and left == one for is_decisive, one in zip(decisive, each, strict=True))
            if not found and not all(decisive):
                raise _UndecidedError
            return found is (op is ast.In)
        right = self._plain_value(right)
        if op in _SIGNS and _is_unordered(left, right) and not (self._doubts or self._silent):
            raise _IncomparableError(
                f"{_SIGNS[op]!r} not supported between instances of {_kind(left)!r} and {_kind(right)!r}"
            )
        if not _is_decisive(left, right):
            return super()._compared(Unknown(label(left)), op, Unknown(label(right)))
        return super()._compared(left, op, right)

    def _condition(self, node: ast.expr, frame: Frame) -> bool | None:
        if isinstance(node, ast.BoolOp):
            return self._boolean_operation(node, frame)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            result = self._condition(node.operand, frame)
            return None if result is None else not result
        return self._truth_or_none(self._eval(node, frame))

    def _boolean_operation(self, node: ast.BoolOp, frame: Frame) -> bool | None:
        ends = isinstance(node.op, ast.Or)
        undecided = 0
        try:
            for each in node.values:
                result = self._condition(each, frame)
                if result is ends:
                    return ends
                if result is None:
                    # The remaining operands may not be evaluated at all.
                    undecided += 1
                    self._doubt(frame, 1)
            return None if undecided else not ends
        finally:
            self._doubt(frame, -undecided)

    def _doubt(self, frame: Frame, more: int) -> None:
        self._doubts += more
        frame.doubts += more

    # Expressions.

    def _eval_compare(self, node: ast.Compare, frame: Frame) -> Any:
        try:
            return super()._eval_compare(node, frame)
        except _IncomparableError as error:
            raise RefusedError(
                f"TypeError: {error}: {ast.unparse(node)}", f"{frame.module.file}:{node.lineno}", filled=False
            ) from None

    def _values(self, value: Any) -> list[Any]:
        if isinstance(value, (dict, frozenset, list, range, set, str, tuple)) and len(value) <= _LONG:
            return list(value)
        raise _UndecidedError

    def _eval(self, node: ast.expr, frame: Frame) -> Any:
        self._steps += 1
        if self._steps > _STEPS:
            raise UnendingError
        try:
            return super()._eval(node, frame)
        except _UNEVALUATED:
            return Unknown(unparsed(node))

    def _eval_ifexp(self, node: ast.IfExp, frame: Frame) -> Any:
        result = self._condition(node.test, frame)
        if result is None:
            self._doubt(frame, 1)
            either = _merged(self._eval(node.body, frame), self._eval(node.orelse, frame))
            self._doubt(frame, -1)
            return either
        return self._eval(node.body if result else node.orelse, frame)

    def _plain_value(self, value: Any) -> Any:
        """Return the text or number of a member of an enum of texts or numbers."""
        if isinstance(value, Member) and self.program.ancestors(value.cls) & _PLAIN_ENUMS:
            default = value.cls.fields.get(value.name)
            return default.value if isinstance(default, ast.Constant) else Unknown(value.name)
        return value

    # Functions.

    def _run(
        self,
        run: Any,
        args: Sequence[Any],
        named: Mapping[str, Any],
        wanted: frozenset[str] | None = None,
        itself: str = "",
    ) -> Any:
        node = getattr(run, "function", run).node
        is_endless = self._doubts and self._running.count(node) >= _ROUNDS
        if is_endless or self._memory.value(("suspends", node), lambda: _suspends(node)):
            return Unknown(f"{node.name}()")
        self._running.append(node)
        try:
            return super()._run(run, args, named, wanted, itself)
        finally:
            self._running.pop()

    def _in_init(self, owner: Instance, name: str) -> bool:
        # Only part of the constructor is evaluated, so an error there is not certain.
        self._silent += 1
        try:
            return super()._in_init(owner, name)
        finally:
            self._silent -= 1

    # Statements.

    def _body(self, body: Sequence[ast.stmt], frame: Frame) -> ReturnedValue | None:
        outer = self._doubts
        try:
            ended = self._block(body, frame)
        finally:
            self._doubts = outer
        last = ended.value if isinstance(ended, ReturnedValue) else None
        for value in frame.returns:
            last = _merged(last, value)
        return ReturnedValue(last)

    def _block(self, body: Sequence[ast.stmt], frame: Frame) -> ReturnedValue | None:
        for statement in body:
            ended = self._statement(statement, frame)
            if ended is not None:
                return ended
        return None

    def _statement(self, statement: ast.stmt, frame: Frame) -> ReturnedValue | None:
        if isinstance(statement, ast.If):
            result = self._condition(statement.test, frame)
            if result is not None:
                return self._block(statement.body if result else statement.orelse, frame)
            self._in_doubt(frame, statement.body, statement.orelse)
            return None
        if isinstance(statement, ast.Raise):
            if self._doubts or self._silent:
                return ReturnedValue(None)
            raised = self._raised(statement, frame)
            raise RefusedError(str(raised), raised.where, raised.filled)
        if isinstance(statement, ast.Assert):
            self._assert(statement, frame)
            return None
        if isinstance(statement, ast.Return):
            value = self._eval(statement.value, frame) if statement.value is not None else None
            if frame.doubts:
                frame.returns.append(value)
                self._doubt(frame, 1)
            return ReturnedValue(value)
        if isinstance(statement, ast.For):
            return self._for(statement, frame)
        if isinstance(statement, (ast.While, ast.Match)):
            blocks = (
                [case.body for case in statement.cases]
                if isinstance(statement, ast.Match)
                else [statement.body]
            )
            for _ in range(_ROUNDS):
                self._in_doubt(frame, *blocks)
            return None
        if isinstance(statement, ast.With):
            for item in statement.items:
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, Unknown("with"), frame)
            if any(last_name(item.context_expr) == "suppress" for item in statement.items):
                self._in_doubt(frame, statement.body)
                return None
        if isinstance(statement, ast.Expr) and _logs(statement.value):
            return None
        return super()._statement(statement, frame)

    def _assert(self, statement: ast.Assert, frame: Frame) -> None:
        if self._condition(statement.test, frame) is False and not (self._doubts or self._silent):
            where = f"{frame.module.file}:{statement.lineno}"
            if statement.msg is None:
                raise RefusedError(f"AssertionError: {ast.unparse(statement.test)}", where, filled=False)
            why, filled = message("AssertionError", [self._text(statement.msg, frame)])
            raise RefusedError(why, where, filled)

    def _in_doubt(self, frame: Frame, *blocks: Sequence[ast.stmt]) -> None:
        """Evaluate blocks that may not run."""
        for block in blocks:
            self._doubt(frame, 1)
            # If such a block returns, the rest of the function may not run either.
            self._block(block, frame)
            self._doubt(frame, -1)

    def _for(self, statement: ast.For, frame: Frame) -> ReturnedValue | None:
        values = self._eval(statement.iter, frame)
        leaves = self._memory.value(("leaves", statement), lambda: _leaves(statement))
        try:
            each = None if leaves else self._values(values)
        except _UndecidedError:
            each = None
        if each is not None:
            for value in each:
                self._assign(statement.target, value, frame)
                ended = self._block(statement.body, frame)
                if ended is not None:
                    return ended
            return self._block(statement.orelse, frame)
        self._assign(statement.target, Unknown(unparsed(statement.target)), frame)
        for _ in range(_ROUNDS):
            self._in_doubt(frame, statement.body)
        self._in_doubt(frame, statement.orelse)
        return None

    def _try(self, statement: ast.Try, frame: Frame) -> ReturnedValue | None:
        raises = [bool(each.body) and isinstance(each.body[-1], ast.Raise) for each in statement.handlers]
        ended = None
        if all(raises) or self._is_evaluated(statement.body, frame):
            ended = self._block(statement.body, frame)
        else:
            # It is unknown which statement raises, and which handler runs.
            self._in_doubt(frame, statement.body, *(each.body for each in statement.handlers))
        if ended is None:
            ended = self._block(statement.orelse, frame)
        return self._block(statement.finalbody, frame) or ended

    def _is_evaluated(self, body: Sequence[ast.stmt], frame: Frame) -> bool:
        """Return whether a block cannot raise: it is one statement without a call, whose value is known."""
        (only, *others) = body
        value = only.value if isinstance(only, (ast.Assign, ast.Return)) and not others else None
        calls = value is None or any(isinstance(node, ast.Call) for node in walk(value))
        return not calls and value is not None and not isinstance(self._eval(value, frame), Unknown)

    # Assignments.

    def _assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            if frame.doubts:
                value = _merged(frame.names.get(target.id, _MISSING), value)
            frame.names[target.id] = value
        elif isinstance(target, ast.Attribute):
            self._set(self._eval(target.value, frame), target.attr, value)
        elif isinstance(target, ast.Subscript):
            owner, index = self._eval(target.value, frame), self._eval(target.slice, frame)
            if isinstance(owner, dict) and not isinstance(index, Unknown) and not self._doubts:
                owner[index] = value
            elif isinstance(target.value, (ast.Name, ast.Attribute)):
                self._assign(target.value, Unknown(unparsed(target.value)), frame)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, Unknown(unparsed(target.value)), frame)
        else:
            super()._assign(target, value, frame)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        if self._doubts:
            value = _merged(self._present(owner, name), value)
        if isinstance(owner, Instance):
            owner.attributes[name] = value
        elif hasattr(owner, "assign"):
            owner.assign(name, value)

    def _present(self, owner: Any, name: str) -> Any:
        try:
            return self.attribute(owner, name)
        except _UNEVALUATED:
            return _MISSING

    def _setattr(self, _: Evaluator, owner: Any, name: Any, value: Any) -> None:
        if isinstance(name, str):
            self._set(owner, name, value)
        elif owner is self._settings:
            self._forget(tuple(self._settings.values))

    def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._settings.assign(name, Unknown(name))

    def _named_in(self, node: ast.AST | None) -> list[str]:
        """Return the settings whose names occur in code, as texts or as keywords of a call."""
        nodes = walk(node) if node is not None else ()
        words = {
            each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
        words |= {each.arg for each in nodes if isinstance(each, ast.keyword) and each.arg}
        return [name for name in self._settings.values if name in words]

    # Calls.

    def _eval_call(self, node: ast.Call, frame: Frame) -> Any:
        func = node.func
        inner = getattr(func, "value", None)
        if frame.wanted is not None or (isinstance(inner, ast.Call) and is_named(inner.func, "super")):
            return super()._eval_call(node, frame)
        owner = self._eval(func.value, frame) if isinstance(func, ast.Attribute) else None
        args, named = self._given(node, frame)
        if isinstance(func, ast.Attribute):
            if func.attr == "__setattr__":
                return self._setattr(self, *args)
            if func.attr in _MUTATES and isinstance(owner, (dict, list, set, tuple)):
                return self._mutated(owner, func, args, frame)
            called = self.attribute(owner, func.attr)
        else:
            called = self._eval(func, frame)
        if (
            isinstance(called, Bound)
            and called.function.node.args.kwarg is not None
            and args
            and args[0] is self._settings
            and self._declares_all(node, named, frame)
        ):
            return None
        return self.call(called, args, named)

    def _mutated(self, owner: Any, func: ast.Attribute, args: Sequence[Any], frame: Frame) -> Any:
        if isinstance(owner, list) and func.attr == "append" and not self._doubts:
            owner.append(*args)
        elif isinstance(owner, dict) and func.attr == "update" and not self._doubts and _dicts(args):
            owner.update(*args)
        else:
            self._assign(func.value, Unknown(unparsed(func.value)), frame)
        return Unknown(unparsed(func))

    def _declares_all(self, node: ast.Call, named: Mapping[str, Any], frame: Frame) -> bool:
        """Set the settings that a call names as keywords; return whether all of its keywords are settings."""
        if any(name not in self._settings.values for name in named) or not any(
            word.arg is None or word.arg in named for word in node.keywords
        ):
            return False
        for name, value in named.items():
            self._set(self._settings, name, value)
        if any(
            word.arg is None and not isinstance(self._eval(word.value, frame), dict) for word in node.keywords
        ):
            self._forget(self._named_in(frame.function.node if frame.function is not None else None))
        return True

    def _declared_by(self, _: Evaluator, settings: Any, function: Any) -> None:
        """Set the settings that a function returns by name."""
        declared = self.call(function, (settings,))
        if isinstance(declared, dict) and all(isinstance(name, str) for name in declared):
            for name, value in declared.items():
                self._set(self._settings, name, value)
        elif isinstance(function, Bound):
            self._forget(self._named_in(function.function.node))

    def _given(self, node: ast.Call, frame: Frame) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, named = super()._given(node, frame)
        for word in node.keywords:
            value = self._eval(word.value, frame) if word.arg is None else None
            if isinstance(value, dict) and all(isinstance(name, str) for name in value):
                named |= value
        return args, named


def _merged(one: Any, other: Any) -> Any:
    """Return the common value of two branches, or an unknown one."""
    if one is other or (type(one) is type(other) and not isinstance(one, Unknown) and one == other):
        return one
    return Unknown("one of several")


def _is_decisive(one: Any, other: Any) -> bool:
    """Return whether it is known if two values are equal; an object's class may define equality."""
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return False
    same = isinstance(one, Member) and isinstance(other, Member) and one.cls is other.cls
    return same or one is None or other is None or (is_plain(one) and is_plain(other))


def _is_unordered(one: Any, other: Any) -> bool:
    """Return whether one of two values is a number and the other is None or a text."""
    numbers = [isinstance(each, (int, float)) for each in (one, other)]
    others = [each is None or isinstance(each, str) for each in (one, other)]
    return (numbers[0] and others[1]) or (numbers[1] and others[0])


def _kind(value: Any) -> str:
    return type(value).__name__


def _suspends(node: ast.AST) -> bool:
    return any(isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom)) for each in walk(node))


def _leaves(node: ast.For) -> bool:
    return any(isinstance(each, (ast.Break, ast.Continue)) for each in walk(node))


def _logs(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "logger"


def _dicts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)

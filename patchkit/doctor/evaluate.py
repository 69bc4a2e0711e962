"""Evaluate functions of a tree from their sources, with the values that are known of a server; nothing is imported.

A value that no option determines is ``Unknown``. A condition on one is a question; ``explore`` tries each answer.
"""

from __future__ import annotations

import ast
import functools
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from patchkit.patchset.condition import COMPARISONS
from patchkit.tree.index import Class, Function, Module
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from patchkit.tree.index import Program

_Result = TypeVar("_Result")
_LIMIT = 256
_DEPTH = 40
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
_OPPOSITE = {ast.NotEq: ast.Eq, ast.NotIn: ast.In, ast.IsNot: ast.Is}
_NAMED = {ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.Is: "is"}


UNKNOWN_TEXT = "…"
"""The placeholder in a message for a value that is not known."""
STRANGE = (AttributeError, KeyError, IndexError, TypeError, ValueError)


class RaisedError(Exception):
    """The evaluated code raises, so the server does not start; ``where`` is the file and line.

    ``filled`` is False if the message contains values that are not known.
    """

    def __init__(self, why: str, where: str = "", filled: bool = True) -> None:
        super().__init__(why)
        self.where = where
        self.filled = filled


@dataclass(frozen=True)
class Unknown:
    """A value that is not known; ``name`` is the expression that yields it."""

    name: str


@dataclass(frozen=True)
class Member:
    """A member of an enum."""

    cls: Class
    name: str


@dataclass(eq=False)
class Instance:
    """An object of one of the tree's classes, or of none: the constructor's arguments, and the known attributes."""

    cls: Class | None
    attributes: dict[str, Any] = field(default_factory=dict)
    made_with: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
    name: str = ""
    being_set: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Bound:
    """A function of the tree and, for a method, its object."""

    function: Function
    receiver: Any = None


@dataclass(frozen=True, repr=False)
class _Lambda:
    node: ast.Lambda
    frame: Frame


@dataclass(frozen=True, repr=False)
class _Nested:
    """A nested function, with the frame of the function that defines it."""

    function: Function
    frame: Frame


@dataclass(eq=False)
class Frame:
    """The evaluation of a function.

    ``doubts`` counts the undecided conditions around the current statement, and ``returns`` has the values that may
    have been returned under these; only ``CertainEvaluator`` uses them.
    """

    module: Module
    owner: Class | None
    names: dict[str, Any]
    yielded: list[Any]
    itself: str = ""
    wanted: frozenset[str] | None = None
    function: Function | None = None
    doubts: int = 0
    returns: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class ReturnedValue:
    """The value with which a block returns."""

    value: Any


def explore(run: Callable[[dict[str, bool]], _Result]) -> list[tuple[dict[str, bool], _Result]]:
    """Return the result of ``run`` for each combination of answers; it adds the questions to its argument."""
    pending: list[dict[str, bool]] = [{}]
    found: list[tuple[dict[str, bool], _Result]] = []
    while pending and len(found) < _LIMIT:
        given = pending.pop()
        answers = dict(given)
        found.append((answers, run(answers)))
        so_far = dict(given)
        for question in [asked for asked in answers if asked not in given]:
            pending.append(so_far | {question: not answers[question]})
            so_far[question] = answers[question]
    return found


class Machine:
    """Evaluates functions of one tree; ``known`` replaces names that are not evaluated from the tree's sources."""

    def __init__(
        self,
        program: Program,
        known: Mapping[str, Callable[..., Any]],
        ask: Callable[[str], bool],
        memory: dict[Any, Any],
    ) -> None:
        self.program = program
        self._known = known
        self._ask = ask
        self._depth = 0
        self._memory = memory

    # Values, calls and attributes.

    def truth(self, value: Any) -> bool:
        """Return whether a value counts as true."""
        return self._ask(value.name) if isinstance(value, Unknown) else bool(value)

    def call(self, called: Any, args: Sequence[Any] = (), named: Mapping[str, Any] | None = None) -> Any:
        """Return the result of a call."""
        named = named or {}
        if isinstance(called, Unknown):
            return Unknown(f"{called.name}()")
        if isinstance(called, Class):
            return Instance(called, {}, (tuple(args), named))
        if isinstance(called, _Lambda):
            return self._eval(called.node.body, called.frame)
        if isinstance(called, _Nested):
            return self._run(called, args, named)
        if isinstance(called, Bound):
            known = self._known.get(called.function.name)
            if known is not None and called.receiver is None:
                answer = known(self, *args, **named)
                if answer is not NotImplemented:
                    return answer
            received = args if called.receiver is None else (called.receiver, *args)
            return self._run(called.function, received, named)
        answer = called(self, *args, **named) if callable(called) else NotImplemented
        return Unknown(f"{said(called)}()") if answer is NotImplemented else answer

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute. Raise AttributeError if there is none."""
        if isinstance(owner, Unknown):
            return Unknown(f"{owner.name}.{name}")
        if isinstance(owner, Module):
            return self._global(owner, name)
        if isinstance(owner, Class):
            return self._of_class(owner, name)
        if isinstance(owner, Instance):
            return self._of_instance(owner, name)
        if isinstance(owner, Member):
            return owner.name if name == "name" else self._method(owner.cls, name, owner)
        if hasattr(owner, "attribute_of"):
            return owner.attribute_of(self, name)
        if isinstance(owner, (str, dict, list, set)) and name in _OF_PLAIN:
            method = getattr(owner, name)
            return lambda _, *args, **named: method(*args, **named)
        if isinstance(owner, str) and name in ("format", "join"):
            return functools.partial(_formatted, getattr(owner, name))
        raise AttributeError(name)

    def method_of(self, cls: Class | None, name: str, receiver: Any) -> Bound | None:
        """Return a class's method for an object, or None."""
        found = self.program.method(cls, name) if cls is not None else None
        return Bound(found, receiver) if found is not None else None

    def listed(self, value: Any) -> list[Any]:
        """Return a value's items; those of an unknown value are one unknown item."""
        return self._values(value)

    def settle(self, function: Function, receiver: Any, wanted: frozenset[str]) -> None:
        """Run the statements of a function that assign ``wanted`` attributes of its first argument.

        Functions that receive the argument are followed, as are calls that declare values by keyword.
        """
        self._run(function, (receiver,), {}, wanted)

    # Names and attributes.

    def _of_class(self, cls: Class, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return cls.name
        if name == "__mro__":
            return tuple(self.program.mro(cls))
        for known in self.program.mro(cls):
            if name in known.fields:
                value = known.fields[name]
                if self.program.is_enum(cls):
                    return Member(cls, name)
                if value is not None:
                    return self._eval(value, Frame(known.module, known, {}, []))
            if name in known.methods:
                method = known.methods[name]
                return Bound(method, cls if "classmethod" in method.decorators else None)
        raise AttributeError(name)

    def _of_instance(self, owner: Instance, name: str) -> Any:
        if name == "__class__":
            return owner.cls
        if name in owner.attributes:
            return owner.attributes[name]
        if owner.cls is None:
            return Unknown(f"{owner.name}.{name}")
        method = self.program.method(owner.cls, name)
        if method is not None and method.decorators & {"property", "cached_property"}:
            return self._run(method, (owner,), {})
        if self._in_init(owner, name):
            return owner.attributes[name]
        if method is not None:
            return Bound(method, None if "staticmethod" in method.decorators else owner)
        return self._of_class(owner.cls, name)

    def _in_init(self, owner: Instance, name: str) -> bool:
        """Run the statements of a constructor that set an attribute; return whether one did."""
        init = self.program.method(owner.cls, "__init__") if owner.cls is not None else None
        wanted = frozenset({name})
        # A constructor that changes the attribute (``|=``) starts from the class's value.
        if name in owner.being_set or init is None or not self._assigns(init, wanted, owner.cls):
            return False
        args, named = owner.made_with
        owner.being_set.add(name)
        try:
            self._run(init, (owner, *args), named, wanted)
        finally:
            owner.being_set.discard(name)
        return name in owner.attributes

    def _method(self, cls: Class, name: str, receiver: Any) -> Any:
        method = self.program.method(cls, name)
        if method is None:
            return self._of_class(cls, name)
        if "property" in method.decorators:
            return self._run(method, (receiver,), {})
        return Bound(method, cls if "classmethod" in method.decorators else receiver)

    def _name(self, name: str, frame: Frame) -> Any:
        return frame.names[name] if name in frame.names else self._global(frame.module, name)

    def _global(self, module: Module, name: str, depth: int = 5) -> Any:
        if name in self._known:
            return self._known[name]
        if name in module.classes:
            return module.classes[name]
        if name in module.functions:
            return Bound(module.functions[name])
        value = self.remembered(("constants", module), lambda: _constants(module)).get(name)
        if value is not None:
            return self._eval(value, Frame(module, None, {}, []))
        found = self.program.resolve(module, name)
        if isinstance(found, Function):
            return Bound(found)
        if found is not None:
            return found
        dotted, member = module.imports.get(name, ("", None))
        file = self.program.file_of(dotted) if dotted and member else None
        source = self.program.module(file) if file is not None else None
        if source is not None and member is not None and depth:
            return self._global(source, member, depth - 1)
        return Unknown(name)

    # Functions.

    def _run(
        self,
        run: Function | _Nested,
        args: Sequence[Any],
        named: Mapping[str, Any],
        wanted: frozenset[str] | None = None,
        itself: str = "",
    ) -> Any:
        function, within = (run.function, run.frame.names) if isinstance(run, _Nested) else (run, {})
        if self._depth > _DEPTH:
            return Unknown(f"{function.qualname}()")
        names = {**within, **self._bound(function, args, named)}
        frame = Frame(
            function.module, function.owner, names, [], itself or _first(function), wanted, function
        )
        body = function.node.body if wanted is None else self._sliced(function, frame)
        self._depth += 1
        try:
            returned = self._body(body, frame)
        finally:
            self._depth -= 1
        if self.remembered(("yields", function), lambda: _yields(function)):
            return frame.yielded
        return returned.value if returned is not None else None

    def _bound(self, function: Function, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        said = function.node.args
        positional = [arg.arg for arg in (*said.posonlyargs, *said.args)]
        module = Frame(function.module, function.owner, {}, [])
        names: dict[str, Any] = {}
        for name, default in zip(reversed(positional), reversed(said.defaults), strict=False):
            names[name] = self._eval(default, module)
        for arg, value in zip(said.kwonlyargs, said.kw_defaults, strict=True):
            if value is not None:
                names[arg.arg] = self._eval(value, module)
        names |= dict(zip(positional, args, strict=False))
        names |= named
        for name in (*positional, *(only.arg for only in said.kwonlyargs)):
            names.setdefault(name, Unknown(name))
        if said.vararg is not None:
            names[said.vararg.arg] = tuple(args[len(positional) :])
        if said.kwarg is not None:
            taken = {*positional, *(only.arg for only in said.kwonlyargs)}
            names[said.kwarg.arg] = {name: value for name, value in named.items() if name not in taken}
        return names

    def remembered(self, asked: Any, make: Callable[[], Any]) -> Any:
        """Return a value that depends on the tree alone; it is computed once."""
        if asked not in self._memory:
            self._memory[asked] = make()
        return self._memory[asked]

    def _sliced(self, function: Function, frame: Frame) -> list[ast.stmt]:
        cls = getattr(frame.names.get(frame.itself), "cls", None)
        found: list[ast.stmt] = self.remembered(
            ("slice", function, frame.itself, frame.wanted, cls), lambda: self._slice(function, frame)
        )
        return found

    def _slice(self, function: Function, frame: Frame) -> list[ast.stmt]:
        """Return the statements on which the wanted attributes of the first argument depend."""
        body = function.node.body
        locals_needed: set[str] = set()
        while True:
            chosen = [one for one in body if self._is_needed(one, frame, locals_needed)]
            read = {
                node.id
                for one in chosen
                for node in walk(one)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            } - {frame.itself}
            if read <= locals_needed:
                return chosen
            locals_needed |= read

    def _is_needed(self, statement: ast.stmt, frame: Frame, locals_needed: set[str]) -> bool:
        assert frame.wanted is not None
        if isinstance(statement, ast.FunctionDef):
            return statement.name in locals_needed
        if isinstance(statement, ast.ClassDef):
            return False
        for node in walk(statement):
            if (
                isinstance(node, ast.Return)
                or (
                    isinstance(node, ast.Name)
                    and isinstance(node.ctx, ast.Store)
                    and node.id in locals_needed
                )
                or _sets(node, frame.itself, frame.wanted)
            ):
                return True
            if isinstance(node, ast.Call) and (
                self._declares(node, frame.module, frame.itself, frame.wanted)
                or any(
                    self._assigns(target, frame.wanted, None, place)
                    for target, place in self._handed(
                        node, frame.module, frame.owner, frame.itself, frame.names
                    )
                )
            ):
                return True
        return False

    def _handed(
        self, node: ast.Call, module: Module, owner: Class | None, itself: str, names: Mapping[str, Any]
    ) -> list[tuple[Function, str]]:
        """Return the functions that may receive ``itself`` from a call, each with the parameter that receives it."""
        func = node.func
        handed = _place(node, itself)
        if isinstance(func, ast.Attribute):
            cls = getattr(names.get(itself), "cls", None) or owner
            method = None
            if is_named(func.value, itself):
                method = self.program.method(cls, func.attr) if cls is not None else None
                return [(method, _first(method))] if method is not None else []
            if isinstance(func.value, ast.Call) and getattr(func.value.func, "id", "") == "super":
                method = self.program.method(cls, func.attr, owner) if cls is not None else None
                return [(method, _first(method))] if method is not None else []
            if handed is None:
                return []
            # The class is known only when the call runs; until then any method of this name counts.
            return self._methods_named(func.attr, handed)
        if handed is None or not isinstance(func, ast.Name):
            return []
        called = self.program.resolve(module, func.id)
        mine = [(called, _parameter(called, handed))] if isinstance(called, Function) else []
        # Passed together with the function to call: hook(function, settings).
        for arg in node.args:
            if isinstance(arg, ast.Attribute):
                mine += self._methods_named(arg.attr, 0)
            passed = self.program.resolve(module, arg.id) if isinstance(arg, ast.Name) else None
            mine += [(passed, _first(passed))] if isinstance(passed, Function) else []
        return [(function, place) for function, place in mine if place]

    def _declares(self, node: ast.Call, module: Module, itself: str, wanted: Iterable[str]) -> bool:
        """Return whether a call declares the value of a wanted attribute by keyword."""
        if not {word.arg for word in node.keywords}.isdisjoint(wanted) and _place(node, itself) == 0:
            called = self.program.resolve(module, node.func.id) if isinstance(node.func, ast.Name) else None
            return isinstance(called, Function) and called.node.args.kwarg is not None
        return False

    def _methods_named(self, name: str, handed: int | str) -> list[tuple[Function, str]]:
        """Return every method of a name, each with its parameter for an argument."""

        def found() -> list[Function]:
            text = f"def {name}(".encode()
            files = [file for file, source in self.program.sources.items() if text in source]
            modules = [module for file in files if (module := self.program.module(file)) is not None]
            classes = [cls for module in modules for cls in module.classes.values()]
            return [cls.methods[name] for cls in classes if name in cls.methods]

        methods: list[Function] = self.remembered(("methods", name), found)
        return [(method, place) for method in methods if (place := _parameter(method, handed, skip=1))]

    def _assigns(
        self, function: Function, wanted: frozenset[str], cls: Class | None, itself: str = ""
    ) -> bool:
        itself = itself or _first(function)
        asked = function, wanted, cls, itself
        if asked not in self._memory:
            self._memory[asked] = False
            names = {itself: Instance(cls)} if cls is not None else {}
            self._memory[asked] = any(
                _sets(node, itself, wanted)
                or (
                    isinstance(node, ast.Call)
                    and (
                        self._declares(node, function.module, itself, wanted)
                        or any(
                            self._assigns(found, wanted, cls, place)
                            for found, place in self._handed(
                                node, function.module, function.owner, itself, names
                            )
                        )
                    )
                )
                for node in walk(function.node)
            )
        return bool(self._memory[asked])

    # Statements.

    def _body(self, body: Sequence[ast.stmt], frame: Frame) -> ReturnedValue | None:
        return self._block(body, frame)

    def _block(self, body: Sequence[ast.stmt], frame: Frame) -> ReturnedValue | None:
        for statement in body:
            try:
                returned = self._statement(statement, frame)
            except (*STRANGE, RaisedError):
                # The statement needs a value that a skipped statement sets.
                if frame.wanted is None:
                    raise
                self._leave_open(statement, frame)
                continue
            if returned is not None:
                return returned
        return None

    def _leave_open(self, statement: ast.stmt, frame: Frame) -> None:
        """Set the wanted attributes that a statement assigns to an unknown value."""
        for name in frame.wanted or ():
            if any(_sets(node, frame.itself, (name,)) for node in walk(statement)):
                target = ast.Attribute(ast.Name(frame.itself, ast.Load()), name, ast.Store())
                self._assign(target, Unknown(name), frame)

    def _statement(self, statement: ast.stmt, frame: Frame) -> ReturnedValue | None:
        if isinstance(statement, ast.Return):
            return ReturnedValue(self._eval(statement.value, frame) if statement.value is not None else None)
        if isinstance(statement, ast.If):
            return self._block(
                statement.body if self.truth(self._eval(statement.test, frame)) else statement.orelse, frame
            )
        if isinstance(statement, ast.Raise):
            if frame.wanted is None:
                raise self._raised(statement, frame)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            if statement.value is not None:
                value = self._eval(statement.value, frame)
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    self._assign(target, value, frame)
        elif isinstance(statement, ast.AugAssign):
            made = ast.BinOp(_loaded(statement.target), statement.op, statement.value)
            self._assign(statement.target, self._eval(made, frame), frame)
        elif isinstance(statement, ast.Expr):
            self._eval(statement.value, frame)
        elif isinstance(statement, ast.For):
            for value in self._values(self._eval(statement.iter, frame)):
                self._assign(statement.target, value, frame)
                returned = self._block(statement.body, frame)
                if returned is not None:
                    return returned
        elif isinstance(statement, ast.With):
            return self._block(statement.body, frame)
        elif isinstance(statement, ast.Try):
            return self._try(statement, frame)
        elif isinstance(statement, ast.FunctionDef):
            frame.names[statement.name] = _Nested(Function(frame.module, statement, frame.owner), frame)
        return None

    def _raised(self, statement: ast.Raise, frame: Frame) -> RaisedError:
        raised = statement.exc
        kind, texts = raised, []
        if isinstance(raised, ast.Call):
            kind, texts = raised.func, [self._text(arg, frame) for arg in raised.args]
        name = ast.unparse(kind) if kind is not None else ""
        name = name if name.rpartition(".")[2][:1].isupper() else "an exception"  # Otherwise a variable.
        why, filled = message(name, texts)
        return RaisedError(why, f"{frame.module.file}:{statement.lineno}", filled)

    def _text(self, node: ast.expr, frame: Frame) -> str:
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
        if not is_plain(value):
            return UNKNOWN_TEXT
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("r"):
            value = repr(value)
        try:
            return format(value, form)
        except (TypeError, ValueError):
            return UNKNOWN_TEXT

    def _try(self, statement: ast.Try, frame: Frame) -> ReturnedValue | None:
        try:
            return self._block(statement.body, frame)
        except (RaisedError, KeyError, AttributeError):
            for handler in statement.handlers:
                return self._block(handler.body, frame)
            raise

    def _assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            plain = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for place, one in enumerate(target.elts):
                name = f"{said(value)}[{place}]"
                self._assign(one, value[place] if plain else Unknown(name), frame)
        elif isinstance(target, ast.Attribute):
            owner = self._eval(target.value, frame)
            if isinstance(owner, Instance):
                owner.attributes[target.attr] = value
            elif hasattr(owner, "assign"):
                owner.assign(target.attr, value)

    # Expressions.

    def _eval_joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Any:
        text = self._text(node, frame)
        return Unknown(ast.unparse(node)) if UNKNOWN_TEXT in text else text

    def _eval(self, node: ast.expr, frame: Frame) -> Any:
        evaluate = getattr(self, f"_eval_{type(node).__name__.lower()}", None)
        return evaluate(node, frame) if evaluate is not None else Unknown(ast.unparse(node))

    def _eval_constant(self, node: ast.Constant, _: Frame) -> Any:
        return node.value

    def _eval_name(self, node: ast.Name, frame: Frame) -> Any:
        return self._name(node.id, frame)

    def _eval_attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        return self.attribute(self._eval(node.value, frame), node.attr)

    def _eval_boolop(self, node: ast.BoolOp, frame: Frame) -> Any:
        value: Any = None
        for each in node.values:
            value = self._eval(each, frame)
            if each is not node.values[-1] and self.truth(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _eval_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self._eval(node.operand, frame)
        if isinstance(node.op, ast.Not):
            return not self.truth(value)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, (int, float)) else value

    def _eval_compare(self, node: ast.Compare, frame: Frame) -> Any:
        left = self._eval(node.left, frame)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._eval(right_node, frame)
            held = self._compared(left, type(op), right)
            if isinstance(held, Unknown) and len(node.ops) == 1:
                return held
            if not self.truth(held):
                return False
            left = right
        return True

    def _compared(self, left: Any, op: type[ast.cmpop], right: Any) -> Any:
        if op in _OPPOSITE:
            return not self.truth(self._compared(left, _OPPOSITE[op], right))
        if op is ast.In and not isinstance(left, Unknown) and isinstance(right, (tuple, list, set, dict)):
            return left in right
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return Unknown(f"{said(left)} {_NAMED[op]} {said(right)}")
        try:
            return _COMPARED[op](left, right)
        except TypeError:
            return Unknown(f"{said(left)} {_NAMED[op]} {said(right)}")

    def _eval_binop(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self._eval(node.left, frame), self._eval(node.right, frame)
        if isinstance(node.op, ast.BitOr) and (isinstance(left, bool) or isinstance(right, bool)):
            return self.truth(left) or self.truth(right)
        try:
            return _CALCULATED[type(node.op)](left, right)
        except (KeyError, TypeError):
            return Unknown(ast.unparse(node))

    def _eval_ifexp(self, node: ast.IfExp, frame: Frame) -> Any:
        return self._eval(node.body if self.truth(self._eval(node.test, frame)) else node.orelse, frame)

    def _eval_namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self._eval(node.value, frame)
        self._assign(node.target, value, frame)
        return value

    def _eval_lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        return _Lambda(node, frame)

    def _eval_starred(self, node: ast.Starred, frame: Frame) -> Any:
        return self._eval(node.value, frame)

    def _eval_tuple(self, node: ast.Tuple | ast.List | ast.Set, frame: Frame) -> tuple[Any, ...]:
        found: list[Any] = []
        for each in node.elts:
            value = self._eval(each, frame)
            found += self._values(value) if isinstance(each, ast.Starred) else [value]
        return tuple(found)

    def _eval_list(self, node: ast.List, frame: Frame) -> list[Any]:
        return list(self._eval_tuple(node, frame))

    _eval_set = _eval_tuple

    def _eval_dict(self, node: ast.Dict, frame: Frame) -> dict[Any, Any]:
        return {
            self._eval(key, frame): self._eval(value, frame)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }

    def _eval_subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        owner, index = self._eval(node.value, frame), self._eval(node.slice, frame)
        if isinstance(owner, Class) and isinstance(index, str):
            if index not in owner.fields:
                raise KeyError(index)
            return self._of_class(owner, index)
        if isinstance(owner, (tuple, list, dict, str)) and not isinstance(index, Unknown):
            return owner[index]
        return Unknown(f"{said(owner)}[{said(index)}]")

    def _eval_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: Frame) -> list[Any]:
        inner = Frame(frame.module, frame.owner, dict(frame.names), [], frame.itself)
        return list(self._comprehended(node, node.generators, inner))

    _eval_generatorexp = _eval_setcomp = _eval_listcomp

    def _comprehended(
        self,
        node: ast.ListComp | ast.GeneratorExp | ast.SetComp,
        generators: Sequence[ast.comprehension],
        frame: Frame,
    ) -> Iterator[Any]:
        if not generators:
            yield self._eval(node.elt, frame)
            return
        first, *others = generators
        for value in self._values(self._eval(first.iter, frame)):
            self._assign(first.target, value, frame)
            if all(self.truth(self._eval(test, frame)) for test in first.ifs):
                yield from self._comprehended(node, others, frame)

    def _eval_yield(self, node: ast.Yield, frame: Frame) -> None:
        frame.yielded.append(self._eval(node.value, frame) if node.value is not None else None)

    def _eval_yieldfrom(self, node: ast.YieldFrom, frame: Frame) -> None:
        frame.yielded += self._values(self._eval(node.value, frame))

    def _eval_call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            inner = node.func.value.func
            if isinstance(inner, ast.Name) and inner.id == "super":
                return self._super(node, node.func.attr, frame)
        if frame.wanted is not None and self._is_settled_by(node, frame):
            return None
        called = self._eval(node.func, frame)
        args, named = self._given(node, frame)
        return self.call(called, args, named)

    def _is_settled_by(self, node: ast.Call, frame: Frame) -> bool:
        """Run the functions behind a call that set a wanted attribute; return whether there are any."""
        assert frame.wanted is not None
        if self._declares(node, frame.module, frame.itself, frame.wanted):
            for word in node.keywords:
                if word.arg in frame.wanted:
                    target = ast.Attribute(ast.Name(frame.itself, ast.Load()), word.arg, ast.Store())
                    self._assign(target, self._eval(word.value, frame), frame)
            return True
        settling = [
            (function, place)
            for function, place in self._handed(node, frame.module, frame.owner, frame.itself, frame.names)
            if self._assigns(function, frame.wanted, None, place)
        ]
        if not settling:
            return False
        args, named = self._given(node, frame)
        places = dict(settling)
        if isinstance(node.func, ast.Attribute) and is_named(node.func.value, frame.itself):
            runs = [(settling[0][0], (frame.names[frame.itself], *args), named)]
        else:
            called = self._eval(node.func, frame)
            passed = [each for each in args if isinstance(each, Bound)]
            runs = [
                (each.function, given if each.receiver is None else (each.receiver, *given), words)
                for each, given, words in (
                    (called, args, named),
                    *((each, (frame.names[frame.itself],), {}) for each in passed),
                )
                if isinstance(each, Bound) and each.function in places
            ]
        for function, received, words in runs:
            self._run(function, received, words, frame.wanted, places[function])
        return bool(runs)

    def _given(self, node: ast.Call, frame: Frame) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = self._eval_tuple(ast.Tuple(node.args, ast.Load()), frame)
        return args, {word.arg: self._eval(word.value, frame) for word in node.keywords if word.arg}

    def _super(self, node: ast.Call, name: str, frame: Frame) -> Any:
        receiver = frame.names.get(frame.itself)
        cls = getattr(receiver, "cls", None)
        found = self.program.method(cls, name, frame.owner) if cls is not None else None
        if found is None:
            return None
        args, named = self._given(node, frame)
        return self._run(found, (receiver, *args), named, frame.wanted)

    def _values(self, value: Any) -> list[Any]:
        if isinstance(value, Unknown):
            return [Unknown(f"{value.name}[i]")]
        try:
            return list(value)
        except TypeError:
            return []


_OF_PLAIN = frozenset(
    {
        *("append", "endswith", "get", "items", "keys", "lower", "removeprefix", "split", "startswith"),
        *("strip", "upper", "values"),
    }
)


def _formatted(method: Callable[..., str], _: Machine, *args: Any, **named: Any) -> Any:
    known = all(map(is_plain, (*args, *named.values())))
    return method(*args, **named) if known else Unknown(f"{method.__name__}()")


def message(kind: str, texts: Sequence[str]) -> tuple[str, bool]:
    """Return the message of an exception, and whether all of it is known."""
    text = " ".join(texts)
    filled = UNKNOWN_TEXT not in text
    return (f"{kind}: {text}" if text.replace(UNKNOWN_TEXT, "").strip() else kind), filled


def _constants(module: Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for statement in module.tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name):
                found.setdefault(target.id, statement.value)
    return found


def _yields(function: Function) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(function.node))


def _sets(node: ast.AST, itself: str, wanted: Iterable[str]) -> bool:
    """Return whether a node sets, or appends to, a wanted attribute."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append":
        node = node.func.value  # type: ignore[attr-defined]
    elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store):
        return False
    return isinstance(node, ast.Attribute) and node.attr in wanted and is_named(node.value, itself)


def is_named(node: ast.expr, name: str) -> bool:
    """Return whether an expression is this name."""
    return isinstance(node, ast.Name) and node.id == name


def _first(function: Function) -> str:
    return function.node.args.args[0].arg if function.node.args.args else ""


def _place(call: ast.Call, itself: str) -> int | str | None:
    """Return the position or the keyword of ``itself`` among a call's arguments."""
    for place, arg in enumerate(call.args):
        if is_named(arg, itself):
            return place
    return next((word.arg for word in call.keywords if word.arg and is_named(word.value, itself)), None)


def _parameter(function: Function, handed: int | str, skip: int = 0) -> str:
    """Return the parameter that receives an argument, an empty name if none does."""
    if isinstance(handed, str):
        return handed
    positional = [*function.node.args.posonlyargs, *function.node.args.args]
    skip *= "staticmethod" not in function.decorators
    return positional[handed + skip].arg if handed + skip < len(positional) else ""


def is_plain(value: Any) -> bool:
    """Return whether a value is a text, a number, None, or a collection of these."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_plain, value))
    return isinstance(value, (str, int, float, type(None)))


def _loaded(target: ast.expr) -> ast.expr:
    loaded = ast.parse(ast.unparse(target), mode="eval").body
    assert isinstance(loaded, ast.expr)
    return loaded


def said(value: Any) -> str:
    """Return the name of a value in a question."""
    if isinstance(value, Unknown):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(said, value))}]"
    plain = isinstance(value, (str, int, float, type(None)))
    return getattr(value, "name", "") or (repr(value) if plain else type(value).__name__)

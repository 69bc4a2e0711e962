"""Evaluate functions of a tree from their sources, with the values that are known of a server.

A value that no option determines is ``Unknown``; a condition on one is a question.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from typing import TYPE_CHECKING, Any

from patchkit import memory
from patchkit.doctor.evaluation.expressions import ExpressionEvaluator, is_wide
from patchkit.doctor.evaluation.values import (
    Bound,
    CallFrame,
    Instance,
    Lambda,
    Member,
    NestedFunction,
    RaisedError,
    ReturnedValue,
    UndecidedError,
    Unknown,
    is_plain,
    label,
    message,
    native,
)
from patchkit.tree.index import Class, Function, Module
from patchkit.tree.nodes import walk
from patchkit.verify.attributes import setters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from patchkit.audit.runners import AuditedProgram

_DEPTH = 40
# How often a function may be in evaluation at once: with values that are not known it may never end to call itself.
_NESTED = 2
_SET_ON_ANOTHER = re.compile(rb"(?<!\bself)\.([\w\x80-\xff]+)(?=\s*(?::[^=\n]+)?[|&+]?=(?!=))")


class FunctionEvaluator(ExpressionEvaluator):
    """Evaluates functions of one tree; ``functions`` replaces names that are not evaluated from the tree's sources."""

    def __init__(
        self,
        program: AuditedProgram,
        functions: Mapping[str, Callable[..., Any]],
        ask: Callable[[str], bool],
    ) -> None:
        self.program = program
        self._known = functions
        self._ask = ask
        self._running: list[Function] = []

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
        if isinstance(called, Lambda):
            return self._eval(called.node.body, called.frame)
        if isinstance(called, NestedFunction):
            return self._run(called, args, named)
        if isinstance(called, Bound):
            substitute = self._known.get(called.function.name)
            if substitute is not None and called.receiver is None:
                answer = self._known_answer(substitute, args, named)
                if answer is not NotImplemented:
                    return answer
            received = args if called.receiver is None else (called.receiver, *args)
            return self._run(called.function, received, named)
        answer = self._known_answer(called, args, named) if callable(called) else NotImplemented
        return Unknown(f"{label(called)}()") if answer is NotImplemented else answer

    def _known_answer(self, called: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        native(
            inspect.signature(called).bind, self, *args, **named
        )  # Evaluated code may call another function.
        return called(self, *args, **named)

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute. Raise UndecidedError if none is known."""
        if isinstance(owner, Unknown):
            return Unknown(f"{owner.name}.{name}")
        if isinstance(owner, Module):
            return self._global(owner, name)
        if isinstance(owner, Class):
            return self._class_attribute(owner, name)
        if isinstance(owner, Instance):
            return self._instance_attribute(owner, name)
        if isinstance(owner, Member):
            return owner.name if name == "name" else self._method(owner.cls, name, owner)
        if hasattr(owner, "attribute_of"):
            return owner.attribute_of(self, name)
        if isinstance(owner, (str, dict, list, set)) and name in _OF_PLAIN:
            method = getattr(owner, name)
            return lambda _, *args, **named: native(method, *args, **named)
        if isinstance(owner, str) and name in ("format", "join"):
            wide = name == "format" and any(map(is_wide, re.findall(r"{[^{}]*:([^{}]*)", owner)))
            return Unknown("format") if wide else functools.partial(_formatted, getattr(owner, name))
        raise UndecidedError(f"{label(owner)} has no {name}")

    def method_of(self, cls: Class | None, name: str, receiver: Any) -> Bound | None:
        """Return a class's method for an object, or None."""
        function = self.program.method(cls, name)
        return Bound(function, receiver) if function is not None else None

    # Names and attributes.

    def _class_attribute(self, cls: Class, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return cls.name
        if name == "__mro__":
            return tuple(self.program.mro(cls))
        for ancestor in self.program.mro(cls):
            if name in ancestor.fields:
                value = ancestor.fields[name]
                if self.program.is_enum(cls):
                    return Member(cls, name)
                if value is not None:
                    return self._eval(value, CallFrame(ancestor.module, ancestor, {}, []))
            if name in ancestor.methods:
                method = ancestor.methods[name]
                return Bound(method, cls if "classmethod" in method.decorators else None)
        raise UndecidedError(f"{cls.name} has no {name}")

    def _instance_attribute(self, owner: Instance, name: str) -> Any:
        if name == "__class__":
            return owner.cls
        if name in owner.attributes:
            return owner.attributes[name]
        if owner.cls is None:
            return Unknown(f"{owner.name}.{name}")
        method = self.program.method(owner.cls, name)
        if method is not None and method.decorators & {"property", "cached_property"}:
            return self._run(method, (owner,), {})
        if self.program.value(("may set", owner.cls, name), lambda: self._may_set(owner.cls, name)):
            self._make(owner)
        if name in owner.attributes:
            return owner.attributes[name]
        if method is not None:
            return Bound(method, None if "staticmethod" in method.decorators else owner)
        return self._class_attribute(owner.cls, name)

    def _may_set(self, cls: Class | None, name: str) -> bool:
        """Return whether a method of a class sets an attribute, or any code sets it on another object."""
        if any(any(setters(ancestor, name)) for ancestor in self.program.mro(cls)):
            return True
        texts = self.program.sources.values()
        of_others = self.program.value(
            "set on others", lambda: frozenset[bytes]().union(*map(_set_on_others, texts))
        )
        return name.encode() in of_others

    def _make(self, owner: Instance) -> None:
        """Run an object's constructor, unless it has run."""
        init = self.program.method(owner.cls, "__init__")
        if owner.is_new and init is not None:
            args, named = owner.made_with
            owner.is_new, owner.known_before = False, frozenset(owner.attributes)
            self._run(init, (owner, *args), named)
            owner.known_before = None

    def _method(self, cls: Class, name: str, receiver: Any) -> Any:
        method = self.program.method(cls, name)
        if method is None:
            return self._class_attribute(cls, name)
        if "property" in method.decorators:
            return self._run(method, (receiver,), {})
        return Bound(method, cls if "classmethod" in method.decorators else receiver)

    def _name(self, name: str, frame: CallFrame) -> Any:
        return frame.names[name] if name in frame.names else self._global(frame.module, name)

    def _global(self, module: Module, name: str, depth: int = 5) -> Any:
        if name in self._known:
            return self._known[name]
        if name in module.classes:
            return module.classes[name]
        if name in module.functions:
            return Bound(module.functions[name])
        value = self.program.value(("constants", module), lambda: _constants(module)).get(name)
        if value is not None:
            return self._eval(value, CallFrame(module, None, {}, []))
        definition = self.program.resolve(module, name)
        if isinstance(definition, Function):
            return Bound(definition)
        if definition is not None:
            return definition
        dotted, member = module.imports.get(name, ("", None))
        file = self.program.file_of(dotted) if dotted and member else None
        source = self.program.module(file) if file is not None else None
        if source is not None and member is not None and depth:
            return self._global(source, member, depth - 1)
        return Unknown(name)

    # Functions.

    def _run(
        self,
        run: Function | NestedFunction,
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        function, within = (run.function, run.frame.names) if isinstance(run, NestedFunction) else (run, {})
        if len(self._running) > _DEPTH or self._running.count(function) >= _NESTED:
            return Unknown(f"{function.qualname}()")
        names = {**within, **self._bound(function, args, named)}
        frame = CallFrame(function.module, function.owner, names, [], function)
        self._running.append(function)
        try:
            returned = self._block(function.node.body, frame)
        finally:
            self._running.pop()
        if self.program.value(("yields", function), lambda: _yields(function)):
            return frame.yielded
        return returned.value if returned is not None else None

    def _bound(self, function: Function, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        parameters = function.node.args
        positional = [arg.arg for arg in (*parameters.posonlyargs, *parameters.args)]
        module = CallFrame(function.module, function.owner, {}, [])
        names: dict[str, Any] = {}
        for name, default in zip(reversed(positional), reversed(parameters.defaults), strict=False):
            names[name] = self._eval(default, module)
        for arg, value in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            if value is not None:
                names[arg.arg] = self._eval(value, module)
        names |= dict(zip(positional, args, strict=False))
        names |= named
        for name in (*positional, *(only.arg for only in parameters.kwonlyargs)):
            names.setdefault(name, Unknown(name))
        if parameters.vararg is not None:
            names[parameters.vararg.arg] = tuple(args[len(positional) :])
        if parameters.kwarg is not None:
            taken = {*positional, *(only.arg for only in parameters.kwonlyargs)}
            names[parameters.kwarg.arg] = {name: value for name, value in named.items() if name not in taken}
        return names

    # Statements.

    def _block(self, body: Sequence[ast.stmt], frame: CallFrame) -> ReturnedValue | None:
        for statement in body:
            try:
                returned = self._statement(statement, frame)
            except (UndecidedError, RaisedError) as error:
                if not frame.is_constructing:
                    error.where = error.where or f"{frame.module.file}:{statement.lineno}"
                    raise
                self._leave_open(statement, frame)
                continue
            if returned is not None:
                return returned
        return None

    def _leave_open(self, statement: ast.stmt, frame: CallFrame) -> None:
        """Set what a statement assigns or appends to attributes of objects in construction to an unknown value."""
        for node in walk(statement):
            appends = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append"
            target = node.func.value if appends else node  # type: ignore[attr-defined]
            if isinstance(target, ast.Attribute) and (appends or isinstance(target.ctx, ast.Store)):
                owner = frame.names.get(getattr(target.value, "id", ""))
                if isinstance(owner, Instance) and owner.known_before is not None:
                    self._assign(target, Unknown(target.attr), frame)

    def _statement(self, statement: ast.stmt, frame: CallFrame) -> ReturnedValue | None:
        if isinstance(statement, ast.Return):
            return ReturnedValue(self._eval(statement.value, frame) if statement.value is not None else None)
        if isinstance(statement, ast.If):
            return self._block(
                statement.body if self.truth(self._eval(statement.test, frame)) else statement.orelse, frame
            )
        if isinstance(statement, ast.Raise):
            if not frame.is_constructing:
                raise self._raised(statement, frame)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            if statement.value is not None:
                value = self._eval(statement.value, frame)
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    self._assign(target, value, frame)
        elif isinstance(statement, ast.AugAssign):
            self._assign(statement.target, self._eval(_operation(statement), frame), frame)
        elif isinstance(statement, ast.Expr):
            self._eval(statement.value, frame)
        elif isinstance(statement, ast.For):
            for value in self.listed(self._eval(statement.iter, frame)):
                self._assign(statement.target, value, frame)
                returned = self._block(statement.body, frame)
                if returned is not None:
                    return returned
        elif isinstance(statement, ast.With):
            return self._block(statement.body, frame)
        elif isinstance(statement, ast.Try):
            return self._try(statement, frame)
        elif isinstance(statement, ast.FunctionDef):
            frame.names[statement.name] = NestedFunction(
                Function(frame.module, statement, frame.owner), frame
            )
        return None

    def _raised(self, statement: ast.Raise, frame: CallFrame) -> RaisedError:
        raised = statement.exc
        kind, texts = raised, []
        if isinstance(raised, ast.Call):
            kind, texts = raised.func, [self._text(arg, frame) for arg in raised.args]
        name = ast.unparse(kind) if kind is not None else ""
        name = name if name.rpartition(".")[2][:1].isupper() else "an exception"  # Otherwise a variable.
        return RaisedError(message(name, texts), f"{frame.module.file}:{statement.lineno}")

    def _try(self, statement: ast.Try, frame: CallFrame) -> ReturnedValue | None:
        try:
            return self._block(statement.body, frame)
        except (RaisedError, UndecidedError):
            for handler in statement.handlers:
                return self._block(handler.body, frame)
            raise

    def _assign(self, target: ast.expr, value: Any, frame: CallFrame) -> None:
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            plain = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for place, one in enumerate(target.elts):
                name = f"{label(value)}[{place}]"
                self._assign(one, value[place] if plain else Unknown(name), frame)
        elif isinstance(target, ast.Attribute):
            owner = self._eval(target.value, frame)
            if isinstance(owner, Instance) and target.attr not in (owner.known_before or ()):
                owner.attributes[target.attr] = value
            elif hasattr(owner, "assign"):
                owner.assign(target.attr, value)

    # Calls.

    def _eval_call(self, node: ast.Call, frame: CallFrame) -> Any:
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            inner = node.func.value.func
            if isinstance(inner, ast.Name) and inner.id == "super":
                return self._super(node, node.func.attr, frame)
        called = self._eval(node.func, frame)
        args, named = self._given(node, frame)
        return self.call(called, args, named)

    def _super(self, node: ast.Call, name: str, frame: CallFrame) -> Any:
        receiver = frame.names.get(frame.itself)
        cls = getattr(receiver, "cls", None)
        function = self.program.method(cls, name, frame.owner)
        if function is None:
            return None
        args, named = self._given(node, frame)
        return self._run(function, (receiver, *args), named)


_OF_PLAIN = frozenset(
    {
        *("append", "endswith", "get", "items", "keys", "lower", "removeprefix", "split", "startswith"),
        *("strip", "upper", "values"),
    }
)


def _formatted(method: Callable[..., str], _: FunctionEvaluator, *args: Any, **named: Any) -> Any:
    is_known = all(map(is_plain, (*args, *named.values())))
    return native(method, *args, **named) if is_known else Unknown(f"{method.__name__}()")


def _constants(module: Module) -> dict[str, ast.expr]:
    constants: dict[str, ast.expr] = {}
    for statement in module.tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name):
                constants.setdefault(target.id, statement.value)
    return constants


@memory.cached(4096)
def _set_on_others(text: bytes) -> frozenset[bytes]:
    """Return the attributes that a file may set on something other than ``self``."""
    return frozenset(_SET_ON_ANOTHER.findall(text))


def _yields(function: Function) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(function.node))


@memory.cached(1024)
def _operation(statement: ast.AugAssign) -> ast.BinOp:
    """Return the operation of an augmented assignment, the same node each time."""
    loaded = ast.parse(ast.unparse(statement.target), mode="eval").body
    return ast.BinOp(loaded, statement.op, statement.value)

"""Find attributes that a port sets below a call of this tree's own that reads them: unset there, or out of date.

In the change's own tree the call is not there, or stands below. Calls of methods of ``self``, and calls that pass it,
are followed as far as the source shows what they call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from patchkit.tree.index import Class, Function, index_module
from patchkit.tree.nodes import BLOCKS, DEFINITIONS, is_named, unparsed, walk
from patchkit.tree.source import INVALID
from patchkit.tree.text import new_lines
from patchkit.verify.attributes import any_file_sets, sets, setters
from patchkit.verify.check import violation
from patchkit.verify.checks import reads

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import Module, Program

_DEPTH = 4
"""How many calls are followed, one inside the other."""


class _LatePair(NamedTuple):
    """A call above an assignment to an attribute of ``self`` in a method."""

    function: Function
    call: ast.Call
    assignment: ast.Attribute

    @property
    def names(self) -> tuple[str, str, str]:
        """The method, the code of the call, and the attribute."""
        return self.function.qualname, unparsed(self.call), self.assignment.attr


def late_assignments(
    program: Program, originals: Mapping[str, bytes | None], theirs: Sequence[bytes]
) -> Iterator[Finding]:
    """Yield a finding for each attribute; ``originals`` are files before the port, ``theirs`` those of the change."""
    for file, before in originals.items():
        module = program.module(file) if before is not None and file in program.sources else None
        if module is None or before is None:
            continue
        added = frozenset(new_lines(before, module.text))
        pairs = [
            pair
            for pair in _pairs(module)
            if pair.assignment.lineno in added and pair.call.lineno not in added
        ]
        old = _module(file, before) if pairs else None
        others = (old, *(_module(f"theirs/{file}", text) for text in theirs)) if pairs else ()
        late = {pair.names for other in others if other is not None for pair in _pairs(other)}
        for pair in pairs:
            if pair.names not in late:
                yield from _finding(program, old, pair, added)


def _finding(
    program: Program, old: Module | None, pair: _LatePair, added: Container[int]
) -> Iterator[Finding]:
    function, call, assignment = pair
    reader = _reader(program, function, call, assignment.attr, _DEPTH, seen=set())
    if not reader or not (
        function.name in reads.CONSTRUCTORS or _is_only(program, pair, added) or _is_moved(old, pair)
    ):
        return
    name = f"self.{assignment.attr}"
    message = f"{function.qualname} sets `{name}` below `{unparsed(call)}`, where {reader} reads it"
    remedy = f"move the assignment above line {call.lineno}"
    where = {"function": function.qualname, "expression": name}
    yield violation(reads.ATTRIBUTE, function.module.file, assignment.lineno, message, remedy, **where)


def _module(file: str, text: bytes) -> Module | None:
    try:
        return index_module(file, text)
    except INVALID:
        return None


def _pairs(module: Module) -> Iterator[_LatePair]:
    """Yield each assignment to an attribute of ``self`` with each call above it in its method that has ``self``."""
    for function in module.all_functions():
        for statement, above in _statements(function.node, ()) if function.owner is not None else ():
            for node in _now(statement):
                if isinstance(node, ast.Attribute) and sets(node, node.attr):
                    yield from (_LatePair(function, call, node) for call in above)


def _statements(
    node: ast.AST, above: tuple[ast.Call, ...]
) -> Iterator[tuple[ast.stmt, tuple[ast.Call, ...]]]:
    """Yield each statement without blocks, and the calls that have ``self`` in those that run before it."""
    for name in BLOCKS:
        before = above
        for block in getattr(node, name, ()):
            if any(getattr(block, inner, ()) for inner in BLOCKS) and not isinstance(block, DEFINITIONS):
                yield from _statements(block, before)
            elif isinstance(block, ast.stmt):
                yield block, before
            before += tuple(_passed(block))


def _passed(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that have ``self`` in a statement and can have run when what is below it does."""
    blocks = (getattr(node, name, ()) for node in ast.walk(node) for name in BLOCKS)
    leaving = (
        block
        for block in blocks
        if isinstance(block, list) and block and isinstance(block[-1], (ast.Return, ast.Raise))
    )
    left = {id(inner) for block in leaving for statement in block for inner in ast.walk(statement)}
    return (call for call in _calls(node) if id(call) not in left)


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (node for node in _now(node) if isinstance(node, ast.Call) and reads.reaches_self(node))


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when a node does, not when something in it is called."""
    remaining = [node]
    while remaining:
        current = remaining.pop()
        if not isinstance(current, (*DEFINITIONS, ast.Lambda)):
            yield current
            remaining += ast.iter_child_nodes(current)


def _reader(
    program: Program,
    function: Function,
    call: ast.Call,
    name: str,
    depth: int,
    *,
    seen: set[tuple[str, str, str]],
) -> str:
    """Return the function that reads an attribute of ``self`` if that is called; empty if none does.

    ``seen`` are the functions that were looked at, each with its file and its name for ``self``.
    """
    for callee, receiver in _callees(program, function, call) if depth else ():
        node, key = callee.node, (callee.module.file, callee.qualname, receiver)
        if key in seen:
            continue
        seen.add(key)
        attributes = [
            node
            for statement in node.body
            for node in _now(statement)
            if isinstance(node, ast.Attribute) and node.attr == name and is_named(node.value, receiver)
        ]
        if any(isinstance(attribute.ctx, ast.Store) for attribute in attributes) or reads.is_guarded(
            callee, name
        ):
            continue
        if attributes:
            return callee.qualname
        if receiver == "self":
            calls = (call for statement in node.body for call in _calls(statement))
            inner = (_reader(program, callee, call, name, depth - 1, seen=seen) for call in calls)
            reader = next(filter(None, inner), "")
            if reader:
                return reader
    return next(
        filter(None, (_caller(program, function, cls, name) for cls in _made(program, function, call))), ""
    )


def _made(program: Program, function: Function, call: ast.Call) -> Iterator[Class]:
    """Yield the classes of which a call with ``self`` makes an object, also one chosen from a table."""
    if any(is_named(argument, "self") for argument in (*call.args, *(word.value for word in call.keywords))):
        nodes = walk(function.node) if isinstance(call.func, ast.Subscript) else [call.func]
        names = {node.id for node in nodes if isinstance(node, ast.Name) and node.id[:1].isupper()}
        definitions = (program.resolve(function.module, name) for name in sorted(names))
        yield from (definition for definition in definitions if isinstance(definition, Class))


def _caller(program: Program, function: Function, cls: Class, name: str) -> str:
    """Return the method of ``self`` that a class calls on it and that reads an attribute; empty if there is none."""
    order = program.mro(function.owner) if function.owner is not None else []
    methods = [method for ancestor in order for method in ancestor.methods.values()]
    called = {
        word
        for ancestor in program.mro(cls)
        for method in ancestor.methods.values()
        for of, word in method.received_names
        if of != "self"
    }
    return next(
        (
            method.qualname
            for method in methods
            if method.name in called
            and f"self.{name}" in method.source
            and not (any(sets(node, name) for node in walk(method.node)) or reads.is_guarded(method, name))
        ),
        "",
    )


def _callees(program: Program, function: Function, call: ast.Call) -> Iterator[tuple[Function, str]]:
    """Yield the function that a call runs, and the name that it has for ``self``."""
    func, owner = call.func, function.owner
    if isinstance(func, ast.Attribute) and owner is not None:
        is_own = is_named(func.value, "self")
        above = owner if isinstance(func.value, ast.Call) and is_named(func.value.func, "super") else None
        method = program.method(owner, func.attr, above) if is_own or above is not None else None
        if method is not None:
            yield method, "self"
    elif isinstance(func, ast.Name):
        target = program.resolve(function.module, func.id)
        made = target.methods.get("__init__") if isinstance(target, Class) else target
        if isinstance(made, Function):
            names = [argument.arg for argument in made.parameters][made.owner is not None :]
            given = (
                *zip(names, call.args, strict=False),
                *((keyword.arg, keyword.value) for keyword in call.keywords),
            )
            yield from ((made, name) for name, value in given if name and is_named(value, "self"))


def _is_only(program: Program, pair: _LatePair, added: Container[int]) -> bool:
    """Return whether nothing else than the lines ``added`` to its method sets an attribute."""
    function, name = pair.function, pair.assignment.attr
    order = program.mro(function.owner) if function.owner is not None else []
    others = [
        node
        for ancestor in order
        for method, node in setters(ancestor, name)
        if method is not function or node.lineno not in added
    ]
    is_of_class = any(name in ancestor.methods or name in ancestor.fields for ancestor in order)
    return not (others or is_of_class or any_file_sets(program.sources, name, of_others=True))


def _is_moved(old: Module | None, pair: _LatePair) -> bool:
    """Return whether an attribute was set above the call before the port, and is not now."""
    method, call, attribute = pair.names
    functions = old.all_functions() if old else ()
    before = next((candidate for candidate in functions if candidate.qualname == method), None)
    if before is None:
        return False
    calls = [
        node.lineno for node in walk(before.node) if isinstance(node, ast.Call) and unparsed(node) == call
    ]
    old_lines, lines = (
        [node.lineno for node in walk(node) if sets(node, attribute)]
        for node in (before.node, pair.function.node)
    )
    return bool(calls and old_lines) and min(old_lines) < min(calls) and pair.call.lineno < min(lines)

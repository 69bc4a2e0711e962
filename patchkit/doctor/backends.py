"""Which backend classes a tree makes for the name of an attention backend, read from its registry."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.index import Program

_REGISTER = "register_attention_backend"
_STEPS = "create_decode_backend"
_EXTEND = "create_draft_extend_backend"


def registered(program: Program) -> dict[str, tuple[str, ...]]:
    """Return the classes that the registry can return for each name."""
    found: dict[str, tuple[str, ...]] = {}
    for function in _functions(program, _REGISTER):
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == _REGISTER:
                names = [arg.value for arg in decorator.args if isinstance(arg, ast.Constant)]
                found |= {str(name): tuple(_returned(function)) for name in names}
    return found


def drafting(program: Program) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return what a draft worker makes for each name: its ``steps`` backend and its ``extend`` backend."""
    found: dict[str, dict[str, tuple[str, ...]]] = {"steps": {}, "extend": {}}
    functions = {function.name: function for function in _functions(program, _STEPS)}
    for kind, maker in (("steps", _STEPS), ("extend", _EXTEND)):
        body = functions.get(maker)
        for table in (node for node in walk(body) if isinstance(node, ast.Dict)) if body else ():
            for key, value in zip(table.keys, table.values, strict=True):
                makes = functions.get(getattr(value, "attr", ""))
                if isinstance(key, ast.Constant) and makes is not None:
                    found[kind][str(key.value)] = tuple(_followed(makes, functions))
    return found


def _followed(function: ast.FunctionDef, functions: dict[str, ast.FunctionDef]) -> Iterator[str]:
    """Yield what a function returns, or what the methods return whose results it hands on."""
    yield from _returned(function)
    for node in walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            handed = functions.get(getattr(node.value.func, "attr", ""))
            if handed is not None and handed is not function:
                yield from _returned(handed)


def _functions(program: Program, word: str) -> Iterator[ast.FunctionDef]:
    for file, text in program.sources.items():
        module = program.module(file) if word.encode() in text else None
        if module is not None:
            yield from (node for node in walk(module.tree) if isinstance(node, ast.FunctionDef))


def _returned(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of the classes that a function makes and returns, each once."""
    made = {
        target.id: name
        for node in walk(function)
        if isinstance(node, ast.Assign) and (name := _made(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    seen = set()
    for node in walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            named = node.value.id if isinstance(node.value, ast.Name) else ""
            name = _made(node.value) or made.get(named, "")
            if name and name not in seen:
                seen.add(name)
                yield name


def _made(node: ast.expr) -> str:
    name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
    return name if name[:1].isupper() else ""

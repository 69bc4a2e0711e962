"""What the sources of a tree register by name: attention backends, speculative algorithms, environment variables."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from patchkit.tree.nodes import is_named, walk

if TYPE_CHECKING:
    from patchkit.tree.index import Class, Function, Program

# The backends by name; a name that is not among them is an error.
BACKENDS = "ATTENTION_BACKENDS"


def makers(program: Program) -> dict[str, Function]:
    """Return the function that makes each attention backend, by the backend's name."""
    functions: dict[str, Function] = {}
    for module in program.modules_naming(b"@register_attention_backend("):
        for function in module.functions.values():
            for decorator in function.node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == (
                    "register_attention_backend"
                ):
                    functions |= {
                        str(a.value): function for a in decorator.args if isinstance(a, ast.Constant)
                    }
    return functions


def classes_named(program: Program, name: str) -> list[Class]:
    """Return the classes of a name, also those outside the code that is indexed."""
    elsewhere = (module.classes.get(name) for module in program.modules_naming(f"class {name}".encode()))
    return program.classes_named(name) or [cls for cls in elsewhere if cls is not None]


def guard(program: Program) -> tuple[Function, str] | None:
    """Return the function that makes a registered backend, and its parameter for the backend's name."""
    modules = program.modules_naming(f"not in {BACKENDS}".encode())
    for function in (function for module in modules for function in module.all_functions()):
        parameters = {arg.arg for arg in function.parameters}
        for node in walk(function.node):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
                name = getattr(node.left, "id", "")
                if name in parameters and is_named(node.comparators[0], BACKENDS):
                    return function, name
    return None


def contexts(program: Program) -> list[str]:
    """Return the functions that yield the settings of the running server."""
    context = program.module("srt/runtime_context.py")
    return [name for name in (context.functions if context is not None else ()) if name.startswith("get_")]


def environment_defaults(program: Program) -> dict[str, Any]:
    """Return the default of each environment variable."""
    module = program.module("srt/environ.py")
    defaults: dict[str, Any] = {}
    for cls in module.classes.values() if module is not None else ():
        for name, value in cls.fields.items():
            if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Constant):
                defaults[name] = value.args[0].value
    return defaults

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
    for file, text in program.sources.items():
        module = program.module(file) if b"@register_attention_backend(" in text else None
        for function in module.functions.values() if module is not None else ():
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
    classes = program.classes_named(name)
    if not classes:
        for file, text in program.sources.items():
            if f"class {name}".encode() in text:
                module = program.module(file)
                classes = [*classes, *([module.classes[name]] if module and name in module.classes else [])]
    return list(classes)


def guard(program: Program) -> tuple[Function, str] | None:
    """Return the function that makes a registered backend, and its parameter for the backend's name."""
    files = [file for file, text in program.sources.items() if f"not in {BACKENDS}".encode() in text]
    modules = [module for file in files if (module := program.module(file)) is not None]
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

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import patchkit

TOOL = Path(patchkit.__file__).parent
SERVING = {TOOL / "runtime", TOOL / "backends"}
BENCH = TOOL / "bench"
SAYS_NOTHING = {
    "at",
    "each",
    "found",
    "known",
}


def _modules() -> dict[Path, ast.Module]:
    files = (file for file in TOOL.rglob("*.py") if SERVING.isdisjoint(file.parents))
    return {file: ast.parse(file.read_bytes()) for file in files}


def _locals(function: ast.AST) -> set[str]:
    nodes = list(ast.walk(function))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bound.union(node.arg for node in nodes if isinstance(node, ast.arg))


def test_no_class_name_says_two_things() -> None:
    nodes = (node for module in _modules().values() for node in module.body)
    counted = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, number in counted.items() if number > 1] == []


def test_a_local_name_says_what_it_holds() -> None:
    functions = [
        (file.relative_to(TOOL).as_posix(), function)
        for file, module in _modules().items()
        if BENCH not in file.parents
        for function in ast.walk(module)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert {
        (file, name) for file, function in functions for name in _locals(function) & SAYS_NOTHING
    } == set()

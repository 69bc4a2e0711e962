"""The functions of a tree that patches touch: those whose own code is not what it was."""

from __future__ import annotations

import ast
import copy
import filecmp
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Touched:
    """``functions``: by file below the package, first line and name, as frames tell them; ``new`` had no former."""

    functions: dict[tuple[str, int, str], str]
    new: frozenset[str]


def touched(before: Path, after: Path) -> Touched:
    """Return the functions of the package ``after`` that are not in ``before`` or have other code there.

    They are named ``file::Class.function``. A function inside another is one of its own, and the other's is what
    is around it.
    """
    found: dict[tuple[str, int, str], str] = {}
    new = set()
    for path in sorted((after / "srt").rglob("*.py")):
        file = path.relative_to(after)
        former = before / file
        if former.exists() and filecmp.cmp(former, path, shallow=False):
            continue
        known = _functions(former.read_text(encoding="utf-8")) if former.exists() else {}
        for name, function in _functions(path.read_text(encoding="utf-8")).items():
            if name not in known:
                new.add(f"{file}::{name}")
            elif _own(known[name]) == _own(function):
                continue
            line = min([function.lineno, *(node.lineno for node in function.decorator_list)])
            found[str(file), line, function.name] = f"{file}::{name}"
    return Touched(found, frozenset(new))


def _functions(text: str) -> dict[str, _Function]:
    functions: dict[str, _Function] = {}

    def walk(node: ast.AST, *outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                if isinstance(child, _FUNCTIONS):
                    functions[".".join((*outer, child.name))] = child
                walk(child, *outer, child.name)
            else:
                walk(child, *outer)

    walk(ast.parse(text))
    return functions


class _WithoutInner(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return ast.Pass()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.Pass()


def _own(function: _Function) -> str:
    """Return what a function's code is, without that of functions inside it."""
    outer = copy.deepcopy(function)
    outer.body = [_WithoutInner().visit(node) for node in outer.body]
    return ast.dump(outer)

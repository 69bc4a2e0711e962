"""Every Python process of a clean run writes down which functions of the files that mutants can be in it calls.

Python imports this module by its name in each process. A fork starts anew, so that what answers one probe is told
from what was called before, when the process imported its tree. Tracing would make everything several times slower.
"""

import ast
import builtins
import os
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType

FOLDER = "MUTATION_CALLS"
FILES = "MUTATION_FILES"
_NOTE = "_mutation_note_call"
_GetCode = Callable[[SourceFileLoader, str], CodeType | None]


class _Noting(ast.NodeTransformer):
    def __init__(self, file: str) -> None:
        self.file = file

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        told: list[ast.expr] = [ast.Constant(f"{self.file}\t{node.name}\n".encode())]
        call = ast.Expr(ast.Call(ast.Name(_NOTE, ast.Load()), told, []))
        node.body.insert(1 if ast.get_docstring(node) is not None else 0, call)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815


def _note_calls(folder: str, file: str) -> None:
    sink = os.open(os.path.join(folder, file), os.O_WRONLY | os.O_CREAT)
    seen: set[bytes] = set()

    def note(call: bytes) -> None:
        if call not in seen:
            seen.add(call)
            os.write(sink, call)

    setattr(builtins, _NOTE, note)


def _noting(get_code: _GetCode, files: frozenset[str]) -> _GetCode:
    def get_noting_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path not in files:
            return get_code(loader, name)
        module = _Noting(loader.path).visit(ast.parse(loader.get_data(loader.path)))
        code: CodeType = compile(ast.fix_missing_locations(module), loader.path, "exec", dont_inherit=True)
        return code

    return get_noting_code


if folder := os.environ.get(FOLDER):
    _note_calls(folder, str(os.getpid()))
    os.register_at_fork(after_in_child=lambda home=folder: _note_calls(home, f"{os.getppid()}-{os.getpid()}"))
    files = frozenset(os.environ[FILES].split(os.pathsep))
    setattr(SourceFileLoader, "get_code", _noting(SourceFileLoader.get_code, files))  # noqa: B010

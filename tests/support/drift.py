"""Changes that forks make without changing a file's meaning, for any Python file, and their removal for comparison."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
PROBE = "_drift_probe"
EXTRA = "drift_extra"
BETWEEN = "DriftBetween"
MEMBER = "DriftBackend"


def formatted(code: bytes, width: int, quotes: str) -> bytes:
    """Return the code formatted with other settings."""
    options = ("--isolated", "--line-length", str(width), "--config", f"format.quote-style = '{quotes}'")
    command = (
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--quiet",
        *options,
        "--stdin-filename",
        "fork.py",
        "-",
    )
    return subprocess.run(command, input=code, capture_output=True, check=True).stdout


def rewritten(*changes: Callable[[ast.Module], object]) -> Callable[[bytes], bytes]:
    """Return a function of source code that makes ``changes`` to its syntax tree, in order."""

    def apply(code: bytes) -> bytes:
        module = ast.parse(code)
        for change in changes:
            change(module)
        return ast.unparse(ast.fix_missing_locations(module)).encode() + b"\n"

    return apply


def functions(module: ast.AST) -> Iterator[Function]:
    """Yield every function, including nested ones."""
    return (node for node in ast.walk(module) if isinstance(node, Function))


def outermost(node: ast.AST) -> Iterator[Function]:
    """Yield the functions that are not nested in another."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from outermost(child)


# ---- parameters and arguments --------------------------------------------------------------------------------


def add_parameter(module: ast.Module) -> None:
    """Give each function one more positional parameter, with a default."""
    for function in functions(module):
        arguments = function.args
        arguments.args.append(ast.arg(EXTRA))
        arguments.defaults.append(ast.Constant(None))


def add_keyword_parameter(module: ast.Module) -> None:
    """Give each function one more keyword-only parameter."""
    for function in functions(module):
        function.args.kwonlyargs.append(ast.arg(EXTRA))
        function.args.kw_defaults.append(ast.Constant(None))


def drop_parameters(module: ast.Module) -> None:
    """Remove what the two functions above added."""
    for function in functions(module):
        arguments = function.args
        names = [argument.arg for argument in arguments.args]
        if EXTRA in names:
            last = len(names) - names.index(EXTRA)
            del arguments.args[-last], arguments.defaults[-last]
        names = [argument.arg for argument in arguments.kwonlyargs]
        if EXTRA in names:
            index = names.index(EXTRA)
            del arguments.kwonlyargs[index], arguments.kw_defaults[index]


def flatten_parameters(module: ast.Module) -> None:
    """Make keyword-only parameters ordinary ones; a new one is added among existing ones."""
    for function in functions(module):
        arguments = function.args
        if arguments.vararg is None:
            arguments.args += arguments.kwonlyargs
            arguments.defaults += [default for default in arguments.kw_defaults if default is not None]
            arguments.kwonlyargs, arguments.kw_defaults = [], []


def called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def add_argument(names: frozenset[str]) -> Callable[[ast.Module], None]:
    """Pass one more keyword argument to every call of a function with one of ``names``."""

    def change(module: ast.Module) -> None:
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and called(node) in names:
                node.keywords.append(ast.keyword(EXTRA, ast.Constant(None)))

    return change


def drop_arguments(module: ast.Module) -> None:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != EXTRA]


# ---- statements ----------------------------------------------------------------------------------------------


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_probe(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and called(statement.value) == PROBE
    )


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every block of statements inside functions."""
    for function in outermost(node):
        for inner in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(inner, name, None)
                if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                    yield block


def add_statements(module: ast.Module) -> None:
    """Put a harmless call before and after every statement of every function."""
    for block in list(blocks(module)):
        spread: list[ast.stmt] = []
        for statement in block:
            is_elif = len(block) == 1 and isinstance(statement, ast.If) and statement.col_offset > 0
            if not spread and not is_docstring(statement) and not is_elif:
                spread.append(ast.parse(f"{PROBE}()").body[0])
            spread.append(statement)
            if not isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break) and not is_elif:
                spread.append(ast.parse(f"{PROBE}()").body[0])
        block[:] = spread


def drop_statements(module: ast.Module) -> None:
    for block in list(blocks(module)):
        block[:] = [statement for statement in block if not is_probe(statement)]


# ---- names ---------------------------------------------------------------------------------------------------


class _Names(ast.NodeVisitor):
    """The names that a function and those inside it bind, in the order in which they appear."""

    def __init__(self, *, parameters: bool) -> None:
        self.parameters = parameters
        self.bound: dict[str, None] = {}
        self.fixed = {"self", "cls"}

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            self.bound[node.id] = None

    def visit_arg(self, node: ast.arg) -> None:
        if self.parameters:
            self.bound[node.arg] = None
        else:
            self.fixed.add(node.arg)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.fixed.add(node.name)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.fixed |= set(node.names)

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_alias(self, node: ast.alias) -> None:
        self.fixed.add(node.asname or node.name.split(".")[0])

    def renamed(self, function: Function) -> list[str]:
        self.visit(function)
        return [name for name in self.bound if name not in self.fixed]


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        self.generic_visit(node)
        return node


def rename(
    to: Callable[[int, str], str], *, parameters: bool = False, keep: frozenset[str] = frozenset()
) -> Callable[[ast.Module], None]:
    """Rename the locals of each function and, with ``parameters``, its parameters, except the names to ``keep``."""

    def change(module: ast.Module) -> None:
        for function in outermost(module):
            names = _Names(parameters=parameters).renamed(function)
            mapping = {name: to(index, name) for index, name in enumerate(names) if name not in keep}
            for inner in (*function.body, function.args):
                _Rename(mapping).visit(inner)

    return change


anonymous = rename(lambda index, _: f"v{index}", parameters=True)


# ---- classes -------------------------------------------------------------------------------------------------


def reverse_methods(module: ast.Module) -> None:
    """Reverse the order of each class's methods; a property's setter stays after it."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, Function)]
            names = Counter(method.name for method in methods)
            moved = [method for method in methods if names[method.name] == 1]
            rest = [item for item in node.body if item not in moved]
            node.body = [*rest, *reversed(moved)]


def put_class_between(module: ast.Module) -> None:
    """Insert another class between each class and its first base."""
    body: list[ast.stmt] = []
    for statement in module.body:
        if isinstance(statement, ast.ClassDef) and statement.bases:
            name = f"{BETWEEN}{statement.name}"
            body.append(ast.ClassDef(name, [statement.bases[0]], [], [ast.Pass()], []))
            statement.bases[0] = ast.Name(name)
        body.append(statement)
    module.body = body


def drop_class_between(module: ast.Module) -> None:
    bases = {
        statement.name: statement.bases[0]
        for statement in module.body
        if isinstance(statement, ast.ClassDef) and statement.name.startswith(BETWEEN)
    }
    module.body = [item for item in module.body if getattr(item, "name", "") not in bases]
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            statement.bases = [
                bases.get(base.id, base) if isinstance(base, ast.Name) else base for base in statement.bases
            ]


def add_member(module: ast.Module) -> None:
    """Add one more class to each ``isinstance`` test."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and called(node) == "isinstance":
            known = node.args[1]
            members = known.elts if isinstance(known, ast.Tuple) else [known]
            node.args[1] = ast.Tuple([*members, ast.Name(MEMBER)])


def drop_member(module: ast.Module) -> None:
    """Remove that class; a tuple in a tuple is one, a test of one class has none, and no class is listed twice."""
    for node in ast.walk(module):
        if (
            isinstance(node, ast.Call)
            and called(node) == "isinstance"
            and isinstance(node.args[1], ast.Tuple)
        ):
            flat = [
                e
                for element in node.args[1].elts
                for e in (element.elts if isinstance(element, ast.Tuple) else [element])
            ]
            kept = [e for e in flat if not (isinstance(e, ast.Name) and e.id == MEMBER)]
            node.args[1] = kept[0] if len(kept) == 1 else ast.Tuple(kept)


# ---- imports -------------------------------------------------------------------------------------------------


def reorganise_imports(module: ast.Module) -> None:
    """Import one name per statement, in reverse order."""
    indices = [
        index for index, item in enumerate(module.body) if isinstance(item, ast.Import | ast.ImportFrom)
    ]
    singles: list[ast.stmt] = []
    future: list[ast.stmt] = []
    for item in [module.body[index] for index in indices]:
        if isinstance(item, ast.ImportFrom):
            split = [ast.ImportFrom(item.module, [name], item.level) for name in item.names]
            (future if item.module == "__future__" else singles).extend(split)
        elif isinstance(item, ast.Import):
            singles.extend(ast.Import([name]) for name in item.names)
    rest = [item for index, item in enumerate(module.body) if index not in indices]
    opening = 1 if rest and is_docstring(rest[0]) else 0
    module.body = [*rest[:opening], *future, *reversed(singles), *rest[opening:]]


def imports(module: ast.Module) -> Counter[str]:
    """Return the top-level imports of a module, one name each."""
    found: Counter[str] = Counter()
    for item in module.body:
        if isinstance(item, ast.ImportFrom):
            found.update(f"{item.module}:{name.name}:{name.asname}" for name in item.names)
        elif isinstance(item, ast.Import):
            found.update(f"{name.name}:{name.asname}" for name in item.names)
    return found


# ---- files ---------------------------------------------------------------------------------------------------


def move_methods(module: ast.Module, owner: str, methods: frozenset[str], home: str) -> ast.Module:
    """Move methods of a class to a base in the module ``home``, which is returned."""
    (target,) = [item for item in module.body if getattr(item, "name", "") == owner]
    assert isinstance(target, ast.ClassDef)
    moved = [item for item in target.body if getattr(item, "name", "") in methods]
    target.body = [item for item in target.body if item not in moved] or [ast.Pass()]
    name = f"Fork{owner}Methods"
    target.bases.insert(0, ast.Name(name))
    copied = [item for item in module.body if isinstance(item, ast.Import | ast.ImportFrom)]
    at = next(index for index, item in enumerate(module.body) if item is copied[-1])
    module.body.insert(at + 1, ast.ImportFrom(home, [ast.alias(name)], 0))
    return ast.Module([*copied, ast.ClassDef(name, [], [], list(moved), [])], [])

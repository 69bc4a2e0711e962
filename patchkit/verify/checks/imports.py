"""Check that the imports of patched files resolve in the tree and in the runtime; no code is run."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.plan.vendor import PACKAGE, RESTORE, VENDORED, is_inside
from patchkit.tree.index import index_module, last_name
from patchkit.tree.nodes import TRIES, bound_as, statements, walk
from patchkit.tree.sglang import files_of, imported_from, package_of
from patchkit.tree.source import parsed_or_none
from patchkit.verify.check import CheckOutcome, register, violation
from patchkit.verify.runtime import Runtime, is_api, names_in
from patchkit.verify.written import written_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import Module
    from patchkit.verify.subject import Subject

IMPORT = Rule("PV301", "import-unresolved", "an import of a patched file does not resolve in the tree")
RUNTIME = Rule("PV302", "runtime-missing", "the runtime that patched code imports is not installed")
OLDER = Rule("PV303", "runtime-older", "the runtime is older than what patched code imports")
NAME = Rule("PV304", "runtime-name", "the runtime API lacks a name that patched code uses")
_FAILURES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_NAMED = "restore the name, or remove the import and the code that uses it"
_ONE_RUNTIME = "revert, then apply with one --runtime"
_INSTALL = "pip install --upgrade 'sglang-patchkit[runtime]' in the server's environment"


@register("imports", "Imports resolve and the runtime fits", IMPORT, RUNTIME, OLDER, NAME, order=40)
def check(subject: Subject) -> CheckOutcome:
    """Check the imports of every file with an edit, and each name read from the runtime's API."""
    findings: list[Finding] = []
    apis: set[str] = set()
    for file in subject.files:
        indexed = index_module(file, subject.sources[file])
        module = indexed.tree
        findings += _unresolved(subject, file, indexed)
        for package, name, local, line in _apis(module):
            apis.add(name)
            if package != subject.runtime.package:
                message = f"this file imports {package}, but the tree's runtime is {subject.runtime.package}"
                findings.append(violation(RUNTIME, file, line, message, _ONE_RUNTIME))
                continue
            findings += _mismatches(subject.runtime, file, module, name=name, local=local, line=line)
    needs = f", runtime {', '.join(sorted(apis))}" if apis else ""
    return CheckOutcome(f"{len(subject.files)} files{needs}", _without_repeats(findings))


def _apis(module: ast.Module) -> Iterator[tuple[str, str, str, int]]:
    """Yield each API version that a file imports, as package, version, local name and line."""
    for node in statements(module):
        if isinstance(node, ast.ImportFrom) and (node.module == PACKAGE or is_inside(node.module)):
            package = PACKAGE if node.module == PACKAGE else VENDORED
            for alias in node.names:
                yield package, alias.name, bound_as(alias), node.lineno


def _mismatches(
    runtime: Runtime, file: str, module: ast.Module, *, name: str, local: str, line: int
) -> Iterator[Finding]:
    if not runtime.present:
        message = f"{runtime.package}, which patched files import, is not installed in {runtime.place}"
        yield violation(RUNTIME, file, line, message, _INSTALL)
        return
    api = runtime.api(name)
    if api is None:
        message = f"the runtime in {runtime.place} has no {name}, which patched files import"
        rule = OLDER if is_api(name) else NAME
        yield violation(rule, file, line, f"{message}: it is older than the patches", _INSTALL)
        return
    names = names_in(api)
    for node in walk(module):
        if not isinstance(node, ast.Attribute) or node.attr in names:
            continue
        if isinstance(node.value, ast.Name) and node.value.id == local:
            message = f"the runtime's {name} in {runtime.place} has no `{node.attr}`"
            expression = ast.unparse(node)
            yield violation(NAME, file, node.lineno, message, _INSTALL, expression=expression)


def _without_repeats(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings with those about the runtime as a whole only once, not once a file."""
    reported_once = {RUNTIME.id, OLDER.id}
    seen: dict[object, Finding] = {}
    for finding in findings:
        seen.setdefault(finding.message if finding.rule in reported_once else finding, finding)
    return tuple(seen.values())


def _unresolved(subject: Subject, file: str, module: Module) -> Iterator[Finding]:
    """Yield the imports that do not resolve: those that always run, and of the others those in a patch's lines."""
    always = set(_unguarded(module.tree.body))
    for node in needed_imports(module.tree.body):
        for missing in _missing(subject, file, node):
            if node not in always and node.lineno not in written_lines(subject, module):
                continue
            is_runtime = isinstance(node, ast.ImportFrom) and is_inside(node.module)
            remedy = RESTORE if is_runtime else _NAMED
            yield violation(IMPORT, file, node.lineno, missing, remedy, expression=ast.unparse(node))


def _unguarded(body: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
    """Yield the imports of names that always run: neither in a ``try`` nor under a condition."""
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            yield statement
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _unguarded(statement.body)


def _missing(subject: Subject, file: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield what the tree lacks of an import."""
    if isinstance(node, ast.Import):
        names = (alias.name for alias in node.names)
        yield from (
            f"the tree has no module {name}"
            for name in names
            if files_of(name) and not _is_module(subject, name)
        )
        return
    base = imported_from(node.module, node.level, package_of(file))
    if base is None or not files_of(base):
        return
    home = _file(subject, base)
    for alias in node.names:
        if _is_module(subject, f"{base}.{alias.name}") or (home and _binds(subject, home, alias.name)):
            continue
        is_package = home is None and _is_module(subject, base)
        missing = f"{base}.{alias.name}" if is_package else base
        yield f"{home} defines no `{alias.name}`" if home else f"the tree has no module {missing}"


def needed_imports(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that have to resolve wherever they run: not those that only types need.

    Nor those whose failure the code around them handles.
    """
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, TRIES) and any(map(_handles, statement.handlers)):
            yield from _later(statement.body)
            yield from needed_imports([*statement.orelse, *statement.finalbody])
        elif isinstance(statement, ast.If) and last_name(statement.test) == "TYPE_CHECKING":
            yield from needed_imports(statement.orelse)
        elif isinstance(statement, ast.With) and any(map(_suppresses, statement.items)):
            yield from _later(statement.body)
        else:
            yield from needed_imports(_blocks(statement))
        for handler in getattr(statement, "handlers", ()):
            yield from needed_imports(handler.body)


def _later(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the needed imports of the functions that are defined in statements."""
    for statement in body:
        is_function = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        inner = needed_imports if is_function else _later
        yield from inner(_blocks(statement))


def _blocks(statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements of the blocks of a statement, without those of handlers."""
    cases = [statement for case in getattr(statement, "cases", ()) for statement in case.body]
    blocks = (getattr(statement, name, ()) for name in ("body", "orelse", "finalbody"))
    return [*cases, *(statement for block in blocks for statement in block)]


def _handles(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or bool(_kinds(handler.type) & _FAILURES)


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    is_one = isinstance(call, ast.Call) and last_name(call.func) == "suppress"
    return is_one and any(_kinds(argument) & _FAILURES for argument in call.args)  # type: ignore[attr-defined]


def _kinds(kind: ast.expr) -> set[str]:
    return set(map(last_name, kind.elts if isinstance(kind, ast.Tuple) else [kind]))


def _file(subject: Subject, module: str) -> str | None:
    return next((file for file in files_of(module) if file in subject.sources), None)


def _is_module(subject: Subject, module: str) -> bool:
    folder = files_of(module)[-1].removesuffix("__init__.py")
    return _file(subject, module) is not None or folder in subject.folders


def _binds(subject: Subject, home: str, name: str) -> bool:
    text = subject.sources[home]
    # Parsing every imported file would take seconds; a regular expression finds plain definitions.
    if name == "*" or name.encode() in _plain_names(text):
        return True
    names = _all_bound(text)
    # A module with a star import or a ``__getattr__`` may have any name.
    return name in names or bool(names & {"*", "__getattr__"})


_PLAIN = re.compile(rb"^(?:class|def|async def)\s+(\w+)|^(\w+)\s*[:=]", re.MULTILINE)


@lru_cache(maxsize=512)
def _plain_names(text: bytes) -> frozenset[bytes]:
    return frozenset(match[1] or match[2] for match in _PLAIN.finditer(text))


@lru_cache(maxsize=512)
def _all_bound(text: bytes) -> frozenset[str]:
    """Return the names that a module binds; none if it is not valid Python."""
    tree = parsed_or_none(text)
    return frozenset() if tree is None else names_in(tree)

"""What patched files import is there, in the tree and in a runtime that is new enough; no code is run."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from patchkit.verify import rules
from patchkit.verify.result import Outcome, Result
from patchkit.verify.runtime import PACKAGE, Runtime, bound_names, is_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

CHECK, TITLE = "imports", "Imports resolve and the runtime fits"
_ROOT = "sglang"
_INSTALL = "pip install --upgrade 'sglang-patchkit[runtime]' in the server's environment"


def check(subject: Subject, runtime: Runtime) -> Result:
    """Follow the imports of every file with a patch's edit, and each name taken from the runtime's API."""
    findings: list[Finding] = []
    apis: set[str] = set()
    for file in subject.files:
        module = ast.parse(subject.sources[file])
        findings += _unresolved(subject, file, module)
        for name, local, line in _apis(module):
            apis.add(name)
            findings += _misfits(runtime, file, module, name=name, local=local, line=line)
    needs = f", runtime {', '.join(sorted(apis))}" if apis else ""
    outcome = Outcome.FAILED if findings else Outcome.PASSED
    return Result(CHECK, TITLE, outcome, f"{len(subject.files)} files{needs}", _once(findings))


def _apis(module: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield each API version that a file imports, the local name of it, and the line."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            for alias in node.names:
                yield alias.name, alias.asname or alias.name, node.lineno


def _misfits(
    runtime: Runtime, file: str, module: ast.Module, *, name: str, local: str, line: int
) -> Iterator[Finding]:
    if not runtime.present:
        message = f"{PACKAGE}, which patched files import, is not installed in {runtime.place}"
        yield rules.broken(rules.RUNTIME, file, line, message, _INSTALL)
        return
    api = runtime.api(name)
    if api is None:
        message = f"the runtime in {runtime.place} has no {name}, which patched files import"
        rule = rules.OLDER if is_api(name) else rules.NAME
        yield rules.broken(rule, file, line, f"{message}: it is older than the patches", _INSTALL)
        return
    names = bound_names(api)
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute) or node.attr in names:
            continue
        if isinstance(node.value, ast.Name) and node.value.id == local:
            message = f"the runtime's {name} in {runtime.place} has no `{node.attr}`"
            expression = ast.unparse(node)
            yield rules.broken(rules.NAME, file, node.lineno, message, _INSTALL, expression=expression)


def _once(findings: list[Finding]) -> tuple[Finding, ...]:
    """Say of the runtime as a whole what is wrong with it once, not in every file that imports it."""
    whole = {rules.RUNTIME.id, rules.OLDER.id}
    seen: dict[object, Finding] = {}
    for finding in findings:
        seen.setdefault(finding.message if finding.rule in whole else finding, finding)
    return tuple(seen.values())


def _unresolved(subject: Subject, file: str, module: ast.Module) -> Iterator[Finding]:
    package = [_ROOT, *file.split("/")[:-1]]
    for node in _unguarded(module.body):
        base = node.module or ""
        if node.level:
            base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
        if base != _ROOT and not base.startswith(f"{_ROOT}."):
            continue
        home = _file(subject, base)
        for alias in node.names:
            if _is_module(subject, f"{base}.{alias.name}") or (home and _binds(subject, home, alias.name)):
                continue
            missing = f"{home} defines no `{alias.name}`" if home else f"the tree has no module {base}"
            yield rules.broken(
                rules.IMPORT,
                file,
                node.lineno,
                missing,
                "put the name back, or take the import out with what uses it",
                expression=ast.unparse(node),
            )


def _unguarded(body: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
    """Yield the imports of names that always run: those in no ``try`` and under no condition."""
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            yield statement
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _unguarded(statement.body)


def _file(subject: Subject, dotted: str) -> str | None:
    path = dotted.removeprefix(_ROOT).removeprefix(".").replace(".", "/")
    places = (f"{path}.py", f"{path}/__init__.py".lstrip("/"))
    return next((place for place in places if place in subject.sources), None)


def _is_module(subject: Subject, dotted: str) -> bool:
    folder = dotted.removeprefix(f"{_ROOT}.").replace(".", "/")
    return _file(subject, dotted) is not None or any(
        file.startswith(f"{folder}/") for file in subject.sources
    )


def _binds(subject: Subject, home: str, name: str) -> bool:
    text = subject.sources[home]
    # Parsing every file that is imported from would take seconds; a plain definition shows without.
    plain = rb"^(?:class|def|async def)\s+%s\b|^%s\s*[:=]" % (name.encode(), name.encode())
    if name == "*" or re.search(plain, text, re.MULTILINE):
        return True
    try:
        names = bound_names(ast.parse(text))
    except (SyntaxError, ValueError):
        return False
    # A module with a star import or a hook of its own may have any name.
    return name in names or bool(names & {"*", "__getattr__"})

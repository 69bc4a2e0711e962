"""Index the classes, functions and imports of the files that matter; others are parsed on demand."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from patchkit.audit import facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CALL = re.compile(r"((?:\bself)?\.|)([A-Za-z_]\w*)\(")


class SourceTree(Protocol):
    """The part of :class:`patchkit.tree.tree.Tree` that the audit reads through."""

    def read(self, file: str) -> bytes | None:
        """Return the file's bytes, or None when it does not exist."""

    def files(self, folder: str, suffix: str) -> Sequence[str]:
        """Return the files below ``folder`` that end in ``suffix``."""


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Function:
    """A function or method: where it is, its syntax tree, and the class that defines it."""

    module: Module
    node: FunctionNode
    owner: Class | None

    @property
    def name(self) -> str:
        """Bare name."""
        return self.node.name

    @cached_property
    def qualname(self) -> str:
        """Name with its class, as the report prints it."""
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @cached_property
    def source(self) -> str:
        """The function's own text, decorators left out."""
        return "\n".join(self.module.lines[self.node.lineno - 1 : self.node.end_lineno])

    @cached_property
    def called_names(self) -> frozenset[tuple[str, str]]:
        """Every name that the text calls, with ``self.``, ``.`` or nothing before it; a superset."""
        return frozenset(_CALL.findall(self.source)) - {("", self.name)}

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Every local name that the body binds."""
        stores = (node for node in ast.walk(self.node) if isinstance(node, ast.Name))
        return frozenset(node.id for node in stores if not isinstance(node.ctx, ast.Load))

    @cached_property
    def decorators(self) -> frozenset[str]:
        """Last name of each decorator."""
        return frozenset(last_name(decorator) for decorator in self.node.decorator_list)

    @cached_property
    def parameters(self) -> tuple[ast.arg, ...]:
        """Parameters that can be named in a call, in order; ``self`` included."""
        arguments = self.node.args
        return (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)


@dataclass(eq=False)
class Class:
    """A class: its bases by name, methods, and the class-level names with their values."""

    module: Module
    node: ast.ClassDef
    name: str
    bases: tuple[str, ...]
    methods: dict[str, Function] = field(default_factory=dict)
    fields: dict[str, ast.expr | None] = field(default_factory=dict)
    annotations: dict[str, ast.expr] = field(default_factory=dict)

    @cached_property
    def attribute_classes(self) -> dict[str, str]:
        """Class name of each ``self`` attribute whose class an annotation or a constructor call shows."""
        found: dict[str, str] = {}
        for name, annotation in self.annotations.items():
            if hint := class_of_annotation(annotation):
                found[name] = hint
        for method in self.methods.values():
            hints = {a.arg: class_of_annotation(a.annotation) for a in method.parameters if a.annotation}
            for node in ast.walk(method.node):
                if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                    continue
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
                    continue
                if target.value.id != "self" or target.attr in found:
                    continue
                hint = class_of_annotation(node.annotation) if isinstance(node, ast.AnnAssign) else None
                if hint is None and isinstance(node.value, ast.Name):
                    hint = hints.get(node.value.id)
                if hint is None and isinstance(node.value, ast.Call):
                    called = last_name(node.value.func)
                    hint = called if called[:1].isupper() else None
                if hint:
                    found[target.attr] = hint
        return found


@dataclass(eq=False)
class Module:
    """One file: its text, and what its top level binds."""

    file: str
    text: bytes
    tree: ast.Module
    classes: dict[str, Class] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    @cached_property
    def lines(self) -> list[str]:
        """Source lines without their ends."""
        return self.text.decode("utf-8", "replace").splitlines()

    def all_functions(self) -> Iterator[Function]:
        """Yield every function and method."""
        yield from self.functions.values()
        for cls in self.classes.values():
            yield from cls.methods.values()


def last_name(node: ast.expr) -> str:
    """Return the last name of ``a.b.c``, a call, a subscript or a quoted name, or an empty string."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rsplit(".", 1)[-1]
    return ""


def root(node: ast.expr) -> ast.expr:
    """Return the leftmost part of a chain of attributes, calls and subscripts."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def class_of_annotation(node: ast.expr | None) -> str | None:
    """Return the class that an annotation names, looking through Optional, unions with None and quotes."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return class_of_annotation(node.left) or class_of_annotation(node.right)
    if isinstance(node, ast.Subscript):
        if last_name(node.value) == "Optional":
            return class_of_annotation(node.slice)
        return None
    if isinstance(node, (ast.Name, ast.Attribute)):
        return last_name(node)
    return None


def read_sources(tree: SourceTree) -> dict[str, bytes]:
    """Return the Python files that the audit covers, by name: the package folder and patchkit's runtime.

    A patched tree calls the runtime: the copy that it carries or, where it imports it, the installed one.
    """
    found = {}
    for folder in (facts.PACKAGE_FOLDER, facts.VENDORED_RUNTIME):
        for file in tree.files(folder, ".py"):
            text = tree.read(file)
            if text is not None:
                found[file] = text
    importer = facts.RUNTIME.replace("/", ".").encode()
    if any(importer in text for text in found.values()):
        for path in sorted((Path(__file__).parent.parent / "runtime").glob("*.py")):
            found[f"{facts.RUNTIME}/{path.name}"] = path.read_bytes()
    return found


class Program:
    """The parsed part of a tree; files that never name the mirror wait until a call or a base leads there."""

    def __init__(self, sources: dict[str, bytes]) -> None:
        self._sources = sources
        self._modules: dict[str, Module | None] = {}
        self._files: dict[str, str | None] = {}
        self._orders: dict[Class, list[Class]] = {}
        self.unparsed: list[str] = []
        pattern = facts.tracked_pattern()
        self.core = [
            module
            for file, text in sorted(self._sources.items())
            if pattern.search(text) and (module := self.module(file)) is not None
        ]
        self._classes: dict[str, list[Class]] = {}
        for module in self.core:
            for cls in module.classes.values():
                self._classes.setdefault(cls.name, []).append(cls)

    @property
    def sources(self) -> dict[str, bytes]:
        """Every Python file of the package folder, by name."""
        return self._sources

    def module(self, file: str) -> Module | None:
        """Return the parsed file, or None when it is missing or does not parse (see ``unparsed``)."""
        if file not in self._modules:
            text = self._sources.get(file)
            module = None
            if text is not None:
                try:
                    module = index_module(file, text)
                except (SyntaxError, ValueError):
                    self.unparsed.append(file)
            self._modules[file] = module
        return self._modules[file]

    def lines(self, file: str) -> list[str]:
        """Return a file's source lines; none for a file that is not parsed."""
        module = self._modules.get(file)
        return module.lines if module is not None else []

    def classes_named(self, name: str) -> list[Class]:
        """Return the classes of that name in the files that matter."""
        return self._classes.get(name, [])

    def resolve(
        self, module: Module, name: str, parse: bool = True, depth: int = 4
    ) -> Class | Function | Module | None:
        """Return what a module's top level binds a name to, following imports inside the package.

        Without ``parse``, files that are not parsed yet stay so, and names that lead there are unknown.
        """
        if name in module.classes:
            return module.classes[name]
        if name in module.functions:
            return module.functions[name]
        if name not in module.imports or depth == 0:
            return None
        dotted, member = module.imports[name]
        if member is not None:
            inner = self._by_dotted(f"{dotted}.{member}", parse)
            if inner is not None:
                return inner
        target = self._by_dotted(dotted, parse)
        if target is None or member is None:
            return target
        return self.resolve(target, member, parse, depth - 1)

    def _by_dotted(self, dotted: str, parse: bool) -> Module | None:
        if dotted not in self._files:
            path = dotted.removeprefix("sglang.").replace(".", "/")
            names = (f"{path}.py", f"{path}/__init__.py")
            self._files[dotted] = next((file for file in names if file in self._sources), None)
        file = self._files[dotted]
        if file is None or (not parse and file not in self._modules):
            return None
        return self.module(file)

    def mro(self, cls: Class) -> list[Class]:
        """Return the class and its ancestors inside the tree, depth first, each once."""
        if cls in self._orders:
            return self._orders[cls]
        order: list[Class] = []
        pending = [cls]
        while pending:
            current = pending.pop(0)
            if current in order:
                continue
            order.append(current)
            parents: list[Class] = []
            for base in current.bases:
                found = self.resolve(current.module, base)
                if isinstance(found, Class):
                    parents.append(found)
                else:
                    parents.extend(self.classes_named(base)[:1])
            pending = parents + pending
        self._orders[cls] = order
        return order

    def ancestors(self, cls: Class) -> frozenset[str]:
        """Return the names of the class and of its ancestors, those outside the parsed files included."""
        return frozenset(name for known in self.mro(cls) for name in (known.name, *known.bases))

    def method(self, cls: Class, name: str, after: Class | None = None) -> Function | None:
        """Return the method that an instance of ``cls`` runs, or ``super()`` inside ``after``."""
        order = self.mro(cls)
        if after in order:
            order = order[order.index(after) + 1 :]
        for known in order:
            if name in known.methods:
                return known.methods[name]
        return None


def index_module(file: str, text: bytes) -> Module:
    """Parse one file. Raises SyntaxError or ValueError when this interpreter cannot parse it."""
    module = Module(file, text, ast.parse(text))
    folders = file.split("/")[:-1]
    package = folders if file.startswith(f"{facts.RUNTIME}/") else ["sglang", *folders]
    for node in _top_level(module.tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            module.functions[node.name] = Function(module, node, None)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = _index_class(module, node)
        else:
            _index_import(module, node, package)
    for function in module.all_functions():
        if "import " in function.source:
            for inner in ast.walk(function.node):
                _index_import(module, inner, package)
    return module


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _top_level(node.body)
            if isinstance(node, (ast.If, ast.Try)):
                yield from _top_level(node.orelse)
            if isinstance(node, ast.Try):
                for handler in node.handlers:
                    yield from _top_level(handler.body)
        else:
            yield node


def _index_import(module: Module, node: ast.AST, package: list[str]) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            module.imports.setdefault(alias.asname or alias.name.split(".")[0], (alias.name, None))
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
        for alias in node.names:
            module.imports.setdefault(alias.asname or alias.name, (base, alias.name))


def _index_class(module: Module, node: ast.ClassDef) -> Class:
    cls = Class(module, node, node.name, tuple(filter(None, map(last_name, node.bases))))
    for item in _top_level(node.body):
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            cls.methods[item.name] = Function(module, item, cls)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            cls.fields[item.target.id] = item.value
            cls.annotations[item.target.id] = item.annotation
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    cls.fields[target.id] = item.value
    return cls

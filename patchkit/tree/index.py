"""Index a tree's definitions and resolve names, imports, base classes and methods."""

from __future__ import annotations

import ast
import re
import weakref
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from patchkit import memory
from patchkit.errors import TreeError
from patchkit.lines import decoded_lines
from patchkit.tree import mirror, sglang
from patchkit.tree.limits import MAX_BYTES, require_manageable
from patchkit.tree.nesting import MAX_DEPTH
from patchkit.tree.nodes import assigned_names, bound_as, own_statements, statements
from patchkit.tree.source import INVALID, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from patchkit.tree.tree import Tree

_Known = TypeVar("_Known", bound="Hashable")
_RUNTIME = f"{mirror.RUNTIME.replace('.', '/')}/"
_RUNTIMES = (_RUNTIME, f"{sglang.VENDORED_RUNTIME}/")
_ENUMS = frozenset({"Enum", "IntEnum", "StrEnum"})
_CALLED = re.compile(r"(?:(\w*)(\.)|\b)([A-Za-z_]\w*)\Z")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class _Definition:
    """A class or function, which refers weakly to its module: a cycle would wait for the garbage collector."""

    def __init__(self, module: Module) -> None:
        self._module = weakref.ref(module)

    @property
    def module(self) -> Module:
        """The module that contains the definition; an index holds its modules."""
        module = self._module()
        if module is None:
            raise ReferenceError("the module no longer exists: keep a reference to its index")
        return module


class Function(_Definition):
    """A function or method: its module, its syntax tree, and the class that defines it."""

    def __init__(self, module: Module, node: FunctionNode, owner: Class | None) -> None:
        super().__init__(module)
        self.node = node
        self._owner = weakref.ref(owner) if owner is not None else None

    @property
    def owner(self) -> Class | None:
        """The class that defines the method, None for a function."""
        return self._owner() if self._owner is not None else None

    @property
    def name(self) -> str:
        """The function's name, without its class."""
        return self.node.name

    @cached_property
    def qualname(self) -> str:
        """The function's name with its class, as reports print it."""
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @cached_property
    def source(self) -> str:
        """The function's source without decorators."""
        return "\n".join(self.module.lines[self.node.lineno - 1 : self.node.end_lineno])

    @cached_property
    def _called(self) -> frozenset[tuple[str, str, str]]:
        """The calls in the source, each as the name before a dot, the dot, and the called name."""
        # The source is split at parentheses and only the last word of each piece is matched: a pattern that is tried
        # at every character takes five times as long.
        pieces = (piece for piece in self.source.split("(")[:-1] if piece and not piece[-1].isspace())
        matches = map(_CALLED.search, {piece.rsplit(None, 1)[-1] for piece in pieces})
        return frozenset((match[1] or "", match[2] or "", match[3]) for match in matches if match is not None)

    @cached_property
    def called_names(self) -> frozenset[tuple[str, str]]:
        """A superset of the names that the source calls, each with its prefix: ``self.``, ``.`` or none."""
        names = ((f"self{dot}" if of == "self" else dot, name) for of, dot, name in self._called)
        return frozenset(names) - {("", self.name)}

    @cached_property
    def received_names(self) -> frozenset[tuple[str, str]]:
        """A superset of the methods that the source calls, each with the last name of its receiver."""
        return frozenset((of, name) for of, _, name in self._called if of)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Every local name that the body binds."""
        return frozenset(assigned_names(self.node))

    @cached_property
    def decorators(self) -> frozenset[str]:
        """The last name of each decorator."""
        return frozenset(last_name(decorator) for decorator in self.node.decorator_list)

    @cached_property
    def parameters(self) -> tuple[ast.arg, ...]:
        """The parameters other than ``*args`` and ``**kwargs``, in order, including ``self``."""
        arguments = self.node.args
        return (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)


class Class(_Definition):
    """A class: its bases by name, its methods, and its class-level names with their values."""

    def __init__(self, module: Module, node: ast.ClassDef, name: str, bases: tuple[str, ...]) -> None:
        super().__init__(module)
        self.node, self.name, self.bases = node, name, bases
        self.methods: dict[str, Function] = {}
        self.fields: dict[str, ast.expr | None] = {}
        self.annotations: dict[str, ast.expr] = {}

    @cached_property
    def attribute_classes(self) -> dict[str, str]:
        """The class of each ``self`` attribute, where an annotation or a constructor call shows it."""
        classes: dict[str, str] = {}
        for name, annotation in self.annotations.items():
            if hint := class_of_annotation(annotation):
                classes[name] = hint
        for method in self.methods.values():
            hints = {a.arg: class_of_annotation(a.annotation) for a in method.parameters if a.annotation}
            for node in statements(method.node):
                if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                    continue
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
                    continue
                if target.value.id != "self" or target.attr in classes:
                    continue
                hint = class_of_annotation(node.annotation) if isinstance(node, ast.AnnAssign) else None
                if hint is None and isinstance(node.value, ast.Name):
                    hint = hints.get(node.value.id)
                if hint is None and isinstance(node.value, ast.Call):
                    called = last_name(node.value.func)
                    hint = called if called[:1].isupper() else None
                if hint:
                    classes[target.attr] = hint
        return classes


@dataclass(eq=False)
class Module:
    """One file: its text, and its top-level classes and functions."""

    file: str
    text: bytes
    tree: ast.Module
    classes: dict[str, Class] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

    @cached_property
    def imports(self) -> dict[str, tuple[str, str | None]]:
        """The module, and the member if any, that each imported name denotes, also inside functions."""
        bound: dict[str, tuple[str, str | None]] = {}
        for name, target in _imports(self):
            bound.setdefault(name, target)
        return bound

    @property
    def stem(self) -> str:
        """The file's name without folders and suffix."""
        return self.file.rsplit("/", 1)[-1].removesuffix(".py")

    @cached_property
    def lines(self) -> list[str]:
        """The source lines without line endings."""
        return decoded_lines(self.text)

    def defines_once(self, name: str) -> bool:
        """Return whether exactly one class of that name is at the top level."""
        return sum(isinstance(node, ast.ClassDef) and node.name == name for node in self.tree.body) == 1

    def all_functions(self) -> Iterator[Function]:
        """Yield every function and method."""
        yield from self.functions.values()
        for cls in self.classes.values():
            yield from cls.methods.values()


def is_runtime(file: str) -> bool:
    """Return whether a file belongs to patchkit's runtime, installed or vendored."""
    return file.startswith(_RUNTIMES)


def last_name(node: ast.expr) -> str:
    """Return the last name of an attribute, call, subscript, name or quoted name, or an empty string."""
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
    """Return the class that an annotation names, seeing through Optional, unions with None and quotes."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except INVALID:
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


def read_sources(tree: Tree) -> dict[str, bytes]:
    """Return the Python files that the audit covers, by name: the serving package and patchkit's runtime.

    The runtime is the vendored copy or, in a tree that imports it, the installed one.
    """
    sources = {}
    for folder in (sglang.SERVING, sglang.VENDORED_RUNTIME):
        for file in tree.files(folder, ".py"):
            text = tree.read(file)
            if text is not None:
                sources[file] = text
    if any(mirror.RUNTIME.encode() in text for text in sources.values()):
        for path in sorted((Path(__file__).parent.parent / "runtime").glob("*.py")):
            sources[f"{_RUNTIME}{path.name}"] = path.read_bytes()
    return sources


class Index:
    """The definitions of a tree; a file is parsed when a name is resolved in it.

    ``read`` returns a file's bytes, ``named`` the classes of a name whose import cannot be followed, by default none.
    """

    def __init__(
        self, read: Callable[[str], bytes | None], named: Callable[[str], list[Class]] = lambda _: []
    ) -> None:
        self._read = read
        self._named = named
        self._modules: dict[str, Module | None] = {}
        self._files: dict[str, str | None] = {}
        self._orders: dict[Class, list[Class]] = {}
        self.unparsed: list[str] = []

    def module(self, file: str) -> Module | None:
        """Return the parsed file, or None if it is missing or does not parse (see ``unparsed``)."""
        if file not in self._modules:
            text = self._read(file)
            module = None
            if text is not None and len(text) > MAX_BYTES:
                self.unparsed.append(file)
            elif text is not None:
                try:
                    module = index_module(file, text)
                except INVALID:
                    self.unparsed.append(file)
            self._modules[file] = module
        return self._modules[file]

    def classes_named(self, name: str) -> list[Class]:
        """Return the classes of a name whose import cannot be followed."""
        return self._named(name)

    def resolve(
        self, module: Module, name: str, parse: bool = True, depth: int = 4
    ) -> Class | Function | Module | None:
        """Return the definition that a module's top level binds to a name, following imports inside the package.

        Without ``parse``, no further file is parsed, and names that lead to unparsed files are unknown.
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

    def file_of(self, dotted: str) -> str | None:
        """Return the file of a module of the package or the runtime, or None."""
        if dotted not in self._files:
            names = sglang.files_of(dotted)
            if dotted.startswith(mirror.RUNTIME):
                names = (f"{dotted.replace('.', '/')}.py", f"{dotted.replace('.', '/')}/__init__.py")
            self._files[dotted] = next((file for file in names if self._read(file) is not None), None)
        return self._files[dotted]

    def _by_dotted(self, dotted: str, parse: bool) -> Module | None:
        file = self.file_of(dotted)
        if file is None or (not parse and file not in self._modules):
            return None
        return self.module(file)

    def mro(self, cls: Class | None) -> list[Class]:
        """Return the class and its ancestors inside the tree, in method resolution order; none without a class."""
        if cls is None:
            return []
        if cls not in self._orders:
            self._orders[cls] = linearised(
                cls, self._parents, lambda ancestor: f"{ancestor.module.file}: {ancestor.name}"
            )
        return self._orders[cls]

    def _parents(self, cls: Class) -> list[Class]:
        parents: list[Class] = []
        for base in cls.bases:
            definition = self.resolve(cls.module, base)
            parents += [definition] if isinstance(definition, Class) else self.classes_named(base)[:1]
        return parents

    def ancestors(self, cls: Class | None) -> frozenset[str]:
        """Return the names of the class and its ancestors, including bases outside the parsed files; none without."""
        return frozenset(name for ancestor in self.mro(cls) for name in (ancestor.name, *ancestor.bases))

    def method(self, cls: Class | None, name: str, after: Class | None = None) -> Function | None:
        """Return the method that an instance of ``cls`` calls, or that ``super()`` inside ``after`` calls."""
        order = self.mro(cls)
        if after in order:
            order = order[order.index(after) + 1 :]
        for ancestor in order:
            if name in ancestor.methods:
                return ancestor.methods[name]
        return None

    def methods_naming(self, cls: Class | None, text: str) -> Iterator[Function]:
        """Yield the methods of a class and its ancestors whose source contains a text."""
        for ancestor in self.mro(cls):
            yield from (method for method in ancestor.methods.values() if text in method.source)


class Program(Index):
    """An index of a whole tree; files outside the core are parsed when a call or a base class leads there."""

    def __init__(
        self, sources: dict[str, bytes], core: Sequence[str] | None = None, below: Program | None = None
    ) -> None:
        """Parse the files of ``core``, by default those that name the mirror, unless they are the same ``below``."""
        super().__init__(sources.get)
        self.sources = sources
        """Every Python file of the package folder, by name."""
        self._below = below
        self._values: dict[Hashable, Any] = {}
        self._classes: dict[str, list[Class]] = {}
        self.core = [
            module
            for file, text in sorted(sources.items())
            if (mirror.names(text) or file.startswith(_RUNTIMES) if core is None else file in core)
            and (module := self.module(file)) is not None
        ]
        self._name_classes(self.core)

    def _name_classes(self, modules: list[Module]) -> None:
        for module in modules:
            for cls in module.classes.values():
                self._classes.setdefault(cls.name, []).append(cls)

    def is_enum(self, cls: Class) -> bool:
        """Return whether a class is an enum."""
        return not _ENUMS.isdisjoint(self.ancestors(cls))

    def module(self, file: str) -> Module | None:
        """Return the parsed file as ``Index`` does. Raise TreeError if it is too long or nests too deep."""
        if self._below is not None and self.sources.get(file) == self._below.sources.get(file):
            return self._below.module(file)
        if file not in self._modules and file in self.sources:
            require_manageable(file, self.sources[file])
        return super().module(file)

    def modules_naming(self, text: bytes) -> Iterator[Module]:
        """Yield each file that contains a text, parsed."""
        for file, source in self.sources.items():
            if text in source and (module := self.module(file)) is not None:
                yield module

    def value(self, question: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value that depends on the code alone; it is computed the first time that it is asked for."""
        if question not in self._values:
            self._values[question] = make()
        return self._values[question]

    def functions(self) -> Iterator[Function]:
        """Yield each function and method of the core files, in source order."""
        return (function for module in self.core for function in module.all_functions())

    def lines(self, file: str) -> list[str]:
        """Return a file's source lines, none if it is not parsed."""
        module = self._modules.get(file)
        return module.lines if module is not None else []

    def classes_named(self, name: str) -> list[Class]:
        """Return the classes of that name in the core files."""
        return self._classes.get(name, [])


def linearised(
    cls: _Known,
    parents: Callable[[_Known], list[_Known]],
    label: Callable[[_Known], str],
    below: tuple[_Known, ...] = (),
) -> list[_Known]:
    """Return a class and its ancestors in Python's method resolution order (C3).

    Bases without such an order, which Python rejects, are listed depth first, each once. Raise TreeError if the bases
    nest deeper than ``MAX_DEPTH``; ``label`` names the class in the message. ``below`` are the classes whose bases led
    to this one.
    """
    if len(below) > MAX_DEPTH:
        raise TreeError(
            f"{label(below[0])} has a chain of more than {MAX_DEPTH} base classes",
            advice="remove the file and try again",
        )
    direct = [base for base in dict.fromkeys(parents(cls)) if base != cls and base not in below]
    chains = [linearised(base, parents, label, (*below, cls)) for base in direct]
    flat = list(dict.fromkeys(entry for chain in chains for entry in chain))
    pending = [*map(list, chains), direct]
    order = [cls]
    while pending := [chain for chain in pending if chain]:
        tails = {entry for chain in pending for entry in chain[1:]}
        first = next((chain[0] for chain in pending if chain[0] not in tails), None)
        if first is None:
            return [cls, *flat]
        order.append(first)
        pending = [chain[1:] if chain[0] == first else chain for chain in pending]
    return order


@memory.cached(512)
def index_module(file: str, text: bytes) -> Module:
    """Parse one file; results are cached. Raise one of ``INVALID`` if this interpreter cannot parse it."""
    module = Module(file, text, parsed(text))
    for node in own_statements(module.tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            module.functions[node.name] = Function(module, node, None)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = _index_class(module, node)
    return module


def _imports(module: Module) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield each name that a file imports, with the module and the member that it denotes."""
    runtime = module.file.startswith(_RUNTIME)
    package = mirror.RUNTIME if runtime else sglang.package_of(module.file)
    nodes: list[ast.stmt] = list(own_statements(module.tree.body))
    for function in module.all_functions():
        if "import " in function.source:
            nodes += statements(function.node)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield bound_as(alias), (alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            base = sglang.imported_from(node.module, node.level, package)
            if base is None:
                continue
            for alias in node.names:
                yield bound_as(alias), (base, alias.name)


def _index_class(module: Module, node: ast.ClassDef) -> Class:
    cls = Class(module, node, node.name, tuple(filter(None, map(last_name, node.bases))))
    for item in own_statements(node.body):
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

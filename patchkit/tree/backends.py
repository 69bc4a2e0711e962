"""Find the attention backends of a tree, and those of them that can run without the CPU mirror."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.tree import mirror
from patchkit.tree.index import Program, last_name
from patchkit.tree.nodes import statements, walk
from patchkit.tree.sglang import SERVING, serves
from patchkit.tree.tree import CheckoutTree, OverlayTree, files_containing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.index import Class, Function
    from patchkit.tree.tree import Tree

_METADATA_METHODS = frozenset(
    {"init_forward_metadata", "init_forward_metadata_out_graph", "init_cuda_graph_state"}
)


# `re` searches for a literal prefix many times faster than for the start of a line.
_CLASS = re.compile(rb"\nclass[ \t]+(\w+)[ \t]*\(([^)]*)\)")
_NAME = re.compile(rb"\w+")
_OPT_OUT = re.compile(rb"\b%s\b[^=\n]*=(?!\s*True\b)[^=]" % mirror.FLAG.encode())


@dataclass(frozen=True)
class InheritingBackend:
    """A backend class, at a line of a file, that inherits the opt-out of ``base`` and reads the mirror in ``methods``.

    It is plain data, since the syntax trees of a program are freed with the program.
    """

    name: str
    file: str
    line: int
    base: str
    methods: tuple[str, ...]

    @property
    def description(self) -> str:
        """The class, its location, and the methods that read the mirror."""
        return (
            f"{self.name} ({self.file}:{self.line}) inherits the opt-out of {self.base} and reads the mirror in "
            f"{', '.join(self.methods)}"
        )

    @property
    def remedy(self) -> str:
        """The change that keeps the mirror for this backend."""
        return f"`{mirror.FLAG} = True` on {self.name} keeps the mirror for it"


class Backends:
    """The attention backends of one tree."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @cached_property
    def all(self) -> list[Class]:
        """Every backend class in the core files, without mixins and the abstract root."""
        return [
            cls
            for module in self._program.core
            for cls in module.classes.values()
            if cls.name != mirror.BACKEND_ROOT and self._is_backend(cls)
        ]

    def _is_backend(self, cls: Class) -> bool:
        if self.derived(cls):
            return True
        # Batches store the decision in a field with the flag's name.
        if mirror.FLAG in cls.fields and cls.name not in mirror.BATCH_CLASSES:
            return True
        named = "Backend" in cls.name and not cls.name.endswith("Mixin")
        return named and any(name in cls.methods for name in _METADATA_METHODS)

    def derived(self, cls: Class) -> bool:
        """Return whether a class is the abstract backend or inherits from it."""
        return mirror.BACKEND_ROOT in self._program.ancestors(cls)

    def opted_out(self, cls: Class) -> bool:
        """Return whether a backend's flag is False, or can be False in some configuration."""
        return self._opt_out_of(cls) is not None

    def has_flag_property(self, cls: Class) -> bool:
        """Return whether a backend defines the flag as a property, so that its value depends on the instance."""
        return mirror.FLAG in cls.methods

    def serves_inside(self, cls: Class) -> bool:
        """Return whether a backend is only used inside another backend, whose flag workers read instead."""
        return not self._inner.isdisjoint(self._program.ancestors(cls))

    @cached_property
    def _inner(self) -> frozenset[str]:
        """Backend classes that another backend's constructor accepts in addition to an ``AttentionBackend``."""
        names: set[str] = set()
        for cls in self.all:
            constructor = cls.methods.get("__init__")
            arguments = constructor.node.args.args if constructor is not None else ()
            kinds = {
                last_name(argument.annotation) for argument in arguments if argument.annotation is not None
            }
            if mirror.BACKEND_ROOT in kinds and self.derived(cls):
                names |= kinds & self._kinds
        return frozenset(names)

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(cls.name for cls in self.all if self.derived(cls))

    def _opt_out_of(self, cls: Class) -> Class | None:
        """Return the first class in the MRO of ``cls`` that sets the flag, or None if it cannot be False there."""
        for ancestor in self._program.mro(cls):
            assigned = [
                node.value
                for method in ancestor.methods.values()
                if mirror.FLAG in method.source
                for node in statements(method.node)
                if isinstance(node, ast.Assign) and any(_is_own_flag(target) for target in node.targets)
            ]
            if assigned:
                can_be_false = any(
                    not (isinstance(value, ast.Constant) and value.value is True) for value in assigned
                )
                return ancestor if can_be_false else None
            if mirror.FLAG in ancestor.fields:
                value = ancestor.fields[mirror.FLAG]
                return ancestor if isinstance(value, ast.Constant) and value.value is False else None
        return None

    @cached_property
    def inheriting(self) -> tuple[InheritingBackend, ...]:
        """The backends that inherit an opt-out and read the mirror in one of their own methods."""
        return tuple(backend for cls in self.all if (backend := self._inheriting_backend(cls)) is not None)

    def _inheriting_backend(self, cls: Class) -> InheritingBackend | None:
        base = self._opt_out_of(cls)
        if base is None or base is cls:
            return None
        methods = tuple(name for name, method in cls.methods.items() if any(_reads(method)))
        if not methods:
            return None
        return InheritingBackend(cls.name, cls.module.file, cls.node.lineno, base.name, methods)


def _is_own_flag(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute) and target.attr == mirror.FLAG and last_name(target.value) == "self"
    )


def _reads(method: Function) -> Iterator[ast.Name | ast.Attribute]:
    """Yield a method's reads of the mirror, except comparisons and arguments of ``super()`` calls."""
    if not method.node.decorator_list and not any(name in method.source for name in mirror.TRACKED):
        return
    exempt: set[int] = set()
    nodes = walk(method.node)
    for node in nodes:
        if isinstance(node, ast.Compare):
            exempt |= {id(side) for side in (node.left, *node.comparators)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_super_call = isinstance(node.func.value, ast.Call) and last_name(node.func.value) == "super"
            arguments = (*node.args, *(keyword.value for keyword in node.keywords))
            exempt |= {id(argument) for argument in arguments if is_super_call}
    for node in nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if last_name(node) in mirror.TRACKED and id(node) not in exempt:
            yield node


def inheriting_backends(tree: Tree) -> tuple[InheritingBackend, ...]:
    """Return the backends of a tree that inherit an opt-out and read the mirror.

    Parses only files with relatives of a class that opts out.
    """
    opting = ((file, tree.read(file) or b"") for file in files_containing(tree, mirror.FLAG) if serves(file))
    opting_out = {name for _, text in opting if _OPT_OUT.search(text) for name in _bases_in(text)}
    if not opting_out:
        return ()
    headers = {file: _bases_in(text) for file, text in _definitions(tree).items()}
    bases: dict[bytes, set[bytes]] = {}
    for own_bases in headers.values():
        for name, words in own_bases.items():
            bases.setdefault(name, set()).update(words)
    heirs = opting_out
    while more := {name for name, words in bases.items() if words & heirs} - heirs:
        heirs = heirs | more
    relatives = {name for name in heirs if bases.get(name, set()) & heirs}
    if not relatives:
        return ()
    while more := {base for name in relatives for base in bases.get(name, ())} - relatives:
        relatives = relatives | more
    files = sorted(file for file, bases in headers.items() if relatives & bases.keys())
    return Backends(Program({file: tree.read(file) or b"" for file in files})).inheriting


def _definitions(tree: Tree) -> dict[str, bytes]:
    """Return the top-level definitions of each file of the serving package, or the whole file."""
    lines = tree.definitions() if isinstance(tree, CheckoutTree) else None
    if lines is not None:
        return lines
    if isinstance(tree, OverlayTree):
        own = {file: text or b"" for file, text in tree.contents.items() if serves(file)}
        return _definitions(tree.below) | own
    return {file: tree.read(file) or b"" for file in tree.files(SERVING)}


def _bases_in(text: bytes) -> dict[bytes, set[bytes]]:
    """Return the words of the bases of each class in a source."""
    bases: dict[bytes, set[bytes]] = {}
    for name, words in _CLASS.findall(b"\n" + text):
        bases.setdefault(name, set()).update(_NAME.findall(words))
    return bases

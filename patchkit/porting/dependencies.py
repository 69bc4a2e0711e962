"""Find uses of definitions that a port should have added but did not, or that it removed.

A file of a change can use a definition that another file of the change adds. If the edit that adds it was not made, or
if an edit that was made removes a definition that is still used, each such use is a finding. So is one of an attribute
that the change's tree has had before and this tree has under another name or not at all. Definitions are compared by
name: module-level names, attributes and methods of classes, and parameters of functions.
"""

from __future__ import annotations

import ast
import builtins
import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from patchkit import memory
from patchkit.tree.index import last_name
from patchkit.tree.nodes import DEFINITIONS, bound_as, bound_names, own_statements, walk
from patchkit.tree.sglang import SERVING, files_of, imported_from, package_of
from patchkit.tree.source import parsed_or_none
from patchkit.tree.text import new_lines
from patchkit.tree.tree import OverlayTree
from patchkit.verify.attributes import any_file_sets
from patchkit.verify.check import violation
from patchkit.verify.checks import imports, reads, signatures

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from patchkit.change.land import Landing, Sources
    from patchkit.findings.finding import Finding
    from patchkit.tree.tree import Tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_RULES = {"name": imports.IMPORT, "attribute": reads.ATTRIBUTE, "parameter": signatures.SIGNATURE}
_COMMON = frozenset(name for kind in vars(builtins).values() if isinstance(kind, type) for name in dir(kind))
"""Attributes of built-in types: a use does not show whose attribute it is."""


class Definition(NamedTuple):
    """A name that a file defines; ``owner`` is the class of an attribute, or the function of a parameter."""

    kind: Literal["name", "attribute", "parameter"]
    owner: str
    name: str

    @property
    def label(self) -> str:
        """The name as messages show it."""
        return f"`{self.name}` of {self.owner}" if self.owner else f"`{self.name}`"


class _MissingDefinition(NamedTuple):
    """A definition that is not there: its file, and the position of a parameter, -1 if it has none."""

    definition: Definition
    file: str
    position: int
    is_removed: bool


@memory.collector_paused()
def dependencies_of(
    tree: Tree, sources: Sources, landing: Landing, base: Tree | None = None
) -> tuple[Finding, ...]:
    """Return the uses of definitions that the port did not add, or removed; ``tree`` is as it was before the port.

    With the change's own tree, ``base``, these include uses of attributes that only that tree has.
    """
    uses = _Uses(tree, landing)
    unknown = uses.unknown(base) if base is not None else ()
    return tuple(dict.fromkeys((*uses.findings(sources), *unknown)))


@memory.cached(256)
def _definitions(file: str, content: bytes | None) -> Mapping[Definition, int]:
    """Return what a file defines, with the positions of parameters; nothing if it is not Python."""
    return dict(_defined(_body(file, content), ""))


def _imported(file: str, content: bytes | None) -> set[str]:
    """Return the names that a file imports at its top level; none if it is not Python."""
    imports = (node for node in _body(file, content) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {bound_as(alias) for node in imports for alias in node.names}


def _body(file: str, content: bytes | None) -> Sequence[ast.stmt]:
    """Return the statements of a file; none if it is not Python."""
    tree = parsed_or_none(content) if content is not None and file.endswith(".py") else None
    return () if tree is None else tree.body


def _defined(body: Sequence[ast.AST], owner: str) -> Iterator[tuple[Definition, int]]:
    """Yield what the statements of a module or class define; ``owner`` is the class."""
    for node in own_statements(body):
        for name in bound_names(node):
            yield Definition("attribute" if owner else "name", owner, name), -1
        if isinstance(node, _FUNCTIONS):
            yield from _parameters(node, owner)
            yield from _stored(node, owner)
        elif isinstance(node, ast.ClassDef):
            yield from _defined(node.body, node.name)
        elif owner and isinstance(node, ast.AnnAssign):  # A field of a dataclass is a parameter of its class.
            yield from ((Definition("parameter", owner, name), -1) for name in bound_names(node))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> Iterator[tuple[Definition, int]]:
    function = owner if owner and node.name == "__init__" else node.name
    arguments = node.args
    is_bound = bool(owner) and not any(
        last_name(decorator) == "staticmethod" for decorator in node.decorator_list
    )
    for position, argument in enumerate([*arguments.posonlyargs, *arguments.args][is_bound:]):
        yield Definition("parameter", function, argument.arg), position
    for argument in arguments.kwonlyargs:
        yield Definition("parameter", function, argument.arg), -1


def _stored(node: ast.AST, owner: str) -> Iterator[tuple[Definition, int]]:
    """Yield the attributes that a function sets."""
    for child in walk(node):
        if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
            is_own = isinstance(child.value, ast.Name) and child.value.id == "self"
            yield Definition("attribute", owner if is_own else "", child.attr), -1


class _Uses:
    def __init__(self, tree: Tree, landing: Landing) -> None:
        self._tree = tree
        self._landing = landing
        self._after = OverlayTree(tree, landing.contents)
        self._there: dict[Definition, int] = {}
        for file in {*(file.onto for file in landing.files), *landing.contents}:
            self._there.update(_definitions(file, self._after.read(file)))

    @cached_property
    def _sources(self) -> dict[str, bytes]:
        files = self._after.files(SERVING)
        read = ((file, self._after.read(file)) for file in {*files, *self._landing.contents})
        return {file: text for file, text in sorted(read) if text is not None and file.endswith(".py")}

    def findings(self, sources: Sources) -> Iterator[Finding]:
        missing = list(self._missing(sources))
        for file, content in self._landing.contents.items() if missing else ():
            if content is not None and file.endswith(".py"):
                new = set(new_lines(self._tree.read(file) or b"", content))
                yield from self._uses_in(file, content, missing, new)
        removed = list(self._removed())
        names = {removal.definition.name for removal in removed}
        word = re.compile(rb"\b(?:%s)\b" % b"|".join(re.escape(name.encode()) for name in sorted(names)))
        for file, content in self._sources.items() if removed else ():
            if word.search(content):
                yield from self._uses_in(file, content, removed, range(content.count(b"\n") + 2))

    def unknown(self, base: Tree) -> Iterator[Finding]:
        """Yield the new uses of attributes that the change's tree defines and no file of this tree names."""
        there = {definition.name for definition in self._there} | _COMMON
        homes: dict[str, str] = {}
        for file, content in self._landing.contents.items():
            tree = parsed_or_none(content) if content is not None and file.endswith(".py") else None
            if content is None or tree is None:
                continue
            new = set(new_lines(self._tree.read(file) or b"", content))
            for function, _, node in _nodes(tree, "", ""):
                read = _attribute_read(node)
                if read is None or read.lineno not in new or read.attr in there:
                    continue
                name = read.attr
                if name not in homes:
                    homes[name] = "" if self._names(name) else _home(base, name)
                if homes[name] and not re.search(rb"[\"']%s[\"']" % name.encode(), content):
                    message = f"`{name}` is nowhere in this tree; the change's tree has it in {homes[name]}"
                    remedy = "use what this tree has in its place, or port what adds it"
                    yield violation(
                        reads.ATTRIBUTE,
                        file,
                        read.lineno,
                        message,
                        remedy,
                        function=function,
                        expression=ast.unparse(read),
                    )

    def _names(self, name: str) -> bool:
        """Return whether a file of the tree, as it was before the port, has a word."""
        word = re.compile(rb"\b%s\b" % name.encode())
        return any(
            name.encode() in text and word.search(self._tree.read(file) or b"")
            for file, text in self._sources.items()
        )

    def _missing(self, sources: Sources) -> Iterator[_MissingDefinition]:
        """Yield what the edits that were not made would have defined."""
        onto = {file.file: file.onto for file in self._landing.files if not file.is_whole}
        for file, (before, after) in sources.items():
            if file not in onto:
                continue
            definitions = _definitions(file, before)
            names = {definition.name for definition in definitions if definition.kind == "attribute"}
            owners = {definition.name for definition in definitions if definition.kind != "parameter"}
            for definition, position in _definitions(file, after).items():
                if definition.kind == "parameter" and definition.owner not in owners:
                    continue  # The function is new as well.
                is_new = definition not in definitions and (
                    definition.owner or definition.kind == "name" or definition.name not in names
                )
                if is_new and not self._is_there(definition):
                    yield _MissingDefinition(definition, onto[file], position, is_removed=False)

    def _is_there(self, wanted: Definition) -> bool:
        """Return whether the port's files define it; a class or function may have another name in this tree."""
        if wanted in self._there:
            return True
        owners = {definition.name for definition in self._there if definition.kind != "parameter"}
        return wanted.owner not in owners and any(
            (definition.kind, definition.name) == (wanted.kind, wanted.name) for definition in self._there
        )

    def _removed(self) -> Iterator[_MissingDefinition]:
        """Yield what a file of the tree defined and no longer does."""
        for file, content in self._landing.contents.items():
            now = _definitions(file, content)
            if {Definition("name", "", "*"), Definition("name", "", "__getattr__")} & now.keys():
                continue
            imported = _imported(file, content)
            for definition in _definitions(file, self._tree.read(file)).keys() - now.keys():
                if definition.owner in imported:
                    continue  # It is another module's now.
                if definition.kind == "name" or (definition.owner and definition not in self._there):
                    yield _MissingDefinition(definition, file, -1, is_removed=True)

    def _uses_in(
        self,
        file: str,
        content: bytes,
        missing: Sequence[_MissingDefinition],
        lines: Container[int],
    ) -> Iterator[Finding]:
        """Yield the uses in lines of a file."""
        tree = parsed_or_none(content)
        if tree is None:
            return
        wanted: dict[str, list[_MissingDefinition]] = {}
        for removal in missing:
            definition = removal.definition
            key = definition.owner if definition.kind == "parameter" else definition.name
            wanted.setdefault(key, []).append(removal)
        modules = _modules(file, tree)
        needed = set(imports.needed_imports(tree.body))
        for function, owner, node in _nodes(tree, "", ""):
            if getattr(node, "lineno", 0) not in lines and not isinstance(node, ast.Call):
                continue
            if isinstance(node, ast.ImportFrom) and node in needed:
                for name in node.names:
                    home = files_of(imported_from(node.module, node.level, package_of(file)) or "")
                    for removal in wanted.get(name.name, ()):
                        if removal.definition.kind == "name" and removal.file in home:
                            yield _finding(removal, file, node, function)
            elif (read := _attribute_read(node)) is not None:
                for removal in wanted.get(read.attr, ()):
                    if self._may_be(removal, read, owner, modules):
                        yield _finding(removal, file, read, function)
            elif isinstance(node, ast.Call):
                for removal in wanted.get(last_name(node.func), ()):
                    is_parameter = removal.definition.kind == "parameter"
                    if is_parameter and self._passes_parameter(removal, node, lines):
                        yield _finding(removal, file, node, function)

    def _may_be(
        self,
        missing: _MissingDefinition,
        node: ast.Attribute,
        owner: str,
        modules: Mapping[str, tuple[str, ...]],
    ) -> bool:
        """Return whether an attribute may be what is lacking."""
        definition = missing.definition
        receiver = last_name(node.value)
        if definition.kind == "name":
            return isinstance(node.value, ast.Name) and missing.file in modules.get(receiver, ())
        if definition.kind == "parameter":
            return False
        is_named = owner == definition.owner if receiver == "self" else _is_like(receiver, definition.owner)
        if missing.is_removed or definition.name in _COMMON:
            return is_named and not any_file_sets(self._sources, definition.name)
        return is_named or (receiver != "self" and not any_file_sets(self._sources, definition.name))

    def _passes_parameter(self, missing: _MissingDefinition, node: ast.Call, lines: Container[int]) -> bool:
        """Return whether a call passes the parameter, by name in one of the lines, or by position."""
        definition, position = missing.definition, missing.position
        named = any(keyword.arg == definition.name and keyword.lineno in lines for keyword in node.keywords)
        if missing.is_removed:
            sign = re.compile(rb"\b(?:def|class) %s\b" % re.escape(definition.owner.encode()))
            others = (
                file
                for file, text in self._sources.items()
                if file not in self._landing.contents and sign.search(text)
            )
            return named and next(others, None) is None
        if named or any(isinstance(argument, ast.Starred) for argument in node.args):
            return named
        return 0 <= position < len(node.args) and node.args[position].lineno in lines


def _home(base: Tree, name: str) -> str:
    """Return the file of a change's tree that defines an attribute, rather one with its class; empty if none does."""
    homes: dict[bool, str] = {}
    for file in base.files(SERVING):
        text = (base.read(file) or b"") if file.endswith(".py") else b""
        for definition in _definitions(file, text) if name.encode() in text else ():
            if definition.name == name and definition.kind != "parameter":
                homes.setdefault(bool(definition.owner), file)
    return homes.get(True) or homes.get(False, "")


def _finding(
    missing: _MissingDefinition,
    file: str,
    node: ast.ImportFrom | ast.Attribute | ast.Call,
    function: str,
) -> Finding:
    definition = missing.definition
    if missing.is_removed:
        message = f"{definition.label} is no longer in {missing.file}, since the change removes it"
        remedy = "change this use, or restore the definition"
    else:
        message = f"{definition.label} is not in {missing.file}, since the edit that adds it was not made"
        remedy = f"make that edit of {missing.file} by hand, or remove this use"
    expression = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return violation(
        _RULES[definition.kind], file, node.lineno, message, remedy, function=function, expression=expression
    )


def _nodes(node: ast.AST, function: str, owner: str) -> Iterator[tuple[str, str, ast.AST]]:
    """Yield the nodes below a node, each with the name of its function and class."""
    for child in ast.iter_child_nodes(node):
        yield function, owner, child
        inside, of = function, owner
        if isinstance(child, DEFINITIONS):
            inside = f"{function}.{child.name}".lstrip(".")
            of = child.name if isinstance(child, ast.ClassDef) else owner
        yield from _nodes(child, inside, of)


def _attribute_read(node: ast.AST) -> ast.Attribute | None:
    """Return the attribute that a node reads; an assignment such as ``+=`` reads its target."""
    target = node.target if isinstance(node, ast.AugAssign) else node
    is_read = isinstance(target, ast.Attribute) and (target is not node or isinstance(target.ctx, ast.Load))
    return target if is_read else None  # type: ignore[return-value]


def _modules(file: str, tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return the files that each imported module may be, by the name under which it is imported."""
    modules: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = imported_from(node.module, node.level, package_of(file))
            for alias in node.names if base else ():
                modules[alias.asname or alias.name] = files_of(f"{base}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.rpartition(".")[2]] = files_of(alias.name)
    return modules


def _is_like(receiver: str, owner: str) -> bool:
    """Return whether a variable is named like a class: ``server_args`` like ``ServerArgs``."""
    plain = receiver.replace("_", "").lower()
    return bool(plain) and (owner.lower().endswith(plain) or plain.endswith(owner.lower()))

"""A release that has upstream's patches, with these patches removed.

No release has the form of upstream's main branch of June 2026 without the patches; this tree does. Some
functions can be given an even earlier form of main. What each function loses is data (`backdate/*.toml`) in the
pattern language of patches: an `edit` gives the code that it matches an older form, a `drop` takes away names
that a module, a class or a function's parameters bind.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst
import msgspec
import pytest

from patchkit.codemods.examination import SiteState
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import Scope, resolve
from patchkit.codemods.language.statements import CompiledVariant, Statements
from patchkit.codemods.language.syntax import code_of
from patchkit.tree.tree import CheckoutTree, OverlayTree
from support.releases import texts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from patchkit.tree.tree import Tree
    from support.releases import Releases

FOLDER = Path(__file__).parent / "backdate"
RELEASE = "0.5.13"
LAST_FIRST = ("25002", "26824", "26738", "26128", "26241", "25925")
"""Upstream's patches in the order of removal: each one before those that it builds on."""
KEPT = ("24954", "26313", "26397", "26800", "26941", "27338", "27360", "27372")
"""Patches whose upstream form the backdated release keeps, in all parts."""
UNFIT = ("pk-accepted-tokens", "pk-head-graph", "pk-tail-graph")
"""Patches that do not apply to the backdated release."""

Node = TypeVar("Node", bound=cst.CSTNode)


class _Place(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """A place of the tree; the keys mean what they mean in a patch."""

    at: str

    @property
    def file(self) -> str:
        """The file's name below the package folder."""
        return self.at.partition("::")[0]

    @property
    def scope(self) -> str:
        """The dotted name of what is changed in it, empty for its top level."""
        return self.at.partition("::")[2]


class Edit(_Place, frozen=True, kw_only=True, tag="edit", forbid_unknown_fields=True):
    """Code is given its earlier form."""

    find: str
    code: str
    context: tuple[str, ...] = ()
    every: bool = False

    def made(self, scope: Scope) -> cst.Module:
        """Return the module with the one match, or every match, replaced."""
        variant = CompiledVariant(Pattern.compile(self.find), self.code)
        context = tuple(map(Pattern.compile, self.context))
        finding = Statements((variant,), context=context, every=self.every).examine(scope, "")
        assert finding.state is SiteState.READY, f"{self.file}: {self.scope}: {finding.reason}"
        assert finding.rewrite is not None
        return finding.rewrite()


class Drop(_Place, frozen=True, kw_only=True, tag="drop", forbid_unknown_fields=True):
    """Names are no longer bound."""

    names: tuple[str, ...]

    def made(self, scope: Scope) -> cst.Module:
        """Return the module without what binds the names in the scope."""
        dropping = _Dropping(self.names)
        changed = scope.node.visit(dropping)
        kept = set(self.names) - dropping.dropped
        assert not kept, f"{self.file}: {self.scope} does not bind {kept}"
        return scope.with_node(cast("cst.CSTNode", changed))


class Backdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The changes that undo one of upstream's patches."""

    why: str
    changes: tuple[Edit | Drop, ...] = msgspec.field(name="change")


class _Dropping(cst.CSTTransformer):
    """Remove the methods, functions, annotated attributes, parameters and imports with some names."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.names = names
        self.dropped: set[str] = set()

    def _goes(self, name: str) -> bool:
        if name in self.names:
            self.dropped.add(name)
        return name in self.names

    def _left(self, name: str, node: Node) -> Node | cst.RemovalSentinel:
        return cst.RemoveFromParent() if self._goes(name) else node

    def leave_FunctionDef(  # noqa: N802
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        return self._left(original_node.name.value, updated_node)

    def leave_AnnAssign(  # noqa: N802
        self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign
    ) -> cst.AnnAssign | cst.RemovalSentinel:
        return self._left(code_of(original_node.target), updated_node)

    def leave_Param(  # noqa: N802
        self, original_node: cst.Param, updated_node: cst.Param
    ) -> cst.Param | cst.RemovalSentinel:
        return self._left(original_node.name.value, updated_node)

    def leave_ImportFrom(  # noqa: N802
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        del original_node
        if isinstance(updated_node.names, cst.ImportStar):
            return updated_node
        kept = [alias for alias in updated_node.names if not self._goes(alias.evaluated_name)]
        if not kept or len(kept) == len(updated_node.names):
            return updated_node if kept else cst.RemoveFromParent()
        last = kept.pop().with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(names=[*kept, last])

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        del original_node
        return updated_node if updated_node.body else cst.RemoveFromParent()


def backdate(tree: Tree, patches: Sequence[str] = LAST_FIRST) -> OverlayTree:
    """Return ``tree`` without ``patches``; AssertionError if it lacks a part of one."""
    modules: dict[str, cst.Module] = {}
    for patch in patches:
        undoing = msgspec.toml.decode((FOLDER / f"{patch}.toml").read_bytes(), type=Backdate)
        for change in undoing.changes:
            source = tree.read(change.file)
            assert source is not None, f"the tree has no {change.file}"
            module = modules.get(change.file) or cst.parse_module(source)
            (scope,) = resolve(module, change.scope)
            modules[change.file] = change.made(scope)
    return OverlayTree(tree, {file: module.bytes for file, module in modules.items()})


def lay_out(tree: OverlayTree, releases: Releases, folder: Path) -> CheckoutTree:
    """Write a backdated release below ``folder``."""
    copy = releases.copy(str(tree.version), folder)
    for file, content in texts(tree).items():
        (copy.package / file).write_bytes(content)
    return copy


@pytest.fixture(scope="session")
def backdated(releases: Releases) -> OverlayTree:
    """The release without any of upstream's patches, in memory only."""
    return backdate(releases.tree(RELEASE))

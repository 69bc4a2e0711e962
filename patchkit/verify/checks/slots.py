"""Check that every backend slot which the decision about the mirror reads exists on its worker."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.tree.nodes import statements, walk
from patchkit.verify.attributes import any_file_sets, class_of, may_set
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import Class, Function
    from patchkit.verify.subject import Subject

SLOT = Rule("PV403", "backend-slot", "the decision reads a backend slot that does not exist")
_PROPERTY = "spec_v2_attn_backends"


@register("slots", "Backend slots of the decision exist", SLOT, order=50)
def check(subject: Subject) -> CheckOutcome:
    """Check each attribute that a worker's ``spec_v2_attn_backends`` reads."""
    workers = [
        cls for module in subject.program.core for cls in module.classes.values() if _PROPERTY in cls.methods
    ]
    if not workers:
        return CheckOutcome("no worker of this tree names its backends", skipped=True)
    chains = [(cls, chain) for cls in workers for chain in _chains(cls.methods[_PROPERTY])]
    findings = tuple(finding for cls, chain in chains for finding in _broken(subject, cls, chain))
    return CheckOutcome(f"{len(chains)} reads in {len(workers)} workers", findings)


def _chains(function: Function) -> list[ast.Attribute]:
    """Return the longest attribute chains that start at ``self``, or at a local assigned from such a chain."""
    inner = {id(node.value) for node in walk(function.node) if isinstance(node, ast.Attribute)}
    return [
        node
        for node in walk(function.node)
        if isinstance(node, ast.Attribute) and id(node) not in inner and isinstance(node.ctx, ast.Load)
        if _names(function, node)
    ]


def _names(function: Function, node: ast.expr) -> list[str]:
    """Return the attributes from ``self`` to the end of a chain; none if it does not start at ``self``."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return [node.attr]
        before = _names(function, node.value)
        return [*before, node.attr] if before else []
    if isinstance(node, ast.Name):
        for statement in statements(function.node):
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in statement.targets
            ):
                return _names(function, statement.value)
    return []


def _broken(subject: Subject, cls: Class, chain: ast.Attribute) -> Iterator[Finding]:
    owner: Class | None = cls
    function = cls.methods[_PROPERTY]
    for name in _names(function, chain):
        is_known = (
            may_set(subject.program, owner, name)
            if owner is not None
            else any_file_sets(subject.sources, name)
        )
        if not is_known:
            where = owner.name if owner is not None else "any class of the tree"
            yield violation(
                SLOT,
                cls.module.file,
                chain.lineno,
                f"the decision reads `{name}`, which is not an attribute of {where}",
                "read the attribute that now holds the backend",
                function=function.qualname,
                expression=ast.unparse(chain),
            )
            return
        owner = class_of(subject.program, owner, name)

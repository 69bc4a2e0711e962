"""Check that every block on a plan stream waits for the work queued before it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.tree.index import last_name
from patchkit.tree.nodes import walk
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.tree.index import Function, Module
    from patchkit.verify.subject import Subject

UNORDERED = Rule("PV405", "plan-stream-unordered", "a block on the plan stream waits for nothing before it")
_STREAM, _CONTEXT, _ORDER = "plan_stream", "plan_stream_ctx", "order_plan_stream"
_DRAFT_DONE = "_draft_done_event"


@register("streams", "Blocks on the plan stream wait", UNORDERED, order=65)
def check(subject: Subject) -> CheckOutcome:
    """Check every ``with plan_stream_ctx``: an unconditional wait must precede it or be its first statement.

    In the oldest trees with a plan stream, the host waits for the lengths after the verify, which orders the
    draft-extend.
    """
    blocks = [
        (function, block)
        for module in subject.program.modules_naming(_CONTEXT.encode())
        for function in module.all_functions()
        for block in _blocks(function)
    ]
    if not blocks:
        return CheckOutcome("no worker of this tree has a plan stream", skipped=True)
    findings = tuple(
        violation(
            UNORDERED,
            function.module.file,
            block.lineno,
            f"{function.qualname} runs on the plan stream without a wait, so it can read unwritten data",
            "patchkit apply 25925, or make the plan stream wait for the current stream before the block",
            function=function.qualname,
        )
        for function, block in blocks
        if not _waits(function.node.body, block) and not _host_waits(function.module)
    )
    return CheckOutcome(f"{len(blocks)} blocks", findings)


def _blocks(function: Function) -> Iterator[ast.With]:
    if _CONTEXT in function.source:
        for node in walk(function.node):
            if isinstance(node, ast.With) and any(
                last_name(item.context_expr) == _CONTEXT for item in node.items
            ):
                yield node


def _waits(body: Sequence[ast.AST], block: ast.With) -> bool:
    """Return whether the plan stream waits in ``body`` before ``block``, or at the start of ``block``."""
    for statement in body:
        if statement is block:
            return any(_is_wait(first) for first in block.body[:1])
        if _is_wait(statement):
            return True
        for _, part in ast.iter_fields(statement):
            inner = [child for child in part if isinstance(child, ast.AST)] if isinstance(part, list) else []
            if any(node is block for inner_node in inner for node in walk(inner_node)):
                return _waits(inner, block)
    return False


def _is_wait(statement: ast.AST) -> bool:
    """Return whether a statement makes the plan stream wait, at most under the condition that there is one."""
    if isinstance(statement, ast.If):
        return _STREAM in ast.unparse(statement.test) and any(map(_is_wait, statement.body))
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    call = statement.value
    if last_name(call.func) == _ORDER:
        return True
    waiting = isinstance(call.func, ast.Attribute) and call.func.attr in {"wait_stream", "wait_event"}
    return waiting and isinstance(call.func, ast.Attribute) and last_name(call.func.value) == _STREAM


def _host_waits(module: Module) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "wait_event"
        and any(last_name(argument) == _DRAFT_DONE for argument in node.args)
        for function in module.all_functions()
        if _DRAFT_DONE in function.source
        for node in walk(function.node)
    )

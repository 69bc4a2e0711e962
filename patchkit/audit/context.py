"""A function in one context, and the results of its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.audit.values import ABSENT, Value

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from patchkit.audit.rules import Use
    from patchkit.tree.index import Function


@dataclass(frozen=True)
class Hit:
    """A use of a value that can be None, and whether the path to it tests a mode."""

    use: Use
    node: ast.expr
    subject: ast.expr
    value: Value
    mode_checked: bool


@dataclass
class Summary:
    """The effects of a call on its caller: the result, its attributes, and writes to arguments."""

    result: Value = field(default_factory=lambda: ABSENT)
    result_fields: dict[str, Value] = field(default_factory=dict)
    writes: dict[tuple[str, str], Value] = field(default_factory=dict)
    returns: bool = False

    def facts(self) -> tuple[object, ...]:
        """Return everything that the comparison of two summaries depends on."""
        return self.result, self.result_fields, self.writes, self.returns


@dataclass(eq=False)
class Context:
    """One function for one class of ``self`` and one forward mode, with what is known of its arguments.

    ``only_models`` is whether only models, which may or may not run in such a step, call the function.
    """

    function: Function
    self_class: str | None
    step: str
    entered: bool
    entry: dict[str, Value] = field(default_factory=dict)
    entry_fields: dict[tuple[str, str], Value] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)
    hits: list[Hit] = field(default_factory=list)
    callers: dict[Context, None] = field(default_factory=dict)
    known: bool = False
    only_models: bool = False
    running: bool = False
    runs: int = 0


Fields = dict[tuple[str, str], Value]
"""Attributes of arguments, by the argument's name and the attribute's."""


@dataclass(frozen=True)
class Call:
    """A call of a method for a class of ``self``, from a context, in the steps in which it occurs."""

    caller: Context
    method: Function
    self_class: str | None
    steps: Sequence[str]

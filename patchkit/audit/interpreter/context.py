"""A function in one context, the results of its run, and the interpreter's interface to the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from patchkit.audit.interpreter.values import ABSENT, Value

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from patchkit.audit.interpreter.values import Environment
    from patchkit.audit.modes import Modes
    from patchkit.audit.rules import Use
    from patchkit.findings.finding import Step
    from patchkit.tree.index import Class, Function, Program


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


class Questions(Protocol):
    """What the interpreter needs from code outside the function that it runs."""

    @property
    def program(self) -> Program:
        """The tree."""

    @property
    def modes(self) -> Modes:
        """The tree's forward modes."""

    @property
    def forced_false(self) -> frozenset[str]:
        """Names that are false without the mirror."""

    @property
    def forced_true(self) -> frozenset[str]:
        """Names that are true without the mirror."""

    def known_outcomes(self, made: Call) -> list[Summary] | None:
        """Return the outcomes of a call that adds nothing to what is known; None if it may add something."""

    def call(self, made: Call, entry: dict[str, Value], entry_fields: Fields) -> list[Summary]:
        """Merge a call's arguments into the callee's contexts and return their outcomes; none if not followed."""

    def method_targets(
        self,
        context: Context,
        base: Value,
        function: ast.Attribute,
        arguments: Sequence[tuple[object, object, Value]],
    ) -> list[tuple[Function, str | None]]:
        """Return the functions that ``base.name(...)`` can run."""

    def is_record(self, cls: str | None) -> bool:
        """Return whether instances of a class have the mirror of a step."""

    def class_of_self(self, context: Context) -> str:
        """Return the class of ``self``."""

    def class_named(self, name: str | None) -> Class | None:
        """Return the class of that name, or None."""

    @staticmethod
    def class_of_name(name: str, hint: str | None) -> str | None:
        """Return the class that an annotation names or, without one, that a variable's name suggests."""

    def class_of_attribute(self, cls: str | None, name: str) -> str | None:
        """Return the class of an attribute."""

    def stored_modes(self, cls: str | None, name: str) -> frozenset[str] | None:
        """Return the modes that a class stores in an attribute of its own, None if it stores others too."""

    def cleared(self, cls: str | None, name: str) -> bool:
        """Return whether methods of a class other than its constructor set an attribute to None."""

    def constructor_fields(self, cls: Class) -> list[str]:
        """Return a dataclass's fields in the order of its constructor."""

    def annotated_result(self, method: Function) -> str | None:
        """Return the class in a function's return annotation."""

    def is_decision(self, function: Function) -> bool:
        """Return whether a function decides about the mirror from backend slots that can be unset."""

    def default_mirror(self, cls: str | None, name: str, step: str, where: Step) -> Value:
        """Return the value of an object's mirror if a function's callers are unknown."""

    def default_argument(self, context: Context, name: str, where: Step) -> Value:
        """Return the value of a parameter named like the mirror if no caller is known."""

    def publish(self, context: Context, cls: str | None, obj: str, env: Environment) -> None:
        """Record the contents of a draft-extend batch when the function that made it passes it on."""

    def stored_field(self, context: Context, cls: str | None, name: str) -> Value | None:
        """Return the value stored in an attribute of a class if that can be None, else None."""

    def store_field(self, cls: str, name: str, value: Value) -> None:
        """Record a value stored in an attribute."""

    def fixed_answer(self, function: ast.Attribute) -> bool | None:
        """Return what a predicate always returns without the mirror; None if it can return either."""

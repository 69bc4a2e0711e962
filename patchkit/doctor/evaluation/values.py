"""The values that an evaluation of a tree's code works with: objects of the tree, and what is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping, Sequence

    from patchkit.tree.index import Class, Function, Module

UNKNOWN_TEXT = "…"
"""The placeholder in a message for a value that is not known."""


class RaisedError(Exception):
    """The evaluated code raises, so the server does not start; ``where`` is the file and line."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(why)
        self.where = where


class UndecidedError(Exception):
    """The evaluated code needs a value that is not known; ``where`` is the file and line that needs it."""

    where = ""


def native(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Return what one of Python's own functions yields for evaluated values. Raise UndecidedError if it raises."""
    try:
        return function(*args, **named)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UndecidedError(f"{type(error).__name__}: {error}") from None


@dataclass(frozen=True)
class Unknown:
    """A value that is not known; ``name`` is the expression that yields it."""

    name: str


@dataclass(frozen=True)
class Member:
    """A member of an enum."""

    cls: Class
    name: str


@dataclass(eq=False)
class Instance:
    """An object of one of the tree's classes, or of none: the constructor's arguments, and the known attributes.

    The constructor runs when another attribute is read; what was known before it stays.
    """

    cls: Class | None
    attributes: dict[str, Any] = field(default_factory=dict)
    made_with: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
    name: str = ""
    is_new: bool = True
    known_before: frozenset[str] | None = None
    """The attributes that are known while the constructor runs; None at other times."""


@dataclass(frozen=True)
class Bound:
    """A function of the tree and, for a method, its object."""

    function: Function
    receiver: Any = None


@dataclass(frozen=True, repr=False)
class Lambda:
    """A lambda, with the frame of the function that contains it."""

    node: ast.Lambda
    frame: CallFrame


@dataclass(frozen=True, repr=False)
class NestedFunction:
    """A nested function, with the frame of the function that defines it."""

    function: Function
    frame: CallFrame


@dataclass(eq=False)
class CallFrame:
    """The evaluation of a function."""

    module: Module
    owner: Class | None
    names: dict[str, Any]
    yielded: list[Any]
    function: Function | None = None

    @property
    def itself(self) -> str:
        """The name of the first parameter, empty if there is none."""
        return (
            self.function.parameters[0].arg if self.function is not None and self.function.parameters else ""
        )

    @cached_property
    def is_constructing(self) -> bool:
        """Whether it has an object in construction, of which a value that is not known leaves an attribute unknown."""
        return any(
            isinstance(value, Instance) and value.known_before is not None for value in self.names.values()
        )


@dataclass(frozen=True)
class ReturnedValue:
    """The value with which a block returns."""

    value: Any


def message(kind: str, texts: Sequence[str]) -> str:
    """Return the message of an exception."""
    text = " ".join(texts)
    return f"{kind}: {text}" if text.replace(UNKNOWN_TEXT, "").strip() else kind


def is_plain(value: Any) -> bool:
    """Return whether a value is a text, a number, None, or a collection of these."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_plain, value))
    return isinstance(value, (str, int, float, type(None)))


def label(value: Any) -> str:
    """Return the name of a value in a question."""
    if isinstance(value, Unknown):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(label, value))}]"
    plain = isinstance(value, (str, int, float, type(None)))
    return getattr(value, "name", "") or (repr(value) if plain else type(value).__name__)

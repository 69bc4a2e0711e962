"""What becomes of a server on a tree: whether it keeps the mirror, and the backends that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.doctor.evaluation.values import RaisedError


Answers: TypeAlias = dict[str, bool]
"""What is assumed of a model: the truth of each fact about it."""
Outcomes: TypeAlias = "list[tuple[Answers, ServerOutcome]]"
"""A launch's outcomes, each with what is assumed of the model."""


def agree(model: Answers, other: Answers) -> bool:
    """Return whether what is assumed of a model is assumed of another one, as far as that is asked about there."""
    return all(other.get(fact, answer) is answer for fact, answer in model.items())


@dataclass(frozen=True)
class Role:
    """A backend that a server's forwards use: its role, its name, and its class."""

    role: str
    name: str
    cls: str
    reads: bool


@dataclass(frozen=True)
class Reader:
    """What keeps the mirror beside the backends, and why: a `Reader` of the runtime in the server's decision."""

    name: str
    why: str


@dataclass
class ServerOutcome:
    """The diagnosis of a server with one kind of model; ``refused`` is the error that its decision or a backend raises.

    ``answer`` is the value of the tree's own decision, None if the tree has none. ``setting`` returns a setting after
    the start, ``condition.UNKNOWN`` for a value that is not known before it. ``worker`` is the class of the draft
    worker of a server without the overlap schedule, empty if it is not known.
    """

    kept: bool
    overlap: bool = True
    decided: bool = True
    forced: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    readers: tuple[Reader, ...] = ()
    unnamed: bool = False
    refused: RaisedError | None = None
    answer: bool | None = None
    setting: Callable[[str], Any] = lambda _: None
    worker: str = ""

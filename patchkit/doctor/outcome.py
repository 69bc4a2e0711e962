"""What becomes of a server on a tree: whether it starts and keeps the mirror, and the backends that it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.doctor.launch import Refusal


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
class Outcome:
    """The diagnosis of a server with one kind of model; ``refused`` is the error with which it ends.

    ``answer`` is the value of the tree's own decision, None if the tree has none. ``settled`` are the settings after
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
    refused: Refusal | None = None
    answer: bool | None = None
    settled: Mapping[str, Any] = field(default_factory=dict)
    worker: str = ""

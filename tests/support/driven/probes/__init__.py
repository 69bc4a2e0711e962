"""Probes: each module drives one part of sglang inside a tree and returns plain Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Probe = TypeVar("Probe", bound="Callable[..., Any]")


def repeatable(probe: Probe) -> Probe:
    """Have one process answer consecutive requests for a probe, which leaves nothing there that another would see."""
    setattr(probe, "repeatable", True)  # noqa: B010 - a function has no such attribute for mypy.
    return probe

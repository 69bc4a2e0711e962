"""Find the backend whose kernels run a verify, inside the wrappers around it."""

from __future__ import annotations

from typing import TypeVar

from .overlap import verify_side

_Backend = TypeVar("_Backend")

# The attributes in which wrappers keep the backend with full attention: beside linear attention, in two-batch overlap
# the one for the whole batch, and beside sparse attention.
_WRAPPED = ("full_attn_backend", "primary", "dense")


def verifier(backend: _Backend) -> _Backend:
    """Return the backend that attends in a verify, inside any nesting of hybrids and wrappers."""
    passed: list[_Backend] = []
    while True:
        side = verify_side(backend)
        inner: _Backend | None = next(
            (found for name in _WRAPPED if (found := getattr(side, name, None)) is not None), None
        )
        passed += [backend, side]
        # A wrapper may contain one that is around it.
        if inner is None or any(inner is each for each in passed):
            return side
        backend = inner


def splits_batches(backend: object) -> bool:
    """Return whether a backend is two-batch overlap's, which splits a verify's mask by the requests' lengths."""
    return getattr(backend, "primary", None) is not None

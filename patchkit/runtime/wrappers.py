"""A verify's mask belongs to the backend whose kernels attend, however many others are wrapped around it."""

from __future__ import annotations

from typing import TypeVar

from .overlap import verify_side

_Backend = TypeVar("_Backend")

# What a backend that hands forwards on calls the one that attends with full attention: beside linear attention, of the
# whole batch in two-batch overlap, beside sparse attention.
_WRAPPED = ("full_attn_backend", "primary", "dense")


def verifier(backend: _Backend) -> _Backend:
    """Return the backend that attends in a verify, through hybrids and wrappers in whatever order they are nested."""
    passed: list[_Backend] = []
    while True:
        side = verify_side(backend)
        inner: _Backend | None = next(
            (found for name in _WRAPPED if (found := getattr(side, name, None)) is not None), None
        )
        passed += [backend, side]
        # A wrapper may lead back to one around it.
        if inner is None or any(inner is each for each in passed):
            return side
        backend = inner


def splits_batches(backend: object) -> bool:
    """Tell whether a backend is two-batch overlap's, which splits a verify's mask at its requests' lengths."""
    return getattr(backend, "primary", None) is not None

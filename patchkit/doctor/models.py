"""Name the kinds of model for which a server has an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def named(models: Sequence[Mapping[str, bool]]) -> str:
    """Return a clause that names the models: the smallest sets of facts among them."""
    held = [frozenset(fact for fact, so in each.items() if so) for each in models]
    least = [each for each in held if not any(other < each for other in held)]
    *others, last = sorted({" and ".join(sorted(each)) for each in least})
    names = f"{', '.join(others)} or {last}" if others else last
    return f"for models or drafts with {names}"


def unless_usual(models: Sequence[Mapping[str, bool]]) -> str:
    """Return a clause that names the models, an empty text if the usual model is among them."""
    return named(models) if all(any(model.values()) for model in models) else ""

"""Name the kinds of model for which a server has an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def named(models: Sequence[Mapping[str, bool]]) -> str:
    """Return a clause that names the models: the smallest sets of facts among them."""
    true_facts = [frozenset(fact for fact, answer in each.items() if answer) for each in models]
    least = [each for each in true_facts if not any(other < each for other in true_facts)]
    *others, last = sorted({" and ".join(sorted(each)) for each in least})
    names = f"{', '.join(others)} or {last}" if others else last
    return f"for models or drafts with {names}"


def unless_usual(models: Sequence[Mapping[str, bool]]) -> str:
    """Return a clause that names the models, an empty text if the usual model is among them."""
    return named(models) if all(any(model.values()) for model in models) else ""

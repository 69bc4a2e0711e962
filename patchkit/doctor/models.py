"""Name the kinds of model for which a server has an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.doctor.phrases import listed
from patchkit.doctor.questions import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_GPU = " GPU"


def named(models: Sequence[Mapping[str, bool]]) -> str:
    """Return a clause that names the models: the smallest sets of facts among them."""
    true_facts = [frozenset(fact for fact, answer in model.items() if answer) for model in models]
    least = [facts for facts in true_facts if not any(other < facts for other in true_facts)]
    kinds: dict[str, dict[tuple[str, ...], set[str]]] = {}
    for facts in dict.fromkeys(least):
        gpu = next((fact for fact in facts if fact.endswith(_GPU)), "")
        architecture = tuple(sorted(facts & ARCHITECTURES))
        features = kinds.setdefault(gpu, {}).setdefault(architecture, set())
        features.add(_together(sorted(facts - ARCHITECTURES - {gpu})))
    return " and ".join(_of_models(models, gpu) for gpu, models in sorted(kinds.items()))


def _of_models(groups: Mapping[tuple[str, ...], Collection[str]], gpu: str) -> str:
    kinds = [
        " ".join(
            filter(
                None,
                (
                    f"of {listed(key)}" if key else "",
                    f"with {listed(sorted(features), 'or')}" if any(features) else "",
                ),
            )
        )
        for key, features in sorted(groups.items())
    ]
    models = f"for models or drafts {', or '.join(kinds)}" if any(kinds) else ""
    return " ".join(filter(None, (models, f"on {gpu}" if gpu else "")))


def _together(facts: Sequence[str]) -> str:
    return f"{'both ' if len(facts) == 2 else ''}{listed(facts)}"


def limits(freed: Sequence[Mapping[str, bool]], kept: Sequence[Mapping[str, bool]]) -> str:
    """Return in brackets for which models a remedy works if there are others, ``kept``; empty if there are none."""
    if not kept:
        return ""
    unless = unless_usual(kept)
    return f" (except {unless})" if unless else f" (only {named(freed)})"


def unless_usual(models: Sequence[Mapping[str, bool]]) -> str:
    """Return a clause that names the models, an empty text if the usual model is among them."""
    return named(models) if all(any(model.values()) for model in models) else ""

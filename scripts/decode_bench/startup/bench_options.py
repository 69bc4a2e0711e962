"""Pass a setting to each release under that release's name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# The name in the oldest release with the setting: names in later ones.
RENAMED = {
    "cuda_graph_max_bs": ("cuda_graph_max_bs_decode",),
    "disable_piecewise_cuda_graph": ("disable_prefill_cuda_graph",),
    "piecewise_cuda_graph_max_tokens": ("cuda_graph_max_bs_prefill",),
    "mamba_scheduler_strategy": ("mamba_radix_cache_strategy",),
}


def adapted(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the options under names in ``known``. Raise ValueError for one that the release does not have."""
    found = {}
    for name, value in options.items():
        present = next((each for each in (name, *RENAMED.get(name, ())) if each in known), None)
        if present is None and value is not None:
            raise ValueError(f"This release has no setting {name}: leave the scenario out for it.")
        if present is not None:
            found[present] = value
    return found

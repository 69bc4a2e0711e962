"""What patched sglang code imports at serving time; every ``api_N`` here keeps its names and meanings for good.

A patched tree says ``from patchkit.runtime import api_N``. A runtime too old to have that ``api_N`` fails right there.
"""

from __future__ import annotations

NEWEST_API = 1


def __getattr__(name: str) -> object:
    if name.startswith("api_") and name.removeprefix("api_").isdigit():
        raise ImportError(
            f"this sglang tree was patched for runtime {name} and the patchkit installed here ends at api_{NEWEST_API}: "
            "type `pip install --upgrade 'sglang-patchkit[runtime]'`, or revert the tree."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What patched sglang code imports at serving time; every ``api_N`` keeps its names and meanings for good.

A patched tree says ``from patchkit.runtime import api_N``; a runtime too old to have that fails right there.
"""

from __future__ import annotations

import importlib

NEWEST_API = 1


def __getattr__(name: str) -> object:
    number = name.removeprefix("api_")
    if name == number or not number.isdigit():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if int(number) <= NEWEST_API:
        # Python asks here before it looks for a submodule of that name.
        return importlib.import_module(f"{__name__}.{name}")
    raise ImportError(
        f"this sglang tree was patched for runtime {name} and the patchkit installed here ends at "
        f"api_{NEWEST_API}: type `pip install --upgrade 'sglang-patchkit[runtime]'`, or revert the tree."
    )

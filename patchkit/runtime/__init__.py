"""What patched sglang code imports at serving time; a name of an ``api_N`` never changes its meaning.

A patched tree has ``from patchkit.runtime import api_N``, which raises ImportError in a runtime that is too old.
"""

from __future__ import annotations

import importlib

NEWEST_API = 1


def __getattr__(name: str) -> object:
    number = name.removeprefix("api_")
    if name == number or not number.isdigit():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if int(number) <= NEWEST_API:
        # Python calls this before it looks for a submodule of that name.
        return importlib.import_module(f"{__name__}.{name}")
    raise ImportError(
        f"this sglang tree was patched for runtime {name}, but the installed patchkit provides only up to "
        f"api_{NEWEST_API}: run `pip install --upgrade 'sglang-patchkit[runtime]'`, or revert the patches."
    )

"""The kinds of edit, one a module; modules in this package register themselves."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from patchkit.codemods.kind import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


def _below(base: type[Kind]) -> Iterator[type[Kind]]:
    for kind in base.__subclasses__():
        yield from _below(kind)
        if kind.__module__.startswith(f"{__name__}."):
            yield kind


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

KINDS: dict[str, type[Kind]] = dict(sorted((str(kind.__struct_config__.tag), kind) for kind in _below(Kind)))
"""Every kind of edit by its name in patch files."""

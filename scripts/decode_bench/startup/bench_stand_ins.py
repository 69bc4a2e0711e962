"""Provide empty modules for packages that sglang imports but a text-only engine does not call.

The bundle leaves them out, since they are large or have many dependencies.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import itertools
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT_OUT = frozenset(
    {
        "blobfile",
        "datasets",
        "modelscope",
        "outlines",
        "smg_grpc_servicer",
        "soundfile",
        "torchao",
        "watchfiles",
        "xgrammar",
    }
)
# Environment variable: further packages, separated by commas.
FURTHER = "PATCHKIT_BENCH_STAND_INS"


class _Open(type):
    """A class with any attribute: for names of enumerations, decorators, parameters."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{cls.__name__}.{name}")

    def __getitem__(cls, item: object) -> type:
        return cls


class _StandIn(ModuleType):
    # A package, so that its submodules are found too; newer than any minimum that is asked for.
    __path__: list[str] = []  # noqa: RUF012 (the import system reads it off the module)
    __version__ = "999.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any = MagicMock(name=f"{self.__name__}.{name}")
        if name == "StructuralTag":
            # Annotates a field of a pydantic model, which must be able to validate it.
            value = dict
        elif name[0].isupper():
            value = _Open(name, (), {})
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        # `cuda.tile` is a package of its own, and `cuda` another that is there.
        if self._names.isdisjoint(itertools.accumulate(fullname.split("."), "{}.{}".format)):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """Provide the packages of `LEFT_OUT` and those in `FURTHER`, unless the real ones are installed."""
    sys.meta_path.append(_Finder(LEFT_OUT | frozenset(filter(None, os.environ.get(FURTHER, "").split(",")))))

"""Import a tree's TRTLLM MHA backend from its source, with stubs for the rest of sglang.

Metadata code needs only torch and Triton, so that a tree's own methods run without a server's dependencies.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_MHA = "sglang.srt.layers.attention.trtllm_mha_backend"
_MODES = "sglang.srt.model_executor.forward_batch_info"
# Imported from the tree; a tree may lack one of them.
REAL = (
    _MHA,
    _MODES,
    "sglang.srt.layers.attention.utils",
)


@dataclass(frozen=True)
class TreeModules:
    """The modules and classes of a tree that the benchmark uses."""

    mha: type
    modes: Any


class _Nothing:
    """A stub for what a module imports but metadata code does not call: base classes, decorators, checks."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        return super().__new__(cls)

    def __init_subclass__(cls, **_kwargs: Any) -> None: ...

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args: Any, **_kwargs: Any) -> Any:
        return args[0] if args else self


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Nothing,), {})


class _Finder(MetaPathFinder, Loader):
    def __init__(self, package: Path) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] != self._package.name:
            return None
        source = self._package.parent / Path(*fullname.split(".")).with_suffix(".py")
        if fullname in REAL and source.is_file():
            return spec_from_file_location(fullname, source)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


@contextmanager
def _only(package: Path) -> Iterator[None]:
    """Provide the modules of ``package`` in the body, and remove them afterwards."""
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
            del sys.modules[name]


def import_tree(path: Path) -> TreeModules:
    """Import the backend of the tree at ``path``: a checkout, its ``python`` folder, or the package."""
    for package in (path / "python" / "sglang", path / "sglang", path):
        if package.name == "sglang" and (package / "srt").is_dir():
            break
    else:
        raise click.UsageError(f"{path} contains no sglang package: name a checkout or a package folder.")
    with _only(package.resolve()):
        mha = importlib.import_module(_MHA).TRTLLMHAAttnBackend
        return TreeModules(mha, importlib.import_module(_MODES).ForwardMode)

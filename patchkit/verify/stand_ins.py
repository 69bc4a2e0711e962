"""Run as a program: imports modules of a tree with stand-ins for packages that are not installed.

Reads ``{"path": folder, "modules": [name]}`` on stdin. Writes
``{"errors": {module: [line, text]}, "absent": [package]}`` to the file descriptor that its argument names, so that
nothing that the modules print is taken for it. They get no network.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import traceback
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # Of Linux's unshare.
_CONTACTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOK_UPS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
# Libraries ask for these by distribution and take their absence as an answer.
_STAY_ABSENT = frozenset({"flash_attn", "torchcodec", "patchkit"})


class _Meta(type):
    """Lets a stand-in class be called, subscripted, compared and asked for any attribute, as a class."""

    def __getattr__(cls, name: str) -> Any:
        if name == "__get_pydantic_core_schema__":
            return lambda *_: {"type": "any"}
        if name.startswith("__") and name != "__func__":
            raise AttributeError(name)
        return _stand_in(f"{cls.__qualname__}.{name}")

    def __getitem__(cls, key: object) -> Any:
        return cls

    def __setitem__(cls, key: object, value: object) -> None:
        pass

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __or__(cls, other: object) -> Any:
        return cls

    def __ror__(cls, other: object) -> Any:
        return cls

    def __lt__(cls, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


def _stand_in(name: str) -> Any:
    """Return a class that serves as a base, a decorator or a value."""

    def new(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        if name.endswith(".dumps"):
            return b""
        # Called as a decorator it hands back what it decorates.
        if cls is made and len(arguments) == 1 and not keywords and callable(arguments[0]):
            return arguments[0]
        return object.__new__(cls) if cls is not made else made

    members = {
        "__new__": new,
        "__init__": lambda self, *a, **k: None,
        "__init_subclass__": classmethod(lambda cls, **k: None),
        "__qualname__": name,
    }
    made: Any = _Meta(name.rpartition(".")[2], (), members)
    return made


class _Module(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _stand_in(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds, after every other finder, what is not installed at all; a package that is there is as it is."""

    def __init__(self, *own: str) -> None:
        self._own = own
        self.absent: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a package that is not installed, or a part of one."""
        package = fullname.partition(".")[0]
        if (
            package in {*_STAY_ABSENT, *self._own}
            or package in sys.stdlib_module_names
            or package.startswith("_")
        ):
            return None
        if package not in self.absent and ("." in fullname or not _asked_by(self._own)):
            return None
        self.absent.add(package)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return an empty stand-in."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the stand-in as it is."""


def _asked_by(own: Sequence[str]) -> bool:
    """Tell whether the tree's own code imports; a library takes the absence of what it can use as an answer."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).partition(".")[0] in own


def _described(error: BaseException, module: str) -> tuple[int, str]:
    """Return the line of ``module`` on which the error came through, and the error's first line."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_globals.get("__name__") == module]
    said = str(error).strip().splitlines()
    return lines[-1] if lines else 1, f"{type(error).__name__}: {said[0] if said else ''}"


def _cut_off() -> None:
    """Leave the network: for all code where the system lets a process do so, for Python's own sockets anywhere."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK | (_NEW_USER if os.geteuid() else 0))

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        # The address of a socket of this machine's own is a path.
        if event in _LOOK_UPS or (event in _CONTACTS and isinstance(arguments[1], tuple)):
            raise PermissionError(f"{event}: modules that are imported for a check get no network")

    sys.addaudithook(refuse)


def main() -> None:
    """Import what stdin names."""
    channel = os.dup(int(sys.argv[1]))  # Which programs that the modules start do not inherit.
    os.close(int(sys.argv[1]))
    request = json.load(sys.stdin)
    _cut_off()
    sys.path.insert(0, request["path"])
    finder = Finder(*{name.partition(".")[0] for name in request["modules"]})
    sys.meta_path.append(finder)
    errors = {}
    for name in request["modules"]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            errors[name] = _described(error, name)
    with open(channel, "w", encoding="utf-8") as answer:
        json.dump({"errors": errors, "absent": sorted(finder.absent)}, answer)


if __name__ == "__main__":
    main()

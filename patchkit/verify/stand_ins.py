"""Import modules of a tree with stand-ins for packages that are not installed; run as a program.

Reads ``{"path": folder, "modules": [name], "contents": {path: source}}`` from stdin; the contents, bytes as Latin-1,
are imported in place of these files' own.
Writes ``{"errors": {module: [line, text]}, "absent": [package]}`` to the file descriptor that its first argument names,
so that output of the modules cannot be mistaken for it.
The second argument is the read end of a pipe whose write end the parent keeps open, the third a number of seconds: when
the parent or the time has ended, the process group is killed.
The modules get no network access.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import select
import signal
import sys
import traceback
import types
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # Flags of Linux's unshare.
_CONTACTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_NAME_LOOKUPS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
# Libraries look these up as distributions and handle their absence.
_STAY_ABSENT = frozenset({"flash_attn", "torchcodec", "patchkit"})


class Meta(type):
    """Metaclass of stand-ins: a class that can be called, subscripted, compared and has any attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name == "__get_pydantic_core_schema__":
            return lambda *_: {"type": "any"}
        if name.startswith("__") and name != "__func__":
            raise AttributeError(name)
        return stand_in(f"{cls.__qualname__}.{name}")

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


def stand_in(name: str) -> Any:
    """Return a class that serves as a base, a decorator or a value."""

    def new(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        if name.endswith(".dumps"):
            return b""
        # Used as a decorator, it returns what it decorates.
        if cls is made and len(arguments) == 1 and not keywords and callable(arguments[0]):
            return arguments[0]
        return object.__new__(cls) if cls is not made else made

    members = {
        "__new__": new,
        "__init__": lambda self, *a, **k: None,
        "__init_subclass__": classmethod(lambda cls, **k: None),
        "__qualname__": name,
    }
    made: Any = Meta(name.rpartition(".")[2], (), members)
    return made


class AnyName(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = stand_in(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not installed, after every other finder; installed packages are imported as usual."""

    def __init__(self, *own: str, absent: Collection[str] = ()) -> None:
        self._own = own
        self._without = {*_STAY_ABSENT, *own, *absent}
        self.absent: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a package that is not installed, or for a submodule of one."""
        package = fullname.partition(".")[0]
        if package in self._without or package in sys.stdlib_module_names or package.startswith("_"):
            return None
        if package not in self.absent and ("." in fullname or not _is_imported_by(self._own)):
            return None
        self.absent.add(package)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return an empty stand-in."""
        return AnyName(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the stand-in empty."""


def _is_imported_by(own: Sequence[str]) -> bool:
    """Return whether the tree's own code imports; libraries handle the absence of optional packages."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).partition(".")[0] in own


def _description(error: BaseException, module: str) -> tuple[int, str]:
    """Return the line of ``module`` in the error's traceback, and the error's first line."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_globals.get("__name__") == module]
    message = str(error).strip().splitlines()
    return lines[-1] if lines else 1, f"{type(error).__name__}: {message[0] if message else ''}"


def disable_network() -> None:
    """Disable the network: for the process where the system allows it, and for Python's sockets everywhere."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK | (_NEW_USER if os.geteuid() else 0))

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        # The address of a Unix socket is a path, not a tuple.
        if event in _NAME_LOOKUPS or (event in _CONTACTS and isinstance(arguments[1], tuple)):
            raise PermissionError(f"{event}: modules imported by a check have no network access")

    sys.addaudithook(refuse)


def replace_code(contents: Mapping[str, str]) -> None:
    """Import the sources in ``contents`` in place of the files with these paths."""
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> types.CodeType | None:
        source = contents.get(loader.path)
        return (
            plain(loader, name) if source is None else compile(source.encode("latin-1"), loader.path, "exec")
        )

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def limit(lifeline: int, seconds: int) -> None:
    """Start a process that kills this process group when the parent ends, or after a number of seconds.

    A thread could not do it: a module's regular expression, for example, may never release the interpreter's lock.
    """
    if os.fork() == 0:
        waiting = select.poll()
        waiting.register(lifeline, 0)  # poll always reports the end of the parent.
        waiting.poll(seconds * 1000)
        os.killpg(0, signal.SIGKILL)
    os.close(lifeline)


def main() -> None:
    """Import the modules that stdin names."""
    limit(int(sys.argv[2]), int(sys.argv[3]))
    channel = os.dup(int(sys.argv[1]))  # Child processes of the modules do not inherit it.
    os.close(int(sys.argv[1]))
    request = json.load(sys.stdin)
    disable_network()
    # Modules install uvloop's policy when they are imported; a stand-in for it is not a policy.
    asyncio.set_event_loop_policy = lambda policy: None
    replace_code(request["contents"])
    sys.path.insert(0, request["path"])
    finder = Finder(*{name.partition(".")[0] for name in request["modules"]})
    sys.meta_path.append(finder)
    errors = {}
    for name in request["modules"]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            errors[name] = _description(error, name)
    with open(channel, "w", encoding="utf-8") as answer:
        json.dump({"errors": errors, "absent": sorted(finder.absent)}, answer)


if __name__ == "__main__":
    main()

"""Run as a program: runs probes inside a tree, each in a process of its own, so that no state remains.

``worker.py HANDLE FOLDER`` imports the modules common to all trees and receives, over the socket ``HANDLE``,
trees with a connection's handle each: a fork serves each tree, and its process id is the answer. A process id
alone requests that fork's exit status. ``FOLDER`` caches the compiled sources of trees.

A request is a probe's name, a list of arguments, positional and named, and whether to observe it; its answer is
``("answers", [answer])``, ``("error", (type, message, traceback))`` or ``("died", exit status)``. The imports of a
probe's module are made once; a fork then serves each request, so that neither globals nor patched attributes reach the
next one. A probe marked `repeatable` leaves none that it would see, so one fork serves consecutive requests for it.
"""

from __future__ import annotations

import _imp
import functools
import gc
import hashlib
import importlib
import importlib.util
import io
import marshal
import os
import pickle
import re
import socket
import sys
import tempfile
import traceback
from importlib.machinery import FileFinder, SourceFileLoader
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


# Of other packages, what every tree imports at length, and what Triton imports in the fork that interprets a kernel.
_COMMON = (
    *("PIL.Image", "PIL.ImageOps", "msgspec.json", "numpy.typing", "pydantic.json_schema", "pydantic.types"),
    *("requests", "safetensors.torch", "triton.language", "yaml"),
    *("triton.compiler.code_generator", "triton.experimental.gluon"),
    *("torch.distributed.tensor", "torch._inductor.compile_fx", "torch.utils.cpp_extension"),
)

_COMPILED = ".code"


def _prepare() -> None:
    """Let this process import sglang without a GPU, on one thread, which forks cleanly."""
    os.environ |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    from patchkit.verify.stand_ins import Finder

    # Later releases take from it a type of torch's, and its absence as an answer.
    sys.modules["nixl_ep"] = None  # type: ignore[assignment]
    # What it compiles at import is of the standard library's language.
    sys.modules.setdefault("regex", re)
    finder = Finder("sglang")
    sys.meta_path.append(finder)
    if importlib.util.find_spec("transformers") is None:
        finder.absent.add("transformers")
        # Later releases add to a configuration's validators.
        importlib.import_module("transformers").PretrainedConfig.__class_validators__ = []
    import torch

    torch.set_num_threads(1)


class _Loader(SourceFileLoader):
    """Compiles a source once for all trees that contain it, under any path."""

    compiled: Path
    known: dict[Path, CodeType] = {}  # noqa: RUF012 - of the process, as the folder is.

    @classmethod
    def read(cls) -> None:
        """Read what was compiled since the last time: a fork has in memory what its parent has read."""
        for kept in cls.compiled.glob(f"*{_COMPILED}"):
            if kept not in cls.known:
                cls.known[kept] = marshal.loads(kept.read_bytes())

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.get_filename(fullname))
        kept = self.compiled / f"{hashlib.blake2b(source, digest_size=16).hexdigest()}{_COMPILED}"
        code = self.known.get(kept)
        if code is None:
            code = self.source_to_code(source, self.path)
            with tempfile.NamedTemporaryFile(dir=self.compiled, delete=False) as fresh:
                marshal.dump(code, fresh)
            os.rename(fresh.name, kept)
        # In place, as importlib does with byte code that was compiled elsewhere: each tree has a process of its own.
        _imp._fix_co_filename(code, self.path)  # type: ignore[attr-defined]
        return code


def _enter(tree: str) -> None:
    """Make ``import sglang`` import the package of ``tree``."""

    def finder(folder: str) -> FileFinder:
        if not Path(folder).is_relative_to(tree):
            raise ImportError(folder)
        return FileFinder(folder, (_Loader, [".py"]))

    sys.path_hooks.insert(0, finder)
    sys.path.insert(0, tree)


def _find(probe: str, *, observe: bool) -> Callable[..., Any]:
    module, _, name = probe.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"probes.{module}"), name)
    return functools.partial(importlib.import_module("observation").observed, found) if observe else found


def _error(error: BaseException) -> tuple[str, Any]:
    return "error", (type(error).__name__, str(error), traceback.format_exc())


class _Pickler(pickle.Pickler):
    """Rejects objects that only a process with torch can unpickle."""

    def reducer_override(self, value: Any) -> Any:
        if type(value).__module__.partition(".")[0] not in sys.stdlib_module_names:
            raise TypeError(f"a probe answers in plain Python, not with {type(value).__name__}")
        return NotImplemented


def _pickled(answer: tuple[str, Any]) -> bytes:
    sink = io.BytesIO()
    _Pickler(sink).dump(answer)
    return sink.getvalue()


def _answer(probe: Callable[..., Any], requests: list[Any]) -> bytes:
    environment = os.environ.copy()
    try:
        return _pickled(("answers", [probe(*given, **named) for given, named in requests]))
    except BaseException as error:
        return _pickled(_error(error))
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


class _Fork:
    """A process that answers requests for one probe until it is ended."""

    def __init__(self, probe: Callable[..., Any]) -> None:
        self.probe = probe
        self.status: int | None = None
        gc.freeze()
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._connection.close()
                while True:
                    answer = _answer(probe, theirs.recv())
                    sys.stdout.flush()
                    sys.stderr.flush()
                    theirs.send_bytes(answer)
            finally:
                os._exit(0)
        theirs.close()

    def ask(self, requests: list[Any]) -> bytes:
        try:
            self._connection.send(requests)
            return self._connection.recv_bytes()
        except (EOFError, ConnectionError):
            self.end()
            return _pickled(("died", self.status))

    def end(self) -> None:
        if self.status is None:
            self._connection.close()
            _, status = os.waitpid(self._pid, 0)
            self.status = os.waitstatus_to_exitcode(status)


class _Forks:
    """Keeps the process that answered for a repeatable probe until another probe is asked."""

    def __init__(self) -> None:
        self._kept: _Fork | None = None
        self._compared: set[Callable[..., Any]] = set()

    def ask(self, probe: Callable[..., Any], requests: list[Any]) -> bytes:
        kept = self._kept
        if kept is not None and kept.probe is probe and kept.status is None:
            answer = kept.ask(requests)
            if probe not in self._compared:
                self._compared.add(probe)
                _compare(probe, requests, answer)
            return answer
        if kept is not None:
            kept.end()
        self._kept = fork = _Fork(probe)
        answer = fork.ask(requests)
        if not hasattr(probe, "repeatable"):
            fork.end()
        return answer


def _compare(probe: Callable[..., Any], requests: list[Any], answer: bytes) -> None:
    """Raise an exception unless a new process gives the same answer as one that has answered before."""
    fork = _Fork(probe)
    (kind, answered), (expected_kind, expected) = map(pickle.loads, (answer, fork.ask(requests)))
    fork.end()
    if kind != expected_kind or (kind == "answers" and answered != expected):
        raise AssertionError(
            f"{probe.__name__} is not repeatable: its process answers otherwise than a new one"
        )


def _serve(connection: Connection) -> None:
    """Answer until the connection is closed."""
    forks = _Forks()
    while True:
        try:
            name, requests, observe = connection.recv()
        except EOFError:
            return
        try:
            answer = forks.ask(_find(name, observe=observe), requests)
        except BaseException as error:
            answer = _pickled(_error(error))
        connection.send_bytes(answer)


def _fork_for_each(trees: socket.socket) -> None:
    """Fork a process for each tree that is requested, until the connection is closed."""
    for name in _COMMON:
        importlib.import_module(name)
    importlib.import_module("interpreter").hasten()
    while True:
        message, handles, _, _ = socket.recv_fds(trees, os.pathconf("/", "PC_PATH_MAX"), 1)
        if not message:
            return
        if not handles:
            _, status = os.waitpid(int(message), 0)
            trees.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        _Loader.read()
        gc.freeze()
        child = os.fork()
        if child == 0:
            trees.close()
            _enter(os.fsdecode(message))
            _serve(Connection(handles[0]))
            return
        os.close(handles[0])
        trees.send(str(child).encode())


def main() -> None:
    """Serve trees, each in a process of its own."""
    # What a tree imports is there to stay, and nothing else lives long; collections would take a tenth of the time.
    gc.disable()
    handle, compiled = sys.argv[1:]
    _Loader.compiled = Path(compiled)
    _prepare()
    _fork_for_each(socket.socket(fileno=int(handle)))


if __name__ == "__main__":
    main()

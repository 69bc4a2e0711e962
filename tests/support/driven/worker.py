"""Run as a program: runs probes inside a tree, each in a process of its own, so that no state remains.

``worker.py HANDLE FOLDER`` imports the modules common to all trees and receives, over the socket ``HANDLE``,
trees with a connection's handle each: a fork serves each tree, and its process id is the answer. A process id
alone requests that fork's exit status. ``FOLDER`` caches the compiled sources of trees.

A request is a probe's name and a list of arguments, positional and named; its answer is ``("answers",
[answer])``, ``("error", (type, message, traceback))`` or ``("died", exit status)``. The imports of a probe's
module are made once; a fork then serves each request, so that neither globals nor patched attributes reach the
next one.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib
import importlib.util
import io
import itertools
import marshal
import os
import pickle
import re
import socket
import sys
import tempfile
import traceback
from importlib.machinery import FileFinder, SourceFileLoader
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


# Of other packages, what every tree imports at length, and what Triton imports in the fork that interprets a kernel.
_COMMON = (
    *("PIL.Image", "numpy", "pydantic", "requests", "safetensors.torch", "triton.language"),
    *("triton.compiler.code_generator", "triton.experimental.gluon"),
    *("torch.distributed.tensor", "torch._inductor.compile_fx", "torch.utils.cpp_extension"),
)

# Of Linux: the size of a huge page, and the advice to make such of what is there.
_HUGE, _COLLAPSE = 1 << 21, 25
# Requests after which a tree is expected to get as many again, which pays for that advice.
_MANY = 100


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


def _placed(code: CodeType, path: str) -> CodeType:
    """Return code as if it were compiled from the file at ``path``."""
    inner = tuple(_placed(each, path) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=path, co_consts=inner)


class _Loader(SourceFileLoader):
    """Compiles a source once for all trees that contain it, under any path."""

    compiled: Path

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.get_filename(fullname))
        kept = self.compiled / hashlib.blake2b(source, digest_size=16).hexdigest()
        try:
            code: CodeType = marshal.loads(kept.read_bytes())
        except FileNotFoundError:
            code = self.source_to_code(source, self.path)
            with tempfile.NamedTemporaryFile(dir=self.compiled, delete=False) as fresh:
                marshal.dump(code, fresh)
            os.rename(fresh.name, kept)
        return _placed(code, self.path)


def _enter(tree: str) -> None:
    """Make ``import sglang`` import the package of ``tree``."""

    def finder(folder: str) -> FileFinder:
        if not Path(folder).is_relative_to(tree):
            raise ImportError(folder)
        return FileFinder(folder, (_Loader, [".py"]))

    sys.path_hooks.insert(0, finder)
    sys.path.insert(0, tree)
    # Compiled from these at serving time; their absence fails at import.
    for kernels in ("jit_kernel", "kernels/jit"):
        for folder in ("csrc", "include"):
            if (Path(tree) / "sglang" / kernels).is_dir():
                (Path(tree) / "sglang" / kernels / folder).mkdir(exist_ok=True)


def _find(probe: str) -> Callable[..., Any]:
    module, _, name = probe.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"probes.{module}"), name)
    return found


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


def _answer_in_a_fork(probe: Callable[..., Any], requests: list[Any]) -> bytes:
    gc.freeze()
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                reply = _pickled(("answers", [probe(*given, **named) for given, named in requests]))
            except BaseException as error:
                reply = _pickled(_error(error))
            with os.fdopen(sink, "wb") as pipe:
                pipe.write(reply)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    return written or _pickled(("died", os.waitstatus_to_exitcode(status)))


def _gather() -> None:
    """Put this process's memory into huge pages, whose table a fork copies in half of the time.

    Where the kernel cannot, it stays as it is.
    """
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, access, _, _, file, *_ = line.split()
        if access == "rw-p" and file == "0":
            start, end = (int(address, 16) for address in where.split("-"))
            start, end = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
            if start < end:
                advise(start, end - start, _COLLAPSE)


def _serve(connection: Connection) -> None:
    """Answer until the connection is closed."""
    for count in itertools.count(1):
        try:
            name, requests = connection.recv()
        except EOFError:
            return
        if count == _MANY:
            _gather()
        try:
            answer = _answer_in_a_fork(_find(name), requests)
        except BaseException as error:
            answer = _pickled(_error(error))
        connection.send_bytes(answer)


def _fork_for_each(trees: socket.socket) -> None:
    """Fork a process for each tree that is requested, until the connection is closed."""
    for name in _COMMON:
        importlib.import_module(name)
    importlib.import_module("interpreter").hasten()
    gc.freeze()
    while True:
        said, handles, _, _ = socket.recv_fds(trees, os.pathconf("/", "PC_PATH_MAX"), 1)
        if not said:
            return
        if not handles:
            _, status = os.waitpid(int(said), 0)
            trees.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        child = os.fork()
        if child == 0:
            trees.close()
            _enter(os.fsdecode(said))
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

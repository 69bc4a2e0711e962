"""Run each tree's engine in a separate process, which may crash or hang."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.bench.figures import first_error
from patchkit.patchset import load
from patchkit.patchset.patch import parts_by_comment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .models import Option
    from .scenarios import Request
    from .trees import Contender

_STARTUP = Path(__file__).parent / "startup"
_REPOSITORY = Path(__file__).parents[2]
# Disables sglang's checks of package versions: the bundle has other versions, which work.
_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "SGLANG_DISABLE_CUDNN_CHECK": "1",
    "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK": "1",
    # Options for the missing packages.
    "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
    "FLASHINFER_USE_CUDA_NORM": "1",
}
# Ports per engine and its ranks, so that engines that start together do not share one, and neither do two benchmarks on
# one machine. All are below those that Linux gives to outgoing connections (32768 on), which could take a port before
# the engine does.
_PORTS, _PORT_STEP, _ENGINES = 6000, 400, 64
# The port of the ranks' group within an engine's; without it sglang takes a free one, as another engine may too.
_GROUP = 200
# Packages that releases from the given one on import even if they are not used.
_IMPORTED_SINCE = {
    (0, 5, 15): ("cutlass", "deep_gemm"),
    (0, 5, 21): ("cuda.tile",),
    (0, 5, 23): ("flash_mla",),
}


def stand_ins(version: str | None) -> str:
    """Return the packages that a release imports and the bundle lacks, separated by commas."""
    numbers = tuple(map(int, re.findall(r"\d+", version or "")[:3]))
    return ",".join(name for since, names in _IMPORTED_SINCE.items() if numbers >= since for name in names)


class EngineError(Exception):
    """An engine crashed or exceeded its time limit; the message is the log's first error, or what happened."""


@dataclass(frozen=True)
class Start:
    """An engine that is up."""

    seconds: float
    # Of the GPU, CUDA, PyTorch, Triton and Python.
    versions: dict[str, str]
    # Name of the trace event of a decode step.
    step_event: str


class Engine:
    """An engine, from its start to its stop."""

    _started = itertools.count(random.randrange(_ENGINES))

    def __init__(
        self,
        tree: Contender,
        options: Mapping[str, Option],
        environment: Mapping[str, str],
        *,
        site: Path | None,
        folder: Path,
        start_limit: float,
        run_limit: float,
    ) -> None:
        """Start ``tree``'s engine in ``folder``, which gets its log; the limits are in seconds.

        ``site`` has the packages that the machine lacks; the tree's own ``sglang`` takes precedence over it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.tree = tree
        self.log = folder / "log.txt"
        self._reached = folder / "reached"
        self._start_limit, self._run_limit = start_limit, run_limit
        self._began = time.monotonic()
        settings = folder / "settings.json"
        port = _PORTS + _PORT_STEP * (next(self._started) % _ENGINES)
        settings.write_text(json.dumps({"port": port, "nccl_port": port + _GROUP, **options}, indent=1))
        path = [tree.folder, _STARTUP, *([site] if site else []), _REPOSITORY]
        receiving, sending = os.pipe()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, _STARTUP / "bench_engine.py", settings.resolve(), str(sending)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[sending],
                cwd=folder,
                env={
                    **os.environ,
                    **_ENVIRONMENT,
                    **environment,
                    "PATCHKIT_BENCH_STAND_INS": stand_ins(tree.version),
                    "PYTHONPATH": os.pathsep.join(str(entry.resolve()) for entry in path),
                },
                # A new process group, so that the scheduler can be ended too.
                start_new_session=True,
                text=True,
            )
        os.close(sending)
        # Each with the time of its arrival; None at the end.
        self._replies: queue.SimpleQueue[tuple[float, str | None]] = queue.SimpleQueue()
        self._answered = self._began
        threading.Thread(target=self._listen, args=(receiving,), daemon=True).start()

    def await_start(self) -> Start:
        """Wait until the engine accepts requests, and return its description."""
        reply = self._reply(self._began, self._start_limit)
        seconds = self._answered - self._began
        imported = Path(reply["sglang"]).resolve()
        if not imported.is_relative_to(self.tree.folder.resolve()):
            self.stop()
            raise EngineError(f"{self.tree.name} imported sglang from {imported}, not from its own tree.")
        return Start(seconds, reply["versions"], reply["step_event"])

    def run(
        self,
        requests: Sequence[Request],
        *,
        logprobs: bool = False,
        pause: int = 0,
        profile: Path | None = None,
    ) -> dict[str, Any]:
        """Run the requests; return seconds, outputs and launches. A trace is written to the folder ``profile``."""
        command = {
            "requests": [asdict(request) for request in requests],
            "logprobs": logprobs,
            "pause": pause,
            "profile": str(profile.resolve()) if profile else None,
        }
        if self._process.stdin is None or self._process.poll() is not None:
            raise self._failure("The engine is no longer running.")
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("The engine ended without an answer.") from None
        return self._reply(time.monotonic(), self._run_limit)

    def reached(self) -> tuple[str, ...]:
        """Return the patches, and the parts of patches, of which the engine has run a statement."""
        parts = parts_by_comment(load.patches())
        lines = self._reached.read_text().splitlines() if self._reached.exists() else []
        return tuple(sorted({parts.get(line, line.partition(":")[0]) for line in lines}))

    def stop(self) -> None:
        """Kill the engine and every process that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _listen(self, receiving: int) -> None:
        with os.fdopen(receiving) as replies:
            for line in replies:
                self._replies.put((time.monotonic(), line))
        self._replies.put((time.monotonic(), None))

    def _reply(self, since: float, limit: float) -> dict[str, Any]:
        try:
            self._answered, line = self._replies.get(timeout=max(0.0, since + limit - time.monotonic()))
        except queue.Empty:
            raise self._failure(f"No answer within {limit:.0f} s.") from None
        if line is None:
            raise self._failure("The engine ended without an answer.")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _failure(self, reason: str) -> EngineError:
        self.stop()
        error = first_error(self.log.read_text(errors="replace"))
        return EngineError(f"{reason} {error}" if error else reason)

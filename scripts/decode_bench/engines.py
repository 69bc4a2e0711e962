"""Run each tree's engine in a separate process, which may crash or hang."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.bench.figures import Reply, first_error
from patchkit.bench.process import GROUP_PORT, SERVER_PORT, TreeProcess
from patchkit.patchset import load
from patchkit.patchset.patch import parts_by_comment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.bench.watchdog import Watchdog

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


class Engine:
    """An engine, from its start to its stop."""

    def __init__(
        self,
        tree: Contender,
        options: Mapping[str, Option],
        environment: Mapping[str, str],
        *,
        site: Path | None,
        folder: Path,
        watchdog: Watchdog,
        start_limit: float,
        run_limit: float,
    ) -> None:
        """Start ``tree``'s engine in ``folder``, which gets its log; the limits are in seconds.

        ``site`` has the packages that the machine lacks; the tree's own ``sglang`` takes precedence over it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.tree = tree
        self._program = TreeProcess(folder / "log.txt", watchdog)
        self._reached = folder / "reached"
        self._start_limit, self._run_limit = start_limit, run_limit
        self._began = time.monotonic()
        settings = folder / "settings.json"
        # Without a port of its own the ranks' group takes a free one, as that of another engine may, too.
        ports = {"port": self._program.ports + SERVER_PORT, "nccl_port": self._program.ports + GROUP_PORT}
        settings.write_text(json.dumps({**ports, **options}, indent=1))
        path = [tree.folder, _STARTUP, *([site] if site else []), _REPOSITORY]
        receiving, sending = os.pipe()
        self._program.start(
            [sys.executable, _STARTUP / "bench_engine.py", settings.resolve(), str(sending)],
            {
                **os.environ,
                **_ENVIRONMENT,
                **environment,
                "PATCHKIT_BENCH_STAND_INS": stand_ins(tree.version),
                "PYTHONPATH": os.pathsep.join(str(entry.resolve()) for entry in path),
            },
            stdin=subprocess.PIPE,
            pass_fds=[sending],
            cwd=folder,
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
        return Start(seconds, reply["versions"])

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self._program.log

    def run(
        self, requests: Sequence[Request], *, logprobs: bool = False, pause: int = 0
    ) -> tuple[Reply, ...]:
        """Run the requests, and return their results."""
        command = {
            "requests": [asdict(request) for request in requests],
            "logprobs": logprobs,
            "pause": pause,
        }
        stdin = self._program.process.stdin
        if stdin is None or self._program.has_ended():
            raise self._failure("The engine is no longer running.")
        try:
            stdin.write(json.dumps(command) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._failure("The engine ended without an answer.") from None
        outputs = self._reply(time.monotonic(), self._run_limit)["outputs"]
        return tuple(
            Reply(tuple(entry["tokens"]), entry["finish"], entry["steps"], tuple(entry["logprobs"]))
            for entry in outputs
        )

    def reached(self) -> tuple[str, ...]:
        """Return the patches, and the parts of patches, of which the engine has run a statement."""
        parts = parts_by_comment(load.patches())
        lines = self._reached.read_text().splitlines() if self._reached.exists() else []
        return tuple(sorted({parts.get(line, line.partition(":")[0]) for line in lines}))

    def stop(self) -> None:
        """Kill the engine and every process that it started."""
        self._program.stop()

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
        error = first_error(self._program.said())
        return EngineError(f"{reason} {error}" if error else reason)

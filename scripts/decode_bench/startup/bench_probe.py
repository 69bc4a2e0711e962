"""Make a scheduler run the same batches in every tree.

An engine's own interface lacks two things:

* Requests enter, and are aborted, at a decode step that their id contains, not when they happen to arrive. Batches, and
  with them the rounding of every matrix product, are then the same in every tree and in every repeat, so that a
  differing token is a defect and not noise.
* The random numbers of a run are the same in every tree and in every repeat.

That the scheduler was reached is recorded by the runs of which it launched a batch.

A run may also request a pause on the GPU before each forward pass, which widens every race between the scheduler's
stream and that of the forward pass.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

# Environment variable: the file to which the run of each launched batch is appended.
RECORD = "PATCHKIT_BENCH_RECORD"
# Environment variable: the number of schedulers that share the requests of a run, if more than one.
SHARES = "PATCHKIT_BENCH_SHARES"
SCHEDULER = "sglang.srt.managers.scheduler"
MESSAGES = "sglang.srt.managers.io_struct"

_TICKET = re.compile(r"bench-(\d{4})-(\d{4})-(\d{4})-(\d{6})-(\d{6})-(\d{10})")


@dataclass(frozen=True)
class Ticket:
    """The content of a request's id: its number in the run, and when it enters and is aborted."""

    run: int
    index: int
    count: int
    # Decode steps since the run's first batch; 0: no abort.
    enters: int
    aborted: int
    # Clock cycles of the pause before each forward pass of the run.
    pause: int

    def __str__(self) -> str:
        # Fixed width, since sglang aborts every request whose id starts with the given one.
        return (
            f"bench-{self.run:04d}-{self.index:04d}-{self.count:04d}"
            f"-{self.enters:06d}-{self.aborted:06d}-{self.pause:010d}"
        )

    @classmethod
    def parse(cls, request_id: object) -> Ticket | None:
        """Return the ticket in a request's id, None if there is none."""
        found = _TICKET.fullmatch(request_id) if isinstance(request_id, str) else None
        return cls(*map(int, found.groups())) if found else None


def has_launched(record: str, run: int) -> bool:
    """Return whether the file that `RECORD` named has a batch of a run."""
    with open(record) as file:
        return f"{run}\n" in file


class Gate:
    """Hold a run's requests back until all have arrived, then let each in at its decode step."""

    def __init__(self, shares: int = 1) -> None:
        """Create the gate of one of ``shares`` schedulers, each of which gets an equal part of the requests."""
        self._shares = shares
        self.run = -1
        self.pause = 0
        self._step = 0
        self._awaited = 0
        self._launched = False
        self._held: list[tuple[Ticket, Any]] = []
        self._aborts: list[Ticket] = []

    def admit(
        self,
        received: Iterable[Any],
        abort: Callable[[str], Any],
        agreed: Callable[[bool], bool] = bool,
    ) -> list[Any]:
        """Return the messages that the scheduler may see now.

        ``abort`` returns the abort message for a request's id; ``agreed`` returns whether every scheduler has all
        requests of its part of a run. Must be called once per iteration of the scheduler's loop.
        """
        passed = []
        for message in received:
            # Requests that are sent together arrive as one message.
            parts = list(getattr(message, "batch", [message]))
            tickets = [Ticket.parse(getattr(part, "rid", None)) for part in parts]
            for ticket, part in zip(tickets, parts, strict=True):
                if ticket is not None:
                    self._hold(ticket, part)
            if None in tickets:
                passed.append(message)
        idle, self._launched = not self._launched, False
        if not agreed(self._awaited == 0):
            return passed
        if idle and self._held and all(ticket.enters > self._step for ticket, _ in self._held):
            # Nothing is running, so no step would be counted before the next arrival.
            self._step = min(ticket.enters for ticket, _ in self._held)
        passed += [message for ticket, message in self._held if ticket.enters <= self._step]
        passed += [abort(str(ticket)) for ticket in self._aborts if ticket.aborted <= self._step]
        self._held = [pair for pair in self._held if pair[0].enters > self._step]
        self._aborts = [ticket for ticket in self._aborts if ticket.aborted > self._step]
        return passed

    def launched(self, decode: bool) -> None:
        """Count a launched batch."""
        self._launched = True
        self._step += decode

    def _hold(self, ticket: Ticket, message: Any) -> None:
        if ticket.run != self.run:
            self.run, self.pause = ticket.run, ticket.pause
            self._step, self._awaited = 0, ticket.count // self._shares
            self._held, self._aborts = [], []
        self._awaited -= 1
        self._held.append((ticket, message))
        self._held.sort(key=lambda pair: pair[0].index)
        if ticket.aborted:
            self._aborts.append(ticket)


def instrument(scheduler: Any, record: str) -> None:
    """Add a gate to an sglang scheduler class."""
    import torch

    shares = int(os.environ.get(SHARES, "1"))
    gate = Gate(shares)
    seeded = gate.run
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    admit, launch = scheduler.process_input_requests, scheduler.run_batch

    def abort(request_id: str) -> Any:
        return importlib.import_module(MESSAGES).AbortReq(rid=request_id)

    def pausing(forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def paused(*arguments: Any, **options: Any) -> Any:
            if gate.pause:
                torch.cuda._sleep(gate.pause)
            return forward(*arguments, **options)

        paused.pausing = True  # type: ignore[attr-defined]
        return paused

    @functools.wraps(admit)
    def process_input_requests(self: Any, received: list[Any]) -> Any:
        def agreed(ready: bool) -> bool:
            if shares == 1:
                return ready
            # Each scheduler calls this once per iteration, and iterations are synchronous.
            flag = torch.tensor([int(ready)])
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MIN, self.tp_cpu_group)
            return bool(flag.item())

        return admit(self, gate.admit(received, abort, agreed))

    @functools.wraps(launch)
    def run_batch(self: Any, batch: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal seeded
        if seeded != gate.run:
            seeded = gate.run
            torch.manual_seed(0)
        decode = bool(batch.forward_mode.is_decode())
        # Every rank launches each batch; only one records it.
        if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
            os.write(file, b"%d\n" % gate.run)
        gate.launched(decode)
        worker = self.model_worker
        if not hasattr(worker.forward_batch_generation, "pausing"):
            worker.forward_batch_generation = pausing(worker.forward_batch_generation)
        return launch(self, batch, *arguments, **options)

    scheduler.process_input_requests = process_input_requests
    scheduler.run_batch = run_batch


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


def on_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call ``then`` with the module ``name`` when it has been imported."""
    sys.meta_path.insert(0, _Finder(name, then))


def install(record: str) -> None:
    """Instrument sglang's scheduler when it is imported; the run of each batch is appended to the file ``record``."""
    on_import(SCHEDULER, lambda module: instrument(module.Scheduler, record))

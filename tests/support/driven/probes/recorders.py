"""Stand-ins that record operations on them: device tensors, events, streams."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_READS = frozenset(
    {
        *("item", "tolist", "cpu", "numpy", "nonzero", "masked_select", "equal", "pin_memory"),
        *("__int__", "__float__", "__bool__", "__index__", "__contains__"),
    }
)
_SIZED_BY_VALUE = frozenset({"empty", "zeros", "ones", "full", "arange", "rand"})
# A kernel that is interpreted reads what a real one is given.
_INTERPRETER = ("triton/runtime", "triton\\runtime")


class DeviceTensor(torch.Tensor):
    """A tensor that counts as on the device, as do results computed from it; reads by the host are recorded."""

    reads: list[str] = []  # noqa: RUF012 - one record per process, and each probe has its own

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Record a read, then behave as a plain tensor."""
        name = getattr(func, "__name__", "")
        reads = name in _READS or (
            name in _SIZED_BY_VALUE and any(isinstance(size, DeviceTensor) for size in _flat(args))
        )
        if reads and not _interpreting():
            cls.reads.append(name)
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result.as_subclass(torch.Tensor) if name == "cpu" else result


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        else:
            yield value


def _interpreting() -> bool:
    frame: Any = sys._getframe(1)
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _INTERPRETER):
            return True
        frame = frame.f_back
    return False


def on_device(values: Sequence[Any], dtype: torch.dtype = torch.int64) -> DeviceTensor:
    """Return values as a tensor whose reads by the host are recorded."""
    return torch.tensor(values, dtype=dtype).as_subclass(DeviceTensor)


def plain(value: Any) -> Any:
    """Return tensors as lists, without recording it; containers and scalars unchanged."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return value.detach().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


class PretendedCuda(TorchFunctionMode):
    """Turns tensors moved to or made on "cuda" into device tensors on the CPU, and records the copies.

    ``copies`` holds ``(pinned, non_blocking)`` of every copy from the host.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[bool, bool]] = []
        self._pinned: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Answer for the device where it is named."""
        keywords = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "pin_memory":
            pinned = args[0].clone()
            self._pinned.append(pinned)
            return pinned
        keywords.pop("pin_memory", None)
        places = [value for value in (*args[1:], keywords.get("device")) if _is_cuda(value)]
        if not places:
            return func(*args, **keywords)
        if name == "to":
            tensor = args[0]
            if isinstance(tensor, DeviceTensor):
                return tensor
            pinned = any(tensor is each for each in self._pinned)
            self.copies.append((pinned, bool(keywords.get("non_blocking", False))))
            return tensor.clone().as_subclass(DeviceTensor)
        keywords["device"] = "cpu"
        return func(*args, **keywords).as_subclass(DeviceTensor)


def _is_cuda(value: Any) -> bool:
    # Not every string is a device.
    return isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda"


class Events:
    """Makes events and streams that share one record of waits, in order."""

    def __init__(self) -> None:
        self.record: list[str] = []

    def event(self, name: str) -> _Recorder:
        """Return an event whose ``wait`` is the current stream's and ``synchronize`` the host's."""
        return _Recorder(name, self.record, ("wait", "synchronize", "record", "query"))

    def stream(self, name: str) -> _Recorder:
        """Return a stream."""
        return _Recorder(name, self.record, ("wait_stream", "wait_event", "synchronize", "record_event"))


class _Recorder:
    def __init__(self, name: str, record: list[str], calls: tuple[str, ...]) -> None:
        self.name, self.device = name, torch.device("cpu")
        for call in calls:
            setattr(self, call, self._note(record, call))

    def _note(self, record: list[str], call: str) -> Callable[..., None]:
        def note(*others: Any) -> None:
            names = "".join(f" {getattr(other, 'name', other)}" for other in others)
            record.append(f"{self.name}.{call}{names}")

        return note

"""What a probe does besides its answer: the functions of its tree that it runs, its allocations, the host's reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable


_SCALAR = "_local_scalar_dense"
_COPIES = frozenset({"cpu", "numpy", "tolist"})
_TORCH, _TRITON, _PROBES = "/torch/", "/triton/", "/driven/"


class _Costs(TorchDispatchMode):
    """Notes the size of the largest storage that the tree makes, and counts scalars that it reads on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.scalars = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        # Most operations make what is no larger than before, which is all that need be asked of them.
        larger = [each for each in tree_leaves(made) if _size(each) > self.largest]
        if larger and _is_the_trees(_TORCH, _PROBES):
            given = {_address(each) for each in tree_leaves((args, kwargs))}
            self.largest = max(
                [self.largest, *(_size(each) for each in larger if _address(each) not in given)]
            )
        self.scalars += func.overloadpacket.__name__ == _SCALAR and _is_the_trees(_TORCH)
        return made


class _Copies(TorchFunctionMode):
    """Counts whole tensors that are copied to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += getattr(func, "__name__", "") in _COPIES and _is_the_trees(_TORCH)
        return func(*args, **(kwargs or {}))


def _is_the_trees(*between: str) -> bool:
    """Return whether the tree, or a runtime that it calls, is what is running, apart from code ``between``.

    Kernels that are interpreted and probes read for their own sake; what a probe allocates in the tree's stead counts.
    """
    frame: Any = sys._getframe(2)
    while frame is not None and any(part in frame.f_code.co_filename for part in between):
        frame = frame.f_back
    return frame is not None and not any(part in frame.f_code.co_filename for part in (_TRITON, _PROBES))


def _address(value: Any) -> int:
    return int(value.untyped_storage().data_ptr()) if hasattr(value, "untyped_storage") else 0


def _size(value: Any) -> int:
    return int(value.untyped_storage().nbytes()) if hasattr(value, "untyped_storage") else 0


def observed(probe: Callable[..., Any], *given: Any, **named: Any) -> dict[str, Any]:
    """Return a probe's answer, the functions of the tree that it ran, and what it cost.

    ``ran``: file below the package, first line and name of each; ``largest``: bytes of the largest allocation;
    ``reads``: how often the tree or patchkit's runtime read a tensor on the host.
    """
    folder = f"{Path(sys.modules['sglang'].__path__[0])}/"
    ran: set[tuple[str, int, str]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folder):
            ran.add((code.co_filename.removeprefix(folder), code.co_firstlineno, code.co_name))

    with _Copies() as copies, _Costs() as costs:
        sys.setprofile(note)
        try:
            answer = probe(*given, **named)
        finally:
            sys.setprofile(None)
    return {
        "answer": answer,
        "ran": sorted(ran),
        "largest": costs.largest,
        "reads": costs.scalars + copies.count,
    }

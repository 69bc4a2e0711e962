"""Readers of a verify's tree mask, found by a mask that raises when it is read."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention import flashmla_backend

from . import attention_backends as backends
from . import flash_attention, sparse_attention

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.runtime.shapes import VerifyBackend

GRAPH = 4


class _ReadError(Exception):
    """Something read the mask."""


class _Unread:
    """A mask that raises on every attribute, and that no function of torch accepts."""

    def __getattribute__(self, name: str) -> Any:
        raise _ReadError(name)

    def __getitem__(self, key: Any) -> Any:
        raise _ReadError("[]")

    def __len__(self) -> int:
        raise _ReadError("len")


def _sm_parts(lens: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Stand in for FlashMLA's plan of how to share out the work, which only a GPU makes."""
    return torch.zeros(1, 8, dtype=torch.int32), torch.zeros(len(lens) + 1, dtype=torch.int32)


def _made(kind: str, server: dict[str, Any]) -> Any:
    if kind.startswith("flash "):
        return flash_attention.made(kind.removeprefix("flash "), server)
    if kind == "sparse":
        return sparse_attention.made(server)
    if kind != "flashmla":
        return backends.target(kind, server, None)
    flashmla_backend.get_mla_metadata = _sm_parts
    cuda: Any = torch.cuda
    cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=2)
    return flashmla_backend.FlashMLABackend(backends.model_runner(mla=True, **server))


def _keeps(backend: Any) -> bool:
    """Return whether what a backend has planned holds the mask, for a kernel to read."""
    held = list(vars(backend).values())
    held += [value for each in held if dataclasses.is_dataclass(each) for value in vars(each).values()]
    return any(type(value) is _Unread for value in held)


def _looks(backend: Any, plan: Callable[[], Any]) -> bool:
    try:
        with backends.OnCpu():
            plan()
    except _ReadError:
        return True
    return _keeps(backend)


def looks(kind: str, server: dict[str, Any], batch: dict[str, Any]) -> dict[str, bool]:
    """Return whether a backend looks at the mask as it plans a verify: without a graph, at capture and at replay."""
    tokens = server["draft_tokens"]

    def spec() -> Any:
        made = backends.spec_info("verify", stride=tokens, topk=server["topk"])
        made.custom_mask = _Unread()
        made.positions = torch.zeros(GRAPH * tokens, dtype=torch.int64)
        return made

    backend = _made(kind, server)
    planned = backends.eager_batch(backend, server, "verify", batch)
    planned.spec_info = spec()
    planned.encoder_lens = None
    graphed = _made(kind, server)
    with backends.OnCpu():
        graphed.init_cuda_graph_state(GRAPH, GRAPH * tokens)
    state = backends.GraphInputs(graphed, GRAPH, batch | {"graph": GRAPH})
    rows: dict[str, Any] = {"bs": GRAPH, "rows": state.rows, "lens": state.lens}
    sums: dict[str, Any] = {"lens_cpu": state.lens_cpu, "total": state.total}
    return {
        "eager": _looks(backend, lambda: backend.init_forward_metadata(planned)),
        "capture": _looks(
            graphed,
            lambda: backends.capture(graphed, "verify", **rows, num_tokens=GRAPH * tokens, spec=spec()),
        ),
        "replay": _looks(graphed, lambda: backends.replay(graphed, "verify", **rows, **sums, spec=spec())),
    }


def chosen(kind: str, server: dict[str, Any]) -> str:
    """Return which mask the runtime builds for a backend."""
    from sglang.srt.speculative.eagle_utils import TreeMaskMode

    from patchkit.runtime.api_1 import verify_mask

    backend: VerifyBackend = _made(kind, server)
    return str(verify_mask(backend, TreeMaskMode.FULL_MASK, None, server["topk"])[0].name)

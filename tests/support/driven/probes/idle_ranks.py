"""What attention metadata the tree's own model runner leaves to a model in an idle forward."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.model_executor.model_runner import ModelRunner


def metadata(requests: int) -> Any:
    """Return the metadata that a model finds in an idle forward of so many padded requests, behind another batch."""
    found = []
    backend: Any = object.__new__(TritonAttnBackend)
    backend.forward_metadata = "of the last batch"
    backend.init_forward_metadata = lambda batch: setattr(
        backend, "forward_metadata", f"of {batch.batch_size} requests"
    )
    runner: Any = object.__new__(ModelRunner)
    vars(runner).update(
        attn_backend=backend,
        support_pp=False,
        device_timer=None,
        model=SimpleNamespace(forward=lambda *_: found.append(backend.forward_metadata)),
    )
    runner.forward_idle(SimpleNamespace(batch_size=requests, input_ids=None, positions=None))
    return found

"""Hand-built TRTLLM MHA backends, captured and replayed by a tree's own methods, or filled by patchkit."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from patchkit.backends import trtllm
from patchkit.backends.paged import fill_by_torch
from patchkit.backends.trtllm import fill_trtllm_mha

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .stand_ins import TreeModules

# Tokens per request in a verify and a draft-extend.
STRIDE = 4


@dataclass(frozen=True)
class Mode:
    """One kind of replay."""

    name: str
    forward: str
    # Whether the batch has a speculative input, and its tokens per request.
    speculative: bool
    tokens: int
    # The tokens that a request attends to beyond its length.
    extra: int = 0


MODES = (
    Mode("MHA decode", "DECODE", False, 1),
    Mode("MHA draft decode", "DECODE", True, 1, extra=2),
    Mode("MHA verify", "TARGET_VERIFY", True, STRIDE, extra=STRIDE),
    Mode("MHA draft-extend v1", "DRAFT_EXTEND", True, STRIDE),
    Mode("MHA draft-extend v2", "DRAFT_EXTEND_V2", True, STRIDE),
)


@dataclass(frozen=True)
class Settings:
    """The settings shared by all cases."""

    device: torch.device
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    page_size: int

    @property
    def max_batch(self) -> int:
        """The size of every buffer."""
        return max(self.batches)

    @property
    def max_context(self) -> int:
        """The width of every table, in tokens, including the tokens of a verify."""
        return max(self.contexts) + max(self.page_size, STRIDE)


@dataclass(frozen=True)
class Pool:
    """Random slots of every request, and of a sliding-window pool."""

    req_to_token: torch.Tensor
    full_to_swa: torch.Tensor

    @classmethod
    def of(cls, settings: Settings) -> Pool:
        """Return a pool for twice the requests of the largest batch."""
        slots = 1 << 24
        shape = (2 * settings.max_batch, settings.max_context)
        req_to_token = torch.randint(slots, shape, dtype=torch.int32, device=settings.device)
        full_to_swa = torch.randint(slots, (slots + 1,), device=settings.device)
        full_to_swa[-1] = -1
        return cls(req_to_token, full_to_swa)


@dataclass(frozen=True)
class Replay:
    """The batch of one replay."""

    rows: torch.Tensor
    lens: torch.Tensor
    lens_cpu: torch.Tensor
    spec: Any

    @classmethod
    def of(cls, mode: Mode, batch: int, context: int, settings: Settings) -> Replay:
        """Return a batch with lengths from half the context to all of it."""
        device = settings.device
        lens_cpu = torch.randint(context // 2, context + 1, (batch,))
        lens_cpu[torch.randint(batch, (1,))] = context
        rows = torch.randperm(2 * settings.max_batch)[:batch]
        accepted = torch.randint(1, STRIDE + 1, (batch,), dtype=torch.int32)
        spec = SimpleNamespace(
            num_tokens_per_req=STRIDE,
            num_accept_tokens=accepted.to(device),
            num_accept_tokens_cpu=accepted.tolist(),
        )
        return cls(rows.to(device), lens_cpu.to(device), lens_cpu, spec if mode.speculative else None)


class Contender:
    """A tree's backend for one mode, filled by the tree's own code or by patchkit."""

    def __init__(
        self, modules: TreeModules, mode: Mode, pool: Pool, settings: Settings, *, swa: bool
    ) -> None:
        self._mode = mode
        self._forward = modules.modes[mode.forward]
        self._backend = _backend(modules, mode, pool, settings, swa=swa)

    def capture(self, replay: Replay) -> bool:
        """Bind the buffers of a graph of the replay's size; return False if the tree does not have the mode."""
        bs, backend = len(replay.lens), self._backend
        tokens = bs * self._mode.tokens
        self._by_size().pop(bs, None)
        if hasattr(backend, "init_forward_metadata_capture_cuda_graph"):
            backend.init_forward_metadata_capture_cuda_graph(
                bs, tokens, replay.rows, replay.lens, None, self._forward, replay.spec
            )
        else:
            backend._build_cuda_graph_metadata(bs, tokens, self._forward, replay.spec, replay.lens.device)
        return hasattr(self.metadata(bs), "__dict__")

    def _by_size(self) -> dict[Any, Any]:
        name = "draft_extend_metadata"
        if self._forward.is_decode_or_idle():
            name = "decode_cuda_graph_metadata"
        elif self._forward.is_target_verify():
            name = "target_verify_metadata"
        by_size: dict[Any, Any] = getattr(self._backend, name)
        return by_size

    def metadata(self, bs: int) -> Any:
        """Return the metadata for graphs of ``bs`` requests; None if none was captured."""
        return self._by_size().get(bs)

    def by_tree(self, replays: Sequence[Replay]) -> Callable[[int], None]:
        """Return the tree's own replay of the batch with a given number, modulo the number of batches."""
        forward, count, backend = self._forward, len(replays), self._backend
        bs = len(replays[0].lens)

        def older(number: int) -> None:
            replay = replays[number % count]
            backend.init_forward_metadata_replay_cuda_graph(
                bs, replay.rows, replay.lens, None, None, forward, replay.spec, replay.lens_cpu
            )

        def newer(number: int) -> None:
            replay = replays[number % count]
            backend._apply_cuda_graph_metadata(
                bs, replay.rows, replay.lens, forward, replay.spec, replay.lens_cpu
            )

        return older if hasattr(backend, "init_forward_metadata_replay_cuda_graph") else newer

    def by_patchkit(self, replays: Sequence[Replay]) -> Callable[[int], None]:
        """Return the same by patchkit's fill."""
        forward, count, backend = self._forward, len(replays), self._backend
        bs = len(replays[0].lens)

        def ours(number: int) -> None:
            replay = replays[number % count]
            fill_trtllm_mha(
                backend, bs, replay.rows, replay.lens, forward_mode=forward, spec_info=replay.spec
            )

        return ours


def _backend(modules: TreeModules, mode: Mode, pool: Pool, settings: Settings, *, swa: bool) -> Any:
    backend: Any = object.__new__(modules.mha)
    backend.device = settings.device
    backend.page_size = settings.page_size
    backend.max_context_len = settings.max_context
    backend.req_to_token = pool.req_to_token
    backend.speculative_num_draft_tokens = STRIDE
    backend.speculative_step_id = mode.extra - 1
    backend.use_sliding_window_kv_pool = swa
    backend._swa_kv_pool = (
        SimpleNamespace(
            full_to_swa_index_mapping=pool.full_to_swa,
            # The look-up of every tree's pool; a backend converts it if its kernels need int32.
            translate_loc_from_full_to_swa=lambda slots: pool.full_to_swa[slots],
        )
        if swa
        else None
    )
    backend.init_cuda_graph_state(settings.max_batch, settings.max_batch * STRIDE)
    return backend


def fallback_differs(contender: Contender, call: Callable[[int], None], bs: int) -> bool:
    """Return whether torch writes another value than the kernel to any element of any buffer.

    ``call`` is the contender's patchkit replay; the buffers are restored.
    """
    buffers = [value for value in vars(contender.metadata(bs)).values() if isinstance(value, torch.Tensor)]
    before = [buffer.clone() for buffer in buffers]
    noise = [torch.randint_like(buffer, 1 << 30) for buffer in buffers]

    def outcome() -> list[torch.Tensor]:
        for buffer, random in zip(buffers, noise, strict=True):
            buffer.copy_(random)
        call(0)
        return [buffer.clone() for buffer in buffers]

    by_kernel = outcome()
    with patch.object(trtllm, "fill", fill_by_torch):
        by_torch = outcome()
    for buffer, held in zip(buffers, before, strict=True):
        buffer.copy_(held)
    return not all(torch.equal(*pair) for pair in zip(by_kernel, by_torch, strict=True))


_TABLES = ("page_table", "swa_page_table")


def differences(ours: Any, theirs: Any, replay: Replay, mode: Mode, *, page_size: int) -> list[str]:
    """Return the names of the buffers that differ; in a table only each request's own pages are compared."""
    found = []
    for name, value in vars(theirs).items():
        if not isinstance(value, torch.Tensor):
            continue
        actual, expected = getattr(ours, name), value
        if name in _TABLES:
            first = torch.arange(value.shape[1], device=value.device) * page_size
            own = first < (replay.lens + mode.extra)[:, None]
            actual, expected = actual[own], value[own]
        if actual.dtype != expected.dtype or not torch.equal(actual, expected):
            found.append(name)
    return found


def bytes_moved(mode: Mode, replay: Replay, page_size: int, *, swa: bool) -> int:
    """Return the least bytes of device memory that one fill accesses; reads are in units of 32 bytes."""
    pages = int(((replay.lens_cpu + mode.extra + page_size - 1) // page_size).sum())
    bs = len(replay.lens_cpu)
    slots = min(32, 4 * page_size)
    # Reads rows and lengths; writes key lengths and offsets, and query offsets if there are any.
    lengths = bs * (8 + 8 + 4 + 4 + 4)
    return lengths + pages * (slots + 4 + (32 + 4 if swa else 0))

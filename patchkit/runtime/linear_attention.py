"""Look up and move linear attention's states of a target verify with one launch each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..backends.states import commit
from ..backends.step_buffers import AcceptedTokens, States
from .switches import disabled

if TYPE_CHECKING:
    from .shapes import HybridLinear, LinearBackend, Mode

_UNPADDED = "patchkit_unpadded"


def commit_states(  # noqa: PLR0917
    backend: HybridLinear,
    batch: Any,
    accept_lens: torch.Tensor,
    accept_index: torch.Tensor,
    tokens: int,
    server_args: Any,
) -> bool:
    """Write the states after the accepted tokens to the requests' slots; return False if the tree has to.

    ``accept_lens`` (int32, [requests]) includes the bonus token, ``accept_index`` (int32, [requests, depth]) has
    the positions of accepted tokens among ``tokens`` per request, both on the device. Subclasses are left to the
    tree. Source: pk-linear-launches.
    """
    if disabled("pk-linear-launches") or type(backend).__name__ != "HybridLinearAttnBackend":
        return False
    linear = backend.linear_attn_backend
    caches = linear.req_to_token_pool.get_speculative_mamba2_params_all_layers()
    states = States(
        caches.temporal, caches.intermediate_ssm, caches.conv[0], caches.intermediate_conv_window[0]
    )
    tracked, slots = batch.mamba_track_indices, linear.forward_metadata.mamba_cache_indices
    if (
        not all(each.is_contiguous() for each in states[:3])
        or (states.windows_into.dim(), states.windows.dim()) != (4, 5)
        or (accept_lens.dtype, accept_index.dtype) != (torch.int32, torch.int32)
    ):
        return False
    if accept_lens.shape[0]:
        interval = 1 if tracked is None else server_args.mamba_track_interval
        commit(
            states,
            AcceptedTokens(
                batch.seq_lens.contiguous(),
                accept_lens.contiguous(),
                accept_index.contiguous(),
                tokens,
                slots.contiguous(),
                None if tracked is None else tracked.contiguous(),
                interval,
            ),
        )
    return True


def replay_states(
    backend: LinearBackend,
    size: int,
    req_pool_indices: torch.Tensor,
    padding: int | torch.Tensor,
    mode: Mode,
) -> bool:
    """Look up a graph's states in one launch if no request is padding; return False if the tree has to.

    ``req_pool_indices``: int64, [``size``], on the device. The query offsets are those of the last replay of the
    same size; the caller writes them the first time, and after padding. Source: pk-linear-launches.
    """
    if disabled("pk-linear-launches"):
        return False
    unpadded: dict[int, bool] = vars(backend).setdefault(_UNPADDED, {})
    if not isinstance(padding, int) or padding != 0:
        unpadded.pop(size, None)
        return False
    pool, states = backend.req_to_token_pool, backend.state_indices_list[size - 1]
    verifies = mode.is_target_verify()
    mapping = getattr(pool, "req_index_to_mamba_index_mapping", None)
    if (
        unpadded.get(size) is not verifies
        or type(pool).__name__ != "HybridReqToTokenPool"
        or not isinstance(mapping, torch.Tensor)
        or mapping.dtype != states.dtype
        or req_pool_indices.shape[0] != size
    ):
        unpadded[size] = verifies
        return False
    torch.index_select(mapping, 0, req_pool_indices, out=states)
    return True

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from patchkit.runtime import lengths
from patchkit.runtime.api_1 import preallocated_mask

MAX_CONTEXT = 4096
TOKENS, GRAPH = 2, 3
LENS = st.lists(st.integers(0, MAX_CONTEXT), min_size=1, max_size=16)


class Unread:
    """Fails whoever looks at it: stands for a device tensor that must not be waited for."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a device tensor was read on the host")

    def __index__(self) -> int:
        raise AssertionError("the value of a device tensor was read on the host")


def int32(*lens: int) -> torch.Tensor:
    return torch.tensor(lens, dtype=torch.int32)


# A known total is used as it is, an unknown one bounded from above.


@given(LENS)
def test_a_known_total_is_kept_and_an_unknown_one_is_bounded(lens: list[int]) -> None:
    assert lengths.total_or_bound(sum(lens), len(lens), MAX_CONTEXT) == sum(lens)
    assert lengths.total_or_bound(None, len(lens), MAX_CONTEXT) >= sum(lens)


@given(LENS)
def test_host_lens_give_their_sum_and_missing_ones_the_bound(lens: list[int]) -> None:
    assert lengths.host_total(lens, len(lens), MAX_CONTEXT) == sum(lens)
    assert lengths.host_total(None, len(lens), MAX_CONTEXT) >= sum(lens)


def test_the_bound_is_reached_when_every_request_is_full() -> None:
    assert lengths.total_or_bound(None, 3, MAX_CONTEXT) == 3 * MAX_CONTEXT


@pytest.mark.parametrize("total", [0, 5])
def test_a_total_of_nothing_is_a_known_total(total: int) -> None:
    assert lengths.total_or_bound(total, 4, MAX_CONTEXT) == total
    assert lengths.host_total([], 0, MAX_CONTEXT) == 0


@given(LENS)
@pytest.mark.parametrize("on_device", [False, True])
def test_a_size_is_kept_where_the_total_is_known(on_device: bool, lens: list[int]) -> None:
    size = torch.tensor(sum(lens), dtype=torch.int32) if on_device else sum(lens)
    batch = SimpleNamespace(seq_lens_sum=sum(lens), batch_size=len(lens))
    assert lengths.size_or_bound(size, batch, MAX_CONTEXT) is size


@given(LENS)
def test_a_size_is_bounded_and_not_read_where_the_total_is_unknown(lens: list[int]) -> None:
    batch = SimpleNamespace(seq_lens_sum=None, batch_size=len(lens))
    unread: Any = Unread()
    assert lengths.size_or_bound(unread, batch, MAX_CONTEXT) >= sum(lens)


@pytest.mark.parametrize(("total", "padded"), [(0, 3), (7, 10), (None, None)])
def test_padding_counts_only_in_a_known_total(total: int | None, padded: int | None) -> None:
    assert lengths.padded_total(total, 3) == padded


def verifying(lens: list[int], *, known: bool) -> tuple[Any, Any]:
    batch = SimpleNamespace(seq_lens=int32(*lens), seq_lens_sum=sum(lens) if known else None)
    return batch, SimpleNamespace(max_context_len=MAX_CONTEXT)


@given(LENS)
def test_a_known_total_sizes_the_tree_mask(lens: list[int]) -> None:
    assert lengths.tree_mask_total(*verifying(lens, known=True)) == sum(lens)


@given(LENS)
def test_an_unknown_total_bounds_the_tree_mask(lens: list[int]) -> None:
    assert lengths.tree_mask_total(*verifying(lens, known=False)) >= sum(lens)


def test_a_request_has_at_most_its_row_of_the_pool() -> None:
    narrow = SimpleNamespace(max_context_len=8)
    wide = SimpleNamespace(max_context_len=8, req_to_token=torch.zeros(3, 12))
    assert (lengths.row_length(narrow), lengths.row_length(wide)) == (8, 12)
    # Beside linear attention, the backend of full attention has the pool.
    wrapper = SimpleNamespace(max_context_len=8, full_attn_backend=wide, linear_attn_backend=narrow)
    assert lengths.row_length(wrapper) == 12
    batch, backend = verifying([8, 11], known=False)
    backend.req_to_token = torch.zeros(3, MAX_CONTEXT + 4)
    assert lengths.tree_mask_total(batch, backend) == 2 * (MAX_CONTEXT + 4)


class WithPool:
    """Has a pool, and fails whoever asks for its context's length."""

    req_to_token = torch.zeros(3, 12)

    def __init__(self) -> None:
        self.inner = SimpleNamespace(req_to_token=torch.zeros(3, 14))

    @property
    def max_context_len(self) -> int:
        raise AssertionError("the pool is known")


def test_an_owner_with_a_pool_needs_no_context_length() -> None:
    owner: Any = WithPool()
    assert lengths.row_length(owner) == 14
    handing: Any = SimpleNamespace(inner=SimpleNamespace(req_to_token=torch.zeros(3, 12)))
    assert lengths.row_length(handing) == 12


def test_the_width_of_a_row_is_looked_up_once_for_each_backend() -> None:
    looked: list[str] = []

    class Backend:
        max_context_len = 8

        @property
        def req_to_token(self) -> torch.Tensor:
            looked.append("pool")
            return torch.zeros(3, 12)

    one: Any = Backend()
    other: Any = SimpleNamespace(max_context_len=8, req_to_token=torch.zeros(3, 16))
    assert [lengths.row_length(backend) for backend in (one, other, one, other)] == [12, 16, 12, 16]
    assert looked == ["pool"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("tokens", [None, TOKENS])
def test_a_mask_whose_owner_has_no_context_length_is_returned_unchanged(
    known: bool, tokens: int | None
) -> None:
    mask = torch.zeros(7, dtype=torch.bool)
    owner: Any = SimpleNamespace(num_draft_tokens=tokens)
    for count in (1, 5):
        batch, _ = verifying([MAX_CONTEXT] * count, known=known)
        assert preallocated_mask(mask, owner, batch) is mask
    owner.verify_mask_requests = 4
    assert preallocated_mask(mask, owner, batch) is None


@pytest.mark.parametrize(("count", "kept"), [(1, True), (2, True), (3, False)])
def test_a_preallocated_mask_is_for_as_many_requests_as_a_graph_has(count: int, kept: bool) -> None:
    batch, backend = verifying([4] * count, known=False)
    mask = torch.zeros(1)
    assert preallocated_mask(mask, backend, batch) is mask
    backend.verify_mask_requests = 2
    assert preallocated_mask(mask, backend, batch) is (mask if kept else None)
    assert preallocated_mask(None, backend, batch) is None


WIDTH = MAX_CONTEXT + 4


def owning(size: int, **more: Any) -> Any:
    """Return a backend with a mask of that size for a verify."""
    fields = {
        "max_context_len": MAX_CONTEXT,
        "num_draft_tokens": TOKENS,
        "req_to_token": torch.zeros(9, WIDTH),
    }
    made = SimpleNamespace(**fields | more, mask=torch.zeros(size, dtype=torch.bool))
    made.get_verify_buffers_to_fill_after_draft = lambda: [made.mask, None]
    made.get_cuda_graph_seq_len_fill_value = lambda: 1
    return made


def full_size(count: int, length: int) -> int:
    return count * TOKENS * (length + TOKENS)


def filled(mask: torch.Tensor | None, owner: Any) -> int | None:
    """Return how many elements of its owner's mask a verify fills, None if it has another or none."""
    return None if mask is None or mask.data_ptr() != owner.mask.data_ptr() else mask.numel()


@pytest.mark.parametrize("tokens", ["num_draft_tokens", "speculative_num_draft_tokens"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [1, 100, WIDTH])
def test_of_a_mask_only_what_its_batch_and_the_padding_read_is_handed_out(
    length: int, known: bool, tokens: str
) -> None:
    backend = owning(full_size(GRAPH, WIDTH), **({"num_draft_tokens": None} | {tokens: TOKENS}))
    for count in range(1, GRAPH + 1):
        batch, _ = verifying([length] * count, known=known)
        # Without the total each request may be as long as its row.
        most = full_size(count, length if known else WIDTH) + full_size(GRAPH - count, 1)
        assert filled(preallocated_mask(backend.mask, backend, batch), backend) == most
    batch, _ = verifying([WIDTH] * (GRAPH + 1), known=known)
    assert preallocated_mask(backend.mask, backend, batch) is None
    # Above the largest graph short requests are known to have room.
    batch, _ = verifying([1] * (GRAPH + 1), known=known)
    handed = preallocated_mask(backend.mask, backend, batch)
    assert filled(handed, backend) == (full_size(GRAPH + 1, 1) if known else None)


def test_padding_requests_are_as_long_as_the_hybrid_backend_has_them() -> None:
    owner = owning(full_size(GRAPH, WIDTH))
    hybrid = SimpleNamespace(full_attn_backend=owner, get_cuda_graph_seq_len_fill_value=lambda: TOKENS)
    wrapper: Any = hybrid
    batch, _ = verifying([4], known=True)
    handed = preallocated_mask(None, wrapper, batch)
    assert filled(handed, owner) == full_size(1, 4) + full_size(GRAPH - 1, TOKENS)


def test_under_data_parallel_attention_the_mask_is_whole() -> None:
    backend = owning(full_size(GRAPH, WIDTH))
    batch, _ = verifying([4, 4], known=True)
    padded: Any = batch
    padded.global_num_tokens = [8, (GRAPH + 2) * TOKENS]
    assert preallocated_mask(backend.mask, backend, padded) is backend.mask


def test_a_mask_of_a_backend_that_does_not_name_its_draft_tokens_is_handed_out_whole() -> None:
    backend = owning(full_size(GRAPH, WIDTH), num_draft_tokens=None)
    batch, _ = verifying([5], known=True)
    assert preallocated_mask(backend.mask, backend, batch) is backend.mask


def test_a_full_batch_whose_graph_has_too_short_a_mask_is_given_a_longer_one() -> None:
    # As large as the context, as a fork's subclass may have it.
    backend = owning(GRAPH * TOKENS * MAX_CONTEXT)
    batch, _ = verifying([WIDTH] * GRAPH, known=False)
    mask = preallocated_mask(backend.mask, backend, batch)
    assert mask is not None
    assert mask.shape == backend.mask.shape
    assert mask.untyped_storage().nbytes() == full_size(GRAPH, WIDTH)
    assert mask.data_ptr() != backend.mask.data_ptr()


def test_a_mask_over_the_draft_alone_is_handed_out_as_it_is() -> None:
    backend = owning(GRAPH * TOKENS * TOKENS)
    batch, _ = verifying([MAX_CONTEXT] * GRAPH, known=False)
    assert preallocated_mask(backend.mask, backend, batch) is backend.mask


def test_a_wrapper_without_buffers_has_those_of_the_backend_that_verifies() -> None:
    owner = owning(full_size(GRAPH, WIDTH))
    batch, _ = verifying([4] * GRAPH, known=True)
    linear = SimpleNamespace(full_attn_backend=owner, linear_attn_backend=SimpleNamespace())
    sparse = SimpleNamespace(dense=owner)
    nested = SimpleNamespace(full_attn_backend=sparse)
    wrappers: list[Any] = [linear, sparse, nested]
    for wrapper in wrappers:
        assert filled(preallocated_mask(None, wrapper, batch), owner) == full_size(GRAPH, 4)
    # Two-batch overlap splits a mask at its requests' lengths; a wrapper that is not known is as long as its backend.
    others: list[Any] = [
        SimpleNamespace(primary=owner),
        SimpleNamespace(inner=owner, max_context_len=MAX_CONTEXT),
    ]
    for wrapper in others:
        assert preallocated_mask(None, wrapper, batch) is None
        assert lengths.row_length(wrapper) == WIDTH


def test_the_tree_mask_of_a_known_total_reads_nothing_from_the_backend() -> None:
    batch: Any = SimpleNamespace(seq_lens_sum=13)
    assert lengths.tree_mask_total(batch, SimpleNamespace()) == 13


# With and without the mirror: the same values where both exist.


@given(LENS)
def test_the_longest_is_the_same_on_the_host_and_on_the_device(lens: list[int]) -> None:
    assert lengths.longest(lens, int32(*lens)) == lengths.longest(None, int32(*lens)) == max(lens)


def test_a_table_has_the_longest_of_the_mirror_and_the_bound_without_one_or_on_an_idle_rank() -> None:
    assert lengths.longest_or_bound(torch.tensor([3, 8, 5]), 64) == 8
    assert lengths.longest_or_bound(None, 64) == 64
    assert lengths.longest_or_bound(torch.tensor([], dtype=torch.int64), 64) == 64


def test_the_longest_on_the_host_reads_no_device_tensor() -> None:
    unread: Any = Unread()
    assert lengths.longest([3, 8, 5], unread) == 8


@given(LENS)
def test_the_sum_is_the_mirrors_and_unknown_without_it(lens: list[int]) -> None:
    assert lengths.lens_sum(torch.tensor(lens)) == sum(lens)
    assert type(lengths.lens_sum(torch.tensor(lens))) is int
    assert lengths.lens_sum(None) is None


@given(LENS)
def test_lists_and_tensors_come_to_the_same_lens_on_the_device(lens: list[int]) -> None:
    listed, tensor = lengths.lens_on_device(lens, "cpu"), lengths.lens_on_device(int32(*lens), "cpu")
    assert listed.dtype == tensor.dtype == torch.int32
    assert torch.equal(listed, tensor)


def test_a_tensor_is_taken_to_be_on_the_device() -> None:
    lens = int32(1, 2)
    assert lengths.lens_on_device(lens, "cpu") is lens


def test_only_lists_are_a_host_mirror() -> None:
    listed = [1, 2]
    assert lengths.host_lens(listed) is listed
    assert lengths.host_lens(int32(1, 2)) is None


@given(st.integers(1, 16), LENS)
def test_draft_extend_lens_agree_with_and_without_the_mirror(stride: int, prefix: list[int]) -> None:
    on_device = torch.tensor(prefix)
    shape: Any = Shape(len(prefix))
    lens, prefix_lens = lengths.draft_extend_lens(stride, torch.tensor(prefix), shape)
    device_lens, device_prefix_lens = lengths.draft_extend_lens(stride, None, on_device)
    assert (lens, prefix_lens) == ([stride] * len(prefix), prefix)
    assert (device_lens.tolist(), device_prefix_lens.tolist()) == (lens, prefix_lens)
    assert device_lens.dtype == device_prefix_lens.dtype == torch.int32


class Shape:
    """A device tensor of which only the shape may be read."""

    def __init__(self, count: int) -> None:
        self.shape = (count,)


def test_draft_extend_lens_leave_the_batchs_own_lens_alone() -> None:
    prefix = torch.tensor([5, 6])
    lengths.draft_extend_lens(3, None, prefix)
    assert prefix.tolist() == [5, 6]
    assert prefix.dtype == torch.int64


@given(st.integers(1, 16), st.integers(1, 16))
def test_uniform_extend_lens_are_mirrored_without_a_copy(stride: int, count: int) -> None:
    batch = SimpleNamespace(
        extend_seq_lens=Unread(),
        extend_seq_lens_cpu=None,
        extend_num_tokens=stride * count,
        batch_size=count,
    )
    lengths.mirror_uniform_extend_lens(batch)
    assert batch.extend_seq_lens_cpu == torch.full((count,), stride).tolist()


def test_a_mirror_that_is_there_stays() -> None:
    batch = SimpleNamespace(
        extend_seq_lens=int32(1, 5), extend_seq_lens_cpu=[1, 5], extend_num_tokens=6, batch_size=2
    )
    lengths.mirror_uniform_extend_lens(batch)
    assert batch.extend_seq_lens_cpu == [1, 5]


def test_an_idle_batch_has_no_extend_lens_to_mirror() -> None:
    batch = SimpleNamespace(
        extend_seq_lens=None, extend_seq_lens_cpu=None, extend_num_tokens=None, batch_size=0
    )
    lengths.mirror_uniform_extend_lens(batch)
    assert batch.extend_seq_lens_cpu is None


def test_a_batch_of_no_requests_has_no_extend_lens() -> None:
    batch = SimpleNamespace(
        extend_seq_lens=int32(), extend_seq_lens_cpu=None, extend_num_tokens=0, batch_size=0
    )
    lengths.mirror_uniform_extend_lens(batch)
    assert batch.extend_seq_lens_cpu == []


# Code that computes on the host gets the lens back.


@pytest.mark.parametrize(
    ("extend", "prefix"), [("extend_seq_lens", "extend_prefix_lens"), ("extend_lens", "prefix_lens")]
)
def test_host_code_gets_lists_and_a_mirror_back(extend: str, prefix: str) -> None:
    forward = SimpleNamespace(seq_lens=SimpleNamespace(cpu=lambda: "lens on the host"), seq_lens_cpu=None)
    batch = SimpleNamespace(**{extend: int32(2, 2), prefix: int32(5, 7)})
    lengths.restore_host_lens(forward, batch)
    assert forward.seq_lens_cpu == "lens on the host"
    assert vars(batch) == {extend: [2, 2], prefix: [5, 7]}


def test_what_is_on_the_host_already_stays_as_it_is() -> None:
    mirror, extend = torch.tensor([7, 9]), [2, 2]
    forward = SimpleNamespace(seq_lens=Unread(), seq_lens_cpu=mirror)
    batch = SimpleNamespace(extend_seq_lens=extend, extend_prefix_lens=None)
    lengths.restore_host_lens(forward, batch)
    assert forward.seq_lens_cpu is mirror
    assert batch.extend_seq_lens is extend
    assert batch.extend_prefix_lens is None

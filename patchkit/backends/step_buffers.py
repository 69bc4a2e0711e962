"""Inputs and output buffers of the kernels of a decode step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class DraftedChains(NamedTuple):
    """A batch in which every request drafted one chain of the same number of tokens, on the device.

    ``candidates`` (int64, [requests, tokens], contiguous) start with the token before the draft; ``targets`` (the
    same) are the target's tokens after each of them. ``lens`` (int64, [requests], contiguous) are the lengths
    before.
    """

    candidates: torch.Tensor
    targets: torch.Tensor
    lens: torch.Tensor


class VerifiedTrees(NamedTuple):
    """A batch in which every request drafted one tree of the same number of tokens, after its verify, on the device.

    ``predicted`` (int32, [requests x tokens]) are the target's tokens after each draft token, ``places`` (int32,
    [requests, depth]) those in the batch of those on the accepted path, then -1, ``drafts`` (int32, [requests])
    their numbers without the first, and ``lens`` (int64, [requests]) the lengths before. All are contiguous.
    """

    predicted: torch.Tensor
    places: torch.Tensor
    drafts: torch.Tensor
    lens: torch.Tensor


class AcceptedPaths(NamedTuple):
    """The accepted paths of a batch's trees, on the device.

    ``places``, ``drafts`` and ``lens`` are those of ``VerifiedTrees``. ``slots`` (int64, [requests x tokens]) are those
    of all draft tokens, ``rows`` (integer, [requests]) each request's in ``req_to_token`` (integer, [pool, slots]).
    All are contiguous.
    """

    places: torch.Tensor
    drafts: torch.Tensor
    lens: torch.Tensor
    slots: torch.Tensor
    rows: torch.Tensor
    req_to_token: torch.Tensor


class PathMoves(NamedTuple):
    """Where accepted paths go: int64 views of one buffer.

    ``to`` and ``source`` [requests x depth] are the slots behind each length and those of the accepted tokens, one
    request after the other, then 0. Both start at multiples of 16 bytes: the kernel that moves keys is compiled for
    that. ``order`` [requests x tokens] are the places of a request's path, which is filled with the batch's first
    place to its greatest depth, and of the draft tokens behind that.
    """

    buffer: torch.Tensor
    to: torch.Tensor
    source: torch.Tensor
    order: torch.Tensor


class CommittedTokens(NamedTuple):
    """What a batch's accepted paths leave, one request after the other: two tensors, and views of them in this order.

    ``narrow`` (int32): ``places`` [accepted], the places of the accepted tokens in the batch; ``tokens`` [accepted],
    the target's tokens after them; ``counts`` [requests], their numbers; ``bonus`` [requests], each request's last
    token; ``starts`` [requests], its first one's row. ``wide`` (int64): ``kept`` [accepted], the slots of accepted
    tokens; ``positions`` [accepted], theirs in the request; ``freed``, the slots of all others.
    """

    narrow: torch.Tensor
    places: torch.Tensor
    tokens: torch.Tensor
    counts: torch.Tensor
    bonus: torch.Tensor
    starts: torch.Tensor
    wide: torch.Tensor
    kept: torch.Tensor
    positions: torch.Tensor
    freed: torch.Tensor


class VerifyBuffers(NamedTuple):
    """The buffers of the outcome: two tensors, and views of them in this order.

    ``narrow`` (int32): ``tokens`` [requests x tokens], the accepted tokens and the bonus token, then 0;
    ``accepted`` [requests], their number with the bonus; ``places`` [requests x tokens], their positions in the
    batch, then -1; ``drafts`` [requests], their number without the bonus; ``bonus`` [requests], the bonus tokens.
    ``wide`` (int64): ``lens_after`` [requests]; ``last`` [requests], the position of each bonus token;
    ``wide_tokens`` and ``wide_bonus``, the tokens again.

    For a draft-extend of all tokens follow: in ``narrow`` ``prefixes``, the lengths before, ``extends``, the tokens
    per request, and ``starts``, its first position, [requests] each; in ``wide`` ``extended`` [requests], the
    lengths with all tokens, and ``positions`` [requests x tokens].
    """

    narrow: torch.Tensor
    tokens: torch.Tensor
    accepted: torch.Tensor
    places: torch.Tensor
    drafts: torch.Tensor
    bonus: torch.Tensor
    prefixes: torch.Tensor
    extends: torch.Tensor
    starts: torch.Tensor
    wide: torch.Tensor
    lens_after: torch.Tensor
    last: torch.Tensor
    wide_tokens: torch.Tensor
    wide_bonus: torch.Tensor
    extended: torch.Tensor
    positions: torch.Tensor


class States(NamedTuple):
    """The states of all layers, on the device.

    ``into`` [layers, slots, ...], contiguous, has one state per slot; ``drafted`` [layers, requests, steps, ...],
    contiguous, has those after each token of a verify. ``windows`` may overlap, by its strides.
    """

    into: torch.Tensor
    drafted: torch.Tensor
    windows_into: torch.Tensor
    windows: torch.Tensor


class AcceptedTokens(NamedTuple):
    """The accepted tokens of a verify, on the device.

    ``lens`` (int64, [requests]) are the lengths before, ``accepted`` (int32, [requests]) the numbers of accepted
    tokens with the bonus, ``places`` (int32, [requests, depth]) their positions in the batch, then -1, ``tokens`` the
    tokens per request. The state after them goes to the request's slot in ``slots`` (int32, [>= requests]), and the
    one at the last multiple of ``interval`` before it to that in ``tracked`` (int64, [requests]), if that is not
    None. All are contiguous. Negative slots are skipped, and so are requests that accepted nothing.
    """

    lens: torch.Tensor
    accepted: torch.Tensor
    places: torch.Tensor
    tokens: int
    slots: torch.Tensor
    tracked: torch.Tensor | None
    interval: int


class AheadSlots(NamedTuple):
    """What a step writes ahead of a batch, on the device: int64 views of one buffer.

    ``drafted`` [requests x steps] are the slots of the draft's tokens, ``verified`` [requests x tokens] those of the
    verify's, both from each request's length on; ``positions`` [requests] are the lengths.
    """

    buffer: torch.Tensor
    drafted: torch.Tensor
    verified: torch.Tensor
    positions: torch.Tensor


class ChainDrafts(NamedTuple):
    """What a batch of drafted chains of as many tokens, with the one before the draft, is verified from.

    On the device, int64, contiguous: ``lens`` and ``rows`` of the pool [requests], ``bonus`` [requests], the tokens
    before the draft, ``drafts`` [requests, tokens - 1], and ``slots`` [requests x tokens].
    """

    lens: torch.Tensor
    rows: torch.Tensor
    bonus: torch.Tensor
    drafts: torch.Tensor
    slots: torch.Tensor


class ChainInputs(NamedTuple):
    """The buffers of a verify's inputs, on the device, contiguous: integer, [requests x tokens], ``rows`` [requests].

    ``tokens`` and ``positions`` are those of the batch, the others a graph's.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    graph_tokens: torch.Tensor
    graph_positions: torch.Tensor
    graph_slots: torch.Tensor
    graph_rows: torch.Tensor


class ChainMask(NamedTuple):
    """A tree mask over the whole context, on the device, of which only the part over the draft tokens is read.

    ``mask`` (uint8 or bool, contiguous) has a request's part, [tokens, length + tokens], from its element of
    ``starts`` (int64, [>= requests]) on. ``lens`` (integer, [requests]) are the lengths that these follow from.
    """

    mask: torch.Tensor
    starts: torch.Tensor
    lens: torch.Tensor

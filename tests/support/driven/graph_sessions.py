"""The input of a differential test of a backend: graphs of several sizes, then a sequence of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTEXT = 200
WIDTH = CONTEXT + 16
"""The tokens of a row of the request pool: the context, and room for tokens that speculation writes ahead."""
REQUESTS = 24
GRAPHS = (1, 2, 4, 7)
"""Sizes that graphs are captured for."""
# Neighbours of what page sizes and kernel blocks divide by.
_LENGTHS = st.integers(8, CONTEXT - 12) | st.sampled_from([15, 16, 17, 31, 32, 63, 64, 65, 127, 128, 129])


@st.composite
def batches(draw: st.DrawFn, graph: int, stride: int, named: bool) -> dict[str, Any]:
    """Draw a batch for a graph, with fewer requests than it or as many.

    Every request has a row of the pool and a length; of a draft-extend it also accepted some of ``stride`` tokens,
    and the batch names that stride or leaves it unset.
    """
    count = draw(st.integers(1, graph))
    rows = draw(st.lists(st.integers(1, REQUESTS - 1), min_size=count, max_size=count, unique=True))
    return {
        "graph": graph,
        "rows": rows,
        "lens": draw(st.lists(_LENGTHS, min_size=count, max_size=count)),
        "accepted": draw(st.lists(st.integers(1, stride), min_size=count, max_size=count)),
        "stride": stride if named else -1,
    }


@st.composite
def sessions(
    draw: st.DrawFn,
    /,
    modes: Sequence[str],
    page_sizes: Sequence[int],
    *,
    named: bool | None = None,
    sizes: Sequence[int] = GRAPHS,
    most: int = 4,
    **server: st.SearchStrategy[Any],
) -> dict[str, Any]:
    """Draw a server, a mode, graphs of some of ``sizes``, and at most ``most`` batches.

    ``named`` fixes whether the batches name their stride.
    """
    stride = draw(st.integers(1, 5))
    made = {
        "context": CONTEXT,
        "requests": REQUESTS,
        "page_size": draw(st.sampled_from(page_sizes)),
        "seed": draw(st.integers(0, 99)),
        "draft_tokens": stride,
        **{name: draw(values) for name, values in server.items()},
    }
    graphs = sorted(draw(st.sets(st.sampled_from(sizes), min_size=1)))
    batch = st.sampled_from(graphs).flatmap(
        lambda graph: st.booleans().flatmap(
            lambda drawn: batches(graph, stride, drawn if named is None else named)
        )
    )
    return {
        "server": made,
        "mode": draw(st.sampled_from(modes)),
        "graphs": graphs,
        "batches": draw(st.lists(batch, min_size=1, max_size=most)),
        # Of a draft's decode.
        "step": draw(st.integers(0, 3)),
    }

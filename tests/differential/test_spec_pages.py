"""Unpatched releases give back every page of a request that speculated, though its slots may end within one.

Upstream's pull request 31616, in 0.5.16, counts slots to the end of a page; the pages that are taken and given back are
the same before it, so there is nothing to backport.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.trees import as_released

if TYPE_CHECKING:
    from support.releases import Releases


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.14"])
@pytest.mark.parametrize("page", [1, 4, 64])
def test_a_request_that_speculated_leaves_no_page_behind(releases: Releases, version: str, page: int) -> None:
    tree = as_released(releases, version)
    for seed, (prompt, steps) in enumerate([(1, 1), (3, 9), (63, 4), (64, 1), (65, 30), (128, 17)]):
        if prompt + 8 * steps < page * 60:
            before, after = tree.ask("spec_pages.taken", page, prompt, steps, seed)
            assert before > prompt
            assert after == 0

"""Every edit that the patches make in a release is taken back from under what a person did around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.releases import REFERENCE
from support.sweeps import swept
from support.unwinding import blank_lines, copied_functions

if TYPE_CHECKING:
    from support.releases import Releases

SIXTH_OF_THE_FILES = pytest.mark.parametrize("first", swept(range(6), (0).__eq__))


@SIXTH_OF_THE_FILES
def test_blank_line_on_both_sides_of_any_site_stays_no_obstacle(releases: Releases, first: int) -> None:
    tally = blank_lines(releases.plan(REFERENCE).changes[first::6])
    assert tally.wrong == []
    assert (tally.exact > 20, tally.refused) == (True, 0)


@SIXTH_OF_THE_FILES
def test_copy_of_any_patched_function_stays_and_the_function_itself_is_reverted(
    releases: Releases, first: int
) -> None:
    tally = copied_functions(releases.plan(REFERENCE).changes[first::6])
    assert tally.wrong == []
    # A second definition of the same name is always refused.
    assert tally.exact > 2 * tally.refused > 10

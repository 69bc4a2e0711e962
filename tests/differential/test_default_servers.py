"""Each function that default patches touch does, on a server with sglang's defaults, what it did, at no more cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.defaults import BOUND, DRIVEN, RELEASES, SMALLEST, UNDRIVEN, cases
from support.driven.trees import DEFAULT, ProbeError, as_released, with_patches
from support.touched import touched

if TYPE_CHECKING:
    from support.driven.defaults import Case
    from support.driven.trees import DrivenTree
    from support.releases import Releases


def without(answer: Any, names: frozenset[str]) -> Any:
    """Leave out parts of an answer, wherever they are in it."""
    if isinstance(answer, dict):
        return {name: without(value, names) for name, value in answer.items() if name not in names}
    if isinstance(answer, (list, tuple)):
        return [without(each, names) for each in answer]
    return answer


def unlike(case: Case, before: DrivenTree, seen: dict[str, Any], *, new: bool) -> list[str]:
    """Return what a patched tree was seen to do otherwise than the unpatched one, or at more cost."""
    try:
        was = before.observe(case.probe, *case.arguments, **case.keywords)
    except ProbeError:
        if case.mirror and not new:
            raise
        was = None
    left_out = frozenset(case.besides.split())
    # What is new has no former result; without the mirror, the unpatched tree may compute with None.
    same = was is None or new or without(seen["answer"], left_out) == without(was["answer"], left_out)
    reads, largest = (was["reads"], was["largest"]) if was else (0, 0)
    most = max(largest, SMALLEST if case.mirror and was else BOUND) + case.wider
    found = [] if same else ["has another result"]
    if seen["reads"] > reads:
        found.append(f"reads {seen['reads']} times on the host, not {reads}")
    if seen["largest"] > most:
        found.append(f"allocates {seen['largest']} bytes, not {most}")
    return [f"{case} {each}" for each in found]


@pytest.mark.parametrize("release", RELEASES)
def test_what_default_patches_touch_does_with_default_settings_what_it_did_at_no_more_cost(
    releases: Releases, release: str
) -> None:
    before, after = as_released(releases, release), with_patches(releases, "defaults", DEFAULT, release)
    changed = touched(releases.tree(release).package, releases.applied(release, *DEFAULT).package)
    every = set(changed.functions.values())
    driven: set[str] = set()
    found: list[str] = []
    for functions, case in cases(release):
        here = functions & every
        if here:
            seen = after.observe(case.probe, *case.arguments, **case.keywords)
            ran = {changed.functions.get(tuple(each)) for each in seen["ran"]}
            driven |= here & ran
            found += unlike(case, before, seen, new=here <= changed.new)
            found += [] if here & ran else [f"{case} runs none of {sorted(here)}"]
    assert found == []
    # What another patch touches needs a case there, or a reason.
    assert every - driven - UNDRIVEN.keys() == set()


def test_a_function_without_a_case_has_none_elsewhere() -> None:
    assert not UNDRIVEN.keys() & {function for driven in DRIVEN for function in driven.functions}

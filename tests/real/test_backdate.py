"""0.5.13 without upstream's patches, a tree of main's shape: what patchkit says of it and does to it.

What main's trees alone have (the future map's lengths, the three-method metadata interface) is in no release that lacks
the patches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real.test_releases import Journey, travel
from support.backdated import KEPT, LAST_FIRST, RELEASE, UNFIT, backdate, lay_out
from support.releases import IN_PART, PATCHES, REFERENCE, UPSTREAM, Releases, after, states, states_in
from support.sweeps import swept

from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.plan.status import Plan

pytestmark = pytest.mark.usefixtures("_parsed_once")

ONLY_HERE = {
    "25002": {"kit-comparison", "kit-dense-case", "kit-mla-case"},
    "25925": {"plan-order.1", "plan-order.2", "plan-order.3", "plan-order.4"},
    "26128": {"create-argument", "host-sum.3", "host-sum.4", "map-parameter.2", "resolve"}
    | {"mask-copy.3", "view-mirror.1", "view-mirror.2", "view-mirror.3"},
    "26241": {"out-graph"},
    "26380": {"early.1", "early.2", "early.3"},
    "28559": {"context"},
    "28579": {"padding-of-replays", "unsaid-padding.1", "unsaid-padding.2"},
    "28782": {"capture-or-replay", "list-of-draft-tokens"},
    "31090": {"replay"},
    "31364": {"fill-steps-of-view", "share-steps-of-view"},
    "pk-dead-work": {"mirror-buffers"},
    "pk-step-inputs": {"extend"},
    "pk-step-relay": {"pool-keep", "pool-keep-lens", "pool-kept", "pool-kept-lens", "pool-store"},
    "pk-triton-replay": {"method-verify"},
}
"""Edits that this tree takes and the last release that lacks the patches does not."""


def pending(plan: Plan) -> set[tuple[str, str]]:
    """Return the patch and the name of every edit that a plan makes."""
    edits = ((status.patch.id, edit) for status in plan.patches for edit in status.edits)
    return {(patch, edit.name) for patch, edit in edits if edit.state is State.PENDING}


@pytest.fixture(scope="module")
def journey(backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    return travel(lay_out(backdated, releases, tmp_path_factory.mktemp("backdated")))


def all_but_kept(names: Iterable[str], state: str) -> dict[str, str]:
    """Return the state of each patch where all have this one that apply and that upstream's form is not there of."""
    return (
        dict.fromkeys(names, state) | dict.fromkeys(KEPT, "upstream") | dict.fromkeys(UNFIT, "not-applicable")
    )


def test_every_patch_is_pending(journey: Journey) -> None:
    assert states_in(journey.before) == all_but_kept(states_in(journey.before), "pending")
    assert set(UPSTREAM) < set(states_in(journey.before))


def test_apply_makes_every_patch_applied(journey: Journey) -> None:
    assert states_in(journey.applying) == all_but_kept(states_in(journey.before), "applied")
    assert states_in(journey.after) == states_in(journey.applying)


def test_every_changed_file_compiles(journey: Journey) -> None:
    for file, code in journey.code.items():
        compile(code, file, "exec", dont_inherit=True)


def test_a_second_apply_changes_no_byte(journey: Journey) -> None:
    assert journey.again["changed_files"] == []
    assert journey.repatched == journey.patched


def test_revert_gives_the_old_bytes_and_modes_of_the_whole_tree(journey: Journey) -> None:
    assert journey.restored == journey.pristine


def test_it_takes_edits_that_no_release_takes(backdated: OverlayTree, releases: Releases) -> None:
    here = pending(make_plan(backdated, PATCHES)) - pending(releases.plan(REFERENCE))
    assert here == {(patch, name) for patch, names in ONLY_HERE.items() for name in names}


@pytest.mark.parametrize(
    "taken_out",
    swept(
        [("25002",), ("26824",), ("26241",), ("25925",), ("26738",), ("26738", "26128"), LAST_FIRST[:-1]],
        LAST_FIRST[:-1].__eq__,
    ),
    ids="+".join,
)
def test_a_tree_that_lacks_some_of_them_gets_those(releases: Releases, taken_out: tuple[str, ...]) -> None:
    upstreams = tuple(patch for patch in PATCHES if patch.id in UPSTREAM)
    tree = backdate(releases.tree(RELEASE), taken_out)
    lacks = {*taken_out, *IN_PART}
    lacking = {name: "pending" if name in lacks else "upstream" for name in UPSTREAM}
    plan = make_plan(tree, upstreams)
    assert {status.patch.id: status.state.value for status in plan.patches} == lacking
    landed = {name: "applied" if name in lacks else "upstream" for name in UPSTREAM}
    assert states(after(plan), upstreams) == landed


@pytest.mark.parametrize(
    ("release", "forms", "edits"),
    [
        pytest.param(
            RELEASE,
            (*LAST_FIRST, "gather-on-host"),
            {"resolve-host"},
            marks=pytest.mark.sweep,
            id="first future map",
        ),
        pytest.param(RELEASE, (*LAST_FIRST, "gather-once"), {"resolve"}, id="one gather for both"),
        pytest.param(
            REFERENCE,
            ("refreshed-batch",),
            {"refresh", "host-sum.2"},
            marks=pytest.mark.sweep,
            id="batch before the map",
        ),
    ],
)
def test_lengths_that_main_took_to_the_host_elsewhere_are_found_there(
    releases: Releases, release: str, forms: tuple[str, ...], edits: set[str]
) -> None:
    plan = make_plan(backdate(releases.tree(release), forms), PATCHES)
    landed = states(after(plan))
    applied = dict.fromkeys(landed, "applied")
    assert landed == (all_but_kept(landed, "applied") if release == RELEASE else applied)
    taken = {edit for patch, edit in pending(plan) if patch == "26128"}
    assert edits <= taken
    assert not ({"resolve", "decode-copy"} - edits) & taken


def test_lengths_that_no_known_gather_takes_to_the_host_are_a_conflict(backdated: OverlayTree) -> None:
    source = backdated.read("srt/managers/overlap_utils.py") or b""
    gather = b"batch.seq_lens = self.new_seq_lens_buf["
    assert source.count(gather) == 1
    unknown = OverlayTree(
        backdated,
        {"srt/managers/overlap_utils.py": source.replace(gather, b"batch.seq_lens = gathered(self)[")},
    )
    found = {status.patch.id: status for status in make_plan(unknown, PATCHES).patches}
    assert found["26128"].state is State.CONFLICT
    assert "FutureMap.resolve_seq_lens_cpu in srt/managers/overlap_utils.py" in found["26128"].reason
    assert "the fork's own: leave 26128 out if that already has the patch's effect" in found["26128"].reason

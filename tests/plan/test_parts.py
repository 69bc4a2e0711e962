"""A patch's parts have conditions of their own, and a state, a revert and requirements together with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from plan.test_build import DESK, FLAG, LIBRARY, SHELF, after, applied, edit, edits, library, patch, status

from patchkit.plan.build import make_plan, make_series
from patchkit.plan.status import State
from patchkit.series.message import message

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch

FINE = edit(
    "rewrite",
    f"{DESK}::Desk.lend",
    "fine",
    part="desk",
    why="a fee",
    find="$r.debt += $b.price",
    code="$r.charge($b)",
)
SORT = edit(
    "insert-after",
    f"{SHELF}::Shelf.add",
    "sort",
    part="order",
    why="sorted",
    find="self.books.append($b)",
    code="self.sort()",
)
LANDED = [{"at": f"{SHELF}::Shelf", "has": "lends = True"}]
LENDING = LIBRARY[SHELF].replace("rows = 5", "rows = 5\n    lends = True")
ORDERING = LENDING.replace("self.books.append(book)", "self.books.append(book)\n        self.sort()")
CHARGING = LIBRARY[DESK].replace("reader.debt += book.price", "reader.charge(book)")


def parted(*more: dict[str, Any], order: dict[str, Any] | None = None, **keys: Any) -> Patch:
    """Return a patch of a flag, which upstream has too, and two parts that upstream never had."""
    parts = {
        "desk": {"title": "A desk that charges", "why": "Debts.", "formerly": "toy-desk"},
        "order": {"title": "Shelves in order", "why": "Order.", "upstream_commit": "b" * 40, **(order or {})},
    }
    return patch(FLAG, FINE, SORT, *more, part=parts, **{"upstream_when": LANDED, **keys})


def states(found: Any) -> dict[str, str]:
    return {edit.name: edit.state.value for edit in found.edits}


def test_a_tree_without_the_change_gets_all_parts_in_one_patch() -> None:
    toy = parted()
    assert status(library(), toy).state is State.PENDING
    tree = applied(library(), toy)
    patch_status = status(tree, toy)
    assert (patch_status.state, patch_status.reason) == (State.APPLIED, "")
    assert set(states(patch_status).values()) == {"applied"}


def test_a_tree_with_upstreams_change_takes_the_parts_that_it_lacks() -> None:
    toy = parted()
    patch_status = status(library(shelf=LENDING), toy)
    assert (patch_status.state, patch_status.reason) == (State.PENDING, "upstream's without desk, order")
    assert states(patch_status) == {"class-attribute": "upstream", "fine": "pending", "sort": "pending"}
    patch_status = status(applied(library(shelf=LENDING), toy), toy)
    assert patch_status.state is State.APPLIED
    # The comment of a part in the same file does not make upstream's edit ours.
    assert states(patch_status) == {"class-attribute": "upstream", "fine": "applied", "sort": "applied"}


def test_a_part_of_which_upstream_has_one_edit_is_pending() -> None:
    toy = parted({**SORT, "name": "count", "part": "desk", "why": "counted", "code": "self.count()"})
    tree = library(shelf=LENDING, desk=CHARGING)
    patch_status = status(tree, toy)
    assert (patch_status.state, patch_status.reason) == (State.PENDING, "upstream's without desk, order")
    assert states(patch_status)["fine"] == "unknown"
    assert status(applied(tree, toy), toy).state is State.APPLIED


def test_a_comment_in_other_words_does_not_make_upstreams_edit_ours() -> None:
    toy = parted()
    tree = applied(library(shelf=LENDING), toy)
    other = library(
        shelf=(tree.read(SHELF) or b"").replace(b": sorted", b": in order"), desk=tree.read(DESK) or b""
    )
    assert states(status(other, toy)) == {"class-attribute": "upstream", "fine": "applied", "sort": "applied"}


def test_a_comment_in_other_words_is_a_patchs_where_upstreams_change_is_not() -> None:
    toy = parted(upstream_when=[{"at": "srt/hall.py"}])
    tree = applied(library(), toy)
    text = (tree.read(SHELF) or b"").replace(b": toy", b": lending").replace(b": sorted", b": in order")
    patch_status = status(library(shelf=text, desk=tree.read(DESK) or b""), toy)
    assert set(states(patch_status).values()) == {"applied"}


def test_a_comment_with_the_former_id_is_the_parts() -> None:
    toy = parted(order={"formerly": "toy-order", "upstream_when": [{"at": f"{SHELF}::Shelf.add"}]})
    tree = applied(library(shelf=LENDING), toy)
    text = (tree.read(SHELF) or b"").replace(b"# patchkit toy: sorted", b"# patchkit toy-order: once so")
    patch_status = status(library(shelf=text, desk=tree.read(DESK) or b""), toy)
    assert states(patch_status) == {"class-attribute": "upstream", "fine": "applied", "sort": "applied"}


def test_each_part_says_by_its_own_facts_whether_upstream_has_it() -> None:
    toy = parted(order={"upstream_when": [{"at": f"{SHELF}::Shelf.add", "has": "self.sort()"}]})
    patch_status = status(library(shelf=ORDERING), toy)
    assert (patch_status.state, patch_status.reason) == (State.PENDING, "upstream's without desk")
    assert states(patch_status) == {"class-attribute": "upstream", "fine": "pending", "sort": "upstream"}
    whole = status(library(shelf=ORDERING, desk=CHARGING), toy)
    assert whole.state is State.UPSTREAM
    patch_status = status(library(shelf=ORDERING.replace("    lends = True\n", "")), toy)
    assert (patch_status.state, patch_status.reason) == (State.PENDING, "upstream's in order")


def test_a_site_that_changed_since_is_upstreams_only_for_the_part_that_landed() -> None:
    moved = LIBRARY[DESK].replace("reader.debt += book.price", "reader.bill(book)")
    patch_status = status(library(shelf=LENDING, desk=moved), parted())
    assert patch_status.state is State.CONFLICT
    assert patch_status.reason.startswith(f"desk: {DESK}: Desk.lend: fine: ")
    assert edits(patch_status)["class-attribute"].state is State.UPSTREAM


def test_a_conflict_of_a_part_leaves_all_of_the_patch_out() -> None:
    plan = make_plan(library(desk="class Desk:\n    pass\n"), [parted()])
    assert plan.changes == ()
    assert plan.patches[0].state is State.CONFLICT


def test_a_part_whose_code_was_taken_out_is_missed() -> None:
    toy = parted()
    tree = applied(library(), toy)
    patch_status = status(library(shelf=tree.read(SHELF) or b""), toy)
    assert (patch_status.state, patch_status.reason) == (State.PARTIAL, "the edits of desk are missing")
    patch_status = status(library(desk=tree.read(DESK) or b""), toy)
    assert (patch_status.state, patch_status.reason) == (
        State.PARTIAL,
        "the edits of the patch itself, order are missing",
    )
    half = parted({**SORT, "name": "count", "why": "counted", "code": "self.count()"})
    patch_status = status(tree, half)
    assert (patch_status.state, patch_status.reason) == (State.PARTIAL, "1 of 2 edits are missing of order")


def test_a_part_that_is_not_for_a_tree_is_no_reason_against_the_others() -> None:
    toy = parted(order={"applies_when": ["srt/hall.py"]})
    assert states(status(applied(library(), toy), toy)) == {"class-attribute": "applied", "fine": "applied"}
    toy = parted(applies_when=["srt/hall.py"])
    assert status(library(), toy).state is State.NOT_APPLICABLE


def test_a_part_with_none_of_its_shapes_is_a_conflict_that_names_it() -> None:
    shapes = {"shapes": {"high": [{"at": f"{SHELF}::Shelf", "has": "rows = 9"}]}, "any_shape_of": ["high"]}
    patch_status = status(library(), parted(order=shapes))
    assert patch_status.state is State.CONFLICT
    assert patch_status.reason.startswith("order: expected a known form of Shelf")


@pytest.mark.parametrize("shelf", [LIBRARY[SHELF], LENDING])
def test_what_a_fork_leaves_out_is_neither_made_nor_missed(shelf: str) -> None:
    toy = parted()
    parts = tuple(
        msgspec.structs.replace(part, left_out="in `left_out`" * (part.name == "desk")) for part in toy.parts
    )
    toy = msgspec.structs.replace(toy, parts=parts)
    plan = make_plan(library(shelf=shelf), [toy])
    assert {change.file for change in plan.changes} == {SHELF}
    patch_status = status(applied(library(shelf=shelf), toy), toy)
    assert patch_status.state is State.APPLIED
    assert edits(patch_status)["fine"].reason == "in `left_out`"
    # Nor is it a conflict.
    patch_status = status(library(shelf=shelf, desk="class Desk:\n    pass\n"), toy)
    assert patch_status.state is State.PENDING
    # What is there stays.
    assert edits(status(applied(library(shelf=shelf), parted()), toy))["fine"].state is State.APPLIED


def test_a_commit_is_told_by_the_parts_that_it_makes() -> None:
    toy = parted(upstream_commit="a" * 40)
    _, (stage,) = make_series(library(), [toy])
    text = message([stage.status])
    assert text.startswith(
        "toy\n\nTo see.\n\nRisk: None.\n\nAlso toy/desk: A desk that charges\n\nDebts.\n\n"
    )
    commits = [f"Upstream-Commit: {letter * 40}" for letter in "ab"]
    trailers = [
        "Patchkit-Patch: toy",
        commits[0],
        "Patchkit-Patch: toy/desk",
        "Patchkit-Patch: toy/order",
        commits[1],
    ]
    assert text.endswith("\n\n" + "\n".join(trailers) + "\n")
    _, (stage,) = make_series(library(shelf=LENDING, desk=CHARGING), [toy])
    assert message([stage.status], "fork: ") == (
        f"fork: Shelves in order\n\nOrder.\n\nPatchkit-Patch: toy/order\n{commits[1]}\n"
    )


def test_the_edits_of_a_part_come_after_those_of_the_patch() -> None:
    text = after(make_plan(library(), [parted()]), SHELF)
    assert text.index("lends = True") < text.index("self.sort()")

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst
import pytest
from support.releases import texts
from support.toys import write_package

from patchkit.errors import ConflictError, TreeError
from patchkit.patchset import load
from patchkit.plan.build import inspect, make_plan, make_series
from patchkit.plan.status import State, comment_start
from patchkit.tree.modules import Modules
from patchkit.tree.tree import OverlayTree, open_tree

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import EditStatus, PatchStatus, Plan

SHELF = "srt/shelf.py"
DESK = "srt/desk.py"

LIBRARY = {
    SHELF: """\
class Shelf:
    rows = 5

    def add(self, book):
        self.books.append(book)
""",
    DESK: """\
from sglang.srt.shelf import Shelf


class Desk:
    def lend(self, book, reader):
        reader.debt += book.price
        return book

    def close(self):
        self.open = False
""",
    "srt/shop.py": """\
def charge(reader, book):
    reader.debt += book.price
""",
}


@dataclass(frozen=True)
class MemoryTree:
    """A tree of texts."""

    contents: dict[str, str | bytes]
    package_label = "memory"
    name = "sglang"
    line_length = 88
    version = None

    def read(self, file: str) -> bytes | None:
        text = self.contents.get(file)
        return text.encode() if isinstance(text, str) else text

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        return sorted(file for file in self.contents if file.startswith(folder) and file.endswith(suffix))

    def record(self) -> dict[str, bytes]:
        return {}

    def unread(self, folder: str) -> list[str]:
        del folder
        return []


def library(**changes: str | bytes) -> MemoryTree:
    """Return the library with some files changed, named without folder and ending."""
    return MemoryTree({**LIBRARY, **{f"srt/{name}.py": text for name, text in changes.items()}})


def edit(kind: str, at: Any, name: str = "", **keys: Any) -> dict[str, Any]:
    """Return an edit's table with its name, which `patch` takes out again."""
    return {"name": name or kind, "kind": kind, "why": "toy", "at": at, **keys}


def patch(*edits: dict[str, Any], name: str = "toy", **keys: Any) -> Patch:
    header = {"schema": 1, "id": name, "title": name, "why": "To see.", "risk": "None.", "verify": "Look."}
    tables = {each["name"]: {key: each[key] for key in each if key != "name"} for each in edits}
    assert len(tables) == len(edits)
    return load.read({**header, **keys, "edit": tables}, Path("patch.toml"))


FLAG = edit("class-attribute", f"{SHELF}::Shelf", code="lends = True")
FINE = edit("rewrite", f"{DESK}::Desk.lend", find="$r.debt += $b.price", code="$r.charge($b)")
CLOSE = edit("insert-after", f"{DESK}::Desk.close", find="self.open = False", code="self.lock()")
LOST = edit("rewrite", f"{DESK}::Desk.lend", "lost", find="lose($b)", code="find($b)")


def status(tree: Any, *patches: Patch) -> PatchStatus:
    """Return the last patch's status, which is the same whether the tree is inspected or planned for."""
    statuses = inspect(tree, patches)
    assert make_plan(tree, patches).patches == statuses
    return statuses[-1]


def edits(found: PatchStatus) -> dict[str, EditStatus]:
    return {edit.name: edit for edit in found.edits}


def after(plan: Plan, file: str) -> str:
    (text,) = [change.after for change in plan.changes if change.file == file]
    assert text is not None
    return text.decode()


def applied(tree: Any, *patches: Patch) -> OverlayTree:
    """Return the tree as the plan leaves it, having asserted that planning again changes nothing."""
    plan = make_plan(tree, patches)
    result = OverlayTree(tree, {change.file: change.after for change in plan.changes})
    again = make_plan(result, patches)
    assert again.changes == ()
    assert {patch_status.state for patch_status in again.patches} <= {
        State.APPLIED,
        State.UPSTREAM,
        State.NOT_APPLICABLE,
    }
    return result


def test_an_edit_is_made_below_one_with_the_same_comment_in_another_block() -> None:
    tree = library(desk="def lend(r):\n    if r.old:\n        r.pay()\n    elif r.new:\n        r.greet()\n")
    old = edit("insert-before", f"{DESK}::lend", "old", find="$r.pay()", code="check($r)")
    new = edit("insert-before", f"{DESK}::lend", "new", find="$r.greet()", code="ask($r)")
    partial = applied(tree, patch(old))
    found = status(partial, patch(old, new))
    assert (found.state, found.reason) == (State.PARTIAL, "1 of 2 edits are missing")
    assert after(make_plan(partial, [patch(old, new)]), DESK) == after(
        make_plan(tree, [patch(old, new)]), DESK
    )


# ---- syntax trees


def test_functions_that_no_patch_looks_into_stay_as_they_are() -> None:
    odd = "  \n\n    def put( self ):\n        # odd\n        return  1 ;x=2  # as it was\n        # end"
    text = after(make_plan(library(desk=LIBRARY[DESK].rstrip("\n") + odd), [patch(FLAG, FINE)]), DESK)
    assert text.endswith("        self.open = False" + odd)
    assert text.removesuffix(odd) + "\n" == after(make_plan(library(), [patch(FLAG, FINE)]), DESK)


@pytest.mark.parametrize("whole", [False, True])
def test_name_that_a_function_nobody_looks_into_binds_in_its_module_is_taken(whole: bool) -> None:
    note = f"# whole: {whole}\n"  # A source of its own: plans of one source share its syntax tree.
    code = f"{note}class Desk:\n    def open(self):\n        global RATE\n        RATE = 1\n"
    tree = library(desk=code)
    if whole:
        Modules(tree).get(DESK)
    patch_status = status(tree, patch(edit("module-code", DESK, code="RATE = 0.1")))
    assert patch_status.state is State.CONFLICT
    assert "RATE" in patch_status.reason


def test_function_inside_another_can_be_a_site() -> None:
    nested = "def shelve(shelf):\n    def put(book):\n        shelf.add(book)\n\n    return put\n"
    toy = patch(edit("rewrite", f"{DESK}::shelve.put", find="$s.add($b)", code="$s.put($b)"))
    assert status(library(desk=nested), toy).state is State.PENDING
    changed = after(make_plan(library(desk=nested), [toy]), DESK)
    assert changed == nested.replace("shelf.add", f"# {comment_start(toy)} toy\n        shelf.put")
    applied(library(desk=nested), toy)


def test_file_that_two_trees_have_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def parse(source: bytes | str, *rest: Any) -> cst.Module:
        parsed.extend([source] if isinstance(source, bytes) else [])
        return parse_module(source, *rest)

    parse_module = cst.parse_module
    monkeypatch.setattr("libcst.parse_module", parse)
    shelf = f"{LIBRARY[SHELF]}\n# of two trees\n"
    first = after(make_plan(library(shelf=shelf), [patch(FLAG)]), SHELF)
    second = library(shelf=shelf, desk="# another\n")
    assert after(make_plan(second, [patch(FLAG)]), SHELF) == first
    assert sum(b"# of two trees" in source for source in parsed) == 1


# ---- states


def test_patch_that_is_missing_is_pending_and_its_files_change() -> None:
    toy = patch(FLAG, FINE)
    patch_status = status(library(), toy)
    assert patch_status.state is State.PENDING
    assert {name: (edit.file, edit.site, edit.state) for name, edit in edits(patch_status).items()} == {
        "class-attribute": (SHELF, "Shelf", State.PENDING),
        "rewrite": (DESK, "Desk.lend", State.PENDING),
    }
    plan = make_plan(library(), [toy])
    assert [(change.file, change.patches) for change in plan.changes] == [(SHELF, ("toy",)), (DESK, ("toy",))]
    assert "    # patchkit toy: toy\n    lends = True\n" in after(plan, SHELF)
    assert [change.before for change in plan.changes] == [LIBRARY[SHELF].encode(), LIBRARY[DESK].encode()]


def test_planning_reads_and_does_not_write(tmp_path: Path) -> None:
    sources = {"__init__.py": b"", **{file: text.encode() for file, text in LIBRARY.items()}}
    tree = open_tree(write_package(tmp_path / "sglang", sources))
    assert make_plan(tree, [patch(FLAG)]).changes
    assert {file: tree.read(file) for file in sources} == sources


def test_patch_whose_comments_are_there_is_applied() -> None:
    toy = patch(FLAG, FINE)
    assert status(applied(library(), toy), toy).state is State.APPLIED


@pytest.mark.parametrize(
    ("upstream", "state"), [("pull/toy", State.UPSTREAM), ("pull/2", State.UNKNOWN), ("", State.UNKNOWN)]
)
def test_patch_that_is_there_without_its_comments_is_upstreams_if_upstream_has_it(
    upstream: str, state: State
) -> None:
    toy = patch(FLAG, FINE, upstream=upstream and f"https://github.com/sgl-project/sglang/{upstream}")
    tree = library(
        shelf=LIBRARY[SHELF].replace("rows = 5", "rows = 5\n    lends: bool = True"),
        desk=LIBRARY[DESK].replace("reader.debt += book.price", "reader.charge(book)"),
    )
    patch_status = status(tree, toy)
    assert {patch_status.state, *(edit.state for edit in patch_status.edits)} == {state}
    assert make_plan(tree, [toy]).changes == ()


def test_comment_of_another_patch_does_not_make_it_applied() -> None:
    tree = library(shelf="# patchkit toy-2: other\nclass Shelf:\n    lends = True\n")
    landed = [{"at": f"{SHELF}::Shelf"}]
    assert status(tree, patch(FLAG, upstream_when=landed)).state is State.UPSTREAM


def test_half_of_a_patch_is_partial_and_is_completed() -> None:
    toy = patch(FLAG, FINE)
    half = applied(library(), patch(FLAG))
    patch_status = status(half, toy)
    assert patch_status.state is State.PARTIAL
    assert patch_status.reason == "1 of 2 edits are missing"
    assert {name: edit.state for name, edit in edits(patch_status).items()} == {
        "class-attribute": State.APPLIED,
        "rewrite": State.PENDING,
    }
    assert applied(half, toy).contents.keys() == {DESK}


def test_half_that_no_patch_made_is_named_as_upstreams() -> None:
    tree = library(desk=LIBRARY[DESK].replace("reader.debt += book.price", "reader.charge(book)"))
    patch_status = status(tree, patch(FLAG, FINE, upstream="https://github.com/sgl-project/sglang/pull/toy"))
    assert patch_status.state is State.PARTIAL
    assert patch_status.reason == "1 of 2 edits are missing; the others are upstream's"


def test_edit_that_comes_with_another_of_the_same_patch_is_not_partial() -> None:
    whole = edit(
        "insert-after", f"{DESK}::Desk.close", "lock", find="self.open = False", code="self.lock()\nlog()"
    )
    part = edit("insert-after", f"{DESK}::Desk.close", "log", find="self.open = False", code="log()")
    assert status(library(), patch(whole, part)).state is State.PENDING


def test_missing_site_is_a_conflict_with_the_expected_and_the_found_code() -> None:
    patch_status = status(library(), patch(FLAG, LOST))
    assert patch_status.state is State.CONFLICT
    assert patch_status.reason.startswith(f"{DESK}: Desk.lend: lost: expected `lose(b)`; ")
    assert edits(patch_status)["lost"].state is State.CONFLICT


def test_file_that_is_nowhere_is_a_conflict() -> None:
    patch_status = status(library(), patch(edit("import", "srt/hall.py", code="import shop")))
    assert patch_status.state is State.CONFLICT
    assert patch_status.reason == "srt/hall.py: module: import: the tree has no srt/hall.py"


def test_scope_that_is_nowhere_is_a_conflict() -> None:
    patch_status = status(library(), patch(edit("class-attribute", f"{SHELF}::Box", code="a = 1")))
    assert patch_status.reason == f"{SHELF}: Box: class-attribute: the tree has no Box in {SHELF}"


@pytest.mark.parametrize(
    "addresses",
    [[f"{SHELF}::Box", "srt/hall.py::Crate"], ["srt/hall.py::Crate", f"{SHELF}::Box"]],
    ids=["first", "second"],
)
def test_scope_that_is_nowhere_is_missed_in_the_file_that_is_there(addresses: list[str]) -> None:
    patch_status = status(library(), patch({**edit("class-attribute", "", code="a = 1"), "at": addresses}))
    assert patch_status.reason == f"{SHELF}: Box: class-attribute: the tree has no Box in {SHELF}"


def test_optional_site_may_be_missing() -> None:
    optional = "no book is ever lost here"
    patch_status = status(library(), patch(FLAG, {**LOST, "optional": optional}))
    assert patch_status.state is State.PENDING
    assert edits(patch_status)["lost"].state is State.NOT_APPLICABLE
    assert edits(patch_status)["lost"].reason == optional


def test_patch_without_any_site_is_not_applicable() -> None:
    patch_status = status(library(), patch({**LOST, "optional": "no book is lost"}))
    assert (patch_status.state, patch_status.reason) == (
        State.NOT_APPLICABLE,
        "no site of this patch is in the tree",
    )


def test_optional_site_that_is_there_twice_is_a_conflict_all_the_same() -> None:
    twice = LIBRARY[DESK].replace("return book", "reader.debt += book.price")
    assert status(library(desk=twice), patch({**FINE, "optional": "rarely"})).state is State.CONFLICT


# ---- needs, shapes, landed, own


@pytest.mark.parametrize(
    ("fact", "need"),
    [
        ({"at": "srt/hall.py"}, "srt/hall.py"),
        ({"at": ["srt/hall.py", "srt/room.py"]}, "srt/hall.py or srt/room.py"),
        ({"at": f"{SHELF}::Box"}, f"Box in {SHELF}"),
        ({"at": f"{SHELF}::Shelf", "has": "rows = 6"}, f"other code in Shelf in {SHELF}"),
        ({"at": SHELF, "lacks": "rows = 5"}, f"other code in {SHELF}"),
    ],
)
def test_patch_whose_needs_are_unmet_is_not_applicable(fact: dict[str, Any], need: str) -> None:
    patch_status = status(library(), patch(FLAG, applies_when=[{"at": SHELF}, fact]))
    assert (patch_status.state, patch_status.reason) == (State.NOT_APPLICABLE, f"needs a tree with {need}")
    assert make_plan(library(), [patch(FLAG, applies_when=[fact])]).changes == ()


@pytest.mark.parametrize(
    "fact",
    [
        {"at": SHELF},
        {"at": ["srt/hall.py", SHELF]},
        {"at": f"{SHELF}::Shelf.add"},
        {"at": f"{SHELF}::Shelf", "has": "rows = $n"},
        {"at": f"{SHELF}::Shelf.add", "lacks": "rows = $n"},
    ],
)
def test_patch_whose_requirements_are_applied_applies(fact: dict[str, Any]) -> None:
    assert status(library(), patch(FLAG, applies_when=[fact])).state is State.PENDING


LOW = {"low": [{"at": f"{SHELF}::Shelf", "has": "rows = 5"}]}
HIGH = {"high": [{"at": f"{SHELF}::Shelf", "has": "rows = 9"}]}


def test_edit_of_another_shape_is_left_out() -> None:
    toy = patch({**FLAG, "shape": "low"}, {**LOST, "shape": "high"}, shapes=LOW | HIGH)
    patch_status = status(library(), toy)
    assert patch_status.state is State.PENDING
    assert list(edits(patch_status)) == ["class-attribute"]


def test_edit_of_several_shapes_is_for_each() -> None:
    toy = patch({**FLAG, "shape": ["high", "low"]}, shapes=LOW | HIGH)
    assert status(library(), toy).state is State.PENDING


def test_tree_of_no_shape_that_has_to_be_known_is_a_conflict() -> None:
    patch_status = status(library(), patch(FLAG, shapes=HIGH, any_shape_of=["high"]))
    assert patch_status.state is State.CONFLICT
    assert patch_status.reason.startswith("expected a known form of ")


def test_tree_of_a_shape_that_has_to_be_known_is_fine() -> None:
    assert (
        status(library(), patch(FLAG, shapes=LOW | HIGH, any_shape_of=["high", "low"])).state is State.PENDING
    )


LANDED = [{"at": f"{SHELF}::Shelf", "has": "lends = True"}]
LENDING = LIBRARY[SHELF].replace("rows = 5", "rows = 5\n    lends = True")


def test_site_that_upstream_has_moved_on_from_is_no_conflict_where_its_change_landed() -> None:
    patch_status = status(library(shelf=LENDING), patch(FLAG, LOST, upstream_when=LANDED))
    assert patch_status.state is State.UPSTREAM
    assert edits(patch_status)["lost"].state is State.UPSTREAM


def test_where_upstreams_change_has_not_landed_it_is() -> None:
    assert status(library(), patch(FLAG, LOST, upstream_when=LANDED)).state is State.CONFLICT


def test_change_that_an_earlier_patch_brings_has_not_landed() -> None:
    earlier = patch(FLAG, name="earlier")
    assert status(library(), earlier, patch(FINE, LOST, upstream_when=LANDED)).state is State.CONFLICT


def test_what_goes_beyond_upstream_is_left_out_where_that_landed() -> None:
    toy = patch(FLAG, {**FINE, "beyond_upstream": True}, upstream_when=LANDED)
    patch_status = status(library(shelf=LENDING), toy)
    assert patch_status.state is State.UPSTREAM
    assert list(edits(patch_status)) == ["class-attribute"]


def test_what_goes_beyond_upstream_is_part_of_the_patch_elsewhere() -> None:
    toy = patch(FLAG, {**FINE, "beyond_upstream": True}, upstream_when=LANDED)
    assert list(edits(status(library(), toy))) == ["class-attribute", "rewrite"]


# ---- where a site is


def test_file_may_have_one_of_several_names() -> None:
    toy = patch({**FLAG, "at": ["srt/hall.py::Shelf", f"{SHELF}::Shelf"]})
    assert edits(status(library(), toy))["class-attribute"].file == SHELF


def test_definition_in_both_of_several_files_is_a_conflict_that_names_them() -> None:
    toy = patch({**FLAG, "at": ["srt/hall.py::Shelf", f"{SHELF}::Shelf"]})
    patch_status = status(library(hall=LIBRARY[SHELF]), toy)
    assert patch_status.reason.endswith(f"Shelf exists 2 times (srt/hall.py, {SHELF})")


def test_module_edit_in_both_of_several_files_is_a_conflict() -> None:
    toy = patch(edit("import", [SHELF, DESK], code="import shop"))
    assert status(library(), toy).state is State.CONFLICT


def test_first_of_several_names_that_the_tree_has_counts() -> None:
    toy = patch({**FINE, "at": [f"{DESK}::Desk.{name}" for name in ("loan", "lend", "close")]})
    assert edits(status(library(), toy))["rewrite"].site == "Desk.lend"


def test_name_that_is_there_twice_is_not_passed_over_for_the_next() -> None:
    twice = LIBRARY[DESK] + "\n    def lend(self, book): ...\n"
    toy = patch({**FINE, "at": [f"{DESK}::Desk.{name}" for name in ("lend", "close")]})
    assert "Desk.lend exists 2 times" in status(library(desk=twice), toy).reason


def test_class_that_moved_to_another_file_is_found() -> None:
    tree = library(
        shelf="from sglang.srt.furniture.shelf import Shelf\n", **{"furniture/shelf": LIBRARY[SHELF]}
    )
    patch_status = status(tree, patch(FLAG))
    assert edits(patch_status)["class-attribute"].file == "srt/furniture/shelf.py"
    assert applied(tree, patch(FLAG)).contents.keys() == {"srt/furniture/shelf.py"}


@pytest.mark.parametrize("name", ["open_hours", "OpenHours", "_Hours"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_function_that_moved_to_another_file_is_found(kind: str, name: str) -> None:
    tree = library(hours=f"{kind} {name}(day):\n    return 9\n")
    toy = patch(edit("insert-first", f"{DESK}::{name}", code="check()"))
    assert edits(status(tree, toy))["insert-first"].file == "srt/hours.py"


def test_class_that_moved_to_two_files_is_a_conflict_that_names_them() -> None:
    tree = MemoryTree({DESK: "", "srt/a.py": LIBRARY[SHELF], "srt/b.py": LIBRARY[SHELF]})
    assert status(tree, patch(FLAG)).reason.endswith("Shelf exists 2 times (srt/a.py, srt/b.py)")


@pytest.mark.parametrize(
    "text", ["# class Shelf:\n", "class Shelfs:\n    pass\n", "if x:\n    class Shelf: ...\n"]
)
def test_what_only_looks_like_the_class_is_not_it(text: str) -> None:
    assert status(MemoryTree({SHELF: "", "srt/a.py": text}), patch(FLAG)).state is State.CONFLICT


BASE = "class Counter:\n" + LIBRARY[DESK].split("class Desk:\n")[1]


def test_method_that_moved_to_a_base_class_is_found() -> None:
    tree = library(desk=f"{BASE}\n\nclass Desk(Counter):\n    pass\n")
    assert edits(status(tree, patch(FINE)))["rewrite"].site == "Counter.lend"
    assert "reader.charge(book)" in after(make_plan(tree, [patch(FINE)]), DESK)


def test_method_that_moved_to_a_base_class_in_another_file_is_found() -> None:
    tree = library(
        desk="from sglang.srt.counter import Counter\n\n\nclass Middle(Counter[int]):\n    pass\n\n\n"
        "class Desk(abc.ABC, Middle):\n    pass\n",
        counter=BASE,
    )
    patch_status = edits(status(tree, patch(FINE)))["rewrite"]
    assert (patch_status.file, patch_status.site) == ("srt/counter.py", "Counter.lend")


def test_method_of_two_bases_of_one_name_is_a_conflict_that_names_their_files() -> None:
    tree = library(desk="class Desk(Counter):\n    pass\n", a=BASE, b=BASE)
    assert "exists 2 times (srt/a.py, srt/b.py)" in status(tree, patch(FINE)).reason


def test_method_that_overrides_a_base_is_the_one() -> None:
    tree = library(desk=f"{BASE}\n\nclass Desk(Counter):\n    def lend(self): ...\n")
    assert status(tree, patch(FINE)).state is State.CONFLICT


def test_classes_that_are_each_others_base_do_not_hang() -> None:
    tree = library(desk="class Desk(Table):\n    pass\n\n\nclass Table(Desk):\n    pass\n")
    assert status(tree, patch(FINE)).state is State.CONFLICT


def test_two_sites_are_a_conflict_that_names_both_lines() -> None:
    twice = LIBRARY[DESK].replace("return book", "me.debt += book.price")
    patch_status = status(library(desk=twice), patch(FLAG, FINE))
    assert patch_status.state is State.CONFLICT
    assert "`reader.debt += book.price` (line 6), `me.debt += book.price` (line 7)" in patch_status.reason


# ---- several patches


def test_conflict_leaves_nothing_of_its_patch_in_the_plan() -> None:
    plan = make_plan(library(), [patch(FLAG, FINE, LOST, name="bad"), patch(CLOSE, name="good")])
    assert [patch_status.state for patch_status in plan.patches] == [State.CONFLICT, State.PENDING]
    assert [(change.file, change.patches) for change in plan.changes] == [(DESK, ("good",))]
    assert "patchkit bad" not in after(plan, DESK)


@pytest.mark.parametrize(
    ("blocker", "state"),
    [
        (patch(LOST, name="first"), State.CONFLICT),
        (patch(FLAG, name="first", applies_when=[{"at": "srt/hall.py"}]), State.NOT_APPLICABLE),
    ],
)
def test_patches_that_require_one_that_cannot_apply_are_left_out(blocker: Patch, state: State) -> None:
    second = patch(FINE, name="second", requires=["first"])
    third = patch(CLOSE, name="third", requires=["second"])
    plan = make_plan(library(), [blocker, second, third])
    assert [patch_status.state for patch_status in plan.patches] == [state] * 3
    reason = {State.CONFLICT: "in conflict", State.NOT_APPLICABLE: "not applicable"}[state]
    assert plan.patches[1].reason == f"requires first, which is {reason}"
    assert plan.patches[2].reason == f"requires second, which is {reason}"
    assert plan.changes == ()


def test_patch_that_builds_on_one_that_is_not_for_the_tree_is_not_for_it_either() -> None:
    first = patch(FLAG, name="first", applies_when=[{"at": "srt/hall.py", "why": "the tree has no hall"}])
    statuses = make_plan(library(), [first, patch(LOST, CLOSE, name="second", requires=["first"])]).patches
    assert [patch_status.state for patch_status in statuses] == [State.NOT_APPLICABLE] * 2
    assert [patch_status.reason for patch_status in statuses] == [
        "the tree has no hall",
        "requires first, which is not applicable",
    ]


def test_patch_that_is_there_already_stays_so_whatever_it_requires() -> None:
    second = patch(FINE, name="second", requires=["first"])
    tree = applied(library(), patch(FINE, name="second"))
    assert status(tree, patch(LOST, name="first"), second).state is State.APPLIED


def test_patches_of_one_file_come_together() -> None:
    plan = make_plan(library(), [patch(FINE, name="a"), patch(CLOSE, name="b")])
    assert [(change.file, change.patches) for change in plan.changes] == [(DESK, ("a", "b"))]


def test_patch_may_build_on_an_earlier_one() -> None:
    second = patch(
        edit("rewrite", f"{DESK}::Desk.lend", find="$r.charge($b)", code="$r.pay($b)"), name="second"
    )
    plan = make_plan(library(), [patch(FINE, name="first"), second])
    assert [patch_status.state for patch_status in plan.patches] == [State.PENDING, State.PENDING]
    assert "reader.pay(book)" in after(plan, DESK)
    assert inspect(library(), [second])[0].state is State.CONFLICT


def test_edit_that_comes_with_an_earlier_patch_is_pending_too() -> None:
    second = patch(FINE, name="second")
    patch_status = status(library(), patch(FINE, name="first"), second)
    assert (patch_status.state, patch_status.edits[0].reason) == (
        State.PENDING,
        "made by a patch that is applied before it",
    )


def test_order_of_the_patches_is_that_of_the_statuses() -> None:
    plan = make_plan(library(), [patch(CLOSE, name="b"), patch(FLAG, name="a")])
    assert [patch_status.patch.id for patch_status in plan.patches] == ["b", "a"]


def test_no_patches_make_no_plan() -> None:
    plan = make_plan(library(), [])
    assert (plan.patches, plan.changes) == ((), ())


def test_marker_of_one_patch_is_not_the_beginning_of_anothers() -> None:
    assert not comment_start(patch(FLAG, name="toy-2")).startswith(comment_start(patch(FLAG, name="toy")))


# ---- second applies


def test_second_apply_changes_nothing() -> None:
    applied(library(), patch(FLAG, FINE, CLOSE), patch(edit("import", DESK, code="import shop"), name="more"))


def test_edit_that_would_match_its_own_result_is_a_conflict() -> None:
    loop = edit("call-argument", f"{DESK}::Desk.lend", find="$f(...)", argument="a=g()", every=True)
    tree = library(desk=LIBRARY[DESK].replace("return book", "return f(book)"))
    patch_status = status(tree, patch(loop))
    assert patch_status.state is State.CONFLICT
    assert "the edit was made but is not found again" in patch_status.reason


def test_import_that_an_edit_needs_comes_with_it() -> None:
    toy = patch({**FINE, "code": "shop.charge($r, $b)", "imports": ["from sglang.srt import shop"]})
    text = after(make_plan(library(), [toy]), DESK)
    assert text.startswith("from sglang.srt import shop\nfrom sglang.srt.shelf import Shelf\n")


def test_import_that_is_there_is_not_repeated() -> None:
    toy = patch({**FINE, "code": "Shelf.charge($r, $b)", "imports": ["from sglang.srt.shelf import Shelf"]})
    assert after(make_plan(library(), [toy]), DESK).count("import Shelf") == 1


def test_import_that_was_taken_away_is_brought_back() -> None:
    toy = patch({**FINE, "code": "shop.charge($r, $b)", "imports": ["from sglang.srt import shop"]})
    tree = applied(library(), toy)
    assert tree.contents.keys() == {DESK}
    without = library(desk=texts(tree)[DESK].replace(b"from sglang.srt import shop\n", b""))
    assert status(without, toy).state is State.PENDING
    assert applied(without, toy).contents[DESK] == tree.contents[DESK]


BY_VARIANT = edit(
    "rewrite",
    f"{DESK}::Desk.lend",
    "fine",
    find="$r.debt += $b.cost",
    code="shop.charge($r, $b)",
    variants=[{"find": "$r.debt += $b.price", "code": "$r.charge($b)"}],
)


@pytest.mark.parametrize("where", [{}, {"imports": ["from sglang.srt import shop"]}])
def test_import_for_the_code_of_another_variant_stays_away(where: dict[str, Any]) -> None:
    # Either way of saying it: with the edit, or once for the patch.
    whole: dict[str, Any] = {} if where else {"imports": ["from sglang.srt import shop"]}
    toy = patch({**BY_VARIANT, **where}, **whole)
    text = after(make_plan(library(), [toy]), DESK)
    assert "reader.charge(book)" in text
    assert "import shop" not in text
    other = library(desk=LIBRARY[DESK].replace("book.price", "book.cost"))
    assert "from sglang.srt import shop\n" in after(make_plan(other, [toy]), DESK)
    assert applied(other, toy).contents.keys() == {DESK}


def test_import_for_an_annotation_in_quotes_comes_with_it() -> None:
    code = "owed: 'shop.Debt' = $r.charge($b)"
    toy = patch({**FINE, "code": code, "imports": ["from sglang.srt import shop"]})
    assert "from sglang.srt import shop\n" in after(make_plan(library(), [toy]), DESK)


TILL = {
    **FINE,
    "code": "Till.charge($r, $b)",
    "imports": ["from sglang.srt.till import Till"],
}


HIDDEN = [
    ("return book", "shop = book\n        return shop"),
    ("def lend(self, book, reader)", "def lend(self, book, reader, shop=None)"),
    ("return book", "with book as shop:\n            return shop"),
    (
        "class Desk",
        "try:\n    from sglang.srt import shop\nexcept ImportError:\n    shop = None\n\n\nclass Desk",
    ),
    ("class Desk", "class shop: ...\n\n\nclass Desk"),
]


@pytest.mark.parametrize(("old", "new"), HIDDEN)
def test_import_whose_name_is_something_else_at_the_site_is_a_conflict(old: str, new: str) -> None:
    toy = patch({**FINE, "code": "shop.charge($r, $b)", "imports": ["from sglang.srt import shop"]})
    patch_status = status(library(desk=LIBRARY[DESK].replace(old, new)), toy)
    assert patch_status.state is State.CONFLICT
    assert "`from sglang.srt import shop`: Desk.lend may bind shop to something else" in patch_status.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.open = False", "shop = 1"),
        ("return book", "return [shop for shop in book]"),
        ("return book", "return lambda shop: shop"),
        ("return book", "return f(shop=book.shop)"),
        ("class Desk:", "class Desk:\n    shop = None\n"),
    ],
)
def test_import_whose_name_is_something_else_elsewhere_comes(old: str, new: str) -> None:
    toy = patch({**FINE, "code": "shop.charge($r, $b)", "imports": ["from sglang.srt import shop"]})
    text = after(make_plan(library(desk=LIBRARY[DESK].replace(old, new)), [toy]), DESK)
    assert "from sglang.srt import shop\n" in text


def test_import_of_a_class_that_has_moved_is_from_where_it_is() -> None:
    text = after(make_plan(library(**{"front/till": "class Till:\n    coins = 0\n"}), [patch(TILL)]), DESK)
    assert "from sglang.srt.front.till import Till\n" in text
    usual = after(make_plan(library(till="from front import Till\n"), [patch(TILL)]), DESK)
    assert "from sglang.srt.till import Till\n" in usual


def test_import_of_what_an_earlier_edit_brings_is_from_there() -> None:
    brought = edit("module-code", SHELF, code="class Till:\n    coins = 0\n")
    keys = {**TILL, "imports": ["from sglang.srt.shelf import Till"]}
    text = after(make_plan(library(), [patch(brought, keys)]), DESK)
    assert "from sglang.srt.shelf import Shelf, Till\n" in text


@pytest.mark.parametrize("homes", [(), ("front/till", "back/till")])
def test_import_of_what_the_tree_has_nowhere_or_twice_is_a_conflict(homes: tuple[str, ...]) -> None:
    patch_status = status(library(**dict.fromkeys(homes, "class Till:\n    coins = 0\n")), patch(TILL))
    assert patch_status.state is State.CONFLICT
    wanted = (
        "`from sglang.srt.till import Till`: the tree defines that neither there nor in exactly one other"
    )
    assert wanted in patch_status.reason


# ---- bytes


def test_carriage_returns_are_kept_and_written() -> None:
    text = LIBRARY[DESK].replace("\n", "\r\n")
    content = after(make_plan(library(desk=text), [patch(FINE, CLOSE)]), DESK)
    assert content.replace("\r\n", "").count("\n") == 0
    assert content.replace("\r\n", "\n") == after(make_plan(library(), [patch(FINE, CLOSE)]), DESK)


def test_tabs_are_kept_and_written() -> None:
    text = LIBRARY[DESK].replace("    ", "\t")
    content = after(make_plan(library(desk=text), [patch(CLOSE)]), DESK)
    assert "\t\tself.open = False\n\t\t# patchkit toy: toy\n\t\tself.lock()\n" in content


def test_missing_final_newline_stays_missing() -> None:
    content = after(make_plan(library(desk=LIBRARY[DESK].rstrip("\n")), [patch(FINE)]), DESK)
    assert content == after(make_plan(library(), [patch(FINE)]), DESK).rstrip("\n")


@pytest.mark.parametrize("cookie", ["latin-1", "utf-8"])
def test_coding_line_is_kept_and_obeyed(cookie: str) -> None:
    text = f"# -*- coding: {cookie} -*-\n{LIBRARY[DESK]}\nNAME = 'Café'\n"
    (change,) = make_plan(library(desk=text.encode(cookie)), [patch(FINE)]).changes
    assert change.after is not None
    assert change.after.decode(cookie).endswith("NAME = 'Café'\n")
    assert change.after.startswith(f"# -*- coding: {cookie} -*-\n".encode())


def test_byte_order_mark_is_kept() -> None:
    (change,) = make_plan(library(desk=b"\xef\xbb\xbf" + LIBRARY[DESK].encode()), [patch(FINE)]).changes
    assert change.after is not None
    assert change.after.startswith(b"\xef\xbb\xbffrom sglang")


def test_everything_else_in_the_file_stays_as_it_is() -> None:
    odd = "\n\nclass Odd :\n  x=[1,\n 2 ,]   \n  # left\n\n\t\n  def f ( self ) : return( 1 )\n"
    content = after(make_plan(library(desk=LIBRARY[DESK] + odd), [patch(FINE)]), DESK)
    assert content.endswith(odd)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"def lend(:\n", r"srt/desk\.py:1: not valid Python"),
        (
            b"class Desk:\n    size = 1\n<<<<<<< HEAD\n    size = 2\n",
            r"srt/desk\.py:3: conflict markers of a merge: resolve",
        ),
        (b"x = (\n\n", r"srt/desk\.py:\d+: not valid Python"),
        (b"x = 1\0\n", r"srt/desk\.py:1: not valid Python"),
        (b"x = '\xe9'\n", r"srt/desk\.py: neither UTF-8"),
        (b"# coding: nonsense\nx = 1\n", r"srt/desk\.py: neither UTF-8 nor the encoding in its coding line"),
        (
            b"# coding: ascii\nx = '\xe9'\n",
            r"srt/desk\.py: neither UTF-8 nor the encoding in its coding line",
        ),
        (b"x = 1\n\x0cy = 2\n", r"srt/desk\.py: has form feeds"),
        (b"x = 1\ry = 2\r", r"srt/desk\.py: has form feeds or bare carriage returns"),
    ],
)
def test_file_that_cannot_be_read_as_python_is_refused_in_one_sentence(content: bytes, reason: str) -> None:
    tree = library(desk=content)
    for act in (inspect, make_plan):
        with pytest.raises(TreeError, match=f"^{reason}") as caught:
            act(tree, [patch(FLAG, FINE)])
        assert str(caught.value).endswith("try again.")
        assert "\n" not in str(caught.value)


def test_page_breaks_between_definitions_are_fine() -> None:
    text = LIBRARY[DESK].replace("\n\nclass", "\n\x0c\nclass")
    assert "\n\x0c\nclass Desk" in after(make_plan(library(desk=text), [patch(FINE)]), DESK)


def test_broken_file_that_no_patch_touches_does_not_matter() -> None:
    assert status(library(desk=b"def lend(:\n"), patch(FLAG)).state is State.PENDING


def test_character_that_the_files_encoding_lacks_is_refused_in_one_sentence() -> None:
    text = f"# -*- coding: latin-1 -*-\n{LIBRARY[DESK]}"
    toy = patch({**FINE, "why": "price → debt"})
    with pytest.raises(
        ConflictError, match=r"^srt/desk\.py: toy would write '→', which is not in iso-8859-1: "
    ):
        make_plan(library(desk=text), [toy])


def test_edit_that_would_leave_invalid_code_is_refused_in_one_sentence() -> None:
    toy = patch(
        edit("insert-after", f"{DESK}::Desk.close", find="self.open = False", code="await self.lock()")
    )
    with pytest.raises(ConflictError, match=r"^srt/desk\.py:12: toy would leave this line invalid") as caught:
        make_plan(library(), [toy])
    assert "\n" not in str(caught.value)


def test_file_for_a_later_python_than_this_one_is_left_to_its_own() -> None:
    text = LIBRARY[DESK] + "\nawait later()\n"
    assert after(make_plan(library(desk=text), [patch(FINE)]), DESK).endswith("\nawait later()\n")


INHERITING = {
    "shelf": "class Shelf:\n    def add(self, book):\n        self.books.append(book)\n\n    def size(self):\n"
    "        return len(self.books)\n",
    "rack": "from sglang.srt.shelf import Shelf\n\n\nclass Rack(Shelf):\n    rows = 2\n",
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["edited-before", "edited-after"])
def test_a_method_of_a_base_is_found_in_a_file_that_another_patch_names_for_something_else(
    order: tuple[int, int],
) -> None:
    both = (
        patch(
            edit("rewrite", f"{SHELF}::Shelf.add", find="self.books.append($b)", code="self.put($b)"),
            name="own",
        ),
        patch(edit("rewrite", "srt/rack.py::Rack.size", find="len($x)", code="count($x)"), name="base"),
    )
    plan, stages = make_series(library(**INHERITING), [both[index] for index in order])
    assert [status.state for status in plan.patches] == [State.PENDING, State.PENDING]
    code = [line for line in after(plan, SHELF).splitlines() if "# patchkit" not in line]
    wanted = (
        INHERITING["shelf"].replace("self.books.append(book)", "self.put(book)").replace("len(", "count(")
    )
    assert code == wanted.splitlines()
    assert [stage.status.patch.id for stage in stages] == [both[index].id for index in order]

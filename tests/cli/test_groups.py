"""A group can be named wherever a patch can, and a patch that does not fit leaves the others applicable."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.releases import answer as answer_of
from support.releases import run, states_in
from support.toys import ABRUPT, CRLF, MIRROR, add_patch, attribute, everything, git

from patchkit.cli import schemas
from patchkit.patchset.select import GROUPS

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree


PART = '[part.guards]\ntitle = "Guards"\nwhy = "To be safe."'


def in_part(edit: str) -> str:
    """Return the text of an edit of the part `guards`."""
    return edit.replace('why = "toy"', 'why = "guarded"\npart = "guards"')


LOST = in_part(attribute(MIRROR, "NoSuchClass", "lost = 1"))


def states(*arguments: object, code: int = 0) -> dict[str, str]:
    return states_in(answer_of(*arguments, code=code))


@pytest.fixture(autouse=True)
def toys(patch_folder: Path) -> Path:
    """Besides the toys, where `t-stop` requires `t-flag`, two patches for speed."""
    add_patch(patch_folder, "t-fast", attribute(ABRUPT, "Worker", "fast = 1"), group='"speed"')
    add_patch(
        patch_folder, "t-risky", attribute(ABRUPT, "Worker", "risky = 1"), group='"speed"', default="false"
    )
    return patch_folder


@pytest.mark.parametrize("name", ["@speed", "speed"])
def test_show_lists_a_group(name: str, tree: CheckoutTree) -> None:
    lines = run("show", name).stdout.splitlines()
    assert lines[0].split() == ["t-fast", "Toy", "t-fast"]
    assert "(opt-in)" in lines[1]
    answer = answer_of("show", name)
    msgspec.convert(answer, schemas.ANSWERS["show"])
    assert [(patch["id"], patch["group"]) for patch in answer] == [("t-fast", "speed"), ("t-risky", "speed")]


def test_show_says_what_a_server_gains_from_a_group(toys: Path) -> None:
    add_patch(toys, "t-state", attribute(ABRUPT, "Worker", "state = 1"), group='"mamba"')
    said, _, listed = run("show", "mamba").stdout.splitlines()[:3]
    assert said == f"{GROUPS['mamba'].capitalize()}."
    assert listed == "t-state  Toy t-state"


def test_a_group_that_is_named_as_a_patch_is_suggested(tree: CheckoutTree) -> None:
    assert "did you mean @speed?" in run("apply", tree.root, "speed", code=2).stderr


def test_show_names_the_file_and_the_function_of_each_edit(toys: Path) -> None:
    here = f'"{ABRUPT}::Worker"'
    edit = attribute(ABRUPT, "Worker", "moved = 1").replace(here, f'["srt/gone.py::Worker", {here}]')
    add_patch(toys, "t-moved", edit)
    assert f"    srt/gone.py: Worker or {ABRUPT}: Worker\n" in run("show", "t-moved").stdout
    (shown,) = answer_of("show", "t-moved")["edits"]
    assert shown["places"] == [{"file": "srt/gone.py", "site": "Worker"}, {"file": ABRUPT, "site": "Worker"}]


def test_a_group_is_applied_and_taken_back(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    assert states("apply", tree.root, "@speed") == {"t-fast": "applied"}
    assert answer_of("diff", tree.root, "@speed")["files"] == []
    run("apply", tree.root)
    assert answer_of("revert", tree.root, "@speed")["reverted"] == ["t-fast"]
    assert answer_of("revert", tree.root, "@speed")["reverted"] == []
    assert states("status", tree.root)["t-flag"] == "applied"
    run("revert", tree.root)
    assert everything(tree.root) == before


def test_a_group_names_the_opt_in_patches_that_it_does_not_include(tree: CheckoutTree) -> None:
    notice = "not applied because only their group was named:\n  t-risky  Toy t-risky\n"
    assert notice in run("apply", tree.root, "@speed", "--dry-run").stdout
    assert notice in run("apply", tree.root, "@speed").stdout
    assert states("status", tree.root)["t-risky"] == "pending"
    assert "Opt-in" not in run("apply", tree.root, "@speed", "t-risky").stdout
    assert "Opt-in" not in run("apply", tree.root, "@speed").stdout, "it is applied"
    assert "Opt-in" not in run("apply", tree.root).stdout


def test_a_conflict_of_a_patch_that_is_not_applied_by_default_is_marked(
    tree: CheckoutTree, toys: Path
) -> None:
    add_patch(toys, "t-lost", attribute(ABRUPT, "Nobody", "lost = 1"), default="false")
    add_patch(toys, "t-wanted", attribute(ABRUPT, "Somebody", "wanted = 1"))
    output = run("status", tree.root).stdout
    assert "2  t-lost (opt-in) t-wanted\n" in output
    assert "\nt-lost (opt-in)  lost: Toy t-lost\n" in output
    assert "\nt-wanted  wanted: Toy t-wanted\n" in output
    assert "    t-lost (opt-in)  Toy t-lost\n" in run("status", "-v", tree.root).stdout
    with (tree.package / ABRUPT).open("a") as file:
        file.write("\n\n\nclass Nobody:\n    lost = 1\n")
    assert "opt-in)" not in run("status", tree.root).stdout


def test_an_opt_in_patch_that_the_tree_has_in_part_is_completed_only_by_name(
    tree: CheckoutTree, toys: Path
) -> None:
    edits = (attribute(ABRUPT, "Worker", "half = 1"), attribute(ABRUPT, "Worker", "other = 1"))
    add_patch(toys, "t-half", *edits, default="false")
    path = tree.package / ABRUPT
    path.write_bytes(path.read_bytes().replace(b"    steps = 3", b"    steps = 3\n    half = 1"))
    output = run("status", tree.root).stdout
    assert "partial          1  t-half (opt-in)\n" in output
    assert f"\nNext: patchkit apply {tree.root} applies the pending patches" in output
    run("apply", tree.root)
    assert states("status", tree.root)["t-half"] == "partial"
    output = run("status", tree.root).stdout
    rest = f"patchkit apply {tree.root} t-half makes the rest of t-half"
    assert f"\nNext: {rest}; patchkit show t-half has its risk; patchkit revert " in output
    run("revert", tree.root)
    add_patch(toys, "t-half", *edits)
    assert "opt-in)" not in run("status", tree.root).stdout
    run("apply", tree.root)
    assert states("status", tree.root)["t-half"] == "applied"


def test_status_of_a_tree_that_only_lacks_a_part_of_an_opt_in_patch_offers_no_apply_that_does_nothing(
    tree: CheckoutTree, toys: Path
) -> None:
    for other in toys.iterdir():
        shutil.rmtree(other)
    edits = (attribute(ABRUPT, "Worker", "half = 1"), attribute(ABRUPT, "Worker", "other = 1"))
    add_patch(toys, "t-half", *edits, default="false")
    path = tree.package / ABRUPT
    path.write_bytes(path.read_bytes().replace(b"    steps = 3", b"    steps = 3\n    half = 1"))
    assert "Nothing changed." in run("apply", tree.root).stdout
    output = run("status", tree.root).stdout
    assert output.endswith(
        f"\nNext: patchkit apply {tree.root} t-half makes the rest of t-half; patchkit show t-half has its risk\n"
    )
    assert states("apply", tree.root, "t-half") == {"t-half": "applied"}
    assert output.partition("\nNext: ")[2] not in run("status", tree.root).stdout


def test_status_offers_no_apply_of_a_patch_of_which_a_part_is_in_conflict(
    tree: CheckoutTree, toys: Path
) -> None:
    for other in toys.iterdir():
        shutil.rmtree(other)
    add_patch(toys, "t-next", PART, attribute(ABRUPT, "Worker", "after = 1"), LOST)
    assert states("status", tree.root) == {"t-next": "conflict"}
    (after,) = re.findall("Next: (.*)", run("status", tree.root).stdout)
    assert after.startswith(f"patchkit apply {tree.root} t-next --markers ")
    assert "Nothing changed." in run("apply", tree.root).stdout


def test_status_offers_to_apply_the_parts_that_upstreams_form_lacks(tree: CheckoutTree, toys: Path) -> None:
    for other in toys.iterdir():
        shutil.rmtree(other)
    landed = f'[{{ at = "{ABRUPT}::Worker", has = "after = 1" }}]'
    guard = in_part(attribute(ABRUPT, "Worker", "guard = 1"))
    add_patch(toys, "t-next", PART, attribute(ABRUPT, "Worker", "after = 1"), guard, upstream_when=landed)
    path = tree.package / ABRUPT
    path.write_bytes(path.read_bytes().replace(b"    steps = 3", b"    steps = 3\n    after = 1"))
    before = everything(tree.root)
    (patch,) = answer_of("status", tree.root)["patches"]
    assert (patch["state"], patch["reason"]) == ("pending", "upstream's without guards")
    assert (
        f"\nNext: patchkit apply {tree.root} applies the pending patches" in run("status", tree.root).stdout
    )
    assert "upstream's without guards\n" in run("status", "-v", tree.root).stdout
    (applied,) = answer_of("apply", tree.root)["patches"]
    assert [edit["state"] for edit in applied["edits"]] == ["upstream", "applied"]
    assert answer_of("status", tree.root)["patches"] == [applied]
    assert answer_of("revert", tree.root, "t-next")["reverted"] == ["t-next"]
    assert everything(tree.root) == before


def test_a_named_patch_that_is_not_applicable_is_given_its_reason(tree: CheckoutTree, toys: Path) -> None:
    applies_when = '["srt/no_such.py"]'
    add_patch(toys, "t-other", attribute(CRLF, "Backend", "other = 1"), applies_when=applies_when)
    assert "\nt-other: needs a tree with srt/no_such.py\n" in run("apply", tree.root, "t-other").stdout


def test_a_dry_run_names_the_command_that_does_the_same(tree: CheckoutTree) -> None:
    output = run("apply", tree.root, "t-flag", "--runtime", "vendored", "--dry-run").stdout
    assert f"Next: patchkit apply {tree.root} t-flag --runtime vendored applies" in output


def test_a_group_is_taken_back_beside_upstreams_own(tree: CheckoutTree, toys: Path) -> None:
    add_patch(toys, "t-other", attribute(CRLF, "Backend", "other = 1"), group='"speed"')
    path = tree.package / CRLF
    path.write_bytes(path.read_bytes().replace(b"    stride = 1", b"    other = 1\r\n    stride = 1"))
    found = states("apply", tree.root, "@speed")
    assert found == {"t-fast": "applied", "t-other": "unknown"}
    assert answer_of("revert", tree.root, "@speed")["reverted"] == ["t-fast"]


def test_a_group_brings_what_it_requires(tree: CheckoutTree, toys: Path) -> None:
    add_patch(toys, "t-fast", attribute(ABRUPT, "Worker", "fast = 1"), group='"speed"', requires='["t-flag"]')
    assert set(states("apply", tree.root, "@speed")) == {"t-flag", "t-fast"}


def test_an_unknown_group_is_refused_as_such(tree: CheckoutTree) -> None:
    output = run("apply", tree.root, "@sped", code=2).stderr
    assert "no group is called '@sped'" in output
    assert "did you mean @speed?" in output
    assert "no group is called" in run("show", "@sped", code=2).stderr


def test_a_folder_with_the_sign_of_a_group_is_a_tree(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.root.rename(tree.root.with_name("@wheel"))
    monkeypatch.chdir(tree.root.parent)
    assert states("status", "@wheel")["t-fast"] == "pending"
    run("apply", "@wheel", "@speed")


@pytest.fixture
def conflicting(toys: Path) -> None:
    """A patch with a site that no tree has, and one that requires it."""
    add_patch(toys, "x-none", attribute(MIRROR, "NoSuchClass", "a = 1"))
    add_patch(toys, "x-after", attribute(ABRUPT, "Worker", "b = 1"), requires='["x-none"]')


@pytest.fixture
def unguarded(toys: Path) -> None:
    """A part of `t-flag` conflicts, one of whose edits fits."""
    flags = (
        attribute(MIRROR, "Mirror", "needs_host = False"),
        attribute(CRLF, "Backend", "needs_device = True"),
    )
    add_patch(toys, "t-flag", PART, *flags, in_part(attribute(MIRROR, "Mirror", "more = 1")), LOST)


@pytest.mark.usefixtures("conflicting")
def test_a_conflict_keeps_nobody_else_out(tree: CheckoutTree) -> None:
    result = run("apply", tree.root)
    assert f"\nx-none  a: Toy x-none\n  --> {MIRROR}: NoSuchClass\n" in result.stdout
    assert "Left out because of conflicts: x-none, x-after." in result.stdout
    assert f"patchkit diff {tree.root} shows where" in result.stdout
    found = states("status", tree.root)
    assert found.pop("x-none") == found.pop("x-after") == "conflict"
    assert found.pop("t-risky") == "pending"
    assert set(found.values()) == {"applied"}
    run("revert", tree.root)


@pytest.mark.usefixtures("conflicting")
def test_a_second_apply_prints_the_same_and_changes_nothing(tree: CheckoutTree) -> None:
    first = answer_of("apply", tree.root)
    msgspec.convert(first, schemas.ANSWERS["apply"])
    assert [(each["patch"], each["reason"]) for each in first["left"]] == [
        ("x-none", first["patches"][-2]["reason"]),
        ("x-after", "requires x-none, which is in conflict"),
    ]
    before = everything(tree.root)
    second = answer_of("apply", tree.root)
    assert second == first | {"changed_files": []}
    assert everything(tree.root) == before


@pytest.mark.usefixtures("conflicting")
@pytest.mark.parametrize("words", [("x-none",), ("x-after",), ("t-stop", "x-after"), ("--all",)])
def test_all_requested_patches_are_applied_or_none(tree: CheckoutTree, words: tuple[str, ...]) -> None:
    before = everything(tree.root)
    assert "nothing was written" in run("apply", tree.root, *words, code=3).stderr
    assert everything(tree.root) == before


def test_a_named_group_counts_as_requested(tree: CheckoutTree, toys: Path) -> None:
    add_patch(toys, "t-lost", attribute(MIRROR, "NoSuchClass", "a = 1"), group='"speed"')
    before = everything(tree.root)
    assert "t-lost conflicts with this tree" in run("apply", tree.root, "@speed", code=3).stderr
    assert everything(tree.root) == before


@pytest.mark.usefixtures("unguarded")
def test_without_a_part_of_it_a_patch_stays_out_with_what_requires_it(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    applied = answer_of("apply", tree.root)
    reasons = {each["patch"]: each["reason"] for each in applied["left"]}
    assert set(reasons) == {"t-flag", "t-stop"}
    assert reasons["t-flag"].startswith(f"guards: {MIRROR}: NoSuchClass: lost: ")
    assert reasons["t-stop"] == "requires t-flag, which is in conflict"
    states_and_reasons = {patch["id"]: (patch["state"], patch["reason"]) for patch in applied["patches"]}
    assert states_and_reasons["t-flag"] == ("conflict", reasons["t-flag"])
    assert states_and_reasons["t-fast"] == ("applied", "")
    assert sorted(applied["changed_files"]) == sorted([ABRUPT, MIRROR])
    assert b"needs_host = False" not in (tree.read(MIRROR) or b"")
    assert answer_of("apply", tree.root) == applied | {"changed_files": []}
    patches = {patch["id"]: patch for patch in answer_of("status", tree.root)["patches"]}
    assert [patches[patch["id"]] for patch in applied["patches"]] == applied["patches"]
    run("revert", tree.root)
    assert everything(tree.root) == before


@pytest.mark.usefixtures("unguarded")
def test_what_one_would_have_had_from_a_patch_that_is_left_out_is_a_conflict_too(
    tree: CheckoutTree, toys: Path
) -> None:
    on_top = f"""[edit.top]
kind = "insert-after"
why = "toy"
at = "{MIRROR}::Mirror"
find = "needs_host: $_ = False"
code = "top = 1"
"""
    add_patch(toys, "t-top", on_top)
    applied = answer_of("apply", tree.root)
    assert "t-top" in [each["patch"] for each in applied["left"]]
    assert sorted(applied["changed_files"]) == sorted([ABRUPT, MIRROR])


@pytest.mark.usefixtures("unguarded", "conflicting")
def test_diff_and_dry_run_are_what_apply_does(checkout: CheckoutTree) -> None:
    would = answer_of("apply", checkout.root, "--dry-run")
    difference = answer_of("diff", checkout.root)
    msgspec.convert(difference, schemas.ANSWERS["diff"])
    answered = run("diff", checkout.root)
    assert "Left out because of conflicts: t-flag, " in answered.stderr
    applied = answer_of("apply", checkout.root)
    assert would == applied
    assert [file["file"] for file in difference["files"]] == applied["changed_files"]
    assert [each["patch"] for each in difference["left"]] == [each["patch"] for each in applied["left"]]
    run("diff", checkout.root, "t-stop", code=3)


@pytest.mark.usefixtures("unguarded", "conflicting")
def test_commits_are_made_of_what_fits(checkout: CheckoutTree) -> None:
    git(checkout.root, "config", "user.name", "A Maintainer")
    git(checkout.root, "config", "user.email", "maintainer@example.com")
    run("apply", checkout.root, "t-stop", "--commit", code=3)
    made = answer_of("apply", checkout.root, "--commit")
    assert [commit["patch"] for commit in made["commits"]] == ["t-fast", "t-guard"]
    assert {each["patch"] for each in made["left"]} == {"t-flag", "t-stop", "x-none", "x-after"}
    assert answer_of("apply", checkout.root, "--commit")["changed_files"] == []
    run("verify", checkout.root)


@pytest.mark.usefixtures("conflicting")
def test_a_series_is_of_what_fits(checkout: CheckoutTree, tmp_path: Path) -> None:
    git(checkout.root, "config", "user.name", "A Maintainer")
    git(checkout.root, "config", "user.email", "maintainer@example.com")
    made = answer_of("export", checkout.root, "-o", tmp_path / "series")
    msgspec.convert(made, schemas.ANSWERS["export"])
    assert [each["patch"] for each in made["left"]] == ["x-none", "x-after"]
    assert len(made["files"]) == 4


@pytest.mark.usefixtures("conflicting")
def test_what_fits_with_what_is_there_is_made_as_if_all_had_come_at_once(
    tree: CheckoutTree, tmp_path: Path
) -> None:
    run("apply", tree.root, "t-stop")
    run("apply", tree.root)
    late = {file: tree.read(file) for file in (MIRROR, CRLF, ABRUPT)}
    run("revert", tree.root)
    run("apply", tree.root)
    assert {file: tree.read(file) for file in late} == late


@pytest.mark.usefixtures("conflicting")
def test_keep_going_exits_with_1_if_something_was_left_out(tree: CheckoutTree) -> None:
    run("apply", tree.root, "--keep-going", code=1)
    assert states("status", tree.root)["t-stop"] == "applied"


def test_markers_leave_nothing_out(tree: CheckoutTree, toys: Path) -> None:
    add_patch(toys, "t-lost", attribute(MIRROR, "NoSuchClass", "lost = 1"))
    answer = answer_of("apply", tree.root, "--markers", code=1)
    assert "left" not in answer
    assert {patch["id"]: patch["state"] for patch in answer["patches"]}["t-stop"] == "applied"

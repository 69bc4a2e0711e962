"""Every command calls the state of a patch by the same name."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pytest
from support.releases import answer, run
from support.toys import ABRUPT, MIRROR, add_patch, attribute, git

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

EXPECTED = {
    "t-flag": "pending",
    "t-guard": "left-out",
    "t-lost": "conflict",
    "t-off": "opt-in",
    "t-on": "applied",
    "t-out": "left-out",
    "t-stop": "pending",
}


@pytest.fixture
def fork(checkout: CheckoutTree, patch_folder: Path) -> CheckoutTree:
    """A checkout with a patch in each of the states that have a name of their own."""
    add_patch(patch_folder, "t-off", attribute(ABRUPT, "Worker", "off = 1"), default="false")
    add_patch(patch_folder, "t-on", attribute(ABRUPT, "Worker", "on = 1"), default="false")
    add_patch(patch_folder, "t-out", attribute(ABRUPT, "Worker", "out = 1"), default="false")
    add_patch(patch_folder, "t-lost", attribute(MIRROR, "Nowhere", "lost = 1"), default="false")
    (checkout.root / "patchkit.toml").write_text('left_out = ["t-guard", "t-out"]\n')
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Configuration")
    for key, value in (("user.name", "A Maintainer"), ("user.email", "maintainer@example.com")):
        git(checkout.root, "config", key, value)
    run("apply", checkout.root, "t-on", "--commit")
    return checkout


def test_status_lists_each_patch_under_its_label(fork: CheckoutTree) -> None:
    found: dict[str, str] = {}
    label = ""
    for line in run("status", fork.root, "-v").stdout.partition("\n\n")[2].splitlines():
        if heading := re.match(r"([a-z-]+) +\d+$", line):
            label = heading[1]
        elif patch := re.match(r"    (t-\w+)", line):
            found[patch[1]] = label
    assert found == EXPECTED
    opted = {each["id"] for each in answer("status", fork.root)["patches"] if each.get("opt_in")}
    assert opted == {"t-off", "t-on", "t-lost"}


def test_status_of_named_patches_shows_these_with_their_titles_and_what_apply_would_take(
    fork: CheckoutTree,
) -> None:
    shown = run("status", fork.root, "t-off", "t-on").stdout
    assert re.findall(r"^    (t-\w+)  Toy t-\w+$", shown, re.MULTILINE) == ["t-on", "t-off"]
    assert f"Next: patchkit apply {fork.root} t-off t-on applies the named patches" in shown
    assert f"Next: patchkit revert {fork.root} t-on reverts" in run("status", fork.root, "t-on").stdout
    # Apply would refuse it.
    assert "Next" not in run("status", fork.root, "t-lost").stdout
    assert [each["id"] for each in answer("status", fork.root, "t-off")["patches"]] == ["t-off"]


def test_a_check_of_named_patches_is_about_these(fork: CheckoutTree) -> None:
    run("status", fork.root, "--check", code=1)
    run("status", fork.root, "--check", "t-on")
    run("status", fork.root, "--check", "t-on", "t-off", code=1)
    ledger = run("status", fork.root, "t-on", "--format", "ledger").stdout
    assert "t-on" in ledger
    assert "t-on" not in run("status", fork.root, "t-off", "--format", "ledger").stdout


def test_status_of_a_group_shows_its_opt_in_patches_too(checkout: CheckoutTree, patch_folder: Path) -> None:
    add_patch(patch_folder, "t-in", attribute(ABRUPT, "Worker", "one = 1"), group='"odd"')
    add_patch(patch_folder, "t-off", attribute(ABRUPT, "Worker", "off = 1"), default="false", group='"odd"')
    patches = answer("status", checkout.root, "@odd")["patches"]
    assert {patch["id"]: patch.get("opt_in", False) for patch in patches} == {"t-in": False, "t-off": True}


def test_a_matrix_has_the_same_labels_in_every_format(fork: CheckoutTree) -> None:
    words = ("matrix", fork.root, "--refs", "HEAD")
    (row,) = csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout))
    assert {name: row[name] for name in EXPECTED} == EXPECTED
    page = run(*words, "--format", "html").stdout
    cells = re.findall(r'<td class="([a-z-]+)"><a href="#\w+"\s+title="(t-\w+): ', page)
    assert {name: label for label, name in cells} == EXPECTED
    text = run(*words).stdout
    assert "o opt-in: applied only by name" in text
    assert dict(re.findall(r"^(t-\w+) +(\S)$", text, re.MULTILINE)) == {
        **{
            "t-flag": "+",
            "t-guard": "x",
            "t-lost": "!",
            "t-off": "o",
            "t-on": ">",
            "t-out": "x",
            "t-stop": "+",
        }
    }


def test_the_page_of_verify_has_them(fork: CheckoutTree) -> None:
    page = run("verify", fork.root, "--format", "html").stdout
    found = re.findall(r'<summary><span class="([a-z-]+)">([a-z-]+)</span><b>(t-\w+)</b>', page)
    assert {name: label for kind, label, name in found if kind == label} == EXPECTED


def test_rebase_says_what_becomes_of_each(fork: CheckoutTree) -> None:
    lines = run("rebase", fork.root, "--onto", "HEAD^").stdout.splitlines()
    rows = [match for line in lines if (match := re.match(r"(t-\w+) +([a-z-]+) +(.*)", line))]
    assert {row[1]: row[2] for row in rows} == EXPECTED
    said = {row[1]: row[3] for row in rows}
    assert said["t-off"] == "opt-in: applies there by name"
    assert said["t-out"] == "left out by the configuration"
    # The tree has it, so that it is applied again.
    assert said["t-on"] == said["t-flag"] == "applies there"


def test_a_diff_of_a_patch_with_nothing_to_change_has_it(fork: CheckoutTree) -> None:
    assert "apply would change nothing: t-on applied" in run("diff", fork.root, "t-on").stderr

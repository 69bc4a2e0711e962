"""Commands in messages name the tree and the patch folders of the running command."""

from __future__ import annotations

import pytest

from patchkit.findings.suggestion import completed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "revert them together: patchkit revert a b",
            "revert them together: patchkit revert fork --patches own a b",
        ),
        (
            "run patchkit resolve --give-up a edit or patchkit status",
            "run patchkit resolve fork --patches own --give-up a edit or patchkit status fork --patches own",
        ),
        (
            "patchkit revert, then patchkit apply --runtime vendored",
            "patchkit revert fork --patches own, then patchkit apply fork --patches own --runtime vendored",
        ),
        ("patchkit show lists them all", "patchkit show --patches own lists them all"),
        ("`patchkit diff`", "`patchkit diff fork --patches own`"),
    ],
)
def test_command_is_completed(text: str, expected: str) -> None:
    assert completed(text, " fork --patches own", " --patches own") == expected


@pytest.mark.parametrize("tree", [".", ".."])
def test_a_full_stop_does_not_become_a_part_of_the_path(tree: str) -> None:
    assert completed("then patchkit apply.", f" {tree}") == f"then patchkit apply {tree}"
    assert completed("run patchkit apply. Or wait.", f" {tree}") == f"run patchkit apply {tree} Or wait."
    assert completed("then patchkit apply.", " fork") == "then patchkit apply fork."


@pytest.mark.parametrize(
    "text",
    [
        "run patchkit apply --continue /srv/fork, which restores its files",
        "patchkit status '/srv/my fork' lists the conflicts",
        "save one with `patchkit audit TREE --json`",
        "patchkit show PATCH lists the runs",
        "upgrade patchkit",
        "patchkit rebase reports it",
        "edit that code, or run patchkit apply --markers fork x-none",
    ],
)
def test_command_that_names_its_tree_or_takes_none_stays(text: str) -> None:
    assert completed(text, " fork", " --patches own") == text

"""A malformed edit among the built-in patches is refused by each command that decides about a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.toys import MIRROR, add_patch, attribute, everything

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def malformed(patch_folder: Path) -> Path:
    """The patch `t-odd`, which no other needs, gets an edit with a key that its kind does not have."""
    return add_patch(
        patch_folder,
        "t-odd",
        attribute(MIRROR, "Mirror", "odd = 1") + "\nfind = 'x'",
        default="false",
    )


@pytest.mark.parametrize(
    "words",
    [
        ["status", "TREE"],
        ["status", "TREE", "--check", "--json"],
        ["diff", "TREE", "t-flag"],
        ["apply", "TREE", "t-flag"],
        ["apply", "TREE", "--dry-run"],
        ["verify", "TREE"],
        ["resolve", "TREE", "t-flag", "needs_host"],
    ],
    ids=lambda words: words[0],
)
def test_edit_of_a_patch_that_was_not_requested_is_refused_and_nothing_is_written(
    tree: CheckoutTree, malformed: Path, words: list[str]
) -> None:
    before = everything(tree.root)
    result = run(*(str(tree.root) if word == "TREE" else word for word in words))
    assert result.exit_code == 2, result.output
    assert result.stderr == (
        f"error: edit.odd: unknown key `find`\n  --> {malformed}\nhelp: did you mean `kind`? the keys are `at`, "
        "`before`, `behind`, `beyond_upstream`, `code`, `imports`, `kind`, `optional`, `part`, `shape`, "
        "`sites`, `why`\n"
    )
    assert everything(tree.root) == before


def test_trial_of_another_patch_fails(tree: CheckoutTree, malformed: Path) -> None:
    result = run("test", "t-flag", "--on", tree.root)
    assert (result.exit_code, f"{malformed}: edit.odd: unknown key `find`" in result.output) == (1, True)


def test_matrix_is_refused(checkout: CheckoutTree, malformed: Path) -> None:
    result = run("matrix", checkout.root, "--refs", "HEAD")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: edit.odd: unknown key `find`")
    assert f"\n  --> {malformed}\n" in result.stderr


def test_export_is_refused(checkout: CheckoutTree, malformed: Path, tmp_path: Path) -> None:
    result = run("export", checkout.root, "-o", tmp_path / "series")
    assert result.exit_code == 2
    assert not (tmp_path / "series").exists()


def test_what_is_remembered_of_a_tree_does_not_hide_it(
    tree: CheckoutTree, patch_folder: Path, request: pytest.FixtureRequest
) -> None:
    assert run("status", tree.root).exit_code == 0
    request.getfixturevalue("malformed")
    assert [run("status", tree.root).exit_code for _ in range(2)] == [2, 2]


def test_list_and_the_patch_itself_can_still_be_read(malformed: Path) -> None:
    assert "t-odd" in run("show").output
    assert "odd: toy" in run("show", "t-odd").output


def test_folder_of_ones_own_is_refused_by_every_command(
    tree: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> None:
    path = add_patch(tmp_path / "own", "o-odd", attribute(MIRROR, "Mirror", "odd = ("))
    for words in (["show"], ["show", "o-odd"], ["status", tree.root], ["revert", tree.root]):
        result = run(*words, "--patches", tmp_path / "own")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: edit.odd: key `code`: not")
        assert result.stderr.endswith(f"\n  --> {path}\nhelp: fix it and try again\n")


@pytest.mark.parametrize(
    "code", ["$size = 3", "def $size(): ...", "import $size", "f($size=3)", "[1 for $size in y]"]
)
def test_code_that_binds_what_is_no_name_is_an_error_of_the_patch(
    tree: CheckoutTree, patch_folder: Path, code: str
) -> None:
    (tree.package / "srt" / "sizes.py").write_text("pages = size or 1\n", encoding="utf-8")
    edit = f'[edit.odd]\nkind = "rewrite"\nwhy = "toy"\nat = "srt/sizes.py"\nfind = "pages = $size"\ncode = "{code}"\n'
    add_patch(patch_folder, "t-odd", edit, default="false")
    before = everything(tree.root)
    result = run("apply", tree.root, "t-odd")
    assert result.exit_code == 2, result.output
    assert result.stderr == (
        f"error: patch t-odd: edit.odd.code: `{code}` is not Python where $size is `size or 1`\n"
        "help: write a name of its own there, or a `find` that matches less\n"
    )
    assert everything(tree.root) == before

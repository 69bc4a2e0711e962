"""The rows of a fork's list of backports come from the tree, its ledger and a verification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import ABRUPT, MIRROR, add_patch, attribute, edit, git

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

COMMIT = "6b5f0d0ccbee37a7243b36ef5109b5ddfefdb695"
PULL = "https://example.org/pull/7"


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout if code == 0 else result.stderr


def rows(tree: CheckoutTree) -> dict[str, dict[str, Any]]:
    ledger = json.loads(run("status", tree.root, "--format", "ledger", "--json"))
    return {row["patch"]: row for row in ledger["rows"]}


@pytest.fixture(autouse=True)
def ported(patch_folder: Path) -> None:
    keys = {"upstream": f'"{PULL}"', "upstream_commit": f'"{COMMIT}"'}
    add_patch(patch_folder, "t-port", attribute(ABRUPT, "Worker", "port = 1"), **keys)


def test_a_row_says_what_from_where_how_proved_and_until_when(checkout: CheckoutTree) -> None:
    run("apply", checkout.root)
    row = rows(checkout)["t-port"]
    assert (row["pull_request"], row["upstream_commit"]) == (PULL, COMMIT)
    assert (row["files"], row["how"], row["by_hand"]) == ([ABRUPT], "ported", [])
    assert "checks" in row["verified"]
    assert COMMIT[:12] in row["removal"]
    assert "keep until patchkit rebase reports it" in rows(checkout)["t-flag"]["removal"]


def test_what_upstream_has_an_issue_for_stays_until_that_is_closed(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    issue = '"https://github.com/sgl-project/sglang/issues/78"'
    add_patch(patch_folder, "t-issue", attribute(ABRUPT, "Worker", "issue = 1"), upstream=issue)
    run("apply", checkout.root)
    removal = rows(checkout)["t-issue"]["removal"]
    assert "issue" in removal
    assert "pull request" not in removal


def test_only_a_patch_of_an_open_pull_request_is_removed_when_upstream_merges_that(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    pull = '"https://github.com/sgl-project/sglang/pull/78"'
    add_patch(patch_folder, "78", attribute(ABRUPT, "Worker", "open = 1"), upstream=pull)
    add_patch(patch_folder, "t-related", attribute(ABRUPT, "Worker", "related = 1"), upstream=pull)
    run("apply", checkout.root)
    found = rows(checkout)
    assert found["78"]["removal"].startswith("remove once the base has the pull request")
    assert found["t-related"]["removal"] == found["t-flag"]["removal"]
    assert "pull request" not in found["t-related"]["removal"]


def test_what_is_not_in_the_tree_has_no_row(checkout: CheckoutTree) -> None:
    assert rows(checkout) == {}
    run("apply", checkout.root, "t-port")
    assert set(rows(checkout)) == {"t-port"}


def test_what_upstream_has_and_what_a_person_made_are_told_apart(checkout: CheckoutTree) -> None:
    edit(checkout, ABRUPT, b"    steps = 3", b"    steps = 3\n    port = 1\n    limit = 8")
    edit(checkout, MIRROR, b"    copies = 0", b"    copies = 0\n    guard = 1")
    git(checkout.root, "commit", "-qam", "As it came")
    run("resolve", checkout.root, "t-guard", "guard")
    ledger = rows(checkout)
    assert ledger["t-port"]["how"] == "upstream"
    assert "nothing to remove" in ledger["t-port"]["removal"]
    assert (ledger["t-guard"]["how"], ledger["t-guard"]["by_hand"]) == ("by hand", ["guard"])


def test_a_failed_check_is_named(checkout: CheckoutTree) -> None:
    run("apply", checkout.root)
    edit(checkout, MIRROR, b"needs_host", b"broken")
    assert all("failed: " in row["verified"] for row in rows(checkout).values())


def test_the_table_has_a_line_a_row_and_bars_do_no_harm(checkout: CheckoutTree, patch_folder: Path) -> None:
    add_patch(patch_folder, "t-bar", attribute(ABRUPT, "Worker", "bar = 1"), upstream=f'"{PULL}|x"')
    run("apply", checkout.root, "t-bar")
    head, rule, *lines = run("status", checkout.root, "--format", "ledger").splitlines()
    assert head == "| Pull request | Upstream commit | Files | How | Verified | Removal |"
    assert rule == "| --- | --- | --- | --- | --- | --- |"
    (line,) = lines
    assert line.startswith(f"| [t-bar]({PULL}\\|x) ")
    assert f"| `{ABRUPT}` | ported |" in line


@pytest.mark.parametrize(
    ("title", "cell"),
    [
        (r"a \| b", r"a \\\| b"),
        ("<script>alert(1)</script>", r"\<script>alert(1)\</script>"),
        ("![x](https://example.org/x.png)", r"!\[x](https://example.org/x.png)"),
        ("`a` of [0]", r"\`a\` of \[0]"),
    ],
)
def test_the_words_of_a_patch_are_no_markdown(
    checkout: CheckoutTree, patch_folder: Path, title: str, cell: str
) -> None:
    add_patch(patch_folder, "t-odd", attribute(ABRUPT, "Worker", "odd = 1"))
    path = patch_folder / "t-odd" / "patch.toml"
    path.write_text(path.read_text().replace('"Toy t-odd"', f"'{title}'"))
    run("apply", checkout.root, "t-odd")
    (line,) = run("status", checkout.root, "--format", "ledger").splitlines()[2:]
    assert line.startswith(f"| t-odd {cell} |  | `{ABRUPT}` | ported | ")
    assert rows(checkout)["t-odd"]["title"] == title


def test_a_link_ends_where_its_address_ends(checkout: CheckoutTree, patch_folder: Path) -> None:
    address = "'https://example.org/a_(b)\\<c>/7'"
    add_patch(patch_folder, "t-odd", attribute(ABRUPT, "Worker", "odd = 1"), upstream=address)
    run("apply", checkout.root, "t-odd")
    (line,) = run("status", checkout.root, "--format", "ledger").splitlines()[2:]
    assert line.startswith("| [t-odd](https://example.org/a_%28b%29%5C%3Cc%3E/7) Toy t-odd |")


def test_a_check_may_come_with_the_table(checkout: CheckoutTree) -> None:
    run("status", checkout.root, "--format", "ledger", "--check", code=1)
    run("apply", checkout.root)
    assert run("status", checkout.root, "--format", "ledger", "--check").count("\n") > 2

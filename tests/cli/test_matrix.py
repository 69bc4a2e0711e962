from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import CRLF, MIRROR, add_patch, attribute, git

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def fork(checkout: CheckoutTree, patch_folder: Path) -> CheckoutTree:
    """A fork with branches a and b; on b a class is gone and so a patch conflicts."""
    git(checkout.root, "branch", "a")
    git(checkout.root, "checkout", "-qb", "b")
    (checkout.package / MIRROR).write_text("class Other:\n    '''<script>alert(1)</script>'''\n")
    git(checkout.root, "commit", "-qam", "b")
    add_patch(patch_folder, "t-bold", attribute(MIRROR, "Mirror", 'x = "<b>"'))
    return checkout


def drawn(text: str) -> list[list[str]]:
    """Return the cells of the lines of a matrix, with the line of numbers first."""
    blocks = text.split("\n\n")
    return [line.split() for line in blocks[1].splitlines()]


def test_text_has_a_column_a_ref_and_each_conflict_once(fork: CheckoutTree, patch_folder: Path) -> None:
    add_patch(patch_folder, "t-wide", attribute(CRLF, "Backend", "wide = 1"), group='"acme"')
    add_patch(patch_folder, "t-lost", attribute(MIRROR, "Mirror", "lost = 1"), group='"acme"')
    text = run("matrix", fork.root, "--refs", "a", "b").stdout
    assert text.startswith("  1  a\n  2  b\n")
    assert text.count("the tree has no Mirror") == 4
    lines = drawn(text)
    assert lines[0] == ["1", "2"]
    assert ["acme", "+", "+!"] in lines
    assert ["t-flag", "+", "!"] in lines, "a patch in no group"
    assert "2 refs, 2 distinct states" in text
    assert "1 ref, 1 distinct state, " in run("matrix", fork.root, "--refs", "a").stdout
    lines = drawn(run("matrix", fork.root, "--refs", "a", "b", "-v").stdout)
    assert ["t-wide", "+", "+"] in lines
    assert ["t-lost", "+", "!"] in lines


def test_refs_that_do_not_fit_a_line_are_drawn_below(fork: CheckoutTree) -> None:
    for number in range(20):
        git(fork.root, "branch", f"b{number:02}")
    lines = run("matrix", fork.root, "--refs", "b??").stdout.splitlines()
    assert max(len(line) for line in lines if line.startswith("t-")) <= 80
    assert len([line for line in lines if line.startswith("t-flag ")]) == 2


def test_columns_are_aligned_whatever_characters_of_a_ref_are_escaped(fork: CheckoutTree) -> None:
    git(fork.root, "branch", "a\u2028b")
    lines = run("matrix", fork.root, "--refs", "refs/heads/**").stdout.split("\n")
    assert any(line.endswith("  a\\u2028b") for line in lines)
    start = lines.index("") + 1
    assert len({len(row) for row in lines[start : lines.index("", start)]}) == 1


def test_json_is_the_structure(fork: CheckoutTree) -> None:
    answer: Any = json.loads(run("matrix", fork.root, "--refs", "a", "--refs", "b", "--json").stdout)
    assert [row["ref"] for row in answer["rows"]] == ["refs/heads/a", "refs/heads/b"]
    cells = {cell["patch"]: cell for cell in answer["rows"][1]["patches"]}
    assert cells["t-guard"]["state"] == "conflict"
    assert cells["t-guard"]["conflicts"][0]["file"] == MIRROR


def test_names_that_a_star_leaves_out_are_reported_on_stderr(fork: CheckoutTree) -> None:
    git(fork.root, "branch", "c/d")
    answered = run("matrix", fork.root, "--refs", "refs/heads/*", "--json")
    assert "--refs 'refs/heads/**' includes them" in answered.stderr
    assert "c/d" not in answered.stdout


def test_csv_has_a_column_a_patch(fork: CheckoutTree) -> None:
    rows = list(
        csv.DictReader(io.StringIO(run("matrix", fork.root, "--refs", "a", "b", "--format", "csv").stdout))
    )
    assert [row["t-flag"] for row in rows] == ["pending", "conflict"]


def test_the_page_opens_to_conflict_and_diff_and_escapes(fork: CheckoutTree, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("matrix", fork.root, "--refs", "a", "b", "--format", "html", "-o", page)
    text = page.read_text()
    assert "needs_host = False" in text, "what would be added"
    assert "the tree has no Mirror" in text
    assert "<script" not in text
    assert "&lt;b&gt;" in text
    assert "http" not in text, "nothing is fetched"
    for target in {part.split('"')[0] for part in text.split('href="#')[1:]}:
        assert f'id="{target}"' in text


def test_the_page_has_a_row_a_group_that_opens_to_its_patches(fork: CheckoutTree, patch_folder: Path) -> None:
    for name in ("t-one", "t-two"):
        add_patch(patch_folder, name, attribute(MIRROR, "Mirror", "more = 1"), group='"speed"')
    refs = ("matrix", fork.root, "--refs", "a", "b", "--format", "html")
    page, each = run(*refs).stdout, run(*refs, "-v").stdout
    assert page.count('type="checkbox"') == 1
    assert page.count('<tr class="member">') == 2
    assert 'class="member"' not in each
    assert all(f">{name}</th>" in text for name in ("t-one", "t-two") for text in (page, each))


def test_a_ref_that_cannot_be_read_exits_1(fork: CheckoutTree) -> None:
    (fork.package / MIRROR).write_text("def (:\n")
    git(fork.root, "commit", "-qam", "broken")
    assert "not valid Python" in run("matrix", fork.root, "--refs", "a", "b", code=1).stdout


def test_no_refs_and_an_unknown_ref_are_usage_errors(fork: CheckoutTree) -> None:
    assert "--refs" in run("matrix", fork.root, code=2).stderr
    assert "matches nothing" in run("matrix", fork.root, "--refs", "zzz", code=2).stderr


def test_no_repository_exits_4(tmp_path: Path) -> None:
    assert "not a git repository" in run("matrix", tmp_path, "--refs", "a", code=4).stderr


def test_each_ref_is_seen_as_it_is_configured(fork: CheckoutTree, patch_folder: Path, tmp_path: Path) -> None:
    """On a nothing is configured, on b what conflicts is left out, on c there is a patch of the fork's own."""
    (fork.root / "patchkit.toml").write_text('left_out = ["t-flag", "t-guard", "t-bold"]\n')
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Ours are better")
    git(fork.root, "checkout", "-qb", "c", "a")
    add_patch(fork.root / "ours", "acme", attribute(MIRROR, "Mirror", "acme = 1"))
    (fork.root / "patchkit.toml").write_text('patches = ["ours"]\n')
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Ours")
    git(fork.root, "checkout", "-qb", "d", "a")
    (fork.root / "patchkit.toml").write_text('left = ["t-flag"]\n')
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Misspelt")
    refs = ("matrix", fork.root, "--refs", "a", "b", "c", "d")
    answer: Any = json.loads(run(*refs, "--json", code=1).stdout)
    rows = {row["ref"]: row for row in answer["rows"]}
    assert list(rows) == ["refs/heads/a", "refs/heads/b", "refs/heads/c", "refs/heads/d"]
    assert "unknown key `left`: " in rows["refs/heads/d"]["error"]
    assert answer["patches"][-1] == "acme"
    seen = {
        name.rpartition("/")[2]: {cell["patch"]: (cell["state"], cell["left_out"]) for cell in row["patches"]}
        for name, row in rows.items()
    }
    assert seen["a"]["t-flag"] == seen["c"]["t-flag"] == ("pending", "")
    assert seen["b"]["t-flag"] == ("conflict", "in `left_out` of patchkit.toml")
    assert seen["b"]["t-stop"] == ("conflict", "it requires t-flag, which is in `left_out` of patchkit.toml")
    assert seen["c"]["acme"] == ("pending", "")
    for branch in "abc":
        git(fork.root, "checkout", "-q", branch)
        status: Any = json.loads(run("status", fork.root, "--json").stdout)
        assert seen[branch] == {
            patch["id"]: (patch["state"], patch.get("left_out", "")) for patch in status["patches"]
        }
    text = run(*refs, code=1).stdout
    assert "x left out by the ref's configuration" in text
    assert "In conflict" not in text
    table = list(csv.DictReader(io.StringIO(run(*refs, "--format", "csv", code=1).stdout)))
    assert [row["t-flag"] for row in table] == ["pending", "left-out", "pending", ""]
    assert [row["acme"] for row in table] == ["", "", "pending", ""]
    page = run(*refs, "--format", "html", code=1).stdout
    assert "in `left_out` of patchkit.toml" in page
    assert "acme = 1" in page


def test_a_link_in_git_is_refused_as_on_disk(fork: CheckoutTree) -> None:
    (fork.root / "patchkit.toml").symlink_to("other.toml")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "A link")
    (row,) = json.loads(run("matrix", fork.root, "--refs", "b", "--json", code=1).stdout)["rows"]
    assert "patchkit.toml is not a regular file: replace it with the file itself" in row["error"]

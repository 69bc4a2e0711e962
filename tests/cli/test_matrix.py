from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import MIRROR, add_patch, attribute, git

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


def test_text_has_a_line_a_ref_and_each_conflict_once(fork: CheckoutTree) -> None:
    text = run("matrix", fork.root, "--refs", "a", "b").stdout
    assert text.count("the tree has no Mirror") == 3
    assert "  2  t-flag" in text
    assert "2 refs, 2 distinct states" in text


def test_json_is_the_structure(fork: CheckoutTree) -> None:
    answer: Any = json.loads(run("matrix", fork.root, "--refs", "a", "--refs", "b", "--json").stdout)
    assert [row["ref"] for row in answer["rows"]] == ["refs/heads/a", "refs/heads/b"]
    cells = {cell["patch"]: cell for cell in answer["rows"][1]["patches"]}
    assert cells["t-guard"]["state"] == "conflict"
    assert cells["t-guard"]["conflicts"][0]["file"] == MIRROR


def test_names_that_a_star_leaves_out_are_said_on_stderr(fork: CheckoutTree) -> None:
    git(fork.root, "branch", "c/d")
    answered = run("matrix", fork.root, "--refs", "refs/heads/*", "--json")
    assert "--refs 'refs/heads/**' names them" in answered.stderr
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


def test_a_ref_that_cannot_be_read_exits_1(fork: CheckoutTree) -> None:
    (fork.package / MIRROR).write_text("def (:\n")
    git(fork.root, "commit", "-qam", "broken")
    assert "not valid Python" in run("matrix", fork.root, "--refs", "a", "b", code=1).stdout


def test_no_refs_and_an_unknown_ref_are_usage_errors(fork: CheckoutTree) -> None:
    assert "--refs" in run("matrix", fork.root, code=2).stderr
    assert "names nothing" in run("matrix", fork.root, "--refs", "zzz", code=2).stderr


def test_no_repository_exits_4(tmp_path: Path) -> None:
    assert "not a git repository" in run("matrix", tmp_path, "--refs", "a", code=4).stderr

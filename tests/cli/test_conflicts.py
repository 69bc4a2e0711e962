"""A conflict that a person finishes: it is shown, and what the edit wanted to do beside what was found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import MIRROR, add_patch, attribute, edit, git

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

COPY = f"""[edit.copy]
kind = "rewrite"
why = "no copy where nobody asks"
at = "{MIRROR}::Mirror.host"
find = "return self.copies.cpu()"
code = "return self.copies.cpu() if self.sure else None"
"""
RESOLVED = b"        return self.copies if self.sure else None\n"


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def asked(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture(autouse=True)
def conflicting(patch_folder: Path) -> None:
    """A patch with one edit that fits, and one for a site that this fork has written otherwise."""
    add_patch(patch_folder, "t-copy", attribute(MIRROR, "Mirror", "sure = True"), COPY)


def test_diff_shows_the_site_as_found_as_expected_and_the_edit(checkout: CheckoutTree) -> None:
    result = run("diff", checkout.root, "t-copy", code=3)
    assert f"{MIRROR}:5: Mirror.host: t-copy: copy (no copy where nobody asks)" in result.stderr
    for name, code in {
        "found": "return self.copies",
        "expected": "return self.copies.cpu()",
        "wanted (rewrite)": "return self.copies.cpu() if self.sure else None",
    }.items():
        assert f"  {name}:\n    {code}\n" in result.stderr
    assert result.stdout == "", "what git apply reads has no conflict in it"


def test_json_has_the_lines(checkout: CheckoutTree) -> None:
    (conflict,) = asked("diff", checkout.root, "t-copy", code=3)["conflicts"]
    assert (conflict["line"], conflict["end"]) == (5, 6)
    assert conflict["found"] == "        return self.copies\n"
    assert conflict["file"] == MIRROR


def test_a_site_that_is_not_there_has_no_line(checkout: CheckoutTree) -> None:
    (checkout.package / MIRROR).unlink()
    (conflict,) = asked("diff", checkout.root, "t-guard", code=3)["conflicts"][-1:]
    assert (conflict["line"], conflict["found"], conflict["wanted"]) == (0, "", "guard = 1")


def test_nothing_conflicts_and_nothing_is_shown(checkout: CheckoutTree) -> None:
    assert asked("diff", checkout.root, "t-flag")["conflicts"] == []
    assert run("diff", checkout.root, "t-flag").stderr == ""


def test_the_page_of_the_matrix_shows_it(checkout: CheckoutTree, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    edit(checkout, MIRROR, b"return self.copies", b'return self.copies["<b>"]')
    git(checkout.root, "commit", "-qam", "A fork's own")
    run("matrix", checkout.root, "--refs", "HEAD", "--format", "html", "-o", page)
    text = page.read_text()
    assert f"{MIRROR}:5: Mirror.host: copy" in text
    assert "return self.copies[&#34;&lt;b&gt;&#34;]" in text
    assert "return self.copies.cpu()</span>" in text
    assert "return self.copies.cpu() if self.sure else None</span>" in text

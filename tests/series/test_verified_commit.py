"""``apply --commit --verify`` checks the commits before the checkout moves to them, and moves only if all pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import committing, hook, patched_states, whole
from support.toys import MIRROR, git

from patchkit import api
from patchkit.cli import main
from patchkit.patchset import load
from patchkit.verify.result import UnverifiedError

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
BROKEN = "def late():\n    nonlocal missing\n"


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


def run(tree: CheckoutTree, *words: str, code: int = 0) -> tuple[str, str]:
    ran = CliRunner().invoke(main, ["apply", str(tree.root), *words], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.stdout, ran.stderr


def test_what_passes_is_committed_and_said(fork: CheckoutTree) -> None:
    out, _ = run(fork, "--commit", "--verify")
    assert "in 3 commits.\nAll " in out
    assert f"Next: patchkit revert {fork.root} --commit reverts the patches" in " ".join(out.split("\n"))
    assert set(patched_states(fork).values()) == {"applied"}
    assert git(fork.root, "status", "--porcelain") == ""


def test_the_answer_has_the_checks(fork: CheckoutTree) -> None:
    answer = json.loads(run(fork, "--commit", "--verify", "--json")[0])
    assert len(answer["commits"]) == 3
    assert {check["outcome"] for check in answer["checks"]} <= {"passed", "skipped"}
    assert json.loads(run(fork, "--commit", "--verify", "--json")[0])["checks"]
    assert "checks" not in json.loads(run(fork, "--commit", "--json")[0])


def test_a_check_that_fails_changes_nothing_and_its_findings_are_printed(fork: CheckoutTree) -> None:
    file = f"python/sglang/{MIRROR}"
    hook(fork, "pre-commit", f"grep -q late {file} || printf '%s' '{BROKEN}' >> {file}")
    before = whole(fork)
    out, error = run(fork, "t-stop", "--commit", "--verify", code=1)
    assert f"{MIRROR}:" in out
    assert "Nothing changed." in out
    assert "failed on the commits, so nothing was changed" in error
    assert "help: fix what the checks name" in error
    assert str(fork.package) in out
    assert "patchkit-commit-" not in out + error
    answer = json.loads(run(fork, "t-stop", "--commit", "--verify", "--json", code=1)[0])
    failed = [check for check in answer["checks"] if check["outcome"] == "failed"]
    assert failed[0]["findings"][0]["file"] == MIRROR
    assert "commits" not in answer
    assert answer["changed_files"] == []
    assert {patch["state"] for patch in answer["patches"]} == {"pending"}
    assert answer["tree"]["package"] == str(fork.package)
    with pytest.raises(UnverifiedError):
        api.commit(fork, load.patches(), verifying=True)
    assert whole(fork) == before


def test_a_tree_with_nothing_to_commit_is_checked_too(fork: CheckoutTree) -> None:
    run(fork, "--commit")
    with (fork.package / MIRROR).open("ab") as file:
        file.write(BROKEN.encode())
    assert "failed on the commits" in run(fork, "--commit", "--verify", code=1)[1]


def test_without_a_commit_it_is_a_usage_error(fork: CheckoutTree) -> None:
    assert "--verify needs --commit" in run(fork, "--verify", code=2)[1]

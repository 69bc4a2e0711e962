"""What a fork does after ``apply``: it formats, commits, switches branches, clones, and then reverts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.repositories import clone
from support.toys import ABRUPT, CRLF, MIRROR, SOURCES, add_patch, contents, edit, everything, git

from patchkit.cli import main
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
ORIGINALS = {file: SOURCES[file] for file in (MIRROR, CRLF, ABRUPT)}


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout) if code == 0 else result.stderr


def states(tree: CheckoutTree) -> dict[str, str]:
    return {patch["id"]: patch["state"] for patch in run("status", tree.root)["patches"]}


def record_check(tree: CheckoutTree) -> str:
    """Return what the verification of the record ends in."""
    result = CliRunner().invoke(main, ["verify", str(tree.root), "--json"])
    checks = json.loads(result.stdout)["checks"]
    return next(str(check["outcome"]) for check in checks if check["check"] == "record")


def commit(tree: CheckoutTree, why: str) -> None:
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", why)


def reformat(tree: CheckoutTree) -> None:
    """Lay every file out as a formatter may: other quotes, wrapped calls, more blank lines, trailing commas."""
    for file in ORIGINALS:
        text = (tree.package / file).read_bytes().replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
        text = (
            text.replace(b"class ", b"\n\nclass ")
            .replace(b" = ", b" = (\n        ")
            .replace(b"\n\n    (", b"(")
        )
        lines = []
        for line in text.splitlines(keepends=True):
            lines.append(line)
            if lines[-1].startswith(b"        ") and lines[-2].endswith(b"(\n"):
                lines.append(b"    )\n")
        (tree.package / file).write_bytes(b"".join(lines))


def test_formatter_after_apply_changes_no_state_and_is_no_obstacle(checkout: CheckoutTree) -> None:
    reformat(checkout)
    commit(checkout, "Format")
    formatted = contents(checkout)
    for file, text in ORIGINALS.items():
        (checkout.package / file).write_bytes(text)
    commit(checkout, "As it was")
    run("apply", checkout.root)
    reformat(checkout)
    commit(checkout, "Patched and formatted")
    assert set(states(checkout).values()) == {"applied"}
    assert record_check(checkout) == "passed"
    run("revert", checkout.root)
    assert set(states(checkout).values()) == {"pending"}
    left = contents(checkout)
    assert {f: [x for x in (t or b"").splitlines() if x.strip()] for f, t in left.items()} == {
        f: [x for x in (t or b"").splitlines() if x.strip()] for f, t in formatted.items()
    }


@pytest.mark.parametrize("differ", [False, True])
def test_each_branch_has_its_record(checkout: CheckoutTree, differ: bool) -> None:
    root = checkout.root
    git(root, "switch", "-qc", "one")
    run("apply", root)
    commit(checkout, "Patched on one")
    one = contents(checkout)
    git(root, "switch", "-qc", "two", "HEAD~1")
    assert set(states(checkout).values()) == {"pending"}
    if differ:
        for file in ORIGINALS:
            path = checkout.package / file
            path.write_bytes(b"# two\n" + path.read_bytes())
        commit(checkout, "Two has its own first lines")
    two = contents(checkout)
    run("apply", root)
    commit(checkout, "Patched on two")
    for branch, before in (("one", ORIGINALS), ("two", two), ("one", ORIGINALS)):
        git(root, "switch", "-q", branch)
        assert set(states(checkout).values()) == {"applied"}
        assert record_check(checkout) in ("passed", "skipped")
        run("revert", root)
        assert contents(checkout) == before
        git(root, "checkout", "-q", ".")
    assert contents(checkout) == one


def test_fresh_clone_is_reverted_from_its_history(checkout: CheckoutTree, tmp_path: Path) -> None:
    run("apply", checkout.root)
    commit(checkout, "Patched")
    edit(checkout, MIRROR, b"depth = 1", b"depth = 1\nmine = 1")
    commit(checkout, "Mine")
    fresh = clone(checkout, tmp_path)
    assert record_check(fresh) == "passed"
    assert run("revert", fresh.root, "t-stop")["reverted"] == ["t-stop"]
    assert states(fresh) == {"t-flag": "applied", "t-guard": "applied", "t-stop": "pending"}
    assert sorted(run("revert", fresh.root)["reverted"]) == ["t-flag", "t-guard"]
    assert contents(fresh) == ORIGINALS | {MIRROR: SOURCES[MIRROR] + b"mine = 1\n"}
    assert not (fresh.package / ".patchkit").exists()


def test_lost_ledger_of_what_is_not_committed_is_made_up_for_by_head(checkout: CheckoutTree) -> None:
    run("apply", checkout.root)
    shutil.rmtree(checkout.package / ".patchkit")
    run("revert", checkout.root)
    assert contents(checkout) == ORIGINALS


def test_error_in_a_shallow_clone_names_the_command_that_helps(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    run("apply", checkout.root)
    commit(checkout, "Patched")
    fresh = clone(checkout, tmp_path, "--depth", "1")
    before = everything(fresh.root)
    message = run("revert", fresh.root, code=3)
    assert "git fetch --unshallow" in message
    assert everything(fresh.root) == before
    git(fresh.root, "fetch", "-q", "--unshallow")
    run("revert", fresh.root)
    assert contents(fresh) == ORIGINALS


def test_shallow_clone_is_told_that_what_fails_may_predate_the_patches(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    own = b"\n\nclass Own:\n    def plan(self):\n        self.fill(1)\n\n    def fill(self):\n        pass\n"
    (checkout.package / MIRROR).write_bytes(SOURCES[MIRROR] + own)
    commit(checkout, "A call that fails")
    run("apply", checkout.root)
    commit(checkout, "Patched")
    (tmp_path / "shallow").mkdir()
    whole, fresh = clone(checkout, tmp_path), clone(checkout, tmp_path / "shallow", "--depth", "1")
    hint = "it may predate the patches; history is missing: git fetch --unshallow"
    failed = CliRunner().invoke(main, ["verify", str(fresh.root)])
    assert failed.exit_code == 1
    assert hint in failed.stdout
    noted = CliRunner().invoke(main, ["verify", str(whole.root)])
    assert "note: predates the patches" in noted.stdout
    assert hint not in noted.stdout
    # With the whole history it is known what came first.
    (whole.package / MIRROR).write_bytes((whole.package / MIRROR).read_bytes() + own.replace(b"Own", b"New"))
    later = CliRunner().invoke(main, ["verify", str(whole.root)])
    assert (later.exit_code, hint in later.stdout) == (1, False)


def test_tree_that_began_patched_is_told_which_command_helps(package: Path) -> None:
    tree = open_tree(package)
    run("apply", tree.root)
    shutil.rmtree(package / ".patchkit")
    git(tree.root, "init", "-q")
    commit(tree, "All at once")
    assert "neither the record nor this clone has the file" in run("revert", tree.root, code=3)


def test_patches_that_made_something_else_are_refused(checkout: CheckoutTree, patch_folder: Path) -> None:
    run("apply", checkout.root)
    commit(checkout, "Patched")
    shutil.rmtree(checkout.package / ".patchkit")
    shutil.rmtree(checkout.root / "patchkit.lock")
    for name in ("t-stop", "t-guard", "t-flag"):
        shutil.rmtree(patch_folder / name)
    add_patch(
        patch_folder,
        "t-other",
        '[edit.limit]\nkind = "class-attribute"\nat = "srt/x.py::A"\ncode = "a = 1"\nwhy = "toy"',
    )
    before = everything(checkout.root)
    assert "--patches DIR" in run("revert", checkout.root, code=3)
    assert everything(checkout.root) == before


def test_real_formatter_after_apply_is_no_obstacle(checkout: CheckoutTree) -> None:
    run("apply", checkout.root)
    command = [sys.executable, "-m", "ruff", "format", "-q", str(checkout.package)]
    subprocess.run(command, check=True)
    assert set(states(checkout).values()) == {"applied"}
    run("revert", checkout.root)
    assert set(states(checkout).values()) == {"pending"}
    assert not any(b"patchkit" in (text or b"") for text in contents(checkout).values())

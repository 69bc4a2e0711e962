"""A patch that is a diff goes through every command as any other patch does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.repositories import committing, copied
from support.toys import ABRUPT, MIRROR, SOURCES, add_patch, attribute, everything, git, write_package

from patchkit.cli import main
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
BEFORE = f"import os\n\n\n{SOURCES[MIRROR].decode()}"
AFTER = BEFORE.replace(
    "        return self.copies\n", "        check(self.copies)\n        return self.copies % 7\n"
)
AFTER = AFTER.replace("import os\n", "import os\n\nfrom sglang.srt.checks import check\n")
CHECKS = "def check(copies):\n    assert copies >= 0\n"
DRIFTED = BEFORE.replace("copies = 0", "copies = 1\n    pages = 2").replace("depth = 1", "depth = 3")
OWN = "own"


def run(*words: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def answer(*words: object, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code).stdout)


def state_of(*words: object, code: int = 0) -> str:
    (status,) = (each for each in answer(*words, code=code)["patches"] if each["id"] == OWN)
    return str(status["state"])


def put(tree: CheckoutTree, text: str, message: str = "A change", file: str = MIRROR) -> None:
    (tree.package / file).write_text(text)
    git(tree.root, "add", "-A")
    git(tree.root, "commit", "-qm", message)


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A fork that has drifted, and that lacks the change."""
    put(committing(checkout), DRIFTED)
    return checkout


@pytest.fixture
def folder(tree: CheckoutTree, tmp_path: Path) -> Path:
    """The patch of a diff that was made on another tree."""
    (tree.package / MIRROR).write_text(BEFORE)
    place = tmp_path / "theirs"
    for name, texts in (("a", {MIRROR: BEFORE}), ("b", {MIRROR: AFTER, "srt/checks.py": CHECKS})):
        for file, text in texts.items():
            path = place / name / "python" / "sglang" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    made = subprocess.run(
        ("git", "diff", "--no-index", "--no-prefix", "a", "b"), cwd=place, capture_output=True, check=False
    )
    (tmp_path / "change.diff").write_bytes(made.stdout)
    run(
        "new",
        OWN,
        "--from-diff",
        tmp_path / "change.diff",
        "--on",
        tree.root,
        "-o",
        tmp_path / "patches" / OWN,
    )
    written = tmp_path / "patches" / OWN / "patch.toml"
    written.write_text(re.sub(r"todo: ", "", written.read_text()))
    return tmp_path / "patches"


def test_it_is_tried_applied_verified_moved_and_reverted(
    fork: CheckoutTree, folder: Path, tmp_path: Path
) -> None:
    own = ("--patches", folder)
    assert "ok" in run("test", folder / OWN).stdout
    assert "pending, 2 files" in run("test", folder / OWN, "--on", fork.root).stdout
    shown = run("show", OWN, *own).stdout
    assert "mirror-mirror-host" in shown
    assert state_of("status", fork.root, *own) == "pending"
    assert "+        check(self.copies)" in run("diff", fork.root, OWN, *own).stdout
    before = everything(fork.root)
    run("apply", fork.root, OWN, *own, "--commit")
    text = (fork.package / MIRROR).read_text()
    assert text.count("# patchkit own: ") == 1
    assert re.sub(r"^ *# patchkit own: .*\n", "", text, flags=re.MULTILINE) == AFTER.replace(
        "copies = 0", "copies = 1\n    pages = 2"
    ).replace("depth = 1", "depth = 3")
    assert state_of("status", fork.root, *own) == "applied"
    run("verify", fork.root, *own)
    assert answer("apply", fork.root, OWN, *own)["changed_files"] == []
    head = git(fork.root, "rev-parse", "--abbrev-ref", "HEAD").strip()
    (row,) = answer("matrix", fork.root, "--refs", head, *own)["rows"]
    assert [cell["state"] for cell in row["patches"] if cell["patch"] == OWN] == ["applied"]
    git(fork.root, "checkout", "-qb", "next", "HEAD^")
    put(fork, DRIFTED.replace("depth = 3", "depth = 4"))
    git(fork.root, "checkout", "-q", head)
    run("rebase", fork.root, "--onto", "next", *own)
    run("export", fork.root, OWN, *own, "-o", tmp_path / "series", code=0)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(fork.root), str(clone))
    cloned = committing(open_tree(clone))
    assert state_of("status", clone, *own) == "applied"
    run("revert", clone, OWN, *own)
    assert (cloned.package / MIRROR).read_text() == DRIFTED
    assert not (cloned.package / "srt" / "checks.py").exists()
    run("revert", fork.root, OWN, *own)
    assert {name: each[1] for name, each in everything(fork.root).items() if ".patchkit" not in name} == {
        name: each[1] for name, each in before.items() if ".patchkit" not in name
    }


def test_an_edit_that_may_mean_something_else_in_the_tree_is_said(fork: CheckoutTree, folder: Path) -> None:
    put(
        fork,
        DRIFTED.replace(
            "        return self", "        if not depth:\n            return 0\n        return self"
        ),
    )
    own = ("--patches", folder)
    planned = run("apply", fork.root, OWN, *own, "--dry-run").stdout
    made = run("apply", fork.root, OWN, *own).stdout
    note = f"Note: own: {MIRROR}: Mirror.host: this tree may leave the function before it, at `if not depth`."
    assert note in " ".join(planned.split())
    assert note in " ".join(made.split())


@pytest.mark.parametrize("own", ["a-own", "z-own"])
def test_edits_and_diffs_in_one_file_go_together_and_come_out_alone(
    fork: CheckoutTree, folder: Path, own: str
) -> None:
    path = folder / OWN / "patch.toml"
    path.write_text(path.read_text().replace('id = "own"', f'id = "{own}"'))
    add_patch(folder, "m-flag", attribute(MIRROR, "Mirror", "pinned = True"))
    words = ("--patches", folder)
    text = {}
    for names in ((own,), ("m-flag",), (own, "m-flag")):
        run("apply", fork.root, *names, *words)
        text[names] = (fork.package / MIRROR).read_text()
        run("revert", fork.root, *words)
        assert (fork.package / MIRROR).read_text() == DRIFTED
    for first, second in ((own, "m-flag"), ("m-flag", own)):
        run("apply", fork.root, first, *words)
        run("apply", fork.root, second, *words)
        assert (fork.package / MIRROR).read_text() == text[own, "m-flag"]
        run("revert", fork.root, first, *words)
        assert (fork.package / MIRROR).read_text() == text[second,]
        run("revert", fork.root, second, *words)
        assert (fork.package / MIRROR).read_text() == DRIFTED


def test_a_package_under_another_name_gets_the_change_in_its_own_words(folder: Path, tmp_path: Path) -> None:
    package = write_package(tmp_path / "acme" / "python" / "acme_serving")
    (package / MIRROR).write_text(DRIFTED)
    (package / "srt" / "use.py").write_text("from acme_serving.srt.managers.mirror import Mirror\n")
    run("apply", package, OWN, "--patches", folder)
    assert "from acme_serving.srt.checks import check" in (package / MIRROR).read_text()
    run("revert", package, OWN, "--patches", folder)
    assert (package / MIRROR).read_text() == DRIFTED


def test_a_fork_keeps_it_in_its_own_repository(fork: CheckoutTree, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, fork.root / "own-patches")
    (fork.root / "patchkit.toml").write_text('patches = ["own-patches"]\n')
    put(fork, DRIFTED + "width = 1\n")
    assert state_of("status", fork.root) == "pending"
    run("apply", fork.root, "--commit")
    git(fork.root, "checkout", "-qb", "next", "HEAD^")
    put(fork, DRIFTED + "width = 2\n")
    git(fork.root, "checkout", "-q", "-")
    assert OWN in run("rebase", fork.root, "--onto", "next").stdout
    (base,) = (fork.root / "own-patches" / OWN / "base").iterdir()
    base.write_bytes(b"other")
    refused = run("status", fork.root, code=2).stderr
    assert "its content differs from its name, which is a blob id of git's" in refused


def test_a_conflict_is_marked_and_finished_by_hand(fork: CheckoutTree, folder: Path) -> None:
    own = ("--patches", folder)
    other = DRIFTED.replace("        return self.copies\n", "        return self.pages // 3\n")
    put(fork, other)
    refused = run("apply", fork.root, OWN, *own, code=3)
    assert (
        f"own mirror-mirror-host: what changes --> {MIRROR}: Mirror.host `copies` is `pages // 3`"
        in " ".join(refused.output.split())
    )
    assert (fork.package / MIRROR).read_text() == other
    run("apply", fork.root, OWN, *own, "--markers", code=1)
    text = (fork.package / MIRROR).read_text()
    assert "<<<<<<< found (patchkit own mirror-mirror-host)" in text
    done = re.sub(
        r"<<<<<<< .*\n((?s:.*?))\|\|\|\|\|\|\| (?s:.*?)>>>>>>> .*\n", r"        check(self.pages)\n\1", text
    )
    (fork.package / MIRROR).write_text(done)
    run("resolve", fork.root, "--accept", OWN, "mirror-mirror-host", *own)
    (fork.package / "srt" / "checks.py").unlink()  # What is made again leaves what was accepted.
    assert state_of("status", fork.root, *own) == "partial"
    run("apply", fork.root, OWN, *own)
    assert state_of("status", fork.root, *own) == "applied"
    run("revert", fork.root, OWN, *own)
    assert (fork.package / MIRROR).read_text() == other


def test_a_tree_after_upstreams_commit_has_it_also_where_it_changed_since(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    tree = committing(checkout)
    put(tree, BEFORE)
    put(tree, AFTER, "Check the copies (#41)")
    folder = tmp_path / "patches" / OWN
    run("new", OWN, "--from-commit", "HEAD", "--on", tree.root, "-o", folder)
    later = AFTER.replace("check(self.copies)", "check(self, self.copies)")
    put(tree, later)
    with (folder / "patch.toml").open("a") as text:
        text.write('remove_when = "upstream checks the copies"\n')
    plan = "upstream has it: remove the patch (its plan: upstream checks the copies)"
    assert plan in " ".join(run("status", tree.root, "--patches", folder).stdout.split())
    assert "Remove when: upstream checks the copies" in run("show", OWN, "--patches", folder).stdout
    assert state_of("status", tree.root, "--patches", folder) == "upstream"
    head = git(tree.root, "rev-parse", "HEAD").strip()
    assert run("test", folder, "--on", tree.root).stdout.endswith("upstream: nothing to test\n")
    copy = copied(tree, tree.root.with_name("copy")).root
    shutil.rmtree(copy / ".git")
    refused = run("apply", copy, OWN, "--patches", folder, code=3).stdout
    assert "this tree has a variant of it: `check(self, self.copies)`" in " ".join(refused.split())
    git(tree.root, "checkout", "-qb", "picked", "HEAD~2")
    put(tree, f"{BEFORE}width = 1\n")
    git(tree.root, "cherry-pick", f"{head}^", head)
    assert state_of("status", tree.root, "--patches", folder) == "upstream"
    git(tree.root, "checkout", "-q", head)
    git(tree.root, "revert", "--no-edit", "HEAD", "HEAD^")
    assert state_of("status", tree.root, "--patches", folder) == "pending"


@pytest.mark.parametrize("runtime", ["import", "vendored"])
def test_a_diff_that_calls_the_runtime_finds_it(
    fork: CheckoutTree, tree: CheckoutTree, tmp_path: Path, runtime: str
) -> None:
    before = SOURCES[ABRUPT].decode() + "\n"
    (tree.package / ABRUPT).write_text(before)
    put(fork, before, file=ABRUPT)
    line = "from patchkit.runtime import api_1 as patchkit_api\n"
    text = f"--- a/python/sglang/{ABRUPT}\n+++ b/python/sglang/{ABRUPT}\n@@ -1,1 +1,2 @@\n+{line} class Worker:\n"
    (tmp_path / "change.diff").write_text(text)
    folder = tmp_path / "patches" / OWN
    run("new", OWN, "--from-diff", tmp_path / "change.diff", "--on", tree.root, "-o", folder)
    run("apply", fork.root, OWN, "--patches", folder, "--runtime", runtime)
    made = (fork.package / ABRUPT).read_text()
    assert ("from sglang._patchkit.runtime import" in made) is (runtime == "vendored")
    assert (fork.package / "_patchkit").exists() is (runtime == "vendored")
    run("revert", fork.root, "--patches", folder)
    assert (fork.package / ABRUPT).read_text() == before


def test_code_that_a_person_edited_is_taken_into_the_patch_and_it_is_applied_again(
    fork: CheckoutTree, folder: Path, tmp_path: Path
) -> None:
    own = ("--patches", folder)
    before = {name: each[1] for name, each in everything(fork.root).items() if ".patchkit" not in name}
    run("resolve", fork.root, OWN, "--accept", *own, code=3)
    run("apply", fork.root, OWN, *own, "--commit")
    text = (fork.package / MIRROR).read_text()
    (fork.package / MIRROR).write_text(
        text.replace("% 7", "% 11").replace("depth = 3", "depth = 3\nwidth = 1")
    )
    (fork.package / "srt" / "checks.py").write_text("def check(copies):\n    assert copies > 0\n")
    assert state_of("status", fork.root, *own) == "edited"
    written = folder / OWN / "change.diff"
    assert answer("resolve", fork.root, OWN, "--accept", *own)["files"] == [str(written)]
    diff = written.read_text()
    assert "+        return self.copies % 11" in diff
    assert "+width = 1" in diff
    assert "+    assert copies > 0" in diff
    assert "# patchkit own" not in diff
    assert len(list((folder / OWN / "base").iterdir())) == 1
    assert "ok" in run("test", folder / OWN).stdout
    assert state_of("status", fork.root, *own) == "applied"
    run("verify", fork.root, *own)
    git(fork.root, "add", "-A")
    git(fork.root, "commit", "-qm", "Refreshed")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(fork.root), str(clone))
    assert state_of("status", clone, *own) == "applied"
    committing(open_tree(clone))
    run("revert", clone, OWN, *own)
    assert (open_tree(clone).package / MIRROR).read_text() == DRIFTED
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "Reverted")
    run("apply", clone, OWN, *own)
    assert "% 11" in (open_tree(clone).package / MIRROR).read_text()
    run("revert", fork.root, OWN, *own)
    after = {name: each[1] for name, each in everything(fork.root).items() if ".patchkit" not in name}
    assert after == before


def test_a_file_that_another_patch_changed_too_is_not_taken_into_one(
    fork: CheckoutTree, folder: Path, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-width", attribute(MIRROR, "Mirror", "width = 1"))
    own = ("--patches", folder)
    run("apply", fork.root, OWN, "t-width", *own, "--commit")
    before = (folder / OWN / "change.diff").read_bytes()
    refused = run("resolve", fork.root, OWN, "--accept", *own, code=3).stderr
    assert "t-width changed it too" in " ".join(refused.split())
    assert (folder / OWN / "change.diff").read_bytes() == before
    run("resolve", fork.root, "t-width", "--accept", *own, code=2)

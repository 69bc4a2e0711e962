"""`patchkit test` without trees: errors of your own patch are found before it is applied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import committing, whole
from support.toys import ABRUPT, MIRROR, add_patch, attribute, git, rewriting

from patchkit import api
from patchkit.cli import main
from patchkit.commands.check import unrecognised
from patchkit.patchset import load

if TYPE_CHECKING:
    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
GUARD = """\
[edit.guard]
kind = "insert-first"
why = "toy"
at = "srt/managers/mirror.py::Mirror.host"
code = "check(self)"
"""
BEFORE = "class Mirror:\n    def host(self):\n        return 1\n"
AFTER = BEFORE.replace("        return", "        # patchkit t-own: toy\n        check(self)\n        return")


def checked(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["test", *map(str, arguments)])


def example(folder: Path, **keys: str) -> Path:
    fields = {"shows": "It checks.", "file": MIRROR, "before": f"from a import check\n{BEFORE}", **keys}
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    (folder / "examples.toml").write_text("\n".join(["[[example]]", *lines, ""]))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return add_patch(tmp_path / "own", "t-own", GUARD).parent


def test_the_pages_example_is_fine() -> None:
    done = checked(EXAMPLES / "acme-opt-out")
    assert done.exit_code == 0, done.output
    assert "acme-opt-out" in done.stdout
    assert "2 examples" in done.stdout


def test_patch_that_does_what_its_example_shows_is_fine(folder: Path) -> None:
    assert checked(example(folder, after=f"from a import check\n{AFTER}")).exit_code == 0


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"after": "x = 1"}, "the result differs"),
        ({}, "the result differs"),
        ({"before": "x = 1\n"}, "the tree has no Mirror.host"),
        ({"refusal": "several places"}, "expected the refusal 'several places', found: it is pending"),
        ({"file": "srt/other.py"}, "no edit at all is for srt/other.py"),
        ({"edit": "guards"}, f"no edit guards is for {MIRROR}"),
        ({"before": BEFORE, "after": AFTER}, f"{MIRROR}:4: check is not defined there"),
    ],
)
def test_failing_example_is_reported(folder: Path, keys: dict[str, str], fault: str) -> None:
    done = checked(example(folder, **keys))
    assert done.exit_code == 1
    assert fault in " ".join(done.stdout.split())
    assert json.loads(checked(folder, "--json").stdout)["patches"][0]["faults"]


LINK = '"https://github.com/sgl-project/sglang/pull/{}"'
COMMIT = f'"{"a" * 40}"'


@pytest.mark.parametrize(
    ("keys", "is_fine"),
    [
        ({"upstream": LINK.format(41)}, False),
        ({"upstream": LINK.format(42), "upstream_commit": COMMIT}, False),
        ({"upstream": LINK.format(41), "upstream_when": '["srt/other.py"]'}, True),
        # For further reading.
        ({"upstream": LINK.format(42)}, True),
        ({"upstream": LINK.format(41).replace("pull", "issues")}, True),
        ({"upstream_commit": COMMIT}, True),
    ],
)
def test_an_upstream_change_says_how_it_is_recognised(
    tmp_path: Path, keys: dict[str, str], is_fine: bool
) -> None:
    done = checked(add_patch(tmp_path / "own", "41", GUARD, **keys).parent)
    assert done.exit_code == (0 if is_fine else 1), done.output
    assert ("upstream_when: missing" in done.stdout) is not is_fine


def test_every_patch_that_upstream_has_says_how_it_is_recognised() -> None:
    assert [fault for patch in load.patches() for fault in unrecognised(patch)] == []


def test_refusal_that_comes_is_fine(folder: Path) -> None:
    assert checked(example(folder, before="x = 1\n", refusal="the tree has no Mirror.host")).exit_code == 0


def test_names_are_looked_for_in_a_tree(folder: Path, tree: CheckoutTree) -> None:
    done = checked(folder, "--on", tree.root)
    assert done.exit_code == 1
    assert f"{MIRROR}:6: check is not defined there" in " ".join(done.stdout.split())
    head = '[edit.check]\nkind = "module-code"\nwhy = "toy"\nat = "srt/managers/mirror.py"\n'
    define = f'{head}code = "def check(x): ..."\n'
    add_patch(folder.parent, "t-own", define, GUARD)
    assert checked(folder, "--on", tree.root).exit_code == 0


def test_folder_of_patches_is_checked_whole(folder: Path) -> None:
    example(folder, after="x = 1")
    add_patch(folder.parent, "t-two", GUARD)
    answer = json.loads(checked(folder.parent, "--json").stdout)
    assert [bool(each["faults"]) for each in answer["patches"]] == [True, False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[example]]\n", "error: example[0]: key `shows`: missing"),
        ("[[", "error: not TOML"),
        pytest.param(f"a = {'1' * 5000}", "error: not TOML", id="a number of 5000 digits"),
        pytest.param(f"a = {'[' * 5000}", "error: tables or lists nest too deep", id="5000 brackets"),
        pytest.param(f"{'.'.join('a' * 20_000)} = 1", "error: a dotted name has more", id="20000 names"),
        pytest.param("#" * 2_000_000, "error: more than 1024 KiB of TOML", id="two million bytes"),
        ("[[example]]\nshow = 1\n", "error: example[0]: unknown key `show`"),
    ],
)
def test_malformed_examples_are_refused(folder: Path, text: str, reason: str) -> None:
    (folder / "examples.toml").write_text(text)
    done = checked(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith(reason)
    assert f"\n  --> {folder / 'examples.toml'}\nhelp: " in done.stderr


def test_malformed_patch_is_refused_as_everywhere(folder: Path) -> None:
    path = folder / "patch.toml"
    path.write_text(path.read_text().replace("check(self)", "check($x)"))
    done = checked(folder)
    assert done.exit_code == 2
    assert "error: edit.guard: key `code`: nothing binds $x" in done.stderr
    assert f"  --> {path}" in done.stderr


def test_extension_is_checked_with_the_patch_that_it_adds_to(tmp_path: Path) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "patch.toml").write_text(
        'schema = 1\nextends = "26128"\nwhy = "Our fork."\n\n[edit.filter-sum]\nalready = ["self.seq_lens_sum = $x"]\n'
    )
    done = checked(folder, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["patches"][0]["patch"] == "26128"
    shutil.rmtree(folder)
    assert checked(folder).exit_code == 2


def test_extension_is_tried_as_the_patch_that_it_adds_to(
    tmp_path: Path, tree: CheckoutTree, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-none", rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = None"))
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "patch.toml").write_text(
        'schema = 1\nextends = "t-none"\nwhy = "Our fork."\n\n[edit.copies]\nalready = ["copies = ()"]\n'
    )
    done = checked(folder, "--on", tree.root, "--json")
    (trial,) = json.loads(done.stdout)
    assert (trial["state"], trial["files"]) == ("pending", [MIRROR])
    edited = (tree.package / MIRROR).read_text().replace("copies = 0", "copies = ()")
    (tree.package / MIRROR).write_text(edited)
    assert json.loads(checked(folder, "--on", tree.root, "--json").stdout)[0]["state"] == "unknown"


@pytest.fixture
def fork(checkout: CheckoutTree, patch_folder: Path, tmp_path: Path) -> Path:
    """A worktree of a fork in which built-in patches are committed, as a person has it to try a patch of their own."""
    api.commit(committing(checkout), load.patches(), ("t-flag", "t-stop"))
    git(checkout.root, "worktree", "add", "-q", "--detach", str(tmp_path / "before"))
    return tmp_path / "before"


def test_patch_is_tried_on_a_worktree_with_committed_patches(
    fork: Path, checkout: CheckoutTree, folder: Path
) -> None:
    add_patch(folder.parent, "t-own", rewriting("depth", MIRROR, "depth = 1", "depth = 2"))
    before = whole(checkout)
    for place in (fork, checkout.root):
        done = checked(folder, "--on", place, "--json")
        assert done.exit_code == 0, done.output
        (trial,) = json.loads(done.stdout)
        assert (trial["state"], trial["files"], trial["problems"]) == ("pending", [MIRROR], [])
    assert whole(checkout) == before


def test_the_commit_of_a_patch_is_no_commit_to_draft_from_and_one_of_ones_own_is_named(
    fork: Path, folder: Path, tmp_path: Path
) -> None:
    own = git(fork, "rev-parse", "--short", "HEAD~2").strip()
    for commit in ("HEAD", "HEAD~2..HEAD"):
        words = ["new", "my-fix", "--from-commit", commit, "--on", str(fork), "-o", str(tmp_path / "drafted")]
        done = CliRunner().invoke(main, words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"error: patchkit made {commit}, which is the commit of a patch\n" in done.stderr
        assert f"name a commit of your own, such as {own}" in " ".join(done.stderr.split())
    assert not (tmp_path / "drafted").exists()


def test_patch_that_builds_on_committed_patches_is_reverted_without_them(fork: Path, folder: Path) -> None:
    edit = attribute(MIRROR, "Mirror", "own = 1")
    add_patch(folder.parent, "t-own", edit, requires='["t-flag"]')
    for patch in (folder, "t-guard"):
        done = checked(patch, "--on", fork)
        assert done.exit_code == 0, done.output
        assert "pending, 1 file" in done.stdout


def test_more_of_a_patch_than_a_tree_has_committed_is_tried(fork: Path, folder: Path) -> None:
    depth = rewriting("depth", MIRROR, "depth = 1", "depth = 2")
    add_patch(folder.parent, "t-own", depth)
    patched = CliRunner().invoke(main, ["apply", str(fork), "t-own", "--commit", "--patches", str(folder)])
    assert patched.exit_code == 0, patched.output
    add_patch(folder.parent, "t-own", depth, attribute(ABRUPT, "Worker", "own = 1"))
    done = checked(folder, "--on", fork, "--json")
    assert done.exit_code == 0, done.output
    (trial,) = json.loads(done.stdout)
    assert (trial["state"], trial["files"]) == ("partial", [ABRUPT])


def test_what_revert_does_not_restore_beside_committed_patches_is_reported(
    fork: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_patch(folder.parent, "t-own", rewriting("depth", MIRROR, "depth = 1", "depth = 2"))
    monkeypatch.setattr("patchkit.commands.test.revert", lambda *_: None)
    done = checked(folder, "--on", fork)
    assert done.exit_code == 1
    assert f"revert does not restore {MIRROR}" in done.stdout

"""Every command behaves the same wherever a repository has the package and whatever its name is."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from support.audited import HERE, prelude, sections
from support.releases import answer, run, states_in
from support.repositories import committing
from support.toys import MIRROR, SOURCES, add_patch, edit, git, rewriting, write_package

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

USER = "srt/managers/user.py"
USES = "from {name}.srt.managers.mirror import depth\n\nwidth = depth\n"
IMPORT = "from sglang.srt.managers.mirror import Mirror"
LAYOUTS = {
    "as upstream": "python/sglang",
    "renamed": "python/acme_sglang",
    "renamed at the top": "acme_sglang",
    "at the top": "sglang",
    "deep": "third_party/vendor/python/sglang",
    "deep and renamed": "third_party/vendor/acme_sglang",
}


def layouts(first: int) -> pytest.MarkDecorator:
    """Run a test with every layout, of which those but every second one, from ``first`` on, are a sweep."""
    places = [
        pytest.param(place, id=name, marks=() if number % 2 == first else pytest.mark.sweep)
        for number, (name, place) in enumerate(LAYOUTS.items())
    ]
    return pytest.mark.parametrize("place", places)


@pytest.fixture(autouse=True)
def _patches(patch_folder: Path) -> None:
    """The toys, one that imports by upstream's name, one that imports the runtime, and one that conflicts."""
    outer = f'{rewriting("outer", USER, "width = $x", "width = Mirror.copies")}\nimports = ["{IMPORT}"]'
    runtime = f"{rewriting('runtime', MIRROR, 'depth = 1', 'depth = patchkit_api.out_graph_draft_steps')}\n"
    runtime += 'imports = ["from patchkit.runtime import api_1 as patchkit_api"]'
    add_patch(patch_folder, "t-named", outer, runtime)
    copy = rewriting("copy", f"{MIRROR}::Mirror.host", "return self.copies.cpu()", "return None")
    add_patch(patch_folder, "t-copy", copy, default="false")


def fork_at(folder: Path, place: str) -> CheckoutTree:
    """Return a fork that has the package at a place, all committed, on a branch of its own."""
    name = place.rpartition("/")[2]
    package = write_package(folder / place, SOURCES | {USER: USES.format(name=name).encode()})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    tree = committing(open_tree(package))
    git(folder, "commit", "-qm", "As upstream has it")
    git(folder, "branch", "-M", "base")
    return tree


@pytest.fixture
def fork(tmp_path: Path, place: str) -> CheckoutTree:
    (tmp_path / "fork").mkdir()
    return fork_at(tmp_path / "fork", place)


def top(tree: CheckoutTree) -> Path:
    return type(tree.root)(git(tree.package, "rev-parse", "--show-toplevel").strip())


STATES = {
    "t-flag": "pending",
    "t-stop": "pending",
    "t-guard": "pending",
    "t-named": "pending",
    "t-copy": "conflict",
}
APPLIED = {name: state.replace("pending", "applied") for name, state in STATES.items()}


@layouts(0)
def test_status_diff_and_apply_recognise_the_package(fork: CheckoutTree) -> None:
    assert states_in(answer("status", fork.package)) == STATES
    assert answer("diff", fork.package)["conflicts"] == []
    run("apply", fork.package, "--commit")
    assert states_in(answer("status", fork.package)) == APPLIED
    assert git(top(fork), "status", "--porcelain") == ""
    assert f"from {fork.name}.srt.managers.mirror import" in (fork.package / USER).read_text()
    run("revert", fork.package)
    assert fork.read(MIRROR) == SOURCES[MIRROR]


@layouts(1)
def test_what_holds_the_package_may_be_named_in_its_place(fork: CheckoutTree) -> None:
    above = fork.package.parent
    named = [above.parent, above] if above.name == "python" else [above]
    for folder in named:
        assert states_in(answer("status", folder)) == STATES


@layouts(0)
def test_a_shallow_clone_gives_the_same_answer_or_names_what_is_missing(
    fork: CheckoutTree, place: str, tmp_path: Path
) -> None:
    run("apply", fork.package, "--commit")
    git(tmp_path, "clone", "-q", "--depth=1", top(fork).as_uri(), "shallow")
    package = tmp_path / "shallow" / place
    for words in (("status",), ("diff",), ("audit",)):
        here, there = (answer(*words, folder) for folder in (fork.package, package))
        for reply in (here, there):
            reply.pop("tree", None)
            reply.pop("seconds", None)
        assert here == there
    assert "git fetch --unshallow" in run("revert", package, code=3).stderr
    # What a patch adds needs nothing of what was there before.
    assert answer("apply", package)["changed_files"] == []


@layouts(1)
def test_the_matrix_sees_each_ref_and_verifies_it(fork: CheckoutTree) -> None:
    run("apply", fork.package, "--commit")
    deep = fork.package.is_relative_to(top(fork) / "third_party")
    for where in (fork.package, fork.package.parent if deep else top(fork)):
        rows = answer("matrix", where, "--refs", "HEAD", "HEAD~4", "--verify")["rows"]
        for row, states in zip(rows, (APPLIED, STATES), strict=True):
            assert {cell["patch"]: cell["state"] for cell in row["patches"]} == states
            assert row["verified"] == {"passed": True, "failed": []}


@layouts(0)
def test_a_series_is_exported_that_git_takes(fork: CheckoutTree, tmp_path: Path) -> None:
    series = tmp_path / "series"
    run("export", fork.package, "-o", series)
    git(tmp_path, "clone", "-q", top(fork).as_uri(), "other")
    other = committing(open_tree(tmp_path / "other" / fork.package.relative_to(top(fork))))
    git(top(other), "am", "-q", "--keep-cr", *map(str, sorted(series.glob("*.patch"))))
    run("apply", fork.package)
    for file in (MIRROR, USER):
        assert other.read(file) == fork.read(file)
    assert states_in(answer("status", other.package)) == APPLIED


@layouts(1)
def test_a_move_to_another_commit_is_foreseen_and_made(fork: CheckoutTree) -> None:
    git(top(fork), "switch", "-qc", "newer")
    edit(fork, MIRROR, b"copies = 0", b"pages = 1\n    copies = 0")
    git(top(fork), "commit", "-qam", "Newer")
    git(top(fork), "switch", "-q", "base")
    run("apply", fork.package, "--commit")
    moves = answer("rebase", fork.package, "--onto", "newer")["patches"]
    assert {move["id"]: (move["now"], move["then"]) for move in moves} == {
        name: (APPLIED[name], state) for name, state in STATES.items()
    }
    run("rebase", fork.package, "--onto", "newer", "--merge")
    assert states_in(answer("status", fork.package)) == APPLIED
    assert b"pages = 1" in (fork.read(MIRROR) or b"")


@layouts(0)
@pytest.mark.parametrize("way", ["diff", "commit"])
def test_a_drafted_patch_has_upstreams_package_name(fork: CheckoutTree, tmp_path: Path, way: str) -> None:
    edit(
        fork,
        USER,
        b"import depth\n",
        f"import depth\nfrom {fork.name}.srt.speculative.abrupt import Worker\n".encode(),
    )
    edit(fork, USER, b"width = depth", b"width = Worker.steps")
    diff = tmp_path / "change.diff"
    diff.write_text(git(top(fork), "diff"))
    source: tuple[object, ...] = ("--from-diff", diff)
    if way == "commit":
        git(top(fork), "commit", "-qam", "A fork's own")
        source = ("--from-commit", "HEAD")
    else:
        git(top(fork), "checkout", "-q", ".")
    folder = tmp_path / "own" / "x-own"
    assert answer("new", "x-own", *source, "--on", fork.package, "-o", folder)["exact"]
    text = (folder / "change.diff").read_text()
    assert "from sglang.srt.speculative.abrupt import Worker" in text
    assert "acme" not in text


@layouts(1)
def test_a_patch_is_tested_on_a_copy(fork: CheckoutTree, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    add_patch(
        folder,
        "x-own",
        f'{rewriting("outer", USER, "width = $x", "width = Mirror.copies")}\nimports = ["{IMPORT}"]',
    )
    (trial,) = answer("test", folder / "x-own", "--on", fork.package)
    assert (trial["state"], trial["problems"]) == ("pending", [])
    assert states_in(answer("status", fork.package)) == STATES


@layouts(0)
def test_what_a_person_made_is_resolved(fork: CheckoutTree) -> None:
    run("apply", fork.package, "t-copy", "--markers", code=1)
    text = (fork.package / MIRROR).read_text()
    made = re.sub(r"<<<<<<< .*?>>>>>>> [^\n]*\n", "        return None\n", text, flags=re.DOTALL)
    (fork.package / MIRROR).write_text(made)
    run("resolve", fork.package, "t-copy", "copy")
    assert states_in(answer("status", fork.package))["t-copy"] == "applied"
    run("revert", fork.package)
    assert fork.read(MIRROR) == SOURCES[MIRROR]


@layouts(1)
def test_it_is_audited_alike(fork: CheckoutTree, tmp_path: Path) -> None:
    files = prelude() | sections(
        (HERE / "corpus/breaks/helper_of_two_callers_is_handed_the_sum_by_none.py").read_text()
    )

    def findings(tree: CheckoutTree) -> object:
        for file, text in files.items():
            path = tree.package / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(re.sub(r"\bsglang\b", tree.name, text))
        return answer("audit", tree.package, code=1)["findings"]

    (tmp_path / "other").mkdir()
    assert findings(fork) == findings(fork_at(tmp_path / "other", "python/sglang"))


def test_two_packages_in_one_folder_are_distinguished_or_refused(tmp_path: Path) -> None:
    tree = fork_at(tmp_path, "python/acme_sglang")
    shutil.copytree(tree.package, tree.package.parent / "acme_other")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Two")
    refused = run("status", tmp_path, code=4).stderr
    assert "acme_other" in refused
    assert "acme_sglang\nhelp: name one of them\n" in refused
    (row,) = answer("matrix", tmp_path, "--refs", "HEAD", code=1)["rows"]
    assert "name one of them" in row["error"]
    assert states_in(answer("status", tree.package)) == STATES
    moves = answer("rebase", tree.package, "--onto", "HEAD")["patches"]
    assert {move["then"] for move in moves} == {"pending", "conflict"}


def test_a_ref_from_before_the_package_got_its_name_is_known_by_upstream_s(tmp_path: Path) -> None:
    fork_at(tmp_path, "python/sglang")
    git(tmp_path, "mv", "python/sglang", "python/acme_sglang")
    renamed = open_tree(tmp_path / "python" / "acme_sglang")
    (renamed.package / USER).write_text(USES.format(name="acme_sglang"))
    git(tmp_path, "commit", "-qam", "Under a name of its own")
    moves = answer("rebase", renamed.package, "--onto", "HEAD~1")["patches"]
    assert {move["id"]: move["then"] for move in moves} == STATES


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "fork").mkdir()
    (tmp_path / "above").mkdir()
    fork = fork_at(tmp_path / "fork", "python/acme_sglang")
    above = tmp_path / "above"
    git(above, "init", "-q")
    git(
        above,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        top(fork).as_uri(),
        "deps/fork",
    )
    git(above, "commit", "-qm", "A submodule")
    tree = committing(open_tree(above / "deps" / "fork"))
    run("apply", tree.root, "--commit")
    assert states_in(answer("status", tree.root)) == APPLIED
    rows = answer("matrix", tree.root, "--refs", "HEAD")["rows"]
    assert {cell["patch"]: cell["state"] for cell in rows[0]["patches"]} == APPLIED
    run("revert", tree.root)
    assert tree.read(MIRROR) == SOURCES[MIRROR]


def test_a_package_may_be_a_repository_of_its_own(tmp_path: Path) -> None:
    package = write_package(tmp_path / "sglang", SOURCES | {USER: USES.format(name="sglang").encode()})
    git(package, "init", "-q")
    git(package, "add", ".")
    tree = committing(open_tree(package))
    git(package, "commit", "-qm", "As upstream has it")
    run("export", package, "-o", tmp_path / "series")
    (first, *_) = sorted((tmp_path / "series").glob("*.patch"))
    assert f"+++ b/{MIRROR}" in first.read_text()
    run("apply", package, "--commit")
    assert states_in(answer("status", package)) == APPLIED
    moves = answer("rebase", package, "--onto", "HEAD~4")["patches"]
    assert {move["id"]: move["then"] for move in moves} == STATES
    run("revert", package)
    assert tree.read(MIRROR) == SOURCES[MIRROR]

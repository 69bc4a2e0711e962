"""A commit gives the same answers in the patched checkout and in any clone, whatever git did in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from support.repositories import clone, committing, copied
from support.sweeps import crossed
from support.toys import (
    CRLF,
    MIRROR,
    SOURCES,
    add_patch,
    add_toys,
    attribute,
    checked_in,
    contents,
    edit,
    few_runtime_files,
    git,
    rewriting,
    statement,
)

from patchkit import api
from patchkit.errors import ConflictError, PatchkitError
from patchkit.findings.finding import Confidence
from patchkit.patchset.load import patches as load
from patchkit.plan.status import State
from patchkit.tree.tree import open_tree
from patchkit.verify.result import CheckState
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("cached_git")


@pytest.fixture
def patches(patch_folder: Path) -> PatchSet:
    """The toys, and one that makes the same of whatever number stands there."""
    add_patch(
        patch_folder, "t-none", rewriting("none", f"{MIRROR}::Mirror", "copies = $value", "copies = None")
    )
    return load()


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A checkout in which git knows who commits."""
    return on_base(checkout)


def on_base(tree: CheckoutTree) -> CheckoutTree:
    git(committing(tree).root, "branch", "-M", "base")
    return tree


def commit(tree: CheckoutTree, why: str = "A change") -> None:
    git(tree.root, "add", "--all", ".")
    git(tree.root, "commit", "-qm", why)


def in_place(tree: CheckoutTree, patches: PatchSet) -> set[str]:
    return {status.patch.id for status in api.status(tree, patches) if status.state is State.APPLIED}


def failed(tree: CheckoutTree, patches: PatchSet) -> list[str]:
    results = api.verify(tree, patches, Criteria(Confidence.LIKELY)).results
    return [result.check for result in results if result.outcome is CheckState.FAILED]


def patched_on(tree: CheckoutTree, branch: str, patches: PatchSet, *ids: str) -> dict[str, bytes | None]:
    git(tree.root, "switch", "-qc", branch, "base")
    api.commit(tree, patches, ids)
    return contents(tree)


def test_revert_that_git_undid_comes_again_and_takes_all(fork: CheckoutTree, patches: PatchSet) -> None:
    before = contents(fork)
    api.commit(fork, patches, ("t-flag", "t-guard"))
    patched = contents(fork)
    api.revert(fork, patches)
    git(fork.root, "checkout", "-q", ".")
    assert contents(fork) == patched
    assert failed(fork, patches) == []
    assert api.revert(fork, patches).patches == ("t-flag", "t-guard")
    assert contents(fork) == before


def test_each_of_two_branches_with_other_patches_verifies_and_reverts(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    before = contents(fork)
    patched_on(fork, "one", patches, "t-flag")
    patched_on(fork, "two", patches, "t-guard", "t-stop")
    for branch, ids in (("one", {"t-flag"}), ("two", {"t-flag", "t-guard", "t-stop"}), ("one", {"t-flag"})):
        git(fork.root, "switch", "-q", branch)
        assert in_place(fork, patches) == ids
        assert failed(fork, patches) == []
        assert set(api.revert(fork, patches).patches) == ids
        assert contents(fork) == before
        git(fork.root, "checkout", "-q", ".")


def test_patches_of_two_branches_that_git_merged_all_go(fork: CheckoutTree, tmp_path: Path) -> None:
    edit(fork, MIRROR, b"    def host", b"    one = 1\n\n    two = 2\n\n    three = 3\n\n    def host")
    add_patch(
        tmp_path / "more", "x-none", rewriting("none", f"{MIRROR}::Mirror", "copies = 0", "copies = None")
    )
    add_patch(tmp_path / "more", "x-depth", rewriting("depth", MIRROR, "depth = 1", "depth = 2"))
    patches = load([tmp_path / "more"])
    commit(fork)
    before = contents(fork)
    patched_on(fork, "one", patches, "x-none")
    patched_on(fork, "two", patches, "x-depth")
    git(fork.root, "merge", "-q", "--no-edit", "one")
    for tree in (clone(fork, tmp_path), fork):
        assert in_place(tree, patches) == {"x-none", "x-depth"}
        assert set(api.revert(tree, patches).patches) == {"x-none", "x-depth"}
        assert contents(tree) == before


@pytest.mark.parametrize("edited", [False, True])
def test_verify_gives_the_same_answer_in_a_clone(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, edited: bool
) -> None:
    api.commit(fork, patches, ("t-flag",))
    if edited:
        edit(fork, MIRROR, b"depth = 1", b"depth = 1\nmine = 1")
        commit(fork)
    verdicts = [api.verify(t, patches, Criteria(Confidence.LIKELY)) for t in (fork, clone(fork, tmp_path))]
    here, there = ([(r.check, r.outcome, r.summary, r.findings) for r in v.results] for v in verdicts)
    assert here == there
    assert failed(fork, patches) == []


def test_record_of_another_branch_with_the_same_bytes_is_not_taken_for_this_one(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    """Both branches have the same patched file, and had other numbers before."""
    one = patched_on(fork, "one", patches, "t-none")
    git(fork.root, "switch", "-qc", "two", "base")
    edit(fork, MIRROR, b"copies = 0", b"copies = 5")
    commit(fork)
    before = contents(fork)
    for file, text in one.items():
        (fork.package / file).write_bytes(text or b"")
    commit(fork, "Patched elsewhere")
    api.revert(fork, patches)
    assert contents(fork) == before


def test_patched_file_that_git_moved_is_reverted_in_its_new_place(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = fork.read(MIRROR)
    api.commit(fork, patches, ("t-guard",))
    moved = "srt/managers/moved.py"
    git(fork.package, "mv", MIRROR, moved)
    commit(fork, "Move it")
    for tree in (clone(fork, tmp_path), fork):
        assert api.revert(tree, patches).files == (moved,)
        assert tree.read(moved) == before


def test_file_that_was_moved_and_patched_in_one_commit_is_reverted(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = fork.read(MIRROR)
    moved = "srt/managers/moved.py"
    git(fork.package, "mv", MIRROR, moved)
    api.apply(fork, patches, ("t-guard", "t-none"), allow_dirty=True)
    commit(fork, "Move and patch it")
    for tree in (clone(fork, tmp_path), fork):
        api.revert(tree, patches)
        assert tree.read(moved) == before


def test_small_file_that_was_moved_and_grew_and_was_patched_in_one_commit_is_reverted(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    own = b"".join(b"\n\nclass Own_%d:\n    mine = %d\n" % (number, number) for number in range(20))
    moved = fork.package / "srt/managers/moved.py"
    (fork.package / MIRROR).rename(moved)
    moved.write_bytes(moved.read_bytes() + own)
    before = moved.read_bytes()
    api.apply(fork, patches, ("t-flag",), allow_dirty=True)
    moved.write_bytes(moved.read_bytes() + b"\n\nclass Last:\n    mine = 1\n")
    commit(fork, "Move, extend and patch")
    for tree in (clone(fork, tmp_path), fork):
        assert api.revert(tree, patches).patches == ("t-flag",)
        assert tree.read("srt/managers/moved.py") == before + b"\n\nclass Last:\n    mine = 1\n"


UPSTREAMS = b"    flag = False\r\n    needs_device = True\r\n"
"""Half of t-flag, as upstream has it."""


@pytest.mark.parametrize("edited", [False, True])
def test_patch_of_which_the_base_has_a_half_in_another_file_verifies_and_reverts_in_a_clone(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, edited: bool
) -> None:
    edit(fork, CRLF, b"    flag = False\r\n", UPSTREAMS)
    commit(fork, "As upstream has it")
    before = contents(fork)
    api.commit(fork, patches, ("t-flag",))
    there = clone(fork, tmp_path)
    for tree in (there, fork):
        if edited:
            edit(tree, CRLF, b"stride = 1", b"stride = 2")
        assert failed(tree, patches) == []
        assert api.revert(tree, patches).patches == ("t-flag",)
        mine = {CRLF: (before[CRLF] or b"").replace(b"stride = 1", b"stride = 2")} if edited else {}
        assert contents(tree) == before | mine


def test_revert_without_an_object_of_git_says_what_helps(fork: CheckoutTree, patches: PatchSet) -> None:
    blob = git(fork.package, "rev-parse", f"HEAD:./{MIRROR}").strip()
    api.commit(fork, patches, ("t-flag",))
    shutil.rmtree(fork.package / ".patchkit", ignore_errors=True)
    (fork.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ConflictError, match="git fsck") as caught:
        api.revert(fork, patches)
    assert "--allow-dirty" not in str(caught.value)


def test_patch_whose_comments_went_with_a_move_of_the_file_is_not_its_original(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    api.commit(fork, patches, ("t-flag",))
    text = b"".join(
        line for line in (fork.read(CRLF) or b"").splitlines(keepends=True) if b"patchkit" not in line
    )
    moved = "srt/layers/attention/moved.py"
    git(fork.package, "mv", CRLF, moved)
    (fork.package / moved).write_bytes(text)
    commit(fork, "Move and tidy it")
    for tree in (clone(fork, tmp_path), fork):
        api.revert(tree, patches)
        assert tree.read(MIRROR) == before[MIRROR]
        assert tree.read(moved) == before[CRLF]


@pytest.mark.parametrize("ids", [("t-flag", "t-guard"), ("t-guard", "t-flag")])
def test_patches_of_one_place_that_came_one_by_one_around_an_edit_are_reverted_in_a_clone(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, ids: tuple[str, str]
) -> None:
    edited = contents(fork) | {MIRROR: (fork.read(MIRROR) or b"") + b"mine = 1\n"}
    api.apply(fork, patches, ids[:1])
    edit(fork, MIRROR, b"depth = 1\n", b"depth = 1\nmine = 1\n")
    api.apply(fork, patches, ids[1:], allow_dirty=True)
    commit(fork)
    there = clone(fork, tmp_path)
    for tree in (fork, there):
        api.revert(tree, patches)
        assert contents(tree) == edited


FLAG, LIMIT = attribute(MIRROR, "Mirror", "flag = 1"), attribute(MIRROR, "Mirror", "limit = 1")
NONE = rewriting("none", f"{MIRROR}::Mirror", "copies = $value", "copies = None")


@pytest.mark.parametrize(
    ("line", "edits", "committed"),
    crossed(
        (b"class Mirror:\n", b"flag = 1\n", b"copies = None\n", b"    def host(self):\n"),
        ((FLAG, LIMIT), (NONE, FLAG), (FLAG, NONE), (NONE, FLAG, LIMIT)),
        (False, True),
        one_in=2,
    ),
)
def test_patches_of_one_place_with_a_line_of_a_person_between_them_are_reverted_in_a_clone(
    fork: CheckoutTree, tmp_path: Path, edits: tuple[str, ...], line: bytes, committed: bool
) -> None:
    ids = [f"x-{number}" for number in range(len(edits))]
    for name, made in zip(ids, edits, strict=True):
        add_patch(tmp_path / "own", name, made)
    patches = load([tmp_path / "own"])
    for name in ids:
        api.apply(fork, patches, (name,), allow_dirty=True)
        text = fork.read(MIRROR) or b""
        if b"mine" not in text and line in text:
            edit(fork, MIRROR, line, line + (b"        mine = 1\n" if b"def" in line else b"    mine = 1\n"))
        if committed:
            commit(fork)
    if not committed:
        commit(fork)
    own = [line for line in (fork.read(MIRROR) or b"").splitlines() if b"mine" in line]
    there = clone(fork, tmp_path)
    for tree in (fork, there):
        assert set(api.revert(tree, patches).patches) == {*ids}
    assert fork.read(MIRROR) == there.read(MIRROR)
    left = (there.read(MIRROR) or b"").splitlines(keepends=True)
    assert [each.rstrip() for each in left if b"mine" in each] == own
    # A blank line that a patch put below its code stays below the person's.
    assert [each for each in left if each.strip() and b"mine" not in each] == [
        line for line in SOURCES[MIRROR].splitlines(keepends=True) if line.strip()
    ]


@pytest.mark.parametrize("ids", list(permutations(["x-0", "x-1", "x-2"])))
def test_patches_that_stand_within_each_others_code_are_reverted_alike_in_whatever_order_they_came(
    fork: CheckoutTree, tmp_path: Path, ids: tuple[str, ...]
) -> None:
    made = (
        rewriting("two", MIRROR, "depth = 1", "depth = low\nhigh = 3"),
        statement("insert-before", "above", MIRROR, "depth = $value", "above = 1"),
        statement("insert-after", "below", MIRROR, "depth = $value", "below = 1"),
    )
    for name, text in zip(sorted(ids), made, strict=True):
        add_patch(tmp_path / "own", name, text)
    patches = load([tmp_path / "own"])
    for name in ids:
        api.apply(fork, patches, (name,))
        commit(fork)
    edit(fork, MIRROR, b"depth = low\n", b"depth = low\n# mine\nmine = 1\n")
    commit(fork)
    answers = []
    for tree in (fork, clone(fork, tmp_path)):
        try:
            api.revert(tree, patches)
        except ConflictError as error:
            answers.append((str(error), contents(tree)))
        else:
            answers.append(("", contents(tree)))
    assert answers[0] == answers[1]


def test_newer_base_that_was_merged_stays(fork: CheckoutTree, patches: PatchSet, tmp_path: Path) -> None:
    patched_on(fork, "mine", patches, "t-flag", "t-guard")
    git(fork.root, "switch", "-q", "base")
    edit(fork, MIRROR, b"depth = 1", b"depth = 1\nnewer = 1")
    commit(fork)
    base = contents(fork)
    git(fork.root, "switch", "-q", "mine")
    git(fork.root, "merge", "-q", "--no-edit", "base")
    assert failed(fork, patches) == []
    for tree in (clone(fork, tmp_path), fork):
        api.revert(tree, patches)
        assert contents(tree) == base


def test_patch_that_is_not_at_hand_beside_others_is_reverted_by_the_record_or_named_without_one(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    add_patch(tmp_path / "own", "x-own", attribute(MIRROR, "Mirror", "own = 1"))
    without = contents(fork)
    api.commit(fork, load([tmp_path / "own"]), ("t-flag", "x-own"))
    edit(fork, MIRROR, b"depth = 1", b"depth = 1\nmine = 1")
    commit(fork)
    fresh = clone(fork, tmp_path)
    edited = (without[MIRROR] or b"").replace(b"depth = 1", b"depth = 1\nmine = 1")
    assert set(api.revert(fresh, patches).patches) == {"t-flag", "x-own"}
    assert contents(fresh) == without | {MIRROR: edited}
    git(fresh.root, "checkout", "-q", ".")
    assert api.revert(fresh, patches, ("t-flag",)).patches == ("t-flag",)
    assert in_place(fresh, load([tmp_path / "own"])) == {"x-own"}
    git(fresh.root, "checkout", "-q", ".")
    git(fresh.root, "rm", "-rq", "patchkit.lock")
    commit(fresh)
    before = contents(fresh)
    with pytest.raises(ConflictError, match=r"x-own: in the code, but not loaded: .*--patches DIR"):
        api.revert(fresh, patches)
    assert contents(fresh) == before


def test_what_a_full_clone_would_write_comes_in_the_order_of_a_shallow_one(
    fork: CheckoutTree, tmp_path: Path, patch_folder: Path
) -> None:
    both = attribute(MIRROR, "Mirror", "first = 1"), attribute(CRLF, "Backend", "other = 1")
    add_patch(patch_folder, "u-both", *both)
    add_patch(patch_folder, "u-later", attribute(MIRROR, "Mirror", "later = 1"))
    patches = load()
    api.commit(fork, patches, ("u-both", "u-later"))
    api.revert(fork, patches, ("u-both",))
    commit(fork)
    planned = []
    for name, options in (("full", ()), ("shallow", ("--depth", "1"))):
        (tmp_path / name).mkdir()
        tree = clone(fork, tmp_path / name, *options)
        planned.append([change.file for change in api.diff(tree, patches, ("u-both",)).changes])
    assert planned == [[MIRROR, CRLF]] * 2


# ---- whatever was done, and whatever git did then, a clone says the same ---------------------------------------

COPY = rewriting(
    "copy",
    f"{MIRROR}::Mirror.host",
    "return self.copies.cpu()",
    "return self.copies.cpu() if self.sure else None",
)
DONE = b"        return self.copies.cpu() if self.sure else None\n"
OWN = b"        return self.copies.own()\n"


def written(tree: CheckoutTree, lines: bytes) -> None:
    """Write what a person makes of the conflict."""
    path = tree.package / MIRROR
    head, _, rest = path.read_bytes().partition(b"<<<<<<<")
    path.write_bytes(head + lines + rest.partition(b">>>>>>>")[2].partition(b"\n")[2])


def resolved(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("t-copy", "t-stop"), markers=True)
    written(tree, DONE)
    api.resolve(tree, patches, "t-copy", "copy")


def accepted(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("t-copy", "t-stop"), markers=True)
    written(tree, OWN)
    api.resolve(tree, patches, "t-copy", "copy", accept=True)


def given_up(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("t-copy", "t-stop"), markers=True)
    api.give_up(tree, patches, "t-copy", "copy")


def marked(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("t-copy", "t-stop"), markers=True)


def made_without_markers(tree: CheckoutTree, patches: PatchSet) -> None:
    edit(tree, MIRROR, b"        return self.copies\n", DONE)
    api.resolve(tree, patches, "t-copy", "copy")
    api.apply(tree, patches, ("t-stop",), allow_dirty=True)


def chosen(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("t-chosen", "t-stop"))


def vendored(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("t-runtime", "t-stop"), runtime="vendored")


def own(tree: CheckoutTree, patches: PatchSet) -> None:
    api.apply(tree, patches, ("x-own", "t-guard", "t-stop"))


Way = Callable[["CheckoutTree", "PatchSet"], None]
WAYS: tuple[Way, ...] = (resolved, accepted, given_up, marked, made_without_markers, chosen, vendored, own)


@pytest.fixture(scope="module")
def all_patches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PatchSet]:
    """The toys, one that conflicts, one that is off, one that imports the runtime, and one of a folder of its own."""
    place = tmp_path_factory.mktemp("patches")
    toys = place / "toys"
    add_toys(toys)
    add_patch(toys, "t-copy", attribute(MIRROR, "Mirror", "sure = True"), COPY)
    add_patch(toys, "t-chosen", attribute(MIRROR, "Mirror", "chosen = 1"), default="false")
    runtime = f"{rewriting('runtime', MIRROR, 'depth = 1', 'depth = patchkit_api.out_graph_draft_steps')}\n"
    runtime += 'imports = ["from patchkit.runtime import api_1 as patchkit_api"]'
    add_patch(toys, "t-runtime", runtime, default="false")
    add_patch(place / "own", "x-own", attribute(MIRROR, "Mirror", "own = 1"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("patchkit.patchset.load.BUILT_IN", toys)
        files = few_runtime_files()
        patched.setattr("patchkit.plan.vendor.runtime_files", lambda: files)
        yield load([place / "own"])


def outcome_of(act: Callable[[], object], tree: CheckoutTree) -> object:
    """Return what an act answers, or in which sentence it refuses; where the tree lies is left out."""
    try:
        return act()
    except PatchkitError as error:
        return type(error), str(error).replace(str(tree.root), "").replace(str(tree.package), "")


def answers(tree: CheckoutTree, patches: PatchSet) -> dict[str, Any]:
    """Return what the commands that only look say, and what revert leaves in a copy."""

    def reverted() -> object:
        copy = open_tree(shutil.copytree(tree.root, tree.root.parent / "copy"))
        try:
            outcome = outcome_of(lambda: api.revert(copy, patches), copy)
            return outcome, {file: copy.read(file) for file in copy.files("", "") if ".patchkit/" not in file}
        finally:
            shutil.rmtree(copy.root)

    terms = Criteria(Confidence.LIKELY)
    looks: dict[str, Callable[[], object]] = {
        "status": lambda: [(s.patch.id, s.state, s.edits, s.reason) for s in api.status(tree, patches)],
        "diff": lambda: [(c.file, c.after) for c in api.diff(tree, patches).changes],
        "verify": lambda: [
            (r.check, r.outcome, r.summary, r.findings) for r in api.verify(tree, patches, terms).results
        ],
        "audit": lambda: api.audit(tree).findings,
        "report": lambda: api.report(tree, patches),
        "revert": reverted,
    }
    return {name: outcome_of(look, tree) for name, look in looks.items()}


def mine(tree: CheckoutTree) -> None:
    edit(tree, CRLF, b"stride = 1\r\n", b"stride = 1\r\n    mine = 1\r\n")


def checked_out(tree: CheckoutTree) -> None:
    mine(tree)
    git(tree.root, "checkout", "-q", ".")


def switched(tree: CheckoutTree) -> None:
    git(tree.root, "switch", "-q", "base")
    git(tree.root, "switch", "-q", "mine")


def stashed(tree: CheckoutTree) -> None:
    mine(tree)
    git(tree.root, "stash", "-q")


def amended(tree: CheckoutTree) -> None:
    mine(tree)
    git(tree.root, "commit", "-q", "--amend", "--no-edit", "-a")


def rebased(tree: CheckoutTree) -> None:
    git(tree.root, "rebase", "-q", "newer")


def merged(tree: CheckoutTree) -> None:
    git(tree.root, "merge", "-q", "--no-edit", "other")


def picked(tree: CheckoutTree) -> None:
    git(tree.root, "switch", "-qc", "picked", "newer")
    git(tree.root, "cherry-pick", "mine")
    git(tree.root, "branch", "-M", "picked", "mine")


def undone_and_back(tree: CheckoutTree) -> None:
    git(tree.root, "revert", "--no-edit", "HEAD")
    git(tree.root, "revert", "--no-edit", "HEAD")


ACTS = (checked_out, switched, stashed, amended, picked, rebased, undone_and_back, merged)


@pytest.fixture(scope="module")
def patched(
    tmp_path_factory: pytest.TempPathFactory, all_patches: PatchSet
) -> Callable[[Way, Path], CheckoutTree]:
    """Return a function that copies a fork, patched in some way, that has two branches beside the one patched."""
    place = tmp_path_factory.mktemp("patched")

    @cache
    def branches() -> CheckoutTree:
        fork = on_base(checked_in(place / "fork"))
        for branch, code in (("newer", "newer = 1"), ("other", "other = 1")):
            git(fork.root, "switch", "-qc", branch, "base")
            (fork.package / "srt" / f"{branch}.py").write_text(f"{code}\n")
            commit(fork)
        git(fork.root, "switch", "-qc", "mine", "base")
        return fork

    @cache
    def made(way: Way) -> CheckoutTree:
        tree = copied(branches(), place / way.__name__)
        way(tree, all_patches)
        commit(tree)
        return tree

    return lambda way, folder: copied(made(way), folder / "fork")


@pytest.mark.parametrize(("way", "act"), crossed(WAYS, ACTS, one_in=4))
def test_a_clone_says_what_the_checkout_says(
    patched: Callable[[Way, Path], CheckoutTree],
    all_patches: PatchSet,
    tmp_path: Path,
    way: Way,
    act: Callable[[CheckoutTree], None],
) -> None:
    tree = patched(way, tmp_path)
    act(tree)
    here, there = (answers(each, all_patches) for each in (tree, clone(tree, tmp_path)))
    # Which lines are a person's resolution, and not their own beside it, is in no commit.
    if "made by hand, and no record has" in str(there["revert"]):
        del here["revert"], there["revert"]
    assert here == there


@pytest.mark.parametrize("way", WAYS)
def test_a_shallow_clone_gives_the_same_answer_or_names_what_is_missing(
    patched: Callable[[Way, Path], CheckoutTree], all_patches: PatchSet, tmp_path: Path, way: Way
) -> None:
    tree = patched(way, tmp_path)
    shallow = clone(tree, tmp_path, "--depth=1")
    here, there = (answers(each, all_patches) for each in (tree, shallow))
    # What was changed in a patch's code is not known without the code from before it.
    for each in (here, there):
        each["status"] = [
            (name, state, [replace(edit, difference="") for edit in edits], reason)
            for name, state, edits, reason in each["status"]
        ]
    assert {name: there[name] for name in ("status", "diff", "audit")} == {
        name: here[name] for name in ("status", "diff", "audit")
    }
    for name in ("verify", "revert"):
        assert there[name] == here[name] or "git fetch --unshallow" in str(there[name])

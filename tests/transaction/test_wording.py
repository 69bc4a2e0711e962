"""A tree to which patches with differently worded comments were applied."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.releases import PATCHES
from support.repositories import committed
from support.sweeps import swept
from support.toys import (
    ABRUPT,
    APPLIED,
    COPIES,
    CRLF,
    DEPTH,
    GUARD,
    MIRROR,
    SOURCES,
    STRIDE,
    TOYS,
    apply,
    contents,
    edit,
    everything,
    git,
    planner_of,
    revert_patches,
    rewriting,
    statement,
    toy,
)

from patchkit import api
from patchkit.errors import ConflictError
from patchkit.findings.finding import Confidence
from patchkit.patchset import load
from patchkit.patchset.select import PatchSet
from patchkit.plan.status import State
from patchkit.transaction.revert import revert
from patchkit.transaction.wording import with_wording_of
from patchkit.tree.tree import open_tree
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from pathlib import Path

    from support.releases import Releases

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree

TWICE = toy(
    "twice",
    rewriting("first", f"{MIRROR}::Mirror", "copies = 0", "copies = 1"),
    statement("insert-after", "second", MIRROR, "depth = 1", "last()"),
)
THRICE = toy(
    "thrice",
    statement("insert-before", "above", MIRROR, "depth = $value", "before()"),
    statement("insert-before", "inside", f"{MIRROR}::Mirror.host", "return $value", "inside()"),
    rewriting("steps", f"{ABRUPT}::Worker", "steps = 3", "steps = 5"),
)


FEW = load.patches().select(("27998", "28465", "28496", "28397", "28633"))


def formerly(*patches: Patch) -> tuple[Patch, ...]:
    """Return the patches with other words in each comment."""
    return tuple(
        msgspec.structs.replace(
            patch,
            edits=tuple(
                msgspec.structs.replace(each, why=f"formerly {each.name}: of {number}")
                for number, each in enumerate(patch.edits)
            ),
        )
        for patch in patches
    )


def in_clone(checkout: CheckoutTree, folder: Path) -> CheckoutTree:
    """Return a clone of a checkout, which is committed for it; a clone has no ledger."""
    git(checkout.root, "commit", "-qam", "Patched")
    git(folder, "clone", "-q", str(checkout.root), "clone")
    return open_tree(folder / "clone")


@pytest.fixture(params=["ledger", "committed", "clone"])
def reworded(request: pytest.FixtureRequest, checkout: CheckoutTree, tmp_path: Path) -> CheckoutTree:
    """A checkout with all toys, applied while their comments said something else."""
    apply(checkout, *formerly(*TOYS))
    if request.param == "clone":
        return in_clone(checkout, tmp_path)
    if request.param == "committed":
        git(checkout.root, "commit", "-qam", "Patched")
    return checkout


def test_all_patches_leave_no_byte_of_theirs(reworded: CheckoutTree) -> None:
    revert_patches(reworded)
    assert contents(reworded) == {file: SOURCES[file] for file in APPLIED}


@pytest.mark.parametrize("reverted", [(DEPTH,), (GUARD,), (STRIDE,), (COPIES, STRIDE), (DEPTH, STRIDE)])
def test_some_leave_the_others_as_they_were_applied(
    reworded: CheckoutTree, reverted: tuple[Patch, ...], tmp_path: Path
) -> None:
    revert_patches(reworded, *reverted)
    names = {patch.id for patch in reverted}
    alone = tmp_path / "alone"
    shutil.copytree(reworded.package, alone / "sglang", ignore=shutil.ignore_patterns(".patchkit"))
    for file, text in SOURCES.items():
        (alone / "sglang" / file).write_bytes(text)
    staying = [patch for patch in TOYS if patch.id not in names]
    apply(open_tree(alone), *formerly(*staying))
    assert contents(reworded) == contents(open_tree(alone))
    revert_patches(reworded)
    assert contents(reworded) == {file: SOURCES[file] for file in APPLIED}


def test_they_go_one_by_one(reworded: CheckoutTree) -> None:
    for patch in (DEPTH, STRIDE, GUARD, COPIES):
        assert revert_patches(reworded, patch).patches == (patch.id,)
        assert b"patchkit %s:" % patch.id.encode() not in b"".join(
            t or b"" for t in contents(reworded).values()
        )
    assert contents(reworded) == {file: SOURCES[file] for file in APPLIED}


def test_comments_and_edits_of_a_person_stay(reworded: CheckoutTree) -> None:
    edit(reworded, MIRROR, b"    def host", b"    # ours, see patchkit's page\n    def host")
    edit(reworded, CRLF, b"class Backend", b"more = 1\r\nclass Backend")
    revert_patches(reworded, DEPTH)
    revert_patches(reworded)
    assert contents(reworded) == {
        ABRUPT: SOURCES[ABRUPT],
        MIRROR: SOURCES[MIRROR].replace(b"    def host", b"    # ours, see patchkit's page\n    def host"),
        CRLF: SOURCES[CRLF].replace(b"class Backend", b"more = 1\r\nclass Backend"),
    }


def test_status_is_that_of_the_patches(reworded: CheckoutTree) -> None:
    assert {s.state for s in planner_of(reworded).statuses(TOYS)} == {State.APPLIED}


def test_other_code_is_refused_beside_other_words(tree: CheckoutTree) -> None:
    apply(tree, *formerly(*TOYS))
    copies = toy("copies", rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = 7"))
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"loaded patches differ .* use the version of patchkit that"):
        revert(tree, frozenset({"depth"}), planner_of(tree, (copies, DEPTH, GUARD, STRIDE)))
    assert everything(tree.root) == before


@pytest.mark.parametrize("reverted", [None, frozenset({"depth"})])
def test_other_code_of_a_patch_is_refused_in_a_clone_with_what_to_do(
    checkout: CheckoutTree, tmp_path: Path, reverted: frozenset[str] | None
) -> None:
    apply(checkout, *formerly(*TOYS))
    clone = in_clone(checkout, tmp_path)
    depth = toy("depth", rewriting("depth", MIRROR, "depth = 1", "depth = 7\nheight = 3"))
    before = everything(clone.root)
    with pytest.raises(ConflictError, match=r"use the version of patchkit that applied"):
        revert(clone, reverted, planner_of(clone, (COPIES, depth, GUARD, STRIDE)))
    assert everything(clone.root) == before


def test_comment_that_a_person_reworded_is_named_by_its_line_where_no_git_is(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"# patchkit depth: toy", b"# patchkit depth: toy indeed")
    line = (tree.read(MIRROR) or b"").splitlines().index(b"# patchkit depth: toy indeed") + 1
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=rf"mirror\.py:{line}: a comment of depth would be left"):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_patch_applied_later_goes_and_leaves_the_former_words(reworded: CheckoutTree) -> None:
    before = contents(reworded)
    apply(reworded, *TOYS, THRICE, allow_dirty=True)
    assert contents(reworded) != before
    patches = planner_of(reworded, (*TOYS, THRICE))
    revert(reworded, frozenset({"thrice"}), patches)
    assert contents(reworded) == before
    revert(reworded, None, patches)
    assert contents(reworded) == {file: SOURCES[file] for file in APPLIED}


def test_several_comments_of_a_patch_keep_their_own_words(checkout: CheckoutTree) -> None:
    patches = (TWICE, THRICE)
    apply(checkout, *formerly(THRICE))
    alone = contents(checkout)
    take_back_all = planner_of(checkout, patches)
    revert(checkout, None, take_back_all)
    apply(checkout, *formerly(*patches))
    revert(checkout, frozenset({"twice"}), take_back_all)
    assert contents(checkout) == alone


def test_comments_that_were_one_and_are_two_are_the_same_comments() -> None:
    one = b"a\n# patchkit b: x\nc\nd\n"
    two = b"a\n# patchkit b: y\n# patchkit b: z\nc\ne\n"
    assert with_wording_of(one, two) == b"a\n# patchkit b: x\nc\ne\n"
    assert with_wording_of(two, one) == b"a\n# patchkit b: y\n# patchkit b: z\nc\nd\n"


def test_comments_of_a_long_file_are_the_same_between_lines_that_a_person_changed() -> None:
    mine, other, made = (
        b"".join(b"%s%d\n# patchkit b: %s\n" % (name, number, words) for number in range(100))
        for name, words in ((b"mine", b"x"), (b"other", b"y"), (b"mine", b"y"))
    )
    assert with_wording_of(other, mine) == made


def test_comment_of_an_edit_made_by_hand_is_no_wording() -> None:
    noted, text = b"# patchkit b: by hand: edit\nc\n", b"# patchkit b: x\nc\n"
    assert with_wording_of(noted, text) == text
    assert with_wording_of(text, noted) == noted


@pytest.mark.parametrize("patched", swept([PATCHES, FEW], FEW.__eq__), ids=["all", "few"])
def test_release_patched_with_other_words_is_verified_and_reverted(
    releases: Releases, tmp_path: Path, patched: tuple[Patch, ...]
) -> None:
    tree, other = (releases.copy("0.5.13", tmp_path / name) for name in ("fork", "other"))
    committed(tree.root, "As released")
    patches, former = PatchSet(patched, "now"), PatchSet(formerly(*patched), "formerly")
    api.apply(tree, former)
    clone = in_clone(tree, tmp_path)
    there = [s.patch.id for s in api.status(clone, patches) if s.state is State.APPLIED]
    assert api.verify(clone, patches, Criteria(Confidence.LIKELY)).passed
    api.apply(other, former, tuple(name for name in there if name != "27998"))
    for each in (clone, tree):
        assert api.revert(each, patches, ("27998",)).patches == ("27998",)
        assert {file: each.read(file) for file in each.files("")} == {
            file: other.read(file) for file in other.files("")
        }
        assert set(api.revert(each, patches).patches) == {*there} - {"27998"}
        assert not git(each.root, "diff", "--stat", "HEAD~1")


@pytest.mark.parametrize(("other", "text"), [(None, b"x = 1\n"), (b"x = 1\n", None), (None, None)])
def test_a_file_that_is_not_there_has_no_words_to_take(other: bytes | None, text: bytes | None) -> None:
    assert with_wording_of(other, text) == text

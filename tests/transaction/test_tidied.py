"""Code that calls the runtime is patchkit's, also where a person or a tool removed the comments of its patch."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from support.repositories import clone, committing
from support.toys import CRLF, MIRROR, add_patch, attribute, contents, edit, git, rewriting, statement

from patchkit import api
from patchkit.errors import ConflictError
from patchkit.patchset.load import patches as load
from patchkit.plan.status import State
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

RUNTIME = '["from patchkit.runtime import api_1 as patchkit_api"]'
PULL = "https://github.com/sgl-project/sglang/pull"
COMMENT = re.compile(rb"^[ \t]*# patchkit .*\r?\n", re.MULTILINE)
UPSTREAMS = "    def host(self):\n        return sum(self.copies)\n"
CALL = (
    rewriting("call", f"{MIRROR}::Mirror.host", "return $value", "return patchkit_api.totals($value)")
    + "\nalready = ['return sum(self.copies)']"
)


@pytest.fixture
def patches(patch_folder: Path) -> PatchSet:
    """The toys, one that calls the runtime where upstream calls another function, and one of our own."""
    landed = f'[{{ at = "{MIRROR}::Mirror.host", has = "return sum(self.copies)" }}]'
    add_patch(patch_folder, "7", CALL, imports=RUNTIME, upstream=f'"{PULL}/7"', upstream_when=landed)
    flag = attribute(CRLF, "Backend", "own = 1")
    add_patch(patch_folder, "pk-own", flag, upstream=f'"{PULL}/8"')
    add_patch(patch_folder, "9", rewriting("depth", MIRROR, "depth = 1", "depth = 2"), upstream=f'"{PULL}/9"')
    return load()


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A checkout in which git knows who commits."""
    return committing(checkout)


def states(tree: CheckoutTree, patches: PatchSet, *names: str) -> list[str]:
    found = {status.patch.id: status.state.value for status in api.status(tree, patches)}
    return [found[name] for name in names]


def tidy(tree: CheckoutTree, *files: str) -> None:
    for file in files:
        (tree.package / file).write_bytes(COMMENT.sub(b"", (tree.package / file).read_bytes()))


def test_code_that_calls_the_runtime_is_applied_without_its_comment_and_upstreams_form_is_not(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    api.apply(fork, patches, ("7",))
    tidy(fork, MIRROR)
    assert states(fork, patches, "7") == ["applied"]
    git(fork.root, "checkout", "-q", ".")
    edit(fork, MIRROR, b"    def host(self):\n        return self.copies\n", UPSTREAMS.encode())
    assert states(fork, patches, "7") == ["upstream"]


def test_upstreams_form_beside_another_patchs_call_of_the_runtime_stays_upstreams(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    before = statement(
        "insert-before", "guard", f"{MIRROR}::Mirror.host", "return $value", "patchkit_api.totals(self)"
    )
    add_patch(patch_folder, "t-other", before, imports=RUNTIME)
    patches = load()
    edit(fork, MIRROR, b"    def host(self):\n        return self.copies\n", UPSTREAMS.encode())
    api.apply(fork, patches, ("t-other",), allow_dirty=True)
    assert states(fork, patches, "7", "t-other") == ["upstream", "applied"]
    tidy(fork, MIRROR)
    assert states(fork, patches, "7", "t-other") == ["upstream", "applied"]


def test_function_of_upstreams_in_which_another_patch_calls_the_runtime_stays_upstreams(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    code = "def total(copies):\n    return patchkit_api.totals(copies)"
    has = f'[{{ at = "{MIRROR}::total" }}]'
    function = f"[edit.total]\nkind = 'module-code'\nwhy = 'toy'\nat = '{MIRROR}'\ncode = '''\n{code}\n'''"
    add_patch(patch_folder, "7", function, imports=RUNTIME, upstream=f'"{PULL}/7"', upstream_when=has)
    other = statement(
        "insert-before", "rows", f"{MIRROR}::total", "return $value", "patchkit_api.rows(copies)"
    )
    add_patch(patch_folder, "t-other", other, imports=RUNTIME)
    patches = load()
    edit(fork, MIRROR, b"\n\ndepth", b"\n\ndef total(copies):\n    return copies\n\n\ndepth")
    api.apply(fork, patches, ("t-other",), allow_dirty=True)
    assert states(fork, patches, "7", "t-other") == ["upstream", "applied"]
    git(fork.root, "checkout", "-q", ".")
    api.apply(fork, patches, ("7",))
    tidy(fork, MIRROR)
    assert states(fork, patches, "7") == ["applied"]


def test_patch_of_our_own_without_its_comment_is_never_upstreams(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    api.apply(fork, patches, ("pk-own", "9"))
    tidy(fork, MIRROR, CRLF)
    shutil.rmtree(fork.root / "patchkit.lock")
    assert states(fork, patches, "pk-own", "9") == ["unknown", "upstream"]
    for name, reason in (("pk-own", "neither a comment, a record"), ("9", "upstream's own")):
        with pytest.raises(ConflictError, match=reason):
            api.revert(fork, patches, (name,))


@pytest.mark.parametrize("committed", [False, True])
def test_clone_reverts_a_patch_whose_comments_are_gone(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, committed: bool
) -> None:
    before = contents(fork)
    api.commit(fork, patches, ("7", "t-flag"))
    if committed:
        tidy(fork, MIRROR)
        git(fork.root, "commit", "-qam", "Tidy")
    for tree in (clone(fork, tmp_path), fork):
        tidy(tree, MIRROR)
        assert states(tree, patches, "7") == ["applied"]
        assert set(api.revert(tree, patches).patches) == {"7", "t-flag"}
        assert contents(tree) == before


@pytest.mark.parametrize("committed", [False, True])
def test_clone_reverts_patches_whose_comments_git_still_has_whatever_their_state(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, committed: bool
) -> None:
    before = contents(fork)
    api.commit(fork, patches, ("7", "9", "pk-own", "t-flag"))
    git(fork.root, "rm", "-qr", "patchkit.lock")
    git(fork.root, "commit", "-qm", "No record")
    there = clone(fork, tmp_path)
    # Of a file that calls no runtime, only HEAD's own comments are looked for.
    tidy(committing(there), MIRROR, *(() if committed else (CRLF,)))
    if committed:
        git(there.root, "commit", "-qam", "Tidy")
        tidy(there, CRLF)
    assert states(there, patches, "7", "9", "pk-own") == ["applied", "upstream", "unknown"]
    assert set(api.revert(there, patches).patches) == {"7", "9", "pk-own", "t-flag"}
    assert contents(there) == before
    assert api.revert(there, patches).patches == ()


def test_what_a_person_picked_from_upstream_after_apply_stays(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    api.commit(fork, patches, ("7", "t-flag"))
    edit(fork, MIRROR, b"depth = 1", b"depth = 2")
    git(fork.root, "commit", "-qam", "Upstream's 9")
    there = clone(fork, tmp_path)
    tidy(there, MIRROR)
    assert set(api.revert(there, patches).patches) == {"7", "t-flag"}
    assert b"depth = 2" in (there.read(MIRROR) or b"")


@pytest.mark.parametrize("ids", [("7",), ()])
def test_clone_in_which_one_comment_was_removed_reverts_that_patch_too(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, ids: tuple[str, ...]
) -> None:
    before = contents(fork)
    api.commit(fork, patches, ("7", "t-flag", "9"))
    there = clone(fork, tmp_path)
    edit(there, MIRROR, b"        # patchkit 7: toy\n", b"")
    edit(there, MIRROR, b"depth = 2\n", b"depth = 2\nmine = 1\n")
    api.revert(there, patches, ids)
    text = there.read(MIRROR) or b""
    assert b"patchkit_api" not in text
    assert b"mine = 1" in text
    if not ids:
        assert contents(there) == before | {MIRROR: (before[MIRROR] or b"") + b"mine = 1\n"}


def test_commit_whose_hook_removes_every_comment_is_reverted_in_a_clone(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    api.apply(fork, patches, ("7",))
    tidy(fork, MIRROR)
    git(fork.root, "commit", "-qam", "Patch, without a word")
    for tree in (clone(fork, tmp_path), fork):
        assert states(tree, patches, "7") == ["applied"]
        assert api.revert(tree, patches).patches == ("7",)
        assert contents(tree) == before


def test_revert_does_not_pass_over_code_that_calls_the_runtime(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    api.commit(fork, patches, ("7",))
    there = clone(fork, tmp_path)
    tidy(there, MIRROR)
    edit(
        there, MIRROR, b"return patchkit_api.totals(self.copies)", b"mine = patchkit_api.totals(self.copies)"
    )
    mine = contents(there)
    with pytest.raises(ConflictError, match=r"mirror\.py:6: code that patchkit wrote was edited"):
        api.revert(there, patches)
    assert contents(there) == mine


def test_revert_refuses_a_file_that_calls_the_runtime_for_no_patch_that_is_loaded(
    fork: CheckoutTree, patches: PatchSet, patch_folder: Path
) -> None:
    import_line = b"from patchkit.runtime import api_1 as patchkit_api\n"
    edit(fork, MIRROR, b"class Mirror:\n", import_line + b"class Mirror:\n")
    edit(fork, MIRROR, b"depth = 1\n", b"depth = patchkit_api.totals(1)\n")
    shutil.rmtree(patch_folder / "7")
    mine = contents(fork)
    with pytest.raises(ConflictError, match=r"mirror\.py:1: the file still imports patchkit's runtime"):
        api.revert(fork, load())
    assert contents(fork) == mine


def test_revert_refuses_a_file_in_which_a_person_calls_the_runtime_too(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    api.commit(fork, patches, ("7",))
    edit(fork, MIRROR, b"depth = 1\n", b"depth = 1\nmine = patchkit_api.totals(0)\n")
    mine = contents(fork)
    with pytest.raises(ConflictError, match=r"mirror\.py:1: the file still imports patchkit's runtime"):
        api.revert(fork, patches)
    assert contents(fork) == mine


def test_runtime_in_the_tree_is_the_runtime(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, few_files: None
) -> None:
    before = contents(fork)
    api.apply(fork, patches, ("7",), runtime="vendored")
    tidy(fork, MIRROR)
    git(fork.root, "add", "-A", "-f", "python/sglang/_patchkit", "python/sglang/srt")
    git(fork.root, "commit", "-qm", "Patch, without a word")
    for tree in (clone(fork, tmp_path), fork):
        assert states(tree, patches, "7") == ["applied"]
        assert api.revert(tree, patches).patches == ("7",)
        assert contents(tree) == before
        assert not open_tree(tree.root).files("_patchkit")


def test_matrix_and_rebase_say_what_status_says(fork: CheckoutTree, patches: PatchSet) -> None:
    api.apply(fork, patches, ("7", "pk-own"))
    tidy(fork, MIRROR, CRLF)
    git(fork.root, "add", "-A")
    git(fork.root, "commit", "-qm", "Patch, without a word")
    (row,) = api.matrix(fork.root, ("HEAD",), patches, jobs=1).matrix.rows
    cells = {cell.patch: cell.state for cell in row.patches}
    moves = {move.patch: move for move in api.rebase_check(fork, patches, "HEAD")}
    for status in api.status(fork, patches):
        assert cells[status.patch.id] == moves[status.patch.id].then.state.value == status.state.value
    assert moves["pk-own"].then.state is State.APPLIED

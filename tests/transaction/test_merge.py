from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    attribute,
    contents,
    edit,
    everything,
    git,
    planner_of,
    revert_patches,
    rewriting,
    toy,
    write_package,
)

from patchkit.errors import ConflictError
from patchkit.plan.record import AppliedFile, AppliedPatch, Record
from patchkit.transaction.revert import RevertResult, recorded, revert
from patchkit.transaction.revert_plan import plan_revert
from patchkit.transaction.swap import digest_of
from patchkit.transaction.undo import undo
from patchkit.tree.limits import MAX_BYTES
from patchkit.tree.tree import MemoryTree

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree


MADE_DEPTH = b"# patchkit depth: toy\ndepth = 2\nheight = 3"


def test_revert_gives_the_old_bytes_and_leaves_no_trace(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    apply(tree)
    assert revert_patches(tree) == RevertResult(tuple(patch.id for patch in TOYS), tuple(sorted(APPLIED)))
    assert everything(tree.root) == before


def test_patched_block_that_ends_as_the_code_before_it_leaves_that_code_with_its_blank_line() -> None:
    guard = b"    # patchkit guard: toy\n    if depth > 2:\n        return\n"
    behind = b"    if depth > 3:\n        a()\n    b()\n    c()\n    d()\n"
    before = b"def f(depth):\n    if depth:\n        return\n\n" + behind
    after = before.replace(b"    if depth > 3", guard + b"    if depth > 3")
    mine = b"\n\nmine_1 = 1\n"
    assert undo("f.py", after, after + mine, before).text == before + mine


def test_import_that_a_formatter_sorted_between_others_goes() -> None:
    before = b"import torch\n\nfrom sglang.srt import d\nfrom a import b\n\nc = b(d)\n"
    after = before.replace(b"torch\n", b"torch\nfrom patchkit.runtime import api_1\n")
    left = b"from a import b\nfrom r import *\nfrom sglang.srt import d\n\nc = b(d)\n"
    formatted = left.replace(b"from r", b"from patchkit.runtime import api_1\nfrom r")
    assert undo("f.py", after, formatted, before).text == left


@pytest.mark.parametrize("gap", [b"\n", b"\n\n\n"])
def test_last_code_of_a_file_goes_with_the_blank_lines_above_it(gap: bytes) -> None:
    before = b"class A:\n    def f(self):\n        pass\n"
    after = before + gap + b"    # patchkit guard: toy\n    def g(self):\n        pass\n"
    renamed = after.replace(b"def f", b"def mine_1")
    assert undo("f.py", after, renamed, before).text == before.replace(b"def f", b"def mine_1")


def test_revert_after_several_applies_gives_the_first_bytes(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    for patch in TOYS:
        apply(tree, patch)
    revert_patches(tree)
    assert everything(tree.root) == before


def test_nothing_applied_is_nothing_to_revert(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    assert revert_patches(tree) == RevertResult((), ())
    assert everything(tree.root) == before


def test_patch_that_is_not_in_the_code_is_nothing_to_revert(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    before = everything(tree.root)
    assert revert_patches(tree, DEPTH) == RevertResult((), ())
    assert everything(tree.root) == before


def test_one_patch_is_taken_out_of_several(tree: CheckoutTree) -> None:
    apply(tree)
    assert revert_patches(tree, DEPTH) == RevertResult(("depth",), (MIRROR, ABRUPT))
    assert tree.read(MIRROR) == APPLIED[MIRROR].replace(MADE_DEPTH, b"depth = 1")
    assert tree.read(ABRUPT) == SOURCES[ABRUPT]
    assert recorded(tree) == ("copies", "guard", "stride")


def test_reverting_patches_one_by_one_restores_the_original(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    apply(tree)
    for patch in (STRIDE, DEPTH, GUARD, COPIES):
        revert_patches(tree, patch)
    assert everything(tree.root) == before


def test_patch_that_another_requires_is_refused(tree: CheckoutTree) -> None:
    apply(tree)
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"^stride cannot stay without copies$"):
        revert_patches(tree, COPIES)
    assert everything(tree.root) == before


def test_a_patch_that_none_requires_can_go_alone(tree: CheckoutTree) -> None:
    apply(tree)
    assert revert_patches(tree, GUARD).patches == ("guard",)
    assert b"copies = None" in (tree.read(MIRROR) or b"")


def test_patch_set_that_changed_since_is_refused_for_one_of_several(tree: CheckoutTree) -> None:
    apply(tree)
    copies = toy("copies", rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = 7"))
    changed = (copies, DEPTH, GUARD, STRIDE)
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=rf"^{MIRROR}: the loaded patches differ from"):
        revert(tree, frozenset({"depth"}), planner_of(tree, changed))
    assert everything(tree.root) == before


def test_patch_set_that_is_gone_is_no_obstacle_for_all(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    apply(tree)
    revert(tree, None, planner_of(tree, ()))
    assert everything(tree.root) == before


def test_edit_made_since_stays(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"    def host(self):", b"    mine = 1\n\n    def host(self):")
    revert_patches(tree)
    assert tree.read(MIRROR) == SOURCES[MIRROR].replace(b"    def", b"    mine = 1\n\n    def")
    assert not (tree.package / ".patchkit").exists()


def test_edit_made_since_stays_when_one_patch_of_several_goes(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"class Mirror:", b"class Mirror(object):")
    revert_patches(tree, DEPTH)
    assert tree.read(MIRROR) == APPLIED[MIRROR].replace(b"Mirror:", b"Mirror(object):").replace(
        MADE_DEPTH, b"depth = 1"
    )
    revert_patches(tree)
    assert tree.read(MIRROR) == SOURCES[MIRROR].replace(b"Mirror:", b"Mirror(object):")


def test_edit_of_what_patchkit_wrote_is_refused_by_file_and_line(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"depth = 2", b"depth = 5")
    before = everything(tree.root)
    with pytest.raises(
        ConflictError, match=rf"^{MIRROR}:12: code that patchkit wrote was edited after apply"
    ):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_code_restored_by_hand_is_no_obstacle(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    apply(tree)
    (tree.package / MIRROR).write_bytes(SOURCES[MIRROR])
    revert_patches(tree)
    assert everything(tree.root) == before


def test_what_was_undone_by_hand_is_no_obstacle_to_the_rest(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, MADE_DEPTH + b"\n", b"depth = 1\nmine = 1\n")
    revert_patches(tree)
    assert tree.read(MIRROR) == (SOURCES[MIRROR] or b"") + b"mine = 1\n"


def test_line_added_beside_the_one_that_a_patch_added_stays(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"        guard()\n", b"        guard()\n        # mine\n")
    revert_patches(tree)
    assert tree.read(MIRROR) == SOURCES[MIRROR].replace(b"        return", b"        # mine\n        return")


def test_copy_of_a_patched_function_keeps_the_copy(tree: CheckoutTree) -> None:
    apply(tree)
    lines = APPLIED[MIRROR].splitlines(keepends=True)
    copied = b"".join(line for line in lines if b"# patchkit" not in line)
    copied = copied.replace(b"Mirror", b"Copy").replace(b"depth", b"length").replace(b"height", b"width")
    (tree.package / MIRROR).write_bytes(APPLIED[MIRROR] + copied)
    revert_patches(tree)
    assert tree.read(MIRROR) == SOURCES[MIRROR] + copied


def test_file_that_is_gone_is_refused_by_name(tree: CheckoutTree) -> None:
    apply(tree)
    (tree.package / MIRROR).unlink()
    with pytest.raises(ConflictError, match=rf"^{MIRROR}: the file, which patchkit changed, does not exist"):
        revert_patches(tree)


def test_edit_between_two_applies_stays(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    edit(tree, MIRROR, b"class Mirror:", b"class Mirror(object):")
    apply(tree, DEPTH)
    revert_patches(tree)
    assert tree.read(MIRROR) == SOURCES[MIRROR].replace(b"Mirror:", b"Mirror(object):")
    assert tree.read(ABRUPT) == SOURCES[ABRUPT]


@pytest.mark.parametrize(
    ("first", "second", "old", "new"),
    [
        (COPIES, DEPTH, b"depth = 1", MADE_DEPTH),
        (DEPTH, COPIES, b"copies = 0", b"# patchkit copies: toy\n    copies = None"),
    ],
)
def test_lower_layer_goes_alone_and_the_rest_can_follow(
    tree: CheckoutTree, first: Patch, second: Patch, old: bytes, new: bytes
) -> None:
    apply(tree, COPIES)
    edit(tree, MIRROR, b"class Mirror:", b"class Mirror(object):")
    apply(tree, DEPTH)
    revert_patches(tree, first)
    mine = SOURCES[MIRROR].replace(b"Mirror:", b"Mirror(object):")
    assert tree.read(MIRROR) == mine.replace(old, new)
    revert_patches(tree, second)
    assert tree.read(MIRROR) == mine
    assert recorded(tree) == ()


def test_tree_that_was_replaced_and_patched_again_is_reverted_to_the_new_bytes(tree: CheckoutTree) -> None:
    apply(tree)
    released = {file: b"# newer\n" + text + b"# new\n" for file, text in SOURCES.items()}
    released[MIRROR] = released[MIRROR].replace(b"copies = 0", b"mode = 1\n    copies = 0")
    write_package(tree.package, released)
    apply(tree)
    assert recorded(tree) == tuple(patch.id for patch in TOYS)
    revert_patches(tree)
    assert {file: tree.read(file) for file in SOURCES} == released
    assert recorded(tree) == ()


def test_edit_undone_by_hand_and_made_again_keeps_the_first_bytes(tree: CheckoutTree) -> None:
    copies = rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = None")
    both = toy("both", copies, rewriting("depth", MIRROR, "depth = 1", "depth = 2"))
    apply(tree, both)
    edit(tree, MIRROR, b"# patchkit both: toy\ndepth = 2", b"depth = 1")
    apply(tree, both)
    revert(tree, None, planner_of(tree, (both,)))
    assert tree.read(MIRROR) == SOURCES[MIRROR]


def test_crlf_file_edited_since_keeps_its_line_endings(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, CRLF, b"class Backend:", b"# mine\r\nclass Backend:")
    revert_patches(tree)
    assert tree.read(CRLF) == SOURCES[CRLF].replace(b"class", b"# mine\r\nclass")


def test_line_added_behind_a_missing_final_newline_stays(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, ABRUPT, b"stop = 0", b"stop = 0\n    mine = 1\n")
    revert_patches(tree)
    assert tree.read(ABRUPT) == SOURCES[ABRUPT] + b"\n    mine = 1\n"


def test_uncommitted_edits_do_not_keep_a_checkout_from_reverting(checkout: CheckoutTree) -> None:
    apply(checkout)
    edit(checkout, MIRROR, b"class Mirror:", b"class Mirror(object):")
    revert_patches(checkout)
    assert git(checkout.root, "diff", "--numstat").split()[:2] == ["1", "1"]


NOWHERE: Any = MemoryTree({})
NONE = planner_of(NOWHERE, ())
ORIGINAL = [b"line_%d = 0\n" % number for number in range(12)]
PATCHED = [
    *ORIGINAL[:3],
    b"three = 0\n",
    *ORIGINAL[4:7],
    b"new_a = 0\n",
    b"new_b = 0\n",
    *ORIGINAL[7:10],
    ORIGINAL[11],
]
INSERTED = {7, 8}


@given(
    added=st.sets(st.integers(0, len(PATCHED)), max_size=4),
    dropped=st.sets(st.integers(0, len(PATCHED) - 1), max_size=3),
)
def test_revert_never_loses_an_edit(added: set[int], dropped: set[int]) -> None:
    """Whatever lines a person added and dropped since, the edits survive whole, or nothing is done.

    Who dropped all the lines of an insertion took it back, as the revert would have.
    """
    mine: list[bytes] = []
    for number, line in enumerate([*PATCHED, b""]):
        mine += [b"mine_%d = 0\n" % number] if number in added else []
        mine += [line] if number not in dropped else []
    texts = {digest_of(b"".join(lines)): b"".join(lines) for lines in (ORIGINAL, PATCHED)}
    before, after = texts
    record = Record().with_applied({"x.py": AppliedFile(before, after, ("p",))}, [AppliedPatch("p", (), ())])
    with suppress(ConflictError):
        plan = plan_revert(record, frozenset({"p"}), lambda file: b"".join(mine), texts.__getitem__, NONE)
        assert plan.record == Record()
        left = (plan.changes["x.py"][1] or b"").splitlines(keepends=True)
        kept = [line for line in ORIGINAL if line not in PATCHED or line in mine]
        assert [line for line in left if not line.startswith(b"mine")] == kept
        assert [line for line in left if line.startswith(b"mine")] == [
            x for x in mine if x.startswith(b"mine")
        ]
        assert dropped <= INSERTED or left != ORIGINAL
        assert dropped & INSERTED in (set(), INSERTED)


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6, 7, 8])
def test_edit_of_any_line_but_the_patch_itself_is_kept(number: int) -> None:
    mine = [line.replace(b"line_%d = 0\n" % number, b"mine = 0\n") for line in PATCHED]
    texts = {digest_of(b"".join(lines)): b"".join(lines) for lines in (ORIGINAL, PATCHED)}
    before, after = texts
    record = Record().with_applied({"x.py": AppliedFile(before, after, ("p",))}, [])
    plan = plan_revert(record, frozenset({"p"}), lambda file: b"".join(mine), texts.__getitem__, NONE)
    left = (plan.changes["x.py"][1] or b"").splitlines(keepends=True)
    assert left == [line.replace(b"line_%d = 0\n" % number, b"mine = 0\n") for line in ORIGINAL]


SIGNED = toy(
    "signed",
    f"""\
[edit.extra]
kind = "method"
why = "toy"
at = "{MIRROR}::Mirror"
code = '''
def extra(self):
    return api.total(self)
'''
imports = ["from toolbox import api"]""",
)
METHOD = b"    # patchkit signed: toy\n    def extra(self):\n        return api.total(self)\n"


def signed_back(tree: CheckoutTree) -> RevertResult:
    return revert(tree, None, planner_of(tree, (SIGNED,)))


def test_blank_lines_around_what_a_patch_put_in_are_no_obstacle(tree: CheckoutTree) -> None:
    apply(tree, SIGNED)
    edit(tree, MIRROR, METHOD, b"\n" + METHOD + b"\n")
    signed_back(tree)
    text = tree.read(MIRROR) or b""
    assert b"patchkit" not in text
    assert [line for line in text.splitlines() if line.strip()] == [
        line for line in SOURCES[MIRROR].splitlines() if line.strip()
    ]
    assert len(text.splitlines()) == len(SOURCES[MIRROR].splitlines()) + 2


def test_copied_comment_of_a_patch_is_refused_by_line(tree: CheckoutTree) -> None:
    apply(tree, SIGNED)
    text = tree.read(MIRROR) or b""
    (tree.package / MIRROR).write_bytes(text + b"\n\nclass Mine:\n" + METHOD.replace(b"extra", b"mine"))
    before = everything(tree.root)
    with pytest.raises(
        ConflictError, match=rf"^{MIRROR}:{len(text.splitlines()) + 4}: a comment of signed would"
    ):
        signed_back(tree)
    assert everything(tree.root) == before


@pytest.mark.parametrize("others", [b"", b"# ours, see the wiki"])
def test_edit_whose_comment_a_person_took_out_or_wrote_anew_is_taken_back(
    tree: CheckoutTree, others: bytes
) -> None:
    apply(tree)
    edit(tree, MIRROR, b"    # patchkit copies: toy\n", b"    %s\n" % others if others else b"")
    edit(tree, MIRROR, b"# patchkit depth: toy\n", b"")
    revert_patches(tree)
    kept = SOURCES[MIRROR].replace(b"    copies", b"    %s\n    copies" % others if others else b"    copies")
    assert contents(tree) == {**{file: SOURCES[file] for file in APPLIED}, MIRROR: kept}


def test_edit_whose_comment_only_begins_as_it_did_is_refused(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"# patchkit depth: toy\n", b"# patchkit depth: toy, and\n# more of it\n")
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"mirror.py:11: a comment of depth would be left"):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_edit_without_its_comment_that_is_there_twice_is_refused(tree: CheckoutTree) -> None:
    apply(tree)
    made = b"depth = 2\nheight = 3\n"
    edit(tree, MIRROR, b"# patchkit depth: toy\n" + made, made + made)
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"mirror.py"):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_edit_without_its_comment_that_a_person_undid_too_is_no_obstacle(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, MADE_DEPTH, b"depth = 1")
    edit(tree, MIRROR, b"        # patchkit guard: toy\n", b"")
    revert_patches(tree)
    assert contents(tree) == {file: SOURCES[file] for file in APPLIED}


def test_edit_that_a_person_made_once_more_without_its_comment_is_refused_by_place(
    tree: CheckoutTree,
) -> None:
    flag = toy("flag", attribute(MIRROR, "Mirror", "flag = 1"))
    apply(tree, flag)
    edit(tree, MIRROR, b"    copies = 0\n", b"    copies = 0\n    flag = 1\n")
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"mirror.py: flag of flag would still be in place"):
        revert(tree, frozenset({"flag"}), planner_of(tree, (flag,)))
    assert everything(tree.root) == before


def test_import_that_a_person_uses_by_now_stays(tree: CheckoutTree) -> None:
    apply(tree, SIGNED)
    text = tree.read(MIRROR) or b""
    (tree.package / MIRROR).write_bytes(text + b"mine = api.total(3)\n")
    signed_back(tree)
    left = tree.read(MIRROR) or b""
    assert left.count(b"from toolbox import api") == 1
    assert b"patchkit" not in left
    assert b"extra" not in left


def test_imports_that_a_formatter_joined_are_taken_apart(tree: CheckoutTree) -> None:
    apply(tree, SIGNED)
    edit(
        tree,
        MIRROR,
        b"from toolbox import api\n",
        b"from toolbox import api, mine\n",
    )
    edit(tree, MIRROR, b"depth = 1", b"depth = mine(1)")
    signed_back(tree)
    left = tree.read(MIRROR) or b""
    assert b"from toolbox import mine\n" in left
    assert b"patchkit" not in left


def test_second_definition_of_a_patched_name_is_refused(tree: CheckoutTree) -> None:
    apply(tree, COPIES, GUARD)
    edit(
        tree,
        MIRROR,
        b"depth = 1\n",
        b"depth = 1\n\n\nclass Mirror:\n    def host(self):\n        guard()\n        return 1\n",
    )
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"Mirror exists 2 times"):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_patched_class_that_was_renamed_is_refused(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"class Mirror", b"class Glass")
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"Mirror, which was patched, was renamed or moved"):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_patched_function_that_was_deleted_is_no_obstacle(tree: CheckoutTree) -> None:
    apply(tree)
    edit(
        tree,
        MIRROR,
        b"\n    def host(self):\n        # patchkit guard: toy\n        guard()\n        return self.copies\n",
        b"",
    )
    revert_patches(tree)
    assert tree.read(MIRROR) == b"class Mirror:\n    copies = 0\n\n\ndepth = 1\n"


def test_comment_that_a_person_put_behind_patched_code_is_not_lost(tree: CheckoutTree) -> None:
    apply(tree)
    edit(tree, MIRROR, b"copies = None", b"copies = None  # mine")
    before = everything(tree.root)
    with pytest.raises(ConflictError, match="wrote was edited after apply"):
        revert_patches(tree)
    assert everything(tree.root) == before


def test_file_turned_to_crlf_is_reverted_in_crlf(tree: CheckoutTree) -> None:
    apply(tree)
    path = tree.package / MIRROR
    path.write_bytes(APPLIED[MIRROR].replace(b"\n", b"\r\n"))
    revert_patches(tree)
    assert path.read_bytes() == SOURCES[MIRROR].replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    "added", ["x = 1\n" * (MAX_BYTES // 6 + 1), f"x = {'(' * 150}1{')' * 150}\n", f"x = {'- ' * 3000}1\n"]
)
def test_file_that_grew_beyond_the_limits_is_refused(tree: CheckoutTree, added: str) -> None:
    apply(tree)
    (tree.package / MIRROR).write_bytes((tree.read(MIRROR) or b"") + added.encode())
    before = everything(tree.root)
    with pytest.raises(
        ConflictError,
        match=rf"{MIRROR}: the file was edited after apply and is not valid Python \(.*(more than|over)",
    ):
        revert_patches(tree)
    assert everything(tree.root) == before


@pytest.mark.parametrize("junk", [b"class (", b"\x00", b"(" * 3000, b"# coding: nonsense\n", b"\xff\xfe"])
def test_file_that_is_no_python_any_more_is_refused(tree: CheckoutTree, junk: bytes) -> None:
    apply(tree)
    (tree.package / MIRROR).write_bytes(junk + b"\n" + APPLIED[MIRROR])
    before = everything(tree.root)
    with pytest.raises(
        ConflictError, match=rf"^{MIRROR}: the file was edited after apply and is not valid Python"
    ):
        revert_patches(tree)
    assert everything(tree.root) == before

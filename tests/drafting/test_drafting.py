from __future__ import annotations

import difflib
import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import MIRROR, SOURCES, add_patch, attribute, everything, git

from patchkit import api
from patchkit.cli import main
from patchkit.errors import UsageError
from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.api import DraftedPatch
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
BEFORE = '''\
import os
from sglang.srt.utils import one


class Backend(Base):
    """A backend."""

    flag = False

    def plan(self, batch):
        total = batch.total
        if batch.wide:
            size = total * 2
            self.log(size)
        return size

    def other(self, batch):
        return batch.total


LIMIT = 4
'''


def drafted(tree: CheckoutTree, folder: Path, after: str, before: str = BEFORE) -> DraftedPatch:
    (tree.package / "srt" / "backend.py").write_text(before)
    name = "python/sglang/srt/backend.py"
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return api.new(tree, "own", folder / "own", diff=text)


def made(tree: CheckoutTree, draft: DraftedPatch, file: str = "srt/backend.py") -> str:
    """Apply a draft to its tree, and return what it made of a file without the comments that it left."""
    patches = load.patches((draft.file.parent,))
    api.apply(tree, patches, ["own"], allow_dirty=True)
    text = (tree.package / file).read_text()
    status = api.status(tree, patches)
    assert [status.state.value for status in status if status.patch.id == "own"] == ["applied"]
    return re.sub(r"^[ \t]*# patchkit own: .*\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            size = total * 2", "            size = total * 3"),
        (
            "        total = batch.total\n        if",
            "        total = batch.total\n        total += 1\n        if",
        ),
        ("            self.log(size)", "            size += 1\n            self.log(size)"),
        ("    flag = False", "    flag = False\n    needs = True"),
        ("    def other(self, batch)", "    def other(self, batch, width=1)"),
        ("class Backend(Base)", "class Backend(Mixin, Base)"),
        (
            "from sglang.srt.utils import one",
            "from sglang.srt.utils import one\nfrom sglang.srt.utils import two",
        ),
        ("LIMIT = 4", "LIMIT = 8"),
    ],
    ids=["rewrite", "insert", "nested", "attribute", "parameter", "base", "import", "module"],
)
def test_a_small_change_is_drafted_whole(tree: CheckoutTree, tmp_path: Path, old: str, new: str) -> None:
    draft = drafted(tree, tmp_path, BEFORE.replace(old, new, 1))
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    assert made(tree, draft) == BEFORE.replace(old, new, 1)


def test_a_new_method_is_drafted(tree: CheckoutTree, tmp_path: Path) -> None:
    method = "\n    def hook(self):\n        return None\n"
    after = BEFORE.replace("        return batch.total\n", "        return batch.total\n" + method)
    assert made(tree, drafted(tree, tmp_path, after)) == after


@pytest.mark.parametrize(
    "gone",
    [
        "            self.log(size)\n",
        "        total = batch.total\n",
        "        if batch.wide:\n            size = total * 2\n            self.log(size)\n",
        "    flag = False\n",
    ],
    ids=["nested", "first", "block", "attribute"],
)
def test_statements_go(tree: CheckoutTree, tmp_path: Path, gone: str) -> None:
    before = BEFORE.replace("flag = False", "flag = False\n    deep = 1")
    draft = drafted(tree, tmp_path, before.replace(gone, "", 1), before)
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    assert made(tree, draft) == before.replace(gone, "", 1)


@pytest.mark.parametrize(
    "gone", ["import os\n", "    from os import sep\n"], ids=["import", "import-in-a-block"]
)
def test_an_import_goes(tree: CheckoutTree, tmp_path: Path, gone: str) -> None:
    before = f"if LATER:\n    from os import sep\n    from os import name\n{BEFORE}"
    draft = drafted(tree, tmp_path, before.replace(gone, "", 1), before)
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    assert made(tree, draft) == before.replace(gone, "", 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "            self.log(size)\n",
            "            self.log(size)\n        elif batch:\n            size = 0\n",
        ),
        ("            self.log(size)\n", "            self.log(size)\n        else:\n            size = 0\n"),
        ("def other(self, batch)", "def other(self)"),
        ("def other(self, batch)", "def other(self, batch, width)"),
        ("class Backend(Base)", "class Backend"),
        ("    def other", "    @property\n    def other"),
        ("    flag = False", "    width: int\n    flag = False"),
        ('"""A backend."""', '"""A backend of one\'s own.\n\n    It plans.\n    """'),
        ("        return size", "        # As wide as the batch.\n        return size"),
        ("\n\nLIMIT", "\n\n\nLIMIT"),
        ("LIMIT = 4\n", "LIMIT = 4"),
        ("LIMIT = 4\n", "LIMIT = 4\nstart(LIMIT)\n"),
        ("import os\n", "import os\nfrom abc import (\n    two,\n    one,  # of two\n)\n"),
        (
            "            size = total * 2\n",
            "            try:\n                size = total * 2\n            except E:\n                raise\n",
        ),
        ("        return size\n", ""),
        (
            "        total = batch.total\n        if",
            "        total = batch.\\\n            total\n        if",
        ),
    ],
    ids=[
        "elif",
        "else",
        "parameter-goes",
        "parameter-without-a-default",
        "base-goes",
        "decorator",
        "field-without-a-value",
        "docstring",
        "comment",
        "blank-line",
        "no-newline-at-the-end",
        "call-of-the-module",
        "import-in-another-order",
        "try",
        "return",
        "backslash",
    ],
)
def test_a_draft_makes_its_diff_byte_for_byte(tree: CheckoutTree, tmp_path: Path, old: str, new: str) -> None:
    after = BEFORE.replace(old, new, 1)
    assert after != BEFORE
    draft = drafted(tree, tmp_path, after)
    assert (draft.exact, draft.todo) == (True, ())
    assert made(tree, draft) == after
    assert "own" in load.patches((draft.file.parent,)).ids


LONG = """\
from sglang.srt.utils import (
    one,
    two,
)


def start(server, width=None, depth=1):
    total = plan(
        server.first,
        server.second,
        server.third,
        server.fourth,
        server.fifth,
        server.sixth,
        width=width,
        depth=[
            "a",
            "b",
        ],
    )
    server.is_ready = (
        server.is_wide
        and server.is_deep
        and server.is_high
        and server.is_warm
        and server.is_known
        and server.is_open
        and server.is_alone
        and server.is_ready_for_all_that_may_come_from_any_of_its_clients
    )
    # Each of them.
    server.log(total)
    for each in server:
        server.log(total)
        each.done = True
    return total
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        width=width,\n", "        height=3,\n        width=width,\n"),
        ("        server.sixth,\n", "        server.seventh,\n"),
        ("        server.second,\n", ""),
        ('            "b",\n', '            "b",\n            "c",\n'),
        ("        and server.is_deep\n", "        and server.is_deep\n        and server.is_far\n"),
        ("        and server.is_deep\n", ""),
        (", width=None", ""),
        ("depth=1", "depth: int = 1"),
        ("    two,\n", ""),
        ("    # Each of them.\n", "    # All of them,\n    # one by one.\n"),
        ("    # Each of them.\n", ""),
        ("    return total\n", "\n    return total\n"),
        ("        each.done = True\n", "        # So that\n        each.done = True\n"),
        (
            "    # Each of them.\n    server.log(total)\n",
            "    # All of them.\n    server.tell(total)\n",
        ),
        (
            "        server.log(total)\n        each",
            "        server.log(total)\n        server.log(total)\n        each",
        ),
    ],
    ids=[
        "argument-comes",
        "argument-changes",
        "argument-goes",
        "element-comes",
        "operand-comes",
        "operand-goes",
        "parameter-goes",
        "parameter-is-annotated",
        "name-of-an-import-goes",
        "comment-changes",
        "comment-goes",
        "blank-line-comes",
        "comment-comes",
        "statement-with-its-comment",
        "statement-that-is-there-elsewhere",
    ],
)
def test_a_part_of_a_statement_or_its_comment_changes(
    tree: CheckoutTree, tmp_path: Path, old: str, new: str
) -> None:
    after = LONG.replace(old, new, 1)
    assert after != LONG
    draft = drafted(tree, tmp_path, after, LONG)
    assert (draft.exact, draft.edits) == (True, 1)
    assert made(tree, draft) == after


def test_a_method_with_a_long_docstring(tree: CheckoutTree, tmp_path: Path) -> None:
    method = '''    def hook(self):
        """Hook.

        It does
            nothing.
        """
        return None

    def other'''
    after = BEFORE.replace("    def other", method)
    draft = drafted(tree, tmp_path, after)
    assert (draft.exact, draft.edits) == (True, 1)
    assert made(tree, draft) == after


def test_what_comes_above_a_docstring_comes_below_one_with_other_words(
    tree: CheckoutTree, tmp_path: Path
) -> None:
    after = BEFORE.replace('    """A', '    kept = True\n    """A')
    draft = drafted(tree, tmp_path, after)
    assert made(tree, draft) == after
    other = BEFORE.replace("A backend.", "Plans a batch.")
    api.revert(tree, load.patches((draft.file.parent,)))
    (tree.package / "srt" / "backend.py").write_text(other)
    assert made(tree, draft) == other.replace('batch."""\n', 'batch."""\n    kept = True\n')


def test_a_definition_in_a_block_of_the_module_is_drafted(tree: CheckoutTree, tmp_path: Path) -> None:
    before = "if LATER:\n\n    def wide(one):\n        two = one\n        return two\n"
    after = before.replace("two = one", "two = one + 1")
    draft = drafted(tree, tmp_path, after, before)
    assert draft.exact
    assert made(tree, draft) == after


def test_what_moves_is_not_taken_for_what_stays(tree: CheckoutTree, tmp_path: Path) -> None:
    after = BEFORE.replace("        total = batch.total\n", "", 1)
    after = after.replace("        return size\n", "        total = batch.total\n        return size\n")
    draft = drafted(tree, tmp_path, after)
    assert draft.exact
    assert made(tree, draft) == after


def test_each_of_two_places_alike_is_told_by_its_neighbours(tree: CheckoutTree, tmp_path: Path) -> None:
    before = BEFORE.replace("        return size", "        self.log(size)\n        return size")
    after = before.replace("        self.log(size)\n        return", "        return")
    draft = drafted(tree, tmp_path, after, before)
    assert draft.exact
    assert made(tree, draft) == after


CHAIN = """\
def plan(kind, batch):
    if kind == "wide":
        # The widest comes first.
        total = batch.first
        total += batch.second

        log(total)
    elif kind == "deep":
        total = batch.depth
        log(total)
    else:
        total = 0
        log(kind)
    for each in batch:
        log(each)
        log(each)
        log(each)
        log(each)
    return total
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    else:\n", '    elif kind == "flat":\n        total = 1\n    else:\n'),
        ('    elif kind == "deep":\n        total = batch.depth\n        log(total)\n', ""),
        ('    elif kind == "deep":\n', '    elif kind in ("deep", "far"):\n'),
        ("    else:\n        total = 0\n        log(kind)\n", ""),
        ("    for each in batch:\n", "    for each in sorted(batch):\n"),
        (
            "        total = 0\n        log(kind)\n",
            "        total = 0\n        log(kind)\n    total = bound(total)\n",
        ),
    ],
    ids=["branch-comes", "branch-goes", "test-of-a-branch", "else-goes", "loop", "statement-below"],
)
def test_a_branch_comes_goes_or_changes_beside_those_that_stay(
    tree: CheckoutTree, tmp_path: Path, old: str, new: str
) -> None:
    after = CHAIN.replace(old, new, 1)
    assert after != CHAIN
    draft = drafted(tree, tmp_path, after, CHAIN)
    assert draft.exact
    assert made(tree, draft) == after


def test_the_comment_above_a_statement_whose_header_changes(tree: CheckoutTree, tmp_path: Path) -> None:
    block = "".join(f"        log({number})\n" for number in range(10))
    before = CHAIN.replace("    return", f"    while wide and batch.first:\n{block}    return")
    after = before.replace(
        f"    while wide and batch.first:\n{block}",
        f"    # Until then.\n    while wide and batch.first and batch.deep:\n{block}        log(kind)\n",
    )
    draft = drafted(tree, tmp_path, after, before)
    assert draft.exact
    assert made(tree, draft) == after


def test_a_statement_that_changes_is_told_from_the_new_one_above_it(
    tree: CheckoutTree, tmp_path: Path
) -> None:
    lines = "".join(f"        size_{number}=batch.size_{number},\n" for number in range(12))
    before = CHAIN.replace("    return total\n", f"    fill(\n{lines}    )\n    return total\n")
    after = before.replace("    fill(\n", "    place = batch.place\n    fill(\n")
    after = after.replace("size_11,\n", "size_11,\n        place=place,\n")
    draft = drafted(tree, tmp_path, after, before)
    assert (draft.exact, draft.edits) == (True, 1)
    assert made(tree, draft) == after


def test_a_branch_lands_where_a_block_that_stays_differs(tree: CheckoutTree, tmp_path: Path) -> None:
    branch = '    elif kind == "flat":\n        total = 1\n    else:\n'
    draft = drafted(tree, tmp_path, CHAIN.replace("    else:\n", branch), CHAIN)
    api.revert(tree, load.patches((draft.file.parent,)))
    other = CHAIN.replace("        total += batch.second\n", "        total -= batch.third\n")
    (tree.package / "srt" / "backend.py").write_text(other)
    assert made(tree, draft) == other.replace("    else:\n", branch)


def test_a_deletion_whose_nearest_statement_has_several_lines(tree: CheckoutTree, tmp_path: Path) -> None:
    before = BEFORE.replace(
        "        return batch.total\n",
        "        if batch:\n            self.log(\n                1,\n            )\n        self.go()\n",
    )
    draft = drafted(tree, tmp_path, before.replace("        self.go()\n", ""), before)
    assert (draft.exact, draft.edits) == (True, 1)
    assert made(tree, draft) == before.replace("        self.go()\n", "")


def test_names_come_into_an_import_where_the_import_above_changes_in_another_way(
    tree: CheckoutTree, tmp_path: Path
) -> None:
    before = "import os\n\nfrom sglang.first import (\n    one,\n    other_name,\n)\n"
    before += "from sglang.second import (\n    three,\n    ways_to_go,\n)\n\n\ndef go():\n    return one\n"
    after = before.replace("(\n    one,\n    other_name,\n)", "one").replace(
        "    three,\n", "    three,\n    two,\n"
    )
    after = after.replace("return one", "return one + 1")
    draft = drafted(tree, tmp_path, after, before)
    assert draft.exact
    assert made(tree, draft) == after


def test_a_body_that_goes_whole_is_made_too(tree: CheckoutTree, tmp_path: Path) -> None:
    after = BEFORE.replace("        return batch.total\n", "        pass\n")
    draft = drafted(tree, tmp_path, after)
    assert draft.exact
    assert made(tree, draft) == after


def test_a_new_file_is_drafted(tree: CheckoutTree, tmp_path: Path) -> None:
    diff = "--- /dev/null\n+++ b/python/sglang/srt/fresh.py\n@@ -0,0 +1,3 @@\n+import os\n+\n+HOME = os.sep\n"
    draft = api.new(tree, "own", tmp_path / "own", diff=diff)
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    assert made(tree, draft, "srt/fresh.py") == "import os\n\nHOME = os.sep\n"


def test_a_draft_is_a_patch_that_loads(tree: CheckoutTree, tmp_path: Path) -> None:
    draft = drafted(tree, tmp_path, BEFORE.replace("flag = False", "flag = False\n    more = 1"))
    assert "own" in load.patches((draft.file.parent,)).ids


def test_what_a_draft_leaves_to_be_written_is_a_fault(tree: CheckoutTree, tmp_path: Path) -> None:
    folder = drafted(tree, tmp_path, BEFORE.replace("total * 2", "total * 3")).file.parent
    (checked,) = api.check_patches(folder)
    assert [fault.partition(": ")[2] for fault in checked.faults if "risk" not in fault]
    assert all("still to be written" in fault for fault in checked.faults)
    file = folder / "patch.toml"
    file.write_text(file.read_text().replace("todo: ", ""))
    assert api.check_patches(folder)[0].faults == ()


def test_a_commit_is_drafted_from_its_own_parent(checkout: CheckoutTree, tmp_path: Path) -> None:
    text = SOURCES[MIRROR].decode()
    (checkout.package / MIRROR).write_text(text.replace("copies = 0", "copies = 0\n    pages = 1"))
    git(checkout.root, "commit", "-qam", "More pages")
    draft = api.new(checkout, "own", tmp_path / "own", commit="HEAD")
    assert (draft.exact, draft.edits) == (True, 1)


@pytest.mark.parametrize("identifier", ["My Fix", "-fix", "fix\n", "a/b", ""])
def test_malformed_id_is_reported_before_a_commit_is_drafted(
    checkout: CheckoutTree, tmp_path: Path, identifier: str
) -> None:
    (checkout.package / MIRROR).write_text(SOURCES[MIRROR].decode().replace("copies = 0", "copies = 1"))
    git(checkout.root, "commit", "-qam", "One copy")
    words = ["new", "--from-commit", "HEAD", "--on", str(checkout.root), "-o", str(tmp_path / "own")]
    made = CliRunner().invoke(main, [*words, "--", identifier])
    assert (made.exit_code, made.stdout) == (2, "")
    assert made.stderr.startswith("error: PATCH-ID ")
    assert "help: use letters, digits, `.`, `_` and `-`" in made.stderr
    assert "--from-commit" not in made.stderr
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("here", "on"), [("fork", None), ("fork/python/sglang/srt", None), (".", "fork")], ids=str
)
def test_what_is_suggested_for_a_commit_tests_the_draft_on_the_tree_before_it(
    checkout: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, on: str | None
) -> None:
    text = SOURCES[MIRROR].decode()
    (checkout.package / MIRROR).write_text(text.replace("copies = 0", "copies = 0\n    pages = 1"))
    git(checkout.root, "commit", "-qam", "More pages")
    monkeypatch.chdir(tmp_path / here)
    folder = tmp_path / "own"
    tree = ["--on", on] if on else []
    made = CliRunner().invoke(main, ["new", "own", "--from-commit", "HEAD", "-o", str(folder), *tree])
    assert made.exit_code == 0, made.output
    named = re.search(r"patchkit (test \S+ --on \S+) .*(git .*worktree add .*) checks out", made.stdout)
    assert named, made.stdout
    subprocess.run(shlex.split(named[2]), check=True, capture_output=True)
    tried = CliRunner().invoke(main, named[1].split())
    assert tried.stdout.startswith(f"ok {named[1].split()[-1]} ")
    assert tried.stdout.endswith("pending, 1 file\n")
    again = CliRunner().invoke(main, ["test", str(folder), "--on", str(checkout.root)])
    assert (again.exit_code, "ok" in again.stdout) == (0, False)
    assert again.stdout.endswith("upstream: nothing to test\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it changes no file of the package"),
        ("nothing", "it changes no file of the package"),
        ("--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-a\n+b\n", "x.txt: it is outside the package folder"),
    ],
    ids=["empty", "no-diff", "outside"],
)
def test_a_diff_of_nothing_here_is_refused(
    tree: CheckoutTree, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        api.new(tree, "own", tmp_path / "own", diff=text)
    assert not (tmp_path / "own").exists()


def test_a_diff_of_another_tree_is_refused(tree: CheckoutTree, tmp_path: Path) -> None:
    text = f"--- a/python/sglang/{MIRROR}\n+++ b/python/sglang/{MIRROR}\n@@ -1 +1 @@\n-nowhere\n+here\n"
    with pytest.raises(UsageError, match="are not in the tree"):
        api.new(tree, "own", tmp_path / "own", diff=text)
    assert not (tmp_path / "own").exists()


def test_a_patch_that_is_there_is_not_written_over(tree: CheckoutTree, tmp_path: Path) -> None:
    add_patch(tmp_path, "own", attribute(MIRROR, "Mirror", "a = 1"))
    with pytest.raises(UsageError, match="already has a patch"):
        drafted(tree, tmp_path, BEFORE.replace("4", "5"))


def test_a_patch_is_tried_on_copies(tree: CheckoutTree, checkout: CheckoutTree, tmp_path: Path) -> None:
    before = everything(tree.root), everything(checkout.root)
    folder = add_patch(tmp_path / "own", "t-own", attribute(MIRROR, "Mirror", "own = 1")).parent
    ran = CliRunner().invoke(
        main, ["test", str(folder), "--on", str(tree.root), str(checkout.root), "--json"]
    )
    trials: Any = json.loads(ran.stdout)
    assert [trial["state"] for trial in trials] == ["pending", "pending"]
    assert [trial["files"] for trial in trials] == [[MIRROR], [MIRROR]]
    assert all("revert" not in problem for trial in trials for problem in trial["problems"])
    assert (everything(tree.root), everything(checkout.root)) == before


def test_a_patch_that_conflicts_exits_1(tree: CheckoutTree, tmp_path: Path) -> None:
    folder = add_patch(tmp_path / "own", "t-own", attribute(MIRROR, "Nobody", "own = 1")).parent
    ran = CliRunner().invoke(main, ["test", str(folder), "--on", str(tree.root)])
    assert ran.exit_code == 1
    assert "the tree has no Nobody" in ran.stdout

from __future__ import annotations

import difflib
import json
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
    return api.new(tree, "own", folder / "own", diff="".join(lines))


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


def test_a_new_method_is_drafted(tree: CheckoutTree, tmp_path: Path) -> None:
    method = "\n    def hook(self):\n        return None\n"
    after = BEFORE.replace("        return batch.total\n", "        return batch.total\n" + method)
    assert drafted(tree, tmp_path, after).exact


@pytest.mark.parametrize(
    "gone",
    [
        "            self.log(size)\n",
        "        total = batch.total\n",
        "        if batch.wide:\n            size = total * 2\n            self.log(size)\n",
        "            size = total * 2\n            self.log(size)\n",
        "LIMIT = 4\n",
        "    flag = False\n",
    ],
    ids=["nested", "first", "block", "all-of-a-block", "module", "attribute"],
)
def test_statements_that_go_are_drafted_as_a_deletion(tree: CheckoutTree, tmp_path: Path, gone: str) -> None:
    left = "            pass\n" if gone.count("\n") == 2 else ""
    before = BEFORE.replace("LIMIT = 4\n", "LIMIT = 4\nWIDTH = 5\n").replace(
        "flag = False", "flag = False\n    deep = 1"
    )
    draft = drafted(tree, tmp_path, before.replace(gone, left, 1), before)
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    text = draft.file.read_text()
    assert 'kind = "delete"' in text
    assert "context = [" in text
    assert "pass" not in text


@pytest.mark.parametrize(
    "gone",
    [
        "    def other(self, batch):\n        return batch.total\n",
        "import os\n",
        "    from os import sep\n",
    ],
    ids=["method", "import", "import-in-a-block"],
)
def test_a_definition_and_an_import_that_go_are_drafted_as_a_deletion(
    tree: CheckoutTree, tmp_path: Path, gone: str
) -> None:
    before = f"if LATER:\n    from os import sep\n    from os import name\n{BEFORE}"
    draft = drafted(tree, tmp_path, before.replace(gone, "", 1), before)
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    assert 'kind = "delete"' in draft.file.read_text()


def test_statements_that_go_from_two_places_alike_are_marked(tree: CheckoutTree, tmp_path: Path) -> None:
    before = BEFORE.replace("        return size", "        self.log(size)\n        return size")
    draft = drafted(
        tree, tmp_path, before.replace("        self.log(size)\n        return", "        return"), before
    )
    assert any("more than once" in one for one in draft.todo)
    assert not draft.exact


def test_a_body_that_goes_whole_has_nothing_that_shows_where(tree: CheckoutTree, tmp_path: Path) -> None:
    draft = drafted(tree, tmp_path, BEFORE.replace("        return batch.total\n", "        pass\n"))
    assert draft.exact
    assert 'kind = "rewrite"' in draft.file.read_text()


def test_a_new_file_is_drafted(tree: CheckoutTree, tmp_path: Path) -> None:
    diff = "--- /dev/null\n+++ b/python/sglang/srt/fresh.py\n@@ -0,0 +1,3 @@\n+import os\n+\n+HOME = os.sep\n"
    draft = api.new(tree, "own", tmp_path / "own", diff=diff)
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())
    assert 'kind = "new-file"' in draft.file.read_text()


def test_what_no_edit_can_say_is_left_to_do(tree: CheckoutTree, tmp_path: Path) -> None:
    only = "class Backend:\n    def other(self, batch):\n        return batch.total\n"
    draft = drafted(tree, tmp_path, "class Backend:\n    flag = True\n", only)
    assert not draft.exact
    assert any("goes" in one for one in draft.todo)
    assert "# todo:" in draft.file.read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def other(self, batch)", "def other(self)", "its parameter batch goes"),
        ("class Backend(Base)", "class Backend", "its base Base goes"),
        ("    def other", "    @property\n    def other", "its decorators change"),
    ],
    ids=["parameter", "base", "decorator"],
)
def test_what_goes_from_a_header_is_said(
    tree: CheckoutTree, tmp_path: Path, old: str, new: str, said: str
) -> None:
    draft = drafted(tree, tmp_path, BEFORE.replace(old, new).replace("LIMIT = 4", "LIMIT = 5"))
    assert (draft.exact, draft.edits) == (False, 1)
    assert [said in one for one in draft.todo] == [True]
    assert said in draft.file.read_text()
    assert "own" in load.patches((draft.file.parent,)).ids


def test_a_draft_is_a_patch_that_loads(tree: CheckoutTree, tmp_path: Path) -> None:
    draft = drafted(tree, tmp_path, BEFORE.replace("flag = False", "flag = False\n    more = 1"))
    assert "own" in load.patches((draft.file.parent,)).ids


def test_a_docstring_is_no_edit(tree: CheckoutTree, tmp_path: Path) -> None:
    before = BEFORE.replace("        total =", '        """Plan."""\n        total =')
    draft = drafted(
        tree, tmp_path, before.replace("Plan.", "Plan it.").replace("total * 2", "total * 4"), before
    )
    assert (draft.exact, draft.edits, draft.todo) == (True, 1, ())


def test_a_commit_is_drafted_from_its_own_parent(checkout: CheckoutTree, tmp_path: Path) -> None:
    text = SOURCES[MIRROR].decode()
    (checkout.package / MIRROR).write_text(text.replace("copies = 0", "copies = 0\n    pages = 1"))
    git(checkout.root, "commit", "-qam", "More pages")
    draft = api.new(checkout, "own", tmp_path / "own", commit="HEAD")
    assert (draft.exact, draft.edits) == (True, 1)


@pytest.mark.parametrize("text", ["", "nothing", "--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-a\n+b\n"])
def test_a_diff_of_nothing_here_is_refused(tree: CheckoutTree, tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="changes no Python file"):
        api.new(tree, "own", tmp_path / "own", diff=text)


def test_a_diff_of_another_tree_is_refused(tree: CheckoutTree, tmp_path: Path) -> None:
    text = f"--- a/python/sglang/{MIRROR}\n+++ b/python/sglang/{MIRROR}\n@@ -1 +1 @@\n-nowhere\n+here\n"
    with pytest.raises(UsageError, match="are not in the tree"):
        api.new(tree, "own", tmp_path / "own", diff=text)
    assert not (tmp_path / "own").exists()


def test_a_patch_that_is_there_is_not_written_over(tree: CheckoutTree, tmp_path: Path) -> None:
    add_patch(tmp_path, "own", attribute(MIRROR, "Mirror", "a = 1"))
    with pytest.raises(UsageError, match="is there already"):
        drafted(tree, tmp_path, BEFORE.replace("4", "5"))


def test_a_patch_is_tried_on_copies(tree: CheckoutTree, checkout: CheckoutTree, tmp_path: Path) -> None:
    before = everything(tree.root), everything(checkout.root)
    folder = add_patch(tmp_path / "own", "t-own", attribute(MIRROR, "Mirror", "own = 1")).parent
    ran = CliRunner().invoke(
        main, ["test", str(folder), "--on", str(tree.root), str(checkout.root), "--json"]
    )
    told: Any = json.loads(ran.stdout)
    assert [trial["state"] for trial in told] == ["pending", "pending"]
    assert [trial["files"] for trial in told] == [[MIRROR], [MIRROR]]
    assert all("revert" not in problem for trial in told for problem in trial["problems"])
    assert (everything(tree.root), everything(checkout.root)) == before


def test_a_patch_that_conflicts_exits_1(tree: CheckoutTree, tmp_path: Path) -> None:
    folder = add_patch(tmp_path / "own", "t-own", attribute(MIRROR, "Nobody", "own = 1")).parent
    ran = CliRunner().invoke(main, ["test", str(folder), "--on", str(tree.root)])
    assert ran.exit_code == 1
    assert "the tree has no Nobody" in ran.stdout

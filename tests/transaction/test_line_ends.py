"""A revert gives back the line ends, the byte order mark and the end of each file, whatever git's settings are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.repositories import clone, committing
from support.sweeps import crossed
from support.toys import ABRUPT, CRLF, MIRROR, add_patch, git, rewriting

from patchkit import api
from patchkit.patchset.load import patches as load
from patchkit.transaction.undo import undo

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

SETTINGS = {
    "crlf": ("*.py text eol=crlf\n", "false"),
    "lf": ("*.py text eol=lf\n", "false"),
    "auto": ("* text=auto\n", "true"),
    "autocrlf": ("", "true"),
    "input": ("", "input"),
    "binary": ("*.py -text\n", "true"),
    "plain": ("", "false"),
}
FILES = (MIRROR, CRLF, ABRUPT)
BODY = b"class Worker:\n    steps = 3\n    stop = None"
TEXTS = {
    "abrupt": BODY,
    "ended": BODY + b"\n",
    "marked": b"\xef\xbb\xbf" + BODY,
    "empty-lines": BODY + b"\n\n\n",
}


def settle(tree: CheckoutTree, attributes: str, autocrlf: str) -> None:
    """Set the line ends of a checkout, and have the files as git then writes them."""
    git(tree.root, "config", "core.autocrlf", autocrlf)
    git(tree.root, "config", "core.safecrlf", "false")
    (tree.root / ".gitattributes").write_text(attributes)
    git(tree.root, "add", "--renormalize", ".")
    git(tree.root, "add", "-A")
    git(tree.root, "commit", "-q", "--allow-empty", "-m", "Attributes")
    for file in FILES:
        (tree.package / file).unlink()
    git(tree.root, "checkout", "-q", ".")


@pytest.mark.parametrize(("setting", "text"), crossed(SETTINGS, TEXTS, one_in=4))
def test_committed_patch_is_reverted_to_the_same_bytes(
    checkout: CheckoutTree, patch_folder: Path, tmp_path: Path, setting: str, text: str
) -> None:
    add_patch(
        patch_folder,
        "t-last",
        rewriting("stop", f"{ABRUPT}::Worker", "stop = None", "stop = 0"),
        rewriting("depth", MIRROR, "depth = 1", "depth = 2"),
        rewriting("flag", f"{CRLF}::Backend", "flag = False", "flag = True"),
    )
    patches = load()
    fork = committing(checkout)
    (fork.package / ABRUPT).write_bytes(TEXTS[text])
    git(fork.root, "add", "-A")
    git(fork.root, "commit", "-q", "--allow-empty", "-m", "x")
    settle(fork, *SETTINGS[setting])
    before = {file: fork.read(file) for file in FILES}
    api.commit(fork, patches)
    assert git(fork.root, "status", "--porcelain") == ""
    there = clone(fork, tmp_path, "-c", f"core.autocrlf={SETTINGS[setting][1]}")
    for tree in (fork, there):
        api.revert(tree, patches)
        assert {file: tree.read(file) for file in FILES} == before
        git(tree.root, "checkout", "-q", ".")
        api.revert(tree, patches, ("t-last",))
        git(tree.root, "commit", "-qam", "Reverted")
        api.revert(tree, patches)
        assert {file: tree.read(file) for file in FILES} == before
    git(fork.root, "add", "-A")
    git(fork.root, "commit", "-qm", "All reverted")
    api.apply(fork, patches)
    api.revert(fork, patches)
    assert {file: fork.read(file) for file in FILES} == before


def test_a_file_that_patchkit_made_goes_with_whatever_line_ends() -> None:
    assert undo("a.py", b"one = 1\ntwo = 2\n", b"one = 1\r\ntwo = 2\r\n", None) == (None, None)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("mine", [b"", b"mine = 1"])
def test_the_last_line_has_an_end_if_it_had_one_or_a_person_gave_it_one(end: bytes, mine: bytes) -> None:
    newline = b"\r\n" if end == b"\r\n" else b"\n"
    original = b"one = 1\ntwo = 2" + end.replace(b"\r", b"")
    written = original.replace(b"two = 2", b"# patchkit toy: why\ntwo = 3")
    start = mine + newline if mine else b""
    ours = start + written.replace(b"\n", newline)
    assert undo("a.py", written, ours, original).text == start + original.replace(b"\n", newline)
    given = ours + newline
    if not end:
        assert (
            undo("a.py", written, given, original).text == start + original.replace(b"\n", newline) + newline
        )

"""Files are read from commits, many by one git."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from support.toys import CRLF, MIRROR, SOURCES, git

from patchkit.errors import TreeError
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def test_files_of_several_commits_are_read_as_each_alone(checkout: CheckoutTree) -> None:
    odd = "srt/a 5 blob\n7.py"
    (checkout.package / MIRROR).write_bytes(b"\nblob 3\n\n")
    (checkout.package / CRLF).write_bytes(b"")
    (checkout.package / odd).write_bytes(b"odd = 1\n")
    git(checkout.root, "add", "--all")
    git(checkout.root, "commit", "-qm", "Other files")
    read = Checkout(checkout.package)
    there = {
        ("HEAD", MIRROR): b"\nblob 3\n\n",
        ("HEAD", CRLF): b"",
        ("HEAD^", MIRROR): SOURCES[MIRROR],
        ("HEAD^", CRLF): SOURCES[CRLF],
    }
    absent = [("HEAD", "srt"), ("HEAD", "none.py"), ("HEAD^^", MIRROR), ("HEAD^", "a blob 5"), ("HEAD", odd)]
    at = read.reader([*absent[:3], *there, *absent[3:]])
    assert {place: at(*place) for place in there} == {place: read.at(*place) for place in there} == there
    assert at("HEAD", odd) == b"odd = 1\n"
    assert at("HEAD", "none.py") is None


def test_an_object_that_git_cannot_read_is_an_error_for_its_file_alone(checkout: CheckoutTree) -> None:
    blob = git(checkout.package, "rev-parse", f"HEAD:./{MIRROR}").strip()
    path = checkout.root / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    at = Checkout(checkout.package).reader([("HEAD", MIRROR), ("HEAD", CRLF)])
    assert at("HEAD", CRLF) == SOURCES[CRLF]
    with pytest.raises(TreeError, match="git cannot"):
        at("HEAD", MIRROR)


@pytest.mark.parametrize("name", [MIRROR, "srt/\u6587.py", 'srt/q"x.py', "srt/\udcff.py"])
def test_commits_that_touch_a_text_are_found_in_a_file_of_any_name(checkout: CheckoutTree, name: str) -> None:
    texts = ("one\n", "one\n# mark\n", "one\n", "one\n# mark\n")
    for text in texts:
        (checkout.package / name).write_text(text)
        (checkout.package / "srt" / "other.py").write_text(text)
        git(checkout.root, "add", "-A")
        git(checkout.root, "commit", "-qm", "x")
    commits = git(checkout.root, "log", "-4", "--format=%H").split()
    pairs = list(pairwise(commits))
    assert Checkout(checkout.package).touching("# mark", [name]) == {name: pairs}
    assert Checkout(checkout.package).touching("# mark", [name, "srt/other.py"])["srt/other.py"] == pairs


def test_a_checkout_tracks_a_package_that_its_head_or_its_index_has(checkout: CheckoutTree) -> None:
    def is_tracked() -> bool:
        return Checkout.tracking(checkout.package) is not None

    git(checkout.root, "rm", "-q", "--cached", "*/sglang/__init__.py")
    assert is_tracked()
    git(checkout.root, "commit", "-qm", "Without the package")
    assert not is_tracked()
    git(checkout.root, "add", "--all")
    assert is_tracked()
    git(checkout.root, "update-ref", "-d", "HEAD")
    assert is_tracked()

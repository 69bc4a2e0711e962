"""Files are read from commits, many by one git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.toys import CRLF, MIRROR, SOURCES, git

from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def test_files_of_several_commits_are_read_and_what_is_no_file_is_left_out(checkout: CheckoutTree) -> None:
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
    assert read.blobs([*absent[:3], *there, *absent[3:]]) == there
    assert {place: read.at(*place) for place in there} == there
    assert read.at("HEAD", odd) == b"odd = 1\n"


def test_an_object_that_git_cannot_read_is_left_to_the_one_that_says_why(checkout: CheckoutTree) -> None:
    blob = git(checkout.package, "rev-parse", f"HEAD:./{MIRROR}").strip()
    path = checkout.root / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    assert ("HEAD", MIRROR) not in Checkout(checkout.package).blobs([("HEAD", MIRROR), ("HEAD", CRLF)])

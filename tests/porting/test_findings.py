"""After a port only what is new is a finding: what was wrong with the tree before is not the port's."""

from __future__ import annotations

from patchkit.porting.findings import findings_of
from patchkit.tree.tree import MemoryTree

DESK, SHELF = "srt/desk.py", "srt/shelf.py"
HELPERS = b"def put(book):\n    return book\n"
WRONG = b"""\
from sglang.srt.shelf import put, gone


def lend(book):
    put(book, 1)
    return nobody(book)
"""
MORE = b"""\


def take(book):
    put(book, 2)
    return nowhere(book)
"""


def found(before: bytes, after: bytes) -> list[tuple[str, str]]:
    tree = MemoryTree({DESK: before, SHELF: HELPERS})
    return [(each.function, each.message) for each in findings_of(tree, {DESK: after}, ())]


def test_what_was_wrong_before_is_no_finding() -> None:
    assert found(WRONG, WRONG + b"\n\ndef take(book):\n    return put(book)\n") == []


def test_what_is_wrong_once_more_is_one_finding_each() -> None:
    findings = found(WRONG, WRONG + MORE)
    assert len(findings) == 2
    assert all(any(word in message for _, message in findings) for word in ("`nowhere`", "put ("))


def test_all_that_is_wrong_in_a_new_file_is_a_finding() -> None:
    tree = MemoryTree({SHELF: HELPERS})
    messages = [each.message for each in findings_of(tree, {DESK: WRONG}, ())]
    assert len(messages) == 3

"""A pattern is shown to people as code: names that are known by what they stand for, others by their own names."""

from __future__ import annotations

import libcst as cst
import pytest

from patchkit.codemods.language.template import readable

BOOK = cst.parse_expression("shelf.books[0]")
NOTES = tuple(cst.parse_module("note(1)\nnote(2)\n").body)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$desk.lend($book)", "desk.lend(shelf.books[0])"),
        ("if $book.late:\n    $desk.fine($book)", "if shelf.books[0].late:\n    desk.fine(shelf.books[0])"),
        ("$desk.open()\n$$notes\n$desk.close()", "desk.open()\nnote(1)\nnote(2)\ndesk.close()"),
        ("$desk.open()\n$$between\n$desk.close()", "desk.open()\n# ... (between)\ndesk.close()"),
        ("$desk.open()\n...\n$desk.close()", "desk.open()\n# ...\ndesk.close()"),
        ("if $desk:\n    $$inside\n", "if desk:\n    # ... (inside)"),
        ("desk.open()\n", "desk.open()"),
        ("desk.open()\n# and that is all\n", "desk.open()\n# and that is all"),
        ("def lend(self, $book):", "def lend(self, book):"),
    ],
)
def test_a_pattern_is_shown_as_code(text: str, shown: str) -> None:
    assert readable(text, {"book": BOOK, "notes": NOTES}) == shown

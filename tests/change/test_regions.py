"""The region of a conflict is a run of statements or a header."""

from __future__ import annotations

import pytest

from patchkit.change.outline import outline
from patchkit.change.regions import Region

TEXT = """\
# Lends books.
import os


class Desk:
    days = 14

    # A book goes out once.
    def lend(self, book):
        if book.out:
            raise ValueError(book)
        book.out = True


def fee(days):
    return days
"""


def lines(region: Region) -> str:
    first, end = region.lines()
    return "".join(TEXT.splitlines(keepends=True)[first - 1 : end - 1])


def test_the_lines_of_an_item_are_its_text_without_the_comments_above_it() -> None:
    items = [node for node in outline(TEXT).walk() if node.parent is not None]
    assert [item.name for item in items if item.is_definition] == ["Desk", "lend", "fee"]
    for item in items:
        assert lines(Region.of(item)) == item.text.removeprefix(item.lead)
        assert Region.of(item).text == item.dedented
        assert Region.of(item).line == item.line


@pytest.mark.parametrize(
    ("site", "header"), [("Desk", "class Desk:\n"), ("Desk.lend", "def lend(self, book):\n")]
)
def test_a_header_is_without_its_block(site: str, header: str) -> None:
    item = outline(TEXT).find(site)
    assert item is not None
    region = Region(item)
    assert (region.text, lines(region).lstrip(), region.line) == (header, header, item.line)

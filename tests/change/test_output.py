"""The text of a file after edits of its items, in whatever order they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.change.outline import Item, outline
from patchkit.change.output import Output
from patchkit.change.regions import Region, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = """\
# Lends.
import os

# Of days.
days = 14


class Desk:
    # First.
    size = 1

    def lend(self, book):
        note(book)
        return book
# The end.
"""


def item(root: Item, start: str) -> Item:
    return next(
        each for each in root.walk() if each.own.strip().startswith(start) and each.parent is not None
    )


EDITS: dict[str, tuple[Callable[[Output, Item], None], tuple[str, str]]] = {
    "nothing": (lambda output, root: None, ("", "")),
    "another text": (lambda output, root: output.write(item(root, "days"), "days = 15\n"), ("= 14", "= 15")),
    "a deeper one": (
        lambda output, root: output.write(item(root, "size"), "size = (\n    2\n)\n"),
        ("size = 1", "size = (\n        2\n    )"),
    ),
    "another header": (
        lambda output, root: output.write_head(item(root, "def lend"), "def lend(self):\n"),
        ("(self, book)", "(self)"),
    ),
    "other comments": (
        lambda output, root: output.write_lead(item(root, "size"), "    # Other.\n"),
        ("# First", "# Other"),
    ),
    "an end": (lambda output, root: output.write_tail(root, "# Over.\n"), ("# The end", "# Over")),
    "nothing left": (
        lambda output, root: output.delete(item(root, "note")),
        ("        note(book)\n", ""),
    ),
    "its comment left": (
        lambda output, root: output.delete(item(root, "days"), "# Of none.\n"),
        ("\n# Of days.\ndays = 14\n", "# Of none.\n"),
    ),
    "a line more": (
        lambda output, root: output.insert(item(root, "def lend"), 1, "        count(book)"),
        ("        return", "        count(book)\n        return"),
    ),
    "a line at the end": (
        lambda output, root: output.insert(item(root, "def lend"), 2, "        pass\n"),
        ("return book\n", "return book\n        pass\n"),
    ),
}


@pytest.mark.parametrize(("edit", "change"), EDITS.values(), ids=EDITS)
def test_an_edit_changes_its_place_alone(
    edit: Callable[[Output, Item], None], change: tuple[str, str]
) -> None:
    output, root = Output(), outline(TEXT)
    edit(output, root)
    assert output.render(root) == TEXT.replace(*change, 1)


def test_other_comments_are_above_another_text() -> None:
    output, root = Output(), outline(TEXT)
    size = item(root, "size")
    output.write_lead(size, "    # Other.\n")
    output.write(size, "size = 2\n")
    assert output.lead(size) == "    # Other.\n"
    assert output.render(root) == TEXT.replace("size = 1", "size = 2").replace("# First", "# Other")


def test_what_is_inserted_at_one_place_is_in_the_order_in_which_it_came() -> None:
    output, root = Output(), outline(TEXT)
    for line in ("a()\n", "b()", "c()\n"):
        output.insert(root, 1, line)
    assert "import os\na()\nb()\nc()\n\n# Of days" in output.render(root)


def test_the_first_part_that_stays() -> None:
    output, root = Output(), outline(TEXT)
    lend = item(root, "def lend")
    assert output.first(lend) is lend.children[0]
    output.delete(lend.children[0])
    assert output.first(lend) is lend.children[1]
    output.write(lend.children[1], "return 1\n")
    assert output.first(lend) is lend.children[1]
    output.insert(lend, 1, "pass")
    assert output.first(lend) is None


def test_a_file_without_a_last_line_end_gets_one_below_which_more_comes() -> None:
    root = outline("a()\nb()")
    output = Output()
    output.insert(root, 2, "c()\n")
    assert output.render(root) == "a()\nb()\nc()\n"
    output.write(root.children[1], "d()")
    assert output.render(root) == "a()\nd()\nc()\n"


def test_a_statement_that_comes_to_a_file_of_comments_is_below_those_that_it_lacks() -> None:
    root, other = outline("# Ours.\n# Lends.\n"), outline("# Lends.\n# Why.\nx = 1\n")
    output = Output()
    output.insert_below(root, other.children[0])
    assert output.render(root) == "# Ours.\n# Lends.\n# Why.\nx = 1\n"


def test_a_conflict_shows_what_was_inserted_among_its_lines() -> None:
    root = outline(TEXT)
    lend, output = item(root, "def lend"), Output()
    output.insert(lend, 0, "        first()\n")
    output.insert(lend, 1, "        count(book)\n")
    output.write(lend.children[1], "return 1\n")
    blocks = blocks_of("77", [(Region(lend, 0, 2), 3, "note()\n", "tell()\n")])
    assert output.render(lend, blocks) == (
        "\n    def lend(self, book):\n        first()\n<<<<<<< found (patchkit 77 edit-3)\n"
        "        note(book)\n        count(book)\n        return 1\n"
        "||||||| expected\n        note()\n=======\n        tell()\n>>>>>>> wanted (patchkit 77 edit-3, port)\n"
    )


def test_a_conflict_of_a_header_shows_what_is_written_there() -> None:
    root = outline(TEXT)
    lend, output = item(root, "def lend"), Output()
    output.write_head(lend, "def lend(self):\n")
    blocks = blocks_of("77", [(Region(lend), 1, "def lend():\n", "def lend(book):\n")])
    assert output.render(lend, blocks) == (
        "\n<<<<<<< found (patchkit 77 edit-1)\n    def lend(self):\n||||||| expected\n    def lend():\n"
        "=======\n    def lend(book):\n>>>>>>> wanted (patchkit 77 edit-1, port)\n"
        "        note(book)\n        return book\n"
    )

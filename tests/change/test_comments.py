"""The comments of a text, and those that stay where a statement changes or goes."""

from __future__ import annotations

from collections import Counter

import pytest

from patchkit.change.comments import (
    comments,
    loses_comments,
    merged_blank_lines,
    remaining_comments,
    remaining_lead,
    spaced,
    spaced_as,
    stripped_lines,
    words_and_comments,
)


def test_words_and_comments_are_in_their_order_and_strings_are_words() -> None:
    assert words_and_comments("# above\na = '# no'  # why\n") == ["# above", "a", "=", "'# no'", "# why"]
    assert comments("# one\n# one\na = '# no'\n") == Counter({"# one": 2})
    assert stripped_lines("  a\n\n \tb \n") == ["a", "b"]


@pytest.mark.parametrize(
    ("ours", "base", "result", "loses"),
    [
        ("# own\na\n", "a\n", "a\n", True),
        ("# own\na\n", "a\n", "a  # own\n", False),
        ("# own\na\n", "# own\na\n", "a\n", False),
        ("# own\n# own\n", "# own\n", "", True),
        ("a\n", "# gone\na\n", "a\n", False),
    ],
)
def test_comments_of_ones_own_that_a_result_lacks(ours: str, base: str, result: str, loses: bool) -> None:
    assert loses_comments(ours, base, result) is loses


@pytest.mark.parametrize(
    ("old", "new", "ours", "left"),
    [
        (["# a", "# b"], ["# b"], "# a\n# own\n# b\n", "# own\n# b\n"),
        (["# a"], [], "  # a\n\n# own\n", "\n# own\n"),
        (["# a", "# a"], ["# a"], "# a\n# a\n# a\n", "# a\n# a\n"),
        (["# a"], ["# a", "# b"], "# a\n", None),
        (["# a", "# b"], ["# b", "# a"], "# a\n", None),
        ([], [], "# own\n", "# own\n"),
    ],
)
def test_the_comments_that_a_change_leaves(
    old: list[str], new: list[str], ours: str, left: str | None
) -> None:
    assert remaining_comments(old, new, ours) == left


@pytest.mark.parametrize(
    ("removed", "ours", "left"),
    [
        ("# a\n", "# a\n", ""),
        ("# a\n", "# own\n# a\n", "# own\n"),
        ("\n# a\n", "\n\n# a\n", "\n"),
        ("\n\n", "\n", ""),
        ("", "\n\n", "\n\n"),
        ("# a\n", "\n# own\n# a\n", "\n# own\n"),
    ],
)
def test_what_stays_above_a_statement_that_goes(removed: str, ours: str, left: str) -> None:
    assert remaining_lead(removed, ours) == left


def test_blank_lines_above_are_the_changes_unless_this_tree_has_others() -> None:
    assert spaced_as("\n\n# x\n", "\n# own\n") == "\n\n# own\n"
    assert spaced_as("\n\n", "") == "\n\n"
    assert merged_blank_lines("\n# a\n", "\n\n# b\n", "\n# own\n") == "\n\n# own\n"
    assert merged_blank_lines("\n# a\n", "\n\n# b\n", "# own\n") == "# own\n"
    assert spaced("\n", "\n\n", "\n# own\n", "# own\n") == "\n\n# own\n"
    assert spaced("\n", "\n\n", "# own\n", "\n# own\n") == "# own\n"

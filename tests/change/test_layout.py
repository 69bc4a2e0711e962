"""The layout of a merged text, and the end of its last line."""

from __future__ import annotations

import pytest

from patchkit.change.layout import ended, laid_out


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "made"),
    [
        ("a\n", "a\n", "a\n", "x\n"),
        ("a", "a\n", "a", "x\n"),
        ("a\n", "a", "a\n", "x"),
        ("a\n", "a\n", "a", "x"),
        ("a", "a", "a\n", "x\n"),
    ],
)
@pytest.mark.parametrize("text", ["x", "x\n"])
def test_the_last_line_ends_as_the_change_or_this_tree_has_it(
    base: str, theirs: str, ours: str, made: str, text: str
) -> None:
    assert ended(base, theirs, ours, text) == made
    assert ended(base, theirs, ours, "") == ""


BASE = "a = 1\nb = 2\n\n\nc = 3\n"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a = 9\nb = 2\nc = 4\n", "a = 9\nb = 2\n\n\nc = 4\n"),
        ("a = (9)\nb = 2\nc = 4\n", "a = (9)\nb = 2\nc = 4\n"),
        ("a = 9  # why\nb = 2\nc = 4\n", "a = 9  # why\nb = 2\nc = 4\n"),
        ("a = 8\nb = 2\nc = 4\n", "a = 8\nb = 2\nc = 4\n"),
    ],
)
def test_a_clean_merge_by_lines_gives_the_layout_if_it_has_the_same_code(text: str, made: str) -> None:
    theirs, ours = BASE.replace("a = 1", "a = 9"), BASE.replace("c = 3", "c = 4")
    assert laid_out(BASE, theirs, ours, text) == made


def test_a_merge_by_lines_with_a_conflict_gives_no_layout() -> None:
    assert laid_out("a = 1\n", "a = 2\n", "a = 3\n", "a = 4") == "a = 4\n"

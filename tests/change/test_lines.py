"""Texts other than Python are merged line by line, and conflicts are reported."""

from __future__ import annotations

import pytest

from patchkit.change.lines import clean, merged, with_block

BASE = "one\ntwo\nthree\nfour\nfive\n"


def outcomes(theirs: str, ours: str) -> tuple[str, list[str]]:
    text, edits = merged(BASE, theirs, ours)
    return text, [edit.outcome.value for edit in edits]


def test_changes_apart_come_to_both() -> None:
    theirs, ours = BASE.replace("two", "2"), BASE.replace("five", "5\n6")
    assert outcomes(theirs, ours) == (ours.replace("two", "2"), ["landed"])


def test_lines_that_come_and_go_do_so_there() -> None:
    theirs = BASE.replace("two\n", "").replace("four\n", "four\n4.5\n")
    assert outcomes(theirs, "zero\n" + BASE) == ("zero\n" + theirs, ["landed", "landed"])


def test_what_is_there_stays_as_it_is() -> None:
    theirs = BASE.replace("two", "2")
    assert outcomes(theirs, theirs) == (theirs, ["already"])


@pytest.mark.parametrize(
    ("theirs", "ours", "result"),
    [
        (BASE.replace("two", "2"), BASE, BASE.replace("two", "2")),
        (BASE.replace("two", "2"), BASE.replace("two", "2"), BASE.replace("two", "2")),
        (
            BASE.replace("two", "2").replace("five", "5"),
            BASE.replace("two", "2"),
            BASE.replace("two", "2").replace("five", "5"),
        ),
        (BASE, BASE.replace("two", "II"), BASE.replace("two", "II")),
        (BASE.replace("two", "2"), BASE.replace("two", "II"), None),
        (BASE.replace("two", "2").replace("five", "5"), BASE.replace("two", "II"), None),
    ],
)
def test_a_merge_of_lines_is_clean_if_all_changes_are_made_or_there(
    theirs: str, ours: str, result: str | None
) -> None:
    assert clean(BASE, theirs, ours) == result


def test_what_both_change_is_a_conflict() -> None:
    ours = BASE.replace("two", "II")
    assert outcomes(BASE.replace("two", "2"), ours) == (ours, ["conflict"])


def test_lines_without_their_neighbours_are_a_conflict() -> None:
    assert outcomes(BASE.replace("two", "2"), "alpha\nbeta\n") == ("alpha\nbeta\n", ["conflict"])


def test_a_form_feed_above_moves_no_line_that_a_conflict_names() -> None:
    base = f"a\x0cb\u2028c\r\n{BASE}"
    text, edits = merged(base, base.replace("two", "2"), base.replace("two", "II"))
    assert (text, [edit.site for edit in edits]) == (base.replace("two", "II"), ["line 3"])


def test_changes_of_a_long_table_of_equal_lines_are_told_apart() -> None:
    table = ["start\n", *["0,\n"] * 300, "end\n"]
    theirs, ours = table.copy(), table.copy()
    theirs[0], theirs[-1] = "begin\n", "stop\n"
    ours[150] = "1,\n"
    text, edits = merged("".join(table), "".join(theirs), "".join(ours))
    assert [edit.outcome.value for edit in edits] == ["landed", "landed"]
    assert text == "".join(["begin\n", *ours[1:-1], "stop\n"])


LINES = [b"%d\n" % number for number in range(12)]


@pytest.mark.parametrize(
    ("ours", "made"),
    [
        (LINES, [*LINES[:5], b"new\n", *LINES[6:]]),
        # Only three lines on either side have to be the same.
        ([b"own\n", *LINES[2:9], b"own\n"], [b"own\n", *LINES[2:5], b"new\n", *LINES[6:9], b"own\n"]),
        ([*LINES[3:], b"own\n"], None),
        ([*LINES[:8], b"own\n"], None),
        ([*LINES, *LINES], None),
        ([*LINES, *LINES[2:5], b"new\n", *LINES[6:9]], None),
        ([*LINES[:5], b"new\n", *LINES[6:]], None),
    ],
)
def test_a_block_is_replaced_where_it_is_with_the_lines_around_it(
    ours: list[bytes], made: list[bytes] | None
) -> None:
    theirs = [*LINES[:5], b"new\n", *LINES[6:]]
    result = with_block(*(b"".join(lines) for lines in (LINES, theirs, ours)))
    assert result == (None if made is None else b"".join(made))


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "made"),
    [
        (b"a\nb\n", b"new\na\nb\n", b"a\nb\nown\n", b"new\na\nb\nown\n"),
        (b"a\nb\n", b"a\nb\nnew\n", b"own\na\nb\n", b"own\na\nb\nnew\n"),
        # Of equal lines, those that were changed cannot be told.
        (b"a\na\n", b"a\n", b"a\na\n", None),
        (b"a\nb\n", b"a\nb\n", b"a\nb\n", None),
    ],
)
def test_a_block_at_an_end_of_a_file(base: bytes, theirs: bytes, ours: bytes, made: bytes | None) -> None:
    assert with_block(base, theirs, ours) == made

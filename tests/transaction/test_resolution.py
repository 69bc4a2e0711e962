"""What of a file a person wrote in place of a conflict, and the fewest of their other changes that belong to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.plan.markers import marked_conflicts
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How, Record
from patchkit.plan.status import EditStatus, State
from patchkit.transaction.resolve import (
    _bounds,
    _conflict_lines,
    _Edit,
    _fewest_hunks,
    _hunks,
    _replaced,
    _Replacement,
    _resolved_text,
    _with_comment,
    _with_edit,
)
from patchkit.transaction.swap import digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ABOVE, BELOW = b"import os\n\ndef f():\n    a()\n", b"    d()\n    e()\n"
FOUND = b"    b()\n    c()\n"
MARKERS = (
    b"<<<<<<< found (patchkit one first)\n",
    b"||||||| expected\n    b(1)\n=======\n    b(2)\n",
    b">>>>>>> wanted (patchkit one first, change)\n",
)
MARKED = ABOVE + MARKERS[0] + FOUND + MARKERS[1] + MARKERS[2] + BELOW
ORIGINAL = ABOVE + FOUND + BELOW
(BLOCK,) = marked_conflicts(MARKED)


@pytest.mark.parametrize(
    ("current", "text"),
    [
        (MARKED, MARKERS[0] + FOUND + MARKERS[1] + MARKERS[2]),
        (ORIGINAL, FOUND),
        (ABOVE + b"    b(3)\n" + BELOW, b"    b(3)\n"),
        (ABOVE + BELOW, b""),
        (
            b"import sys\n" + ABOVE + b"    b(3)\n    c(3)\n" + BELOW + b"    more()\n",
            b"    b(3)\n    c(3)\n",
        ),
        (ABOVE.replace(b"a()", b"own()") + b"    b(3)\n" + BELOW, b"    own()\n    b(3)\n"),
        (b"    b(3)\n" + BELOW, b"    b(3)\n"),
        (ABOVE + b"    b(3)\n", b"    b(3)\n"),
    ],
)
def test_the_lines_in_place_of_a_conflict(current: bytes, text: bytes) -> None:
    start, end = _bounds(MARKED, BLOCK, current)
    assert b"".join(current.splitlines(keepends=True)[start:end]) == text


@pytest.mark.parametrize(
    ("current", "text"),
    [
        (MARKED, MARKERS[0] + FOUND + MARKERS[1] + MARKERS[2]),
        (ABOVE + FOUND + MARKERS[1] + MARKERS[2] + BELOW, FOUND + MARKERS[1] + MARKERS[2]),
        (ABOVE + MARKERS[0] + FOUND + BELOW, MARKERS[0] + FOUND),
        (ABOVE + FOUND + MARKERS[2] + b"    own()\n" + BELOW, FOUND + MARKERS[2]),
        (ORIGINAL, None),
        (ABOVE + b"    b(3)\n" + BELOW, None),
    ],
)
def test_a_conflict_of_which_some_markers_are_gone_is_still_there(current: bytes, text: bytes | None) -> None:
    bounds = _conflict_lines(MARKED, BLOCK, current)
    lines = None if bounds is None else b"".join(current.splitlines(keepends=True)[slice(*bounds)])
    assert lines == text


def test_other_changes_are_told_the_nearest_to_the_conflict_first() -> None:
    current = (
        ABOVE.replace(b"import os\n", b"import os, sys\n").replace(b"    a()\n", b"    a(1)\n    more()\n")
        + b"    b(3)\n"
        + BELOW.replace(b"    e()\n", b"")
    )
    bounds = (5, 6)
    hunks = _hunks(MARKED, BLOCK, current, bounds)
    assert [hunk.lines for hunk in hunks] == [(b"    a(1)\n", b"    more()\n"), (), (b"import os, sys\n",)]
    person = _Replacement(BLOCK.start, BLOCK.end, (b"    b(3)\n",))
    assert _replaced(MARKED, [person, *hunks]) == current
    assert _replaced(MARKED, []) == MARKED


@pytest.mark.parametrize("needed", [(), (0,), (3,), (9,), (0, 9), (2, 3, 7), (1, 4, 5, 8), tuple(range(10))])
def test_the_fewest_of_the_changes_that_are_needed_are_found(needed: tuple[int, ...]) -> None:
    hunks = [_Replacement(at, at + 1, (b"%d" % at,)) for at in range(10)]
    asked = 0

    def is_complete(chosen: Sequence[_Replacement]) -> bool:
        nonlocal asked
        asked += 1
        return set(needed) <= {hunk.start for hunk in chosen}

    assert sorted(hunk.start for hunk in _fewest_hunks(hunks, is_complete)) == [*needed]
    assert asked <= 2 + 6 * len(needed)
    assert _fewest_hunks(hunks, lambda chosen: False) == []
    assert _fewest_hunks([], lambda chosen: False) == []


def resolved(current: bytes, complete: bytes | None) -> tuple[bytes, tuple[bytes, bytes, int, bool]]:
    """Return the text of the record, and the lines found and written, their first line, and whether they are all."""
    status = EditStatus("first", "a.py", "f", State.CONFLICT)
    check = None if complete is None else lambda _file, text: complete in text
    text, edit = _resolved_text(MARKED, BLOCK, current, ORIGINAL, _Edit("one", status, current, check))
    assert edit.original == ORIGINAL
    return text, (edit.found, edit.text, edit.line, edit.is_whole)


OTHERS = b"import sys\n" + ABOVE.replace(b"a()", b"a(1)")


@pytest.mark.parametrize(
    ("current", "complete", "text", "edit"),
    [
        (
            ABOVE + b"    b(3)\n" + BELOW,
            b"b(3)",
            ABOVE + b"    b(3)\n" + BELOW,
            (FOUND, b"    b(3)\n", 5, True),
        ),
        (
            ABOVE + b"\n    b(3)\n" + BELOW + b"own()\n",
            b"b(3)",
            ABOVE + b"\n    b(3)\n" + BELOW,
            (FOUND, b"\n    b(3)\n", 6, True),
        ),
        # Without a check only the lines in place of the markers are the edit.
        (
            b"import sys\n" + ABOVE + b"    b(3)\n" + BELOW,
            None,
            ABOVE + b"    b(3)\n" + BELOW,
            (FOUND, b"    b(3)\n", 6, True),
        ),
        # With one also the changes without which it is not in place.
        (
            b"import sys\n" + ABOVE + b"    b(3)\n" + BELOW + b"own()\n",
            b"import sys\n",
            b"import sys\n" + ABOVE + b"    b(3)\n" + BELOW,
            (FOUND, b"    b(3)\n", 6, False),
        ),
        (ABOVE + BELOW, b"a()", ABOVE + BELOW, (FOUND, b"", 5, True)),
    ],
)
def test_what_a_person_wrote_in_place_of_a_conflict(
    current: bytes, complete: bytes | None, text: bytes, edit: tuple[bytes, bytes, int, bool]
) -> None:
    assert resolved(current, complete) == (text, edit)


@pytest.mark.parametrize(
    ("text", "line", "made"),
    [
        (b"a()\nb()\n", 1, b"# x\na()\nb()\n"),
        (b"a()\nb()\n", 2, b"a()\n# x\nb()\n"),
        (b"a()\nb()\n", 3, b"a()\nb()\n# x\n"),
        (b"a()\nb()", 3, b"a()\nb()\n# x\n"),
        (b"a()\r\n\tb()\r\n", 2, b"a()\r\n\t# x\r\n\tb()\r\n"),
        (b"a()\r\nb()", 9, b"a()\r\nb()\r\n# x\r\n"),
        (b"if a:\n    b()\n", 2, b"if a:\n    # x\n    b()\n"),
        (b"", 1, b"# x\n"),
    ],
)
def test_a_comment_is_above_its_line_or_at_the_end(text: bytes, line: int, made: bytes) -> None:
    assert _with_comment(text, line, "# x") == made


@pytest.mark.parametrize(
    ("checked", "ported", "how"),
    [
        (True, False, How.BY_HAND),
        (False, False, How.ACCEPTED),
        (True, True, How.BY_HAND),
        (False, True, How.BY_HAND),
    ],
)
def test_a_record_has_the_edit_of_a_person_in_place_of_the_former(
    checked: bool, ported: bool, how: How
) -> None:
    files = {
        name: AppliedFile(digest_of(ORIGINAL), digest_of(MARKED), ("one", "two")) for name in ("a.py", "b.py")
    }
    edits = tuple(AppliedEdit(name, file) for name in ("first", "last") for file in files)
    patches = [AppliedPatch(name, (), edits) for name in ("one", "two")]
    known = Record().with_applied(
        {"c.py": AppliedFile(None, digest_of(b"x"), ("0",))}, [AppliedPatch("0", (), ())]
    )
    known = known.with_applied(files, patches, ported=ported)
    level = len(known.layers) - 1
    status = EditStatus("first", "a.py", "f", State.CONFLICT)
    edit = _Edit("one", status, b"", (lambda _file, _text: True) if checked else None)
    after = _with_edit(known, level, edit, b"resolved\n")
    assert after.layers[:level] == known.layers[:level]
    layer = after.layers[level]
    assert layer.files["a.py"] == AppliedFile(digest_of(ORIGINAL), digest_of(b"resolved\n"), ("one", "two"))
    assert layer.files["b.py"] == files["b.py"]
    made = {patch.id: {(e.name, e.file): e.how for e in patch.edits} for patch in layer.patches}
    before = {(e.name, e.file): e.how for e in edits}
    assert made["two"] == before
    assert made["one"] == before | {("first", "a.py"): how}

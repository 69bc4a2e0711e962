"""A record says nothing of what the code no longer has, and whose a line is where somebody edited it since."""

from __future__ import annotations

import pytest

from patchkit.errors import TreeError
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, Record
from patchkit.transaction.current import still_there
from patchkit.transaction.swap import digest_of, digest_or_none

FILE, OTHER = "srt/a.py", "srt/b.py"
FIRST = b"a = 1\nb = 2\n"
SECOND = b"a = 1\nnew = 1\nb = 2\n"
THIRD = b"a = 1\nnew = 1\nb = 2\nlast = 1\n"
BETWEEN = b"own = 1\na = 1\nnew = 1\nb = 2\n"
FOURTH = b"own = 1\na = 1\nnew = 1\nb = 2\nlast = 1\n"
MARKED = (
    b"<<<<<<< found (patchkit one e)\na = 1\n||||||| expected\na = 2\n=======\na = 3\n"
    b">>>>>>> wanted (patchkit one e, more)\nb = 2\n"
)
NINE = b"a = 9\nb = 2\n"
CONTENTS = {digest_of(text): text for text in (b"", FIRST, SECOND, THIRD, BETWEEN, FOURTH, MARKED, NINE)}


def content(digest: str) -> bytes:
    if digest not in CONTENTS:
        raise TreeError(f"{digest} is lost")
    return CONTENTS[digest]


def written(known: Record, name: str, *writes: tuple[str, bytes | None, bytes | None]) -> Record:
    files = {
        file: AppliedFile(digest_or_none(before), digest_or_none(after), (name,))
        for file, before, after in writes
    }
    return known.with_applied(
        files, [AppliedPatch(name, (), tuple(AppliedEdit("e", file) for file in files))]
    )


def left(known: Record, **current: bytes | None) -> list[list[str]]:
    """Return the patches of each layer that is left, where the files have these contents."""
    found = still_there(known, {FILE: current.get("a"), OTHER: current.get("b")}.get, content)
    return [[patch.id for patch in layer.patches] for layer in found.layers]


@pytest.mark.parametrize(
    ("before", "after", "current", "is_there"),
    [
        (FIRST, SECOND, SECOND, True),
        (FIRST, SECOND, FIRST, False),
        # Somebody edited it since: one line that the patch wrote is enough.
        (FIRST, SECOND, SECOND + b"own = 1\n", True),
        (FIRST, SECOND, b"x()\nif y:\n    new = 1\n", True),
        (FIRST, SECOND, b"a = 1\nnew  =  1\nb = 2\n", True),
        # What stood in place of its lines stands there again.
        (FIRST, SECOND, FIRST + b"own = 1\n", False),
        (FIRST, SECOND, b"# own\n" + FIRST, False),
        (FIRST, NINE, b"a = 1\nown = 1\nb = 2\n", False),
        # A person's code stands there, or the file was emptied.
        (FIRST, SECOND, b"a = 1\nown = 1\nb = 2\n", True),
        (FIRST, NINE, b"a = 5\nb = 2\n", True),
        (FIRST, SECOND, b"own = 1\n", True),
        (FIRST, SECOND, b"", True),
        # A patch that wrote no line, or markers, may be there in any text.
        (SECOND, FIRST, FIRST + b"own = 1\n", True),
        (SECOND, FIRST, SECOND, False),
        (FIRST, MARKED, FIRST + b"own = 1\n", True),
        (FIRST, MARKED, FIRST, False),
        # A file that came or went.
        (None, FIRST, FIRST, True),
        (None, FIRST, None, False),
        (None, FIRST, b"own = 1\n", True),
        (None, FIRST, b"", True),
        (None, FIRST, b"own = 1\nb = 2\n", True),
        (FIRST, None, None, True),
        (FIRST, None, FIRST, False),
        (FIRST, None, b"own = 1\n", True),
        (FIRST, SECOND, None, True),
        # What it wrote is lost.
        (FIRST, b"lost = 1\n", b"own = 1\n", True),
        (b"lost = 1\n", SECOND, b"own = 1\n", True),
    ],
)
def test_a_patch_is_recorded_while_its_file_may_have_something_of_it(
    before: bytes | None, after: bytes | None, current: bytes | None, is_there: bool
) -> None:
    assert left(written(Record(), "one", (FILE, before, after)), a=current) == ([["one"]] if is_there else [])


DEFINED = FIRST + b"\n\ndef new(x):\n    return x\n"


@pytest.mark.parametrize(
    ("after", "current", "is_there"),
    [
        (DEFINED, FIRST + b"\n\ndef other(y):\n    return y + 1\n", True),
        (DEFINED, FIRST + b"\n\nother = 1\n", True),
        (DEFINED, FIRST.replace(b"a = 1\n", b"a = 1\n\n\ndef other(y):\n    return y + 1\n"), False),
        (DEFINED, FIRST + b"\n\ndef new(\n    return y\n", True),
        (FIRST.replace(b"2", b"2  # new"), FIRST.replace(b"2", b"3"), True),
        (FIRST.replace(b"2", b"(\n    2)"), FIRST.replace(b"2", b"(\n  3)"), True),
        (FIRST.replace(b"2", b"2  # new"), FIRST + b"own = 1\n", False),
    ],
    ids=["renamed", "no definition", "taken out", "unfinished", "comment", "layout", "comment taken out"],
)
def test_what_a_person_made_of_all_lines_of_a_patch_is_recorded(
    after: bytes, current: bytes, is_there: bool
) -> None:
    known = written(Record(), "one", (FILE, FIRST, after))
    texts = {**CONTENTS, digest_of(after): after}
    assert bool(still_there(known, {FILE: current}.get, texts.__getitem__).layers) is is_there


@pytest.mark.parametrize(
    ("current", "is_own"),
    [
        (SECOND + b"own = 1\n", True),
        (b"a = 1\nnew  =  1\nb = 2\n", True),
        (b"a = 1\nown = 1\nb = 2\n", False),
        (b"", False),
        (None, True),
    ],
)
def test_what_stands_in_place_of_all_lines_of_a_patch_is_not_its_own(
    current: bytes | None, is_own: bool
) -> None:
    known = written(Record(), "one", (FILE, FIRST, SECOND))
    assert bool(still_there(known, {FILE: current}.get, content, in_lines=True).layers) is is_own


COMMENTED = b"a = 1\n# new\nb = 2\n"


@pytest.mark.parametrize(
    ("current", "is_there"),
    [
        (b"a = 1\n# own\nb = 2\n", True),
        (b"a = 1\nb = 3\n", False),
        (b"a = 1\n\nb = 2\n", False),
    ],
)
def test_a_port_of_a_comment_is_recorded_while_a_comment_stands_there(current: bytes, is_there: bool) -> None:
    known = written(Record(), "one", (FILE, FIRST, COMMENTED))
    texts = {**CONTENTS, digest_of(COMMENTED): COMMENTED}
    assert bool(still_there(known, {FILE: current}.get, texts.__getitem__).layers) is is_there


@pytest.mark.parametrize(
    ("current", "layers"),
    [
        (FOURTH, [["one"], ["two"]]),
        (FOURTH + b"more = 1\n", [["one"], ["two"]]),
        (SECOND, [["one"]]),
        (BETWEEN, [["one"]]),
        (FIRST, []),
        (b"own = 1\na = 1\nb = 2\nlast = 1\n", [["two"]]),
        (b"own = 1\nnew = 1\n", [["one"]]),
        (b"own = 1\n", [["one"]]),
    ],
)
def test_a_file_that_is_as_it_was_between_two_writes_has_the_first_alone(
    current: bytes, layers: list[list[str]]
) -> None:
    known = written(written(Record(), "one", (FILE, FIRST, SECOND)), "two", (FILE, BETWEEN, FOURTH))
    assert left(known, a=current) == layers


def test_a_patch_stays_for_the_files_that_have_something_of_it() -> None:
    known = written(Record(), "one", (FILE, FIRST, SECOND), (OTHER, FIRST, THIRD))
    found = still_there(known, {FILE: FIRST, OTHER: THIRD}.get, content)
    assert found.files.keys() == {OTHER}
    assert [edit.file for edit in found.patches["one"].edits] == [OTHER]
    assert still_there(known, {FILE: SECOND, OTHER: THIRD}.get, content) == known
    assert left(known, a=FIRST, b=FIRST) == []


def test_two_patches_of_one_write_stay_or_go_together() -> None:
    known = written(written(Record(), "one", (FILE, FIRST, SECOND)), "two", (FILE, SECOND, THIRD))
    assert len(known.layers) == 1
    assert left(known, a=THIRD) == [["one", "two"]]
    assert left(known, a=b"last = 1\n") == [["one", "two"]]
    assert left(known, a=FIRST) == []

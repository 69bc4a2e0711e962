"""Which edits a person changed, told from a record, the contents that it refers to, and the code of a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from patchkit.patchset.patch import Patch
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How, Record, files_of, parsed
from patchkit.plan.status import EditStatus, PatchStatus, State
from patchkit.transaction.edited import difference, judged_at
from patchkit.transaction.swap import digest_of

if TYPE_CHECKING:
    from patchkit.tree.objects import GitTree

FILE, OTHER = "srt/a.py", "srt/b.py"
BASE = b"""\
import os


class Desk:
    days = 14

    def lend(self, book):
        note(book)
        return book

    def take(self, book):
        return book


def fee(days):
    return days
"""
MADE = (
    BASE.replace(b"import os\n", b"import os\nimport sys\n")
    .replace(b"    days = 14\n", b"    days = 14\n    fees = True\n")
    .replace(b"        note(book)\n", b"        count(book)\n        note(book, self)\n")
    .replace(b"    return days\n", b"    return days * 2\n")
)
EDITS = {"import": "", "field": "Desk", "lend": "Desk.lend", "fee": "fee"}


class Commit:
    """A commit with files, a record, and the contents that the repository has."""

    package_label = "a commit"

    def __init__(self, record: Record, files: dict[str, bytes], objects: list[bytes]) -> None:
        self._record, self._files = files_of(record), files
        self._objects = {digest_of(text): text for text in objects}
        self.repository = self

    def read(self, file: str) -> bytes | None:
        return self._files.get(file)

    def record(self) -> dict[str, bytes]:
        return self._record

    def object(self, digest: str) -> tuple[str, bytes] | None:
        return ("blob", self._objects[digest]) if digest in self._objects else None


def written(
    known: Record,
    name: str,
    file: str,
    pair: tuple[bytes, bytes],
    *,
    how: How = How.MADE,
    ported: bool = False,
) -> Record:
    """Return a record, as it is read, with one more write."""
    edits = tuple(AppliedEdit(edit, file, how) for edit in EDITS)
    change = {file: AppliedFile(digest_of(pair[0]), digest_of(pair[1]), (name,))}
    known = known.with_applied(change, [AppliedPatch(name, (), edits)], ported=ported)
    return parsed(tuple(sorted(files_of(known).items())))


def status(name: str = "one", file: str = FILE, *pending: str) -> PatchStatus:
    edits = tuple(
        EditStatus(edit, file, site, State.PENDING if edit in pending else State.APPLIED)
        for edit, site in EDITS.items()
    )
    patch = Patch(id=name, title="", why="", risk="", verify="", edits=())
    return PatchStatus(patch, State.PARTIAL if pending else State.APPLIED, edits)


def edited(
    current: bytes, *pending: str, how: How = How.MADE, record: Record | None = None, lost: bool = False
) -> dict[str, str]:
    """Return the edits that a person changed, each with the reason, for a file with this content."""
    known = written(Record(), "one", FILE, (BASE, MADE), how=how) if record is None else record
    tree = Commit(known, {FILE: current}, [] if lost else [BASE, MADE])
    (found,) = judged_at(cast("GitTree", tree), [status("one", FILE, *pending)])
    names = {edit.name: edit.reason for edit in found.edits if edit.state is State.EDITED}
    assert (found.state is State.EDITED) is bool(names)
    if names:
        assert found.reason.startswith(f"{FILE}: ")
        assert all(edit.difference for edit in found.edits if edit.name in names)
    return names


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (b"count(book)", b"count(book, 2)", {"lend"}),
        (b"        count(book)\n", b"", {"lend"}),
        (b"    fees = True\n", b"    fees = False\n", {"field"}),
        (b"    return days * 2\n", b"    return days * 3\n", {"fee"}),
        (b"        count(book)\n        note(book, self)\n", b"        own(book)\n", {"lend"}),
        # Layout, comments, and code that no patch wrote.
        (b"count(book)", b"count( book )  # ours", set()),
        (
            b"        count(book)\n",
            b"        # ours\n\n        count(\n            book,\n        )\n",
            set(),
        ),
        (
            b"        return book\n\n    def take",
            b"        own(book)\n        return book\n\n    def take",
            set(),
        ),
        (b"import os\nimport sys\n", b"import sys\nimport os\n", set()),
        (b"import os\nimport sys\n", b"import os, sys\n", set()),
        (b"    days = 14\n", b"    days = 15\n", set()),
        # What stands there is what stood there before: the edit can be made again.
        (b"        count(book)\n        note(book, self)\n", b"        note(book)\n", set()),
        (b"    return days * 2\n", b"    return days\n", set()),
        (b"    fees = True\n", b"", set()),
    ],
)
def test_the_edits_whose_lines_a_person_changed(old: bytes, new: bytes, names: set[str]) -> None:
    assert MADE.count(old) == 1
    assert edited(MADE.replace(old, new)).keys() == names


def test_nothing_is_edited_in_a_file_as_it_was_written_or_as_it_was_before() -> None:
    assert edited(MADE) == edited(BASE) == {}


def test_the_reason_has_the_line_and_what_to_type() -> None:
    (reason,) = edited(MADE.replace(b"count(book)", b"count(book, 2)")).values()
    assert reason.startswith("line 10: a person changed its code: patchkit resolve one lend --accept ")


def test_an_edit_that_is_missing_is_the_one_that_was_changed() -> None:
    changed = MADE.replace(b"count(book)", b"count(book, 2)")
    assert edited(changed, "lend").keys() == {"lend"}
    # Of an import nobody is sure, unless one is missing for it.
    assert edited(MADE.replace(b"import sys\n", b"import system\n"), "import").keys() == {"import"}
    assert edited(MADE.replace(b"import sys\n", b"import system\n")) == {}


@pytest.mark.parametrize("how", [How.ACCEPTED, How.BY_HAND, How.FOUND])
def test_what_a_person_made_or_accepted_is_not_edited(how: How) -> None:
    assert edited(MADE.replace(b"count(book)", b"count(book, 2)"), how=how) == {}


def test_what_cannot_be_told_is_not_edited() -> None:
    changed = MADE.replace(b"count(book)", b"count(book, 2)")
    assert edited(changed, lost=True) == {}
    markers = b"<<<<<<< found (patchkit one lend)\n||||||| expected\n=======\n>>>>>>> wanted (patchkit one lend, x)\n"
    assert edited(changed + markers) == {}
    ported = written(Record(), "one", FILE, (BASE, MADE), ported=True)
    assert edited(changed, record=ported) == {}
    other = written(Record(), "two", FILE, (BASE, MADE))
    assert edited(changed, record=other) == {}
    assert edited(changed, record=Record()) == {}


def test_a_file_that_is_not_python_is_told_by_its_lines() -> None:
    base, made = b"int a;\nint b;\n", b"int a;\nint c;\nint d;\nint b;\n"
    known = written(Record(), "one", OTHER, (base, made))
    for current, names in (
        (made.replace(b"int c", b"long c"), {*EDITS}),
        (b"long a;\nint c;\nint d;\nint b;\n", set[str]()),
    ):
        tree = Commit(known, {OTHER: current}, [base, made])
        edits = tuple(EditStatus(edit, OTHER, "", State.APPLIED) for edit in EDITS)
        patch = Patch(id="one", title="", why="", risk="", verify="", edits=())
        (found,) = judged_at(cast("GitTree", tree), [PatchStatus(patch, State.APPLIED, edits)])
        assert {edit.name for edit in found.edits if edit.state is State.EDITED} == names


def test_a_line_that_a_later_patch_replaced_is_that_ones() -> None:
    later = MADE.replace(b"return days * 2", b"return days * 2 + 1")
    known = written(written(Record(), "one", FILE, (BASE, MADE)), "two", FILE, (MADE, later))
    current = later.replace(b"days * 2 + 1", b"days * 2 + 2")
    tree = Commit(known, {FILE: current}, [BASE, MADE, later])
    found = judged_at(cast("GitTree", tree), [status("one"), status("two")])
    assert [{e.name for e in each.edits if e.state is State.EDITED} for each in found] == [set(), {"fee"}]


def test_what_a_person_changed_between_two_writes_is_edited_too() -> None:
    between = MADE.replace(b"count(book)", b"count(book, 2)")
    later = between.replace(b"def take(self, book):", b"def take(self, book, days):")
    known = written(written(Record(), "one", FILE, (BASE, MADE)), "two", FILE, (between, later))
    tree = Commit(known, {FILE: later}, [BASE, MADE, between, later])
    found = judged_at(cast("GitTree", tree), [status("one"), status("two")])
    assert [{e.name for e in each.edits if e.state is State.EDITED} for each in found] == [{"lend"}, set()]


def test_a_conflict_stays_one_beside_an_edited_edit() -> None:
    tree = Commit(
        written(Record(), "one", FILE, (BASE, MADE)),
        {FILE: MADE.replace(b"count(book)", b"count(book, 2)")},
        [BASE, MADE],
    )
    before = status()
    conflicting = EditStatus("last", FILE, "", State.CONFLICT, "it conflicts")
    whole = PatchStatus(before.patch, State.CONFLICT, (*before.edits, conflicting), "it conflicts")
    (found,) = judged_at(cast("GitTree", tree), [whole])
    assert (found.state, found.reason) == (State.CONFLICT, "it conflicts")
    assert [edit.state for edit in found.edits].count(State.EDITED) == 1


@pytest.mark.parametrize(
    ("current", "shown"),
    [
        (b"a\nx\nb\nc\n", ""),
        (b"a\ny\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-x\n+y\n b\n"),
        (b"a\nb\nc\n", "@@ -1,3 +1,2 @@\n a\n-x\n b\n"),
        (b"a\nx\nb\nd\n", ""),
        (b"a\r\nx\r\nb\r\nc\r\n", ""),
        (b"a\nx\nown\nb\nc\n", ""),
        (None, ""),
    ],
)
def test_the_difference_of_what_patches_wrote(current: bytes | None, shown: str) -> None:
    assert difference(b"a\nb\nc\n", b"a\nx\nb\nc\n", current) == shown
    assert difference(None, b"a\n", current) == difference(b"a\n", None, current) == ""


def test_a_line_between_two_of_a_patch_is_shown() -> None:
    assert difference(b"a\n", b"x\ny\na\n", b"x\nown\ny\na\n") == "@@ -1,2 +1,3 @@\n x\n+own\n y\n"


def test_a_record_that_cannot_be_read_says_nothing() -> None:
    class Damaged(Commit):
        def record(self) -> dict[str, bytes]:
            return {"one.toml": b"{"}

    tree = Damaged(Record(), {FILE: MADE.replace(b"count(book)", b"count(book, 2)")}, [BASE, MADE])
    assert judged_at(cast("GitTree", tree), [status()]) == (status(),)

"""An edit that landed in a function that drifted is reported as changed where it may mean something else there."""

from __future__ import annotations

import pytest

from patchkit.change.edits import EditOutcome, Outcome
from patchkit.change.merge import Merge
from patchkit.change.outline import outline
from patchkit.change.surroundings import reported

BASE = "def lend(book, days):\n    due = today() + days\n    note(book)\n    keep(book)\n    return due\n"
THEIRS = BASE.replace("    keep(book)\n", "    keep(book)\n    tell(due)\n")


def ported(ours: str) -> list[EditOutcome]:
    base, whole, merge = outline(BASE), outline(ours), Merge(lambda _: None)
    merge.make(base, outline(THEIRS), whole)
    assert "tell(due)" in merge.output.render(whole)
    return [reported(edit, base) for edit in merge.log.edits]


NOTES = {
    "an early return": (
        ("    note(book)\n", "    if book.lost:\n        return None\n    note(book)\n"),
        "leave the function before it, at `if book.lost`",
    ),
    "a name bound otherwise": (("today() + days", "book.due"), "this tree assigns due differently"),
}
QUIET = {
    "a statement more": ("    note(book)\n", "    note(book)\n    count(book)\n"),
    "a return below other code of a branch": (
        "    note(book)\n",
        "    if book.lost:\n        count(book)\n        tell(book)\n        return None\n    note(book)\n",
    ),
    "another return in a branch of its own": (
        "    note(book)\n",
        "    for each in book:\n        if each:\n            break\n    note(book)\n",
    ),
}


@pytest.mark.parametrize(("change", "note"), NOTES.values(), ids=NOTES)
def test_what_may_change_the_meaning_is_reported(change: tuple[str, str], note: str) -> None:
    (edit,) = ported(BASE.replace(*change))
    assert edit.outcome is Outcome.CHANGED
    assert note in edit.reason
    assert edit.ours_text


@pytest.mark.parametrize("change", QUIET.values(), ids=QUIET)
def test_what_does_not_is_not(change: tuple[str, str]) -> None:
    assert [edit.outcome for edit in ported(BASE.replace(*change))] == [Outcome.LANDED]


def test_a_name_that_is_imported_from_elsewhere_is_bound_otherwise_too() -> None:
    base = BASE.replace("due = today() + days", "from clock import due")
    theirs, ours = (
        base.replace("    keep(book)\n", "    keep(book)\n    tell(due)\n"),
        base.replace("clock", "desk"),
    )
    versions, merge = [outline(text) for text in (base, theirs, ours)], Merge(lambda _: None)
    merge.make(*versions)
    notes = [reported(edit, versions[0]).reason for edit in merge.log.edits]
    assert "this tree assigns due differently" in notes


FORMS = "class Form(Sheet):\n    size = 4\n"
NEW_FORM = f"{FORMS}\n\nclass Letter(Form, kw_only=True):\n    size = 5\n"


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        ("@dataclass\nclass Form:\n    size = 4\n", Outcome.CHANGED),
        ("class Form(Sheet, Page):\n    size = 4\n", Outcome.CHANGED),
        ("class Form(Sheet):\n    size = 4\n    width = 2\n", Outcome.LANDED),
        ("class Form( Sheet ):\n    size = 4\n", Outcome.LANDED),
    ],
    ids=["decorated", "more bases", "another body", "another layout"],
)
def test_a_new_class_whose_base_class_is_declared_differently_is_reported(
    ours: str, outcome: Outcome
) -> None:
    base, whole, merge = outline(FORMS), outline(ours), Merge(lambda _: None)
    merge.make(base, outline(NEW_FORM), whole)
    (edit,) = (reported(edit, base) for edit in merge.log.edits)
    assert edit.outcome is outcome
    assert ("this tree declares its base class Form differently" in edit.reason) is bool(edit.ours_text)
    assert bool(edit.ours_text) is (outcome is Outcome.CHANGED)


def test_a_base_class_that_the_change_itself_declares_differently_is_not_said() -> None:
    base, whole, merge = outline(FORMS), outline(f"import os\n\n\n{FORMS}"), Merge(lambda _: None)
    merge.make(base, outline(NEW_FORM.replace("Form(Sheet)", "Form(Page)")), whole)
    assert [reported(edit, base).outcome for edit in merge.log.edits] == [Outcome.LANDED] * 2


def test_an_exit_before_the_edit_that_the_change_has_too_is_not_said() -> None:
    leaves = ("    note(book)\n", "    if book.lost:\n        return None\n    note(book)\n")
    base, whole, merge = outline(BASE), outline(BASE.replace(*leaves)), Merge(lambda _: None)
    merge.make(base, outline(THEIRS.replace(*leaves)), whole)
    assert {reported(edit, base).outcome for edit in merge.log.edits} == {Outcome.LANDED, Outcome.ALREADY}


LOOP = "def f(row, at):\n    for i in range(3):\n        j = i\n        use(row[j], at)\n    return row\n"
READ = ("        use(", "        own({})\n        use(")


@pytest.mark.parametrize(
    ("old", "new", "name", "is_said"),
    [
        ("j = i\n", "j = i + start()\n", "j", True),
        ("range(3)", "range(start(), 3)", "i", True),
        ("    for i", "    at = at + start()\n    for i", "at", True),
        ("    for i", "    k = at + start()\n    for i", "at", False),
        ("j = i\n", "j = i + start()\n", "i", False),
    ],
)
def test_code_of_this_tree_that_reads_what_the_change_alters_is_reported(
    old: str, new: str, name: str, is_said: bool
) -> None:
    own = READ[1].format(name)
    base, theirs, ours = outline(LOOP), outline(LOOP.replace(old, new)), outline(LOOP.replace(READ[0], own))
    merge = Merge(lambda _: None)
    merge.make(base, theirs, ours)
    (edit,) = [reported(edit, base) for edit in merge.log.edits]
    said = f"the change alters {name}, which `own({name})` of this tree reads"
    assert edit.reason == (said if is_said else "")


def test_code_of_this_tree_that_reads_the_result_of_the_same_function_is_not_reported() -> None:
    text = "def f(x):\n    x = g(x)\n    use(x)\n"
    base, theirs = outline(text), outline(text.replace("g(x)", "g(x, 1)"))
    merge, ours = Merge(lambda _: None), outline(text.replace("    use", "    own(x)\n    use"))
    merge.make(base, theirs, ours)
    assert [reported(edit, base).outcome for edit in merge.log.edits] == [Outcome.LANDED]

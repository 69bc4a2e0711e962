"""A revert is planned from contents alone: what each file becomes, what the record is then, or why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.errors import ConflictError
from patchkit.plan.planner import Planner
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How, Record
from patchkit.transaction.candidates import CandidateRecord
from patchkit.transaction.revert import _combined, record_after
from patchkit.transaction.revert_plan import (
    RevertBlockedError,
    RevertPlan,
    plan_revert,
    require_removable,
    undo_ports,
)
from patchkit.transaction.swap import digest_of, digest_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Contents = Mapping[str, bytes | None]

FILE, OTHER = "srt/a.py", "srt/b.py"
BASE = b"def f(a):\n    b = 1\n    c = 2\n    d = 3\n    e = 4\n    return a\n"
COMMENTS = {
    "one": (b"    b = 1\n", b"    # patchkit one: more\n    b = 10\n"),
    "two": (b"    e = 4\n", b"    # patchkit two: more\n    e = 40\n"),
    "three": (b"    e = 40\n", b"    # patchkit three: most\n    e = 400\n"),
}


class Loaded(Planner):
    """Patches of one replacement each, which are looked for by their new code."""

    def __init__(self) -> None:
        pass

    @property
    def ids(self) -> tuple[str, ...]:
        return "one", "two", "three"

    def replay(self, contents: Contents, ids: Sequence[str]) -> Contents:
        made = dict(contents)
        for name in ids:
            made = {file: text and text.replace(*COMMENTS[name]) for file, text in made.items()}
        return made

    def present(self, contents: Contents, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
        signs = {name: COMMENTS[name][1].splitlines()[-1] for name in ids if name in COMMENTS}
        return frozenset(
            (name, "e")
            for name, sign in signs.items()
            if any(sign in (text or b"").splitlines() for text in contents.values())
        )


def with_(text: bytes, *names: str) -> bytes:
    for name in names:
        assert COMMENTS[name][0] in text
        text = text.replace(*COMMENTS[name])
    return text


class Case:
    """A record and what it refers to."""

    def __init__(self) -> None:
        self.record = Record()
        self.contents: dict[str, bytes] = {}

    def write(
        self,
        *names: str,
        ported: bool = False,
        requires: tuple[str, ...] = (),
        how: How = How.MADE,
        **files: tuple[bytes | None, bytes | None],
    ) -> Case:
        written = {(FILE if file == "a" else OTHER): pair for file, pair in files.items()}
        self.contents |= {
            digest_of(text): text for pair in written.values() for text in pair if text is not None
        }
        changes = {
            file: AppliedFile(digest_or_none(before), digest_or_none(after), names)
            for file, (before, after) in written.items()
        }
        patches = [
            AppliedPatch(name, requires, tuple(AppliedEdit("e", file, how) for file in written if not ported))
            for name in names
        ]
        self.record = self.record.with_applied(changes, patches, ported=ported)
        return self

    def revert(self, *names: str, a: bytes | None = None, b: bytes | None = None) -> RevertPlan:
        return plan_revert(
            self.record, frozenset(names), {FILE: a, OTHER: b}.get, self.contents.__getitem__, Loaded()
        )


def layers(record: Record) -> list[tuple[list[str], dict[str, tuple[str | None, str | None]]]]:
    return [
        ([p.id for p in layer.patches], {f: (e.original, e.applied) for f, e in layer.files.items()})
        for layer in record.layers
    ]


ONE, BOTH = with_(BASE, "one"), with_(BASE, "one", "two")
OWN = (b"    c = 2\n", b"    c = 2\n    own = 1\n")


@pytest.mark.parametrize("ported", [False, True])
@pytest.mark.parametrize(
    ("current", "after"),
    [
        (ONE, BASE),
        (ONE.replace(*OWN), BASE.replace(*OWN)),
        (b"import os\n\n\n" + ONE, b"import os\n\n\n" + BASE),
        (ONE.replace(b"d = 3", b"d = 33"), BASE.replace(b"d = 3", b"d = 33")),
        (BASE, BASE),
        (BASE.replace(*OWN), BASE.replace(*OWN)),
    ],
)
def test_a_file_gets_its_original_and_keeps_what_a_person_wrote(
    ported: bool, current: bytes, after: bytes
) -> None:
    plan = Case().write("one", a=(BASE, ONE), ported=ported).revert("one", a=current)
    assert plan.changes == {FILE: (current, after)}
    assert plan.record.layers == ()
    assert plan.kept == ()


@pytest.mark.parametrize(
    ("pair", "current", "after"),
    [
        ((None, BASE), BASE, None),
        ((None, BASE), None, None),
        ((None, BASE), BASE.replace(b"\n", b"\r\n"), None),
        ((BASE, None), None, BASE),
        ((BASE, None), BASE, BASE),
        ((BASE, BASE), BASE, BASE),
    ],
)
def test_a_file_that_came_goes_and_one_that_went_comes_back(
    pair: tuple[bytes | None, bytes | None], current: bytes | None, after: bytes | None
) -> None:
    plan = Case().write("7", a=pair, ported=True).revert("7", a=current)
    assert plan.changes == {FILE: (current, after)}


@pytest.mark.parametrize(
    ("pair", "current", "reason"),
    [
        ((BASE, ONE), None, "does not exist: restore it, for example with git restore, and revert again"),
        ((None, BASE), BASE + b"x = 1\n", "which patchkit created or deleted, was edited after apply"),
        ((BASE, None), b"x = 1\n", "which patchkit created or deleted, was edited after apply"),
        ((BASE, ONE), ONE.replace(b"b = 10", b"b = 11"), r"srt/a\.py:3: "),
        ((BASE, ONE), ONE + b"x = (\n", "is not valid Python"),
        (
            (BASE, ONE),
            ONE + b"def g(a):\n    # patchkit one: more\n    b = 10\n",
            r"srt/a\.py:9: a comment of one would be left",
        ),
    ],
)
def test_what_cannot_be_undone_exactly_is_a_conflict(
    pair: tuple[bytes | None, bytes | None], current: bytes | None, reason: str
) -> None:
    for ported in (False, True) if None not in pair else (True,):
        with pytest.raises(ConflictError, match=reason):
            Case().write("one", a=pair, ported=ported).revert("one", a=current)


def test_code_of_a_patch_that_was_copied_or_moved_is_a_conflict() -> None:
    case, moved = Case().write("one", a=(BASE, ONE)), ONE + b"def g(a):\n    b = 10\n"
    with pytest.raises(
        RevertBlockedError, match="e of one would still be in place: its code was copied"
    ) as found:
        case.revert("one", a=moved)
    assert found.value.patches == ("one",)
    assert str(found.value.where) == FILE


def test_of_two_patches_one_goes_and_the_record_has_the_other() -> None:
    case = Case().write("one", "two", a=(BASE, BOTH))
    two = with_(BASE, "two")
    plan = case.revert("one", a=BOTH)
    assert plan.changes == {FILE: (BOTH, two)}
    assert layers(plan.record) == [(["two"], {FILE: (digest_of(BASE), digest_of(two))})]
    assert set(plan.kept) == {BASE, two}
    plan = case.revert("two", a=BOTH.replace(*OWN))
    assert plan.changes == {FILE: (BOTH.replace(*OWN), ONE.replace(*OWN))}
    assert layers(plan.record) == [(["one"], {FILE: (digest_of(BASE), digest_of(ONE))})]
    assert case.revert("one", "two", a=BOTH).record.layers == ()


def test_a_patch_below_another_layer_goes_and_what_is_above_stays() -> None:
    own, above = ONE.replace(*OWN), with_(ONE.replace(*OWN), "two")
    case = Case().write("one", a=(BASE, ONE)).write("two", a=(own, above))
    plan = case.revert("one", a=above)
    base, two = BASE.replace(*OWN), with_(BASE.replace(*OWN), "two")
    assert plan.changes == {FILE: (above, two)}
    assert layers(plan.record) == [(["two"], {FILE: (digest_of(base), digest_of(two))})]
    plan = case.revert("two", a=above)
    assert plan.changes == {FILE: (above, own)}
    assert layers(plan.record) == [(["one"], {FILE: (digest_of(BASE), digest_of(ONE))})]


def test_files_of_other_patches_stay_in_the_record() -> None:
    case = Case().write("one", a=(BASE, ONE)).write("two", b=(BASE, with_(BASE, "two")))
    plan = case.revert("one", a=ONE, b=with_(BASE, "two"))
    assert plan.changes[FILE] == (ONE, BASE)
    assert plan.changes[OTHER][0] == plan.changes[OTHER][1]
    assert [(names, [*files]) for names, files in layers(plan.record)] == [(["two"], [OTHER])]


@pytest.mark.parametrize(("name", "ported"), [("7", True), ("two", False)])
def test_what_a_port_depends_on_goes_only_with_it(name: str, ported: bool) -> None:
    two, three = with_(BASE, "two"), with_(with_(BASE, "two"), "three")
    case = Case().write(name, a=(BASE, two), ported=ported).write("8", a=(two, three), ported=True)
    with pytest.raises(
        RevertBlockedError, match=f"8 changed the same code as {name}, or depends on it"
    ) as found:
        case.revert(name, a=three)
    assert (found.value.patches, found.value.together) == ((name,), frozenset({"8"}))
    assert case.revert("8", a=three).changes == {FILE: (three, two)}
    assert case.revert(name, "8", a=three).changes == {FILE: (three, BASE)}


def test_an_edit_that_a_person_made_and_of_which_no_original_is_known_is_a_conflict_while_it_is_there() -> (
    None
):
    case = Case().write("one", a=(ONE, ONE), how=How.FOUND)
    with pytest.raises(
        RevertBlockedError, match="e of one was made by hand, and no record has the original code"
    ):
        case.revert("one", a=ONE)
    assert case.revert("one", a=BASE).changes == {FILE: (BASE, BASE)}
    assert case.revert("two", a=ONE).record.layers == case.record.layers


def test_a_patch_that_another_needs_stays_and_what_the_record_lacks_is_refused() -> None:
    record = Case().write("one", a=(BASE, ONE)).write("two", a=(ONE, BOTH), requires=("one",)).record
    with pytest.raises(RevertBlockedError, match="two cannot stay without one") as found:
        require_removable(record, frozenset({"one"}), {})
    assert (found.value.patches, found.value.together) == (("one",), frozenset({"two"}))
    for names in ({"two"}, {"one", "two"}, set[str]()):
        require_removable(record, frozenset(names), {})
    with pytest.raises(
        ConflictError, match="3, 4: neither the record nor git's history has the original code"
    ):
        require_removable(record, frozenset({"4", "two", "3"}), {})


@pytest.mark.parametrize(
    ("current", "there"),
    [
        (with_(BASE, "two", "three"), {"8": True, "7": True}),
        (with_(BASE, "two"), {"8": False, "7": True}),
        (BASE, {"8": None, "7": False}),
        (BASE.replace(*OWN), {"8": None, "7": False}),
        (with_(BASE, "two", "three").replace(*OWN), {"8": True, "7": True}),
        (with_(BASE, "two").replace(b"e = 40", b"e = 41"), {"8": None, "7": None}),
        (None, {"8": None, "7": None}),
    ],
)
def test_ports_are_undone_one_after_the_other_and_each_was_there_or_not(
    current: bytes | None, there: dict[str, bool | None]
) -> None:
    two = with_(BASE, "two")
    case = Case().write("7", a=(BASE, two), ported=True)
    case.write("8", a=(two, with_(two, "three")), ported=True)
    stack = [(layer, case.contents.__getitem__) for layer in reversed(case.record.layers)]
    assert dict(undo_ports(stack, {FILE: current}.get, Loaded())) == there


def test_markers_that_are_as_they_were_written_go_and_edited_ones_are_a_conflict() -> None:
    def block(found: str) -> bytes:
        start = f"<<<<<<< found (patchkit one e)\n{found}||||||| expected\n    c = 3\n"
        return f"{start}=======\n    c = 4\n>>>>>>> wanted (patchkit one e, more)\n".encode()

    marked = ONE.replace(b"    c = 2\n", block("    c = 2\n"))
    case = Case().write("one", a=(BASE, marked))
    assert case.revert("one", a=marked).changes == {FILE: (marked, BASE)}
    own = marked.replace(b"    d = 3\n", b"    d = 3\n    own = 1\n")
    assert case.revert("one", a=own).changes == {
        FILE: (own, BASE.replace(b"d = 3\n", b"d = 3\n    own = 1\n"))
    }
    with pytest.raises(
        RevertBlockedError, match="the conflict of one e was edited after apply: finish it"
    ) as found:
        case.revert("one", a=ONE.replace(b"    c = 2\n", block("    c = 22\n")))
    assert found.value.patches == ("one",)


def names_in(record: Record) -> list[list[str]]:
    return [[patch.id for patch in layer.patches] for layer in record.layers]


def test_the_bytes_of_several_plans_are_those_before_the_first_and_after_the_last() -> None:
    one = RevertPlan(Record(), (), {FILE: (b"3", b"2"), OTHER: (b"x", None)})
    other = RevertPlan(Record(), (), {FILE: (b"2", b"1"), "srt/c.py": (None, b"y")})
    assert _combined([one, other]) == {FILE: (b"3", b"1"), OTHER: (b"x", None), "srt/c.py": (None, b"y")}
    assert _combined([]) == {}


@pytest.mark.parametrize(
    ("of_ports", "is_recorded", "reverted", "left"),
    [
        # A port of git's history is in no record; of the tree's own record what the plan has stays.
        (True, False, {"one"}, [["one"], ["two"], ["7"], ["8"]]),
        (False, True, {"one"}, [["7"], ["8"], ["two"]]),
        # A record that was computed knows no ports, so that those of the tree's record stay.
        (False, False, {"one"}, [["7"], ["8"], ["two"]]),
        (False, False, {"one", "8"}, [["7"], ["two"]]),
    ],
)
def test_the_record_after_a_revert_keeps_what_the_plan_does_not_concern(
    of_ports: bool, is_recorded: bool, reverted: set[str], left: list[list[str]]
) -> None:
    two = with_(BASE, "two")
    case = Case().write("one", a=(BASE, ONE)).write("two", a=(BASE, two))
    known = case.record
    case.write("7", b=(BASE, two), ported=True).write("8", b=(two, with_(two, "three")), ported=True)
    candidate = CandidateRecord(
        known, case.contents.__getitem__, is_recorded=is_recorded, is_of_ports=of_ports
    )
    plan = RevertPlan(Record(known.layers[1:]), (), {})
    assert names_in(record_after(case.record, (candidate, frozenset(reverted), plan), ())) == left


def test_the_originals_of_a_record_are_those_before_the_first_layer() -> None:
    own = ONE.replace(*OWN)
    case = Case().write("one", a=(BASE, ONE), b=(None, BASE)).write("two", a=(own, with_(own, "two")))
    candidate = CandidateRecord(case.record, case.contents.__getitem__)
    assert candidate.originals == {FILE: BASE, OTHER: None}
    assert (candidate.is_unedited, candidate.is_recorded, candidate.is_of_ports) == (True, False, False)

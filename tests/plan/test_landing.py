"""A patch that is a diff: its state follows from making its change in the tree, which is never made a second time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.drafting.change import Facts
from patchkit.drafting.patch import draft_patch
from patchkit.errors import UsageError
from patchkit.patchset import convert
from patchkit.patchset.examples import PatchExample
from patchkit.patchset.header import OwnFile
from patchkit.plan.build import make_plan
from patchkit.plan.conflict import conflicts
from patchkit.plan.examples import faults_of
from patchkit.plan.markers import marked_conflicts, with_markers, without_markers
from patchkit.plan.status import FileChange, State
from patchkit.tree import toml
from patchkit.tree.git import object_id
from patchkit.tree.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import Plan

DESK = "srt/desk.py"
HALL = "srt/hall.py"
BEFORE = """\
import os

RATE = 2


class Desk:
    days = 14

    def lend(self, book, reader):
        check(book)
        due = today() + self.days
        note(book, due)
        return due

    def take(self, book):
        book.out = False
        return book


def fee(days):
    return days * RATE
"""
Texts = dict[str, bytes]


def folder(
    files: Mapping[str, tuple[str | None, str | None]], around: Mapping[str, str] | None = None
) -> Texts:
    """Return the folder of a patch of a change; ``around`` are other files of its tree."""
    changes = [
        FileChange(
            file, None if before is None else before.encode(), None if after is None else after.encode()
        )
        for file, (before, after) in files.items()
    ]
    tree = {change.file: change.before for change in changes if change.before is not None}
    tree |= {file: text.encode() for file, text in (around or {}).items()}
    return dict(draft_patch(MemoryTree(tree), changes, Facts("own", "What changes")).files)


def patch_in(texts: Mapping[str, bytes]) -> Patch:
    raw = toml.read(texts["patch.toml"])
    return convert.own([OwnFile(raw, Path("own/patch.toml"), texts)], {}, {})["own"].patch


def changing(*changes: tuple[str, str], text: str = BEFORE) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def patch_of(after: str) -> Patch:
    return patch_in(folder({DESK: (BEFORE, after)}))


def plan_of(patch: Patch, text: str, file: str = DESK, **others: str) -> Plan:
    texts = {file: text, **{f"srt/{name}.py": other for name, other in others.items()}}
    return make_plan(MemoryTree({name: each.encode() for name, each in texts.items()}), (patch,))


def state_of(plan: Plan) -> tuple[State, str]:
    return plan.patches[0].state, plan.patches[0].reason


def bare(text: bytes | None) -> str:
    return re.sub(r"^[ \t]*# patchkit own: .*\n", "", (text or b"").decode(), flags=re.MULTILINE)


def made(plan: Plan) -> str:
    (change,) = plan.changes
    return bare(change.after)


LATER = ("    return days * RATE\n", "    return days * RATE + 1\n")
GUARD = ("        check(book)\n", "        check(book)\n        self.require(reader)\n")
OWN = ("RATE = 2\n", "RATE = 3\nLIMIT = 8\n")


def test_a_tree_that_drifted_gets_the_change_with_one_comment() -> None:
    plan = plan_of(patch_of(changing(GUARD, LATER)), changing(OWN))
    assert state_of(plan) == (State.PENDING, "")
    assert made(plan) == changing(OWN, GUARD, LATER)
    assert (plan.changes[0].after or b"").count(b"# patchkit own: What changes\n") == 1
    assert [edit.name for edit in plan.patches[0].edits] == ["desk-desk-lend", "desk-fee"]


def test_a_tree_that_has_it_keeps_every_byte() -> None:
    plan = plan_of(patch_of(changing(GUARD)), changing(OWN, GUARD))
    assert state_of(plan) == (State.UNKNOWN, "")
    assert plan.changes == ()


def test_a_tree_that_has_a_part_of_it_gets_the_rest() -> None:
    patch = patch_of(changing(GUARD, LATER))
    plan = plan_of(patch, changing(OWN, GUARD))
    assert state_of(plan) == (State.PARTIAL, "1 of 2 edits are missing")
    assert made(plan) == changing(OWN, GUARD, LATER)


def test_a_part_that_a_person_took_back_is_made_again_and_the_comment_stays_one() -> None:
    patch = patch_of(changing(GUARD, LATER))
    text = (plan_of(patch, BEFORE).changes[0].after or b"").decode()
    plan = plan_of(patch, text.replace(LATER[1], LATER[0]))
    assert state_of(plan)[0] is State.PARTIAL
    assert plan.changes[0].after == text.encode()


def test_a_part_that_a_person_edited_is_a_conflict_and_is_not_inserted_twice() -> None:
    patch = patch_of(changing(GUARD, LATER))
    text = (plan_of(patch, BEFORE).changes[0].after or b"").decode()
    plan = plan_of(patch, text.replace("self.require(reader)", "self.require(reader, book)"))
    assert state_of(plan)[0] is State.CONFLICT
    assert "this tree has a variant of it: `self.require(reader, book)`" in state_of(plan)[1]
    plan = plan_of(patch, text.replace("self.require(reader)", "self.needs = reader"))
    assert state_of(plan)[0] is State.CONFLICT
    assert "this part of it was edited since" in state_of(plan)[1]


LEND = BEFORE[BEFORE.index("    def lend") : BEFORE.index("    def take")]


@pytest.mark.parametrize(
    ("drift", "reason"),
    [
        (
            ("        due = today() + self.days\n", "        due = self.due(book)\n"),
            "in this tree, and the change",
        ),
        ((LEND, ""), "no Desk.lend"),
    ],
    ids=["another-statement", "no-function"],
)
def test_other_code_is_a_conflict_with_its_place(drift: tuple[str, str], reason: str) -> None:
    patch = patch_of(
        changing(("        due = today() + self.days\n", "        due = today() + 2 * self.days\n"))
    )
    state, why = state_of(plan_of(patch, changing(drift)))
    assert state is State.CONFLICT
    assert why.startswith(f"{DESK}: Desk.lend: desk-desk-lend: ")
    assert reason in why


def test_a_statement_in_a_form_of_the_tree_s_own_is_a_conflict() -> None:
    patch = patch_of(
        changing(("        due = today() + self.days\n", "        due = today() + 2 * self.days\n"))
    )
    drift = "        due = today() + self.days\n", "        due = now() + self.days\n"
    state, why = state_of(plan_of(patch, changing(drift)))
    assert state is State.CONFLICT
    assert "this tree's statement differs" in why


def test_code_around_it_that_differs_is_said() -> None:
    patch = patch_of(changing(("        note(book, due)\n", "        note(book, due, reader)\n")))
    drift = "        check(book)\n", "        if not book:\n            return None\n        check(book)\n"
    plan = plan_of(patch, changing(drift))
    reason = "desk-desk-lend: this tree may leave the function before it, at `if not book`"
    assert state_of(plan) == (State.PENDING, reason)
    assert made(plan) == changing(drift, ("        note(book, due)\n", "        note(book, due, reader)\n"))


@pytest.mark.parametrize(
    "variant",
    [
        changing(
            (
                "        check(book)\n",
                "        check(book)\n        if reader.known:\n            self.require_known(reader, book)\n",
            )
        ),
        changing(("        check(book)\n", "        check(book)\n        self.wanted = bool(reader)\n")),
    ],
    ids=["statement", "name"],
)
def test_a_variant_of_its_code_is_a_conflict_and_no_second_insertion(variant: str) -> None:
    own = "        self.wanted = reader.known\n        self.require_known(reader, book)\n        return due\n"
    patch = patch_of(changing(("        return due\n", own)))
    state, why = state_of(plan_of(patch, variant))
    assert state is State.CONFLICT
    assert "this tree has a variant of it" in why


def test_of_several_diffs_the_nearest_that_fits_is_made() -> None:
    other = BEFORE.replace("today()", "now()").replace("def fee(days)", "def fee(days, rate=RATE)")
    first, second = (
        folder({DESK: (BEFORE, changing(LATER))}),
        folder({DESK: (other, changing(LATER, text=other))}),
    )
    texts = {name: text for name, text in first.items() if name != "change.diff"}
    texts |= {"change-old.diff": first["change.diff"], "change-new.diff": second["change.diff"]}
    texts |= {name: text for name, text in second.items() if name.startswith("base/")}
    patch = patch_in(texts)
    assert [diff.name for diff in patch.diffs] == ["change-new.diff", "change-old.diff"]
    assert made(plan_of(patch, other)) == changing(LATER, text=other)
    assert made(plan_of(patch, BEFORE)) == changing(LATER)
    assert state_of(plan_of(patch, changing(LATER)))[0] is State.UNKNOWN


def test_conflicts_of_one_function_are_one_with_its_lines() -> None:
    first = "        check(book)\n", "        check(book, reader)\n"
    last = "        note(book, due)\n", "        note(book, due, reader)\n"
    ours = changing((first[0], "        check(book, self)\n"), (last[0], "        note(book, due, self)\n"))
    tree = MemoryTree({DESK: ours.encode()})
    plan = make_plan(tree, (patch_of(changing(first, last, LATER)),), allow_partial=True)
    assert state_of(plan)[0] is State.CONFLICT
    (conflict,) = conflicts(tree, plan.patches)
    lines = ours.splitlines(keepends=True)
    assert (
        conflict.found
        == "".join(lines[conflict.line - 1 : conflict.end - 1])
        == "        check(book, self)\n"
    )
    assert (conflict.expected, conflict.wanted) == ("check(book)", "check(book, reader)")
    text = next(change.after for change in with_markers(plan).changes) or b""
    (block,) = marked_conflicts(text)
    assert (block.patch, block.edit) == ("own", "desk-desk-lend")
    assert bare(without_markers(text, [block])) == changing(LATER, text=ours)
    assert (
        b"        check(book, reader)\n        due = today() + self.days\n        note(book, due, reader)\n"
        in text
    )


def test_an_example_shows_one_of_its_files() -> None:
    patch = patch_in(folder({DESK: (BEFORE, changing(LATER)), HALL: (BEFORE, changing(GUARD))}))
    after = (plan_of(patch_of(changing(LATER)), BEFORE).changes[0].after or b"").decode()
    example = PatchExample(shows="A day more.", file=DESK, before=BEFORE, after=after)
    assert list(faults_of(patch, example)) == []
    (fault,) = faults_of(patch, msgspec.structs.replace(example, after=BEFORE))
    assert "the result differs" in fault


MOVED = BEFORE[BEFORE.index("def fee") :]
REST = BEFORE.replace(MOVED, "").rstrip() + "\n"
LIKE = "def fee(days):\n    return days * PRICE\n"


def test_a_function_that_moved_is_followed_and_one_like_it_that_was_there_is_not() -> None:
    after = changing(("    return days * RATE\n", "    days += 1\n    return days * RATE\n"))
    patch = patch_in(folder({DESK: (BEFORE, after)}))
    plan = plan_of(patch, REST, hall=f"RATE = 2\n\n\n{MOVED}")
    assert [change.file for change in plan.changes] == [HALL]
    assert plan.patches[0].edits[0].file == HALL
    patch = patch_in(folder({DESK: (BEFORE, after)}, {HALL: LIKE}))
    assert patch.diffs[0].others == (f"{HALL}::fee",)
    assert state_of(plan_of(patch, REST, hall=LIKE))[0] is State.CONFLICT


def test_a_file_that_is_no_python_is_merged_as_text() -> None:
    file = "srt/sizes.json"
    text = '{\n "a": 1,\n "b": 2,\n "c": 3,\n "d": 4,\n "e": 5\n}\n'
    patch = patch_in(folder({file: (text, text.replace('"e": 5', '"e": 6'))}))
    plan = plan_of(patch, text.replace('"a": 1', '"a": 7'), file)
    assert made(plan) == text.replace('"a": 1', '"a": 7').replace('"e": 5', '"e": 6')


STATEMENTS = ("log(days)", "total = days", "if days:\n        count(days)", "RATE and log(RATE)", "days += 1")


@st.composite
def functions(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5))
    return "def fee(days):\n" + "".join(f"    {line}\n" for line in lines) + "    return days\n"


@settings(deadline=None, max_examples=60)
@given(functions(), functions(), functions())
def test_landing_again_changes_nothing(before: str, after: str, ours: str) -> None:
    if before == after:
        return
    patch = patch_in(folder({DESK: (before, after)}))
    plan = plan_of(patch, ours)
    if plan.patches[0].state not in {State.PENDING, State.PARTIAL}:
        assert plan.changes == ()
        return
    text = plan.changes[0].after or b""
    compile(text, DESK, "exec")
    again = plan_of(patch, text.decode())
    assert again.changes == ()
    assert again.patches[0].state is State.APPLIED


BASE = f"base/{object_id(BEFORE.encode())}"
FOLDER = folder({DESK: (BEFORE, changing(LATER))})
DIFF = FOLDER["change.diff"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({BASE: None}, f"{BASE}, the file {DESK} that the diff was made on, is missing"),
        ({BASE: b"other"}, "its content differs from its name"),
        ({"change.diff": None}, "missing, and no change.diff is beside the file"),
        ({"change.diff": b"nothing"}, "it changes no file of the package"),
        ({"change.diff": DIFF + DIFF}, f"{DESK} stands in it twice"),
        ({"change.diff": DIFF.replace(b"days * RATE\n", b"days * PRICE\n", 1)}, "its hunks do not fit"),
        ({"change.diff": DIFF.replace(b"python/sglang/", b"docs/")}, "is outside the package"),
        (
            {"change.diff": DIFF.replace(b"python/sglang/srt", b"python/sglang/../srt")},
            "leads out of the package",
        ),
        ({"change.diff": DIFF[:-30]}, "has fewer lines than its header specifies"),
        ({"change.diff": b"\xff"}, "not UTF-8"),
        ({"change.diff": DIFF.replace(b"index ", b"old mode 120000\nindex ")}, "is not a text file"),
        (
            {
                "patch.toml": FOLDER["patch.toml"]
                + b'[edit.a]\nkind = "import"\nwhy = "a"\nat = "srt/a.py"\ncode = "import a"\n'
            },
            "a patch has either edits or, beside its patch.toml, a change.diff",
        ),
        ({"patch.toml": FOLDER["patch.toml"] + b'[shapes]\na = ["srt/a.py"]\n'}, "only for edits"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused_in_one_sentence(
    files: dict[str, bytes | None], message: str
) -> None:
    texts = {name: text for name, text in (FOLDER | files).items() if text is not None}
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        patch_in(texts)
    assert "\n" not in str(caught.value)

"""A port keeps the order of a tree's own statements, leaves none unreachable, and agrees with git where git merges."""

from __future__ import annotations

import ast
import re
import subprocess
from keyword import kwlist
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.change.correspondence import Correspondence
from patchkit.change.edits import Outcome
from patchkit.change.effects import may_exit, order_matters
from patchkit.change.follow import Trees
from patchkit.change.land import NOT_MADE, land
from patchkit.change.outline import outline
from patchkit.change.sequence import disturbances
from patchkit.tree.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.change.edits import EditOutcome

FILE = "srt/desk.py"
NAME = re.compile(r"\b[a-z]\w*\b")


def program(body: str) -> str:
    return f"def f(self, a, b):\n{body}"


def landed(base: str, theirs: str, ours: str) -> tuple[str, list[EditOutcome]]:
    """Return a function after a port, without the globals that it uses, and the outcomes of the edits."""
    names = sorted({name for text in (base, theirs, ours) for name in NAME.findall(text)} - {"self", *kwlist})
    known = "".join(f"{name} = 0\n" for name in names)
    before, after, current = (f"{known}\n\n{text}".encode() for text in (base, theirs, ours))
    landing = land({FILE: (before, after)}, Trees(MemoryTree({FILE: before}), MemoryTree({FILE: current})))
    text = (landing.contents.get(FILE) or current).decode()
    return text[len(known) + 2 :], [edit for file in landing.files for edit in file.edits]


UNREACHABLE = {
    "a call becomes a return": (
        "    first()\n    last()\n",
        "    first()\n    return last()\n",
        "    own()\n",
    ),
    "all branches return": (
        "    first()\n    last()\n",
        "    first()\n    if a:\n        return 1\n    else:\n        raise last\n",
        "    own()\n",
    ),
    "a guard goes": (
        "    first()\n    if a:\n        return last\n",
        "    first()\n    return last\n",
        "    own()\n",
    ),
    "a branch is added": (
        "    first()\n    if a:\n        return 1\n    last()\n",
        "    first()\n    if a:\n        return 1\n    else:\n        return last\n",
        "    own()\n",
    ),
    "a loop is left": (
        "    for e in a:\n        first()\n        last()\n",
        "    for e in a:\n        first()\n        break\n",
        "        own()\n",
    ),
    "each path through a try returns": (
        "    first()\n    last()\n",
        "    first()\n    try:\n        return last()\n    except a:\n        return b\n",
        "    own()\n",
    ),
    "each case of a match returns": (
        "    first()\n    last()\n",
        "    first()\n    match a:\n      case 1:\n        return last()\n      case _:\n        return b\n",
        "    own()\n",
    ),
    "it returns in a context": (
        "    first()\n    last()\n",
        "    first()\n    with a:\n        return last()\n",
        "    own()\n",
    ),
}


@pytest.mark.parametrize("versions", UNREACHABLE.values(), ids=UNREACHABLE)
def test_an_edit_that_leaves_code_of_this_tree_unreachable_is_a_conflict(
    versions: tuple[str, str, str],
) -> None:
    base, theirs, own = versions
    made, edits = landed(program(base), program(theirs), program(base + own))
    assert made == program(base + own)
    assert Outcome.CONFLICT in {edit.outcome for edit in edits}
    assert any("`own()` would be unreachable" in edit.reason for edit in edits)


def test_a_file_that_is_merged_by_lines_keeps_its_code_reachable() -> None:
    base = "\f\n" + program("    first()\n    last()\n\n\nclass Desk:\n    pass\n")
    theirs = base.replace("    last()", "    return last()")
    ours = base.replace("    last()\n", "    last()\n\n    own()\n")
    made, edits = landed(base, theirs, ours)
    assert (made, [edit.outcome for edit in edits]) == (ours, [Outcome.CONFLICT])
    assert landed(base, theirs, base.replace("pass", "days = 1"))[0] == theirs.replace("pass", "days = 1")


def test_new_code_that_this_tree_could_not_reach_is_a_conflict() -> None:
    base = "    first()\n    if a:\n        last()\n"
    ours = "    first()\n    if a:\n        return last()\n    else:\n        return own()\n"
    made, edits = landed(program(base), program(f"{base}    new()\n"), program(ours))
    assert (made, [edit.outcome for edit in edits]) == (program(ours), [Outcome.CONFLICT])


def test_a_match_that_may_have_no_case_for_a_value_is_left_only_in_some() -> None:
    base = "    first()\n    last()\n"
    theirs = "    first()\n    match a:\n      case 1:\n        return last()\n      case b if b:\n        return b\n"
    made, edits = landed(program(base), program(theirs), program(f"{base}    own()\n"))
    assert (made, [edit.outcome for edit in edits]) == (program(f"{theirs}    own()\n"), [Outcome.LANDED])


def test_a_context_may_suppress_an_exception_and_code_after_it_stays_reachable() -> None:
    base, theirs = "    first()\n    last()\n", "    first()\n    with a:\n        raise last\n"
    made, edits = landed(program(base), program(theirs), program(f"{base}    own()\n"))
    assert (made, [edit.outcome for edit in edits]) == (program(f"{theirs}    own()\n"), [Outcome.LANDED])


def test_code_of_this_tree_among_code_that_the_change_leaves_unreachable_shares_that() -> None:
    base = "    first()\n    second()\n    third()\n    last()\n"
    theirs = "    raise ValueError\n" + base
    own = ("    third()\n", "    own()\n    third()\n")
    made, edits = landed(program(base), program(theirs), program(base.replace(*own)))
    assert (made, [edit.outcome for edit in edits]) == (program(theirs.replace(*own)), [Outcome.LANDED])


def test_code_that_was_unreachable_before_may_stay_so() -> None:
    base = "    first()\n    last()\n"
    ours = "    return 1\n    first()\n    last()\n    own()\n"
    made, edits = landed(program(base), program(base.replace("last()", "last(1)")), program(ours))
    assert made == program(ours.replace("last()", "last(1)"))
    assert not {edit.outcome for edit in edits} & NOT_MADE


FORMS = (
    "    x{0} = f{0}(a)\n",
    "    g{0}(a)\n",
    "    # {0}\n    self.p{0} = a + {0}\n",
    "    if c{0}:\n        h{0}()\n        i{0}()\n",
    "    if c{0}:\n        h{0}()\n    else:\n        i{0}()\n",
    "    if c{0}:\n        return r{0}\n",
    "    for e{0} in s{0}:\n        h{0}(e{0})\n        i{0}()\n",
    "    try:\n        h{0}()\n    except e{0}:\n        i{0}()\n",
    "    with w{0}() as q{0}:\n        h{0}()\n        i{0}()\n",
    "    match m{0}:\n        case True:\n            h{0}()\n        case False:\n            i{0}()\n",
    "    @d{0}\n    def n{0}(u):\n        h{0}()\n        return u{0}\n",
    "    k{0}(\n        a,\n        b,\n    )\n",
)
REPLACED = {"insert": 0, "delete": 1, "replace one": 1, "replace two": 2, "inside": 0, "return": 9}
"""The number of statements that each kind of edit replaces."""


@st.composite
def triples(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw a function, and two versions of it that were edited in one or two places each."""
    forms = draw(st.lists(st.sampled_from(FORMS), min_size=3, max_size=7))
    base = [form.format(number) for number, form in enumerate(forms)]

    def edited(numbers: range) -> str:
        found = list(base)
        for number in numbers[: draw(st.integers(1, 2))]:
            index, new = draw(st.integers(0, len(found))), draw(st.sampled_from(FORMS)).format(number)
            edit = draw(st.sampled_from(list(REPLACED)))
            if edit == "inside" and index < len(found):
                found[index] = re.sub(r"( +)h", rf"\1j{number}()\n\1h", found[index], count=1)
                continue
            texts = {"delete": [], "return": [f"    return z{number}\n"]}
            found[index : index + REPLACED[edit]] = texts.get(edit, [new])
        return program("".join(found) or "    pass\n")

    return program("".join(base)), edited(range(10, 12)), edited(range(20, 22))


def merged_by_git(versions: tuple[str, str, str], folder: str) -> str | None:
    """Return git's merge; None if it has a conflict."""
    for name, text in zip(("base", "theirs", "ours"), versions, strict=True):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    command = ("git", "merge-file", "-p", "-q", "ours", "base", "theirs")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def blocks(text: str) -> list[list[str]]:
    """Return the first lines of each block's statements, sorted: what both insert at one place has no order."""
    bodies = (getattr(node, "body", None) for node in ast.walk(ast.parse(text)))
    return sorted(
        sorted(ast.unparse(each).partition("\n")[0] for each in body)
        for body in bodies
        if isinstance(body, list)
    )


@given(versions=triples())
def test_where_git_merges_both_versions_the_result_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, versions: tuple[str, str, str]
) -> None:
    expected = merged_by_git(versions, str(tmp_path_factory.mktemp("merge")))
    if expected is not None:
        made, edits = landed(*versions)
        assert not {edit.outcome for edit in edits} & NOT_MADE
        assert blocks(made) == blocks(expected)


@given(versions=triples())
def test_what_was_made_is_found_and_making_it_again_changes_nothing(versions: tuple[str, str, str]) -> None:
    base, theirs, ours = versions
    made, edits = landed(base, theirs, ours)
    if not {edit.outcome for edit in edits} & NOT_MADE:
        again, edits = landed(base, theirs, made)
        assert again == made
        assert not {edit.outcome for edit in edits} & NOT_MADE


def lines(text: str) -> list[str]:
    """Return the lines of a function that have a number, and with it a name of their own."""
    return [line.strip() for line in text.splitlines() if re.search(r"\d", line)]


def unreachable(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        block = getattr(node, "body", [])
        returns = [index for index, each in enumerate(block) if isinstance(each, ast.Return)]
        yield from map(ast.unparse, block[returns[0] + 1 :] if returns else ())


@given(versions=triples())
def test_own_statements_are_kept_in_order_and_reachable(versions: tuple[str, str, str]) -> None:
    base, theirs, ours = versions
    made, edits = landed(*versions)
    if {edit.outcome for edit in edits} & NOT_MADE:
        return
    old, new, own, result = map(lines, (base, theirs, ours, made))
    kept = [line for line in own if line not in old or line in new]
    assert [line for line in result if line in kept] == kept
    assert not {*unreachable(made)} - {*unreachable(theirs)} - {*unreachable(ours)}


ORDERS = {
    "own code is before what it followed": (
        "first second last",
        "first own second last",
        "own first second last",
        True,
    ),
    "own code is behind what it preceded": (
        "first second last",
        "first own second last",
        "first second own last",
        True,
    ),
    "own code is where it was": ("first second last", "first own second last", "first new own last", False),
    "the change moves a statement past it": (
        "second last first",
        "first own second last",
        "own second last first",
        False,
    ),
    "own code follows nothing that stays": ("last", "first own second last", "own last", False),
}


@pytest.mark.parametrize(("theirs", "ours", "result", "is_reversed"), ORDERS.values(), ids=ORDERS)
def test_a_result_that_reverses_own_code_and_code_that_stays_is_told_from_others(
    theirs: str, ours: str, result: str, is_reversed: bool
) -> None:
    base, after, current, merged = (
        outline(program("".join(f"    {name}()\n" for name in names.split())))
        for names in ("first second last", theirs, ours, result)
    )
    versions = base.children[0], after.children[0], current.children[0]
    reasons = [each.reason for each in disturbances(versions, merged, Correspondence())]
    assert [re.sub("`.*?`", "_", reason) for reason in reasons] == (
        ["in this tree _ would come before _"] if is_reversed else []
    )


@pytest.mark.parametrize(
    ("result", "reasons"),
    [
        ("    if a:\n        first()\n    own()\n    last()\n", []),
        ("    if a:\n        first()\n    last()\n", ["in this tree `own()` would be lost"]),
        (
            "    if a:\n        first()\n        own()\n    last()\n",
            ["in this tree `own()` would be in another block"],
        ),
    ],
)
def test_a_result_without_own_code_where_it_was_is_told_from_others(result: str, reasons: list[str]) -> None:
    base = "    if a:\n        first()\n    last()\n"
    ours = "    if a:\n        first()\n    own()\n    last()\n"
    before, current = (outline(program(text)).children[0] for text in (base, ours))
    found = disturbances((before, before, current), outline(program(result)), Correspondence())
    assert [each.reason for each in found] == reasons


def test_a_guard_at_the_start_of_a_function_comes_before_a_tree_s_own_statements() -> None:
    base, theirs = "    first(a)\n    last(b)\n", "    if b:\n        return\n    first(a)\n    last(b)\n"
    for start in ("", '    """Lends."""\n'):
        ours = f"{start}    own(a)\n{base}"
        made, edits = landed(program(base), program(theirs), program(ours))
        assert made == program(f"{start}    if b:\n        return\n    own(a)\n{base}")
        assert {edit.outcome for edit in edits} <= {Outcome.LANDED, Outcome.CHANGED}


@pytest.mark.parametrize(
    "own",
    [
        "import first.again\n",
        "from c import again as first\n",
        "async def first():\n        pass\n",
        "try:\n        pass\n    except a as first:\n        pass\n",
        "match a:\n        case [first]:\n            pass\n",
    ],
)
def test_code_that_binds_a_name_matters_to_code_that_uses_it_however_it_binds(own: str) -> None:
    one, other = (outline(program(f"    {text}")).children[0].children for text in (own, "first(b)\n"))
    assert order_matters(one, other)


def test_the_returns_of_a_function_in_a_function_leave_only_that() -> None:
    items = outline(program("    def inner():\n        return 1\n    own(a)\n")).children[0].children
    assert [may_exit(item) for item in items] == [False, False]
    assert not order_matters(items[:1], items[1:])


def test_a_change_in_a_block_that_this_tree_made_async_is_made_there() -> None:
    base = f"async {program('')}    with a:\n        first(a)\n        last(a)\n    return b\n"
    change = ("first(a)", "first(a, b)")
    ours = base.replace("    with", "    async with").replace("last(a)", "last(a)\n        own(a)")
    made, edits = landed(base, base.replace(*change), ours)
    assert (made, [edit.outcome for edit in edits]) == (ours.replace(*change), [Outcome.LANDED])

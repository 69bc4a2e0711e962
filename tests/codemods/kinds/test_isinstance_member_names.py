"""A test of a name is the one that is meant only where that name can hold nothing but the subject."""

from __future__ import annotations

import textwrap

import pytest
from support.programs import check_noop, edit, examine, program, rewritten

from patchkit.codemods.examination import SiteState

KINDLE = edit("isinstance-member", subject="desk.item", beside="Book", member="Reader")
OLD, NEW = "isinstance(item, Book)", "isinstance(item, (Book, Reader))"

# What stands in `def lend(desk, others):`; the one test of `item` is the one that is meant.
HELD = {
    "an assignment": "item = desk.item\nfine = isinstance(item, Book)",
    "an annotated one": "item: Item = desk.item\nfine = isinstance(item, Book)",
    "an annotation and an assignment": "item: Item\nitem = desk.item\nfine = isinstance(item, Book)",
    "several targets": "first = item = desk.item\nfine = isinstance(item, Book)",
    "the same in both branches": (
        "if others:\n    item = desk.item\nelse:\n    item = desk.item\nfine = isinstance(item, Book)"
    ),
    "one branch, and unbound in the other": "if others:\n    item = desk.item\nfine = isinstance(item, Book)",
    "a loop that gives it the same": "for each in others:\n    item = desk.item\n    fine = isinstance(item, Book)",
    "a walrus": "if (item := desk.item) and isinstance(item, Book):\n    pass",
    "a walrus in a comprehension, read around it": (
        "met = [1 for each in others if (item := desk.item)]\nfine = isinstance(item, Book)"
    ),
    "a comprehension's own variable": (
        "item = desk.item\nnames = [item for item in others]\nfine = isinstance(item, Book)"
    ),
    "a nested function's parameter": "item = desk.item\ndef g(item):\n    return item\nfine = isinstance(item, Book)",
    "a nested function's own variable": (
        "item = desk.item\ndef g():\n    item = 1\n    return item\nfine = isinstance(item, Book)"
    ),
    "a lambda's parameter": "item = desk.item\ng = lambda item: item\nfine = isinstance(item, Book)",
    "a class's attribute": "item = desk.item\nclass Case:\n    item = 1\nfine = isinstance(item, Book)",
    "a keyword and an attribute of that name": (
        "item = desk.item\nfor desk_.item in others(item=1):\n    pass\nfine = isinstance(item, Book)"
    ),
    "a nested function that reads it": "item = desk.item\ndef g():\n    return isinstance(item, Book)",
    "a lambda that reads it": "item = desk.item\ng = lambda: isinstance(item, Book)",
    "a comprehension that reads it": "item = desk.item\nmet = [isinstance(item, Book) for each in others]",
    "a nested decorated function": "item = desk.item\n@others\ndef g():\n    return isinstance(item, Book)",
    "a nested asynchronous function": "item = desk.item\nasync def g():\n    return isinstance(item, Book)",
    "an item that is deleted from it": "item = desk.item\ndel item[0], item.next\nfine = isinstance(item, Book)",
}

# The test may be of the subject or of something else.
DOUBTFUL = {
    "for": "item = desk.item\nfor item in others:\n    fine = isinstance(item, Book)",
    "after a for": "item = desk.item\nfor item in others:\n    pass\nfine = isinstance(item, Book)",
    "for with tuple targets": "item = desk.item\nfor n, (item, *rest) in others:\n    fine = isinstance(item, Book)",
    "with": "item = desk.item\nwith others as item:\n    fine = isinstance(item, Book)",
    "with tuple targets": "item = desk.item\nwith others as (n, item):\n    fine = isinstance(item, Book)",
    "except": "item = desk.item\ntry:\n    pass\nexcept E as item:\n    fine = isinstance(item, Book)",
    "except group": "item = desk.item\ntry:\n    pass\nexcept* E as item:\n    fine = isinstance(item, Book)",
    "annotated": "others = None\nitem = desk.item\nitem: int = 3\nfine = isinstance(item, Book)",
    "a nested def of that name": "item = desk.item\ndef item(): ...\nfine = isinstance(item, Book)",
    "a class of that name": "item = desk.item\nclass item: ...\nfine = isinstance(item, Book)",
    "walrus": "item = desk.item\nif (item := others):\n    fine = isinstance(item, Book)",
    "walrus in a comprehension": (
        "item = desk.item\nmet = [1 for each in others if (item := each)]\nfine = isinstance(item, Book)"
    ),
    "walrus in a comprehension that reads it": (
        "item = desk.item\nmet = [isinstance(item, Book) for each in others if (item := each)]"
    ),
    "match capture": "item = desk.item\nmatch others:\n    case item:\n        fine = isinstance(item, Book)",
    "match as": "item = desk.item\nmatch others:\n    case [1] as item:\n        fine = isinstance(item, Book)",
    "match in a class pattern": (
        "item = desk.item\nmatch others:\n    case Shelf(first=item):\n        fine = isinstance(item, Book)"
    ),
    "match star": "item = desk.item\nmatch others:\n    case [_, *item]:\n        fine = isinstance(item, Book)",
    "match rest": "item = desk.item\nmatch others:\n    case {1: _, **item}:\n        fine = isinstance(item, Book)",
    "del": "item = desk.item\ndel item\nfine = isinstance(item, Book)",
    "del of several": "item = desk.item\ndel (others, [item])\nfine = isinstance(item, Book)",
    "augmented": "item = desk.item\nitem += 1\nfine = isinstance(item, Book)",
    "tuple target": "item = desk.item\nitem, other = others\nfine = isinstance(item, Book)",
    "star target": "item = desk.item\nfirst, *item = others\nfine = isinstance(item, Book)",
    "import": "item = desk.item\nimport item\nfine = isinstance(item, Book)",
    "import as": "item = desk.item\nimport shop as item\nfine = isinstance(item, Book)",
    "from import as": "item = desk.item\nfrom shop import thing as item\nfine = isinstance(item, Book)",
    "one branch gives another": (
        "if others:\n    item = desk.item\nelse:\n    item = others\nfine = isinstance(item, Book)"
    ),
    "a loop gives it another for the next round": (
        "item = desk.item\nwhile others:\n    fine = isinstance(item, Book)\n    item = others"
    ),
    "another afterwards": "item = desk.item\nfine = isinstance(item, Book)\nif others:\n    item = others",
    "nonlocal": (
        "item = desk.item\ndef g():\n    nonlocal item\n    item = others\ng()\nfine = isinstance(item, Book)"
    ),
    "nonlocal two functions down": (
        "item = desk.item\ndef g():\n    def h():\n        nonlocal item\n        item = others\n    h()\n"
        "g()\nfine = isinstance(item, Book)"
    ),
    "global": "global item\nitem = desk.item\nfine = isinstance(item, Book)",
    "the subject's own variable": "item = desk.item\ndesk = others\nfine = isinstance(item, Book)",
}

# It is another variable for sure, or never the subject.
ANOTHER = {
    "a nested function's parameter": "item = desk.item\ndef g(item):\n    return isinstance(item, Book)",
    "its keyword-only parameter": "item = desk.item\ndef g(*, item=1):\n    return isinstance(item, Book)",
    "its star parameter": "item = desk.item\ndef g(*item):\n    return isinstance(item, Book)",
    "a decorated one's parameter": "item = desk.item\n@others\ndef g(item):\n    return isinstance(item, Book)",
    "an asynchronous one's variable": (
        "item = desk.item\nasync def g():\n    async for item in others:\n        return isinstance(item, Book)"
    ),
    "an asynchronous one's with": (
        "item = desk.item\nasync def g():\n    async with others as item:\n        return isinstance(item, Book)"
    ),
    "a lambda's parameter": "item = desk.item\ng = lambda item: isinstance(item, Book)",
    "a comprehension's variable": "item = desk.item\nmet = [isinstance(item, Book) for item in others]",
    "a dict comprehension's variable": "item = desk.item\nmet = {n: isinstance(item, Book) for n, item in others}",
    "a variable of a class's method": (
        "item = desk.item\nclass Case:\n    item = 1\n    def g(self):\n        item = 2\n"
        "        isinstance(item, Book)"
    ),
    "a subject of a nested parameter": "def g(desk):\n    item = desk.item\n    return isinstance(item, Book)",
    "the subject of a nested parameter": "def g(desk):\n    return isinstance(desk.item, Book)",
    "the subject of a comprehension's variable": "met = [isinstance(desk.item, Book) for desk in others]",
    "the subject of a lambda's parameter": "g = lambda desk: isinstance(desk.item, Book)",
    "a name that is given something else": "item = desk.next\nfine = isinstance(item, Book)",
}


def lend(body: str) -> str:
    return "def lend(desk, others, desk_=None):\n" + textwrap.indent(body, "    ") + "\n"


@pytest.mark.parametrize("body", HELD.values(), ids=list(HELD))
def test_a_name_that_holds_the_subject_alone_counts_as_it(body: str) -> None:
    after = rewritten(KINDLE, lend(body), "lend")
    assert after.count(NEW) == 1
    assert OLD not in after


@pytest.mark.parametrize("body", DOUBTFUL.values(), ids=list(DOUBTFUL))
def test_a_name_that_may_hold_something_else_is_a_conflict(body: str) -> None:
    compile(program(lend(body)), "program.py", "exec")
    check_noop(KINDLE, lend(body), SiteState.AMBIGUOUS, "lend", "may hold something else: `")


@pytest.mark.parametrize("body", ANOTHER.values(), ids=list(ANOTHER))
def test_another_variable_of_that_name_is_not_the_one(body: str) -> None:
    check_noop(KINDLE, lend(body), SiteState.ABSENT, "lend", "expected `isinstance(desk.item, Book)`")


def test_a_parameter_that_is_given_the_subject_in_one_branch_is_a_conflict() -> None:
    source = (
        "def lend(desk, item):\n    if desk:\n        item = desk.item\n    return isinstance(item, Book)\n"
    )
    check_noop(KINDLE, source, SiteState.AMBIGUOUS, "lend", "may hold something else")


def test_a_sound_test_beside_a_doubtful_one_is_the_one_that_is_meant() -> None:
    source = lend(
        "for item in others:\n    a = isinstance(item, Book)\nitem = desk.item\nb = isinstance(desk.item, Book)"
    )
    assert "b = isinstance(desk.item, (Book, Reader))" in rewritten(KINDLE, source, "lend")


@pytest.mark.parametrize(
    "source",
    [
        "class Desk:\n    item = desk.item\n    fine = isinstance(item, Book)\n",
        "desk = open_desk()\nclass Desk:\n    item = desk.item\n    fine = isinstance(item, Book)\n",
    ],
)
def test_a_name_of_a_class_that_holds_the_subject_alone_counts_as_it(source: str) -> None:
    assert NEW in rewritten(KINDLE, source, "Desk")


def test_a_name_of_a_class_that_the_module_has_too_is_a_conflict() -> None:
    source = (
        "item = 1\nclass Desk:\n    if late:\n        item = desk.item\n    fine = isinstance(item, Book)\n"
    )
    check_noop(KINDLE, source, SiteState.AMBIGUOUS, "Desk", "may hold something else")


def test_a_name_of_a_class_is_not_what_its_methods_read() -> None:
    source = "class Desk:\n    item = desk.item\n    def lend(self, item):\n        isinstance(item, Book)\n"
    check_noop(KINDLE, source, SiteState.ABSENT, "Desk")


def test_a_global_of_the_module_holds_the_subject_unless_a_function_declares_it() -> None:
    source = "item = desk.item\nfine = isinstance(item, Book)\n"
    assert NEW in rewritten(KINDLE, source)
    declared = source + "def other():\n    global item\n    item = 1\n"
    check_noop(KINDLE, declared, SiteState.AMBIGUOUS, reason="may hold something else")


def test_a_name_that_a_type_alias_binds_as_well_is_a_conflict() -> None:
    # This Python may be too old to compile it, and libcst parses it.
    source = "item = desk.item\ntype item = int\nfine = isinstance(item, Book)\n"
    assert examine(KINDLE, source).state is SiteState.AMBIGUOUS


FLAT = edit("isinstance-member", subject="item", beside="Book", member="Reader")


@pytest.mark.parametrize(
    "more",
    [
        "for FLAT in (1, 2):\n    pass\n",
        "if late:\n    FLAT = (Film,)\n",
        "FLAT += (Film,)\n",
        "from shop import FLAT\n",
        "from shop import *\n",
        "def change():\n    global FLAT\n    FLAT = ()\n",
        "del FLAT\n",
    ],
)
def test_a_constant_that_is_bound_otherwise_too_lists_nothing(more: str) -> None:
    source = f"FLAT = (Book, Film)\n{more}def lend(item):\n    return isinstance(item, FLAT)\n"
    check_noop(FLAT, source, SiteState.ABSENT, "lend")


@pytest.mark.parametrize("header", ["def lend(item, FLAT):", "def lend(item):\n    FLAT = other()"])
def test_a_local_hides_the_constant_of_that_name(header: str) -> None:
    source = f"FLAT = (Book, Film)\n{header}\n    return isinstance(item, FLAT)\n"
    check_noop(FLAT, source, SiteState.ABSENT, "lend")


@pytest.mark.parametrize(
    "more",
    ["", "class Other:\n    FLAT = 1\n", "def other(FLAT):\n    FLAT = 1\n", "g = [FLAT for FLAT in ()]\n"],
)
def test_a_constant_is_what_it_lists_whatever_others_call_so(more: str) -> None:
    source = f"FLAT = (Book, Film)\n{more}def lend(item):\n    return isinstance(item, FLAT)\n"
    assert "isinstance(item, (FLAT, Reader))" in rewritten(FLAT, source, "lend")


def test_a_constant_of_a_class_counts_unless_its_methods_set_it() -> None:
    source = (
        "class Desk:\n    FLAT = (Book, Film)\n"
        "    def lend(self, item):\n        return isinstance(item, self.FLAT)\n"
    )
    assert "isinstance(item, (self.FLAT, Reader))" in rewritten(FLAT, source, "Desk.lend")
    changed = source + "    def change(self):\n        self.FLAT = ()\n"
    check_noop(FLAT, changed, SiteState.ABSENT, "Desk.lend")

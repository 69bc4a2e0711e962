"""After a port an attribute that is set below a call of this tree's own that reads it is a finding."""

from __future__ import annotations

import pytest

from patchkit.porting.findings import findings_of
from patchkit.tree.tree import MemoryTree

FILE = "srt/desk.py"
BASE = """\
class Shelf:
    def __init__(self, size):
        self.rows = {}
        self.load()

    def load(self):
        return self.rows

    def sorted(self):
        return self.rows


class Desk(Shelf):
    limit = 1

    def __init__(self, size):
        self.size = size
        self.open()

    def open(self):
        return self.size

    def fill(self):
        return self.show()

    def show(self):
        return self.limit


def measure(desk):
    return desk.limit
"""
SET = "        self.limit = size + 1\n"
OPEN = "        self.open()\n"


def edited(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def found(own: str, theirs: str, result: str, base: str = BASE) -> list[str]:
    tree = MemoryTree({FILE: own.encode()})
    sources = {FILE: (base.encode(), theirs.encode())}
    return [finding.message for finding in findings_of(tree, {FILE: result.encode()}, (), None, sources)]


@pytest.mark.parametrize(
    "call", ["self.fill()", "self.show()", "measure(self)", "measure(desk=self)", "run = self.fill()"]
)
def test_an_attribute_that_is_set_below_a_call_of_this_tree_that_reads_it(call: str) -> None:
    line = f"        {call}\n"
    own, theirs = edited(BASE, (OPEN, OPEN + line)), edited(BASE, (OPEN, OPEN + SET))
    (message,) = found(own, theirs, edited(own, (line, line + SET)))
    assert message.startswith("Desk.__init__ sets `self.limit` below `")
    assert found(own, theirs, edited(own, (OPEN, SET + OPEN))) == []


@pytest.mark.parametrize(
    "call",
    [
        "self.sorted()",
        "measure(size)",
        "later = lambda: self.fill()",
        "self.unknown()",
        "super().sorted()",
    ],
)
def test_a_call_that_does_not_read_it_or_does_so_later(call: str) -> None:
    line = f"        {call}\n"
    own, theirs = edited(BASE, (OPEN, OPEN + line)), edited(BASE, (OPEN, OPEN + SET))
    assert found(own, theirs, edited(own, (line, line + SET))) == []


def test_a_call_in_another_branch() -> None:
    own = edited(BASE, (OPEN, "        if size:\n            self.fill()\n        else:\n            pass\n"))
    result = edited(own, ("            pass\n", "            self.limit = size + 1\n"))
    assert found(own, edited(BASE, (OPEN, OPEN + SET)), result) == []


def test_a_call_that_the_change_has_above_it_too() -> None:
    own = edited(BASE, (OPEN, f"{OPEN}        self.fill()\n"))
    theirs = edited(BASE, (OPEN, f"{OPEN}        self.fill()\n{SET}"))
    assert found(own, theirs, edited(own, ("        self.fill()\n", f"        self.fill()\n{SET}"))) == []


def test_an_attribute_that_was_set_there_before() -> None:
    own = edited(BASE, (OPEN, f"{OPEN}        self.fill()\n        self.limit = 3\n"))
    assert found(own, BASE, edited(own, ("self.limit = 3", "self.limit = size + 1"))) == []


def test_a_method_that_is_not_the_constructor() -> None:
    method = "    def start(self, size):\n        self.fill()\n"
    own = edited(BASE, ("    def fill(self):\n", f"{method}\n    def fill(self):\n"))
    result = edited(own, (method, method + SET))
    theirs = edited(BASE, (OPEN, OPEN + SET))
    assert found(own, theirs, result) == []  # It has a value from the class.
    without = ("    limit = 1\n\n", "")
    (message,) = found(edited(own, without), edited(theirs, without), edited(result, without))
    assert message.startswith("Desk.start sets `self.limit` below `self.fill()`")


def test_an_assignment_that_moves_below_a_call_of_this_tree() -> None:
    method = f"    def start(self, size):\n{SET}        self.fill()\n"
    own = edited(BASE, ("    def fill(self):\n", f"{method}\n    def fill(self):\n"))
    result = edited(
        own, (f"{SET}        self.fill()\n", "        self.fill()\n        self.limit = size + 2\n")
    )
    (message,) = found(own, BASE, result)
    assert message.startswith("Desk.start sets `self.limit` below `self.fill()`")


def test_a_call_that_looks_for_the_attribute() -> None:
    guarded = ("        return self.limit\n", "        return getattr(self, 'limit', 0) and self.limit\n")
    own = edited(BASE, guarded, (OPEN, f"{OPEN}        self.fill()\n"))
    result = edited(own, ("        self.fill()\n", f"        self.fill()\n{SET}"))
    assert found(own, edited(BASE, guarded, (OPEN, OPEN + SET)), result) == []


RUNNER = """

class Runner:
    def __init__(self, desk):
        self.desk = desk
        self.capture()

    def capture(self):
        return self.desk.show()
"""


@pytest.mark.parametrize("made", ["Runner(self)", "{1: Runner}[size](desk=self)"])
def test_an_object_that_calls_back_while_it_is_made(made: str) -> None:
    base = BASE + RUNNER
    line = f"        self.runner = {made}\n"
    own, theirs = edited(base, (OPEN, OPEN + line)), edited(base, (OPEN, OPEN + SET))
    (message,) = found(own, theirs, edited(own, (line, line + SET)), base)
    assert message.endswith("where Desk.show reads it")
    other = edited(own, ("self.desk.show()", "self.desk.open()"))
    assert found(other, theirs, edited(other, (line, line + SET)), base) == []


def test_a_call_of_a_branch_that_leaves_runs_before_nothing_below_it() -> None:
    line = "        if size:\n            self.fill()\n            return\n"
    own, theirs = edited(BASE, (OPEN, OPEN + line)), edited(BASE, (OPEN, OPEN + SET))
    assert found(own, theirs, edited(own, (line, line + SET))) == []


def test_what_a_function_that_is_only_made_reads_is_read_later() -> None:
    base = edited(BASE, ("        return self.show()\n", "        self.later = lambda: self.limit\n"))
    own, theirs = (edited(base, (OPEN, OPEN + more)) for more in ("        self.fill()\n", SET))
    line = "        self.fill()\n"
    assert found(own, theirs, edited(own, (line, line + SET)), base) == []


@pytest.mark.parametrize(("calls", "findings"), [(4, 1), (5, 0)])
def test_a_method_that_four_calls_lead_to_is_looked_at_and_none_behind_it(calls: int, findings: int) -> None:
    bodies = [f"self.m{number}()" for number in range(1, calls)] + ["return self.limit"]
    methods = "".join(f"    def m{number}(self):\n        {body}\n\n" for number, body in enumerate(bodies))
    base = edited(BASE, ("    def fill(self):\n", f"{methods}    def fill(self):\n"))
    line = OPEN + "        self.m0()\n"
    own, theirs = edited(base, (OPEN, line)), edited(base, (OPEN, OPEN + SET))
    assert len(found(own, theirs, edited(own, (line, line + SET)), base)) == findings


def test_methods_that_call_each_other_often_are_each_looked_at_once() -> None:
    calls = "".join(f"        self.m{number}()\n" for number in range(40))
    methods = "".join(f"    def m{number}(self):\n{calls}\n" for number in range(40))
    base = edited(BASE, ("    def fill(self):\n", f"{methods}    def fill(self):\n"))
    own, theirs = (edited(base, (OPEN, OPEN + more)) for more in ("        self.m0()\n", SET))
    line = OPEN + "        self.m0()\n"
    assert found(own, theirs, edited(own, (line, line + SET)), base) == []

from __future__ import annotations

import ast

import pytest
from support.audited import MemoryTree, prelude

from patchkit.audit.modes import Modes, compare_mode, mode_member
from patchkit.tree.index import Program, read_sources

MODES = "srt/model_executor/forward_batch_info.py"


def modes(**replaced: str) -> Modes:
    files = prelude()
    for old, new in replaced.items():
        files[MODES] = files[MODES].replace(old, new)
    return Modes(Program(read_sources(MemoryTree(files))))


def of_enum(*lines: str) -> Modes:
    """Return the modes of a tree whose enum has this body."""
    source = "".join(f"    {line}\n" for line in lines)
    return Modes(Program({MODES: f"# seq_lens_cpu\nclass ForwardMode:\n    DECODE = 1\n{source}".encode()}))


def expression(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


def comparison(source: str) -> ast.Compare:
    node = expression(source)
    assert isinstance(node, ast.Compare)
    return node


@pytest.mark.parametrize(
    ("predicate", "mode", "holds"),
    [
        ("is_decode", "DECODE", True),
        ("is_decode", "EXTEND", False),
        ("is_decode_or_idle", "IDLE", True),
        ("is_extend", "TARGET_VERIFY", True),
        ("is_extend", "DRAFT_EXTEND_V2", False),
        ("is_draft_extend", "DRAFT_EXTEND_V2", False),
    ],
)
def test_a_predicate_is_decided_from_the_enum_itself(predicate: str, mode: str, holds: bool) -> None:
    assert modes().holds(predicate, mode) is holds
    assert modes().is_predicate(predicate)


def test_an_argument_of_the_call_counts() -> None:
    call = ast.parse("m.is_draft_extend(include_v2=True)", mode="eval").body
    assert isinstance(call, ast.Call)
    assert modes().holds("is_draft_extend", "DRAFT_EXTEND_V2", call) is True


def test_an_unknown_predicate_is_not_guessed() -> None:
    assert modes().holds("is_something_else", "DECODE") is None
    assert not modes().is_predicate("is_something_else")


def test_a_tree_whose_enum_lost_the_second_draft_mode_uses_the_first() -> None:
    assert "DRAFT_EXTEND" in modes(DRAFT_EXTEND_V2="DRAFT_EXTEND").mirrorless
    assert modes().mirrorless == ("DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2")


def test_the_steps_are_those_of_the_enum_and_all_where_there_is_none() -> None:
    assert of_enum().mirrorless == ("DECODE",)
    assert of_enum("DRAFT_EXTEND = 2").mirrorless == ("DECODE", "DRAFT_EXTEND")
    assert Modes(Program({})).mirrorless == ("DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2")


@pytest.mark.parametrize(("mode", "holds"), [("DECODE", True), ("EXTEND", None)])
def test_a_predicate_that_also_asks_something_unknown_is_decided_only_by_the_rest(
    mode: str, holds: bool | None
) -> None:
    known = {"return self.is_decode() or self == ForwardMode.IDLE": "return self.is_decode() or elsewhere()"}
    assert modes(**known).holds("is_decode_or_idle", mode) is holds


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ("return True", True),
        ("return False", False),
        ("return 1", None),
        ("return elsewhere", None),
        ("return elsewhere()", None),
        ("return", None),
        ("pass", None),
        ("return self == ForwardMode.DECODE", True),
        ("return not self == ForwardMode.DECODE", False),
        ("return -self", None),
        ("return not elsewhere()", None),
        ("return self == ForwardMode.DECODE and True", True),
        ("return self == ForwardMode.DECODE and False", False),
        ("return elsewhere() and self != ForwardMode.DECODE", False),
        ("return elsewhere() and self == ForwardMode.DECODE", None),
        ("return elsewhere() or self == ForwardMode.DECODE", True),
        ("return False or False", False),
        ("return self.is_first() if self == ForwardMode.DECODE else self.is_second()", True),
        ("return self.is_first() if self == ForwardMode.IDLE else self.is_second()", False),
        ("return self.is_first() if elsewhere() else self.is_second()", None),
        ("return first", None),
        ("return second", False),
        ("return third", True),
        ("return self.is_given(second)", False),
        ("return self.is_given(third)", True),
        ("return self.is_given(first)", None),
        ("return self.is_given(value=third)", True),
        ("return self.is_given(value=second)", False),
        ("return self.is_given(True)", True),
        ("return self.is_given()", None),
    ],
)
def test_what_a_predicate_returns_in_a_decode(body: str, holds: bool | None) -> None:
    known = of_enum(
        "def is_asked(self, first, second=False, third=True):",
        f"    {body}",
        "def is_first(self): return True",
        "def is_second(self): return False",
        "def is_given(self, value): return value",
    )
    assert known.holds("is_asked", "DECODE") is holds


@pytest.mark.parametrize(
    ("call", "holds"),
    [
        ("m.is_asked()", False),
        ("m.is_asked(True)", False),
        ("m.is_asked(False, True)", True),
        ("m.is_asked(False, elsewhere)", None),
        ("m.is_asked(second=True)", True),
        ("m.is_asked(**elsewhere)", False),
        ("m.is_asked(False, True, False, True)", True),
    ],
)
def test_each_argument_of_a_call_is_that_of_its_parameter(call: str, holds: bool | None) -> None:
    node = expression(call)
    assert isinstance(node, ast.Call)
    known = of_enum("def is_asked(self, first, second=False, third=True): return second")
    assert known.holds("is_asked", "DECODE", node) is holds


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("m == ForwardMode.DECODE", True),
        ("m == ForwardMode.IDLE", False),
        ("m is ForwardMode.DECODE", True),
        ("m != ForwardMode.DECODE", False),
        ("m is not ForwardMode.IDLE", True),
        ("m in (ForwardMode.IDLE, ForwardMode.DECODE)", True),
        ("m in [ForwardMode.IDLE]", False),
        ("m not in {ForwardMode.IDLE}", True),
        ("m not in {ForwardMode.DECODE}", False),
        ("m in (ForwardMode.DECODE, elsewhere)", None),
        ("m == elsewhere", None),
        ("m < ForwardMode.DECODE", None),
        ("m == ForwardMode.DECODE == other", None),
    ],
)
def test_a_comparison_with_a_mode(test: str, holds: bool | None) -> None:
    assert compare_mode(comparison(test), "DECODE") is holds


@pytest.mark.parametrize(
    ("source", "member"),
    [
        ("ForwardMode.DECODE", "DECODE"),
        ("modes.ForwardMode.DECODE", "DECODE"),
        ("type(batch.forward_mode).DECODE", "DECODE"),
        ("type(forward_mode).DECODE", "DECODE"),
        ("type(batch.capture_mode).DECODE", None),
        ("type(batch.forward_mode, other).DECODE", None),
        ("kind(batch.forward_mode).DECODE", None),
        ("CaptureMode.DECODE", None),
        ("ForwardMode", None),
    ],
)
def test_a_member_of_the_enum(source: str, member: str | None) -> None:
    assert mode_member(expression(source)) == member

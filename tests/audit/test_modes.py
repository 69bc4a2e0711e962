from __future__ import annotations

import ast

import pytest
from support.audited import MemoryTree, prelude

from patchkit.audit.modes import Modes
from patchkit.tree.index import Program, read_sources

MODES = "srt/model_executor/forward_batch_info.py"


def modes(**replaced: str) -> Modes:
    files = prelude()
    for old, new in replaced.items():
        files[MODES] = files[MODES].replace(old, new)
    return Modes(Program(read_sources(MemoryTree(files))))


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


def test_an_argument_of_the_call_counts() -> None:
    call = ast.parse("m.is_draft_extend(include_v2=True)", mode="eval").body
    assert isinstance(call, ast.Call)
    assert modes().holds("is_draft_extend", "DRAFT_EXTEND_V2", call) is True


def test_an_unknown_predicate_is_not_guessed() -> None:
    assert modes().holds("is_something_else", "DECODE") is None


def test_a_tree_whose_enum_lost_the_second_draft_mode_uses_the_first() -> None:
    assert "DRAFT_EXTEND" in modes(DRAFT_EXTEND_V2="DRAFT_EXTEND").mirrorless
    assert modes().mirrorless == ("DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2")


@pytest.mark.parametrize(("mode", "holds"), [("DECODE", True), ("EXTEND", None)])
def test_a_predicate_that_also_asks_something_unknown_is_decided_only_by_the_rest(
    mode: str, holds: bool | None
) -> None:
    known = {"return self.is_decode() or self == ForwardMode.IDLE": "return self.is_decode() or elsewhere()"}
    assert modes(**known).holds("is_decode_or_idle", mode) is holds

"""A prefill server writes no more of a request that the decode server has given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

ROOM, OTHER = 7, 8
MESSAGE = [b"ABORT", b"7", b"decode", b"7000"]

before_and_after = without_and_with_each("27372", ("0.5.11", "0.5.12.post1"))


@pytest.mark.parametrize("how", ["aborted", "late"])
def test_each_prefill_server_is_notified_of_a_request_that_the_decode_server_aborts(
    before_and_after: tuple[DrivenTree, DrivenTree], how: str
) -> None:
    before, after = before_and_after
    assert before.ask("transfers.given_up", ROOM, how) == {"failed": True, "sent": []}
    sent = [("first", MESSAGE), ("second", MESSAGE)]
    assert after.ask("transfers.given_up", ROOM, how) == {"failed": True, "sent": sent}


def test_chunks_of_a_request_that_was_given_up_are_not_written(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    assert before.ask("transfers.written", [], ROOM)["written"] == [ROOM, OTHER]
    assert after.ask("transfers.written", [MESSAGE], ROOM) == {"written": [OTHER], "failed": [ROOM]}


def test_a_message_about_a_request_that_is_over_or_unknown_changes_nothing(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    _, after = before_and_after
    unknown = [b"ABORT", b"9", b"decode", b"7000"]
    assert after.ask("transfers.written", [MESSAGE], ROOM, over=True)["failed"] == []
    assert after.ask("transfers.written", [unknown], ROOM) == {"written": [ROOM, OTHER], "failed": []}

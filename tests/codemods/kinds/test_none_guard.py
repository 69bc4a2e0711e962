from __future__ import annotations

from typing import Any

import pytest
from support.programs import check_noop, check_transformed, rewritten

from patchkit.codemods.examination import SiteState
from patchkit.codemods.kinds.none_guard import NoneGuard


def guard(find: str, value: str, **keys: Any) -> NoneGuard:
    return NoneGuard(why="w", find=find, value=value, **keys)


GUARDED = guard("$d.sum += $x.pages", "$x.pages")


def test_guard_goes_around_the_statement() -> None:
    check_transformed(
        GUARDED,
        """
        for book in shelf:
            # how long
            desk.sum += book.pages  # all of it
        """,
        """
        for book in shelf:
            # how long
            # toy: so that it shows
            if book.pages is not None:
                desk.sum += book.pages  # all of it
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        "if book.pages is not None:\n        desk.sum += book.pages",
        "if book.pages is not None:\n        trace()\n        desk.sum += book.pages\n        trace()",
    ],
)
def test_guarded_statement_stays(body: str) -> None:
    check_noop(GUARDED, f"for book in shelf:\n    {body}\n", SiteState.PRESENT)


def test_guard_on_another_value_is_not_the_guard() -> None:
    source = "if book.title is not None:\n    desk.sum += book.pages\n"
    assert rewritten(GUARDED, source).count("is not None") == 2

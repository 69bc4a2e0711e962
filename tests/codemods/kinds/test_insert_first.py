from __future__ import annotations

from typing import Any

import pytest
from support.programs import check_noop, check_transformed

from patchkit.codemods.examination import SiteState
from patchkit.codemods.kinds.insert_first import InsertFirst


def opening(code: str, **keys: Any) -> InsertFirst:
    return InsertFirst(why="w", code=code, **keys)


OPENED = opening("self.check()")


def test_function_is_opened_below_its_docstring() -> None:
    check_transformed(
        OPENED,
        '''
        class Desk:
            def lend(self):
                """Lend."""

                # first
                return self.book
        ''',
        '''
        class Desk:
            def lend(self):
                """Lend."""
                # toy: so that it shows
                self.check()

                # first
                return self.book
        ''',
        at="Desk.lend",
    )


def test_function_on_one_line_is_opened() -> None:
    check_transformed(
        OPENED,
        """
        def lend(self): return self.book  # quick
        """,
        """
        def lend(self):
            # toy: so that it shows
            self.check()
            return self.book  # quick
        """,
        at="lend",
    )


@pytest.mark.parametrize("body", ["self.check()", "trace()\n    self.check()\n    return 1"])
def test_function_that_has_it_stays(body: str) -> None:
    check_noop(OPENED, f"def lend(self):\n    {body}\n", SiteState.PRESENT, at="lend")


@pytest.mark.parametrize(("source", "at"), [("class Desk:\n    pass\n", "Desk"), ("x = 1\n", "")])
def test_only_functions_are_opened(source: str, at: str) -> None:
    check_noop(OPENED, source, SiteState.ABSENT, at=at, reason="is not a function")

from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit

from patchkit.codemods.examination import SiteState

DAYS = edit("parameter", code="days: int = 14")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def lend():", "def lend(days: int = 14):"),
        ("def lend(self):", "def lend(self, days: int = 14):"),
        ("def lend(self, book, note=''):", "def lend(self, book, note='', days: int = 14):"),
        ("def lend(self, *books):", "def lend(self, *books, days: int = 14):"),
        ("def lend(self, *, note):", "def lend(self, *, note, days: int = 14):"),
        ("def lend(self, **more):", "def lend(self, days: int = 14, **more):"),
        ("def lend(*books, **more):", "def lend(*books, days: int = 14, **more):"),
        ("def lend(self, /):", "def lend(self, /, days: int = 14):"),
        ("def lend(self, /, book):", "def lend(self, /, book, days: int = 14):"),
        ("async def lend(self) -> Loan:", "async def lend(self, days: int = 14) -> Loan:"),
        ("def lend(\n    self,\n    book,\n):", "def lend(\n    self,\n    book,\n    days: int = 14,\n):"),
        ("def lend(\n    self,\n    book\n):", "def lend(\n    self,\n    book,\n    days: int = 14\n):"),
        (
            "def lend(\n    self,  # the desk\n    book,  # which\n) -> Loan:",
            "def lend(\n    self,  # the desk\n    book,  # which\n    days: int = 14,\n) -> Loan:",
        ),
        (
            "def lend(\n    self,\n    book  # which\n):",
            "def lend(\n    self,\n    book,  # which\n    days: int = 14\n):",
        ),
        (
            "def lend(\n    self,\n    *,\n    note,\n    **more,\n):",
            "def lend(\n    self,\n    *,\n    note,\n    days: int = 14,\n    **more,\n):",
        ),
    ],
)
def test_parameter_comes_last_in_the_layout_of_the_others(before: str, after: str) -> None:
    check_transformed(
        DAYS, f"{before}\n    pass\n", f"# toy: so that it shows\n{after}\n    pass\n", at="lend"
    )


def test_note_goes_above_the_decorators() -> None:
    check_transformed(
        DAYS,
        """
        class Desk:
            # the main thing
            @logged
            def lend(self): ...
        """,
        """
        class Desk:
            # the main thing
            # toy: so that it shows
            @logged
            def lend(self, days: int = 14): ...
        """,
        at="Desk.lend",
    )


@pytest.mark.parametrize(
    "parameters", ["days", "self, days=7", "*, days: int", "days, /", "self, *, note, days=14"]
)
def test_parameter_that_is_there_stays(parameters: str) -> None:
    check_noop(DAYS, f"def lend({parameters}):\n    pass\n", SiteState.PRESENT, at="lend")


def test_parameter_of_a_class_is_refused() -> None:
    check_noop(DAYS, "class Desk: ...\n", SiteState.ABSENT, at="Desk", reason="Desk is not a function")


@pytest.mark.parametrize("code", ["", "days", "days: int", "a=1, b=2", "*days", "days=$x", "days="])
def test_parameter_without_a_default_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("parameter", code=code)

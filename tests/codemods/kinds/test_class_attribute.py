from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit, rewritten

from patchkit.codemods.examination import SiteState

LENDS = edit("class-attribute", code="lends: bool = True")


def test_attribute_goes_below_the_docstring() -> None:
    check_transformed(
        LENDS,
        '''
        class Shelf:
            """Where books stand."""

            # how many
            rows = 5
        ''',
        '''
        class Shelf:
            """Where books stand."""

            # toy: so that it shows
            lends: bool = True

            # how many
            rows = 5
        ''',
        at="Shelf",
    )


def test_attribute_opens_a_class_without_a_docstring() -> None:
    check_transformed(
        LENDS,
        """
        class Shelf(Box):
            def empty(self): ...
        """,
        """
        class Shelf(Box):
            # toy: so that it shows
            lends: bool = True

            def empty(self): ...
        """,
        at="Shelf",
    )


def test_attribute_of_a_class_with_nothing_but_a_docstring() -> None:
    check_transformed(
        LENDS,
        '''
        class Shelf:
            """Where books stand."""
        ''',
        '''
        class Shelf:
            """Where books stand."""

            # toy: so that it shows
            lends: bool = True
        ''',
        at="Shelf",
    )


def test_attribute_of_a_class_on_one_line() -> None:
    check_transformed(
        LENDS,
        """
        class Shelf(Box): pass  # as the box is
        """,
        """
        class Shelf(Box):
            # toy: so that it shows
            lends: bool = True

            pass  # as the box is
        """,
        at="Shelf",
    )


def test_attribute_of_a_nested_class() -> None:
    check_transformed(
        LENDS,
        """
        class Desk:
            class Drawer:
                deep = 1
        """,
        """
        class Desk:
            class Drawer:
                # toy: so that it shows
                lends: bool = True

                deep = 1
        """,
        at="Desk.Drawer",
    )


@pytest.mark.parametrize("line", ["lends = True", "lends: bool = True", "lends: 'bool' = (True)  # always"])
def test_attribute_of_the_same_value_is_there(line: str) -> None:
    check_noop(LENDS, f"class Shelf:\n    rows = 5\n    {line}\n", SiteState.PRESENT, at="Shelf")


@pytest.mark.parametrize("line", ["lends = False", "lends = rows > 1", "def lends(self): ..."])
def test_attribute_of_another_value_stays_and_is_named(line: str) -> None:
    source = f"class Shelf:\n    rows = 5\n    {line}\n"
    check_noop(LENDS, source, SiteState.PRESENT, at="Shelf", reason="which is kept")


def test_attribute_without_a_value_is_a_conflict() -> None:
    source = "class Shelf:\n    rows = 5\n    lends: bool\n"
    check_noop(LENDS, source, SiteState.AMBIGUOUS, at="Shelf", reason="`lends: bool = True`")


def test_attribute_of_a_function_is_refused() -> None:
    check_noop(LENDS, "def shelf(): ...\n", SiteState.ABSENT, at="shelf", reason="shelf is not a class")


def test_same_named_local_variable_is_no_attribute() -> None:
    source = "class Shelf:\n    def empty(self):\n        lends = False\n"
    assert "    lends: bool = True\n" in rewritten(LENDS, source, "Shelf")


@pytest.mark.parametrize(
    "code", ["", "lends", "lends: bool", "a = 1\nb = 2", "self.a = 1", "a, b = 1, 2", "a = $b", "a ="]
)
def test_attribute_that_is_not_one_assignment_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("class-attribute", code=code)

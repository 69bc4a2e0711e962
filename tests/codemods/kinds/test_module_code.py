from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit, rewritten

from patchkit.codemods.examination import SiteState

OPEN = edit("module-code", code="OPEN = 9\n\ndef is_open(hour):\n    return hour >= OPEN\n")


def test_code_goes_below_the_imports() -> None:
    check_transformed(
        OPEN,
        '''
        """A library."""

        import shop
        from shop import desk

        SHELVES = 5
        ''',
        '''
        """A library."""

        import shop
        from shop import desk

        # toy: so that it shows
        OPEN = 9


        def is_open(hour):
            return hour >= OPEN


        SHELVES = 5
        ''',
    )


def test_function_keeps_its_distance() -> None:
    check_transformed(
        edit("module-code", code="def close(): ...\n"),
        """
        import shop


        def lend(): ...
        """,
        """
        import shop


        # toy: so that it shows
        def close(): ...


        def lend(): ...
        """,
    )


def test_only_what_is_missing_comes() -> None:
    after = rewritten(OPEN, "import shop\n\nOPEN = 10\n")
    assert "OPEN = 9" not in after
    assert "def is_open" in after


@pytest.mark.parametrize(
    "source",
    [
        "OPEN: int = 10\nclass is_open: ...\n",
        "from shop import OPEN, is_open\n",
        "from shop import OPEN\ntry:\n    def is_open(): ...\nexcept NameError:\n    def is_open(): ...\n",
        "import OPEN.hours\nis_open = lambda hour: True\n",
    ],
)
def test_names_that_the_module_has_stay(source: str) -> None:
    check_noop(OPEN, source, SiteState.PRESENT)


def test_name_of_an_inner_scope_is_not_the_modules() -> None:
    assert rewritten(OPEN, "def f():\n    OPEN = 1\n    def is_open(): ...\n").startswith("\n# toy")


@pytest.mark.parametrize(
    "code", ["", "start()", "OPEN = 9\nstart()", "for x in y: pass", "OPEN = $x", "def f(:"]
)
def test_code_that_defines_nothing_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("module-code", code=code)

from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit, rewritten

from patchkit.codemods.examination import SiteState

MEND = edit(
    "method",
    code='''
@property
def worn(self) -> bool:
    """Whether it needs mending."""
    return self.age > 50

def mend(self):
    self.age = 0
''',
)


def test_methods_go_to_the_end_of_the_class() -> None:
    check_transformed(
        MEND,
        """
        class Book:
            age = 1

            def read(self): ...
            # the end

        shelf = []
        """,
        '''
        class Book:
            age = 1

            def read(self): ...

            # toy: so that it shows
            @property
            def worn(self) -> bool:
                """Whether it needs mending."""
                return self.age > 50

            # toy: so that it shows
            def mend(self):
                self.age = 0
            # the end

        shelf = []
        ''',
        at="Book",
    )


def test_only_the_methods_that_are_missing_come() -> None:
    source = "class Book:\n    def mend(self):\n        glue(self)\n"
    after = rewritten(MEND, source, "Book")
    assert after.count("def mend") == 1
    assert "glue(self)" in after
    assert "def worn" in after


def test_method_of_a_class_on_one_line() -> None:
    assert "\n    def mend(self):\n" in rewritten(MEND, "class Book(Thing): ...\n", "Book")


@pytest.mark.parametrize(
    "body",
    [
        "def worn(self): ...\n    async def mend(self): ...",
        "worn = False\n    mend = glue",
        "if glue:\n        def worn(self): ...\n        def mend(self): ...",
    ],
)
def test_methods_that_are_there_stay_whatever_they_do(body: str) -> None:
    check_noop(MEND, f"class Book:\n    {body}\n", SiteState.PRESENT, at="Book")


def test_inherited_method_is_overridden() -> None:
    source = (
        "class Thing:\n    def worn(self): ...\n    def mend(self): ...\n\n\nclass Book(Thing):\n    pass\n"
    )
    assert rewritten(MEND, source, "Book").count("def mend") == 2


def test_method_of_a_module_is_refused() -> None:
    check_noop(MEND, "age = 1\n", SiteState.ABSENT, reason="the module is not a class")


@pytest.mark.parametrize(
    "code", ["", "age = 1", "def mend(self): ...\nage = 1", "def mend(self): return $x", "def mend("]
)
def test_method_that_is_no_function_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("method", code=code)

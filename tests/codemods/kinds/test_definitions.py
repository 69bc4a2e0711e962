from __future__ import annotations

import libcst as cst
import pytest
from support.programs import check_noop, check_transformed, edit, rewritten, scope_in

from patchkit.codemods.examination import Standing
from patchkit.codemods.language.imports import Import, after_imports, imported_names
from patchkit.codemods.language.placeholders import PatternError

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
    check_noop(LENDS, f"class Shelf:\n    rows = 5\n    {line}\n", Standing.PRESENT, at="Shelf")


@pytest.mark.parametrize("line", ["lends = False", "lends = rows > 1", "def lends(self): ..."])
def test_attribute_of_another_value_stays_and_is_named(line: str) -> None:
    source = f"class Shelf:\n    rows = 5\n    {line}\n"
    check_noop(LENDS, source, Standing.PRESENT, at="Shelf", reason="which stays")


def test_attribute_without_a_value_is_a_conflict() -> None:
    source = "class Shelf:\n    rows = 5\n    lends: bool\n"
    check_noop(LENDS, source, Standing.AMBIGUOUS, at="Shelf", reason="`lends: bool = True`")


def test_attribute_of_a_function_is_refused() -> None:
    check_noop(LENDS, "def shelf(): ...\n", Standing.ABSENT, at="shelf", reason="shelf is not a class")


def test_same_named_local_variable_is_no_attribute() -> None:
    source = "class Shelf:\n    def empty(self):\n        lends = False\n"
    assert "    lends: bool = True\n" in rewritten(LENDS, source, "Shelf")


@pytest.mark.parametrize(
    "code", ["", "lends", "lends: bool", "a = 1\nb = 2", "self.a = 1", "a, b = 1, 2", "a = $b", "a ="]
)
def test_attribute_that_is_not_one_assignment_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("class-attribute", code=code)


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
    check_noop(MEND, f"class Book:\n    {body}\n", Standing.PRESENT, at="Book")


def test_inherited_method_is_overridden() -> None:
    source = (
        "class Thing:\n    def worn(self): ...\n    def mend(self): ...\n\n\nclass Book(Thing):\n    pass\n"
    )
    assert rewritten(MEND, source, "Book").count("def mend") == 2


def test_method_of_a_module_is_refused() -> None:
    check_noop(MEND, "age = 1\n", Standing.ABSENT, reason="the module is not a class")


@pytest.mark.parametrize(
    "code", ["", "age = 1", "def mend(self): ...\nage = 1", "def mend(self): return $x", "def mend("]
)
def test_method_that_is_no_function_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("method", code=code)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class Book:", "class Book(shop.Lent):"),
        ("class Book():", "class Book(shop.Lent):"),
        ("class Book(Thing):", "class Book(shop.Lent, Thing):"),
        ("class Book(Thing, metaclass=Meta):", "class Book(shop.Lent, Thing, metaclass=Meta):"),
        ("class Book(metaclass=Meta):", "class Book(shop.Lent, metaclass=Meta):"),
        ("class Book(\n    Thing,  # mostly\n):", "class Book(\n    shop.Lent, Thing,  # mostly\n):"),
    ],
)
def test_base_goes_in_front(before: str, after: str) -> None:
    check_transformed(
        edit("base-class", base="shop.Lent"),
        f"{before}\n    pass\n",
        f"# toy: so that it shows\n{after}\n    pass\n",
        at="Book",
    )


@pytest.mark.parametrize("bases", ["Lent", "Thing, shop.Lent", "other.Lent", "Lent[int]"])
def test_base_that_is_there_stays(bases: str) -> None:
    check_noop(
        edit("base-class", base="shop.Lent"), f"class Book({bases}):\n    pass\n", Standing.PRESENT, at="Book"
    )


def test_base_of_a_function_is_refused() -> None:
    check_noop(
        edit("base-class", base="Lent"), "def book(): ...\n", Standing.ABSENT, at="book", reason="not a class"
    )


@pytest.mark.parametrize("base", ["", "class", "a = 1", "A\nB", "$x"])
def test_base_that_is_no_expression_is_malformed(base: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("base-class", base=base)


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
    check_noop(DAYS, f"def lend({parameters}):\n    pass\n", Standing.PRESENT, at="lend")


def test_parameter_of_a_class_is_refused() -> None:
    check_noop(DAYS, "class Desk: ...\n", Standing.ABSENT, at="Desk", reason="Desk is not a function")


@pytest.mark.parametrize("code", ["", "days", "days: int", "a=1, b=2", "*days", "days=$x", "days="])
def test_parameter_without_a_default_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("parameter", code=code)


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
    check_noop(OPEN, source, Standing.PRESENT)


def test_name_of_an_inner_scope_is_not_the_modules() -> None:
    assert rewritten(OPEN, "def f():\n    OPEN = 1\n    def is_open(): ...\n").startswith("\n# toy")


@pytest.mark.parametrize(
    "code", ["", "start()", "OPEN = 9\nstart()", "for x in y: pass", "OPEN = $x", "def f(:"]
)
def test_code_that_defines_nothing_is_malformed(code: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("module-code", code=code)


DESK = Import("from shop.desk import Desk")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\n", "from shop.desk import Desk\nx = 1\n"),
        ('"""A library."""\n', '"""A library."""\nfrom shop.desk import Desk\n'),
        ("# licence\n\nx = 1\n", "# licence\n\nfrom shop.desk import Desk\nx = 1\n"),
        (
            "from __future__ import annotations\n\nx = 1\n",
            "from __future__ import annotations\nfrom shop.desk import Desk\n\nx = 1\n",
        ),
        (
            "import os\nfrom shop.book import Book\nfrom shop.shelf import Shelf\nfrom zoo import Ape\n",
            "import os\nfrom shop.book import Book\nfrom shop.desk import Desk\n"
            "from shop.shelf import Shelf\nfrom zoo import Ape\n",
        ),
        (
            "from shop.shelf import Shelf\n\nif TYPE_CHECKING:\n    from shop.desk import Desk\n",
            "from shop.shelf import Shelf\nfrom shop.desk import Desk\n\n"
            "if TYPE_CHECKING:\n    from shop.desk import Desk\n",
        ),
    ],
)
def test_import_goes_to_its_place(before: str, after: str) -> None:
    check_transformed(DESK, before, after)


@pytest.mark.parametrize(
    "source",
    [
        "from shop.desk import Desk\n",
        "from shop.desk import (\n    Book,\n    Desk,  # ours\n)\n",
        "from other import Desk\n",
        "import Desk\n",
        "import shop.desk as Desk\n",
        "x = 1\nfrom shop import Counter as Desk\n",
    ],
)
def test_name_that_is_imported_stays(source: str) -> None:
    check_noop(DESK, source, Standing.PRESENT)


@pytest.mark.parametrize(
    "code", ["", "x = 1", "from shop import *", "import a\nimport b", "import a; import b", "import $x"]
)
def test_import_that_is_not_one_is_malformed(code: str) -> None:
    with pytest.raises(PatternError):
        Import(code)


@pytest.mark.parametrize(
    "line", ["d = Desk()", "d = Desk.main", "d = isinstance(x, (Table, Desk))", "def d(x: Desk): ..."]
)
def test_name_that_is_used_but_not_imported(line: str) -> None:
    assert DESK.used_but_missing(scope_in(f"class Library:\n    {line}\n", "Library"))


@pytest.mark.parametrize(
    "line",
    [
        "d = Table()",
        "d = shop.Desk()",
        "d = f(Desk=1)",
        "d = 'Desk'  # Desk",
        "from shop.desk import Desk; d = Desk()",
    ],
)
def test_name_that_is_not_used_or_imported_where_it_is(line: str) -> None:
    assert not DESK.used_but_missing(scope_in(f"class Library:\n    {line}\nd = Desk()\n", "Library"))


def test_name_that_the_module_imports() -> None:
    assert not DESK.used_but_missing(scope_in("from shop.desk import Desk\nd = Desk()\n"))


def test_imported_names_are_those_that_imports_bind() -> None:
    module = cst.parse_module(
        "import a.b, c as d\nfrom e import f, g as h\nfrom i import *\nif j:\n    import k\n"
    )
    assert imported_names(module) == {"a", "d", "f", "h"}


def test_imports_below_the_first_definition_do_not_open_a_module() -> None:
    assert after_imports(cst.parse_module("import a\nx = 1\nimport b\n\ndef f(): ...\nimport c\n")) == 3


def test_module_without_imports_is_opened_by_its_docstring() -> None:
    assert after_imports(cst.parse_module('"""Doc."""\nx = 1\n')) == 1
    assert after_imports(cst.parse_module("x = 1\n")) == 0

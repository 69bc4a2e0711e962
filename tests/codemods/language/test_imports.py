from __future__ import annotations

import libcst as cst
import pytest
from support.programs import check_noop, check_transformed, edit, scope_in

from patchkit.codemods.examination import SiteState
from patchkit.codemods.language.imports import Import, after_imports
from patchkit.codemods.language.names import imported_names
from patchkit.codemods.language.placeholders import PatternError

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
    check_transformed(edit("import", code=DESK.code), before, after)


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
    check_noop(edit("import", code=DESK.code), source, SiteState.PRESENT)


@pytest.mark.parametrize(
    "code", ["", "x = 1", "from shop import *", "import a\nimport b", "import a; import b", "import $x"]
)
def test_import_that_is_not_one_is_malformed(code: str) -> None:
    with pytest.raises(PatternError):
        Import(code)


@pytest.mark.parametrize(
    ("code", "source", "names", "taken"),
    [
        ("import shop.desk", "", {"shop"}, {"shop.desk"}),
        ("import desk as d", "", {"d"}, {"desk"}),
        ("from shop.desk import Desk, Book as B", "shop.desk", {"Desk", "B"}, {"Desk", "Book"}),
        ("from . import desk", "", {"desk"}, {"desk"}),
        ("from .shop import desk", "", {"desk"}, {"desk"}),
        ("# why\nfrom shop import desk", "shop", {"desk"}, {"desk"}),
    ],
)
def test_the_module_and_the_names_of_an_import(
    code: str, source: str, names: set[str], taken: set[str]
) -> None:
    wanted = Import(code)
    assert (wanted.source, wanted.names, wanted.taken) == (source, names, taken)


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

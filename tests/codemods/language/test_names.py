"""The meaning of a name comes from libcst's scopes, and from code for what they leave out."""

from __future__ import annotations

import pytest
from support.programs import check_noop, edit, rewritten, scope_in

from patchkit.codemods.examination import SiteState
from patchkit.codemods.language.imports import Import
from patchkit.codemods.language.names import bound_by, may_bind, names_of

# What a line binds in its scope.
BINDING = {
    "x = y": {"x"},
    "x: int = 1": {"x"},
    "x: int": {"x"},
    "x += 1": {"x"},
    "a, (b, *c) = y": {"a", "b", "c"},
    "[a, b] = y": {"a", "b"},
    "for a, b in y: pass": {"a", "b"},
    "with y as a, z as (b, c): pass": {"a", "b", "c"},
    "try: pass\nexcept E as a: pass": {"a"},
    "import a, b.c, d as e": {"a", "b", "e"},
    "from a import b, c as d": {"b", "d"},
    "def f(a, *b, c=1, **d): e = 1": {"f"},
    "class C(a): b = 1": {"C"},
    "f = lambda a: a": {"f"},
    "f = [a for a in b]": {"f"},
    "f = {a: b for a, b in c if (d := a)}": {"f", "d"},
    "f = [[(e := a) for a in b] for b in c]": {"f", "e"},
    "if (a := b): pass": {"a"},
    "match y:\n    case [a, *b] | {1: a, **b}: pass": {"a", "b"},
    "match y:\n    case C(1, n=a) as b: pass\n    case _: pass": {"a", "b"},
    "del a, (b, c), d.e, f[g]": {"a", "b", "c"},
    "type A[T] = list[T]": {"A"},
    "y.x = 1; y[x] = 2; f(x=1)": set(),
    "print(a)": set(),
}


@pytest.mark.parametrize(("line", "names"), BINDING.items(), ids=list(BINDING))
def test_what_a_line_binds(line: str, names: set[str]) -> None:
    scope = scope_in(line + "\n")
    assert names_of(scope.module).bound_in(scope) - {"b.c"} == names
    assert bound_by(scope, "abcdefgxyACfET") == names
    assert names <= set().union(*may_bind(scope.module))


DESK = Import("from shop.desk import Desk")

HIDING = [
    "class Desk: ...\n",
    "def Desk(): ...\n",
    "Desk = other\n",
    "try:\n    from shop.desk import Desk\nexcept ImportError:\n    Desk = None\n",
    "from shop.desk import Desk\nfor Desk in (1, 2): ...\n",
]


@pytest.mark.parametrize("above", HIDING)
def test_a_module_that_binds_the_name_otherwise_hides_the_import(above: str) -> None:
    scope = scope_in(f"{above}def lend(): ...\n", "lend")
    assert DESK.hidden_in(scope) == ["Desk"]
    assert not DESK.used_but_missing(scope_in(f"{above}def lend(): return Desk\n", "lend"))


@pytest.mark.parametrize("above", HIDING[:4])
def test_a_name_that_is_another_definition_is_not_imported_over_it(above: str) -> None:
    check_noop(
        edit("import", code=DESK.code), above, SiteState.AMBIGUOUS, reason="binds Desk, but not by an import"
    )


@pytest.mark.parametrize(
    "source",
    [
        "def lend(Desk): ...\n",
        "def lend():\n    Desk = 1\n",
        "def lend():\n    with a as Desk: ...\n",
        "def lend():\n    match a:\n        case Desk: ...\n",
        "from shop.desk import Desk\ndef lend():\n    for Desk in a: ...\n",
    ],
)
def test_a_function_that_binds_the_name_hides_the_import(source: str) -> None:
    assert DESK.hidden_in(scope_in(source, "lend")) == ["Desk"]


@pytest.mark.parametrize(
    "source",
    [
        "def lend(): ...\n",
        "from shop.desk import Desk\ndef lend(): ...\n",
        "if TYPE_CHECKING:\n    from shop.desk import Desk\ndef lend(): ...\n",
        "def lend():\n    from shop.desk import Desk\n",
        "def lend(): ...\ndef other(Desk):\n    Desk = 1\n",
        "def lend():\n    return [Desk for Desk in a]\n",
        "def lend():\n    a.Desk = f(Desk=1)\n",
        "class Shelf:\n    Desk = 1\ndef lend(): ...\n",
    ],
)
def test_a_name_that_imports_alone_bind_is_read_from_them(source: str) -> None:
    assert DESK.hidden_in(scope_in(source, "lend")) == []


METHOD = edit("method", code="def lend(self): ...")
ATTRIBUTE = edit("class-attribute", code="lend = True")
CODE = edit("module-code", code="def lend(): ...")
OTHERWISE = [
    "if x:\n    lend = 1",
    "for lend in x: ...",
    "a, lend = x",
    "with x as lend: ...",
    "import a as lend",
]


@pytest.mark.parametrize("line", OTHERWISE)
@pytest.mark.parametrize("kind", [METHOD, ATTRIBUTE])
def test_a_class_that_binds_the_name_in_another_way_is_a_conflict(kind: object, line: str) -> None:
    body = "".join(f"    {line}\n" for line in line.splitlines())
    check_noop(kind, f"class Shelf:\n{body}", SiteState.AMBIGUOUS, "Shelf", "lend")  # type: ignore[arg-type]


@pytest.mark.parametrize("line", OTHERWISE[:4])
def test_a_module_that_binds_the_name_in_another_way_is_a_conflict(line: str) -> None:
    check_noop(CODE, f"{line}\n", SiteState.AMBIGUOUS, reason="the module binds lend to something else")


@pytest.mark.parametrize(
    "line", ["def other(lend):\n        lend = 1", "x = [lend for lend in y]", "x.lend = f(lend=1)", "lend"]
)
@pytest.mark.parametrize("kind", [METHOD, ATTRIBUTE])
def test_a_class_in_which_others_have_a_variable_of_that_name_gets_it(kind: object, line: str) -> None:
    assert "lend" in rewritten(kind, f"class Shelf:\n    {line}\n", "Shelf")  # type: ignore[arg-type]


DAYS = edit("parameter", code="days=14")


@pytest.mark.parametrize(
    "source",
    [
        "def lend(book):\n    days = 3\n",
        "def lend(*days): ...\n",
        "def lend(book, **days): ...\n",
        "def lend(book):\n    for days in book: ...\n",
    ],
)
def test_a_function_with_a_variable_of_that_name_does_not_get_the_parameter(source: str) -> None:
    check_noop(DAYS, source, SiteState.AMBIGUOUS, "lend", "a local variable days")


@pytest.mark.parametrize(
    "source",
    [
        "def lend(book):\n    return book.days\n",
        "def lend(book):\n    return [days for days in book]\n",
        "def lend(book):\n    return lambda days: days\n",
        "def lend(book):\n    def g(days): ...\n",
    ],
)
def test_a_variable_of_a_scope_inside_does_not_keep_a_function_from_the_parameter(source: str) -> None:
    assert "days=14" in rewritten(DAYS, source, "lend")

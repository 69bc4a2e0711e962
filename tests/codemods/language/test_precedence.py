from __future__ import annotations

import ast

import libcst as cst
import pytest
from support.programs import rewritten

from patchkit.codemods.kinds.rewrite import Rewrite
from patchkit.codemods.language.precedence import as_argument, as_operand


def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@pytest.mark.parametrize(
    "text",
    ["a", "a.b", "a(b)", "a[b]", "1", "1.5j", "'a'", "'a' 'b'", "f'{a}'", "[a]", "{a}", "{a: b}", "(a + b)"],
)
def test_what_binds_tightly_gets_no_parentheses(text: str) -> None:
    assert code(as_operand(cst.parse_expression(text))) == text


@pytest.mark.parametrize(
    "text", ["a + b", "not a", "a if b else c", "a, b", "lambda: a", "await a", "a or b"]
)
def test_what_binds_loosely_gets_parentheses(text: str) -> None:
    assert code(as_operand(cst.parse_expression(text))) == f"({text})"


@pytest.mark.parametrize("text", ["a + b", "a if b else c", "lambda: a", "(a, b)"])
def test_argument_needs_none(text: str) -> None:
    assert code(as_argument(cst.parse_expression(text))) == text


def test_argument_that_a_comma_would_divide_gets_them() -> None:
    assert code(as_argument(cst.parse_expression("a, b"))) == "(a, b)"


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize(
    "place",
    [
        "x = {}",
        "x = 2 * {}",
        "x = {} ** 2",
        "x = not {}",
        "x = {}.isbn",
        "x = {}(book)",
        "x = {}[0]",
        "x = a < {} < b",
        "x = a if {} else b",
        "x = [{}]",
        "x = [*{}]",
        "x = {{'a': {}}}",
        "x = {{**{}}}",
        "x = shelf[{}]",
        "x = shelf[{}:]",
        "x = [b for b in {} if b]",
        "x = [b for b in shelf if {}]",
        "x = f(*{})",
        "x = f({})",
        "x = f(key={})",
        "x = (2, {})",
        "x = lambda: {}",
        "x += {}",
        "return {}",
        "yield {}",
        "await {}",
        "for x in {}: pass",
        "while {}: pass",
        "with {} as x: pass",
        "assert {}, {}",
        "del {}.isbn",
        "x = f'{{{}}}'",
        "x = ({}) * 2",
        "x = (yield {})",
    ],
)
@pytest.mark.parametrize(
    "new", ["old if ready() else spare", "old, spare", "old or spare", "-old", "lambda: old"]
)
def test_meaning_is_that_of_the_new_expression_in_parentheses(place: str, new: str) -> None:
    spec = Rewrite(why="w", find="$book.old", code=new.replace("old", "$book.latest"), every=True)
    line = "async def f():\n    " + place
    after = rewritten(spec, line.format("book.old", "book.old") + "\n")
    latest = f"({new.replace('old', 'book.latest')})"
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(line.format(latest, latest) + "\n"))

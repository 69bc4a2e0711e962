"""The texts of an edit: patterns, templates and their placeholders, with errors that name the key."""

from __future__ import annotations

import re

import libcst as cst
import pytest

from patchkit.codemods.language import placeholders, texts
from patchkit.codemods.language.placeholders import PatternError, lone_expression, run_name, variable


def statement(text: str) -> cst.CSTNode:
    return placeholders.parse(text).body[0]


@pytest.mark.parametrize(
    ("text", "expression", "run", "name"),
    [
        ("$book", True, None, "book"),
        ("$$books", True, "books", None),
        ("...", True, "_", None),
        ("book", True, None, None),
        ("lend($book)", True, None, None),
        ("book = $book", False, None, None),
        ("$book; 1", False, None, None),
        ("if $book: pass", False, None, None),
    ],
)
def test_what_a_statement_of_a_pattern_is(
    text: str, expression: bool, run: str | None, name: str | None
) -> None:
    alone = lone_expression(statement(text))
    assert (alone is not None) is expression
    assert run_name(statement(text)) == run
    assert variable(alone) == name


def test_the_placeholders_of_a_text_are_as_written() -> None:
    assert placeholders.placeholders("$desk.lend($book, $$rest, $1, $_)\n$$_") == {
        "$desk",
        "$book",
        "$$rest",
        "$_",
        "$$_",
    }
    text = "$desk.lend($book)\n$$rest"
    assert placeholders.decoded(placeholders.parse(text).code) == f"{text}\n"


@pytest.mark.parametrize(
    ("read", "said"),
    [(placeholders.parse, "not Python with $names: "), (placeholders.as_written, "not Python: ")],
)
def test_a_text_that_is_not_python_is_refused_with_its_first_line(read: object, said: str) -> None:
    assert callable(read)
    with pytest.raises(PatternError) as caught:
        read("\n  lend(book\n  more\n")
    assert str(caught.value).startswith(said)
    assert str(caught.value).endswith(" in 'lend(book'")
    with pytest.raises(PatternError, match="nest"):
        read("(" * 500 + ")" * 500)


def test_an_error_names_the_key() -> None:
    with pytest.raises(ValueError, match=r"^key `find`: not Python"):
        texts.patterns("find", "lend(", "book")
    with pytest.raises(ValueError, match=r"^key `call`: not one call: 'book'$"):
        texts.calls("call", "lend($book)", " book ")
    assert [call.text for call in texts.calls("call", "lend($book)", "take()")] == ["lend($book)", "take()"]


def test_a_sign_of_a_change_allows_more_in_between() -> None:
    module = cst.parse_module("lend(book)\nnote(book)\ntake(book)\n")
    text = "lend($book)\ntake($book)"
    assert not texts.patterns("already", text)[0].find(module)
    assert texts.signs("already", text)[0].find(module)


@pytest.mark.parametrize(
    ("code", "binding", "pattern", "missing"),
    [
        ("lend($book)", ("$book", ""), False, ""),
        ("lend($book)", ("$desk", "$other"), False, "$book"),
        ("lend($b, $a)", (), False, "$a"),
        ("$$rest", ("$$rest",), False, ""),
        ("$$rest", ("$rest",), False, "$$rest"),
        ("lend($_)", ("$_",), False, "$_"),
        ("$$_", ("$$_",), False, "$$_"),
        ("lend($_)", (), True, ""),
        ("lend($_, $book)", (), True, "$book"),
        ("lend(book)", (), False, ""),
    ],
)
def test_a_placeholder_that_nothing_binds_is_refused(
    code: str, binding: tuple[str, ...], pattern: bool, missing: str
) -> None:
    if not missing:
        texts.require_bound("code", code, *binding, pattern=pattern)
        return
    with pytest.raises(ValueError, match=f"^key `code`: nothing binds {re.escape(missing)}$"):
        texts.require_bound("code", code, *binding, pattern=pattern)


@pytest.mark.parametrize(
    ("find", "code", "done"),
    [
        ("lend($book)", "$$found\nnote()", "lend($book)\nnote()"),
        ("  lend($book)\n", "if on:\n    $$found", "if on:\n    lend($book)"),
        ("a()\n\nb()", "if on:\n    $$found", "if on:\n    a()\n\n    b()"),
        ("a()", "note()", "note()"),
        ("a()", "x\n\n  y", "x\n\n  y"),
    ],
)
def test_an_edit_that_was_made_is_the_code_around_what_was_found(find: str, code: str, done: str) -> None:
    assert texts.in_place(find, code) == done

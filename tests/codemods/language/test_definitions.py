"""The definitions of a scope are told by the names that they bind."""

from __future__ import annotations

import libcst as cst
import pytest

from patchkit.codemods.language import syntax
from patchkit.codemods.language.definitions import (
    assigned,
    bound_name,
    bound_names,
    definitions_like,
    insertion_index,
)
from patchkit.codemods.language.scope import Scope, resolve


def top(code: str) -> Scope:
    (scope,) = resolve(cst.parse_module(code), "")
    return scope


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        ("limit = 2", "limit", "2"),
        ("limit: int = 2", "limit", "2"),
        ("limit: int", "limit", None),
        ("limit = other = 2", None, None),
        ("limit += 2", None, None),
        ("desk.limit = 2", None, None),
        ("desk.limit: int = 2", None, None),
        ("first, second = 2", None, None),
        ("limit = 2; other = 3", None, None),
        ("open_all()", None, None),
        ("if on:\n    limit = 2", None, None),
    ],
)
def test_the_name_and_value_of_an_assignment(code: str, name: str | None, value: str | None) -> None:
    statement = cst.parse_statement(code)
    pair = assigned(statement)
    assert (pair and pair[0]) == name
    assert (pair and pair[1] and syntax.code_of(pair[1])) == value
    assert bound_name(statement) == name


@pytest.mark.parametrize("code", ["def lend(): ...", "class lend: ...", "async def lend(): ...", "lend = 1"])
def test_a_definition_binds_its_name(code: str) -> None:
    assert bound_name(cst.parse_statement(code)) == "lend"


@pytest.mark.parametrize(
    ("behind", "before", "at"),
    [
        ("first", "", 1),
        ("", "first", 0),
        ("lend", "", 3),
        ("", "lend", 2),
        ("first", "lend", 1),
        ("twice", "lend", 2),
        ("unknown", "lend", 2),
        ("twice", "", None),
        ("", "", None),
        ("unknown", "unknown", None),
    ],
)
def test_a_place_beside_a_name_that_is_bound_once(behind: str, before: str, at: int | None) -> None:
    scope = top("first = 1\nopen_all()\ndef lend(): ...\ntwice = 1\ntwice = 2\n")
    assert insertion_index(scope, behind, before) == at


def test_the_names_of_a_scope_with_those_in_its_branches() -> None:
    code = "limit = 1\nopen_all()\nif on:\n    other = 2\n    def take(): ...\nclass Desk:\n    inner = 1\n"
    assert bound_names(top(code)) == {"limit", "take", "Desk"}


def test_only_what_binds_the_same_names_is_like_new_statements() -> None:
    scope = top("open_all()\nlimit = 2\nother = limit\n")
    new = cst.parse_module("note(1)\nlimit = 1\n").body
    assert definitions_like(scope, new) == "limit = 2\n"


def test_a_definition_is_listed_once_also_where_it_is_in_a_branch() -> None:
    text = "def lend():\n    return 1\n\nif on:\n    def take():\n        return 2\n"
    (scope,) = resolve(cst.parse_module(text), "")
    new = cst.parse_module("def lend(): ...\ndef take(): ...\n").body
    assert definitions_like(scope, new).count("def ") == 2

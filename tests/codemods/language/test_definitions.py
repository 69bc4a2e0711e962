"""The definitions of a scope are told by the names that they bind."""

from __future__ import annotations

import libcst as cst

from patchkit.codemods.language.definitions import definitions_like
from patchkit.codemods.language.scope import resolve


def test_only_what_binds_the_same_names_is_like_new_statements() -> None:
    (scope,) = resolve(cst.parse_module("open_all()\nlimit = 2\nother = limit\n"), "")
    new = cst.parse_module("note(1)\nlimit = 1\n").body
    assert definitions_like(scope, new) == "limit = 2\n"


def test_a_definition_is_listed_once_also_where_it_is_in_a_branch() -> None:
    text = "def lend():\n    return 1\n\nif on:\n    def take():\n        return 2\n"
    (scope,) = resolve(cst.parse_module(text), "")
    new = cst.parse_module("def lend(): ...\ndef take(): ...\n").body
    assert definitions_like(scope, new).count("def ") == 2

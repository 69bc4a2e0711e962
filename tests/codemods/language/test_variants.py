"""The keys of an edit of statements: what they require of each other, and that an edit is a value."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.programs import edit

from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language.variants import StatementKind, TargetVariant, Variant


@pytest.mark.parametrize(
    "kind", [*KINDS.values(), StatementKind, Variant, TargetVariant], ids=lambda kind: kind.__name__
)
def test_an_edit_is_a_value_whose_keys_are_named_and_known(kind: type[msgspec.Struct]) -> None:
    settings = kind.__struct_config__
    assert (settings.frozen, settings.forbid_unknown_fields) == (True, True)
    with pytest.raises(TypeError):
        kind("at", "why")


def rewrite(**keys: Any) -> Any:
    return msgspec.convert({"kind": "rewrite", "why": "toy", "at": "toy.py", **keys}, KINDS["rewrite"])


def test_each_find_has_its_code_and_the_edits_own_is_the_first() -> None:
    variants = [{"find": "c()", "code": "d()"}, {"find": ["e()", "f()"], "code": "g()"}]
    whole = rewrite(find=["a()", "b()"], code="x()", variants=variants)
    assert whole.written == ("x()", "d()", "g()")
    assert whole.forms == (("a()", "x()"), ("b()", "x()"), ("c()", "d()"), ("e()", "g()"), ("f()", "g()"))
    without = rewrite(variants=variants)
    assert without.written == ("d()", "g()")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"find": "lend(", "code": "x"}, "key `find`: not Python"),
        ({"find": "lend()", "code": "take("}, "key `code`: not Python"),
        ({"find": "lend()", "code": "x", "already": ["take("]}, "key `already`: not Python"),
        ({"find": "lend()", "code": "x", "context": ["take("]}, "key `context`: not Python"),
        ({"find": "$$a", "code": "$$a", "clear_of": ["take("]}, "key `clear_of`: not Python"),
        ({"find": "lend()", "code": "$book"}, r"key `code`: nothing binds \$book"),
        ({"find": "lend(...)", "code": "x"}, "key `find`: `code` would delete the code that `...` matches"),
        ({"find": "lend()\n...", "code": "x"}, "key `find`: `code` would delete the code that `...` matches"),
        (
            {"find": "a()\n$$b\nc()", "code": "$$b", "clear_of": ["$x"]},
            r"key `clear_of`: nothing binds \$x",
        ),
    ],
)
def test_a_malformed_edit_is_refused_with_its_key(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        edit("rewrite", **keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"find": "lend($book)", "code": "take($book)"},
        {"find": "lend(...)", "code": "if on:\n    $$found"},
        {"find": "lend()", "code": "$book", "context": ["book = $book"]},
        {"find": "a()\n$$b\nc()", "code": "$$b", "clear_of": ["$_ + 1"]},
        # Without statements in between nothing has to be clear of anything.
        {"find": "a()", "code": "b()", "clear_of": ["$x"]},
    ],
)
def test_an_edit_with_all_that_it_needs_is_not(keys: dict[str, Any]) -> None:
    edit("rewrite", **keys)


def test_code_in_place_of_a_target_cannot_have_what_was_found() -> None:
    with pytest.raises(ValueError, match=r"^key `code`: nothing binds \$\$found"):
        edit("rewrite", find="lend(days=$days)", target="days", code="$$found")

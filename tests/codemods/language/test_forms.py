"""A pattern matches the code that it is, whatever its layout, and no other: each form of Python against each other."""

from __future__ import annotations

from functools import cache

import libcst as cst
import pytest

from patchkit.codemods.language.pattern import Pattern

# fmt: off
EXPRESSIONS = [
    "a", "b", "a.b", "b.a", "a(b)", "a(b, b)", "a(*b)", "a(**b)", "a(b=b)", "a[b]", "a[b:]", "a[:b]",
    "a[::b]", "a[b, b]", "a + b", "b + a", "a - b", "a @ b", "a == b", "a != b", "a < b", "a < b < a",
    "a is b", "a is not b", "a in b", "a not in b", "a and b", "a or b", "a and b and a", "not a", "-a",
    "~a", "a if b else b", "b if a else b", "lambda a: b", "lambda *a: b", "lambda a=b: b", "lambda: b",
    "(a, b)", "(a,)", "[a, b]", "[*a, b]", "{a, b}", "{a: b}", "{**a, b: b}", "[a for a in b]",
    "{a for a in b}", "(a for a in b)", "{a: a for a in b}", "[a for a in b if a]",
    "[a for a in b for b in a]", "[a async for a in b]", "(a := b)", "f'{a}{b}'", "f'{a!r}{b}'",
    "f'{a:b}{b}'", "f'a{b}'", "'a'", "b'a'", "'a' 'b'", "1", "1.0", "1j", "None", "...", "await a",
    "(yield a)", "(yield)", "(yield from a)",
]
STATEMENTS = [
    "x += a", "x: a = b", "x = y = a", "x, y = a", "del a", "del a, b", "return a", "return", "raise a",
    "raise a from b", "raise", "assert a", "assert a, b", "import a", "import a as b", "import a.b",
    "from a import b", "from a import *", "from . import a", "from .a import b", "from a import b as a",
    "global a", "pass", "break", "continue", "type a = b", "if a: b()", "if a: b()\nelse: a()",
    "if a: b()\nelif b: a()", "while a: b()", "while a: b()\nelse: a()", "for a in b: a()",
    "async for a in b: a()", "with a: b()", "with a as b: b()", "with a, b: b()", "async with a: b()",
    "try: a()\nexcept b: a()", "try: a()\nexcept: a()", "try: a()\nexcept b as a: a()",
    "try: a()\nfinally: b()", "try: a()\nexcept b: a()\nelse: b()", "try: a()\nexcept* b: a()",
    "def a(): b()", "async def a(): b()", "def a(b): b()", "def a(*b): b()", "def a(b, /): b()",
    "def a(*, b): b()", "def a(b=b): b()", "@a\ndef a(): b()", "class a: b()", "class a(b): b()",
    "match a:\n    case b: a()", "match a:\n    case 1: b()", "match a:\n    case 1 if b: b()",
    "match a:\n    case [b, *a]: b()", "match a:\n    case b(): b()", "match a:\n    case {1: b}: b()",
    "match a:\n    case 1 | b: b()", "match a:\n    case b as a: b()",
]
# fmt: on
FORMS = [*(f"x = {each}" for each in EXPRESSIONS), *STATEMENTS]
ALIKE = [
    # An annotation has no effect, and decorators and `async` are not part of what a function does.
    ({"x = b"}, {"x: a = b"}),
    *[({"def a(): b()", "async def a(): b()", "@a\ndef a(): b()"},) * 2],
]


@cache
def modules() -> dict[str, cst.Module]:
    return {form: cst.parse_module(f"{form}\n") for form in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_a_pattern_matches_its_own_form_alone(form: str) -> None:
    pattern = Pattern.compile(f"{form}\n")
    loose = pattern.loose
    expected = {form}.union(*(codes for patterns, codes in ALIKE if form in patterns))
    assert {other for other, module in modules().items() if pattern.find(module)} == expected
    assert all(loose.find(modules()[each]) for each in expected)

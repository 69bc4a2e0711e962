"""Sources that nest: each production of Python's grammar that contains itself, repeated or mixed at random."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


_NAME = re.compile(r"\ba\b")


def _around(before: str, inner: str, after: str) -> Callable[[int], str]:
    return lambda count: before * count + inner + after * count


def _blocks(head: str) -> Callable[[int], str]:
    return lambda count: "".join(f"{' ' * index}{head}:\n" for index in range(count)) + " " * count + "pass"


EXPRESSIONS: dict[str, Callable[[int], str]] = {
    "attributes": _around("", "a", ".b"),
    "calls": _around("", "a", "()"),
    "subscripts": _around("", "a", "[0]"),
    "operators": _around("a + ", "a", ""),
    "powers": _around("a ** ", "a", ""),
    "products": _around("a @ ", "a", ""),
    "and": _around("a and ", "a", ""),
    "or": _around("a or ", "a", ""),
    "not": _around("not ", "a", ""),
    "signs": _around("- ", "a", ""),
    "inversions": _around("~", "a", ""),
    "choices": _around("a if b else ", "a", ""),
    "choices in the middle": _around("a if (", "a", ") else b"),
    "lambdas": _around("lambda: ", "a", ""),
    "lambdas with parameters": _around("lambda a, *b: ", "a", ""),
    "lambdas in defaults": _around("lambda a=", "a", ": a"),
    "awaits": _around("await (", "a", ")"),
    "yields": _around("(yield ", "a", ")"),
    "assignments": _around("(a := ", "a", ")"),
    "parentheses": _around("(", "a", ")"),
    "tuples": _around("(", "a", ",)"),
    "lists": _around("[", "a", "]"),
    "sets": _around("{", "a", "}"),
    "dictionaries": _around("{a: ", "a", "}"),
    "keys": _around("{", "a", ": a}"),
    "spreads": _around("{**", "a", "}"),
    "arguments": _around("a(", "a", ")"),
    "keywords": _around("a(b=", "a", ")"),
    "stars": _around("a(*", "a", ")"),
    "slices": _around("a[b:", "a", "]"),
    "strings": _around("'a' ", "'a'", ""),
    "strings on lines": lambda count: "(\n" + "'''a''' # a\n" * count + ")",
    "formatted strings": _around("f'{a}' ", "''", ""),
    "fields": _around("f'{", "a", "}'"),
    "formats": lambda count: "f'" + "{a:" * count + "}" * count + "'",
    "brackets in a field": lambda count: "f'{" + "(" * count + "a" + ")" * count + "}'",
    "formats that look like strings": lambda count: 'f"{a:=\'}" + ' + "a + " * count + 'f"{a:=\'}"',
    "clauses": lambda count: "[a" + " for a, b in a" * count + "]",
    "generators": _around("(a for a in ", "a", ")"),
    "elements": _around("[", "a", " for a in a]"),
}
STATEMENTS: dict[str, Callable[[int], str]] = {
    "imports": lambda count: f"import a{'.b' * count}",
    "imports from": lambda count: f"from a{'.b' * count} import a",
    "decorators": lambda count: f"@a{'.b' * count}\ndef a(): pass",
    "branches": _around("if a:\n pass\nelif a:\n pass\n", "", "elif a:\n pass\n"),
    "if": _blocks("if a"),
    "for": _blocks("for a in b"),
    "while": _blocks("while a"),
    "with": _blocks("with a"),
    "try": lambda count: (
        "".join(f"{' ' * index}try:\n" for index in range(count))
        + " " * count
        + "pass\n"
        + "".join(f"{' ' * index}finally: pass\n" for index in reversed(range(count)))
    ),
    "def": _blocks("def a()"),
    "async def": _blocks("async def a()"),
    "class": _blocks("class A"),
    "else": lambda count: (
        "".join(f"{' ' * index}if a: pass\n{' ' * index}else:\n" for index in range(count))
        + " " * count
        + "pass"
    ),
    "cases": lambda count: (
        "".join(f"{' ' * 2 * index}match a:\n{' ' * (2 * index + 1)}case _:\n" for index in range(count))
        + " " * 2 * count
        + "pass"
    ),
    "sequences in a case": lambda count: f"match a:\n case {'[' * count}{']' * count}: pass",
    "mappings in a case": lambda count: f"match a:\n case {'{1: ' * count}a{'}' * count}: pass",
    "classes in a case": lambda count: f"match a:\n case {'A(' * count}{')' * count}: pass",
    "names in a case": lambda count: f"match a:\n case a{'.b' * count}: pass",
    "targets": lambda count: f"{'(' * count}a{',)' * count} = a",
    "targets of for": lambda count: f"for {'(' * count}a{',)' * count} in a: pass",
    "items of with": lambda count: f"with {'(' * count}a{')' * count}: pass",
    "annotations": lambda count: f"a: {'a[' * count}a{']' * count}",
    "blocks behind a string": lambda count: "".join(
        f"{' ' * index}if a:\n{' ' * (index + 1)}'''\n'''\n" for index in range(count)
    ),
    "blocks behind a backslash": lambda count: (
        "".join(f"\\\n{' ' * index}if a:\n" for index in range(count)) + "\\\n" + " " * count + "pass"
    ),
} | {name: (lambda count, made=made: f"a = {made(count)}") for name, made in EXPRESSIONS.items()}


def mixed(draw: random.Random, size: int) -> str:
    """Return an expression of about that many productions, mixed at random."""
    text = "a"
    while size > 0:
        count = min(size, draw.choice((1, 1, 1, 2, 5)))
        inner = f"({text})" if draw.random() < 0.5 else text
        text = _NAME.sub(lambda _: inner, EXPRESSIONS[draw.choice(sorted(EXPRESSIONS))](count), count=1)  # noqa: B023
        size -= count
    return text

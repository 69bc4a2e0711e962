"""Compile the texts of an edit; errors name the key."""

from __future__ import annotations

import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.placeholders import placeholders, run_name
from patchkit.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def naming(key: str) -> Iterator[None]:
    """Add the key to the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"key `{key}`: {error}") from None


def patterns(key: str, *texts: str) -> tuple[Pattern, ...]:
    """Return the texts compiled as patterns."""
    with naming(key):
        return tuple(map(Pattern.compile, texts))


def site(text: str) -> Pattern:
    """Return the text of ``find`` compiled. Raise ValueError if it matches where there is no code."""
    (pattern,) = patterns("find", text)
    if all(run_name(statement) is not None for statement in pattern.statements):
        raise ValueError(
            "key `find`: only `...` or `$$name`, which match where no code is, too; add a statement"
        )
    return pattern


def signs(key: str, *texts: str) -> tuple[Pattern, ...]:
    """Return patterns of code that may be present already, with any further statements in between."""
    return tuple(pattern.loose for pattern in patterns(key, *texts))


def calls(key: str, *texts: str) -> tuple[Pattern, ...]:
    """Return the texts compiled as patterns, each a single call."""
    compiled = patterns(key, *texts)
    for pattern in compiled:
        if not pattern.is_call:
            raise ValueError(f"key `{key}`: not one call: {pattern.text.strip()!r}")
    return compiled


def require_bound(key: str, code: str, *binding: str, pattern: bool = False) -> None:
    """Raise ValueError if code has a placeholder that no text in ``binding`` has; a pattern may have ``$_``."""
    unnamed = {"$_", "$$_"}
    bound = (
        placeholders("\n".join(binding)) | unnamed if pattern else placeholders("\n".join(binding)) - unnamed
    )
    for name in sorted(placeholders(code) - bound):
        raise ValueError(f"key `{key}`: nothing binds {name}")


def in_place(find: str, code: str) -> str:
    """Return the pattern of an edit already made: the new code with ``$$found`` replaced by ``find``."""
    snippet = textwrap.dedent(find).strip()
    lines = []
    for line in split_lines(code):
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(textwrap.indent(snippet, indent) if "$$found" in line else line)
    return "\n".join(lines)

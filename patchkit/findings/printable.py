"""Escape text of a tree or a patch so that it cannot break a line, a terminal or a document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

# Control characters, lone surrogates, Unicode line breaks and changes of text direction.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

_WIDTH, _SHOWN = 80, 10
"""The width of an excerpt in columns, and its length in lines."""


def printable(text: str) -> str:
    """Return ``text`` on one line: control characters escaped, tabs replaced by spaces."""
    return _CONTROL.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return " " if match[0] == "\t" else match[0].encode("unicode_escape").decode()


def escaped(text: str) -> str:
    """Return ``text`` for rich: markup and control characters escaped."""
    from rich.markup import escape  # It loads all of rich, which a command without such text does not need.

    return escape(printable(text))


def excerpt(difference: str, indent: str = "  ") -> list[str]:
    """Return the first lines of a unified diff for a terminal of 80 columns, with how many more there are."""
    lines = [printable(f"{indent}{line}") for line in difference.splitlines()]
    shown = [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in lines[:_SHOWN]]
    return (
        shown
        if len(lines) <= _SHOWN
        else [*shown, f"{indent}… {len(lines) - _SHOWN} more lines (--json has all)"]
    )


def plain(text: str) -> str:
    """Return ``text`` with unprintable characters escaped, such as ``\\x1b``; line feeds and tabs stay."""
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def page_template(package: str) -> jinja2.Template:
    """Return the template ``page.html.j2`` of a package; what it prints is on one line and escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, ""),
        autoescape=True,
        finalize=_in_page,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _in_page(value: object) -> object:
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

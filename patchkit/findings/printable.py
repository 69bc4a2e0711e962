"""What a tree or a patch says, so that it cannot end a line, move a cursor or break a document."""

from __future__ import annotations

import re

from rich.markup import escape

# Control characters, lone surrogates, and what Unicode takes for an end of line or a change of direction.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Return ``text`` with every control character spelled out, a tab as a space."""
    return _CONTROL.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return " " if found[0] == "\t" else found[0].encode("unicode_escape").decode()


def escaped(text: str) -> str:
    """Return ``text`` as rich shows it, with neither markup nor control characters."""
    return escape(printable(text))


def plain(text: str) -> str:
    """Return lines with what a terminal would obey, or cannot show, written out: ``\\x1b`` for an escape."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def in_page(value: object) -> object:
    """Return what a template says in a page: where it is text, on one line and without control characters."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

"""How deep libcst nests a source, counted in its text before any parser sees it.

A parser recurses in C or Rust, where no limit stops it: a source that nests too deep ends the process. libcst nests
what ``ast`` does not, such as the terms of one `and`, adjacent strings, and the names of a dotted import. Therefore
this counts every word and sign that puts one node into another, whether or not the source is valid.
"""

from __future__ import annotations

import io
import re
import tokenize
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

MAX_DEPTH = 150
"""Deepest nesting that is parsed: twice that of a release's deepest file. It takes at most 0.8 MB of the stack, where
a thread has 1 MB or more, and at most 700 of the 1,000 calls that Python nests."""
BLOCK = 5
"""What a block counts: parsing it takes as much of the stack as parsing 18 attributes."""
BRACKET = 3
"""What a pair of brackets counts: at most three nodes, those of a subscript."""
CASE_BRACKET = 15
"""What a pair of brackets in a `case` counts: each doubles the time that libcst takes."""

_TOKEN = re.compile(
    r"""
      (?P<end>\\?(?:\r\n?|\n))
    | (?P<text>(?:\b[rRuUbBfFtT]{1,2})?(?:\"{3}|'{3}|["']))
    | (?P<comment>\#[^\r\n]*)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<part>[,;]|:(?!=))
    | (?P<function>\blambda\b)
    | (?P<clause>\bfor\b)
    | (?P<name>\.)
    | (?P<sign>\*\*?|//?|<<|>>|[-+%@&|^~]|\bawait\b)
    | (?P<term>:=|\b(?:and|or|not|if)\b)
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPED = r"\\(?:\r\n|.)"
_TO_END = {
    quote: re.compile(pattern.replace("QUOTE", quote[0]), re.DOTALL)
    for quotes, pattern in (
        (("'", '"'), rf"(?:{_ESCAPED}|[^\\QUOTE\r\n])*(?:QUOTE|(?=[\r\n])|\\?\Z)"),
        (
            ("'''", '"""'),
            rf"[^\\QUOTE]*(?:(?:{_ESCAPED}|QUOTE(?!QUOTE{{2}}))[^\\QUOTE]*)*(?:QUOTE{{3}}|\\?\Z)",
        ),
    )
    for quote in quotes
}
"""What is left of a string behind its opening quote."""
_IN_TEXT = re.compile(r"\{\{|\}\}|[{}\r\n]|\\(?:\r\n|[^{}])|\"{3}|'{3}|[\"']", re.DOTALL)
"""What counts in the text of a formatted string."""
_KEYWORD = re.compile(
    r"[ \t]*(?:assert|break|class|continue|def|del|except|finally|global|import|nonlocal|pass|raise|return|try|while"
    r"|with)\b"
)
"""The start of a line that is no part of an expression: parsers stop there if a bracket is open."""
_START = re.compile(
    r"(?:[ \t\f]*(?:\#[^\r\n]*)?(?:\r\n?|\n))*(?P<indent>[ \t\f]*)(?P<word>elif\b|else\b|case\b|\\)?"
)
_LEVELS = 4


def _statement(levels: int) -> str:
    """Return what matches a statement with so many levels of brackets, in which lines may end."""
    text = "|".join(
        rf"{quote}(?!{quote}{quote})(?:\\[^\r\n{{}}]|\{{[^{{}}\"'\\\r\n]*\}}|[^\\\r\n{{{quote}])*{quote}"
        for quote in "\"'"
    )
    code = r"""[^()\[\]{}"'#\\\r\n]*"""
    inside = code.replace(r"\n", "")
    inner = rf"{inside}(?:(?:{text}|\#[^\r\n]*(?=\n)){inside})*"
    for _ in range(levels - 1):
        inner = rf"{inside}(?:(?:{text}|\#[^\r\n]*(?=\n)|[(\[{{]{inner}[)\]}}]){inside})*"
    start = r"(?!(?:elif|else|case)\b|[\s\#\\])"
    return rf"{start}{code}(?:(?:{text}|[(\[{{]{inner}[)\]}}]){code})*(?:\#[^\r\n]*)?\n"


_SHALLOW = re.compile(rf"[ \t]*{_statement(_LEVELS)}")
"""Most statements of most files: what they nest is no more than the brackets and what is counted in them."""
_COUNTED = re.compile(r"[^\w\s,)\]}]|\b(?:and|or|not|if|for|await|lambda)\b", re.ASCII)
"""What can nest in such a statement."""
_MOST = BRACKET * (_LEVELS + 2)
"""What the brackets, fields and texts of such a statement count beyond their signs."""


class NestingError(ValueError):
    """A source nests deeper than ``MAX_DEPTH``."""


def parse_module(source: bytes | str) -> cst.Module:
    """Return what ``libcst.parse_module`` returns, or raise what it raises; NestingError if that could crash."""
    if nests_deeper(source, MAX_DEPTH):
        raise NestingError(f"nested more than {MAX_DEPTH} levels deep")
    import libcst as cst

    with unvalidated():
        return cst.parse_module(source)


_is_validating = True


@contextmanager
def unvalidated() -> Iterator[None]:
    """Let libcst make nodes without checking them, which for those of a parse takes a third of its time."""
    global _is_validating  # noqa: PLW0603
    _make_validation_optional()
    _is_validating = False
    try:
        yield
    finally:
        _is_validating = True


@cache
def _make_validation_optional() -> None:
    import libcst as cst

    validate = cst.CSTNode.__post_init__

    def validate_if_wanted(self: cst.CSTNode) -> None:
        # Python forgets what it knows of a class and all below it when a method of the class is replaced.
        if _is_validating:
            validate(self)

    cst.CSTNode.__post_init__ = validate_if_wanted  # type: ignore[method-assign]


def nests_deeper(source: bytes | str, depth: int) -> bool:
    """Return whether libcst would nest more than ``depth`` nodes, as this module counts them."""
    text = source if isinstance(source, str) else _decoded(source)
    blocks = [_Block(0)]
    end = 0
    while end < len(text):
        start = _START.match(text, end)
        assert start is not None  # It matches an empty text.
        indent, word = start["indent"], start["word"]
        # Parsers disagree about the indentation of such a line.
        is_odd = "\f" in indent or word == "\\"
        width = len(indent.rpartition("\f")[2].expandtabs())
        while width < blocks[-1].width:
            blocks.pop()
        if is_odd or width > blocks[-1].width:
            blocks.append(_Block(width))
        if word == "elif":
            blocks[-1].branches += 1
        elif word != "else":
            blocks[-1].branches = 0
        outer = BLOCK * (len(blocks) - 1) + sum(block.branches for block in blocks)
        if outer > depth:
            return True
        depth_known = _known(text, start.start("indent"), depth - outer - _MOST)
        if depth_known:
            end = depth_known
            continue
        statement = _Statement(text, start.end("indent"), depth, is_case=word in ("case", "\\"))
        if outer + statement.depth > depth:
            return True
        end = statement.end
    return False


def _known(text: str, start: int, depth: int) -> int:
    """Return where the statement ends that one expression tells to be no deeper, 0 if there is none."""
    match = _SHALLOW.match(text, start)
    if match is None:
        return 0
    # Most have less code than they may nest.
    is_short = len(match[0]) - match[0].count(" ") <= depth
    return match.end() if is_short or len(_COUNTED.findall(match[0])) <= depth else 0


def _decoded(source: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return source.decode(encoding)
    except (SyntaxError, LookupError, ValueError):
        return source.decode("latin-1")  # No parser reads it.


@dataclass
class _Block:
    """A block: the width of its indentation, and the number of `elif` behind its last `if`."""

    width: int
    branches: int = 0


@dataclass
class _Level:
    """A statement, a pair of brackets, a lambda, or the text, a field or a format of a formatted string.

    Of the part that is read, ``names``, ``signs`` and ``terms`` count what one operand, one term and the part nest;
    ``inner`` is the deepest level in the operand, ``operand`` the deepest operand of the term, ``term`` the deepest
    term. ``part`` is the deepest part before it.
    """

    kind: str
    weight: int
    names: int = 0
    inner: int = 0
    signs: int = 0
    operand: int = 0
    terms: int = 0
    term: int = 0
    part: int = 0
    clauses: int = 0

    def end_operand(self) -> None:
        self.operand = max(self.operand, self.names + self.inner)
        self.names = self.inner = 0

    def end_term(self) -> None:
        self.end_operand()
        self.term = max(self.term, self.signs + self.operand)
        self.signs = self.operand = 0

    def end_part(self) -> None:
        self.end_term()
        self.part = max(self.part, self.terms + self.term)
        self.terms = self.term = 0

    def depth(self) -> int:
        self.end_part()
        return self.weight + self.clauses + self.part


class _Statement:
    """The statement that starts at a place in a text: where it ends, and how deep it is.

    It is read no further where it has more than ``most`` levels, each of which counts one or more.
    """

    def __init__(self, text: str, start: int, most: int, *, is_case: bool) -> None:
        self._text = text
        self._bracket = CASE_BRACKET if is_case else BRACKET
        self._levels = [_Level("statement", 0)]
        self.end = start
        while len(self._levels) <= most + 1 and self._read():
            pass
        self._leave(1)
        self.depth = self._levels[0].depth()

    def _leave(self, kept: int) -> None:
        """Leave the levels behind the first ``kept``."""
        while len(self._levels) > kept:
            depth = self._levels.pop().depth()
            self._levels[-1].inner = max(self._levels[-1].inner, depth)

    def _read(self) -> bool:
        """Read one token; return whether the statement goes on."""
        return self._read_text() if self._levels[-1].kind in _TEXTS else self._read_code()

    def _next(self, tokens: re.Pattern[str]) -> re.Match[str] | None:
        match = tokens.search(self._text, self.end)
        self.end = len(self._text) if match is None else match.end()
        return match

    def _read_code(self) -> bool:
        match = self._next(_TOKEN)
        if match is None:
            return False
        level, token, kind = self._levels[-1], match[0], match.lastgroup
        if kind == "name":
            level.names += 1
        elif kind == "sign":
            level.end_operand()
            level.signs += 1
        elif kind == "clause":
            level.clauses += 1
        elif kind == "open":
            level.names += 1
            self._levels.append(_Level("brackets", self._bracket))
        elif kind == "close":
            self._leave_bracket(token)
        elif kind == "function":
            self._levels.append(_Level("parameters", BRACKET))
        elif kind == "text":
            level.names += 1
            self._enter_text(token)
        elif kind == "part" or (token == ":=" and level.kind == "field"):
            self._end_part(token)
        elif kind == "term":
            level.end_term()
            level.terms += 1
        if kind != "end" or token[0] == "\\":
            return True
        is_open = self._last("brackets", "field") is not None
        return is_open and _KEYWORD.match(self._text, self.end) is None

    def _last(self, *kinds: str) -> int | None:
        """Return the place of the innermost level of some kinds."""
        places = range(len(self._levels) - 1, -1, -1)
        return next((number for number in places if self._levels[number].kind in kinds), None)

    def _leave_bracket(self, token: str) -> None:
        level = self._last("brackets", "field")
        if level is not None and (token == "}" or self._levels[level].kind == "brackets"):
            self._leave(level)

    def _end_part(self, token: str) -> None:
        while self._levels[-1].kind == "function":
            self._leave(len(self._levels) - 1)
        level = self._levels[-1]
        level.end_part()
        if token[0] == ":" and level.kind == "parameters":
            level.kind = "function"
        elif token[0] == ":" and level.kind == "field":
            self._levels.append(_Level("format", 1))

    def _enter_text(self, token: str) -> None:
        quote = token.lstrip("rRuUbBfFtT")
        if not set("fFtT") & set(token):
            rest = _TO_END[quote].match(self._text, self.end)
            assert rest is not None  # It matches an empty text.
            self.end = rest.end()
        else:
            self._levels.append(_Level(quote, BRACKET))

    def _read_text(self) -> bool:
        """Read one token of the text of a formatted string."""
        match = self._next(_IN_TEXT)
        if match is None:
            return False
        token, is_format = match[0], self._levels[-1].kind == "format"
        text = self._last(*_TO_END)
        assert text is not None  # A format is in one.
        quote = self._levels[text].kind
        if token in ("{{", "}}") and is_format:
            self.end -= 1
            token = token[0]
        if token == "{":
            self._levels.append(_Level("field", BRACKET))
        elif token == "}" and is_format:
            self._leave(len(self._levels) - 2)
        elif token.startswith(quote):
            self.end = match.start() + len(quote)
            self._leave(text)
        elif token in "\r\n" and len(quote) == 1:
            self.end = match.start()  # The string is not closed.
            self._leave(text)
        return True


_TEXTS = frozenset({"format", *_TO_END})

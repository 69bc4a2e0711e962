"""Python text as tokens, and as groups of elements between brackets; its words, names and indentation."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = r"""[rRbBuUfF]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |\d[\w.]*(?:(?<=[eE])[+-]\d+)?|\w+|->|:=|\*\*=?|//=?|>>=?|<<=?|[-+*/%&|^@=!<>]=|\.\.\.|[^\w\s]"""
_WHITE_SPACE = r"(?:\s|\\\n|\#[^\n]*)*"
# Without the end a last comment would be given back sign by sign.
WORDS = re.compile(f"{_WHITE_SPACE}(?:({_WORD})|\\Z)", re.DOTALL | re.VERBOSE)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class ClashError(ValueError):
    """Two versions change the same part of a third."""


@dataclass(frozen=True)
class Token:
    """A word or sign, with the white space and comments in front of it."""

    space: str
    code: str

    @property
    def text(self) -> str:
        """The text, unchanged."""
        return self.space + self.code

    @property
    def key(self) -> str:
        """The key by which it is compared."""
        return self.code


@dataclass(frozen=True)
class Element:
    """The tokens between two commas, whether a comma follows, and the comment behind them on the same line."""

    nodes: tuple[Node, ...]
    comma: Token | None = None
    comment: str = ""

    @property
    def text(self) -> str:
        """The text, unchanged, without the comma and the comment behind it."""
        return "".join(node.text for node in self.nodes)

    @property
    def code(self) -> str:
        """The text without white space and comments."""
        return " ".join(node.code for node in self.nodes)

    @property
    def name(self) -> str:
        """The name of the keyword, dictionary key or parameter; empty for a positional element."""
        words = [node.code for node in self.nodes]
        if len(words) > 1 and words[1] in {"=", ":"} and words[0] != "lambda":
            return words[0]
        if words and words[0] in {"*", "**"}:
            return words[0]
        return ""

    @property
    def is_keyword(self) -> bool:
        """Whether no positional element may follow it."""
        return self.name == "**" or (bool(self.name) and "=" in {node.code for node in self.nodes})


@dataclass(frozen=True)
class Group:
    """Brackets and the elements between them."""

    opening: Token
    elements: tuple[Element, ...]
    closing: Token

    @property
    def text(self) -> str:
        """The text, unchanged."""
        inner = "".join(
            element.text + (element.comma.text if element.comma else "") + element.comment
            for element in self.elements
        )
        return self.opening.text + inner + self.closing.text

    @property
    def key(self) -> str:
        """The key by which it is compared, without what is between the brackets."""
        return self.opening.code

    @property
    def code(self) -> str:
        """The text without white space, comments and a last comma."""
        return (
            f"{self.opening.code}{' , '.join(element.code for element in self.elements)}{self.closing.code}"
        )


Node = Token | Group


def words(text: str) -> list[str]:
    """Return the words and signs of a text without its comments."""
    return [word for word in WORDS.findall(text) if word]


def renamed(text: str, names: dict[str, str]) -> str:
    """Return a text in which names, but not attributes, are replaced by others."""
    if not names:
        return text
    tokens, end = _tokens(text)
    words_after: list[str] = []
    for index, token in enumerate(tokens):
        is_attribute = index > 0 and tokens[index - 1].code == "."
        is_keyword = (
            0 < index < len(tokens) - 1
            and tokens[index + 1].code == "="
            and tokens[index - 1].code in {"(", ","}
        )
        word = token.code if is_attribute or is_keyword else names.get(token.code, token.code)
        words_after.append(token.space + word)
    return "".join(words_after) + end


def shifted(text: str, old: str, new: str) -> str:
    """Return lines with another indentation; strings other than docstrings are unchanged."""
    if old == new:
        return text
    inside = _inside_strings(text) if '"""' in text or "'''" in text else frozenset()
    # `str.splitlines` would also split inside a string, at a form feed.
    return "\n".join(
        new + line[len(old) :] if index not in inside and line.strip() and line.startswith(old) else line
        for index, line in enumerate(text.split("\n"))
    )


def _inside_strings(text: str) -> frozenset[int]:
    """Return the lines that begin inside a string that is not a docstring."""
    lines: set[int] = set()
    line, last = 0, ""
    for token in _tokens(text)[0]:
        line += token.space.count("\n")
        length = token.code.count("\n")
        if length and not (last in {"", ":"} and "\n" in token.space):
            lines.update(range(line + 1, line + length + 1))
        line, last = line + length, token.code
    return frozenset(lines)


def _tokens(text: str) -> tuple[list[Token], str]:
    """Return the tokens of a text, and the white space and comments behind the last."""
    matches = [(match[0], match[1] or "") for match in WORDS.finditer(text)]
    tokens = [Token(whole.removesuffix(word), word) for whole, word in matches if word]
    return tokens, "".join(whole for whole, word in matches if not word)


def parsed(text: str) -> tuple[tuple[Node, ...], str]:
    """Return the tokens of a text, brackets as groups, and the text after the last; ClashError if a bracket is open."""
    tokens, end = _tokens(text)
    nodes, index = _row(tokens, 0, "")
    if index != len(tokens):
        raise ClashError("its brackets do not match")
    return tuple(nodes), end


def _row(tokens: list[Token], position: int, until: str) -> tuple[list[Node], int]:
    nodes: list[Node] = []
    while position < len(tokens) and tokens[position].code not in {")", "]", "}"}:
        token = tokens[position]
        if until and token.code == ",":
            break
        if token.code in _CLOSING:
            group, position = _group(tokens, position)
            nodes.append(group)
        else:
            nodes.append(token)
            position += 1
    return nodes, position


def _group(tokens: list[Token], index: int) -> tuple[Group, int]:
    opening = tokens[index]
    closing = _CLOSING[opening.code]
    elements: list[Element] = []
    index += 1
    while True:
        nodes, index = _row(tokens, index, closing)
        if index >= len(tokens) or tokens[index].code not in {",", closing}:
            raise ClashError("its brackets do not match")
        if tokens[index].code == closing:
            elements += [Element(tuple(nodes), None, _take_comment(tokens, index))] if nodes else []
            return Group(opening, tuple(elements), tokens[index]), index + 1
        elements.append(Element(tuple(nodes), tokens[index], _take_comment(tokens, index + 1)))
        index += 1


def _take_comment(tokens: list[Token], index: int) -> str:
    """Return the comment that begins on the line of the token before one, and remove it from there."""
    space = tokens[index].space if index < len(tokens) else ""
    comment, end, rest = space.partition("\n")
    if not comment.lstrip().startswith("#"):
        return ""
    tokens[index] = Token(end + rest, tokens[index].code)
    return comment


def is_prose(word: str) -> bool:
    """Return whether a token is a string of several words."""
    return word[-1:] in {'"', "'"} and " " in word

"""The simple commands of a shell text, each with its words and exported variables as far as the text tells them.

Nothing is run. A word is *known* unless it depends on what the text does not say: an argument, a command's output, a
variable that nothing sets, or that only some branch sets.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tree_sitter import Node, Parser

# Documents write these for what the reader fills in.
_PLACEHOLDER = re.compile(
    r"(?<!<)<[A-Za-z](?:[^<>|&;$'\"\n]*[^<>|&;$'\"\s])?>|\{\{[^\n]*?\}\}|(?<!\S)\[?\.\.\.\]?(?!\S)"
    r"|(?<=[\s'\"=])\[[A-Za-z][\w -]*\](?!=)"
)
# While a text is parsed, other characters stand for theirs, which have a meaning in a shell.
_MARKED = str.maketrans({character: chr(0xE000 + ord(character)) for character in "<>{}[]. "})
_UNMARKED = {ord(mark): chr(character) for character, mark in _MARKED.items()}
# A backslash that is to continue the line, but has a space or a comment behind it.
_CONTINUATION = re.compile(r"\\[ \t]+(?:#[^\n]*)?\n")
_EXPANSION = re.compile(r"\$\{(\w+)(\[[@*\d]+\])?((:?[-=]).*)?\}", re.DOTALL)
_EXPANSIONS = frozenset(
    {"arithmetic_expansion", "command_substitution", "expansion", "process_substitution", "simple_expansion"}
)
_QUOTED = frozenset({"ansi_c_string", "raw_string", "string", "translated_string"})
# Each is run or not: what it sets is not known after it.
_BRANCHES = frozenset(
    {"case_item", "do_group", "elif_clause", "else_clause", "function_definition", "if_statement"}
)


class Word(NamedTuple):
    """A word of a command: its text, with what is not known as it is written."""

    text: str
    known: bool = True


class Command(NamedTuple):
    """A simple command at a line; the text of a here-document is a command with this one word."""

    words: tuple[Word, ...]
    environment: Mapping[str, str]
    line: int


def as_word(text: str) -> Word:
    """Return a word that a shell has passed on as it is: it is known unless another shell or a reader completes it."""
    return Word(text, not re.search(r"[$`]", text) and not _PLACEHOLDER.search(text))


def commands(text: str, environment: Mapping[str, str]) -> Iterator[Command]:
    """Yield the commands of a text in their order, also those of a text with errors."""
    text = text.replace("\r\n", "\n")
    text = _CONTINUATION.sub("\\\\\n", text)
    text = _PLACEHOLDER.sub(lambda match: match[0].translate(_MARKED), text)
    yield from _ShellReader(environment).read(_parser().parse(text.encode()).root_node)


def first_command(text: str, environment: Mapping[str, str]) -> Command:
    """Return the first command of a text, one without words if there is none."""
    return next(commands(text, environment), Command((), {}, 1))


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _ShellReader:
    """Reads commands in their order, with the variables that are set so far: the words of each."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._variables = {name: [Word(value)] for name, value in environment.items()}
        self._exported = set(environment)

    def read(self, node: Node) -> Iterator[Command]:
        """Yield the commands in a node, and set what it assigns."""
        if node.type in _BRANCHES:
            yield from self._branch(node)
        elif node.type == "command":
            yield from self._command(node, ())
        elif node.type == "redirected_statement":
            yield from self._redirected(node)
        elif node.type in ("variable_assignment", "variable_assignments"):
            assigned = [node] if node.type == "variable_assignment" else node.children
            words = [self._pieces(node, in_quotes=False) for node in assigned if _is_option(node)]
            if words:
                yield self._made(tuple(words), node, {})
            for assigned_node in assigned:
                self._assign(assigned_node)
                yield from self._children(assigned_node)
        elif node.type == "declaration_command":
            self._declare(node)
        elif node.type == "heredoc_body":
            yield self._made((Word(_text(node)),), node, {})
        elif node.type == "for_statement":
            self._variables |= {_text(node): [] for node in node.children if node.type == "variable_name"}
            yield from self._children(node)
        elif node.type == "list" and node.children[0].type == "test_command":
            yield from self._branch(node)
        else:
            yield from self._children(node)

    def _children(self, node: Node) -> Iterator[Command]:
        for child in node.children:
            yield from self.read(child)

    def _branch(self, node: Node) -> Iterator[Command]:
        before = dict(self._variables)
        yield from self._children(node)
        after, self._variables = self._variables, before
        for name, words in after.items():
            earlier = before.get(name, [])
            if words != earlier:
                kept = earlier if words[: len(earlier)] == earlier else []
                self._variables[name] = [*kept, Word(f"${name}", known=False)]

    def _redirected(self, node: Node) -> Iterator[Command]:
        late: list[Word] = []
        for redirect in node.children_by_field_name("redirect"):
            # What follows the file are further arguments of the command.
            files = redirect.children_by_field_name("destination")
            late += [word for file_node in files[1:] for word in self._words(file_node)]
        for child in node.children:
            yield from self._command(child, late) if child.type == "command" else self.read(child)

    def _command(self, node: Node, late: Sequence[Word]) -> Iterator[Command]:
        words: list[Word] = []
        own: dict[str, list[Word]] = {}
        for child in node.children:
            if child.type == "variable_assignment" and _is_option(child):
                words.append(self._pieces(child, in_quotes=False))
            elif child.type == "variable_assignment":
                name, values = self._assigned(child)
                own[name] = values
            elif child.type == "command_name":
                words += self._words(child.children[0])
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect", "comment"):
                continue
            else:
                words += self._words(child)
        yield self._made((*words, *late), node, own)
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution", "heredoc_redirect"):
                yield from self.read(child)

    def _made(self, words: tuple[Word, ...], node: Node, own: Mapping[str, list[Word]]) -> Command:
        exported = {name: self._variables.get(name, []) for name in sorted(self._exported)}
        exported |= own
        plain = {name: _plain(values[0]) for name, values in exported.items() if len(values) == 1}
        texts = {name: value.text for name, value in plain.items() if value.known}
        return Command(tuple(map(_plain, words)), texts, node.start_point[0] + 1)

    def _declare(self, node: Node) -> None:
        exports = node.children[0].type == "export"
        for child in node.children[1:]:
            name = _text(child)
            if child.type == "variable_assignment":
                name = self._assign(child)
            if exports and name.isidentifier():
                self._exported.add(name)

    def _assign(self, node: Node) -> str:
        name, words = self._assigned(node)
        self._variables[name] = words
        return name

    def _assigned(self, node: Node) -> tuple[str, list[Word]]:
        """Return the name that an assignment sets, and the words of its value."""
        target, *rest = node.children
        name = re.split(r"\[", _text(target))[0]
        values = [node for node in rest if node.type not in ("=", "+=")]
        is_array = bool(values) and values[0].type == "array"
        if target.type == "subscript":
            words = [Word(f"${name}", known=False)]
        elif is_array:
            words = [
                word
                for node in values[0].children
                if node.is_named and node.type != "comment"
                for word in self._words(node)
            ]
        else:
            words = [self._joined(values[0])] if values else [Word("")]
        if rest and rest[0].type == "+=":
            before = self._variables.get(name, [])
            if is_array or not before:
                words = [*before, *words]
            else:
                words = [Word(before[0].text + words[0].text, before[0].known and words[0].known)]
        return name, words

    # Words.

    def _words(self, node: Node) -> list[Word]:
        """Return the words that a node of a command becomes."""
        if node.type in _EXPANSIONS:
            # Without quotes a value is split.
            words = self._expanded(node)
            return [
                split for word in words for split in (map(Word, word.text.split()) if word.known else [word])
            ]
        if node.type == "string":
            inner = [child for child in node.children if child.type != '"']
            if len(inner) == 1 and re.fullmatch(r"\$\{\w+\[@\]\}", _text(inner[0])):
                return self._expanded(inner[0])
        return [self._joined(node)]

    def _joined(self, node: Node) -> Word:
        """Return a node as one word."""
        if node.type in _EXPANSIONS:
            words = self._expanded(node)
            return Word(" ".join(word.text for word in words), all(word.known for word in words))
        if node.type == "raw_string":
            return Word(_text(node)[1:-1])
        if node.type == "ansi_c_string":
            return Word(_unescaped(_text(node)[2:-1]))
        if node.type not in ("concatenation", "string", "translated_string"):
            return Word(_unescaped(_text(node)))
        return self._pieces(node, in_quotes=node.type != "concatenation")

    def _pieces(self, node: Node, *, in_quotes: bool) -> Word:
        """Return a node's text with its expansions; spaces between its children are only in its own text."""
        text, is_known, place = "", True, node.start_byte
        whole = node.text or b""
        for child in node.children:
            if child.type not in _EXPANSIONS | _QUOTED | {"concatenation"}:
                continue
            text += _unescaped(
                _between(whole, place - node.start_byte, child.start_byte - node.start_byte), in_quotes
            )
            word = self._joined(child)
            text, is_known, place = text + word.text, is_known and word.known, child.end_byte
        text += _unescaped(_between(whole, place - node.start_byte, len(whole)), in_quotes)
        if in_quotes:
            text = re.sub(r'^\$?"|"$', "", text)
        return Word(text, is_known)

    def _expanded(self, node: Node) -> list[Word]:
        """Return what an expansion becomes, not known if the text does not tell it."""
        written = _text(node)
        unknown = [Word(written, known=False)]
        if node.type == "simple_expansion":
            return self._variables.get(written[1:]) or unknown
        match = _EXPANSION.fullmatch(written) if node.type == "expansion" else None
        if match is None:
            return unknown
        name, index, default, operator = match.groups()
        words = self._variables.get(name)
        if words is None and default is not None:
            behind = [
                child
                for child in node.children[:-1]
                if child.start_byte >= node.start_byte + len("${" + name)
            ]
            value = next((child for child in behind if child.type != operator), None)
            return [self._joined(value)] if value is not None else []
        if words is None or default is not None:
            return words or unknown
        if index is None:
            return words[:1] or unknown
        if index in ("[@]", "[*]"):
            return words
        place = int(index[1:-1])
        return words[place : place + 1] or unknown


def _is_option(assignment: Node) -> bool:
    """Return whether what looks like an assignment is an option with its value at the start of a line."""
    return _text(assignment).startswith("-")


def _plain(word: Word) -> Word:
    """Return a word with its own characters; one with a placeholder is not known."""
    text = word.text.translate(_UNMARKED)
    return Word(text, word.known and text == word.text)


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _between(text: bytes, start: int, end: int) -> str:
    return text[start:end].decode(errors="replace")


def _unescaped(text: str, in_quotes: bool = False) -> str:
    text = text.replace("\\\n", "")
    return re.sub(r'\\(["$`\\])' if in_quotes else r"\\(.)", r"\1", text)

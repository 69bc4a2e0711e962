"""Format new code as black does, where the code that it replaces was formatted that way.

Unchanged statements keep their layout byte for byte; in a file with another layout, so does new code.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import libcst as cst

from patchkit.codemods.language import syntax
from patchkit.codemods.language.comment import comments_in
from patchkit.codemods.language.formatter import RuffTask, formatting, made_of, sorting
from patchkit.codemods.language.precedence import as_argument, as_operand
from patchkit.lines import split_lines
from patchkit.tree.nesting import parse_module
from patchkit.tree.nodes import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from patchkit.codemods.language.syntax import Path

    Item = TypeVar("Item", cst.Arg, cst.Param)


_WITH_HEADER = (cst.FunctionDef, cst.ClassDef, cst.If, cst.While, cst.For, cst.With)
_BRANCHES = (cst.If, cst.Else, cst.Finally, cst.ExceptHandler, cst.ExceptStarHandler, cst.MatchCase)
_PASS = cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])])
_INDENT = "    "
_CHOICE = re.compile(r"^\s+(if|else) .*[^:]$", re.MULTILINE)
_SEPARATOR = "0\n"


def append(
    items: Sequence[Item], fresh: Item, opening: cst.BaseParenthesizableWhitespace, closes: str
) -> tuple[Item, ...]:
    """Return comma-separated ``items`` with ``fresh`` at the end.

    ``fresh`` gets its own line, and a trailing comma, if the last of ``items`` has one; comments stay with their
    items. ``opening`` is the white space inside the opening bracket, and ``closes`` the field of an item with that
    inside the closing one.
    """
    if not items:
        return (fresh,)
    *before, last = items
    closing = getattr(last, closes)
    has_comma = isinstance(last.comma, cst.Comma)
    behind_comma = (
        last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else cst.SimpleWhitespace("")
    )
    end = closing if behind_comma.empty else behind_comma
    previous = before[-1].comma if before else None
    step = previous.whitespace_after if isinstance(previous, cst.Comma) else opening
    gap: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if isinstance(end, cst.ParenthesizedWhitespace) and isinstance(step, cst.ParenthesizedWhitespace):
        gap = end.with_changes(indent=step.indent, last_line=step.last_line)
    elif isinstance(end, cst.ParenthesizedWhitespace) and comments_in([end]):
        gap = end
    elif before and isinstance(step, cst.ParenthesizedWhitespace):
        gap = cst.ParenthesizedWhitespace(indent=step.indent, last_line=step.last_line)
    if isinstance(end, cst.ParenthesizedWhitespace):
        end = cst.ParenthesizedWhitespace(indent=end.indent, last_line=end.last_line)
    last_item = last.with_changes(comma=cst.Comma(whitespace_after=gap), **{closes: cst.SimpleWhitespace("")})
    if not behind_comma.empty:
        comma = cst.Comma(whitespace_after=end)
        return (*before, last_item, fresh.with_changes(comma=comma, **{closes: closing}))
    with_comma = fresh.with_changes(comma=cst.Comma()) if has_comma else fresh
    return (*before, last_item, with_comma.with_changes(**{closes: end}))


def with_argument(call: cst.Call, argument: cst.Arg) -> cst.Call:
    """Return a call with one more argument behind those that it has."""
    args = [arg.with_changes(value=as_argument(arg.value)) for arg in call.args]
    return call.with_changes(args=append(args, argument, call.whitespace_before_args, "whitespace_after_arg"))


@dataclass(frozen=True)
class Style:
    """The settings of a tree's formatter."""

    width: int
    first_party: str


@dataclass(frozen=True)
class _Line:
    """A simple statement, or the header of a compound one, nested in ``depth`` blocks."""

    path: Path
    depth: int
    node: cst.SimpleStatementLine | cst.BaseCompoundStatement

    @property
    def _is_elif(self) -> bool:
        return self.path[-1] == ("orelse", None)

    @property
    def _fields(self) -> tuple[str, ...]:
        if isinstance(self.node, cst.SimpleStatementLine):
            return ("body",)
        return tuple(name for name in syntax.meaning_fields(type(self.node)) if name not in BLOCKS)

    @property
    def key(self) -> tuple[int, ...]:
        """The identities of the line's nodes, which rewrites of other lines preserve."""
        values = [getattr(self.node, name) for name in self._fields]
        nodes = [
            item for value in values for item in (value if isinstance(value, (tuple, list)) else [value])
        ]
        return (self.depth, *(id(node) for node in nodes if isinstance(node, cst.CSTNode)))

    @property
    def _alone(self) -> cst.BaseStatement:
        """The line without comments above it and with an empty block."""
        if isinstance(self.node, cst.SimpleStatementLine):
            return self.node.with_changes(leading_lines=())
        bare = self.node.with_changes(body=_PASS, leading_lines=())
        return bare.with_changes(orelse=None) if hasattr(bare, "orelse") else bare

    @cached_property
    def code(self) -> str:
        """Source with only this line, at its depth."""
        node = self._alone
        if self._is_elif:
            node = cst.If(cst.Integer("0"), _PASS, orelse=cst.ensure_type(node, cst.If))
        for _ in range(self.depth):
            node = cst.If(cst.Integer("0"), cst.IndentedBlock([node]))
        return syntax.code_of(node)

    def found_in(self, statement: cst.CSTNode) -> cst.CSTNode:
        """Return this line in the formatted ``code``."""
        for _ in range(self.depth):
            statement = syntax.node_at(statement, (("body", None), ("body", 0)))
        node = syntax.node_at(statement, (("orelse", None),)) if self._is_elif else statement
        return node.with_changes(leading_lines=())

    def is_laid_out_in(self, statement: cst.CSTNode) -> bool:
        """Return whether this line has the same layout as in the formatted ``code``."""
        return syntax.code_of(self.found_in(statement)) == syntax.code_of(self._alone)

    def laid_out(self, node: cst.CSTNode, form: cst.CSTNode) -> cst.CSTNode:
        """Return ``node``, which is this line with its blocks, with its own code in the layout of ``form``."""
        if isinstance(form, cst.SimpleStatementLine):
            return node.with_changes(body=form.body, trailing_whitespace=form.trailing_whitespace)
        kept = {*BLOCKS, "leading_lines"}
        names = [field.name for field in dataclasses.fields(form) if field.name not in kept]
        return node.with_changes(**{name: getattr(form, name) for name in names})


def lay_out(before: cst.Module, after: cst.Module, style: Style) -> cst.Module:
    """Return ``after``, in which codemods rewrote parts of ``before``, with the new code formatted.

    Where the replaced lines do not follow ``style``, new lines keep their layout, too; a larger line length that they
    show is respected.
    """
    return lay_out_together([(before, after)], style)[0]


def lay_out_together(files: Sequence[tuple[cst.Module, cst.Module]], style: Style) -> list[cst.Module]:
    """Return what ``lay_out`` returns for each pair of modules; the formatter runs once for what all need next."""
    done: dict[int, cst.Module] = {}
    asking = {index: _laying_out(*pair, style) for index, pair in enumerate(files)}
    answers: dict[int, str | None] = dict.fromkeys(asking)
    while answers:
        requests: dict[int, RuffTask] = {}
        for index, answer in answers.items():
            try:
                requests[index] = asking[index].send(answer)
            except StopIteration as end:
                done[index] = end.value
        answers = dict(zip(requests, made_of([*requests.values()]), strict=True))
    return [done[index] for index in range(len(files))]


_Result = TypeVar("_Result")
_Asking: TypeAlias = "Generator[RuffTask, str | None, _Result]"
"""The way to a result, which yields what the formatter is asked and is sent the answer."""


def _laying_out(before: cst.Module, after: cst.Module, style: Style) -> _Asking[cst.Module]:
    if before.default_indent != _INDENT:
        return after
    after = yield from _with_sorted_imports(before, after, style)
    unchanged = _members(before) & _members(after)
    old, new = ([*_lines(module, (), 0, unchanged)] for module in (before, after))
    old_keys, new_keys = ({line.key for line in lines} for lines in (old, new))
    removed = [line for line in old if line.key not in new_keys]
    fresh = [line for line in new if line.key not in old_keys]
    shown = max((len(text) for line in removed for text in split_lines(line.code)), default=0)
    for width in sorted({style.width, max(style.width, shown)}):
        if (yield from _are_laid_out(removed, width)):
            forms = yield from _formatted([line.code for line in fresh], width)
            forms = yield from _with_parentheses(forms, width)
            return _with_forms(after, fresh, forms)
    return after


def _are_laid_out(lines: Sequence[_Line], width: int) -> _Asking[bool]:
    """Return whether lines are laid out as the formatter does, or it cannot tell."""
    code = "".join(line.code for line in lines)
    made = (yield formatting(code, width)) if lines else None
    if made is None or made.strip("\n") == code.strip("\n"):
        return True
    return all(line.is_laid_out_in(form) for line, form in zip(lines, parse_module(made).body, strict=True))


def _with_forms(module: cst.Module, lines: Sequence[_Line], forms: Sequence[cst.CSTNode]) -> cst.Module:
    for line, form in zip(lines, forms, strict=True):
        node = line.laid_out(syntax.node_at(module, line.path), line.found_in(form))
        module = syntax.replaced(module, line.path, node)
    return module


def _with_parentheses(forms: Sequence[cst.CSTNode], width: int) -> _Asking[Sequence[cst.CSTNode]]:
    codes = [syntax.code_of(form) for form in forms]
    chosen = {index: form for index, form in enumerate(forms) if _CHOICE.search(codes[index])}
    if not chosen:
        return forms
    parted = [syntax.code_of(syntax.as_statement(form.visit(_Parentheses()))) for form in chosen.values()]
    again = dict(zip(chosen, (yield from _formatted(parted, width)), strict=True))
    return [again.get(index, form) for index, form in enumerate(forms)]


class _Parentheses(cst.CSTTransformer):
    """Puts a multi-line conditional expression in parentheses, as black does and ruff keeps."""

    def leave_IfExp(  # noqa: N802
        self, original_node: cst.IfExp, updated_node: cst.IfExp
    ) -> cst.BaseExpression:
        is_long = not original_node.lpar and "\n" in syntax.code_of(original_node)
        return as_operand(updated_node) if is_long else updated_node


def _members(module: cst.Module) -> set[tuple[int, int]]:
    """Return depth and identity of the definitions in a module and its classes, most of which no patch changes."""
    inside = [
        small
        for statement in module.body
        if isinstance(statement, cst.ClassDef)
        for small in statement.body.body
    ]
    return {(0, id(statement)) for statement in module.body} | {(1, id(statement)) for statement in inside}


def _lines(
    node: cst.CSTNode, path: Path, depth: int, unchanged: Collection[tuple[int, int]]
) -> Iterator[_Line]:
    for index, statement in enumerate(syntax.statements_of(node) or ()):
        if (depth, id(statement)) not in unchanged:
            yield from _lines_of(statement, (*path, ("body", index)), depth, unchanged)


def _lines_of(
    node: cst.CSTNode, path: Path, depth: int, unchanged: Collection[tuple[int, int]]
) -> Iterator[_Line]:
    if isinstance(node, cst.SimpleStatementLine):
        if not _is_string(node):
            yield _Line(path, depth, node)
        return
    if isinstance(node, _WITH_HEADER):
        yield _Line(path, depth, node)
    for name in BLOCKS:
        value = getattr(node, name, None)
        parts = enumerate(value) if isinstance(value, (tuple, list)) else [(None, value)]
        for index, part in parts:
            where = (*path, (name, index))
            if isinstance(part, cst.IndentedBlock):
                yield from _lines(part, where, depth + 1, unchanged)
            elif isinstance(part, _BRANCHES):
                yield from _lines_of(part, where, depth + isinstance(part, cst.MatchCase), unchanged)


def _is_string(statement: cst.SimpleStatementLine) -> bool:
    """Return whether a statement is a docstring, whose lines a formatter moves."""
    first = statement.body[0]
    return isinstance(first, cst.Expr) and isinstance(first.value, (cst.SimpleString, cst.ConcatenatedString))


def _formatted(codes: Sequence[str], width: int) -> _Asking[Sequence[cst.CSTNode]]:
    """Return each statement formatted, or all unchanged if the formatter fails."""
    made = (yield formatting("".join(codes), width)) if codes else ""
    return parse_module("".join(codes) if made is None else made).body


def _with_sorted_imports(before: cst.Module, after: cst.Module, style: Style) -> _Asking[cst.Module]:
    """Return ``after`` with each run of imports that received new ones sorted, if it was sorted before."""
    old_statements = {id(statement) for statement in before.body}
    body = list(after.body)
    for start, end in reversed([*_runs_of_imports(body)]):
        run = [cst.ensure_type(statement, cst.SimpleStatementLine) for statement in body[start:end]]
        kept = [line for line in run if id(line) in old_statements]
        if len(kept) < len(run):
            body[start:end] = yield from _sorted(kept, run, style)
    return after.with_changes(body=body)


def _sorted(
    kept: list[cst.SimpleStatementLine], run: list[cst.SimpleStatementLine], style: Style
) -> _Asking[list[cst.SimpleStatementLine]]:
    """Return ``run`` sorted; unchanged if ``kept``, the imports that were there before, are not sorted."""
    kept_ids = set(map(id, kept))
    new = [id(line) not in kept_ids for line in run]
    lead, first = _parted(run[0])
    run = [first, *run[1:]]
    before = [_parted(kept[0])[1], *kept[1:]] if kept else []
    # A sorter puts a blank line above a comment, also above the comment of an edit.
    bare = [
        line.with_changes(leading_lines=()) if is_new else line for line, is_new in zip(run, new, strict=True)
    ]
    codes = [*map(syntax.code_of, bare)]
    # It takes longer to write an import out than to sort it.
    code_by_id = dict(zip(map(id, bare), codes, strict=True))
    alone = [_code_alone(line) if line.leading_lines else code_by_id[id(line)] for line in bare]
    above = {code: line.leading_lines for code, line, is_new in zip(alone, run, new, strict=True) if is_new}
    text_before = "".join(code_by_id.get(id(line)) or syntax.code_of(line) for line in before)
    made = yield sorting(text_before + _SEPARATOR + "".join(codes), style.width, style.first_party)
    sorted_after = (made or "").removeprefix(text_before).lstrip("\n")
    if made is None or not made.startswith(text_before) or not sorted_after.startswith(_SEPARATOR):
        return [_above(run[0], lead), *run[1:]]
    # Unchanged imports stay the same nodes, so that they do not count as rewritten.
    nodes = dict(zip(alone, run, strict=True))
    written_lines = [
        cst.ensure_type(statement, cst.SimpleStatementLine)
        for statement in parse_module(sorted_after).body[1:]
    ]
    placed = []
    for line in written_lines:
        code = _code_alone(line)
        own = above.get(code, ())
        lines = own if own and own[0].comment is None else (*line.leading_lines, *own)
        placed.append(nodes.get(code, line).with_changes(leading_lines=lines))
    return [_above(placed[0], lead), *placed[1:]]


def _parted(
    statement: cst.SimpleStatementLine,
) -> tuple[Sequence[cst.EmptyLine], cst.SimpleStatementLine]:
    """Return the lines above a statement up to the last blank one, and the statement without them."""
    lines = statement.leading_lines
    cut = max((index + 1 for index, line in enumerate(lines) if line.comment is None), default=0)
    return lines[:cut], statement.with_changes(leading_lines=lines[cut:])


def _above(statement: cst.SimpleStatementLine, lines: Sequence[cst.EmptyLine]) -> cst.SimpleStatementLine:
    own = _parted(statement)[1].leading_lines
    return statement.with_changes(leading_lines=[*lines, *own])


def _code_alone(statement: cst.SimpleStatementLine) -> str:
    return syntax.code_of(statement.with_changes(leading_lines=()))


def _runs_of_imports(body: Sequence[cst.CSTNode]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each unbroken run of import statements."""
    start = 0
    for index, statement in enumerate([*body, None]):
        if not _is_import(statement):
            if start < index:
                yield start, index
            start = index + 1


def _is_import(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in node.body
    )

"""``hunk``: apply a hunk of a diff, for edits that no other kind can express."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit import collector
from patchkit.codemods import examination
from patchkit.codemods.examination import SiteState
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import syntax, texts
from patchkit.codemods.language.hunks import Hunk as Lines
from patchkit.tree.nesting import NestingError, parse_module
from patchkit.tree.plain import PlainText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.scope import Scope


class Hunk(Kind, frozen=True, kw_only=True, tag="hunk", forbid_unknown_fields=True):
    """Apply a hunk of a diff within its scope, at lines that match it exactly or nearly.

    It serves edits that no other kind can express, and files that are not Python, whose place is the file. Lines of a
    class or function are written without its indentation. Each run of changed lines must match one place, apart from
    white space, and be identified by the lines around it. A hunk that only adds lines creates a file.
    """

    diff: str

    writes: ClassVar[tuple[str, ...]] = ()
    is_for_text: ClassVar[bool] = True

    def codemod(self) -> Codemod:
        """Return the edit. Raise ValueError if ``diff`` is not a hunk."""
        self._read()
        return self

    def _read(self) -> Lines:
        with texts.naming("diff"):
            return Lines.read(self.diff)

    @property
    def makes_file(self) -> bool:
        """Whether the hunk only adds lines and has no context."""
        return not self._read().old

    @property
    def written(self) -> tuple[str, ...]:
        """The lines after the change."""
        return ("\n".join(self._read().new),)

    @property
    def verbatim(self) -> frozenset[str]:
        """The lines of the diff, which keep their layout."""
        return frozenset(line[1:].strip() for line in self._read().lines)

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the lines in the scope's text."""
        hunk, module = self._read(), scope.module
        if isinstance(module, PlainText):
            return _in_text(hunk, module)
        text = _text_of(scope)
        if not hunk.old:
            return _made_file(hunk, text)
        sign = f"# {note.partition(' ')[0]} "
        lines = text.split("\n")
        found = hunk.examine(lines, lambda line: line.lstrip().startswith(sign))
        if found.state is SiteState.PRESENT:
            return examination.present()
        if found.state is SiteState.AMBIGUOUS:
            return examination.ambiguous(found.reason)
        if found.state is SiteState.ABSENT:
            return examination.absent(found.reason)
        made = _made(scope, lines, _noted(found.lines, found.first, note))
        if made is None:
            return examination.absent("with the hunk it would not be valid Python")
        return examination.ready(lambda: made)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The changed lines must match; lines around them may differ.",
            "diff = '''\n days = 14\n-if late:\n+if late and not forgiven:\n     charge(days)\n'''",
            before="""
            def settle(late, forgiven):
                days = 21  # since May
                if late:
                    charge(days)
                else:
                    thank()
            """,
            after="""
            def settle(late, forgiven):
                days = 21  # since May
                # toy: so that it shows
                if late and not forgiven:
                    charge(days)
                else:
                    thank()
            """,
            scope="settle",
        ),
        Example(
            "Only a hunk can add a branch, which is not a statement.",
            "diff = '''\n     thank()\n+elif lost:\n+    charge(PRICE)\n else:\n     remind()\n'''",
            before="""
            def settle(kept, lost):
                if kept:
                    thank()
                else:
                    remind()
            """,
            after="""
            def settle(kept, lost):
                if kept:
                    thank()
                # toy: so that it shows
                elif lost:
                    charge(PRICE)
                else:
                    remind()
            """,
            scope="settle",
        ),
        Example(
            "If the code is indented deeper now, so are the new lines.",
            "diff = '''\n log(book)\n+count(book)\n lend(book)\n'''",
            before="""
            def serve(book):
                if book:
                    log(book)
                    lend(book)
            """,
            after="""
            def serve(book):
                if book:
                    log(book)
                    # toy: so that it shows
                    count(book)
                    lend(book)
            """,
            scope="serve",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The new lines are present.",
            "diff = '''\n log(book)\n+count(book)\n lend(book)\n'''",
            before="""
            def serve(book):
                log(book)
                count(book)
                lend(book)
            """,
            scope="serve",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Two sites that match equally well are ambiguous.",
            "diff = '''\n-log(book)\n+count(book)\n'''",
            before="""
            log(book)
            lend(book)
            log(book)
            """,
            refusal="several places match, expected one: `log(book)`",
        ),
        Example(
            "Removed lines must be present.",
            "diff = '''\n lend(book)\n-log(book)\n+count(book)\n'''",
            before="lend(book)",
            refusal="expected `log(book)`, which is missing",
        ),
        Example(
            "Each line needs a sign.",
            "diff = 'log(book)'",
            refusal="key `diff`: a line does not begin with",
        ),
        Example("A hunk must change something.", "diff = ' log(book)'", refusal="so nothing changes"),
    )


def _in_text(hunk: Lines, module: PlainText) -> Examination:
    if module.content is None:
        if hunk.old:
            return examination.absent("the tree has no such file")
        return examination.ready(lambda: module.with_changes(content="\n".join(hunk.new)))
    newline = "\r\n" if module.content.partition("\n")[0].endswith("\r") else "\n"
    lines = module.content.split(newline)
    if not hunk.old:
        return _made_file(hunk, "\n".join(lines))
    found = hunk.examine(lines, lambda _: False)
    if found.state is SiteState.PRESENT:
        return examination.present()
    if found.state is SiteState.READY:
        return examination.ready(lambda: module.with_changes(content=newline.join(found.lines)))
    refused = examination.absent if found.state is SiteState.ABSENT else examination.ambiguous
    return refused(found.reason)


def _made_file(hunk: Lines, text: str) -> Examination:
    if tuple(text.split("\n")) == hunk.new:
        return examination.present()
    return examination.ambiguous("the file exists with different contents")


def _text_of(scope: Scope) -> str:
    """Return a scope's text with line feeds and no indentation; only a module's keeps the last line feed."""
    module, node = scope.module, scope.node
    if isinstance(node, cst.Module):
        return _module_text(node).replace("\r\n", "\n")
    return _code(node, *_style(module)).replace("\r\n", "\n").removesuffix("\n")


def _module_text(module: cst.Module) -> str:
    style = _style(module)
    text = "".join(_code(each, *style) for each in (*module.header, *module.body, *module.footer))
    return text if module.has_trailing_newline else text.removesuffix(module.default_newline)


def _style(module: cst.Module) -> tuple[str, str]:
    return module.default_indent, module.default_newline


@collector.cached(1 << 15)
def _code(node: cst.CSTNode, indent: str, newline: str) -> str:
    """Return the source of a node without indentation; cached, since successive edits read the same statements."""
    return cst.Module((), default_indent=indent, default_newline=newline).code_for_node(node)


def _made(scope: Scope, before: Sequence[str], lines: Sequence[str]) -> cst.Module | None:
    """Return the module with other lines in its scope; unchanged nodes are reused. None if it is not valid Python."""
    inside = _made_inside(scope, before, lines)
    if inside is not None:
        return inside
    module = scope.module
    made = _parsed(module, lines if not scope.path else [*lines, ""])
    if made is None:
        return None
    if not scope.path:
        body = _grafted(module, scope.body, made.body)
        return made.with_changes(body=body, encoding=module.encoding)
    if len(made.body) != 1 or made.footer:
        return None
    new, node = made.body[0], scope.node
    if isinstance(new, cst.FunctionDef) and isinstance(node, cst.FunctionDef):
        lead = _lead(node.leading_lines, (*made.header, *new.leading_lines))
        return scope.with_node(new.with_changes(leading_lines=lead, body=_block(module, node.body, new.body)))
    if isinstance(new, cst.ClassDef) and isinstance(node, cst.ClassDef):
        lead = _lead(node.leading_lines, (*made.header, *new.leading_lines))
        return scope.with_node(new.with_changes(leading_lines=lead, body=_block(module, node.body, new.body)))
    return None


def _parsed(module: cst.Module, lines: Sequence[str]) -> cst.Module | None:
    indent, newline = _style(module)
    try:
        return parse_module(
            newline.join(lines), cst.PartialParserConfig(default_indent=indent, default_newline=newline)
        )
    except (cst.ParserSyntaxError, NestingError):
        return None


def _made_inside(scope: Scope, before: Sequence[str], lines: Sequence[str]) -> cst.Module | None:
    """Return the module with only the statements of the scope that contain changed lines parsed again.

    None if other lines change: the header, or those after the last statement.
    """
    module, block = scope.module, syntax.node_at(scope.module, scope.block)
    if not isinstance(block, (cst.IndentedBlock, cst.Module)) or not block.body:
        return None
    top = next((at for at, (old, new) in enumerate(zip(before, lines, strict=False)) if old != new), 0)
    below = min(len(before), len(lines)) - top
    bottom = next(
        (at for at in range(below) if before[-1 - at] != lines[-1 - at]),
        below,
    )
    ends = _ends(module, block, len(before))
    first = next((at for at in range(len(block.body)) if ends[at + 1] > top), len(block.body))
    # The lines above a statement belong to it, so the statement below the change is parsed, too.
    last = next((at for at in range(len(block.body)) if ends[at] >= len(before) - bottom), len(block.body))
    if top < ends[0] or last >= len(block.body) or last < first or ends[first] < 1:
        return None
    window = [*lines[ends[first] : len(lines) - (len(before) - ends[last + 1])], ""]
    made = _parsed(module, window if not scope.path else ["if 0:", *window])
    if made is None or made.footer:
        return None
    inner: cst.CSTNode = made
    if scope.path:
        inner = made.body[0].body if len(made.body) == 1 and isinstance(made.body[0], cst.If) else made
        if not isinstance(inner, cst.IndentedBlock) or inner.footer or made.header:
            return None
    statements = [syntax.as_statement(each) for each in syntax.statements_of(inner) or ()]
    if not statements:
        return None
    old = [syntax.as_statement(each) for each in block.body]
    grafted = _grafted(module, old[first : last + 1], statements)
    if not scope.path and made.header:
        own = (*made.header, *grafted[0].leading_lines)  # type: ignore[attr-defined]
        grafted[0] = grafted[0].with_changes(leading_lines=own)
    body = (*old[:first], *grafted, *old[last + 1 :])
    return scope.replace(scope.block, block.with_changes(body=body))


def _ends(module: cst.Module, block: cst.IndentedBlock | cst.Module, count: int) -> list[int]:
    """Return the line, from 0, at which each statement of a block begins, with the lines above it, and the end."""
    style = _style(module)
    sizes = [_code(each, *style).count("\n") for each in block.body]
    footer = sum(_code(each, *style).count("\n") for each in block.footer)
    # Behind the last line feed of a module there is one more line.
    ends_in_a_line_feed = isinstance(block, cst.Module) and block.has_trailing_newline
    at = count - footer - sum(sizes) - ends_in_a_line_feed
    found = [at]
    for size in sizes:
        found.append(found[-1] + size)
    return found


def _lead(old: Sequence[cst.EmptyLine], new: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Return the lines above a definition; old ones keep their white space."""
    old_by_code = {syntax.code_of(line): line for line in old}
    return [
        old_by_code.get(syntax.code_of(line), line.with_changes(indent=line.comment is not None))
        for line in new
    ]


def _block(module: cst.Module, old: cst.BaseSuite, new: cst.BaseSuite) -> cst.BaseSuite:
    if not isinstance(old, cst.IndentedBlock) or not isinstance(new, cst.IndentedBlock):
        return new
    return new.with_changes(body=_grafted(module, old.body, new.body))


def _grafted(
    module: cst.Module, old: Sequence[cst.BaseStatement], new: Sequence[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """Return the new statements; unchanged ones are the old nodes."""
    style = _style(module)
    old_by_code: dict[str, list[cst.BaseStatement]] = {}
    for statement in old:
        old_by_code.setdefault(_code(statement, *style), []).append(statement)
    found = [_taken(old_by_code, _code(statement, *style)) for statement in new]
    kept_ids = {id(statement) for statement in found}
    unmatched = [statement for statement in old if id(statement) not in kept_ids]
    body = []
    for statement, same in zip(new, found, strict=True):
        if same is not None:
            body.append(same)
            continue
        counterpart = next((each for each in unmatched if _is_alike(each, statement)), None)
        body.append(statement if counterpart is None else _inside(module, counterpart, statement))
    return body


def _taken(by_code: dict[str, list[cst.BaseStatement]], code: str) -> cst.BaseStatement | None:
    statements = by_code.get(code)
    return statements.pop(0) if statements else None


def _is_alike(old: cst.BaseStatement, new: cst.BaseStatement) -> bool:
    if isinstance(new, (cst.FunctionDef, cst.ClassDef)):
        return type(old) is type(new) and syntax.typed(old, type(new)).name.value == new.name.value
    return isinstance(new, cst.BaseCompoundStatement) and type(old) is type(new)


def _inside(module: cst.Module, old: cst.BaseStatement, new: cst.BaseStatement) -> cst.BaseStatement:
    block = _block(module, old.body, new.body)  # type: ignore[attr-defined]
    return new.with_changes(body=block)


def _noted(lines: Sequence[str], first: int, note: str) -> list[str]:
    """Put the note above the statement with the first changed line, or above that line between statements."""
    at = _above(lines, min(first, len(lines) - 1))
    if not note or at is None:
        return list(lines)
    below = next((line for line in lines[at:] if line.strip()), "")
    indent = below[: len(below) - len(below.lstrip())]
    comment = f"{indent}# {note}"
    return list(lines) if comment in lines else [*lines[:at], comment, *lines[at:]]


def _above(lines: Sequence[str], line: int) -> int | None:
    """Return the line, from 0, above which a comment can go; None if the lines are not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return None
    at = line
    for start, end in _taken_lines(tree):
        if start < line + 1 <= end:
            at = start - 1
    return at


def _taken_lines(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield the first and last line, from 1, of each simple statement and header, inside which no comment fits."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        cases: list[ast.match_case] = getattr(node, "cases", [])
        inside = [*map(_first, body), *(case.pattern.lineno for case in cases)]
        end = node.end_lineno or node.lineno
        yield _first(node), max(node.lineno, inside[0] - 1) if inside else end


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])

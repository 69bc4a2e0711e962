"""Draft edits of statements and comments that are placed by their neighbours.

They cover changes that the other kinds cannot express, and have alternatives with more neighbours.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

from patchkit.drafting import items
from patchkit.drafting.change import EditDraft
from patchkit.drafting.draft import LONG, first_line, is_named, meaning, opcodes, source
from patchkit.drafting.hunks import dedented, parsed
from patchkit.drafting.lines import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Body = list[ast.stmt]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BODIES = ("body", "orelse", "finalbody")


class _Side(NamedTuple):
    """A block of statements in one of two texts, the text's lines, and the line, from 0, after the block's header."""

    lines: Sequence[str]
    body: _Body
    top: int

    def start(self, at: int) -> int:
        """Return the line, from 0, at which a statement and the comments above it start."""
        first = first_line(self.body[at]) - 1
        above = (self.body[at - 1].end_lineno or 0) if at else self.top
        while first > above and (
            not self.lines[first - 1].strip() or self.lines[first - 1].lstrip()[0] == "#"
        ):
            first -= 1
        return first

    def lead(self, at: int) -> list[str]:
        """Return the comments and blank lines above a statement, without indentation."""
        lines = self.lines[self.start(at) : first_line(self.body[at]) - 1]
        column = self.body[at].col_offset
        # A comment with less indentation belongs to the enclosing block, one with more to the statement above.
        while any(line.strip() and len(line) - len(line.lstrip()) != column for line in lines):
            lines = lines[1:]
        return [line.strip() for line in lines]

    def code(self, start: int, end: int, *, is_whole: bool) -> str:
        """Return statements with the comments above them, with ``is_whole`` also the blank lines above these."""
        lead = self.lead(start)
        while lead and not lead[0] and not is_whole:
            lead.pop(0)
        return "".join(f"{line}\n" for line in lead) + source(self.lines, *self.body[start:end])

    def head(self, at: int) -> str:
        """Return a statement with ``...`` for its blocks; empty if there is none."""
        return _head(self.lines, self.body[at]) if 0 <= at < len(self.body) else ""

    def blank_lines_above(self, at: int) -> int | None:
        """Return the number of blank lines first above a statement; None if there is none."""
        if at >= len(self.body):
            return None
        return next((n for n, line in enumerate(self.lead(at)) if line), len(self.lead(at)))


def passages(name: str, before: str, after: str) -> tuple[EditDraft, ...]:
    """Return the edits of statements and comments between two versions of a file."""
    try:
        old, new = parsed(before), parsed(after)
    except (SyntaxError, ValueError):
        return ()
    sides = _Side(before.split("\n"), old.body, 0), _Side(after.split("\n"), new.body, 0)
    return tuple(_blocks(name, "", sides, ""))


def _blocks(file: str, path: str, sides: tuple[_Side, _Side], within: str) -> Iterator[EditDraft]:
    """Compare two versions of a block in a scope; ``within`` is the statement that contains it."""
    old, new = sides
    keys = _keys(old.body, new.body)
    for tag, i1, i2, j1, j2 in opcodes((old.body, new.body), keys):
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield from _kept(file, path, sides, (i, j), within, is_first=i == i1 > 0)
        elif tag == "replace" and i2 - i1 == j2 - j1:
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield from _changed(file, path, sides, (i, j), within)
        else:
            yield from _exchanged(file, path, sides, (i1, i2, j1, j2), within)


def _keys(old: _Body, new: _Body) -> tuple[list[str], list[str]]:
    """Return the keys of the statements of two bodies: the name if it is unique in both, else the meaning."""
    counts = [[name for each in body if (name := _name(each))] for body in (old, new)]

    def key(node: ast.stmt) -> str:
        name = _name(node)
        return name if name and all(names.count(name) == 1 for names in counts) else meaning(node)

    return [key(node) for node in old], [key(node) for node in new]


def _at(file: str, path: str) -> str:
    return f"{file}::{path}" if path else file


def _name(node: ast.stmt) -> str:
    """Return the name of a definition, or of the module that names are imported from."""
    if isinstance(node, (ast.ClassDef, *_FUNCTIONS)):
        return f"{isinstance(node, ast.ClassDef)} {node.name}"
    return f"{'.' * node.level}{node.module or ''} import" if isinstance(node, ast.ImportFrom) else ""


def _changed(
    file: str, path: str, sides: tuple[_Side, _Side], at: tuple[int, int], within: str
) -> Iterator[EditDraft]:
    """Compare a statement and its replacement."""
    old, new = sides
    before, after = old.body[at[0]], new.body[at[1]]
    if _is_alike(before, after):
        yield from _kept(file, path, sides, at, within)
        return
    length = (before.end_lineno or before.lineno) - before.lineno
    if type(before) is type(after) and (length >= LONG or hasattr(before, "body")):
        bare = _without_blocks(before), _without_blocks(after)
        edits = items.item_edits(_at(file, path), (old.lines, new.lines), *bare)
        if edits is not None and _have_the_same_blocks(before, after):
            yield from edits
            # The edits below come after those of the header, and are found by it.
            yield from _kept(file, path, sides, at, within, head=new.head(at[1]))
            return
    yield from _exchanged(file, path, sides, (at[0], at[0] + 1, at[1], at[1] + 1), within)


def _without_blocks(node: ast.stmt) -> ast.stmt:
    bare = copy.copy(node)
    for name in (*_BODIES, "handlers"):
        if hasattr(bare, name):
            setattr(bare, name, [])
    bare.__dict__.pop("digest", None)
    return bare


def _have_the_same_blocks(old: ast.stmt, new: ast.stmt) -> bool:
    counts = [
        [bool(getattr(node, name, ())) for name in _BODIES]
        + [_dumped(each) for each in getattr(node, "handlers", ())]
        for node in (old, new)
    ]
    return counts[0] == counts[1] and _elifs(old) == _elifs(new) and not isinstance(old, ast.Match)


def _elifs(node: ast.stmt) -> list[str | bool]:
    """Return the tests of the ``elif`` branches of a statement, and whether it has an ``else`` branch."""
    branch = _elif(node)
    if branch is None:
        return [bool(getattr(node, "orelse", ()))]
    return [meaning(branch.test), *_elifs(branch)]


def _elif(node: ast.stmt) -> ast.If | None:
    """Return the first ``elif`` branch of a statement, which the syntax tree has as an ``if`` in its ``else``."""
    branch = node.orelse[0] if isinstance(node, ast.If) and len(node.orelse) == 1 else None
    is_elif = isinstance(branch, ast.If) and branch.col_offset == node.col_offset
    return branch if is_elif else None  # type: ignore[return-value]


def _is_alike(old: ast.stmt, new: ast.stmt) -> bool:
    """Return whether two statements differ only inside their blocks."""
    if type(old) is not type(new) or is_named(old) or not hasattr(old, "body"):
        return False
    return _have_the_same_blocks(old, new) and meaning(_without_blocks(old)) == meaning(_without_blocks(new))


def _dumped(handler: ast.ExceptHandler) -> str:
    return f"{'' if handler.type is None else meaning(handler.type)} {handler.name}"


def _kept(
    file: str,
    path: str,
    sides: tuple[_Side, _Side],
    at: tuple[int, int],
    within: str,
    *,
    is_first: bool = False,
    head: str = "",
) -> Iterator[EditDraft]:
    """Compare the comments above a statement that stays, and its blocks; ``head`` is its header if that changes."""
    old, new = sides
    before, after = old.body[at[0]], new.body[at[1]]
    head = head or old.head(at[0])
    leads = old.lead(at[0]), new.lead(at[1])
    # The edit of an exchange includes the blank lines after it.
    is_covered = is_first and [line for line in leads[0] if line] == [line for line in leads[1] if line]
    if leads[0] != leads[1] and not is_covered and (path or at[0]):
        removed, added = ("".join(f"{line}\n" for line in lead) for lead in leads)
        keys: dict[str, str] = {"find": head, "code": added, "gone": removed}
        edit = EditDraft("comment", _at(file, path), keys)
        yield _placed(edit, old, (at[0], at[0] + 1), within)
    one, other = (source(side.lines, node) for side, node in ((old, before), (new, after)))
    if one == other:
        return
    if isinstance(before, ast.ImportFrom):
        # No edit of names puts an import of several lines on one line, or the reverse.
        is_laid_out_alike = ("\n" in one) == ("\n" in other)
        comparison = _at(file, path), (old.lines, new.lines), before, after
        edits = (items.item_edits(*comparison) or []) if is_laid_out_alike else []
        others = _exchanged(file, path, sides, (at[0], at[0] + 1, at[1], at[1] + 1), within)
        yield from _with_alternatives(edits, others) if len(edits) < 2 else edits
        return
    if is_named(before):
        inner = f"{path}.{before.name}".lstrip(".")  # type: ignore[attr-defined]
        if isinstance(before, _FUNCTIONS) and isinstance(after, _FUNCTIONS):
            yield from items.parameter_edits(
                _at(file, inner), (old.lines, new.lines), before.args, after.args
            )
        bodies = (_below(old, before, "body"), _below(new, after, "body"))
        yield from _blocks(file, inner, bodies, "")
        return
    for inside_old, inside_new in _inner(before, after):
        yield from _blocks(file, path, (_under(old, *inside_old), _under(new, *inside_new)), head)


def _with_alternatives(edits: Sequence[EditDraft], others: Iterator[EditDraft]) -> Iterator[EditDraft]:
    """Yield the edit, if there is one, with the others as its alternatives."""
    forms = [form for edit in (*edits, *others) for form in (edit, *edit.others)]
    if forms:
        yield EditDraft(forms[0].kind, forms[0].at, forms[0].keys, (), tuple(forms[1:]))


def _inner(before: ast.stmt, after: ast.stmt) -> Iterator[tuple[tuple[_Body, int], tuple[_Body, int]]]:
    """Yield the blocks of two statements with the same blocks, each with the line after its header."""
    for name in _BODIES:
        pair = getattr(before, name, None), getattr(after, name, None)
        if pair[0] and pair[1]:
            yield (pair[0], _top(before, name)), (pair[1], _top(after, name))
    for one, other in zip(getattr(before, "handlers", ()), getattr(after, "handlers", ()), strict=False):
        yield (one.body, _top(one, "body")), (other.body, _top(other, "body"))


def _top(node: ast.AST, name: str) -> int:
    """Return the first line, from 0, that can be above the first statement of a block."""
    ends = [getattr(node, "lineno", 1)]
    for field, value in ast.iter_fields(node):
        if field == name:
            break
        nodes = value if isinstance(value, list) else [value]
        ends += [each.end_lineno for each in nodes if getattr(each, "end_lineno", None)]
    return max(ends)


def _below(side: _Side, node: ast.stmt, name: str) -> _Side:
    return _under(side, getattr(node, name), _top(node, name))


def _under(side: _Side, body: _Body, top: int) -> _Side:
    return _Side(side.lines, body, top)


def _exchanged(
    file: str,
    path: str,
    sides: tuple[_Side, _Side],
    run: tuple[int, int, int, int],
    within: str,
) -> Iterator[EditDraft]:
    """Draft the replacement of statements by others."""
    old, new = sides
    i1, i2, j1, j2 = run
    keys: dict[str, str | int] = {}
    if i1 < i2:
        keys["find"] = old.code(i1, i2, is_whole=False)
    if j1 < j2:
        keys["code"] = new.code(j1, j2, is_whole=True)
    if i1 < i2 and j1 < j2:
        around = _around_blocks(_at(file, path), sides, run)
        if around is not None:
            yield around
            return
    removed = source(old.lines, *old.body[i1:i2]).split("\n") if i1 < i2 else []
    added = source(new.lines, *new.body[j1:j2]).split("\n") if j1 < j2 else []
    if removed and added and len(removed) > LONG and 2 * count(removed, added) < len(removed):
        return  # A hunk needs fewer lines of the tree than a long `find`.
    if not path and not i1:
        return  # Comments above the first statement belong to the module.
    if not i2 and old.body and _is_text(old.body[0]):
        return  # Docstrings differ between trees; a hunk finds the place by the line above.
    blank_lines = new.blank_lines_above(j2)
    if blank_lines is not None and blank_lines != old.blank_lines_above(i2):
        keys["apart"] = blank_lines
    yield _placed(EditDraft("exchange", _at(file, path), keys), old, (i1, i2), within)


def _around_blocks(at: str, sides: tuple[_Side, _Side], run: tuple[int, int, int, int]) -> EditDraft | None:
    """Return the rewriting of compound statements in which ``$$name`` stands for each block that stays.

    None if no block stays, or if too much else would have to match.
    """
    old, new = sides
    blocks = {
        each.code(0, len(each.body), is_whole=True): each
        for node in old.body[run[0] : run[1]]
        for each in _blocks_in(old, node)
    }
    names: dict[str, str] = {}
    added: list[tuple[_Side, str]] = []
    for node in new.body[run[2] : run[3]]:
        for each in _blocks_in(new, node):
            text = each.code(0, len(each.body), is_whole=True)
            if text in blocks and text not in names:
                names[text] = f"$$block{len(names) + 1}"
                added.append((each, names[text]))
    find = _with_names(old, run[:2], [(blocks[text], name) for text, name in names.items()])
    if not names or find.count("\n") >= LONG:
        return None
    return EditDraft("rewrite", at, {"find": find, "code": _with_names(new, run[2:], added)})


def _blocks_in(side: _Side, node: ast.stmt) -> Iterator[_Side]:
    """Yield the blocks of a compound statement, and those of each of its branches."""
    branch = _elif(node)
    for name in _BODIES if not is_named(node) else ():
        if name == "orelse" and branch is not None:
            yield from _blocks_in(side, branch)
        elif getattr(node, name, None):
            yield _below(side, node, name)
    for handler in getattr(node, "handlers", ()):
        yield _under(side, handler.body, _top(handler, "body"))


def _with_names(side: _Side, run: Sequence[int], blocks: Sequence[tuple[_Side, str]]) -> str:
    """Return the source of a run of statements with names in place of blocks."""
    lines = list(side.lines)
    end = side.body[run[1] - 1].end_lineno or 0
    for block, name in sorted(blocks, key=lambda each: -each[0].body[0].lineno):
        first = first_line(block.body[0]) - 1
        last = block.body[-1].end_lineno or first + 1
        indent = " " * block.body[0].col_offset
        start = first - len(block.lead(0))
        lines[start:last] = [f"{indent}{name}"]
        end -= last - start - 1
    return "\n".join(dedented(lines[first_line(side.body[run[0]]) - 1 : end]))


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _placed(edit: EditDraft, side: _Side, run: tuple[int, int], within: str) -> EditDraft:
    """Return an edit with its neighbours, and alternatives with more of them."""
    near = {"behind": side.head(run[0] - 1), "before": side.head(run[1])}
    beside = {**edit.keys, **{key: value for key, value in near.items() if value}}
    forms = [edit.keys, beside] if edit.kind == "comment" else [beside]
    forms += [{**beside, "within": within}] if within else []
    first, *others = (EditDraft(edit.kind, edit.at, form) for form in forms)
    return EditDraft(first.kind, first.at, first.keys, (), tuple(others))


def _head(lines: Sequence[str], node: ast.stmt) -> str:
    if not hasattr(node, "body") and not isinstance(node, ast.Match):
        return source(lines, node)
    bare = copy.copy(node)
    nothing: list[ast.stmt] = [ast.Expr(ast.Constant(...))]
    if isinstance(bare, ast.Match):
        bare.cases = [ast.match_case(ast.MatchAs(), None, nothing)]
        return ast.unparse(bare)
    bare.body = nothing
    for name in ("orelse", "handlers", "decorator_list"):
        if hasattr(bare, name):
            setattr(bare, name, [])
    if hasattr(bare, "finalbody"):
        bare.finalbody = nothing
    if isinstance(bare, (ast.FunctionDef, ast.AsyncFunctionDef)):
        bare.args = ast.arguments([], [], None, [], [], None, [])
        bare.returns = None
    elif isinstance(bare, ast.ClassDef):
        bare.bases, bare.keywords = [], []
    return ast.unparse(bare)

"""Draft edits from the syntax trees of two versions of a file; uncertain parts are marked for completion by hand."""

from __future__ import annotations

import ast
import difflib
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.drafting.change import EditDraft
from patchkit.drafting.hunks import dedented, header, parsed
from patchkit.drafting.lines import count
from patchkit.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_Body = list[ast.stmt]
_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
LONG = 8
"""The most lines of a statement that other trees are likely to have unchanged."""
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class _File:
    name: str
    before: str
    after: str
    found: list[EditDraft] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.old_lines = split_lines(self.before)
        self.new_lines = split_lines(self.after)

    def old(self, node: ast.AST, *others: ast.AST) -> str:
        return source(self.old_lines, node, *others)

    def new(self, node: ast.AST, *others: ast.AST) -> str:
        return source(self.new_lines, node, *others)

    def segment(self, node: ast.expr) -> str:
        """Return the source of an expression in the new version."""
        return ast.get_source_segment(self.after, node) or ast.unparse(node)

    def with_comments(self, *nodes: ast.AST) -> str:
        """Return new statements with the comments and blank lines above them."""
        lines = self.new_lines
        first = top = first_line(nodes[0]) - 1
        while top and (not lines[top - 1].strip() or lines[top - 1].lstrip().startswith("#")):
            top -= 1
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        above = lines[top:first]
        # A comment with less indentation belongs to the enclosing block.
        while any(line.strip() and not line.startswith(indent) for line in above):
            above = above[1:]
        blank = next((at for at, line in enumerate(above) if line.strip()), len(above))
        comments = "".join(f"{line.removeprefix(indent)}\n" for line in above[blank:])
        return "\n" * blank + comments + self.new(*nodes)


def draft(name: str, before: str, after: str) -> tuple[EditDraft, ...]:
    """Return the edits, by structure alone, between two versions of a file."""
    file = _File(name, before, after)
    try:
        _scopes(file, "", parsed(before), parsed(after))
    except (SyntaxError, ValueError):
        return ()
    return tuple(file.found)


def _scopes(file: _File, path: str, old: _Scope, new: _Scope) -> None:
    """Compare the content of two versions of a module, class or function."""
    at = f"{file.name}::{path}" if path else file.name
    named_old, named_new = _named(old.body), _named(new.body)
    for name, node in named_new.items():
        inner = f"{path}.{name}" if path else name
        if name not in named_old and isinstance(new, (ast.Module, ast.ClassDef)):
            _draft_addition(file, at, (old, new), node)
        elif name not in named_old:
            continue
        elif file.old(named_old[name]) != file.new(node) and _same_kind(named_old[name], node):
            _definition(file, inner, named_old[name], node)
    _draft_removals(file, at, named_old, named_new)
    rest_old = [node for node in old.body if not is_named(node)]
    rest_new = [node for node in new.body if not is_named(node)]
    if isinstance(new, ast.ClassDef):
        _attributes(file, at, (rest_old, rest_new), (old, new))
    elif isinstance(new, ast.Module):
        _module_statements(file, at, (rest_old, rest_new), (old, new))
    else:
        before, after = _without_docstring(old.body), _without_docstring(new.body)
        _statements(file, at, (before, after), before)


def _draft_addition(file: _File, at: str, scopes: tuple[_Scope, _Scope], node: ast.stmt) -> None:
    """Draft a new definition or assignment, placed after the existing one before it."""
    old, new = scopes
    kind = "module-code" if isinstance(new, ast.Module) else "method" if is_named(node) else "class-attribute"
    place = new.body.index(node)
    bound = {name for each in old.body if (name := _bound(each))}
    added = [each for each in new.body[:place] if _bound(each)]
    beside = _bound(added[-1]) if added else ""
    code = file.with_comments(node)
    plain: dict[str, str] = {"code": code.lstrip("\n")}
    placed = {"code": code, "behind": beside}
    variants = (
        [EditDraft(kind, at, placed), EditDraft(kind, at, plain | {"behind": beside})] if beside else []
    )
    below = next((name for each in new.body[place + 1 :] if (name := _bound(each)) in bound), "")
    variants += [
        EditDraft(kind, at, {"code": text, "before": below}) for text in (code, plain["code"]) if below
    ]
    variants += [EditDraft(kind, at, plain)] if beside in bound or not beside else []
    first, *others = variants
    file.found.append(EditDraft(first.kind, at, first.keys, (), tuple(others)))


def _bound(node: ast.stmt) -> str:
    """Return the name that a definition or an assignment binds."""
    if isinstance(node, (ast.ClassDef, *_Function)):
        return node.name
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _draft_removals(
    file: _File, at: str, old: Mapping[str, _Definition], new: Mapping[str, _Definition]
) -> None:
    """Draft the removal of definitions, each with the header of one that stays as context."""
    remaining = [node for name, node in old.items() if name in new and header(node) == header(new[name])]
    for node in (node for name, node in old.items() if name not in new):
        beside = sorted(remaining, key=lambda other: abs(other.lineno - node.lineno))
        if beside:
            keys = {"find": header(node), "context": [header(beside[0])]}
            file.found.append(EditDraft("delete", at, keys))
        else:
            _rewrite(
                file,
                at,
                [node],
                [],
                ("this definition is removed, and no definition beside it stays: finish by hand",),
            )


def _without_docstring(body: _Body) -> _Body:
    first = body[0] if body else None
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_docstring else body


def _definition(file: _File, path: str, old: _Scope, new: _Scope) -> None:
    at = f"{file.name}::{path}"
    if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
        bases_old = {ast.unparse(base) for base in old.bases}
        for base in new.bases:
            if ast.unparse(base) not in bases_old:
                file.found.append(EditDraft("base-class", at, {"base": ast.unparse(base)}))
    if isinstance(old, _Function) and isinstance(new, _Function):
        had = {arg.arg for arg in _parameters(old.args)}
        before = ""
        for arg, default in _with_defaults(new.args):
            if arg.arg not in had:
                code = ast.unparse(arg)
                if default is not None:
                    code += f"{' = ' if arg.annotation else '='}{file.segment(default)}"
                last = EditDraft("parameter", at, {"code": code})
                placed = EditDraft("parameter", at, {"code": code, "behind": before}, (), (last,))
                file.found.append(placed if before else last)
            before = arg.arg
    _scopes(file, path, old, new)


def _attributes(file: _File, at: str, bodies: tuple[_Body, _Body], scopes: tuple[_Scope, _Scope]) -> None:
    old, new = bodies
    kept = _kept(old, new)
    for tag, removed, added in _opcodes(old, new):
        if tag == "delete":
            _delete(file, at, removed, kept, old)
        elif tag == "replace":
            _rewrite(file, at, removed, added)
        for node in added if tag == "insert" else ():
            if _bound(node):
                _draft_addition(file, at, scopes, node)


def _module_statements(
    file: _File, at: str, bodies: tuple[_Body, _Body], scopes: tuple[_Scope, _Scope]
) -> None:
    old, new = bodies
    known = {name for node in old for name in _imported(node)}
    for node in new:
        new_names = [name for name in _imported(node) if name not in known]
        file.found += (EditDraft("import", at, {"code": name}) for name in new_names)
    plain_old = [node for node in old if not isinstance(node, (ast.Import, ast.ImportFrom))]
    plain_new = [node for node in new if not isinstance(node, (ast.Import, ast.ImportFrom))]
    for tag, removed, added in _opcodes(plain_old, plain_new):
        if tag == "insert":
            for node in added:
                if _bound(node):
                    _draft_addition(file, at, scopes, node)
        elif tag == "delete":
            _delete(file, at, removed, _kept(plain_old, plain_new), old)
        elif tag == "replace" and len(removed) == len(added):
            for before, after in zip(removed, added, strict=True):
                inner = _inner(before, after)
                if inner is not None:
                    _statements(file, at, inner, old)
                else:
                    _rewrite(file, at, [before], [after])
        elif tag != "equal":
            _rewrite(file, at, removed, added)
    remaining = {name for node in new for name in _imported(node)}
    for node in (node for node in old if _imported(node) and remaining.isdisjoint(_imported(node))):
        _delete(file, at, [node], _kept(old, new), old)


def _is_empty(body: _Body) -> bool:
    return all(isinstance(node, ast.Pass) for node in body)


def _kept(old: _Body, new: _Body) -> list[ast.stmt]:
    """Return the statements of the old body that stay."""
    return [node for tag, same, _ in _opcodes(old, new) for node in same if tag == "equal"]


def _statements(
    file: _File, at: str, bodies: tuple[_Body, _Body], scope_body: _Body, around: Sequence[ast.stmt] = ()
) -> None:
    """Compare two bodies statement by statement, and the bodies of compound statements that differ only there.

    ``scope_body`` is the body of the scope, and ``around`` are statements of it that stay.
    """
    (old, new), done = bodies, 0
    kept = [*_kept(old, new), *around]
    for tag, removed, added in _opcodes(old, new):
        if tag == "insert":
            _insert(file, at, old, done, added)
        elif tag == "delete" or (tag == "replace" and kept and _is_empty(added)):
            _delete(file, at, removed, kept, scope_body)
        elif tag == "replace" and len(removed) == len(added):
            for before, after in zip(removed, added, strict=True):
                inner = _inner(before, after)
                if inner is not None:
                    _statements(file, at, inner, scope_body, kept)
                elif not (is_named(before) and is_named(after)):
                    _rewrite(file, at, [before], [after])
        elif tag != "equal":
            _rewrite(file, at, removed, added)
        done += len(removed)


def _insert(file: _File, at: str, old: _Body, place: int, added: _Body) -> None:
    code = file.with_comments(*added)
    bare = code.lstrip("\n")
    behind = file.old(old[place - 1]) if place else ""
    before = file.old(old[place]) if place < len(old) else ""
    variants = []
    if behind:
        variants.append(EditDraft("insert-after", at, {"find": behind, "code": code}))
        variants += [EditDraft("insert-after", at, {"find": behind, "code": bare})] if bare != code else []
    if before:
        variants.append(EditDraft("insert-before", at, {"find": before, "code": bare}))
    if behind and before:
        pair = f"{behind}\n{before}"
        inside = f"{behind}\n{code}\n{before}"
        variants.append(EditDraft("rewrite", at, {"find": pair, "code": inside}))
    # A shorter anchor matches more trees.
    variants.sort(
        key=lambda variant: (variant.kind == "rewrite", len(split_lines(str(variant.keys["find"]))) > 1)
    )
    first, *others = variants
    file.found.append(EditDraft(first.kind, at, first.keys, (), tuple(others)))


def _delete(file: _File, at: str, removed: _Body, kept: Sequence[ast.stmt], scope_body: _Body) -> None:
    """Draft the removal of statements, with the nearest unique statement that stays as context."""
    if _is_empty(removed):
        return
    meanings = [meaning(node) for body in scope_body for node in ast.walk(body) if isinstance(node, ast.stmt)]
    first, last = removed[0].lineno, removed[-1].end_lineno or removed[-1].lineno
    anchors = sorted(
        (node for node in kept if meanings.count(meaning(node)) == 1 and not isinstance(node, ast.Pass)),
        key=lambda node: (
            node.lineno != node.end_lineno,
            min(abs(node.lineno - last), abs(first - (node.end_lineno or node.lineno))),
        ),
    )
    if not anchors:
        _rewrite(
            file,
            at,
            removed,
            [],
            ("these statements are removed, and no unique statement beside them stays: finish by hand",),
        )
        return
    find = file.old(*removed)
    keys = {"find": find, "context": [file.old(anchors[0])]}
    file.found.append(EditDraft("delete", at, keys, _long(find)))


def _rewrite(file: _File, at: str, removed: _Body, added: _Body, todo: tuple[str, ...] = ()) -> None:
    find = file.old(*removed)
    code = file.new(*added) if added else ""
    lines = split_lines(find)
    if added and len(lines) > LONG and 2 * count(lines, split_lines(code)) < len(lines):
        return  # A hunk needs fewer lines of the tree than a long `find`.
    todo = (*todo, *_long(find))
    file.found.append(EditDraft("rewrite", at, {"find": find, "code": code or "pass"}, todo))


def _long(find: str) -> tuple[str, ...]:
    if len(split_lines(find)) > LONG:
        return ("a long `find` matches few trees: replace what does not matter with `...`",)
    return ()


def _inner(old: ast.stmt, new: ast.stmt) -> tuple[_Body, _Body] | None:
    """Return the bodies of two compound statements that differ in only one body, else None."""
    if type(old) is not type(new) or is_named(old):
        return None
    differing = []
    for name, value in ast.iter_fields(old):
        other = getattr(new, name)
        if _dumped(value) != _dumped(other):
            differing.append((value, other))
    if len(differing) != 1:
        return None
    before, after = differing[0]
    bodies = all(
        isinstance(each, list) and each and isinstance(each[0], ast.stmt) for each in (before, after)
    )
    return (before, after) if bodies else None


def _dumped(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(_dumped, value))
    return meaning(value) if isinstance(value, ast.AST) else repr(value)


def meaning(node: ast.AST) -> str:
    """Return a digest of a node's meaning. It is stored on the node, since most are compared several times."""
    known: str | None = getattr(node, "digest", None)
    if known is None:
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            known = (
                f"{type(node).__name__}({', '.join(_dumped(value) for _, value in ast.iter_fields(node))})"
            )
        else:
            known = ast.dump(node)
        known = hashlib.blake2b(known.encode(errors="surrogatepass"), digest_size=16).hexdigest()
        node.digest = known  # type: ignore[attr-defined]
    return known


def _opcodes(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> Iterator[tuple[str, _Body, _Body]]:
    before, after = ([meaning(node) for node in body] for body in (old, new))
    for tag, i1, i2, j1, j2 in opcodes((old, new), (before, after)):
        yield tag, list(old[i1:i2]), list(new[j1:j2])


def opcodes(
    bodies: tuple[Sequence[ast.stmt], Sequence[ast.stmt]], keys: tuple[Sequence[str], Sequence[str]]
) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the differences between two bodies, as difflib does.

    Where more or fewer statements replace others, a statement that changes is paired with its new version.
    """
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag != "replace" or i2 - i1 == j2 - j1:
            yield tag, i1, i2, j1, j2
            continue
        forms = [_form(node) for node in bodies[0][i1:i2]], [_form(node) for node in bodies[1][j1:j2]]
        for inner, a1, a2, b1, b2 in difflib.SequenceMatcher(None, *forms, autojunk=False).get_opcodes():
            change = "replace" if inner == "equal" else inner
            yield change, i1 + a1, i1 + a2, j1 + b1, j1 + b2


def _form(node: ast.stmt) -> str:
    """Return what two versions of a statement have in common: its type, and what it assigns, calls or tests."""
    parts: list[object] = [
        getattr(node, name, None) for name in ("name", "target", "targets", "test", "module")
    ]
    if isinstance(node, ast.Expr):
        parts.append(node.value.func if isinstance(node.value, ast.Call) else node.value)
    return f"{type(node).__name__} {' '.join(map(_dumped, parts))}"


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return [f"from {module} import {ast.unparse(alias)}" for alias in node.names]
    return [f"import {ast.unparse(alias)}" for alias in node.names] if isinstance(node, ast.Import) else []


def is_named(node: ast.stmt) -> bool:
    """Return whether a statement is a definition."""
    return isinstance(node, (ast.ClassDef, *_Function))


def _named(body: _Body) -> dict[str, _Definition]:
    return {node.name: node for node in body if isinstance(node, (ast.ClassDef, *_Function))}


def _same_kind(old: ast.AST, new: ast.AST) -> bool:
    return isinstance(old, ast.ClassDef) is isinstance(new, ast.ClassDef)


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _with_defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    yield from zip(plain, defaults, strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def first_line(node: ast.AST) -> int:
    """Return the first line of a statement or its first decorator, from 1."""
    return min(getattr(each, "lineno", 1) for each in (node, *getattr(node, "decorator_list", ())))


def source(lines: Sequence[str], *nodes: ast.AST) -> str:
    """Return the source of consecutive statements, without indentation."""
    first, last = first_line(nodes[0]), getattr(nodes[-1], "end_lineno", None)
    return "\n".join(dedented(lines[first - 1 : last]))

"""Check that a merge made its change, and that each other statement is in the same blocks as before."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from patchkit.change.outline import dumped
from patchkit.tree.source import first_line, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_Header = tuple[str, str, str]
"""A statement's kind, its name, and its code without its blocks."""
_Path = tuple[_Header, ...]
_Place = tuple[_Path, int]
"""A statement, and its line."""
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def misplacements(base: str, theirs: str, ours: str, result: str) -> Iterator[int]:
    """Yield the lines of statements that a merge loses, moves or adds, or leaves although the change removes them."""
    # Equal code in two versions is not compared: it would take seconds for a long file.
    b, t = _different(base, theirs)
    o, m = _different(ours, result)
    places = dict((*m, *o))
    versions = [[path for path, _ in pairs] for pairs in (b, t, o, m)]
    renamed = _renamed_headers(versions[0], versions[2]) | _renamed_headers(versions[0], versions[1])
    original: dict[_Path, _Path] = {}
    paths: list[Counter[_Path]] = []
    for counts in versions:
        named = [tuple(renamed.get(part, part) for part in path) for path in counts]
        original |= zip(named, counts, strict=True)
        paths.append(Counter(named))
    base_paths, wanted, own, made = paths
    lost, new = (own - made) - (base_paths - wanted), (made - own) - (wanted - base_paths)
    for path in (*lost, *new):
        yield places.get(original[path], 1)
    yield from _left(theirs, result, [[path[-1] for path in paths] for paths in versions])


def _left(theirs: str, result: str, headers: Sequence[Sequence[_Header]]) -> Iterator[int]:
    """Yield the lines of statements that the change removes and that are still there, in whatever block."""
    b, t, o, m = (Counter(side) for side in headers)
    for header, number in (b - t).items():
        if o[header] - m[header] < number:
            wanted, counted = (
                [line for path, line in _all_statements(text) if path[-1] == header]
                for text in (theirs, result)
            )
            if len(counted) > len(wanted):
                yield min(counted)


def _different(one: str, other: str) -> tuple[list[_Place], list[_Place]]:
    """Return the statements, with their lines, of the definitions whose text two versions do not share."""
    chunks = [list(_chunks(source.split("\n"), parsed(source).body, ())) for source in (one, other)]
    texts = [Counter((enclosing, text) for enclosing, text, _, _ in chunk) for chunk in chunks]
    result: list[list[_Place]] = []
    for chunk in chunks:
        common = texts[0] & texts[1]
        rest: list[_Place] = []
        for enclosing, text, header, node in chunk:
            if common[enclosing, text] > 0:
                common[enclosing, text] -= 1
            elif header is not None:
                rest.append(((*enclosing, header), node.lineno))
            else:
                rest += _statements([(node, enclosing)])
        result.append(rest)
    return result[0], result[1]


def _chunks(
    lines: Sequence[str], body: Iterable[ast.stmt], enclosing: _Path
) -> Iterator[tuple[_Path, str, _Header | None, ast.stmt]]:
    """Yield the statements of a file and of its classes with the path of their block; of a class only its header."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            header, _ = _split(node)
            yield enclosing, repr(header), header, node
            yield from _chunks(lines, node.body, (*enclosing, header, ("in", "body", "")))
        else:
            yield enclosing, "\n".join(lines[first_line(node) : node.end_lineno]), None, node


def _statements(remaining: list[tuple[ast.AST, _Path]]) -> Iterator[_Place]:
    """Yield each statement in some nodes with the headers of the blocks that contain it, and its line."""
    while remaining:
        node, enclosing = remaining.pop()
        line = getattr(node, "lineno", 1)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            source = f"{node.level} {node.module}" if isinstance(node, ast.ImportFrom) else ""
            yield from (((*enclosing, ("import", source, ast.dump(name))), line) for name in node.names)
            continue
        header, blocks = _split(node)
        yield (*enclosing, header), line
        for name, rows in blocks:
            remaining += [(value, (*enclosing, header, ("in", name, ""))) for value in rows]


def _all_statements(text: str) -> Iterator[_Place]:
    return _statements([(node, ()) for node in parsed(text).body])


def _split(node: ast.AST) -> tuple[_Header, list[tuple[str, list[ast.AST]]]]:
    """Return the header of a statement, and its blocks."""
    code: list[str] = []
    blocks: list[tuple[str, list[ast.AST]]] = []
    for name, part in ast.iter_fields(node):
        rows = part if isinstance(part, list) else [part]
        if any(isinstance(value, _BLOCKS) for value in rows):
            blocks.append((name, rows))
        else:
            code += [dumped(value) if isinstance(value, ast.AST) else repr(value) for value in rows]
    return (type(node).__name__, str(getattr(node, "name", "")), " ".join(code)), blocks


def _renamed_headers(one: Sequence[_Path], other: Sequence[_Path]) -> dict[_Header, _Header]:
    """Return the changed headers of another version by the original ones, matched by kind and name, or by kind."""
    old_headers, new_headers = ({header for path in paths for header in path[:-1]} for paths in (one, other))
    renamed: dict[_Header, _Header] = {}
    for length in (2, 1):
        removed = old_headers - new_headers - {*renamed.values()}
        added = new_headers - old_headers - renamed.keys()
        removed_by_key = {header[:length]: header for header in removed}
        counts = Counter(header[:length] for header in removed), Counter(header[:length] for header in added)
        renamed |= {
            header: removed_by_key[header[:length]]
            for header in added
            if counts[0][header[:length]] == counts[1][header[:length]] == 1
        }
    return renamed


def merged_counts(base: str, ours: str, theirs: str, result: str) -> bool:
    """Return whether a merge has each statement as often as both sides together leave it.

    What both add is there twice if they add it in functions of their own, most of which is not in those of the other.
    """
    uneven, _ = _uneven(base, ours, theirs, result)
    return not uneven


def restores(base: str, ours: str, theirs: str) -> bool:
    """Return whether one side adds a statement once more to the block from which the other one removes it."""
    b, o, t = map(_counted, (base, ours, theirs))
    return any((o[path] - b[path]) * (t[path] - b[path]) < 0 for path in b)


def adds_twice(base: str, ours: str, theirs: str, result: str) -> bool:
    """Return whether a merge has a statement that both sides add more often than that."""
    uneven, both = _uneven(base, ours, theirs, result)
    return any(uneven.get(header, 0) > 0 for header in both)


def _uneven(base: str, ours: str, theirs: str, result: str) -> tuple[dict[_Header, int], set[_Header]]:
    """Return how much more often a merge has a statement than both sides leave it, and the statements both add."""
    paths = [*map(_counted, (base, ours, theirs, result))]
    b, o, t, r = (Counter(path[-1] for path in counted.elements()) for counted in paths)
    added = o - b, t - b
    both = added[0] & added[1]
    functions = [{(path[-1], _functions(path)) for path in counted - paths[0]} for counted in paths[1:3]]
    common = {header for header, _ in functions[0] & functions[1]}
    twice = both.keys() - common if 2 * both.total() <= min(counted.total() for counted in added) else set()
    wanted = {header: merged_count(b[header], o[header], t[header]) for header in {*b, *o, *t, *r}}
    return {
        header: r[header] - number
        for header, number in wanted.items()
        if r[header] != number and not (header in twice and r[header] == o[header] + t[header] - b[header])
    }, set(both)


def _counted(text: str) -> Counter[_Path]:
    return Counter(path for path, _ in _all_statements(text))


def _functions(path: _Path) -> _Path:
    """Return the headers of the functions that contain a statement."""
    return tuple(header for header in path[:-1] if header[0] in {"FunctionDef", "AsyncFunctionDef"})


def merged_count(base: int, ours: int, theirs: int) -> int:
    """Return how many of something are left where one side makes ``ours`` of ``base`` and the other ``theirs``."""
    return ours if ours == theirs else ours + theirs - base


def same_statements(one: str, other: str) -> bool:
    """Return whether two versions have the same statements in the same blocks, in whatever order."""
    paths, other_paths = (Counter(path for path, _ in rest) for rest in _different(one, other))
    return paths == other_paths

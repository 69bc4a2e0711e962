"""What makes a merge of two sides doubtful although each of its parts is sure.

Such are names, imports and functions that one side replaces and the other uses once more, and what both sides add.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from patchkit.change.blocks import adds_twice, merged_count, restores
from patchkit.change.comments import stripped_lines
from patchkit.change.lines import hunks
from patchkit.change.tokens import is_prose, words
from patchkit.tree.nodes import DEFINITIONS, bound_names
from patchkit.tree.source import INVALID, fault_of, first_line, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from patchkit.change.united import Three

_WORDS = frozenset((*keyword.kwlist, "self", "cls"))
"""Names that no side can replace by others."""
_METHODS = frozenset(name for kind in (str, list, dict, set) for name in dir(kind))
"""Methods of built-in types, which other code can replace without another name for them."""
_PRIVATE = re.compile(r"""(?<=[.'"])_[^\W_]\w*""")
"""A private name, as an attribute or at the start of a string."""
_MIN_NUMBERS = 2
"""The fewest numbers, all different, that are a numbering."""
_KINDS = frozenset(
    {"property", "cached_property", "functools.cached_property", "staticmethod", "classmethod"}
)
_DOTTED = re.compile(r"""[uU]?["']([^\W\d]\w*(?:\.[^\W\d]\w*)*)["']""")
"""A string that is a name or several with dots, such as what a test replaces by another object."""


def is_doubtful(sides: Three, merged: Three) -> bool:
    """Return whether the sides of a file are at odds beyond their conflicts; ``merged`` has git's merge of the rest."""
    checks = (_uses_replaced, _uses_replaced_inside, _uses_lost, _calls_changed, _imports_moved)
    return (
        any(_either(check, sides) for check in checks)
        or _assign_alike(sides)
        or restores(*sides)
        or _misplaces(sides, merged)
    )


def _either(check: Callable[[str, str, str], bool], sides: Three) -> bool:
    """Return whether something is so of either side; ``check`` takes the base, the one side and the other."""
    base, ours, theirs = sides
    return check(base, ours, theirs) or check(base, theirs, ours)


def has_too_much(sides: Three, result: str) -> bool:
    """Return whether a merge has something twice that both sides add, a number twice, or an import that one removes."""
    return _elements_twice(sides, result) or adds_twice(*sides, result) or restores_imports(sides, result)


def _assign_alike(sides: Three) -> bool:
    """Return whether each side assigns something else to a name of one scope, and one of them once more."""
    base, ours, theirs = (Counter(_assignments(text)) for text in sides)
    changed = (
        {binding[:2] for binding in one - base - other} for one, other in ((ours, theirs), (theirs, ours))
    )
    numbers = [Counter(binding[:2] for binding in bindings.elements()) for bindings in (base, ours, theirs)]
    return any(numbers[0][key] < max(numbers[1][key], numbers[2][key]) for key in set.intersection(*changed))


def _assignments(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the scope, the target and the value of each assignment."""
    for scope, node in _scoped(parsed(text)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield scope, ast.dump(target), ast.dump(node.value)


def _misplaces(sides: Three, merged: Three) -> bool:
    """Return whether git's merge has a definition that one side adds in another class."""
    base = _named(sides[0])
    for side, text in zip(sides[1:], merged[1:], strict=True):
        if fault_of(text) is None:
            names = _named(text)
            lost = _named(side) - base - names
            if any(name.rpartition(".")[0] in names for name in lost):
                return True
    return False


def _named(text: str) -> set[str]:
    """Return the dotted names of the definitions in a text."""
    return {name for name, _ in _definitions(text)}


def restores_imports(sides: Three, text: str) -> bool:
    """Return whether a merge imports a name that one side no longer imports."""
    base, ours, theirs, result = (_imported(ast.walk(parsed(side))).keys() for side in (*sides, text))
    return bool(((base - ours) | (base - theirs)) & result)


def imports_twice(sides: Three, text: str) -> bool:
    """Return whether a merge imports a name of the module more often than each side."""
    *counts, result = (_imported(parsed(side).body) for side in (*sides, text))
    return any(number > max(side[name] for side in counts) for name, number in result.items())


def _imported(nodes: Iterable[ast.AST]) -> Counter[str]:
    return Counter(
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    )


def is_about_more(sides: Three) -> bool:
    """Return whether a conflict is about more than its lines: names or comments whose code is gone."""
    return _either(_uses_replaced, sides) or _either(_comments_removed, sides)


def _comments_removed(base: str, one: str, other: str) -> bool:
    """Return whether the other side adds a comment above a line that the one changes or removes.

    A comment that the one side leaves above it may have another text.
    """
    lines, left, side = map(stripped_lines, (base, one, other))
    for number, line in enumerate(side):
        if line.startswith("#") and line not in lines:
            below = next((later for later in side[number:] if not later.startswith("#")), "")
            if below not in lines or below in left:
                continue
            above = lines[lines.index(below) - 1]
            if not above.startswith("#") or above in side or above not in left:
                return True
    return False


def _uses_replaced(base: str, one: str, other: str) -> bool:
    """Return whether the other side uses a name anew where the one replaces all uses of it, or what it names."""
    before, after, there = map(_chains, (base, one, other))
    names = {name for name in before.keys() - _WORDS if not after[name] and there[name] > before[name]}
    if not after - before:  # It only removes.
        names = {name for name in names if name.startswith("self.")}
    return bool(names) and (
        _is_unbound(names, base, one, other) or not names.isdisjoint(_replaced(base, one))
    )


def _uses_lost(base: str, one: str, other: str) -> bool:
    """Return whether the other side names something private anew, also in a string, that the one no longer names."""
    before, after, there = (Counter(_PRIVATE.findall(text)) for text in (base, one, other))
    names = {name for name in before if not after[name] and there[name] > before[name]}
    # What the other side binds is its own.
    return bool(names) and not names <= (_bound(parsed(other)) - _bound(parsed(base))).keys()


def _uses_replaced_inside(base: str, one: str, other: str) -> bool:
    """Return the same as of names replaced, of a class or function that all versions have."""
    before, after, there = map(_texts, (base, one, other))
    return any(
        _uses_replaced(before[name], after[name], there[name])
        for name in before.keys() & after.keys() & there.keys()
        if before[name] not in (after[name], there[name])
    )


def _scoped(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the statements below a node, each with the dotted name of the definitions around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield scope, child
            yield from _scoped(child, f"{scope}.{child.name}" if isinstance(child, DEFINITIONS) else scope)


def _definitions(text: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the definitions in a text, with their dotted names."""
    for scope, node in _scoped(parsed(text)):
        if isinstance(node, DEFINITIONS):
            yield f"{scope}.{node.name}", node


def _texts(text: str) -> dict[str, str]:
    """Return the text of each definition by its dotted name."""
    lines = text.split("\n")
    return {name: "\n".join(lines[first_line(node) : node.end_lineno]) for name, node in _definitions(text)}


def _is_unbound(names: Iterable[str], base: str, side: str, other: str) -> bool:
    """Return whether a side no longer binds one of some names, with or without an object before it.

    What the other side binds once more is not one.
    """
    try:
        before, after, there = (_bound(parsed(textwrap.dedent(text))) for text in (base, side, other))
    except INVALID:  # It is a part of a file.
        return bool(_chains(side) - _chains(base))
    last = {name.rpartition(".")[2] for name in names}
    return any(not after[name] and there[name] <= before[name] for name in last & before.keys())


def _bound(tree: ast.AST) -> Counter[str]:
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names[node.attr] += 1
        elif isinstance(node, ast.arg):
            names[node.arg] += 1
        elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            names.update(bound_names(node))
    return names


def _replaced(base: str, side: str) -> set[str]:
    """Return the names of lines that a side replaces by some with other names.

    Of a method of built-in types the other name has to be one of the same object.
    """
    names: set[str] = set()
    rows = [text.splitlines(keepends=True) for text in (base, side)]
    for hunk in hunks(*rows):
        removed, added = (_chains("".join(lines)) for lines in (rows[0][hunk.start : hunk.end], hunk.lines))
        new = added - removed
        owners = {name.rpartition(".")[0] for name in new}
        for name in removed if new else ():
            owner, _, attribute = name.rpartition(".")
            names |= {name} if not owner or attribute not in _METHODS or owner in owners else set()
    return names


def _calls_changed(base: str, one: str, other: str) -> bool:
    """Return whether the other side uses a function once more whose calls the one had to change."""
    before, after, there = (dict(_definitions(text)) for text in (base, one, other))
    uses, used = (Counter(words(text)) for text in (base, other))
    for name in before.keys() & after.keys() & there.keys():
        scope, _, called = name.rpartition(".")
        called = scope.rpartition(".")[2] if called == "__init__" else called
        if (
            used[called] > uses[called]
            and ast.dump(there[name], annotate_fields=False) != ast.dump(after[name], annotate_fields=False)
            and not _accepts(before[name], after[name])
        ):
            return True
    return False


def _accepts(before: ast.stmt, after: ast.stmt) -> bool:
    """Return whether a definition can be used as one before."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    if not (isinstance(before, functions) and isinstance(after, functions)):
        return type(before) is type(after)
    if type(before) is not type(after) or _form(before) != _form(after):
        return False
    old, new = before.args, after.args
    given, taken = [*old.posonlyargs, *old.args], [*new.posonlyargs, *new.args]
    words = {parameter.arg for parameter in (*new.args, *new.kwonlyargs)}
    needed = len(taken) - len(new.defaults)
    required = {
        parameter.arg
        for parameter, default in zip(new.kwonlyargs, new.kw_defaults, strict=True)
        if default is None
    }
    return (
        [parameter.arg for parameter in given] == [parameter.arg for parameter in taken[: len(given)]]
        and needed <= len(given) - len(old.defaults)
        and {parameter.arg for parameter in old.kwonlyargs} <= words
        and required <= {parameter.arg for parameter in old.kwonlyargs}
        and (new.vararg is not None or old.vararg is None)
        and (new.kwarg is not None or old.kwarg is None)
    )


def _form(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[object, ...]:
    """Return how a function is used, apart from its parameters: as what, and the lengths of the tuples it returns."""
    kinds = {ast.unparse(decorator) for decorator in node.decorator_list} & _KINDS
    returned = {
        len(part.value.elts)
        for part in ast.walk(node)
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple)
    }
    return kinds, returned


def _elements_twice(sides: Three, result: str) -> bool:
    """Return whether a merge has an element twice that both sides add to one display, or a number of a numbering."""
    rows = [Counter(_elements([(parsed(text), "")])) for text in (*sides, result)]
    base, ours, theirs, there = rows
    if any(
        there[key] > merged_count(base[key], ours[key], theirs[key])
        for key in (ours - base) & (theirs - base)
    ):
        return True
    before, one, other = (Counter(_numbers(text)) for text in sides)
    numberings = {place for place, _ in (one - before) & (other - before)}
    return any(_distinct(before, place) >= _MIN_NUMBERS for place in numberings)


def _distinct(numbers: Counter[tuple[str, int]], place: str) -> int:
    """Return how many numbers are at a place; 0 if one is there twice."""
    counts = [number for (where, _), number in numbers.items() if where == place]
    return len(counts) if set(counts) == {1} else 0


def _elements(remaining: list[tuple[ast.AST, str]]) -> Iterator[tuple[str, str]]:
    """Yield the elements of displays, of dictionaries the keys, with what they are assigned to or returned by."""
    while remaining:
        node, place = remaining.pop()
        if isinstance(node, DEFINITIONS):
            place = f"{place}.{node.name}"
        elif isinstance(node, ast.Assign):
            place = f"{place} {ast.dump(node.targets[0])}"
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            place = f"{place} {ast.dump(node.target)}"
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            yield from ((place, ast.dump(element)) for element in node.elts)
        elif isinstance(node, ast.Dict):
            yield from ((place, ast.dump(key)) for key in node.keys if key is not None)
        remaining += [(child, place) for child in ast.iter_child_nodes(node)]


def _numbers(text: str) -> Iterator[tuple[str, int]]:
    """Yield the numbers to which a class binds names, or a dictionary keys, with its name."""
    for name, value in _numbered(parsed(text), ""):
        if isinstance(value, ast.Constant) and type(value.value) is int:
            yield name, value.value


def _numbered(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.expr]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from (
                (f"{scope}.{child.name}", part.value) for part in child.body if isinstance(part, ast.Assign)
            )
            yield from _numbered(child, f"{scope}.{child.name}")
        elif isinstance(child, ast.Assign) and isinstance(child.value, ast.Dict):
            yield from ((f"{scope} {ast.dump(child.targets[0])}", value) for value in child.value.values)


def _imports_moved(base: str, one: str, other: str) -> bool:
    """Return whether the other side adds an import from a module or package that the one no longer imports from."""
    was, now, there = map(_sources, (base, one, other))
    added = [there[name] for name in there.keys() - was.keys()]
    gone = _packages(was.values()) - _packages(now.values())
    if not gone.isdisjoint(_packages(added)):
        return True
    for name in was.keys() & now.keys():
        old, new = was[name].split("."), now[name].split(".")
        while old and new and old[-1] == new[-1]:
            del old[-1], new[-1]
        before, after = ".".join(old), ".".join(new)
        if not old or not new or any(_is_in(module, before, after) for module in now.values()):
            continue
        if any(_is_in(module, before, after) for module in added):
            return True
    return False


def _sources(text: str) -> dict[str, str]:
    """Return the module of each imported name, without those of ``typing``, which does not move."""
    nodes = (node for node in ast.walk(parsed(text)) if isinstance(node, ast.ImportFrom))
    return {
        alias.name: "." * node.level + (node.module or "")
        for node in nodes
        for alias in node.names
        if node.level or node.module != "typing"
    }


def _packages(modules: Iterable[str]) -> set[str]:
    """Return some modules and all packages that contain one of them."""
    return {
        module[:end]
        for module in modules
        for end in (*(index for index, sign in enumerate(module) if sign == "."), len(module))
    }


def _is_in(module: str, package: str, but: str) -> bool:
    return f"{module}.".startswith(f"{package}.") and not f"{module}.".startswith(f"{but}.")


def _chains(text: str) -> Counter[str]:
    """Return the names of a text; of one with dots also each part up to a dot."""
    counted: Counter[str] = Counter()
    chain, is_open = "", False
    for word in words(text):
        dotted = _DOTTED.fullmatch(word)
        if dotted:
            first, *rest = dotted[1].split(".")
            counted.update(itertools.accumulate([f"'{first}", *rest], "{}.{}".format))
            chain, is_open = "", False
        elif word == ".":
            is_open = bool(chain)
        elif word[0].isidentifier() and not is_prose(word):
            chain = f"{chain}.{word}" if is_open else word
            is_open = False
            counted[chain] += 1
        else:
            chain, is_open = "", False
    return counted

"""Calls get one more argument, and ``isinstance`` tests one more member; members already there stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kinds.statements import bindings_given, nearest, replace_expression, several
from patchkit.codemods.language import syntax
from patchkit.codemods.language.layout import append
from patchkit.codemods.language.pattern import Pattern, PatternError, match_node, render_expression
from patchkit.codemods.language.precedence import as_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


@dataclass(frozen=True)
class CallArgument:
    """Give the calls that ``find`` matches the keyword argument in ``argument`` (``name=value``)."""

    find: tuple[Pattern, ...]
    argument: str
    known: tuple[Pattern, ...] = ()
    every: bool = False

    def __post_init__(self) -> None:
        args = cast("cst.Call", render_expression(f"f({self.argument})", {})).args
        if len(args) != 1 or args[0].keyword is None:
            raise PatternError(f"not one `name=value`: {self.argument!r}")

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Sort the matching calls into those that pass the argument and those that do not."""
        wanted = cast("cst.Call", render_expression(f"f({self.argument})", {})).args[0]
        name = cast("cst.Name", wanted.keyword).value
        missing: dict[Path, cst.Call] = {}
        done: set[Path] = set()
        settled = {match.path for known in self.known for match in known.find(scope.node, scope.path)}
        for match in [match for find in self.find for match in find.find(scope.node, scope.path)]:
            call = cast("cst.Call", syntax.node_at(scope.module, match.path))
            found = next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
            if match.path in settled or (found is not None and syntax.same(found.value, wanted.value)):
                done.add(match.path)
            elif found is None:
                missing[match.path] = call
            else:
                return examination.ambiguous(
                    f"`{syntax.code_of(call)}` passes another {name}, expected `{self.argument}`"
                )
        if not missing:
            if done:
                return examination.present()
            like = self.find[0].text.strip()
            return examination.absent(lambda: f"expected a call like `{like}`; {nearest(scope, like)}")
        if not self.every and len(missing) + len(done) > 1:
            return examination.ambiguous(several(scope, [*done, *missing]))

        def rewrite() -> cst.Module:
            module = scope.module
            # An inner call comes before the outer one that holds it.
            for path in sorted(missing, key=len, reverse=True):
                call = cast("cst.Call", syntax.node_at(module, path))
                module = replace_expression(module, path, _with_argument(call, wanted), note)
            return module

        return examination.ready(rewrite)


def _with_argument(call: cst.Call, argument: cst.Arg) -> cst.Call:
    if not call.args:
        return call.with_changes(args=[argument])
    args = [arg.with_changes(value=as_argument(arg.value)) for arg in call.args]
    bare = args[-1].with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    grown, closing = append(
        [*args[:-1], bare], argument, call.whitespace_before_args, args[-1].whitespace_after_arg
    )
    return call.with_changes(args=[*grown[:-1], grown[-1].with_changes(whitespace_after_arg=closing)])


@dataclass(frozen=True)
class ArgumentValue:
    """Pass another value for the keyword ``argument`` of the one call that ``find`` matches.

    ``code`` is the value, in which ``$value`` is the one passed so far; ``given`` binds more names.
    """

    find: Pattern
    argument: str
    code: str
    given: tuple[Pattern, ...] = ()

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Find the call and compare what it passes."""
        wanted = Pattern.compile(self.code).statements[0].body[0].value  # type: ignore[attr-defined]
        ready = []
        done: list[Path] = []
        for match in self.find.find(scope.node, scope.path):
            call = cast("cst.Call", syntax.node_at(scope.module, match.path))
            for index, arg in enumerate(call.args):
                if arg.keyword is not None and arg.keyword.value == self.argument:
                    if match_node(wanted, arg.value, {}) is not None:
                        done.append(match.path)
                    else:
                        value_path = (*match.path, ("args", index), ("value", None))
                        ready.append((value_path, arg.value, match.bindings))
        if not ready:
            like = self.find.text.strip()
            missing = examination.absent(lambda: f"expected a call like `{like}`; {nearest(scope, like)}")
            return examination.present() if done else missing
        if len(ready) + len(done) > 1:
            return examination.ambiguous(several(scope, [*done, *(path for path, *_ in ready)]))
        given = bindings_given(scope, self.given)
        if isinstance(given, examination.Examination):
            return given
        path, value, bindings = ready[0]

        def rewrite() -> cst.Module:
            new = render_expression(self.code, {**bindings, **given, "value": value})
            return replace_expression(scope.module, path, new, note)

        return examination.ready(rewrite)


def _isinstance(node: cst.CSTNode) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
    """Return subject and members of an ``isinstance`` call."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and len(node.args) == 2):
        return None
    if node.func.value != "isinstance":
        return None
    second = node.args[1].value
    if isinstance(second, cst.Tuple):
        return node.args[0].value, [element.value for element in second.elements]
    return node.args[0].value, _united(second)


def _united(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the members of a union such as ``A | B``."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return [*_united(node.left), *_united(node.right)]
    return [node]


def _alternatives(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


_MEMBERS = (("args", 1), ("value", None))


def _with_member(listed: cst.Tuple, member: cst.BaseExpression) -> cst.Tuple:
    opening, closing = listed.lpar[-1], listed.rpar[0]
    elements, space = append(
        cast("Sequence[cst.Element]", listed.elements),
        cst.Element(member),
        opening.whitespace_after,
        closing.whitespace_before,
    )
    rpar = [closing.with_changes(whitespace_before=space), *listed.rpar[1:]]
    return listed.with_changes(elements=elements, rpar=rpar)


@dataclass(frozen=True)
class IsinstanceMember:
    """Add ``member`` to the one test, beside ``beside``, of what ``subject`` is an instance of.

    A chain ``isinstance(x, A) or isinstance(x, B)`` becomes one test with a tuple.
    """

    subject: str
    beside: str
    member: str

    def __post_init__(self) -> None:
        for text in (self.subject, self.beside, self.member):
            render_expression(text, {})

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Find the outermost test that has ``beside`` among its members."""
        subject, member = (render_expression(text, {}) for text in (self.subject, self.member))
        sites: list[tuple[Path, list[cst.BaseExpression], cst.BaseExpression]] = []
        done = False
        for path, node in syntax.descend(scope.node, scope.path):
            is_inside = any(path[: len(site[0])] == site[0] for site in sites)
            if is_inside or not isinstance(node, cst.BaseExpression):
                continue
            tests = [_isinstance(part) for part in _alternatives(node)]
            found = [test for test in tests if test is not None and syntax.same(test[0], subject)]
            if not found or len(found) != len(tests):
                continue
            members = [each for test in found for each in test[1]]
            names = {syntax.code_of(each).rsplit(".", 1)[-1] for each in members}
            if self.beside in names:
                done |= self.member in names
                sites.append((path, members, found[0][0]))
        if not sites:
            wanted = f"isinstance({self.subject}, {self.beside})"
            return examination.absent(lambda: f"expected `{wanted}`; {nearest(scope, wanted)}")
        if len(sites) > 1:
            return examination.ambiguous(several(scope, [path for path, *_ in sites]))
        if done:
            return examination.present()
        path, members, found_subject = sites[0]

        def rewrite() -> cst.Module:
            old = syntax.node_at(scope.module, path)
            listed = old.args[1].value if isinstance(old, cst.Call) else None
            if isinstance(listed, cst.Tuple) and listed.lpar:
                test = syntax.replace_at(old, _MEMBERS, _with_member(listed, member))
            else:
                elements = [cst.Element(as_argument(each)) for each in (*members, member)]
                args = [cst.Arg(found_subject), cst.Arg(cst.Tuple(elements))]
                test = cst.Call(cst.Name("isinstance"), args)
            return replace_expression(scope.module, path, cast("cst.Call", test), note)

        return examination.ready(rewrite)

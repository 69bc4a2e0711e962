"""Calls get one more argument, and ``isinstance`` tests one more member; members already there stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import libcst as cst

from patchkit.codemods import edit, syntax
from patchkit.codemods.layout import fit
from patchkit.codemods.pattern import Pattern, match_node, render_expression
from patchkit.codemods.statements import annotate_around, bindings_given, nearest

if TYPE_CHECKING:
    from patchkit.codemods.scope import Scope
    from patchkit.codemods.syntax import Path


@dataclass(frozen=True)
class CallArgument:
    """Give the calls that ``find`` matches the keyword argument in ``argument`` (``name=value``)."""

    find: tuple[Pattern, ...]
    argument: str
    known: tuple[Pattern, ...] = ()
    every: bool = False

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Sort the matching calls into those that pass the argument and those that do not."""
        wanted = cast("cst.Call", cst.parse_expression(f"f({self.argument})")).args[0]
        name = cast("cst.Name", wanted.keyword).value
        missing: list[Path] = []
        done = 0
        settled = {match.path for known in self.known for match in known.find(scope.node, scope.path)}
        for match in [match for find in self.find for match in find.find(scope.node, scope.path)]:
            call = cast("cst.Call", syntax.node_at(scope.module, match.path))
            found = next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
            if match.path in settled:
                done += 1
            elif found is None:
                missing.append(match.path)
            elif syntax.same(found.value, wanted.value):
                done += 1
            else:
                return edit.ambiguous(
                    f"`{syntax.code_of(call)}` passes another {name}, expected `{self.argument}`"
                )
        if not missing:
            if done:
                return edit.present()
            like = self.find[0].text.strip()
            return edit.absent(f"expected a call like `{like}`; {nearest(scope, like)}")
        if not self.every and len(missing) + done > 1:
            return edit.ambiguous(f"{len(missing) + done} calls match `{self.find[0].text.strip()}`")

        def rewrite() -> cst.Module:
            module = scope.module
            for path in reversed(missing):
                call = cast("cst.Call", syntax.node_at(module, path))
                args = list(call.args)
                fresh = wanted
                if args:
                    fresh = wanted.with_changes(
                        comma=args[-1].comma, whitespace_after_arg=args[-1].whitespace_after_arg
                    )
                    between = args[-2].comma if len(args) > 1 else cst.MaybeSentinel.DEFAULT
                    args[-1] = args[-1].with_changes(
                        comma=between, whitespace_after_arg=cst.SimpleWhitespace("")
                    )
                new = call.with_changes(args=[*args, fresh])
                changed = cast("cst.Module", syntax.replace_at(module, path, new))
                module = annotate_around(fit(changed, path), path, note)
            return module

        return edit.ready(rewrite)


@dataclass(frozen=True)
class ArgumentValue:
    """Pass another value for the keyword ``argument`` of the one call that ``find`` matches.

    ``code`` is the value, in which ``$value`` is the one passed so far; ``given`` binds further names.
    """

    find: Pattern
    argument: str
    code: str
    given: tuple[Pattern, ...] = ()

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Find the call and compare what it passes."""
        wanted = Pattern.compile(self.code).statements[0].body[0].value  # type: ignore[attr-defined]
        ready = []
        done = 0
        for match in self.find.find(scope.node, scope.path):
            call = cast("cst.Call", syntax.node_at(scope.module, match.path))
            for index, arg in enumerate(call.args):
                if arg.keyword is not None and arg.keyword.value == self.argument:
                    if match_node(wanted, arg.value, {}) is not None:
                        done += 1
                    else:
                        ready.append(((*match.path, ("args", index), ("value", None)), arg.value))
        if not ready:
            like = self.find.text.strip()
            missing = edit.absent(f"expected a call like `{like}`; {nearest(scope, like)}")
            return edit.present() if done else missing
        if len(ready) + done > 1:
            return edit.ambiguous(f"{len(ready) + done} calls match `{self.find.text.strip()}`")
        given = bindings_given(scope, self.given)
        if isinstance(given, edit.Finding):
            return given
        path, value = ready[0]

        def rewrite() -> cst.Module:
            new = render_expression(self.code, {**given, "value": value})
            return annotate_around(fit(scope.replace(path, new), path), path, note)

        return edit.ready(rewrite)


def _isinstance(node: cst.CSTNode) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
    """Return subject and members of an ``isinstance`` call."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and len(node.args) == 2):
        return None
    if node.func.value != "isinstance":
        return None
    second = node.args[1].value
    if isinstance(second, cst.Tuple):
        return node.args[0].value, [element.value for element in second.elements]
    return node.args[0].value, [second]


def _alternatives(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


@dataclass(frozen=True)
class IsinstanceMember:
    """Add ``member`` to the one test, beside ``beside``, of what ``subject`` is an instance of.

    A chain ``isinstance(x, A) or isinstance(x, B)`` becomes one test with a tuple.
    """

    subject: str
    beside: str
    member: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Find the outermost test that has ``beside`` among its members."""
        subject = cst.parse_expression(self.subject)
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
            members = [member for test in found for member in test[1]]
            names = {syntax.code_of(member).rsplit(".", 1)[-1] for member in members}
            if self.beside in names:
                done |= self.member in names
                sites.append((path, members, found[0][0]))
        if not sites:
            wanted = f"isinstance({self.subject}, {self.beside})"
            return edit.absent(f"expected `{wanted}`; {nearest(scope, wanted)}")
        if len(sites) > 1:
            return edit.ambiguous(f"{len(sites)} tests ask whether {self.subject} is a {self.beside}")
        if done:
            return edit.present()
        path, members, found_subject = sites[0]

        def rewrite() -> cst.Module:
            listed = ", ".join([*(syntax.code_of(member) for member in members), self.member])
            test = cst.parse_expression(f"isinstance({syntax.code_of(found_subject)}, ({listed}))")
            old = cast("cst.BaseExpression", syntax.node_at(scope.module, path))
            outer = test.with_changes(lpar=old.lpar, rpar=old.rpar)
            return annotate_around(fit(scope.replace(path, outer), path), path, note)

        return edit.ready(rewrite)

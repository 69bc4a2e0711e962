"""``argument-value``: a call passes another value for a keyword argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import sites, syntax, texts
from patchkit.codemods.language.pattern import Pattern, match_node
from patchkit.codemods.language.template import render_expression

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


class ArgumentValue(Kind, frozen=True, kw_only=True, tag="argument-value", forbid_unknown_fields=True):
    """Pass another value for a keyword argument of the call that ``find`` matches; ``$value`` is the old value."""

    find: str
    argument: str
    code: str
    context: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""
        texts.calls("find", self.find)
        (code,) = texts.patterns("code", self.code)
        if not code.is_expression:
            raise ValueError(f"key `code`: not one expression: {self.code.strip()!r}")
        texts.require_bound("code", self.code, self.find, *self.context, "$value")
        texts.patterns("context", *self.context)

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the call and compare the value that it passes."""
        code = Pattern.compile(self.code)
        ready = []
        done: list[Path] = []
        for match in Pattern.compile(self.find).find(scope.node, scope.path):
            call = cst.ensure_type(syntax.node_at(scope.module, match.path), cst.Call)
            for index, arg in enumerate(call.args):
                if arg.keyword is not None and arg.keyword.value == self.argument:
                    if match_node(code.expression, arg.value, {}) is not None:
                        done.append(match.path)
                    else:
                        value_path = (*match.path, ("args", index), ("value", None))
                        ready.append((value_path, arg.value, match.bindings))
        if not ready:
            return examination.present(form=self.code) if done else sites.no_call(scope, self.find)
        if len(ready) + len(done) > 1:
            return examination.ambiguous(sites.several(scope, [*done, *(path for path, *_ in ready)]))
        around = sites.bindings_given(scope, map(Pattern.compile, self.context))
        if isinstance(around, examination.Examination):
            return around
        path, value, bindings = ready[0]

        def rewrite() -> cst.Module:
            new = render_expression(self.code, {**bindings, **around, "value": value})
            return sites.replace_expression(scope.module, path, new, note)

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "`$value` is the old value.",
            'find = "$desk.lend(..., days=$_)"\nargument = "days"\ncode = "min($value, 14)"',
            before="desk.lend(book, days=left + 1)",
            after="""
            # toy: so that it shows
            desk.lend(book, days=min(left + 1, 14))
            """,
        ),
        Example(
            "`context` finds a name that `code` needs.",
            """
            find = "$desk.lend(..., days=$_)"
            argument = "days"
            code = "$reader.days"
            context = ["$reader.greet()"]
            """,
            before="""
            reader.greet()
            desk.lend(book, days=14)
            """,
            after="""
            reader.greet()
            # toy: so that it shows
            desk.lend(book, days=reader.days)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The call passes the new value already.",
            'find = "$desk.lend(..., days=$_)"\nargument = "days"\ncode = "min($value, 14)"',
            before="desk.lend(book, days=min(left + 1, 14))",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "No call passes the argument.",
            'find = "$desk.lend(..., days=$_)"\nargument = "days"\ncode = "14"',
            before="desk.lend(book)",
            refusal="expected a call like `desk.lend(..., days=_)`",
        ),
        Example(
            "A value must be an expression.",
            'find = "f(...)"\nargument = "a"\ncode = "x = 1"',
            refusal="key `code`: not one expression",
        ),
    )

"""``call-argument``: add a keyword argument to calls."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind, several
from patchkit.codemods.language import sites, syntax, texts
from patchkit.codemods.language.layout import with_argument
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.template import render_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.pattern import Match
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


class CallArgument(Kind, frozen=True, kw_only=True, tag="call-argument", forbid_unknown_fields=True):
    """Add a keyword argument to the calls that ``find`` matches."""

    find: str | tuple[str, ...]
    argument: str
    already: tuple[str, ...] = ()
    every: bool = False

    writes: ClassVar[tuple[str, ...]] = ("argument",)

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""
        texts.calls("find", *([self.find] if isinstance(self.find, str) else self.find))
        texts.calls("already", *self.already)
        with texts.naming("argument"):
            _argument(self.argument)

    def examine(self, scope: Scope, note: str) -> Examination:
        """Divide the matching calls into those that pass the argument and those that do not."""
        wanted, finds = _argument(self.argument), several(self.find)
        name = cst.ensure_type(wanted.keyword, cst.Name).value
        missing: dict[Path, cst.Call] = {}
        done: set[Path] = set()
        present = {match.path for match in _found(self.already, scope)}
        for match in _found(finds, scope):
            call = cst.ensure_type(syntax.node_at(scope.module, match.path), cst.Call)
            argument = next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
            if match.path in present or (argument is not None and syntax.same(argument.value, wanted.value)):
                done.add(match.path)
            elif argument is None:
                missing[match.path] = call
            else:
                return examination.ambiguous(
                    f"`{syntax.code_of(call)}` passes a different {name}, expected `{syntax.code_of(wanted)}`"
                )
        if not missing:
            return examination.present() if done else sites.no_call(scope, finds[0])
        if not self.every and len(missing) + len(done) > 1:
            return examination.ambiguous(sites.several(scope, [*done, *missing]))

        def rewrite() -> cst.Module:
            module = scope.module
            # Rewrite inner calls before the outer calls that contain them.
            for path in sorted(missing, key=len, reverse=True):
                call = cst.ensure_type(syntax.node_at(module, path), cst.Call)
                module = sites.replace_expression(module, path, with_argument(call, wanted), note)
            return module

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It comes last.",
            'find = "$desk.lend(...)"\nargument = "days=14"',
            before="desk.lend(book, to=reader)",
            after="""
            # toy: so that it shows
            desk.lend(book, to=reader, days=14)
            """,
        ),
        Example(
            "`every` gives it to each call that lacks it.",
            'find = "$desk.lend(...)"\nargument = "days=14"\nevery = true',
            before="""
            desk.lend(one)
            desk.lend(two, days=14)
            desk.lend(three)
            """,
            after="""
            # toy: so that it shows
            desk.lend(one, days=14)
            desk.lend(two, days=14)
            # toy: so that it shows
            desk.lend(three, days=14)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The call passes it already.",
            'find = "$desk.lend(...)"\nargument = "days=14"',
            before="desk.lend(book, days = 14)",
        ),
        Example(
            "`already` matches another way to pass it.",
            'find = "$desk.lend(...)"\nargument = "days=days"\nalready = ["$desk.lend($book, days, ...)"]',
            before="desk.lend(book, days, reader)",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A different value is kept.",
            'find = "$desk.lend(...)"\nargument = "days=14"',
            before="desk.lend(book, days=7)",
            refusal="`desk.lend(book, days=7)` passes a different days, expected `days=14`",
        ),
        Example(
            "Two calls that match equally well are ambiguous.",
            'find = "$desk.lend(...)"\nargument = "days=14"',
            before="""
            desk.lend(one)
            desk.lend(two)
            """,
            refusal="several places match, expected one",
        ),
        Example(
            "The argument must have a name.",
            'find = "f()"\nargument = "14"',
            refusal="key `argument`: not one `name=value`",
        ),
        Example("`find` must be a call.", 'find = "f"\nargument = "a=1"', refusal="key `find`: not one call"),
    )


def _found(calls: Sequence[str], scope: Scope) -> list[Match]:
    return [match for text in calls for match in Pattern.compile(text).find(scope.node, scope.path)]


@cache
def _argument(text: str) -> cst.Arg:
    call = render_expression(f"f({text})", {})
    # Brackets in the text can change the call or end it.
    is_one = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and len(call.args) == 1
    if not is_one or cst.ensure_type(call, cst.Call).args[0].keyword is None:
        raise ValueError(f"not one `name=value`: {text!r}")
    return cst.ensure_type(call, cst.Call).args[0]

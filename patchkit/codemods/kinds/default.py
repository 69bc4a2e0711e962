"""``default``: a parameter, a field or a class attribute gets another default; any third value is a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.pattern import Pattern
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


class Default(Kind, frozen=True, kw_only=True, tag="default", forbid_unknown_fields=True):
    """Change the default of ``name``, a function's parameter or a class's or module's assignment.

    ``old`` is a pattern of the value so far and ``new`` the value from now on. Upstream's 30018 is such a change.
    """

    name: str
    old: str
    new: str

    is_of_headers: ClassVar[bool] = True
    writes: ClassVar[tuple[str, ...]] = ("new",)

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """The assignment with the old value, and with the new one."""
        return ((f"{self.name} = {self.old}", f"{self.name} = {self.new}"),)

    def codemod(self) -> Codemod:
        """Build the codemod; ValueError names the key that is wrong."""
        (old,), (new,) = texts.patterns("old", self.old), texts.patterns("new", self.new)
        for key, pattern in (("old", old), ("new", new)):
            if not pattern.is_expression:
                raise ValueError(f"key `{key}`: not one expression: {pattern.text.strip()!r}")
        texts.require_bound("new", self.new, self.old)
        return _Default(self.name, old, new)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A parameter's default.",
            'name = "days"\nold = "14"\nnew = "21"',
            before="def lend(book, *, days: int = 14): ...",
            after="""
            # toy: so that it shows
            def lend(book, *, days: int = 21): ...
            """,
            scope="lend",
        ),
        Example(
            "A class attribute's value; the pattern may name a part that stays.",
            'name = "OPEN"\nold = "Flag(False, $help)"\nnew = "Flag(True, $help)"',
            before="""
            class Switches:
                OPEN = Flag(False, "on Sundays")
            """,
            after="""
            class Switches:
                # toy: so that it shows
                OPEN = Flag(True, "on Sundays")
            """,
            scope="Switches",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The default is the new one.",
            'name = "days"\nold = "14"\nnew = "21"',
            before="def lend(book, days=21): ...",
            scope="lend",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A third value is somebody's decision.",
            'name = "days"\nold = "14"\nnew = "21"',
            before="def lend(book, days=7): ...",
            scope="lend",
            refusal="days defaults to `7`, expected `14`",
        ),
        Example(
            "There is no such name.",
            'name = "days"\nold = "14"\nnew = "21"',
            before="def lend(book): ...",
            scope="lend",
            refusal="expected a default of `days`",
        ),
        Example(
            "A default is an expression.",
            'name = "days"\nold = "14"\nnew = "x = 1"',
            refusal="key `new`: not one expression",
        ),
    )


@dataclass(frozen=True)
class _Default:
    """Give ``name`` the default ``new`` in place of ``old``."""

    name: str
    old: Pattern
    new: Pattern

    def examine(self, scope: Scope, note: str) -> Examination:
        """Compare the default with both."""
        import libcst as cst

        from patchkit.codemods.language import sites, syntax
        from patchkit.codemods.language.names import names_of
        from patchkit.codemods.language.pattern import match_node
        from patchkit.codemods.language.template import render_expression

        found = list(self._defaults(scope))
        if not found:
            return examination.absent(
                lambda: f"expected a default of `{self.name}`; {sites.nearest(scope, self.name)}"
            )
        if len(found) > 1:
            return examination.ambiguous(sites.several(scope, [path for path, _ in found]))
        if (
            not isinstance(scope.node, cst.FunctionDef)
            and len(names_of(scope.module).own_values(scope, self.name)) > 1
        ):
            return examination.ambiguous(
                f"{self.name} is bound more than once in {scope.name or 'the module'}"
            )
        path, value = found[0]
        bindings = match_node(self.old.expression, value, {})
        if bindings is None:
            if match_node(self.new.expression, value, {}) is not None:
                return examination.present()
            return examination.ambiguous(
                f"{self.name} defaults to `{syntax.code_of(value)}`, expected `{self.old.text.strip()}`"
            )

        def rewrite() -> cst.Module:
            new = render_expression(self.new.text, bindings)
            return sites.replace_expression(scope.module, path, new, note)

        return examination.ready(rewrite)

    def _defaults(self, scope: Scope) -> Iterator[tuple[Path, cst.BaseExpression]]:
        import libcst as cst

        from patchkit.codemods.language.definitions import assigned

        node = scope.node
        if isinstance(node, cst.FunctionDef):
            for group in ("posonly_params", "params", "kwonly_params"):
                for index, each in enumerate(getattr(node.params, group)):
                    if each.name.value == self.name and each.default is not None:
                        yield (*scope.path, ("params", None), (group, index), ("default", None)), each.default
            return
        for index, statement in enumerate(scope.body):
            pair = assigned(statement)
            if pair is not None and pair[0] == self.name and pair[1] is not None:
                inside = () if isinstance(statement, cst.BaseSmallStatement) else (("body", 0),)
                yield (*scope.block, ("body", index), *inside, ("value", None)), pair[1]

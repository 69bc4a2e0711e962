"""``command-line-field``: a dataclass of settings gets a field, and the command line the option that sets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.examination import Standing
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.kinds.class_attribute import ClassAttribute
from patchkit.codemods.language import syntax, texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.scope import members, resolve
from patchkit.codemods.language.template import render

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.pattern import Pattern
    from patchkit.codemods.language.scope import Scope

_LOUD = """
field = "loud: bool = False"
option = 'parser.add_argument("--loud", action="store_true")'
"""


class CommandLineField(Kind, frozen=True, kw_only=True, tag="command-line-field", forbid_unknown_fields=True):
    """Give the class ``field``, and its ``method`` the option that a ``parser.add_argument(...)`` declares.

    Upstream's 26312 is such a change of ``ServerArgs``.
    """

    field: str
    option: str
    method: str = "add_cli_args"

    looks_inside: ClassVar[bool] = False
    writes: ClassVar[tuple[str, ...]] = ("field", "option")

    def codemod(self) -> Codemod:
        """Build the codemod; ValueError names the key that is wrong."""
        with texts.naming("field"):
            field = ClassAttribute(why=self.why, code=self.field)
            field.codemod()
        (option,) = texts.calls("option", self.option)
        texts.require_bound("option", self.option)
        name = _name(option.expression)
        if name is None:
            raise ValueError("key `option`: not a call whose first argument is the option's name")
        return _CommandLineField(field, option, self.method, name)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The field stands behind the fields, the option behind the options.",
            _LOUD,
            before="""
            @dataclass
            class Settings:
                rows: int = 5

                @staticmethod
                def add_cli_args(parser):
                    parser.add_argument("--rows", type=int, default=Settings.rows)
                    add_more(parser)
            """,
            after="""
            @dataclass
            class Settings:
                rows: int = 5
                # toy: so that it shows
                loud: bool = False

                @staticmethod
                def add_cli_args(parser):
                    parser.add_argument("--rows", type=int, default=Settings.rows)
                    # toy: so that it shows
                    parser.add_argument("--loud", action="store_true")
                    add_more(parser)
            """,
            scope="Settings",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "Both are there, the option with words of its own.",
            _LOUD,
            before="""
            @dataclass
            class Settings:
                loud: bool = False

                def add_cli_args(parser):
                    parser.add_argument("--loud", action="store_true", help="on Sundays")
            """,
            scope="Settings",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Options are declared beside others.",
            _LOUD,
            before="""
            @dataclass
            class Settings:
                rows: int = 5
            """,
            scope="Settings",
            refusal="Settings has no add_cli_args with a call of add_argument",
        ),
        Example(
            "An option has a name.",
            'field = "a: int = 1"\noption = "parser.add_argument()"',
            refusal="key `option`: not a call whose first argument is the option's name",
        ),
    )


def _name(call: cst.CSTNode) -> str | None:
    """Return the option that a call of ``add_argument`` declares."""
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.args):
        return None
    first = call.args[0].value
    if call.func.attr.value != "add_argument" or not isinstance(first, cst.SimpleString):
        return None
    return str(first.evaluated_value)


@dataclass(frozen=True)
class _CommandLineField:
    """Give a class ``field`` and its ``method`` the ``option`` called ``name``."""

    field: ClassAttribute
    option: Pattern
    method: str
    name: str

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for both; what is missing is added."""
        field = self.field.examine(scope, note)
        if field.standing not in {Standing.PRESENT, Standing.READY}:
            return field
        option = self._examine_option(scope, note)
        if option.standing not in {Standing.PRESENT, Standing.READY}:
            return option
        if field.standing is option.standing is Standing.PRESENT:
            return examination.present()

        def rewrite() -> cst.Module:
            module = scope.module if field.rewrite is None else field.rewrite()
            (again,) = resolve(module, scope.name)
            rest = self._examine_option(again, note)
            return module if rest.rewrite is None else rest.rewrite()

        return examination.ready(rewrite)

    def _examine_option(self, scope: Scope, note: str) -> Examination:
        methods = [path for path, node in members(scope) if node.name.value == self.method]
        body = [*syntax.blocks_in(syntax.node_at(scope.module, methods[0]), methods[0])] if methods else []
        calls = [
            (path, index, name)
            for path, block in body
            for index, each in enumerate(syntax.statements_of(block) or ())
            if isinstance(each, cst.SimpleStatementLine) and isinstance(each.body[0], cst.Expr)
            if (name := _name(each.body[0].value)) is not None
        ]
        if not calls or len(methods) > 1:
            owner = scope.name or "the module"
            return examination.absent(f"{owner} has no {self.method} with a call of add_argument")
        if any(name == self.name for *_, name in calls):
            return examination.present()
        path, index, _ = calls[-1]

        def rewrite() -> cst.Module:
            block = syntax.node_at(scope.module, path)
            there = tuple(syntax.statements_of(block) or ())
            (fresh,) = render(self.option.text, {})
            new = (*there[: index + 1], annotate(fresh, note), *there[index + 1 :])
            return scope.replace(path, block.with_changes(body=new))

        return examination.ready(rewrite)

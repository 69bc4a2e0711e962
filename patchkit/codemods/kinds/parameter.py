"""``parameter``: add a parameter to a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.comment import annotate, comments_in
from patchkit.codemods.language.layout import append
from patchkit.codemods.language.names import bound_by
from patchkit.codemods.language.template import render

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class Parameter(Kind, frozen=True, kw_only=True, tag="parameter", forbid_unknown_fields=True):
    """Add a parameter to the function, after the one called ``behind`` if it exists, otherwise last.

    A parameter without a default breaks calls that do not pass it, so it needs ``behind``.
    """

    code: str
    behind: str = ""

    is_of_headers: ClassVar[bool] = True

    def check(self) -> None:
        """Raise ValueError if ``code`` is not one parameter with a default."""
        with texts.naming("code"):
            parameters = self._parameters().params
            if len(parameters) != 1 or (parameters[0].default is None and not self.behind):
                raise ValueError(f"not one parameter with a default: {self.code.strip()!r}")

    def _parameters(self) -> cst.Parameters:
        return cst.ensure_type(render(f"def f({self.code}): ...", {})[0], cst.FunctionDef).params

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for a parameter of that name."""
        node = scope.node
        if not isinstance(node, cst.FunctionDef):
            return examination.absent(f"{scope.name or 'the module'} is not a function")
        wanted = self._parameters().params[0]
        parameters = node.params
        every = (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
        if any(parameter.name.value == wanted.name.value for parameter in every):
            return examination.present()
        if bound_by(scope, [wanted.name.value]):
            return examination.ambiguous(f"{scope.name} has a local variable {wanted.name.value}")
        for field in ("posonly_params", "params", "kwonly_params"):
            own = getattr(parameters, field)
            index = next(
                (index for index, parameter in enumerate(own) if parameter.name.value == self.behind), None
            )
            if index is not None and index + 1 < len(own):
                gap = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
                comma = own[index].comma if not comments_in([own[index].comma]) else gap
                put = (*own[: index + 1], wanted.with_changes(comma=comma), *own[index + 1 :])
                more = parameters.with_changes(**{field: put})
                return examination.ready(
                    lambda: scope.with_node(annotate(node.with_changes(params=more), note))  # noqa: B023
                )
            if index is not None:
                break
        else:
            if wanted.default is None:
                return examination.absent(f"expected the parameter {self.behind} in {scope.name}")
        keyword_only = bool(parameters.kwonly_params) or isinstance(
            parameters.star_arg, (cst.Param, cst.ParamStar)
        )
        field = "kwonly_params" if keyword_only else "params"
        before = getattr(parameters, field)
        after = append(before, wanted, node.whitespace_before_params, "whitespace_after_param")
        params = parameters.with_changes(**{field: after})
        return examination.ready(lambda: scope.with_node(annotate(node.with_changes(params=params), note)))

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It goes last among the positional parameters.",
            'code = "days: int = 14"',
            before="def lend(book, to=None, **options): ...",
            after="""
            # toy: so that it shows
            def lend(book, to=None, days: int = 14, **options): ...
            """,
            scope="lend",
        ),
        Example(
            "After a star it is keyword-only.",
            'code = "days=14"',
            before="def lend(*books): ...",
            after="""
            # toy: so that it shows
            def lend(*books, days=14): ...
            """,
            scope="lend",
        ),
        Example(
            "`behind` names the parameter that it follows.",
            'code = "days"\nbehind = "book"',
            before="def lend(book, to=None): ...",
            after="""
            # toy: so that it shows
            def lend(book, days, to=None): ...
            """,
            scope="lend",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "An existing parameter of that name is kept.",
            'code = "days=14"',
            before="def lend(book, days): ...",
            scope="lend",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The place must be a function.",
            'code = "days=14"',
            before="class Desk: ...",
            scope="Desk",
            refusal="Desk is not a function",
        ),
        Example(
            "Without a default, existing calls would break.",
            'code = "days"',
            refusal="key `code`: not one parameter with a default",
        ),
    )

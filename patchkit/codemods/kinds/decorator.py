"""``decorator``: a function or class gets a decorator, or another one in the place of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    import libcst as cst

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.pattern import Pattern
    from patchkit.codemods.language.scope import Scope


class Decorator(Kind, frozen=True, kw_only=True, tag="decorator", forbid_unknown_fields=True):
    """Decorate the function or class with ``code``; with ``find``, in the place of the decorator that it matches.

    A new decorator is the outermost. Upstream's 27705 is such a change.
    """

    code: str
    find: str = ""

    looks_inside: ClassVar[bool] = False
    is_of_headers: ClassVar[bool] = True

    def codemod(self) -> Codemod:
        """Build the codemod; ValueError names the key that is wrong."""
        (code,) = texts.patterns("code", self.code)
        find = texts.patterns("find", *texts.several(self.find))
        for key, pattern in (("code", code), *(("find", each) for each in find)):
            if not pattern.is_expression:
                raise ValueError(f"key `{key}`: not one expression: {pattern.text.strip()!r}")
        texts.require_bound("code", self.code, self.find)
        return _Decorator(code, find[0] if find else None)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A new decorator stands above the others.",
            'code = "once"',
            before="""
            @logged
            def lend(book): ...
            """,
            after="""
            # toy: so that it shows
            @once
            @logged
            def lend(book): ...
            """,
            scope="lend",
        ),
        Example(
            "With `find` it takes the place of one.",
            'find = "cached(size=$n)"\ncode = "kept($n)"',
            before="""
            @logged
            @cached(size=9)
            def price(book): ...
            """,
            after="""
            # toy: so that it shows
            @logged
            @kept(9)
            def price(book): ...
            """,
            scope="price",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The decorator is there.",
            'code = "shop.once"',
            before="""
            @shop.once
            def lend(book): ...
            """,
            scope="lend",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "What `find` looks for has to be there.",
            'find = "cached(size=$n)"\ncode = "kept($n)"',
            before="def price(book): ...",
            scope="price",
            refusal="expected the decorator `cached(size=$n)`",
        ),
        Example(
            "A module has no decorators.",
            'code = "once"',
            before="x = 1",
            refusal="the module is neither a function nor a class",
        ),
        Example("A decorator is an expression.", 'code = "a b"', refusal="key `code`: not Python"),
    )


@dataclass(frozen=True)
class _Decorator:
    """Decorate with ``code``, in the place of ``find`` if there is one."""

    code: Pattern
    find: Pattern | None

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look among the decorators."""
        import libcst as cst

        from patchkit.codemods.language.comment import annotate
        from patchkit.codemods.language.pattern import match_node
        from patchkit.codemods.language.template import render_expression

        node = scope.node
        if not isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return examination.absent(f"{scope.name or 'the module'} is neither a function nor a class")
        there = [each.decorator for each in node.decorators]
        found = [
            (index, bindings)
            for index, each in enumerate(there)
            if self.find is not None and (bindings := match_node(self.find.expression, each, {})) is not None
        ]
        if not found and any(match_node(self.code.expression, each, {}) is not None for each in there):
            return examination.present()
        if self.find is not None and len(found) != 1:
            expected = f"expected the decorator `{self.find.text.strip()}`"
            return examination.ambiguous(f"{expected} once") if found else examination.absent(expected)

        def rewrite() -> cst.Module:
            decorators = list(node.decorators)
            if found:
                index, bindings = found[0]
                new = render_expression(self.code.text, bindings)
                decorators[index] = decorators[index].with_changes(decorator=new)
            else:
                decorators.insert(0, cst.Decorator(render_expression(self.code.text, {})))
            return scope.with_node(annotate(node.with_changes(decorators=decorators), note))

        return examination.ready(rewrite)

"""``insert-first``: insert statements at the start of a function's body."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.sites import bindings_given
from patchkit.codemods.language.template import render

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class InsertFirst(Kind, frozen=True, kw_only=True, tag="insert-first", forbid_unknown_fields=True):
    """Insert ``code`` at the start of a function's body."""

    code: str
    already: tuple[str, ...] = ()
    context: tuple[str, ...] = ()

    @property
    def _signs(self) -> tuple[Pattern, ...]:
        """Patterns of the edit already made."""
        return texts.signs("code", self.code) + texts.signs("already", *self.already)

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""
        texts.require_bound("code", self.code, *self.context)
        texts.patterns("context", *self.context)
        _ = self._signs

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the statements; the function itself is the site."""
        pattern = next((sign for sign in self._signs if sign.find(scope.node, scope.path)), None)
        if pattern is not None:
            return examination.present(form=pattern.text)
        node, body = scope.node, scope.body
        if not isinstance(node, cst.FunctionDef):
            return examination.absent(f"{scope.name or 'the module'} is not a function")
        bindings = bindings_given(scope, map(Pattern.compile, self.context))
        if isinstance(bindings, examination.Examination):
            return bindings

        def rewrite() -> cst.Module:
            index = 1 if node.get_docstring() is not None else 0
            fresh = render(self.code, bindings)
            return scope.with_body((*body[:index], annotate(fresh[0], note), *fresh[1:], *body[index:]))

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It goes below the docstring.",
            'code = "self.check()"',
            before='''
            class Desk:
                def lend(self, book):
                    """Lend a book."""
                    self.days = 14
            ''',
            after='''
            class Desk:
                def lend(self, book):
                    """Lend a book."""
                    # toy: so that it shows
                    self.check()
                    self.days = 14
            ''',
            scope="Desk.lend",
        ),
        Example(
            "`context` binds a name that `code` needs.",
            'code = "check($book)"\ncontext = ["$book.lent = True"]',
            before="""
            def lend(item):
                item.lent = True
            """,
            after="""
            def lend(item):
                # toy: so that it shows
                check(item)
                item.lent = True
            """,
            scope="lend",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements are present anywhere in the function.",
            'code = "self.check()"',
            before="""
            class Desk:
                def lend(self, book):
                    log(book)
                    self.check()
            """,
            scope="Desk.lend",
        ),
        Example(
            "`already` matches another form of the change.",
            'code = "self.check()"\nalready = ["with self.checked():\\n    ..."]',
            before="""
            class Desk:
                def lend(self, book):
                    with self.checked():
                        log(book)
            """,
            scope="Desk.lend",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The place must be a function.",
            'code = "check()"',
            before="class Desk: ...",
            scope="Desk",
            refusal="Desk is not a function",
        ),
        Example(
            "`context` must match.",
            'code = "check($book)"\ncontext = ["$book.lent = True"]',
            before="def lend(item): ...",
            scope="lend",
            refusal="expected `book.lent = True` around the site",
        ),
        Example("Every placeholder must be bound.", 'code = "$x()"', refusal="key `code`: nothing binds $x"),
    )

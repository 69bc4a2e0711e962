"""``delete``: remove statements; their absence counts as done only where ``context`` matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import sites, statements, syntax, texts
from patchkit.codemods.language.comment import annotate, comments_in, put_above
from patchkit.codemods.language.statements import from_first_comment

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.pattern import Match, Pattern
    from patchkit.codemods.language.scope import Scope


class Delete(Kind, frozen=True, kw_only=True, tag="delete", forbid_unknown_fields=True):
    """Remove the statements that ``find`` matches; ``context`` identifies the place.

    Where nothing matches, the edit is in place, so ``context`` must match there. A block that would be empty gets
    ``pass``. Upstream's 27841 is such a change: it removes a guard that is no longer needed.
    """

    find: str
    context: tuple[str, ...]
    every: bool = False

    writes: ClassVar[tuple[str, ...]] = ()

    def codemod(self) -> Codemod:
        """Return the codemod. Raise ValueError that names the malformed key."""
        if not self.context:
            raise ValueError("key `context`: empty, but it has to identify a place without the statements")
        find = texts.site(self.find)
        if find.is_expression and not find.is_call:
            raise ValueError("key `find`: an expression, but not a statement")
        return _Delete(find, texts.patterns("context", *self.context), self.every)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements are removed; their comments stay above the next statement.",
            'find = "if $desk.is_full:\\n    ..."\ncontext = ["$desk.lend(...)"]',
            before="""
            def serve(desk, book):
                # no room
                if desk.is_full:
                    log(desk)
                    return
                desk.lend(book)
            """,
            after="""
            def serve(desk, book):
                # no room
                # toy: so that it shows
                desk.lend(book)
            """,
            scope="serve",
        ),
        Example(
            "A block that would be empty gets `pass`.",
            'find = "log($desk)"\ncontext = ["$desk.lend(...)"]',
            before="""
            def serve(desk, book):
                desk.lend(book)
                if desk.is_full:
                    log(desk)
            """,
            after="""
            def serve(desk, book):
                desk.lend(book)
                if desk.is_full:
                    # toy: so that it shows
                    pass
            """,
            scope="serve",
        ),
        Example(
            "`every` removes all matches.",
            'find = "log($desk)"\ncontext = ["$desk.lend(...)"]\nevery = true',
            before="""
            def serve(desk, book):
                log(desk)
                if desk.is_full:
                    log(desk)
                log(desk)
                desk.lend(book)
            """,
            after="""
            def serve(desk, book):
                # toy: so that it shows
                if desk.is_full:
                    pass
                desk.lend(book)
            """,
            scope="serve",
        ),
        Example(
            "At the end of a block the note has a line of its own.",
            'find = "log($desk)"\ncontext = ["$desk.lend(...)"]',
            before="""
            def serve(desk, book):
                desk.lend(book)
                log(desk)
            """,
            after="""
            def serve(desk, book):
                desk.lend(book)
                # toy: so that it shows
            """,
            scope="serve",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements are absent and `context` matches.",
            'find = "log($desk)"\ncontext = ["$desk.lend(...)"]',
            before="""
            def serve(desk, book):
                desk.lend(book)
            """,
            scope="serve",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Where `context` does not match, absence does not count.",
            'find = "log($desk)"\ncontext = ["$desk.lend(...)"]',
            before="def serve(desk, book): ...",
            scope="serve",
            refusal="expected `desk.lend(...)` around the site",
        ),
        Example(
            "Two sites that match equally well are ambiguous.",
            'find = "log($desk)"\ncontext = ["$desk.lend(...)"]',
            before="""
            log(one)
            one.lend(book)
            log(one)
            """,
            refusal="several places match, expected one",
        ),
        Example(
            "Without `context` any other place would count as done.",
            'find = "log($desk)"\ncontext = []',
            refusal="key `context`: empty",
        ),
    )


@dataclass(frozen=True)
class _Delete:
    """Remove what ``find`` matches where ``context`` matches, too."""

    find: Pattern
    context: tuple[Pattern, ...]
    every: bool

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the statements and their context."""
        around = sites.bindings_given(scope, self.context)
        if isinstance(around, examination.Examination):
            return around
        matches = [
            statements.statement_of(scope.module, m) for m in self.find.find(scope.node, scope.path, around)
        ]
        places = [match for match in matches if match is not None]
        if not places:
            return examination.present()
        if len(places) > 1 and not self.every:
            return examination.ambiguous(sites.several(scope, map(statements.statement_path, places)))

        def rewrite() -> cst.Module:
            module = scope.module
            ordered = sorted(places, key=lambda match: syntax.order(statements.statement_path(match)))
            # Last site first, so that earlier paths stay valid; the first site gets the note.
            for index, place in reversed(list(enumerate(ordered))):
                module = _without(module, place, note if index == 0 else "")
            return module

        return examination.ready(rewrite)


def _without(module: cst.Module, place: Match, note: str) -> cst.Module:
    block = syntax.node_at(module, place.path)
    body = tuple(syntax.statements_of(block) or ())
    removed, rest = body[place.start : place.end], body[place.end :]
    lead = [line for line in removed[0].leading_lines if line.comment is None]  # type: ignore[attr-defined]
    removed_comments = comments_in(removed)
    above = body[: place.start]
    footer = list(getattr(block, "footer", ()))
    if rest:
        first = rest[0]
        own = from_first_comment(first.leading_lines)  # type: ignore[attr-defined]
        blank = len(first.leading_lines) - len(own)  # type: ignore[attr-defined]
        lines = [
            *lead[: max(1, blank)],
            *(cst.EmptyLine(comment=cst.Comment(comment)) for comment in removed_comments),
            *own,
        ]
        rest = (annotate(first.with_changes(leading_lines=lines), note), *rest[1:])
    elif not above and not isinstance(block, cst.Module):
        empty = cst.SimpleStatementLine([cst.Pass()])
        rest = (annotate(put_above(empty, removed_comments), note),)
    else:
        comments = [*removed_comments, *([f"# {note}"] if note else [])]
        footer = [*(cst.EmptyLine(comment=cst.Comment(comment)) for comment in comments), *footer]
    return syntax.with_body(module, place.path, (*above, *rest), footer=footer)

"""``delete``: remove statements; their absence counts as done only where ``context`` matches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import sites, statements, syntax, texts
from patchkit.codemods.language.comment import annotate, comment_lines, comments_in, put_above
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.statements import from_first_comment

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.pattern import Match
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

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""
        if not self.context:
            raise ValueError("key `context`: empty, but it has to identify a place without the statements")
        find = texts.site(self.find)
        if find.is_expression and not find.is_call:
            raise ValueError("key `find`: an expression, but not a statement")
        texts.patterns("context", *self.context)

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the statements and their context."""
        around = sites.bindings_given(scope, map(Pattern.compile, self.context))
        if isinstance(around, examination.Examination):
            return around
        find = Pattern.compile(self.find)
        matches = [
            statements.statement_of(scope.module, m) for m in find.find(scope.node, scope.path, around)
        ]
        places = [match for match in matches if match is not None]
        if not places:
            return examination.present()
        if len(places) > 1 and not self.every:
            return examination.ambiguous(sites.several(scope, map(statements.statement_path, places)))
        edits = [(place, partial(_without, place)) for place in places]
        return examination.ready(lambda: statements.edited(scope.module, edits, note))

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


def _without(place: Match, module: cst.Module, note: str) -> cst.Module:
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
            *comment_lines(removed_comments),
            *own,
        ]
        rest = (annotate(first.with_changes(leading_lines=lines), note), *rest[1:])
    elif not above and not isinstance(block, cst.Module):
        empty = cst.SimpleStatementLine([cst.Pass()])
        rest = (annotate(put_above(empty, removed_comments), note),)
    else:
        comments = [*removed_comments, *([f"# {note}"] if note else [])]
        footer = [*comment_lines(comments), *footer]
    return syntax.with_body(module, place.path, (*above, *rest), footer=footer)

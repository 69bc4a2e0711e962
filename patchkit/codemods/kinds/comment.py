"""``comment``: change the comments and blank lines above a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import beside
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.nearness import first_line_of
from patchkit.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


class _Place(NamedTuple):
    """A statement, the number of its neighbours found, and the new lines above it, None if they are in place."""

    score: int
    path: Path
    statement: cst.BaseStatement
    lines: list[str] | None


class Comment(Kind, frozen=True, kw_only=True, tag="comment", forbid_unknown_fields=True):
    """Put the comments and blank lines ``code`` above the statement ``find``, in place of ``gone``.

    A statement with blocks is matched by its header, a definition by its name. If several statements match, the one
    with the most neighbours is used: ``behind`` above it, ``before`` below it, and ``within`` around it.
    """

    find: str
    code: str = ""
    gone: str = ""
    behind: str = ""
    before: str = ""
    within: str = ""

    writes: ClassVar[tuple[str, ...]] = ()

    def codemod(self) -> Codemod:
        """Return the edit. Raise ValueError that names the malformed key."""
        if beside.head("find", self.find) is None:
            raise ValueError("key `find`: empty")
        for key in ("code", "gone"):
            line = next(
                (each for each in split_lines(getattr(self, key)) if not _is_comment_or_blank(each)), None
            )
            if line is not None:
                raise ValueError(f"key `{key}`: neither a comment nor blank: {line!r}")
        if split_lines(self.code) == split_lines(self.gone):
            raise ValueError("key `code`: equal to `gone`, so nothing changes")
        beside.Neighbours.read(self.behind, self.before, self.within)
        return self

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the statement, and at what is above it."""
        wanted = beside.head("find", self.find)
        near = beside.Neighbours.read(self.behind, self.before, self.within)
        sign = f"# {note.partition(' ')[0]} " if note else ""
        there, found = [], []
        for block in beside.blocks(scope):
            for at, statement in enumerate(block.body):
                if not beside.is_head(wanted, statement):
                    continue
                there.append(statement)
                lines = [each for each in _lead(statement) if not sign or not each.startswith(sign)]
                made = _new_lead(lines, split_lines(self.code), split_lines(self.gone))
                if made is not None:
                    score = near.score(block, at, at + 1)
                    path = (*block.path, ("body", at))
                    found.append(_Place(score, path, statement, made if made != lines else None))
        done = max((each.score for each in found if each.lines is None), default=-1)
        open_ = [each for each in found if each.lines is not None]
        best = max((each.score for each in open_), default=-1)
        first = [each for each in open_ if each.score == best]
        if done > best:
            return examination.present()
        if not first:
            expected = self.gone.strip() if there else self.find.strip()
            return examination.absent(
                f"expected `{split_lines(expected)[0] if expected else ''}`, which is not there"
            )
        if len(first) > 1 or done == best:
            lines_ = ", ".join(f"`{first_line_of(each.statement)}`" for each in first)
            return examination.ambiguous(f"several places match, expected one: {lines_}")
        (place,) = first
        return examination.ready(lambda: _module_with(scope, place, note, sign))

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A comment is added; the statement's blocks are not compared.",
            'find = "if late:\\n    ..."\ncode = "# a penny a day"',
            before="""
            def settle(late, days):
                if late:
                    charge(days)
            """,
            after="""
            def settle(late, days):
                # a penny a day
                # toy: so that it shows
                if late:
                    charge(days)
            """,
            scope="settle",
        ),
        Example(
            "A comment is replaced, with blank lines above it.",
            'find = "charge(days)"\ncode = "\\n# a penny a day\\n# but for members"\ngone = "# a penny a day"',
            before="""
            count(days)
            # a penny a day
            charge(days)
            """,
            after="""
            count(days)

            # a penny a day
            # but for members
            # toy: so that it shows
            charge(days)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The comment is present.",
            'find = "charge(days)"\ncode = "# two pence a day"\ngone = "# a penny a day"',
            before="""
            count(days)
            # two pence a day
            charge(days)
            """,
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Two statements that match equally well are ambiguous.",
            'find = "charge(days)"\ncode = "# a penny a day"',
            before="""
            charge(days)
            charge(days)
            """,
            refusal="several places match, expected one: `charge(days)`, `charge(days)`",
        ),
        Example(
            "The comment to replace must be present.",
            'find = "charge(days)"\ncode = "# two pence a day"\ngone = "# a penny a day"',
            before="charge(days)",
            refusal="expected `# a penny a day`, which is not there",
        ),
        Example(
            "`code` must not contain code.",
            'find = "f()"\ncode = "g()"',
            refusal="neither a comment nor blank",
        ),
    )


def _is_comment_or_blank(line: str) -> bool:
    return not line or line.startswith("#")


def _lead(statement: cst.BaseStatement) -> list[str]:
    lines: Sequence[cst.EmptyLine] = statement.leading_lines  # type: ignore[attr-defined]
    return [line.comment.value if line.comment is not None else "" for line in lines]


def _new_lead(lines: list[str], added: list[str], gone: list[str]) -> list[str] | None:
    """Return the new lines above a statement, the same if they are in place; None if other comments are there."""
    if lines in (added, gone):
        return added
    old, new = ([each for each in expected if each] for expected in (gone, added))
    blank, bare = _blank(added), added[_blank(added) :]
    if old == new:
        return [""] * blank + lines[_blank(lines) :]
    if new and len(new) >= len(old) and _at(lines, bare) is not None:
        return lines
    at = _at(lines, gone[_blank(gone) :]) if old else len(lines)
    if at is not None:
        rest = lines[at + len(gone[_blank(gone) :]) :] if old else []
        return lines[:at] + bare + rest
    return lines if _at(lines, bare) is not None and new else None


def _blank(lines: Sequence[str]) -> int:
    return next((at for at, line in enumerate(lines) if line), len(lines))


def _at(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index at which these lines occur in sequence."""
    size = len(wanted)
    return next((at for at in range(len(lines) - size + 1) if [*lines[at : at + size]] == [*wanted]), None)


def _module_with(scope: Scope, place: _Place, note: str, sign: str) -> cst.Module:
    notes = [each for each in _lead(place.statement) if sign and each.startswith(sign)]
    lines = [
        cst.EmptyLine(comment=cst.Comment(line)) if line else cst.EmptyLine(indent=False)
        for line in (*(place.lines or ()), *notes)
    ]
    return scope.replace(place.path, annotate(place.statement.with_changes(leading_lines=lines), note))

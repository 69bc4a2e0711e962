"""Make a change in another version of a file exactly, as a revert has to, or refuse it with the line of the obstacle.

A merge by lines is taken if it touches no other change. Otherwise statements are merged, and nothing is adapted: what
the change removes must have the same code and comments, and nothing else may be between its statements. Afterwards
each other statement is in the same blocks as before, none of the change's remains, and no name is undefined.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from patchkit.change.blocks import misplacements
from patchkit.change.comments import stripped_lines
from patchkit.change.correspondence import Correspondence
from patchkit.change.edits import Outcome
from patchkit.change.layout import ended
from patchkit.change.lines import clean
from patchkit.change.merge import Merge
from patchkit.change.outline import NoOutlineError, outline
from patchkit.change.policy import Policy
from patchkit.change.sequence import unreachable_in
from patchkit.change.undefined import undefined_names
from patchkit.errors import TreeError
from patchkit.tree.limits import require_manageable
from patchkit.tree.nodes import bound_as, statements
from patchkit.tree.source import INVALID, fault_of, parsed
from patchkit.tree.text import decoded_alike, encoded

if TYPE_CHECKING:
    from patchkit.change.edits import EditOutcome
    from patchkit.change.outline import Item


class RefusedError(ValueError):
    """A change cannot be made exactly: the line of this tree's file, 0 for the whole, and why.

    The reason is empty if the code is not that of the change.
    """

    def __init__(self, line: int = 0, reason: str = "") -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class NotPythonError(ValueError):
    """This tree's file, or a version of the change, is not valid Python; the message is the reason."""


class Exact(NamedTuple):
    """A text with a change made in it.

    ``stripped`` is the same without the imports that remain because other code uses them.
    """

    text: bytes
    stripped: bytes


def merged(file: str, base: bytes, theirs: bytes, ours: bytes) -> Exact:
    """Return ``ours`` with the change from ``base`` to ``theirs``. Raise RefusedError or NotPythonError."""
    if ours in {base, theirs}:
        return Exact(theirs, theirs)
    if base == theirs:
        return Exact(ours, ours)
    try:
        texts = decoded_alike(base, theirs, ours)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise NotPythonError(str(error)) from None
    if not file.endswith(".py"):
        by_lines = clean(*texts)
        if by_lines is None:
            raise RefusedError
        content = encoded(by_lines, ours)
        return Exact(content, content)
    for text in texts:
        _require_python(text)
    result = _Exact(*texts).merged()
    return Exact(*(encoded(text, ours) for text in result))


def _require_python(text: str) -> None:
    try:
        require_manageable("it", text.encode("utf-8", "surrogateescape"))
        parsed(text)
    except TreeError as error:
        raise NotPythonError(error.what) from None
    except INVALID as error:
        raise NotPythonError(str(error)) from None


class _Exact:
    def __init__(self, base: str, theirs: str, ours: str) -> None:
        self._base, self._theirs, self._ours = base, theirs, ours
        self._items: tuple[Item, Item, Item] | None = None
        with suppress(NoOutlineError):  # It has form feeds.
            self._items = outline(base), outline(theirs), outline(ours)
        self._sites: list[dict[str, list[Item]]]
        self._sites = [_sites(item) for item in self._items] if self._items else [{}, {}, {}]
        self._correspondence = Correspondence()

    def merged(self) -> tuple[str, str]:
        """Return the merged text, and the text without the imports that other code uses."""
        self._require_one_of_each_name()
        try:
            text = clean(self._base, self._theirs, self._ours)
            if text is None or not self._is_exact(text):
                text = self._by_statements(frozenset())
                self._require_exact(text)
            kept = self._used_imports(text)
            result = self._by_statements(kept) if kept else text
        except RefusedError as refusal:
            raise self._refusal(refusal) from None
        # Nothing that was defined before is undefined.
        for name, line in undefined_names(*(text.encode() for text in (self._ours, result, self._theirs))):
            raise RefusedError(line, f"{name} would be undefined")
        return result, text

    def _is_exact(self, text: str) -> bool:
        """Return whether a merge by lines has the change and no other, and leaves no statement unreachable."""
        try:
            self._require_exact(text)
        except RefusedError:
            return False
        return not unreachable_in(self._theirs, self._ours, text)

    def _by_statements(self, kept: frozenset[str]) -> str:
        """Return the text with the change made statement by statement; imports of the names in ``kept`` stay."""
        if self._items is None:
            raise RefusedError
        merge = Merge(lambda _: None, correspondence=self._correspondence, policy=Policy.REFUSE, kept=kept)
        merge.make(*self._items)
        refused = next(filter(_is_refused, merge.log.edits), None) or next(
            (edit for edit, _ in merge.disturbing()), None
        )
        if refused is not None:
            raise RefusedError(refused.line)
        return ended(self._base, self._theirs, self._ours, merge.output.render(self._items[2]))

    def _require_exact(self, text: str) -> None:
        """Raise RefusedError unless a text compiles, and has the change and no other, and no comment of it is left."""
        if fault_of(text) is not None:
            fault = fault_of(self._ours)
            raise RefusedError if fault is None else NotPythonError(fault.reason)
        for line in misplacements(self._base, self._theirs, self._ours, text):
            raise RefusedError(line)
        base, theirs, ours, result = (
            Counter(stripped_lines(text)) for text in (self._base, self._theirs, self._ours, text)
        )
        for comment, number in (base - theirs).items():
            if comment.startswith("#") and result[comment] > max(theirs[comment], ours[comment] - number):
                raise RefusedError(self._ours.partition(comment)[0].count("\n") + 1)

    def _require_one_of_each_name(self) -> None:
        """Raise RefusedError if a definition that the change edits is there more often than where it was made."""
        base, _, ours = self._sites
        for site in self._changed_sites():
            if len(ours.get(site, [])) not in {0, len(base[site])}:
                reason = f"{site} exists {len(ours[site])} times, and one of them was patched"
                raise RefusedError(ours[site][0].line, reason)

    def _changed_sites(self) -> list[str]:
        """Return the names of the definitions that the change edits, those around others first."""
        base, theirs, _ = self._sites
        return [
            site
            for site, items in base.items()
            if [item.own for item in items] != [item.own for item in theirs.get(site, [])]
        ]

    def _refusal(self, refusal: RefusedError) -> RefusedError:
        """Return a refusal with its reason, if that is a definition which this tree lacks."""
        gone = next((site for site in self._changed_sites() if site not in self._sites[2]), "")
        reason = f"{gone}, which was patched, was renamed or moved"
        return RefusedError(0, reason) if gone and not refusal.reason else refusal

    def _used_imports(self, stripped: str) -> frozenset[str]:
        """Return the names whose import the change removes and that other code uses."""
        base, theirs = map(_imported_names, (self._base, self._theirs))
        return frozenset(
            name
            for name in base - theirs
            if len(re.findall(rf"\b{re.escape(name)}\b", stripped))
            > len(re.findall(rf"\b{re.escape(name)}\b", self._theirs))
        )


def _is_refused(edit: EditOutcome) -> bool:
    if edit.outcome is Outcome.CHANGED:
        # Imports are compared by name.
        return edit.key is None or not edit.key[0].is_import
    return edit.outcome not in {Outcome.LANDED, Outcome.ALREADY}


def _sites(root: Item) -> dict[str, list[Item]]:
    """Return the definitions of a file by their dotted names, outer ones first."""
    sites: dict[str, list[Item]] = {}
    for item in root.walk():
        if item.is_definition:
            sites.setdefault(item.site, []).append(item)
    return sites


def _imported_names(text: str) -> set[str]:
    nodes = (
        statement
        for statement in statements(parsed(text))
        if isinstance(statement, (ast.Import, ast.ImportFrom))
    )
    return {bound_as(alias) for node in nodes for alias in node.names}

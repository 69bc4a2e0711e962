"""Reuse examination results between trees that give the same answers to the same questions.

An examination is deterministic: its next question depends only on the answers so far. The questions and answers of all
examinations of one edit therefore form a decision tree, and walking down it gives the result for another sglang tree.
Questions are as narrow as possible, such as the digest of a file or the file that defines a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Told = TypeVar("Told")
Question = tuple[str, ...]
"""A kind of question and its arguments."""
Asked = tuple[Question, str]
"""A question and its answer; the answer is empty for something that does not exist."""


@dataclass(slots=True)
class Decisions(Generic[Told]):
    """A decision tree: a question, a subtree for each answer, and a result at each leaf."""

    question: Question | None = None
    after: dict[str, Decisions[Told]] = field(default_factory=dict)
    result: Told | None = None

    def add(self, asked: Sequence[Asked], result: Told) -> None:
        """Add the result of these questions and answers, unless it contradicts the tree.

        Only a memory that is damaged or written by other code contradicts it.
        """
        place = self
        for question, said in asked:
            if place.question not in (None, question) or place.result is not None:
                return
            place.question = question
            place = place.after.setdefault(said, Decisions())
        if place.question is None:
            place.result = result

    def find(self, answer: Callable[[Question], str]) -> Told | None:
        """Return the result for these answers, or None if it is unknown."""
        place: Decisions[Told] | None = self
        while place is not None and place.question is not None:
            place = place.after.get(answer(place.question))
        return place.result if place is not None else None


class Found(msgspec.Struct, frozen=True):
    """The result for an edit: its file, scope and state, the imports that it adds, and the reason of a conflict.

    ``reason`` is None if it was never computed. For a fact only ``state`` is set, empty if the fact is false.
    """

    file: str = ""
    scope: str = ""
    state: str = ""
    brings: tuple[str, ...] = ()
    reason: str | None = None


class RecalledResult(msgspec.Struct, frozen=True):
    """One result to remember: the digest of its edit or fact, the questions and answers, and the result."""

    about: str
    asked: tuple[Asked, ...]
    found: Found


class Recollection:
    """The results for edits and facts in all trees seen so far."""

    def __init__(self, known: Iterable[RecalledResult] = ()) -> None:
        self._about: dict[str, Decisions[Found]] = {}
        self._fresh: dict[tuple[str, tuple[Asked, ...]], Found] = {}
        for each in known:
            self.learn(each)

    def learn(self, each: RecalledResult) -> None:
        """Add a result from elsewhere; it does not count as fresh."""
        self._about.setdefault(each.about, Decisions()).add(each.asked, each.found)

    def keep(self, about: str, asked: tuple[Asked, ...], found: Found) -> None:
        """Add a result."""
        self._about.setdefault(about, Decisions()).add(asked, found)
        self._fresh[about, asked] = found

    def find(self, about: str, answer: Callable[[Question], str]) -> Found | None:
        """Return the result for the same answers, or None if it is unknown."""
        decisions = self._about.get(about)
        return None if decisions is None else decisions.find(answer)

    def fresh(self) -> tuple[RecalledResult, ...]:
        """Return the results that ``keep`` added since the last call."""
        found = tuple(RecalledResult(about, asked, answer) for (about, asked), answer in self._fresh.items())
        self._fresh.clear()
        return found

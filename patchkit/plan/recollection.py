"""What was told of a place in one tree is told again of every tree that answers the same questions.

An examination is deterministic: its next question follows from the answers so far. The questions and answers of all
examinations of one edit therefore form a tree of decisions, and a tree whose files are known is settled by walking
down it. A question is about the least that counts: which text a file has, where a name is defined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Told = TypeVar("Told")
Question = tuple[str, ...]
"""A kind of question, and what it is about."""
Asked = tuple[Question, str]
"""A question and its answer, as one string; what is not there is answered by nothing."""


@dataclass(slots=True)
class Decisions(Generic[Told]):
    """Questions that were asked, each after the answers that led to it, and what they came to."""

    question: Question | None = None
    after: dict[str, Decisions[Told]] = field(default_factory=dict)
    result: Told | None = None

    def add(self, asked: Sequence[Asked], result: Told) -> None:
        """Note what the answers to these questions lead to, unless something else is asked after the same answers.

        Only memory that is damaged, or of other code, says so.
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
        """Return what the questions come to, None if they never got the same answers."""
        place: Decisions[Told] | None = self
        while place is not None and place.question is not None:
            place = place.after.get(answer(place.question))
        return place.result if place is not None else None


class Found(msgspec.Struct, frozen=True):
    """What was told of an edit: its place, how that stands to it, the imports that it brings, and why it cannot.

    ``reason`` is None where nobody asked for it. Of a fact it is the ``standing`` alone, which is empty where it is
    not true.
    """

    file: str = ""
    scope: str = ""
    standing: str = ""
    brings: tuple[str, ...] = ()
    reason: str | None = None


class Recalled(msgspec.Struct, frozen=True):
    """One thing to remember: what it is about, what was asked, and what was told."""

    about: str
    asked: tuple[Asked, ...]
    found: Found


class Recollection:
    """What was told of edits and facts in any tree; ``fresh`` is what came since somebody took it."""

    def __init__(self, known: Iterable[Recalled] = ()) -> None:
        self._about: dict[str, Decisions[Found]] = {}
        self._fresh: dict[tuple[str, tuple[Asked, ...]], Found] = {}
        for each in known:
            self.learn(each)

    def learn(self, each: Recalled) -> None:
        """Take over what was told elsewhere."""
        self._about.setdefault(each.about, Decisions()).add(each.asked, each.found)

    def keep(self, about: str, asked: tuple[Asked, ...], found: Found) -> None:
        """Remember what was told."""
        self._about.setdefault(about, Decisions()).add(asked, found)
        self._fresh[about, asked] = found

    def find(self, about: str, answer: Callable[[Question], str]) -> Found | None:
        """Return what was told where the same questions had the same answers, None if nothing was."""
        decisions = self._about.get(about)
        return None if decisions is None else decisions.find(answer)

    def fresh(self) -> tuple[Recalled, ...]:
        """Return what was told since the last call."""
        found = tuple(Recalled(about, asked, told) for (about, asked), told in self._fresh.items())
        self._fresh.clear()
        return found

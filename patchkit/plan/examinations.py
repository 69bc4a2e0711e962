"""Reuse examination results between trees that give the same answers to the same questions.

An examination is deterministic: its next question depends only on the answers so far. The questions and answers of all
examinations of one edit therefore form a decision tree, and walking down it gives the result for another sglang tree.
Questions are as narrow as possible, such as the digest of a file or the file that defines a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from patchkit.codemods.examination import Reason  # noqa: TC001  # read when a result is decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Result = TypeVar("Result")
Question = tuple[str, ...]
"""A kind of question and its arguments."""
AnsweredQuestion = tuple[Question, str]
"""A question and its answer; the answer is empty for something that does not exist."""


@dataclass(slots=True)
class Decisions(Generic[Result]):
    """A decision tree: a question, a subtree for each answer, and a result at each leaf."""

    question: Question | None = None
    after: dict[str, Decisions[Result]] = field(default_factory=dict)
    result: Result | None = None

    def add(self, answers: Sequence[AnsweredQuestion], result: Result) -> None:
        """Add the result of these questions and answers, unless it contradicts the tree.

        Only a memory that is damaged or written by other code contradicts it.
        """
        place = self
        for question, answer in answers:
            if place.question not in (None, question) or place.result is not None:
                return
            place.question = question
            place = place.after.setdefault(answer, Decisions())
        if place.question is None:
            place.result = result

    def find(self, answer: Callable[[Question], str]) -> Result | None:
        """Return the result for these answers, or None if it is unknown."""
        place: Decisions[Result] | None = self
        while place is not None and place.question is not None:
            place = place.after.get(answer(place.question))
        return place.result if place is not None else None


class ExaminationResult(msgspec.Struct, frozen=True):
    """The result for an edit: its file, scope and state, the imports that it adds, and the reason of a conflict.

    ``reason`` is None if it was never computed. ``calls_runtime`` is that of ``EditStatus``. For a fact only ``state``
    is set, empty if the fact is false.
    """

    file: str = ""
    scope: str = ""
    state: str = ""
    added_imports: tuple[str, ...] = ()
    reason: Reason | None = None
    calls_runtime: bool = False


class RememberedResult(msgspec.Struct, frozen=True):
    """One result to remember: the digest of its edit or fact, the questions and answers, and the result."""

    key: str
    answers: tuple[AnsweredQuestion, ...]
    result: ExaminationResult


class Examinations:
    """The results for edits and facts in all trees seen so far."""

    def __init__(self, results: Iterable[RememberedResult] = ()) -> None:
        self._decisions: dict[str, Decisions[ExaminationResult]] = {}
        self._fresh: dict[tuple[str, tuple[AnsweredQuestion, ...]], ExaminationResult] = {}
        for result in results:
            self.load(result)

    def load(self, result: RememberedResult) -> None:
        """Add a result from elsewhere; it does not count as fresh."""
        self._decisions.setdefault(result.key, Decisions()).add(result.answers, result.result)

    def record(self, key: str, answers: tuple[AnsweredQuestion, ...], result: ExaminationResult) -> None:
        """Add a result."""
        self._decisions.setdefault(key, Decisions()).add(answers, result)
        self._fresh[key, answers] = result

    def find(self, key: str, answer: Callable[[Question], str]) -> ExaminationResult | None:
        """Return the result for the same answers, or None if it is unknown."""
        decisions = self._decisions.get(key)
        return None if decisions is None else decisions.find(answer)

    def fresh(self) -> tuple[RememberedResult, ...]:
        """Return the results that ``record`` added since the last call."""
        results = tuple(
            RememberedResult(key, answers, result) for (key, answers), result in self._fresh.items()
        )
        self._fresh.clear()
        return results

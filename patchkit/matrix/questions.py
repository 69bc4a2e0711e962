"""What an inspection asked of a tree, and the answers that it got: the same answers lead to the same states.

An inspection is deterministic, so its next question follows from the answers so far. The questions and answers of
all inspections therefore form one tree of decisions, and a ref with known files is settled by walking down it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchkit.tree.modules import Modules
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.matrix.definitions import Definitions
    from patchkit.tree.git import GitTree
    from patchkit.tree.headers import Interest

SOURCE, HOMES, VERSION = "source", "homes", "version"
Question = tuple[str, str]
"""``SOURCE`` and a file, answered by its blob; ``HOMES`` and a name, answered by the files that define it;
``VERSION`` of nothing, answered by the tree's."""

Asked = tuple[Question, str]
"""A question and its answer, as one string; a file or name that is not there is answered by nothing."""


def answer(tree: GitTree, definitions: Definitions, question: Question) -> str:
    """Return a tree's answer to a question."""
    kind, name = question
    if kind == SOURCE:
        return tree.blob(name) or ""
    if kind == VERSION:
        return tree.version or ""
    return "\0".join(definitions.homes(tree, SERVING, name))


class AskedModules(Modules):
    """A tree's files, with a record of which were asked for."""

    def __init__(self, tree: GitTree, interest: Interest, definitions: Definitions) -> None:
        super().__init__(tree, interest)
        self._git = tree
        self._definitions = definitions
        self._asked: dict[Question, str] = {}

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Every question so far with its answer, in order."""
        return tuple(self._asked.items())

    def source(self, file: str) -> bytes | None:
        """Return a file's bytes, ``None`` where the tree has no such file."""
        if (SOURCE, file) not in self._asked:
            self._asked[SOURCE, file] = answer(self._git, self._definitions, (SOURCE, file))
        return super().source(file)

    def version(self) -> str | None:
        """Return the tree's version, ``None`` where nothing tells it."""
        if (VERSION, "") not in self._asked:
            self._asked[VERSION, ""] = answer(self._git, self._definitions, (VERSION, ""))
        return self._asked[VERSION, ""] or None

    def defining(self, name: str) -> list[str]:
        """Return the files of the serving package that define a top-level class or function of this name."""
        if (HOMES, name) not in self._asked:
            self._asked[HOMES, name] = answer(self._git, self._definitions, (HOMES, name))
        return [file for file in self._asked[HOMES, name].split("\0") if file]


@dataclass
class Decisions:
    """The questions that inspections asked, each after the answers that led to it, and what they came to."""

    question: Question | None = None
    after: dict[str, Decisions] = field(default_factory=dict)
    result: Any = None

    def add(self, asked: Sequence[Asked], result: Any) -> None:
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

    def find(self, tree: GitTree, definitions: Definitions) -> Any:
        """Return what an inspection of ``tree`` comes to, None if no inspection got the same answers."""
        place: Decisions | None = self
        while place is not None and place.question is not None:
            place = place.after.get(answer(tree, definitions, place.question))
        return place.result if place is not None else None

"""Record the questions that an inspection asks of a tree, so that a tree with the same answers needs no inspection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.tree.modules import Modules
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from patchkit.matrix.definitions import Definitions
    from patchkit.plan.examinations import AnsweredQuestion, Question
    from patchkit.tree.headers import Interest
    from patchkit.tree.objects import GitTree

NAME, SOURCE, HOMES, VERSION = "name", "source", "homes", "version"
"""The kinds of question. ``SOURCE`` asks for a file's blob id, ``HOMES`` for the files that define a name, ``VERSION``
and ``NAME``, without an argument, for the tree's version and package name."""


def answer(tree: GitTree, definitions: Definitions, question: Question) -> str:
    """Return a tree's answer to a question."""
    kind, name = question
    if kind == SOURCE:
        return tree.blob(name) or ""
    if kind == NAME:
        return tree.name
    if kind == VERSION:
        return tree.version or ""
    return "\0".join(definitions.homes(tree, SERVING, name))


class RecordingModules(Modules):
    """A tree's files, with a record of the questions asked."""

    def __init__(self, tree: GitTree, interest: Interest, definitions: Definitions) -> None:
        super().__init__(tree, interest)
        self._git = tree
        self._definitions = definitions
        # Patches are translated to the package's name, so every result depends on it.
        self._answers: dict[Question, str] = {(NAME, ""): tree.name}

    @property
    def answers(self) -> tuple[AnsweredQuestion, ...]:
        """Every question so far with its answer, in order."""
        return tuple(self._answers.items())

    def source(self, file: str) -> bytes | None:
        """Return a file's bytes, or None if the tree has no such file."""
        self.label(file)
        return super().source(file)

    def label(self, file: str) -> str:
        """Return a file's blob id, empty if the tree has no such file."""
        if (SOURCE, file) not in self._answers:
            self._answers[SOURCE, file] = answer(self._git, self._definitions, (SOURCE, file))
        return self._answers[SOURCE, file]

    def version(self) -> str | None:
        """Return the tree's version, or None if it is unknown."""
        if (VERSION, "") not in self._answers:
            self._answers[VERSION, ""] = answer(self._git, self._definitions, (VERSION, ""))
        return self._answers[VERSION, ""] or None

    def defining(self, name: str) -> list[str]:
        """Return the files of the serving package with a top-level class or function of this name."""
        if (HOMES, name) not in self._answers:
            self._answers[HOMES, name] = answer(self._git, self._definitions, (HOMES, name))
        return [file for file in self._answers[HOMES, name].split("\0") if file]

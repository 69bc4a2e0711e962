"""Record the questions that an inspection asks of a tree, so that a tree with the same answers needs no inspection."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.tree.history import has_commit
from patchkit.tree.modules import Modules
from patchkit.tree.sglang import SERVING
from patchkit.tree.tree import TreeAbove

if TYPE_CHECKING:
    from patchkit.matrix.definitions import Definitions
    from patchkit.plan.examinations import AnsweredQuestion, Question
    from patchkit.tree.bodies import NeededBodies
    from patchkit.tree.objects import GitTree

SOURCE, HOMES, FILES, HISTORY, VERSION, STYLE = "source", "homes", "files", "history", "version", "style"
"""The kinds of question: for a file's blob id, for the files that define a name, for those below a folder, whether a
commit is in the history, and, without arguments, for the tree's version, and for its name and line length."""


def answer(tree: GitTree, definitions: Definitions, question: Question) -> str:
    """Return a tree's answer to a question."""
    kind, *about = question
    if kind == SOURCE:
        return tree.blob(about[0]) or ""
    if kind == HOMES:
        return "\0".join(definitions.homes(tree, SERVING, about[0]))
    if kind == FILES:
        return hashlib.sha256("\0".join(tree.files(*about)).encode(errors="surrogateescape")).hexdigest()
    if kind == HISTORY:
        return "there" if has_commit(tree, *about) else ""
    return tree.version or "" if kind == VERSION else f"{tree.name} {tree.line_length}"


@dataclass(frozen=True)
class AskedTree(TreeAbove):
    """A tree that records each question with its answer, in order."""

    below: GitTree
    definitions: Definitions
    answers: dict[Question, str] = field(default_factory=dict)

    def ask(self, *question: str) -> str:
        """Return the answer to a question."""
        if question not in self.answers:
            self.answers[question] = answer(self.below, self.definitions, question)
        return self.answers[question]

    @property
    def version(self) -> str | None:
        """The version of the tree."""
        return self.ask(VERSION) or None

    def read(self, file: str) -> bytes | None:
        """Return a file's bytes, or None if the tree has no such file."""
        return self.below.read(file) if self.ask(SOURCE, file) else None

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files below a folder."""
        self.ask(FILES, folder, suffix)
        return self.below.files(folder, suffix)


class RecordingModules(Modules):
    """A tree's files, with a record of the questions asked."""

    def __init__(self, tree: GitTree, needed: NeededBodies, definitions: Definitions) -> None:
        self._asked_tree = AskedTree(tree, definitions)
        # Patches are translated to the package's name, and new code has the layout of the tree's own.
        self._asked_tree.ask(STYLE)
        super().__init__(self._asked_tree, needed)

    @property
    def answers(self) -> tuple[AnsweredQuestion, ...]:
        """Every question so far with its answer, in order."""
        return tuple(self._asked_tree.answers.items())

    def label(self, file: str) -> str:
        """Return a file's blob id, empty if the tree has no such file."""
        return self._asked_tree.ask(SOURCE, file)

    def defining(self, name: str) -> list[str]:
        """Return the files of the serving package with a top-level class or function of this name."""
        return [file for file in self._asked_tree.ask(HOMES, name).split("\0") if file]

    def has_commit(self, commit: str, subject: str) -> bool:
        """Return whether a commit, or one with this subject, is in the history of the tree."""
        return bool(self._asked_tree.ask(HISTORY, commit, subject))

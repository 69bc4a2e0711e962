"""What the clean run finds out, what a run of tests is told, and what it answers."""

from __future__ import annotations

import msgspec

# Where the file with a `Trial` is, for the pytest that runs it.
TRIAL = "MUTATION_TRIAL"
# The profile of hypothesis that such a pytest takes.
PROFILE = "mutation"
EVERYWHERE = ""


class Driven(msgspec.Struct):
    """A tree that tests drive: where it lies and, if patches were applied to it, which and to what."""

    root: str
    before: str = ""
    patches: tuple[str, ...] = ()


class Answer(msgspec.Struct):
    """What a tree answered, pickled, and the functions that ran for it: ``file:name``, and ``file:``."""

    pickled: bytes
    ran: tuple[str, ...] = ()


class Notes(msgspec.Struct):
    """What the clean run found out."""

    trees: dict[str, Driven] = {}
    answers: dict[str, Answer] = {}
    """By the digest of the question."""
    imports: dict[str, list[str]] = {}
    """The functions that ran while a tree was imported, which may matter to each of its answers."""
    questions: dict[str, list[tuple[str, str]]] = {}
    """What each test asked: trees and digests."""
    seconds: dict[str, float] = {}
    """How long each test took, and each module of tests."""


class Trial(msgspec.Struct):
    """What a run of pytest is told."""

    checkout: str
    """The folder whose patchkit it has to be."""
    verdict: str
    """Where to write which test failed first."""
    notes: str
    """Where the clean run's notes are."""
    calls: str = ""
    """The folder for what the clean run calls; any other run has none."""
    roots: dict[str, str] = {}
    """Where trees lie other than where the clean run left them."""
    differs: dict[str, tuple[str, ...] | None] = {}
    """The functions that differ from the clean run's, by tree or EVERYWHERE; None: more than functions do."""
    first: tuple[str, ...] = ()
    """Tests to begin with."""

    def may_change(self, notes: Notes, tree: str, digest: str) -> bool:
        """Tell whether a tree may answer a question otherwise than in the clean run."""
        for place in {EVERYWHERE, tree}.intersection(self.differs):
            functions = self.differs[place]
            if functions is None or digest not in notes.answers:
                return True
            ran = {*notes.answers[digest].ran, *notes.imports.get(tree, ())}
            if ran.intersection(functions):
                return True
        return False


class Verdict(msgspec.Struct):
    """The first failure."""

    test: str
    said: str

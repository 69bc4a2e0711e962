"""Compute a row for each ref.

Each distinct state of the files is examined once, and each result is cached immediately.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit import memory
from patchkit.errors import PatchkitError, UsageError
from patchkit.matrix.answer import Matrix, PatchRow, StateResult, Verified, cell_of
from patchkit.matrix.definitions import Definitions
from patchkit.matrix.extent import Extents
from patchkit.matrix.failure import Failure, attempted
from patchkit.matrix.memory import Memory
from patchkit.matrix.questions import RecordingModules, answer
from patchkit.matrix.tasks import VERIFY
from patchkit.matrix.workers import spread
from patchkit.plan.cache import CachedStatus
from patchkit.plan.examinations import AnsweredQuestion, Decisions, Examinations, RememberedResult
from patchkit.plan.needed_bodies import needed_bodies
from patchkit.transaction.edited import judged_at
from patchkit.tree.objects import GitRepository, GitTree, MissingObjectError
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from patchkit.change.land import Watch
    from patchkit.matrix.refs import Ref
    from patchkit.matrix.tasks import Result, Task
    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet

_EXAMINE, _NAMES, _EDITS = "examine", "names", "edits"


class _ExaminedState(msgspec.Struct, frozen=True):
    """The questions of an inspection with their answers, and its result."""

    answers: tuple[AnsweredQuestion, ...]
    answer: StateResult


class _Inspection(msgspec.Struct, frozen=True):
    """An inspection, with what was new in it: the names that blobs define, and the results for edits."""

    examined: _ExaminedState
    names: dict[str, str]
    edits: tuple[RememberedResult, ...]


@dataclass(frozen=True)
class SurveyResult:
    """The matrix, and each task's results by the state of the files or by package."""

    matrix: Matrix
    answers: Mapping[str, Mapping[str, Any]]
    """Each task's results, by the task's name; a Failure if it has none."""
    notes: tuple[str, ...] = ()
    """Sentences about refs that patterns leave out."""

    def results(self, task: Task[Result]) -> dict[str, Result]:
        """Return a task's results, without failures."""
        return {
            name: answer_of
            for name, answer_of in self.answers[task.name].items()
            if not isinstance(answer_of, Failure)
        }

    def failures(self, task: Task[Result]) -> dict[str, str]:
        """Return the reasons of a task's failures."""
        return {
            name: answer_of.reason
            for name, answer_of in self.answers[task.name].items()
            if isinstance(answer_of, Failure)
        }


def survey(
    repository: Path,
    refs: Sequence[Ref],
    patches: PatchSet,
    *,
    tasks: Sequence[Task[Any]] = (),
    jobs: int | None = None,
    watch: Watch | None = None,
) -> SurveyResult:
    """Return a row for each ref, and the results of ``tasks``.

    A ref without an sglang tree, or with a file that cannot be read, gets an error in place of its cells. Nothing is
    written to ``repository``. ``watch`` is called with the current step, the number of trees done, and their total.
    """
    started = time.perf_counter()
    memory = Memory(patches.digest)
    try:
        with GitRepository(repository) as git:
            return _Survey(git, patches, memory, jobs or os.cpu_count() or 1, watch).run(refs, tasks, started)
    finally:
        memory.close()


def recalled(patches: PatchSet) -> tuple[Definitions, Decisions[StateResult]]:
    """Return the cached definitions and results, which answer for a ref whose files are known from earlier runs."""
    memory = Memory(patches.digest)
    try:
        return Definitions(memory.recall(_NAMES, str, shared=True).get), _decisions(memory, patches)
    finally:
        memory.close()


def _decisions(memory: Memory, patches: PatchSet) -> Decisions[StateResult]:
    decisions = Decisions[StateResult]()
    for examined in memory.recall(_EXAMINE, _ExaminedState).values():
        if examined.answer.error or tuple(cell.patch for cell in examined.answer.patches) == patches.ids:
            decisions.add(examined.answers, examined.answer)
    return decisions


class _Survey:
    def __init__(
        self, git: GitRepository, patches: PatchSet, memory: Memory, jobs: int, watch: Watch | None
    ) -> None:
        self._git = git
        self._patches = patches
        self._memory = memory
        self._jobs = jobs
        self._watch = watch or (lambda _what, _done, _of: None)
        self._trees: dict[str, GitTree] = {}
        # It grows while `spread` runs, which passes to each worker what was added since its last task.
        self._new_results: list[tuple[RememberedResult, ...]] = []
        self._answers: dict[str, StateResult] = {}
        self._extents = Extents(git)
        self._known = memory.recall(_NAMES, str, shared=True)
        # Definitions are found deep inside an inspection, whose result is statuses alone.
        self._fresh: dict[str, str] = {}
        self._definitions = Definitions(self._known.get, self._fresh.__setitem__)
        self._decisions = _decisions(memory, patches)

    def run(self, refs: Sequence[Ref], tasks: Sequence[Task[Any]], started: float) -> SurveyResult:
        for commit in dict.fromkeys(ref.commit for ref in refs):
            opened = attempted(partial(self._open, commit))
            if isinstance(opened, Failure):
                self._answers[commit] = StateResult(error=opened.reason)
            else:
                self._trees[commit] = opened
        examined = self._examine()
        results = {task.name: self._results_of(task) for task in tasks}
        self._memory.keep(_NAMES, self._fresh, shared=True)
        rows = tuple(self._row(ref, results.get(VERIFY.name, {})) for ref in refs)
        states = len({self._answers[commit].state for commit in self._trees})
        seconds = round(time.perf_counter() - started, 3)
        matrix = Matrix(str(self._git.path), self._patches.ids, rows, states, examined, seconds)
        return SurveyResult(matrix, results)

    def _open(self, commit: str) -> GitTree:
        tree = GitTree(self._git, commit)
        self._extents.require_bounded(tree, SERVING)
        return tree

    def _row(self, ref: Ref, verified: Mapping[str, Verified | Failure]) -> PatchRow:
        answer, tree = self._answers[ref.commit], self._trees.get(ref.commit)
        if tree is None:
            return PatchRow(ref.name, ref.commit, error=answer.error)
        verdict = verified.get(_package(tree))
        if isinstance(verdict, Failure):
            verdict = Verified(False, (verdict.reason,))
        statuses = judged_at(tree, [status.status(self._patches) for status in answer.patches])
        return PatchRow(
            ref.name, ref.commit, answer.state, tuple(map(cell_of, statuses)), answer.error, verdict
        )

    def _examine(self) -> int:
        """Set the answer of each commit, and return how many were examined."""
        examined = 0
        total = len(self._trees)
        unanswered = self._recall_answers(self._trees)
        while unanswered:
            # Commits with the same blobs for all files that patches name mostly have the same answers.
            alike: dict[tuple[str | None, ...], str] = {}
            for commit in unanswered:
                blobs = attempted(partial(self._blobs, commit))
                if isinstance(blobs, Failure):
                    self._answers[commit] = StateResult(error=blobs.reason)
                else:
                    alike.setdefault(blobs, commit)
            chosen = [(commit, commit) for commit in alike.values()]
            done, share = total - len(unanswered), len(unanswered) / max(1, len(chosen))
            kept = self._memory.recall(_EDITS, tuple[RememberedResult, ...], shared=True)
            edits = tuple(chain.from_iterable(kept.values()))
            names, patches = self._known | self._fresh, self._patches
            work = _Examination(self._git.path, tuple(patches), patches.digest, names, edits)
            for commit, outcome in spread(work, chosen, self._jobs, self._new_results):
                examined += 1
                if isinstance(outcome, Failure):
                    self._answers[commit] = StateResult(error=outcome.reason)
                else:
                    self._add_inspection(commit, outcome)
                self._watch("trees: examining", round(done + share * examined), total)
            unanswered = self._recall_answers(unanswered)
        self._watch("trees: examining", total, total)
        return examined

    def _add_inspection(self, commit: str, inspection: _Inspection) -> None:
        examined = inspection.examined
        self._answers[commit] = examined.answer
        self._fresh |= inspection.names
        self._new_results.append(inspection.edits)
        self._decisions.add(examined.answers, examined.answer)
        self._memory.keep(_EXAMINE, {examined.answer.state: examined})
        # Each is kept under its patch's digest, also for the patch sets of other refs and later ones.
        self._memory.keep(_EDITS, {examined.answer.state: inspection.edits}, shared=True)

    def _blobs(self, commit: str) -> tuple[str | None, ...]:
        return tuple(map(self._trees[commit].blob, self._named))

    @cached_property
    def _named(self) -> list[str]:
        places = [place for patch in self._patches for place in (*patch.edits, *patch.facts)]
        return sorted({file for place in places for file in place.files})

    def _recall_answers(self, commits: Iterable[str]) -> list[str]:
        """Set the answers that earlier examinations have, and return the remaining commits."""
        unanswered = []
        for commit in commits:
            if commit in self._answers:
                continue
            find_answer = partial(answer, self._trees[commit], self._definitions)
            result = attempted(partial(self._decisions.find, find_answer))
            if isinstance(result, Failure):
                self._answers[commit] = StateResult(error=result.reason)
            elif result is None:
                unanswered.append(commit)
            else:
                self._answers[commit] = result
        return unanswered

    def _results_of(self, task: Task[Any]) -> dict[str, Any]:
        """Return a task's result, or its failure, for each package or state that it is run on."""
        commits = {
            _package(tree) if task.by_package else self._answers[commit].state: commit
            for commit, tree in self._trees.items()
            if task.concerns(self._answers[commit])
        }
        remembered = self._memory.recall(task.name, task.kind)
        results: dict[str, Any] = {name: remembered[name] for name in commits if name in remembered}
        todo = [(name, commit) for name, commit in commits.items() if name not in remembered]
        work = _Execution(self._git.path, tuple(self._patches), task)
        for done, (name, outcome) in enumerate(spread(work, todo, self._jobs), 1):
            self._watch(f"trees: {task.doing}", done, len(todo))
            results[name] = outcome
            if not isinstance(outcome, Failure):
                self._memory.keep(task.name, {name: outcome})
        return results


def _package(tree: GitTree) -> str:
    """Return the name and the tree id of a package."""
    return f"{posixpath.basename(tree.place)} {tree.id}"


@dataclass
class _Reading:
    """Work on a repository, which is opened in the process that does the work."""

    path: Path
    patches: tuple[Patch, ...]
    _git: GitRepository | None = field(default=None, init=False)

    def tree(self, commit: str) -> GitTree:
        if self._git is None:
            self._git = GitRepository(self.path)
        return GitTree(self._git, commit)


@dataclass
class _Execution(_Reading):
    """Run a task on a commit."""

    task: Task[Any]

    def __call__(self, commit: str, new_results: Sequence[object]) -> Any:
        del new_results  # Tasks do not share results.
        result = attempted(lambda: self.task.work(self.tree(commit), self.patches))
        memory.forget_if_large()
        return result


@dataclass
class _Examination(_Reading):
    """Inspect a commit with the results of others, and return the new results."""

    digest: str
    names: dict[str, str]
    edits: tuple[RememberedResult, ...]
    _fresh: dict[str, str] = field(default_factory=dict, init=False)
    _examinations: Examinations | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._definitions = Definitions(self.names.get, self._fresh.__setitem__)

    def __call__(
        self, commit: str, new_results: Sequence[tuple[RememberedResult, ...]]
    ) -> _Inspection | Failure:
        examinations = self._examinations = self._examinations or Examinations(self.edits)
        for results in new_results:
            for result in results:
                examinations.load(result)
        inspection = attempted(lambda: self._inspect(self.tree(commit), examinations))
        memory.forget_if_large()
        return inspection

    def _inspect(self, tree: GitTree, examinations: Examinations) -> _Inspection:
        from patchkit.plan.build import inspect

        modules = RecordingModules(tree, needed_bodies(self.patches), self._definitions)
        try:
            statuses = inspect(tree, self.patches, modules, examinations)
            answer = StateResult(tuple(map(CachedStatus.of, statuses)))
        except (MissingObjectError, UsageError):
            raise
        except PatchkitError as error:
            answer = StateResult(error=str(error))
        names = dict(self._fresh)
        self._fresh.clear()
        # With other patches, the same files are another state.
        state = hashlib.sha256(repr((self.digest, modules.answers)).encode()).hexdigest()[:16]
        examined = _ExaminedState(modules.answers, msgspec.structs.replace(answer, state=state))
        return _Inspection(examined, names, examinations.fresh())

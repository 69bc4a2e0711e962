"""Every ref gets its cells, each distinct state of the files is examined once, and each result is kept at once."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.errors import PatchkitError, TreeError
from patchkit.matrix.answer import Answer, Matrix, PatchDiff, Row, Verified, cell_of
from patchkit.matrix.definitions import Definitions
from patchkit.matrix.memory import Memory
from patchkit.matrix.questions import AskedModules, Decisions
from patchkit.plan.interest import interest_of
from patchkit.tree.git import GitRepository, GitTree, MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from patchkit.matrix.questions import Asked
    from patchkit.matrix.refs import Ref
    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.conflict import Conflict

    Watch = Callable[[str, int, int], None]


def survey(
    repository: Path,
    refs: Sequence[Ref],
    patches: PatchSet,
    *,
    verify: bool = False,
    jobs: int | None = None,
    watch: Watch | None = None,
    diffs: dict[str, tuple[PatchDiff, ...]] | None = None,
    conflicts: dict[str, tuple[Conflict, ...]] | None = None,
    faults: dict[str, tuple[str, ...]] | None = None,
) -> Matrix:
    """Return a row a ref; ``watch`` is told what is being done, how much of it is done, and of how much.

    With ``verify`` each distinct package is applied to in a temporary folder and verified there. ``diffs`` is
    filled, by state, with what the patches would change, ``conflicts`` with the sites of those that conflict,
    ``faults`` with what is wrong once they are planned:
    a file that would not compile, a pending patch that is not applied then, a file that a second plan changes.
    A ref that holds no sglang or a broken file gets an error for its cells. Nothing is written to ``repository``.
    """
    started = time.perf_counter()
    memory = Memory(patches.digest)
    try:
        with GitRepository(repository) as git:
            return _Survey(git, patches, memory, jobs or os.cpu_count() or 1, watch).run(
                refs, verify=verify, started=started, diffs=diffs, conflicts=conflicts, faults=faults
            )
    finally:
        memory.close()


class _Survey:
    def __init__(
        self, git: GitRepository, patches: PatchSet, memory: Memory, jobs: int, watch: Watch | None
    ) -> None:
        self._git = git
        self._patches = patches
        self._memory = memory
        self._jobs = jobs
        self._watch = watch or (lambda _what, _done, _of: None)
        self._known = memory.names()
        self._fresh: dict[str, str] = {}
        self._definitions = Definitions(self._known.get, self._fresh.__setitem__)
        self._decisions = Decisions()
        for asked, answer in memory.answers():
            self._decisions.add(asked, answer)

    def run(
        self,
        refs: Sequence[Ref],
        *,
        verify: bool,
        started: float,
        diffs: dict[str, tuple[PatchDiff, ...]] | None,
        conflicts: dict[str, tuple[Conflict, ...]] | None,
        faults: dict[str, tuple[str, ...]] | None,
    ) -> Matrix:
        packages: dict[str, GitTree] = {}
        errors: dict[str, str] = {}
        homes: dict[str, str] = {}
        for ref in refs:
            if ref.commit not in homes and ref.commit not in errors:
                try:
                    tree = GitTree(self._git, ref.commit)
                except TreeError as error:
                    errors[ref.commit] = str(error)
                else:
                    homes[ref.commit] = tree.id
                    packages.setdefault(tree.id, tree)
        answers: dict[str, Answer] = {}
        examined = self._examine(packages, answers)
        verified = self._verify(packages, answers) if verify else {}
        if diffs is not None:
            diffs |= self._diffs(packages, answers)
        if conflicts is not None:
            conflicts |= self._conflicts(packages, answers)
        if faults is not None:
            faults |= self._faults(packages, answers)
        self._memory.keep_names(self._fresh)
        rows = []
        for ref in refs:
            home = homes.get(ref.commit)
            answer = answers[home] if home is not None else Answer(error=errors[ref.commit])
            row = Row(
                ref.name, ref.commit, answer.state, answer.cells, answer.error, verified.get(home or "")
            )
            rows.append(row)
        return Matrix(
            str(self._git.path),
            self._patches.ids,
            tuple(rows),
            len({answer.state for answer in answers.values()}),
            examined,
            round(time.perf_counter() - started, 3),
        )

    def _examine(self, packages: dict[str, GitTree], answers: dict[str, Answer]) -> int:
        """Fill in the answer of each package; return how many had to be examined."""
        examined = 0
        open_ones = self._settle(packages, packages, answers)
        while open_ones:
            # What patches name stands in these files; most packages that agree on them agree on all.
            alike: dict[tuple[str | None, ...], str] = {}
            for package in open_ones:
                try:
                    alike.setdefault(tuple(map(packages[package].blob, self._named)), package)
                except TreeError as error:
                    answers[package] = Answer(error=str(error))
            chosen = {package: packages[package].ref for package in alike.values()}
            done = len(packages) - len(open_ones)
            share = len(open_ones) / max(1, len(chosen))
            worker = _Worker(self._git.path, tuple(self._patches), self._known | self._fresh)
            for package, outcome in _run(worker, "examine", list(chosen.items()), self._jobs):
                examined += 1
                if isinstance(outcome, str):
                    answers[package] = Answer(error=outcome)
                else:
                    asked, answers[package], names = outcome
                    self._fresh |= names
                    self._decisions.add(asked, answers[package])
                    self._memory.keep_answer(asked, answers[package])
                self._watch("examining", round(done + share * examined), len(packages))
            open_ones = self._settle(open_ones, packages, answers)
        self._watch("examining", len(packages), len(packages))
        return examined

    @property
    def _named(self) -> list[str]:
        named = {file for patch in self._patches for edit in patch.edits for file in edit.files}
        return sorted(
            named | {file for patch in self._patches for fact in patch.facts for file in fact.files}
        )

    def _settle(
        self, among: Iterable[str], packages: dict[str, GitTree], answers: dict[str, Answer]
    ) -> list[str]:
        """Answer what earlier examinations settle; return the packages that are left."""
        left = []
        for package in among:
            if package in answers:
                continue
            try:
                found = self._decisions.find(packages[package], self._definitions)
            except TreeError as error:
                found = Answer(error=str(error))
            if found is None:
                left.append(package)
            else:
                answers[package] = found
        return left

    def _verify(self, packages: dict[str, GitTree], answers: dict[str, Answer]) -> dict[str, Verified]:
        verified = self._memory.verified()
        todo = [
            (package, tree.ref)
            for package, tree in packages.items()
            if package not in verified and not answers[package].error
        ]
        worker = _Worker(self._git.path, tuple(self._patches), {}, self._patches.digest)
        for done, (package, outcome) in enumerate(_run(worker, "verify", todo, self._jobs), 1):
            self._watch("verifying", done, len(todo))
            if isinstance(outcome, str):
                verified[package] = Verified(False, (outcome,))
                continue
            verified[package] = outcome
            self._memory.keep_verified(package, outcome)
        return verified

    def _diffs(
        self, packages: dict[str, GitTree], answers: dict[str, Answer]
    ) -> dict[str, tuple[PatchDiff, ...]]:
        found = self._memory.diffs()
        todo = _having(packages, answers, found, "pending", "partial")
        worker = _Worker(self._git.path, tuple(self._patches), {})
        for done, (state, outcome) in enumerate(_run(worker, "diffs", list(todo.items()), self._jobs), 1):
            self._watch("comparing", done, len(todo))
            if not isinstance(outcome, str):
                found[state] = outcome
                self._memory.keep_diffs(state, outcome)
        return found

    def _conflicts(
        self, packages: dict[str, GitTree], answers: dict[str, Answer]
    ) -> dict[str, tuple[Conflict, ...]]:
        found = self._memory.conflicts()
        todo = _having(packages, answers, found, "conflict")
        worker = _Worker(self._git.path, tuple(self._patches), {})
        for done, (state, outcome) in enumerate(_run(worker, "conflicts", list(todo.items()), self._jobs), 1):
            self._watch("looking at conflicts", done, len(todo))
            if not isinstance(outcome, str):
                found[state] = outcome
                self._memory.keep_conflicts(state, outcome)
        return found

    def _faults(self, packages: dict[str, GitTree], answers: dict[str, Answer]) -> dict[str, tuple[str, ...]]:
        found = self._memory.faults()
        todo = _having(packages, answers, found, "pending", "partial")
        worker = _Worker(self._git.path, tuple(self._patches), {})
        for done, (state, outcome) in enumerate(_run(worker, "faults", list(todo.items()), self._jobs), 1):
            self._watch("planning", done, len(todo))
            if isinstance(outcome, str):
                found[state] = (outcome,)
                continue
            found[state] = outcome
            self._memory.keep_faults(state, outcome)
        return found


def _having(
    packages: dict[str, GitTree], answers: dict[str, Answer], known: Container[str], *cells: str
) -> dict[str, str]:
    """Return a ref of each state in which a patch is one of ``cells``, but for those that are known."""
    return {
        answer.state: packages[package].ref
        for package, answer in answers.items()
        if answer.state not in known and any(cell.state in cells for cell in answer.cells)
    }


@dataclass
class _Worker:
    """What a worker process needs to know; the repository is opened in the process that uses it."""

    path: Path
    patches: tuple[Patch, ...]
    names: dict[str, str]
    digest: str = ""
    git: GitRepository | None = None
    definitions: Definitions | None = None
    fresh: dict[str, str] = field(default_factory=dict)

    def open(self) -> GitRepository:
        """Open the repository once a process."""
        if self.git is None:
            self.git = GitRepository(self.path)
            self.definitions = Definitions(self.names.get, self.fresh.__setitem__)
        return self.git

    def examine(self, commit: str) -> tuple[tuple[Asked, ...], Answer, dict[str, str]] | str:
        """Return what an inspection asked, what it came to, and what it learnt of blobs; or why it failed."""
        from patchkit.plan.build import inspect

        tree = GitTree(self.open(), commit)
        definitions = self.definitions or Definitions()
        modules = AskedModules(tree, interest_of(self.patches), definitions)
        try:
            answer = Answer(tuple(map(cell_of, inspect(tree, self.patches, modules))))
        except MissingObjectError as error:
            return str(error)
        except PatchkitError as error:
            answer = Answer(error=str(error))
        except (RecursionError, MemoryError):
            return "a file of this ref nests deeper than can be read: patchkit status on a checkout names it."
        names = dict(self.fresh)
        self.fresh.clear()
        state = hashlib.sha256(repr(modules.asked).encode()).hexdigest()[:16]
        return modules.asked, msgspec.structs.replace(answer, state=state), names

    def diffs(self, commit: str) -> tuple[PatchDiff, ...] | str:
        """Return what each patch would change, or why that cannot be told."""
        from patchkit.plan.build import make_series
        from patchkit.plan.diff import unified

        tree = GitTree(self.open(), commit)
        try:
            _, stages = make_series(tree, self.patches)
        except PatchkitError as error:
            return str(error)
        return tuple(
            PatchDiff(stage.patch.id, change.file, unified(change, change.file).decode(errors="replace"))
            for stage in stages
            for change in stage.changes
        )

    def conflicts(self, commit: str) -> tuple[Conflict, ...] | str:
        """Return the site of each conflict, or why that cannot be told."""
        from patchkit.plan.build import make_plan
        from patchkit.plan.conflict import conflicts

        tree = GitTree(self.open(), commit)
        try:
            return conflicts(tree, make_plan(tree, self.patches, closely=True).patches)
        except PatchkitError as error:
            return str(error)

    def faults(self, commit: str) -> tuple[str, ...] | str:
        """Return what is wrong with the tree that the default patches make; or why none is made."""
        from patchkit.plan.build import inspect, make_plan
        from patchkit.plan.status import State
        from patchkit.tree.tree import OverlayTree

        tree = GitTree(self.open(), commit)
        chosen = tuple(patch for patch in self.patches if patch.default)
        found = []
        try:
            plan = make_plan(tree, chosen)
            changed = {change.file: change.after for change in plan.changes}
            patched = OverlayTree(tree, changed)
            after = {status.patch.id: status for status in inspect(patched, chosen)}
            for change in make_plan(patched, chosen).changes:
                found.append(f"a second apply changes {change.file} ({', '.join(change.patches)})")
        except PatchkitError as error:
            return str(error)
        for status in plan.patches:
            now = after[status.patch.id]
            if status.state is State.PENDING and now.state is not State.APPLIED:
                found.append(f"{now.patch.id} after apply is {now.state.value}: {now.reason}")
        return tuple(found)

    def verify(self, commit: str) -> Verified | str:
        """Return whether the tree verifies with everything applied that can be; or why that was not tried."""
        from patchkit.findings.finding import Confidence
        from patchkit.plan.build import make_plan
        from patchkit.transaction.apply import Transaction
        from patchkit.transaction.laid_out import lay_out
        from patchkit.tree.tree import open_tree
        from patchkit.verify.engine import verify
        from patchkit.verify.result import Outcome
        from patchkit.verify.subject import Subject, Terms

        try:
            with tempfile.TemporaryDirectory(prefix="patchkit-") as folder:
                lay_out(GitTree(self.open(), commit), Path(folder) / "sglang", ".py")
                tree = open_tree(Path(folder))
                chosen = tuple(patch for patch in self.patches if patch.default)
                Transaction(tree, self.digest, allow_dirty=True).commit(make_plan(tree, chosen))
                verdict = verify(Subject(tree, self.patches, Terms(Confidence.LIKELY)))
        except PatchkitError as error:
            return str(error)
        failed = [result for result in verdict.results if result.outcome is Outcome.FAILED]
        return Verified(verdict.passed, tuple(f"{result.title}: {result.summary}" for result in failed))


_worker: _Worker | None = None


def _begin(worker: _Worker) -> None:
    global _worker  # noqa: PLW0603  # one worker a process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that started this one ends it.
    _worker = worker


def _do(method: str, commit: str) -> Any:
    assert _worker is not None
    return getattr(_worker, method)(commit)


def _run(worker: _Worker, method: str, tasks: list[tuple[str, str]], jobs: int) -> Iterable[tuple[str, Any]]:
    """Yield each task's outcome; a process takes neighbours, whose files it knows, until another's are left."""
    lanes = [deque(lane) for lane in _split(tasks, max(1, min(jobs, len(tasks))))]
    pools = [_pool(worker) for _ in lanes]
    running: dict[Future[Any], tuple[int, str]] = {}
    try:
        for lane in range(len(lanes)):
            _submit(lane, lanes, pools, running, method)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                lane, package = running.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    outcome = "the process that read this ref was killed: try again with more memory."
                    pools[lane] = _pool(worker)
                _submit(lane, lanes, pools, running, method)
                yield package, outcome
    finally:
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)


def _pool(worker: _Worker) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, initializer=_begin, initargs=(worker,))


def _split(tasks: list[tuple[str, str]], count: int) -> list[list[tuple[str, str]]]:
    return [tasks[len(tasks) * n // count : len(tasks) * (n + 1) // count] for n in range(count)]


def _submit(
    lane: int,
    lanes: Sequence[deque[tuple[str, str]]],
    pools: Sequence[ProcessPoolExecutor],
    running: dict[Future[Any], tuple[int, str]],
    method: str,
) -> None:
    if lanes[lane]:
        package, commit = lanes[lane].popleft()
    else:
        longest = max(lanes, key=len)
        if not longest:
            return
        package, commit = longest.pop()
    running[pools[lane].submit(_do, method, commit)] = lane, package

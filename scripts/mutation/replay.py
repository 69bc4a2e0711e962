"""The trees that tests drive, made once; what they answered is not asked again where nothing can have changed."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .notes import Answer, Driven
from .startup.sitecustomize import FILES, FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from .notes import Notes, Trial

# The modules that mutants are made of.
RUNTIME = ("patchkit/runtime", "patchkit/backends")


class Replay:
    """Stands between the tests and their modules ``trees`` and ``releases``."""

    def __init__(
        self, trial: Trial, notes: Notes, maker: Callable[[], str], trees: Any, releases: Any
    ) -> None:
        """Take over; ``maker`` names who is making a tree."""
        self._trial, self._notes, self._maker, self._trees = trial, notes, maker, trees
        self._prepare, self._ask, self._run = trees.DrivenTree.__init__, trees.Worker.ask, releases.run
        self._applied: dict[Path, Driven] = {}
        self._patched: dict[Path, list[str]] = {}
        self._names: dict[Path, str] = {}
        replay = self

        def prepare(tree: Any, name: str, make: Callable[[], Path]) -> None:
            unique = f"{name} ({replay._maker()})"
            replay._prepare(tree, name, lambda: replay._made(unique, make))

        def ask(worker: Any, probe: str, requests: Any) -> Any:
            return replay._answer(worker, probe, requests)

        trees.DrivenTree.__init__, trees.Worker.ask = prepare, ask
        releases.run = trees.run = self._run_and_note

    def _made(self, name: str, make: Callable[[], Path]) -> Path:
        known = self._notes.trees
        if self._trial.calls:
            assert name not in known, f"two trees are called {name}"
            root = make()
            known[name] = self._applied.get(root, Driven(str(root)))
            self._patched[root] = _different(root, known[name].before)
            self._watch()
        else:
            root = Path(self._trial.roots.get(name, known[name].root)) if name in known else make()
        self._names[root] = name
        return root

    def _run_and_note(self, *arguments: Any, **keywords: Any) -> Any:
        if self._trial.calls and arguments[0] == "apply":
            root = Path(arguments[1])
            before = root.with_name(f"{root.name}-before")
            shutil.copytree(root, before)
            self._applied[root] = Driven(str(root), str(before), tuple(arguments[2:]))
        return self._run(*arguments, **keywords)

    def _answer(self, worker: Any, probe: str, requests: Any) -> Any:
        tree = self._names[worker.root]
        digest = hashlib.sha256(pickle.dumps((tree, probe, requests))).hexdigest()
        answers = self._notes.answers
        if digest in answers and not self._trial.may_change(self._notes, tree, digest):
            kind, said = pickle.loads(answers[digest].pickled)
        else:
            kind, said = self._asked(worker, probe, requests)
        if self._trial.calls:
            test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
            self._notes.questions.setdefault(test, []).append((tree, digest))
            if digest not in answers:
                answers[digest] = Answer(pickle.dumps((kind, said)), self._called(worker.root, tree))
        if kind == "error":
            raise self._trees.ProbeError(*said)
        if kind == "died":
            raise self._trees.WorkerDiedError(said)
        return said

    def _asked(self, worker: Any, probe: str, requests: Any) -> tuple[str, Any]:
        try:
            return "answers", self._ask(worker, probe, requests)
        except self._trees.ProbeError as error:
            return "error", (error.kind, error.message, error.trace)
        except self._trees.WorkerDiedError as error:
            return "died", str(error)

    def _called(self, root: Path, tree: str) -> tuple[str, ...]:
        """Return the functions that answering called, and note those that importing did."""
        called: set[str] = set()
        for path in Path(self._trial.calls).glob("*-*"):
            called |= self._functions(path, root)
            parent = path.with_name(path.name.partition("-")[0])
            self._notes.imports[tree] = sorted(self._functions(parent, root))
            path.unlink()
        return tuple(sorted(called))

    def _watch(self) -> None:
        """Have the processes started from now on note what they call in the files that mutants can be in."""
        files = [f"{root}/{file}" for root, patched in self._patched.items() for file in patched]
        for package in RUNTIME:
            files += map(str, Path(self._trial.checkout, package).glob("*.py"))
        os.environ |= {FOLDER: self._trial.calls, FILES: os.pathsep.join(files)}

    def _functions(self, path: Path, root: Path) -> set[str]:
        """Read which functions were called, each also as some function of its file."""
        found = set()
        for line in path.read_text().splitlines():
            file, _, function = line.partition("\t")
            place = Path(file)
            inside = place.relative_to(root if place.is_relative_to(root) else self._trial.checkout)
            found |= {f"{inside}:{function}", f"{inside}:"}
        return found


def _different(root: Path, before: str) -> list[str]:
    """Return the Python files of a tree that are not as they were before patches were applied to it."""
    if not before:
        return []
    files = [path.relative_to(root) for path in root.rglob("*.py")]
    return [file.as_posix() for file in files if _content(root / file) != _content(before / file)]


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""

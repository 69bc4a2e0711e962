"""Loaded into the pytest that looks at a mutant: asks trees only what depends on it, and writes down what noticed it.

The file that MUTATION_TRIAL names holds a `Trial`. The clean run notes which trees tests drive and what they
answer; later runs find those trees made, and ask only the ones that a mutant is in.
"""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import Phase, settings

import patchkit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE = "MUTATION_TRIAL"
PROFILE = "mutation"

# That a mutant is noticed is enough; the smallest example that notices it is not looked for.
settings.register_profile(PROFILE, settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))


class Driven(msgspec.Struct):
    """A tree that tests drive: where it lies and, if patches were applied to it, which and to what."""

    root: str
    before: str = ""
    patches: tuple[str, ...] = ()


class Trial(msgspec.Struct):
    """What a run of pytest is told."""

    checkout: str
    """The folder whose patchkit it has to be."""
    verdict: str
    """Where to write which test failed first."""
    notes: str
    """Where the clean run's notes are."""
    is_clean: bool = False
    """Whether this run writes them."""
    roots: dict[str, str] = {}
    """Where trees lie, by the clean run's names for them, other than where that left them."""
    asked: tuple[str, ...] = ()
    """The trees whose answers may differ from the clean run's."""
    runtime: bool = False
    """Whether the answers of probes that import patchkit themselves may differ, in any tree."""
    first: tuple[str, ...] = ()
    """Tests to begin with."""


class Notes(msgspec.Struct):
    """What the clean run found out."""

    trees: dict[str, Driven] = {}
    answers: dict[bytes, bytes] = {}
    """A pickled result by a pickled question."""
    seconds: dict[str, float] = {}
    """How long each test took, and each module of tests."""


class Verdict(msgspec.Struct):
    """The first failure."""

    test: str
    said: str


def pytest_configure(config: pytest.Config) -> None:
    """Begin; the mutant has to be in what tests import."""
    trial = msgspec.json.decode(Path(os.environ[VARIABLE]).read_bytes(), type=Trial)
    imported = Path(patchkit.__file__).parents[1]
    assert imported == Path(trial.checkout), f"{imported} would be tested instead of {trial.checkout}"
    config.pluginmanager.register(_Watcher(trial))


class _Watcher:
    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.notes = Notes()
        self.fixtures: list[str] = []
        if not trial.is_clean:
            self.notes = msgspec.msgpack.decode(Path(trial.notes).read_bytes(), type=Notes)

    def pytest_collection(self) -> None:
        # Test modules import these names later, and find what is put there now.
        if "trees" in sys.modules:
            self._take_over(sys.modules["trees"], sys.modules["releases"])

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Iterator[Any]:
        place = (fixturedef.baseid, fixturedef.argname, request.node.nodeid, request.param_index)
        self.fixtures.append(" ".join(map(str, place)))
        try:
            return (yield)
        finally:
            self.fixtures.pop()

    def _maker(self) -> str:
        """Return which fixture, or else which test, is making a tree; the order of tests may differ."""
        return self.fixtures[-1] if self.fixtures else os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put likely killers first, then what is done soon; a module's tests share trees and stay together."""
        rank = {name: index for index, name in enumerate(self.trial.first)}
        seconds = self.notes.seconds

        def key(item: pytest.Item) -> tuple[float, float, str, float]:
            module = item.nodeid.partition("::")[0]
            place = rank.get(item.nodeid, len(rank))
            return place, seconds.get(module, 0.0), module, seconds.get(item.nodeid, 0.0)

        items.sort(key=key)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._judge(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.trial.is_clean:
            for name in (report.nodeid, report.nodeid.partition("::")[0]):
                self.notes.seconds[name] = self.notes.seconds.get(name, 0.0) + report.duration
        self._judge(report)

    def _judge(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        path = Path(self.trial.verdict)
        if report.failed and not path.exists():
            lines = report.longreprtext.splitlines()
            said = next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1])
            path.write_bytes(msgspec.json.encode(Verdict(report.nodeid, said)))

    def pytest_sessionfinish(self) -> None:
        if self.trial.is_clean:
            Path(self.trial.notes).write_bytes(msgspec.msgpack.encode(self.notes))

    def _take_over(self, trees: Any, releases: Any) -> None:
        """Let the tests' module ``trees`` hand out trees that are there and answers that are known."""
        watcher, notes, roots = self, self.notes, self.trial.roots
        probes = Path(trees.__file__).with_name("probes")
        prepare, ask, run = trees.DrivenTree.__init__, trees.Worker.ask, releases.run
        applied: dict[Path, Driven] = {}
        names: dict[Path, str] = {}

        def prepare_or_find(tree: Any, name: str, make: Callable[[], Path]) -> None:
            unique = f"{name} ({watcher._maker()})"

            def found() -> Path:
                if watcher.trial.is_clean:
                    assert unique not in notes.trees, f"two trees are called {unique}"
                    root = make()
                    notes.trees[unique] = applied.get(root, Driven(str(root)))
                elif unique in notes.trees:
                    root = Path(roots.get(unique, notes.trees[unique].root))
                else:
                    root = make()
                names[root] = unique
                return root

            prepare(tree, name, found)

        def run_and_note(*arguments: Any, **keywords: Any) -> Any:
            if watcher.trial.is_clean and arguments[0] == "apply":
                root = Path(arguments[1])
                before = root.with_name(f"{root.name}-before")
                shutil.copytree(root, before)
                applied[root] = Driven(str(root), str(before), tuple(arguments[2:]))
            return run(*arguments, **keywords)

        def answer(worker: Any, probe: str, requests: Any) -> Any:
            question = pickle.dumps((names[worker.root], probe, requests))
            may_differ = names[worker.root] in watcher.trial.asked or (
                watcher.trial.runtime and imports_patchkit(probe.partition(".")[0], probes)
            )
            if question in notes.answers and not may_differ:
                kind, said = pickle.loads(notes.answers[question])
            else:
                kind, said = _asked(trees, lambda: ask(worker, probe, requests))
                if watcher.trial.is_clean:
                    notes.answers[question] = pickle.dumps((kind, said))
            if kind == "error":
                raise trees.ProbeError(*said)
            if kind == "died":
                raise trees.WorkerDiedError(said)
            return said

        trees.DrivenTree.__init__, trees.Worker.ask = prepare_or_find, answer
        releases.run = trees.run = run_and_note


def _asked(trees: Any, ask: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "answers", ask()
    except trees.ProbeError as error:
        return "error", (error.kind, error.message, error.trace)
    except trees.WorkerDiedError as error:
        return "died", str(error)


@functools.cache
def imports_patchkit(probe: str, folder: Path) -> bool:
    """Tell whether a module of probes imports patchkit, itself or by way of another."""
    lines = (folder / f"{probe}.py").read_text(encoding="utf-8").splitlines()
    imports = [line.split() for line in lines if line.lstrip().startswith(("from ", "import "))]
    if any(words[1].partition(".")[0] == "patchkit" for words in imports):
        return True
    words = {part for line in imports for word in line for part in word.strip(",").split(".")}
    others = {path.stem for path in folder.glob("*.py")} - {probe, "__init__"}
    return any(imports_patchkit(other, folder) for other in others & words)

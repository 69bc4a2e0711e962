"""A pytest plugin for runs on mutants: likely killers run first, and the first failure is recorded."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import Phase, settings

import patchkit

from .notes import PROFILE, TRIAL, Notes, Patched, Trial, Verdict

if TYPE_CHECKING:
    import pytest

# One failing example is enough; it need not be minimal.
settings.register_profile(PROFILE, settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))


def pytest_configure(config: pytest.Config) -> None:
    """Start the run. The imported patchkit must be the mutant's."""
    trial = msgspec.json.decode(Path(os.environ[TRIAL]).read_bytes(), type=Trial)
    imported = Path(patchkit.__file__).parents[1]
    assert imported == Path(trial.checkout), f"{imported} would be tested instead of {trial.checkout}"
    config.pluginmanager.register(_Watcher(trial))


class _Watcher:
    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._notes = Notes()
        if Path(trial.notes).exists():
            self._notes = msgspec.msgpack.decode(Path(trial.notes).read_bytes(), type=Notes)

    def pytest_collection(self) -> None:
        # Set before test modules import `run`.
        if self._trial.trees and "support.driven.trees" in sys.modules:
            releases: Any = sys.modules["support.releases"]
            trees: Any = sys.modules["support.driven.trees"]
            run = releases.run

            def run_and_note(*arguments: Any, **keywords: Any) -> Any:
                if arguments[0] == "apply":
                    self._note(Path(arguments[1]), tuple(map(str, arguments[2:])))
                return run(*arguments, **keywords)

            releases.run = trees.run = run_and_note

    def _note(self, root: Path, patches: tuple[str, ...]) -> None:
        """Save a tree before patches are applied to it."""
        name = f"{root.parent.name}/{root.name}"
        assert name not in self._notes.trees, f"two trees are called {name}"
        before = root.with_name(f"{root.name}-before")
        shutil.copytree(root, before)
        self._notes.trees[name] = Patched(str(before), patches)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run likely killers first, then the fastest modules.

        The tests of a module share trees and stay together.
        """
        rank = {name: index for index, name in enumerate(self._trial.first)}
        seconds = self._notes.seconds

        def key(item: pytest.Item) -> tuple[int, float, str, float]:
            module = item.nodeid.partition("::")[0]
            place = rank.get(item.nodeid, len(rank))
            return place, seconds.get(module, 0.0), module, seconds.get(item.nodeid, 0.0)

        items.sort(key=key)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._judge(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._trial.clean:
            for name in (report.nodeid, report.nodeid.partition("::")[0]):
                self._notes.seconds[name] = self._notes.seconds.get(name, 0.0) + report.duration
        self._judge(report)

    def _judge(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        path = Path(self._trial.verdict)
        if report.failed and not path.exists():
            lines = report.longreprtext.splitlines()
            message = next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1])
            path.write_bytes(msgspec.json.encode(Verdict(report.nodeid, message)))

    def pytest_sessionfinish(self) -> None:
        if self._trial.clean:
            Path(self._trial.notes).write_bytes(msgspec.msgpack.encode(self._notes))

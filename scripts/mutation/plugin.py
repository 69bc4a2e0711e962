"""Loaded into each pytest that looks at a mutant: what may notice it comes first, what did is written down."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import Phase, settings

import patchkit

from .notes import PROFILE, TRIAL, Notes, Trial, Verdict
from .replay import Replay

if TYPE_CHECKING:
    from collections.abc import Iterator

# That a mutant is noticed is enough; the smallest example that notices it is not looked for.
settings.register_profile(PROFILE, settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))


def pytest_configure(config: pytest.Config) -> None:
    """Begin; the mutant has to be in what tests import."""
    trial = msgspec.json.decode(Path(os.environ[TRIAL]).read_bytes(), type=Trial)
    imported = Path(patchkit.__file__).parents[1]
    assert imported == Path(trial.checkout), f"{imported} would be tested instead of {trial.checkout}"
    config.pluginmanager.register(_Watcher(trial))


class _Watcher:
    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._notes = Notes()
        self._fixtures: list[str] = []
        if not trial.calls:
            self._notes = msgspec.msgpack.decode(Path(trial.notes).read_bytes(), type=Notes)

    def pytest_collection(self) -> None:
        # Test modules import from these later, and find what is put there now.
        if "support.driven.trees" in sys.modules:
            Replay(
                self._trial,
                self._notes,
                self._maker,
                sys.modules["support.driven.trees"],
                sys.modules["support.releases"],
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Iterator[Any]:
        place = (fixturedef.baseid, fixturedef.argname, request.node.nodeid, request.param_index)
        self._fixtures.append(" ".join(map(str, place)))
        try:
            return (yield)
        finally:
            self._fixtures.pop()

    def _maker(self) -> str:
        """Return which fixture, or else which test, is making a tree; the order of tests may differ."""
        return self._fixtures[-1] if self._fixtures else os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put likely killers first, then tests that can be, of each what is done soon.

        A module's tests share trees and stay together.
        """
        rank = {name: index for index, name in enumerate(self._trial.first)}
        seconds = self._notes.seconds

        def key(item: pytest.Item) -> tuple[float, bool, float, str, float]:
            module = item.nodeid.partition("::")[0]
            place = rank.get(item.nodeid, len(rank))
            cannot = not self._may_change(item.nodeid)
            return place, cannot, seconds.get(module, 0.0), module, seconds.get(item.nodeid, 0.0)

        items.sort(key=key)

    def _may_change(self, test: str) -> bool:
        questions = self._notes.questions.get(test, [])
        return any(self._trial.may_change(self._notes, tree, digest) for tree, digest in questions)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._judge(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._trial.calls:
            for name in (report.nodeid, report.nodeid.partition("::")[0]):
                self._notes.seconds[name] = self._notes.seconds.get(name, 0.0) + report.duration
        self._judge(report)

    def _judge(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        path = Path(self._trial.verdict)
        if report.failed and not path.exists():
            lines = report.longreprtext.splitlines()
            said = next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1])
            path.write_bytes(msgspec.json.encode(Verdict(report.nodeid, said)))

    def pytest_sessionfinish(self) -> None:
        if self._trial.calls:
            Path(self._trial.notes).write_bytes(msgspec.msgpack.encode(self._notes))

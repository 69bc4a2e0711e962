"""A tree's own decision about the mirror, evaluated with a server's backends and settings, and with others."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

from patchkit.doctor.components import ALGORITHM
from patchkit.doctor.evaluation.values import Bound, Instance
from patchkit.tree import mirror
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.doctor.components import Components
    from patchkit.doctor.evaluation.evaluator import FunctionEvaluator
    from patchkit.doctor.objects import Settings
    from patchkit.tree.index import Function, Program


class NoDecisionError(Exception):
    """The scheduler makes no decision about the mirror."""


class _DecidedError(Exception):
    def __init__(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        self.given = args, named


class ServerDecision:
    """The decision of one server: the tree's function, and the arguments that the scheduler passes to it.

    ``answer`` is whether the server keeps the mirror, with the ``backends`` that it has.
    """

    def __init__(
        self, evaluator: FunctionEvaluator, settings: Settings, function: Any, args: Sequence[Any]
    ) -> None:
        self._evaluator = evaluator
        self._settings = settings
        self._function = function
        self._others = args[:-1]
        settings.read.clear()
        self.backends = tuple(evaluator.listed(args[-1]))
        self.answer = self._keeps(self.backends)
        self._neutral = self._neutral_values()

    def forced(self) -> Iterator[str]:
        """Yield the settings that keep the mirror with any backends, an empty name if the setting is unknown."""
        if not self._keeps(()):
            return
        neutral = self._neutral
        if neutral is None:
            yield ""
            return
        values = self._settings.values
        actual = dict(values)
        for name in neutral:
            values.update(neutral)
            values[name] = actual[name]
            keeps = actual[name] != neutral[name] and self._keeps(())
            values.update(actual)
            if keeps:
                yield name

    def reads(self, backend: Any) -> bool:
        """Return whether the mirror is kept for a backend, whatever the settings are."""
        values = self._settings.values
        actual = dict(values)
        try:
            values.update(self._neutral or {})
            return self._keeps((backend,))
        finally:
            values.update(actual)

    def _keeps(self, backends: Sequence[Any]) -> bool:
        return self._evaluator.truth(self._evaluator.call(self._function, (*self._others, backends)))

    def _neutral_values(self) -> dict[str, Any] | None:
        """Return values for the settings that the decision reads with which none of them keeps the mirror."""
        values = self._settings.values
        read = sorted(name for name in self._settings.read if isinstance(values[name], bool))
        varied = (*read, ALGORITHM)
        actual = dict(values)
        # The values that a decision has read decide it, whatever the others are.
        keeping: list[dict[str, Any]] = []
        try:
            for tried in itertools.product((False, True), repeat=len(read)):
                for algorithm in (actual.get(ALGORITHM), "EAGLE"):
                    values.update(zip(varied, (*tried, algorithm), strict=True))
                    if any(all(values[name] == held[name] for name in held) for held in keeping):
                        continue
                    self._settings.read.clear()
                    if not self._keeps(()):
                        return {name: values[name] for name in varied}
                    keeping.append({name: values[name] for name in varied if name in self._settings.read})
        finally:
            values.update(actual)
        return None


def decision(
    evaluator: FunctionEvaluator,
    values: dict[str, Any],
    settings: Settings,
    components: Components,
) -> ServerDecision:
    """Return the decision that a server's scheduler calls for. Raise NoDecisionError if it calls for none.

    ``values`` are the names that the evaluator does not evaluate; the function is one of them while the scheduler runs.
    """
    init = evaluator.program.value("asks", lambda: _decision_call(evaluator.program))
    if init is None:
        raise NoDecisionError
    function, name = init
    scheduler = Instance(None, components.scheduler(), name="scheduler")

    def record_call(_: FunctionEvaluator, *args: Any, **named: Any) -> None:
        raise _DecidedError(args, named)

    values[name] = record_call
    try:
        evaluator.call(Bound(function), (scheduler,))
    except _DecidedError as decided:
        args, named = decided.given
    else:
        raise NoDecisionError
    finally:
        del values[name]
    if "attn_backends" in named:
        args = (*args, named["attn_backends"])
    return ServerDecision(evaluator, settings, evaluator.attribute(function.module, name), args)


def _decision_call(program: Program) -> tuple[Function, str] | None:
    """Return the method that calls for the decision, and the name of the function that makes it."""
    for module in program.core:
        for function in module.all_functions():
            named = function.owner is not None and mirror.FLAG in function.source
            for node in walk(function.node) if named else ():
                name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                if mirror.FLAG in name and name != mirror.FLAG:
                    return function, name
    return None

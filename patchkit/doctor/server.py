"""Evaluate a tree's own decision about the mirror for a server with given settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from patchkit.doctor import registry
from patchkit.doctor.components import ALGORITHM, Components
from patchkit.doctor.decision import NoDecisionError, decision
from patchkit.doctor.declared import declared
from patchkit.doctor.evaluation.builtin import BUILTINS
from patchkit.doctor.evaluation.evaluator import FunctionEvaluator
from patchkit.doctor.evaluation.values import Instance, RaisedError, UndecidedError
from patchkit.doctor.objects import EnvironmentVariables, Settings, Values
from patchkit.doctor.outcome import Reader, Role, ServerOutcome
from patchkit.doctor.questions import fact_of
from patchkit.errors import TreeError
from patchkit.tree import mirror

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from patchkit.audit.runners import AuditedProgram
    from patchkit.doctor.launch import Case, Launch
    from patchkit.doctor.outcome import Outcomes

DISABLE = "PATCHKIT_DISABLE"
# Conditions that are assumed to be false: the machine has a GPU of NVIDIA.
_FALSE = (
    "is_hip",
    "is_npu",
    "is_cpu",
    "is_mps",
    "is_xpu",
    "is_musa",
    "use_mlx",
    "is_blackwell",
    "check_gguf_file",
)


def outcomes(program: AuditedProgram, launch: Launch) -> Outcomes:
    """Return a launch's outcome in each of its cases; only those that start, if any do."""
    servers: list[tuple[_Server, ServerOutcome]] = []
    case_outcomes: Outcomes = []
    for case in launch.cases:
        # What no code has asked makes no difference.
        outcome = next((outcome_of for server, outcome_of in servers if server.answers_for(case)), None)
        if outcome is None:
            server = _Server(program, case, launch.environment)
            outcome = server.outcome()
            servers.append((server, outcome))
        case_outcomes.append((case.answers, replace(outcome, setting=case.value)))
    starting = [(answers, outcome) for answers, outcome in case_outcomes if outcome.refused is None]
    return starting or case_outcomes


def without_speculation(program: AuditedProgram, launch: Launch) -> Outcomes:
    """Return the outcomes of a launch without speculation, in which no backend is made."""
    return [(case.answers, _Server(program, case, launch.environment).resolved()) for case in launch.cases]


class _Server:
    """One server on one tree: a case of a launch."""

    def __init__(self, program: AuditedProgram, case: Case, variables: Mapping[str, str]) -> None:
        self._program = program
        self._case = case
        self._variables = variables
        values = Values(case.settings)
        self._values = values
        self._asked: dict[str, bool] = {}
        self._known: dict[str, Any] = {}
        self._evaluator = FunctionEvaluator(program, self._known, self._ask)
        declaration = program.value("declared", lambda: declared(program, program.sources.items, "the tree"))
        self._settings = Settings(declaration.cls, values, derived=declaration.derived(program))
        environment = EnvironmentVariables(variables, registry.environment_defaults(program))
        self._components = Components(self._evaluator, self._settings, environment)
        self._known |= self._natives(environment)
        if isinstance(values.get(ALGORITHM), str):
            values[ALGORITHM] = str(values[ALGORITHM]).upper()

    def answers_for(self, case: Case) -> bool:
        """Return whether another case has the same outcome: all that was asked of this one is the same there."""
        settings, others = self._case.settings, case.settings
        return all(settings.get(name) == others.get(name) for name in self._values.read) and all(
            case.facts.get(fact, False) is holds for fact, holds in self._asked.items()
        )

    def _ask(self, question: str) -> bool:
        fact, answer = fact_of(question) or ("", True)
        if fact:
            self._asked[fact] = self._case.facts.get(fact, False)
            return self._asked[fact] is answer
        # An unknown backend needs the mirror, as one without the flag does.
        return question.endswith(mirror.FLAG)

    # The outcome.

    def outcome(self) -> ServerOutcome:
        """Return the server's outcome. Raise TreeError if a part of it cannot be evaluated."""
        try:
            outcome = self._outcome()
        except UndecidedError as error:
            raise TreeError(
                f"doctor cannot evaluate this tree's decision about the mirror: {error}", where=error.where
            ) from error
        if not outcome.overlap and self._case.value(ALGORITHM):
            outcome.worker = self._components.worker()
        return outcome

    def resolved(self) -> ServerOutcome:
        """Return the backends of a server without speculation, and the settings that it resolves to."""
        sides = zip(("prefill", "decode"), self._components.sides(), strict=True)
        roles = tuple(Role(role, name, "", reads=True) for role, name in sides)
        return ServerOutcome(kept=True, roles=roles, setting=self._case.value)

    def _outcome(self) -> ServerOutcome:
        overlap = not self._settings.values.get("disable_overlap_schedule")
        try:
            self._components.require_known()
            decided = decision(self._evaluator, self._known, self._settings, self._components)
            forced = tuple(decided.forced())
            roles = tuple(self._components.roles(decided.reads))
            readers = tuple(self._readers(decided.backends))
            others = [backend for backend in decided.backends if not isinstance(backend, Instance)]
            unnamed = any(backend is not None for backend in others) and decided.reads(others[0])
        except RaisedError as error:
            return ServerOutcome(kept=True, overlap=overlap, refused=error)
        except NoDecisionError:
            return self._outcome_without_decision(overlap)
        kept = decided.answer or not overlap
        return ServerOutcome(kept, overlap, True, forced, roles, readers, unnamed, answer=decided.answer)

    def _readers(self, backends: Iterable[Any]) -> Iterator[Reader]:
        for instance in backends:
            if (
                isinstance(instance, Instance)
                and instance.cls is not None
                and instance.cls.name == Reader.__name__
            ):
                texts = [self._evaluator.attribute(instance, name) for name in ("name", "why")]
                yield Reader(*map(str, texts))

    def _outcome_without_decision(self, overlap: bool) -> ServerOutcome:
        try:
            roles = tuple(self._components.roles(self._flag))
        except RaisedError as error:
            return ServerOutcome(kept=True, overlap=overlap, decided=False, refused=error)
        return ServerOutcome(kept=True, overlap=overlap, decided=False, roles=roles)

    def _flag(self, backend: Any) -> bool:
        try:
            return self._evaluator.truth(self._evaluator.attribute(backend, mirror.FLAG))
        except UndecidedError:
            return True

    # Names that are not evaluated from the tree.

    def _natives(self, environment: EnvironmentVariables) -> dict[str, Any]:
        off = {name.strip() for name in self._variables.get(DISABLE, "").split(",")}
        return (
            dict.fromkeys(registry.contexts(self._program), self._context)
            | dict.fromkeys(_FALSE, lambda *_: False)
            | BUILTINS
            | {
                "disabled": lambda _, patch: patch in off,
                "report": lambda *_: None,
                "warn": lambda *_: None,
                registry.BACKENDS: tuple(self._components.makers()),
                "envs": environment,
                "get_global_server_args": lambda _: self._settings,
                # Resolved values are in the settings themselves here.
                "resolved_view": lambda _, settings: settings,
                "resolving_view": lambda _, settings: settings,
                "is_cuda": lambda _: True,
                "get_bool_env_var": lambda _, name, default="false": (
                    self._variables.get(name, default).lower() in ("1", "true")
                ),
            }
        )

    def _context(self, _: FunctionEvaluator, *args: Any, **named: Any) -> Any:
        # None of them has a parameter: a function of the same name that has one is another.
        return NotImplemented if args or named else self._settings.view()

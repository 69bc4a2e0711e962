"""Evaluate a tree's own decision about the mirror for a server with given settings."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, Any

from patchkit.doctor import registry
from patchkit.doctor.components import ALGORITHM, Components
from patchkit.doctor.decision import NoDecisionError, decision
from patchkit.doctor.declared import declared
from patchkit.doctor.evaluation.builtin import BUILTINS
from patchkit.doctor.evaluation.evaluator import FunctionEvaluator
from patchkit.doctor.evaluation.memory import KnownValues
from patchkit.doctor.evaluation.values import Instance, RaisedError, UndecidedError, Unknown, is_plain
from patchkit.doctor.objects import EnvironmentVariables, Settings
from patchkit.doctor.outcome import Reader, Role, ServerOutcome
from patchkit.doctor.questions import explore, fact_of
from patchkit.errors import TreeError
from patchkit.patchset import condition
from patchkit.tree import mirror

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patchkit.doctor.launch import Launch
    from patchkit.tree.index import Program

ASSUMED = "fa3"
DISABLE = "PATCHKIT_DISABLE"
# The methods that settle a server's settings as it starts: the constructor's or, in later trees, one of its own.
_STARTS = ("__post_init__", "resolve_once")
_SETTLED = frozenset(
    {
        "disable_overlap_schedule",
        "disable_piecewise_cuda_graph",
        "enable_breakable_cuda_graph",
        "enable_two_batch_overlap",
        "speculative_algorithm",
        "speculative_draft_attention_backend",
        "speculative_eagle_topk",
        "speculative_num_steps",
    }
)
"""Settings that a server changes as it starts, and that its decision or its workers and backends read."""
_ASKED = _SETTLED - {"speculative_algorithm", "speculative_eagle_topk", "speculative_num_steps"}
"""Those whose value alone may free or keep the mirror."""
# Conditions on the name of a model, which is assumed to be one that no tree names.
_ONE_MODEL = re.compile(r"\.(architectures|model_type)\b")
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


def outcomes(
    program: Program, launch: Launch, memory: KnownValues | None = None
) -> list[tuple[dict[str, bool], ServerOutcome]]:
    """Return a launch's outcome for each kind of model that makes a difference; only those that start, if any do.

    ``memory`` caches values that depend on the program alone.
    """
    shared = KnownValues() if memory is None else memory
    found = explore(lambda answers: _Server(program, launch, answers, shared).outcome())
    starting = [(answers, outcome) for answers, outcome in found if outcome.refused is None]
    return starting or found


def without_speculation(program: Program, launch: Launch) -> ServerOutcome:
    """Return the outcome of a launch without speculation, in which no backend is made."""
    return _Server(program, launch, {}, KnownValues()).settled()


class _Server:
    """One server on one tree, with one kind of model."""

    def __init__(
        self, program: Program, launch: Launch, answers: dict[str, bool], memory: KnownValues
    ) -> None:
        self._program = program
        self._launch = launch
        self._answers = answers
        self._memory = memory
        values = dict(launch.defaults) | dict(launch.given)
        if not values.get("attention_backend"):
            sides = {values.get(f"{side}_attention_backend") for side in ("prefill", "decode")}
            values["attention_backend"] = ASSUMED if None in sides else None
        if not values.get("device", "cuda"):
            values["device"] = "cuda"
        self._known: dict[str, Any] = {}
        self._evaluator = FunctionEvaluator(program, self._known, self._ask, memory)
        self._declaration = memory.value(
            "declared", lambda: declared(program, program.sources.items, "the tree")
        )
        derived = self._declaration.derived(program)
        self._settings = Settings(self._declaration.cls, values, derived=derived)
        environment = EnvironmentVariables(launch, registry.environment_defaults(program))
        self._components = Components(self._evaluator, self._settings, self._setting, environment, memory)
        self._known |= self._natives(environment)
        self._unsettled = set(_SETTLED)
        self._settling = False
        self._assumed: bool | None = None
        if isinstance(values.get(ALGORITHM), str):
            values[ALGORITHM] = str(values[ALGORITHM]).upper()
        self._given = dict(values)
        self._settle(ALGORITHM)
        self._given[ALGORITHM] = values.get(ALGORITHM)
        self._settings.settle = self._settle

    def _ask(self, question: str) -> bool:
        fact, answer = fact_of(question) or ("", True)
        if self._assumed is not None and fact not in self._answers:
            return self._assumed and _ONE_MODEL.search(question) is None
        if fact:
            return self._answers.setdefault(fact, False) is answer
        # An unknown backend needs the mirror, as one without the flag does.
        return question.endswith(mirror.FLAG)

    def _settle(self, name: str) -> None:
        """Set a setting to the value that a server settles on as it starts, from all given settings."""
        if name in self._unsettled and name in self._given and not self._settling:
            self._unsettled.discard(name)
            value = self._settled(name)
            is_asked = isinstance(value, Unknown) and name in _ASKED
            self._settings.values[name] = self._unknown_value(name) if is_asked else value

    def _settled(self, name: str) -> Any:
        """Return the value of a setting after the statements that set it, run with all given settings."""
        values = self._settings.values
        before = dict(values)
        values.update(self._given)
        self._settling = True
        for each in _STARTS:
            method = self._evaluator.method_of(self._settings.cls, each, self._settings)
            if method is not None:
                self._evaluator.settle(method.function, self._settings, frozenset({name}))
        self._settling = False
        value = values.get(name)
        values.clear()
        values.update(before)
        return value

    def _value(self, name: str) -> Any:
        """Return a setting after the start, ``condition.UNKNOWN`` if it depends on what is not known before it."""
        if name == ALGORITHM:
            return self._settings.values.get(name)
        item = self._declaration.fields.get(name)
        if name not in self._launch.given and item is not None and not isinstance(item.value, ast.Constant):
            return condition.UNKNOWN
        found = []
        for self._assumed in (False, True):
            found.append(self._settled(name))
        self._assumed = None
        return found[0] if is_plain(found[0]) and found[0] == found[1] else condition.UNKNOWN

    def _unknown_value(self, name: str) -> Any:
        """Return a value for a setting that is settled in an unknown way; which one is a question."""
        given = self._given[name]
        if not self._answers.setdefault(f"a value of its own for --{name.replace('_', '-')}", False):
            return given
        return not given if isinstance(given, bool) else Unknown(name)

    def _setting(self, name: str) -> Any:
        self._settle(name)
        return self._settings.values.get(name)

    # The outcome.

    def outcome(self) -> ServerOutcome:
        """Return the server's outcome. Raise TreeError if a part of it cannot be evaluated."""
        try:
            found = self._outcome()
        except UndecidedError as error:
            raise TreeError(
                f"doctor cannot evaluate this tree's decision about the mirror: {error}", where=error.where
            ) from error
        found.setting = functools.cache(self._value)
        if not found.overlap and found.setting(ALGORITHM):
            found.worker = self._components.worker()
        return found

    def settled(self) -> ServerOutcome:
        """Return the backends of a server without speculation, and the settings that it settles on."""
        sides = zip(("prefill", "decode"), self._components.sides(), strict=True)
        roles = tuple(Role(role, name, "", reads=True) for role, name in sides)
        return ServerOutcome(kept=True, roles=roles, setting=functools.cache(self._value))

    def _outcome(self) -> ServerOutcome:
        overlap = not self._setting("disable_overlap_schedule")
        try:
            self._components.require_known()
            decided = decision(self._evaluator, self._known, self._settings, self._components, self._memory)
            forced = tuple(decided.forced())
            roles = tuple(self._components.roles(decided.reads))
            readers = tuple(self._readers(decided.backends))
            others = [each for each in decided.backends if not isinstance(each, Instance)]
            unnamed = any(each is not None for each in others) and decided.reads(others[0])
        except RaisedError as error:
            return ServerOutcome(kept=True, overlap=overlap, refused=error)
        except NoDecisionError:
            return self._outcome_without_decision(overlap)
        kept = decided.answer or not overlap
        return ServerOutcome(kept, overlap, True, forced, roles, readers, unnamed, answer=decided.answer)

    def _readers(self, backends: Iterable[Any]) -> Iterator[Reader]:
        for each in backends:
            if isinstance(each, Instance) and each.cls is not None and each.cls.name == Reader.__name__:
                texts = [self._evaluator.attribute(each, name) for name in ("name", "why")]
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
        off = {each.strip() for each in self._launch.environment.get(DISABLE, "").split(",")}
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
                # Settled values are in the settings themselves here.
                "resolved_view": lambda _, settings: settings,
                "resolving_view": lambda _, settings: settings,
                "is_cuda": lambda _: True,
                "get_bool_env_var": lambda _, name, default="false": (
                    self._launch.environment.get(name, default).lower() in ("1", "true")
                ),
            }
        )

    def _context(self, _: FunctionEvaluator, *args: Any, **named: Any) -> Any:
        # None of them has a parameter: a function of the same name that has one is another.
        return NotImplemented if args or named else self._settings.view()

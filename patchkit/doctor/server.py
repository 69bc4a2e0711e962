"""Evaluate a tree's own decision about the mirror for a server with given settings."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchkit.doctor.certain import CertainEvaluator, RefusedError, UnendingError
from patchkit.doctor.declared import declared
from patchkit.doctor.evaluate import (
    STRANGE,
    Bound,
    Instance,
    Machine,
    Member,
    RaisedError,
    Unknown,
    explore,
    is_named,
    is_plain,
)
from patchkit.doctor.options import Refusal
from patchkit.patchset import condition
from patchkit.tree import mirror
from patchkit.tree.index import Class
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.doctor.options import Launch
    from patchkit.tree.index import Function, Program

ASSUMED = "fa3"
PLAN_STREAM = "SGLANG_ENABLE_OVERLAP_PLAN_STREAM"
DISABLE = "PATCHKIT_DISABLE"
_ALGORITHM = "speculative_algorithm"
# The backends by name; a name that is not among them is an error.
_REGISTRY = "ATTENTION_BACKENDS"
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

_MLA = "multi-head latent attention (MLA)"
_LLAMA = "the architecture LlamaForCausalLM"
_LLAMA_FOR_CAUSAL_LM = "LlamaForCausalLM"
# An architecture that no tree names.
_NO_SUCH = "NoSuchForCausalLM"
_ANY_MODEL = "model"
# The type of a setting with several values; a launch has the first of them.
_SEVERAL = re.compile(r"(?i)\b(list|tuple|dict|sequence|json)")

# Conditions on a model, the fact that each one tests, and the answer with which the fact holds.
_FACTS = (
    (re.compile(r"attention_arch == .*MLA|use_mla_backend"), _MLA, True),
    (re.compile(r"sliding_window_size is None"), "sliding-window layers", False),
    (re.compile(r"(?i)swa|sliding"), "sliding-window layers", True),
    (re.compile(r"is_local_attention_model"), "local attention", True),
    (re.compile(r"is_encoder_decoder"), "cross attention", True),
    (
        re.compile(r"is_multimodal$|is_piecewise_cuda_graph_disabled_model"),
        "an architecture that sglang runs without piecewise CUDA graphs",
        True,
    ),
    (re.compile(r"architectures\[0\] .*LlamaForCausalLM"), _LLAMA, True),
)
# Conditions that are assumed to be false: the machine has a GPU of NVIDIA.
_ON = ("1", "true", "yes", "y", "on")
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


@dataclass(frozen=True)
class Role:
    """A backend that a server's forwards use: its role, its name, and its class."""

    role: str
    name: str
    cls: str
    reads: bool


_Started = tuple[Refusal | None, Mapping[str, Any]]


@dataclass
class Outcome:
    """The diagnosis of a server with one kind of model; ``refused`` is the error with which it ends.

    ``answer`` is the value of the tree's own decision, None if the tree has none. ``settled`` are the settings after
    the start, ``condition.UNKNOWN`` for a value that is not known before it.
    """

    kept: bool
    overlap: bool = True
    decided: bool = True
    forced: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    unnamed: bool = False
    refused: Refusal | None = None
    answer: bool | None = None
    settled: Mapping[str, Any] = field(default_factory=dict)


def outcomes(
    program: Program, launch: Launch, memory: dict[Any, Any] | None = None
) -> list[tuple[dict[str, bool], Outcome]]:
    """Return a launch's outcome for each kind of model that makes a difference; only those that start, if any do.

    ``memory`` caches values that depend on the program alone.
    """
    shared = {} if memory is None else memory
    found = explore(lambda answers: _Server(program, launch, answers, shared).outcome())
    starting = [(answers, outcome) for answers, outcome in found if outcome.refused is None]
    return starting or found


def without_speculation(program: Program, launch: Launch) -> Outcome:
    """Return the outcome of a launch without speculation, in which no backend is made."""
    return _Server(program, launch, {}, {}).settled()


def makers(program: Program) -> dict[str, Function]:
    """Return the function that makes each attention backend, by the backend's name."""
    found: dict[str, Function] = {}
    for file, text in program.sources.items():
        module = program.module(file) if b"@register_attention_backend(" in text else None
        for function in module.functions.values() if module is not None else ():
            for decorator in function.node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == (
                    "register_attention_backend"
                ):
                    found |= {str(a.value): function for a in decorator.args if isinstance(a, ast.Constant)}
    return found


def algorithms(program: Program) -> list[str]:
    """Return the names of the speculative algorithms."""
    return [name for cls in _classes(program, "SpeculativeAlgorithm") for name in cls.fields]


def _classes(program: Program, name: str) -> list[Class]:
    found = program.classes_named(name)
    if not found:
        for file, text in program.sources.items():
            if f"class {name}".encode() in text:
                module = program.module(file)
                found = [*found, *([module.classes[name]] if module and name in module.classes else [])]
    return list(found)


class _DecidedError(Exception):
    def __init__(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        self.given = args, named


@dataclass
class _Settings:
    """A server's settings, as an object of the tree's class; if ``strict``, another attribute is an error."""

    cls: Class | None
    values: dict[str, Any]
    read: set[str] = field(default_factory=set)
    strict: bool = True
    settle: Callable[[str], None] = lambda _: None
    derived: Mapping[str, Function] = field(default_factory=dict)
    model: Any = field(default_factory=lambda: Unknown("model_config"))
    name: str = "server_args"

    def attribute_of(self, machine: Machine, name: str) -> Any:
        if name in self.values:
            self.settle(name)
            self.read.add(name)
            return self.values[name]
        if name == "get_model_config":
            return lambda _: self.model
        if name == "model_config":
            return self.model
        if name == "use_mla_backend":
            return Unknown("model.use_mla_backend")
        method = machine.method_of(self.cls, name, self)
        if method is not None:
            return machine.call(method) if "property" in method.function.decorators else method
        if self.strict:
            raise AttributeError(name)
        if name in self.derived:
            return machine.call(Bound(self.derived[name]), (self,))
        return self

    def assign(self, name: str, value: Any) -> None:
        self.values[name] = value

    def view(self) -> _Settings:
        """Return the same settings as a runtime context has them: in groups."""
        return _Settings(self.cls, self.values, self.read, False, self.settle, self.derived)


@dataclass
class _Lazy:
    """An object whose attributes are made when they are first read."""

    made: dict[str, Callable[[], Any]]
    name: str
    kept: dict[str, Any] = field(default_factory=dict)

    def attribute_of(self, _: Machine, name: str) -> Any:
        if name not in self.kept:
            self.kept[name] = self.made[name]() if name in self.made else Unknown(f"{self.name}.{name}")
        return self.kept[name]

    def assign(self, name: str, value: Any) -> None:
        self.kept[name] = value


class _Free:
    """A backend of which nothing is known but that it does not need the mirror."""

    name = "backend"

    def attribute_of(self, _: Machine, name: str) -> Any:
        if name == mirror.FLAG:
            return False
        raise AttributeError(name)


@dataclass
class _Environment:
    """``envs`` of a tree: each environment variable with the tree's default."""

    launch: Launch
    defaults: Mapping[str, Any]
    name: str = "envs"

    def attribute_of(self, _: Machine, name: str) -> Any:
        said = self.launch.environment.get(name)
        value = self.defaults.get(name, Unknown(name))
        if said is not None:
            value = said.lower() in _ON if isinstance(value, (bool, Unknown)) else said
        return _Lazy({"get": lambda: lambda _: value, "is_set": lambda: lambda _: said is not None}, name)


class _Server:
    """One server on one tree, with one kind of model."""

    def __init__(
        self, program: Program, launch: Launch, answers: dict[str, bool], memory: dict[Any, Any]
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
        self._machine = Machine(program, self._known, self._ask, memory)
        said = self._machine.remembered(
            "declared", lambda: declared(program, program.sources.items, "the tree")
        )
        self._settings = _Settings(said.cls, values, derived=said.derived(program))
        self._known |= self._natives()
        self._runners = {False: self._runner(drafts=False), True: self._runner(drafts=True)}
        self._unsettled = set(_SETTLED)
        self._settling = False
        self._free: dict[str, Any] | None = None
        if isinstance(values.get(_ALGORITHM), str):
            values[_ALGORITHM] = str(values[_ALGORITHM]).upper()
        self._given = dict(values)
        self._settle(_ALGORITHM)
        self._given[_ALGORITHM] = values.get(_ALGORITHM)
        self._settings.settle = self._settle

    def _ask(self, question: str) -> bool:
        for pattern, fact, so in _FACTS:
            if pattern.search(question):
                return self._answers.setdefault(fact, False) is so
        # An unknown backend needs the mirror, as one without the flag does.
        return question.endswith(mirror.FLAG)

    def _settle(self, name: str) -> None:
        """Set a setting to the value that a server settles on as it starts, from all given settings."""
        starts = [self._machine.method_of(self._settings.cls, each, self._settings) for each in _STARTS]
        if name in self._unsettled and name in self._given and any(starts) and not self._settling:
            self._unsettled.discard(name)
            final = dict(self._settings.values)
            self._settings.values.update(self._given)
            self._settling = True
            for start in filter(None, starts):
                self._machine.settle(start.function, self._settings, frozenset({name}))
            self._settling = False
            value = self._settings.values.get(name)
            final[name] = self._untold(name) if isinstance(value, Unknown) and name in _ASKED else value
            self._settings.values.clear()
            self._settings.values.update(final)

    def _untold(self, name: str) -> Any:
        """Return a value for a setting that is settled in an unknown way; which one is a question."""
        given = self._given[name]
        if not self._answers.setdefault(f"a value of its own for --{name.replace('_', '-')}", False):
            return given
        return not given if isinstance(given, bool) else Unknown(name)

    def _setting(self, name: str) -> Any:
        self._settle(name)
        return self._settings.values.get(name)

    # The outcome.

    def outcome(self) -> Outcome:
        """Return the server's outcome."""
        try:
            found = self._outcome()
        except STRANGE:
            # The rest is unknown if the server does not start.
            refused, _ = self._started()
            if refused is None:
                raise
            return Outcome(kept=True, refused=refused)
        # Settings are settled before backends are made.
        refused, found.settled = self._started()
        found.refused = refused or found.refused
        return found

    def settled(self) -> Outcome:
        """Return the settings that a server without speculation settles on, and the backends that it runs."""
        refused, settled = self._started()
        sides = zip(("prefill", "decode"), self._sides(), strict=True)
        roles = tuple(Role(role, name, "", reads=True) for role, name in sides)
        return Outcome(kept=True, roles=roles, refused=refused, settled=settled)

    def _outcome(self) -> Outcome:
        overlap = not self._setting("disable_overlap_schedule")
        try:
            self._require_known()
            decision, args, named = self._asked()
        except RaisedError as error:
            return Outcome(kept=True, overlap=overlap, refused=Refusal(str(error), error.where, error.filled))
        except _NotAskedError:
            return self._unasked(overlap)
        try:
            self._settings.read.clear()
            backends = tuple(self._machine.listed(args[-1]))
            kept = self._decide(decision, (*args[:-1], backends), named)
            self._free = self._neutral(decision, args, named)
            forced = tuple(self._forced(decision, args, named))
            roles = tuple(self._roles(lambda backend: self._reads(decision, args, named, backend)))
            unnamed = any(
                not isinstance(each, Instance) and each is not None for each in backends
            ) and self._reads(decision, args, named, next(e for e in backends if not isinstance(e, Instance)))
            return Outcome(kept or not overlap, overlap, True, forced, roles, unnamed, answer=kept)
        except RaisedError as error:
            return Outcome(kept=True, overlap=overlap, refused=Refusal(str(error), error.where, error.filled))

    def _unasked(self, overlap: bool) -> Outcome:
        try:
            roles = tuple(self._roles(self._flag))
        except RaisedError as error:
            refused = Refusal(str(error), error.where, error.filled)
            return Outcome(kept=True, overlap=overlap, decided=False, refused=refused)
        return Outcome(kept=True, overlap=overlap, decided=False, roles=roles)

    def _flag(self, backend: Any) -> bool:
        try:
            return self._machine.truth(self._machine.attribute(backend, mirror.FLAG))
        except AttributeError:
            return True

    def _asked(self) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
        """Return the decision and the arguments that the scheduler passes. Raise _NotAskedError if it makes none."""
        init = self._machine.remembered("asks", self._init_overlap)
        if init is None:
            raise _NotAskedError
        function, name = init
        scheduler = Instance(None, self._scheduler(), name="scheduler")

        def asked(_: Machine, *args: Any, **named: Any) -> None:
            raise _DecidedError(args, named)

        self._known[name] = asked
        try:
            self._machine.call(Bound(function), (scheduler,))
        except _DecidedError as found:
            args, named = found.given
            del self._known[name]
            decision = self._machine.attribute(function.module, name)
            if "attn_backends" in named:
                args = (*args, named["attn_backends"])
            return decision, args, {}
        finally:
            self._known.pop(name, None)
        raise _NotAskedError

    def _init_overlap(self) -> tuple[Function, str] | None:
        for module in self._program.core:
            for function in module.all_functions():
                for node in walk(function.node):
                    name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                    if mirror.FLAG in name and name != mirror.FLAG and function.owner is not None:
                        return function, name
        return None

    def _decide(self, decision: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        return self._machine.truth(self._machine.call(decision, args, named))

    def _neutral(self, decision: Any, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return values for the settings that the decision reads with which none of them keeps the mirror."""
        values = self._settings.values
        read = sorted(name for name in self._settings.read if isinstance(values[name], bool))
        varied = (*read, _ALGORITHM)
        actual = dict(values)
        # The values that a decision has read decide it, whatever the others are.
        keeping: list[dict[str, Any]] = []
        try:
            for tried in itertools.product((False, True), repeat=len(read)):
                for algorithm in (actual.get(_ALGORITHM), "EAGLE"):
                    values.update(zip(varied, (*tried, algorithm), strict=True))
                    if any(all(values[name] == held[name] for name in held) for held in keeping):
                        continue
                    self._settings.read.clear()
                    if not self._decide(decision, (*args[:-1], ()), named):
                        return {name: values[name] for name in varied}
                    keeping.append({name: values[name] for name in varied if name in self._settings.read})
        finally:
            values.update(actual)
        return None

    def _forced(self, decision: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Iterator[str]:
        """Yield the settings that keep the mirror with any backends, an empty name if the setting is unknown."""
        if not self._decide(decision, (*args[:-1], ()), named):
            return
        neutral = self._free
        if neutral is None:
            yield ""
            return
        values = self._settings.values
        actual = dict(values)
        for name in neutral:
            values.update(neutral)
            values[name] = actual[name]
            keeps = actual[name] != neutral[name] and self._decide(decision, (*args[:-1], ()), named)
            values.update(actual)
            if keeps:
                yield name

    def _reads(self, decision: Any, args: Sequence[Any], named: Mapping[str, Any], backend: Any) -> bool:
        values = self._settings.values
        actual = dict(values)
        try:
            values.update(self._free or {})
            return self._decide(decision, (*args[:-1], (backend,)), named)
        finally:
            values.update(actual)

    # The start.

    def _started(self) -> _Started:
        launch = self._launch
        asked = {fact: so for fact, so in self._answers.items() if fact in (_MLA, _LLAMA)}
        start = tuple(map(frozenset, (launch.given.items(), launch.environment.items(), asked.items())))
        found: _Started = self._machine.remembered(("started", start), self._start)
        return found

    def _start(self) -> _Started:
        """Return the error that certainly ends the server while it settles its settings, or the settled settings."""
        architecture = _LLAMA_FOR_CAUSAL_LM if self._answers.get(_LLAMA) else _NO_SUCH
        model, draft = (
            Instance(
                None,
                {"hf_config": Instance(None, {"architectures": [architecture]}, name=f"{name}.hf_config")},
                name=name,
            )
            for name, architecture in (("model_config", architecture), ("draft_config", _NO_SUCH))
        )
        settings = _Settings(self._settings.cls, {}, derived=self._settings.derived, model=model)
        known = {
            **self._known,
            **{name: Unknown(name) for name in self._contexts()},
            "ResolvedView": lambda _, shown, **__: shown,
            "get_config": lambda *_, **__: draft.attributes["hf_config"],
            "get_global_server_args": lambda _: settings,
            "is_blackwell": Unknown("is_blackwell"),
            "model_config_of": lambda *_: model,
            "parse_connector_type": lambda *_: str(self._launch.get("model_path") or "").rpartition("://")[0],
        }
        machine = CertainEvaluator(self._program, known, self._decided, self._memory, settings)
        settings.values |= self._raw(machine)
        try:
            for start in _STARTS:
                method = machine.method_of(settings.cls, start, settings)
                if method is not None:
                    machine.call(method)
        except RefusedError as error:
            return Refusal(str(error), error.where, error.filled), {}
        except UnendingError:
            return None, dict.fromkeys(settings.values, condition.UNKNOWN)
        return None, {
            name: value if is_plain(value) else condition.UNKNOWN for name, value in settings.values.items()
        }

    def _decided(self, question: str) -> bool | None:
        """Return the known answer to a question about the model, or None."""
        for pattern, fact, so in _FACTS:
            if fact == _MLA and fact in self._answers and pattern.search(question):
                return self._answers[fact] is so
        return None

    def _raw(self, machine: CertainEvaluator) -> dict[str, Any]:
        """Return the given settings, and the defaults of the others."""
        said = self._machine.remembered("declared", lambda: None)
        found: dict[str, Any] = {}
        for name, item in said.fields.items():
            several = _SEVERAL.search(ast.unparse(item.annotation)) is not None
            if name in self._launch.given:
                found[name] = Unknown(name) if several else self._launch.given[name]
            elif item.value is not None:
                found[name] = machine.value(item.value, said.cls)
            else:
                found[name] = _ANY_MODEL if name == "model_path" else Unknown(name)
        if not found.get("device"):
            found["device"] = "cuda"
        return found

    # The server's parts.

    def _scheduler(self) -> dict[str, Any]:
        algorithm = self._algorithm()
        target = _Lazy({"model_runner": lambda: self._runners[False]}, "target_worker")
        worker = self._machine.call(self._machine.attribute(algorithm, "create_worker"), (self._settings,))
        return {
            "server_args": self._settings,
            "enable_overlap": not self._setting("disable_overlap_schedule"),
            "spec_algorithm": algorithm,
            "tp_worker": target,
            "draft_worker": self._worker(worker, target),
        }

    def _algorithm(self) -> Any:
        """Return the speculative algorithm. Raise the tree's own error for an unknown name."""
        name = self._settings.values.get(_ALGORITHM)
        for cls in self._classes("SpeculativeAlgorithm"):
            from_string = self._machine.attribute(cls, "from_string")
            try:
                return self._machine.call(from_string, (name,))
            except RaisedError:
                registers = re.compile(
                    rf"""register\w*\(\s*(name\s*=\s*)?["']{re.escape(str(name))}["']""".encode(), re.I
                )
                if not any(map(registers.search, self._program.sources.values())):
                    raise
        return Unknown("algorithm")

    def _worker(self, cls: Any, target: Any) -> Any:
        if not isinstance(cls, Class):
            return Unknown("draft_worker")
        runner = self._runners[True]
        draft = _Lazy(
            {
                "draft_attn_backend": lambda: self._drafting("create_decode_backend"),
                "draft_extend_attn_backend": lambda: self._drafting("create_draft_extend_backend"),
                "draft_extend_attn_backend_list": lambda: [self._drafting("create_draft_extend_backend")],
                "draft_runner": lambda: runner,
                "draft_runner_list": lambda: [runner],
                "model_runner": lambda: runner,
            },
            "draft_worker",
        )
        stream = self._machine.attribute(self._machine.attribute(self._known["envs"], PLAN_STREAM), "get")
        return Instance(
            cls,
            {
                "_target_worker": target,
                "target_worker": target,
                "_draft_worker": draft,
                "draft_worker": draft,
                "draft_model_runner": runner,
                "draft_runner": runner,
                "plan_stream": Instance(None, name="stream") if self._machine.call(stream) is True else None,
            },
        )

    def _runner(self, *, drafts: bool) -> _Lazy:
        runner = _Lazy({}, "model")
        runner.made |= {
            "server_args": lambda: self._settings,
            "is_draft_worker": lambda: drafts,
            "model_config": lambda: Unknown("model_config"),
            "draft_attention_backend": lambda: (
                self._setting("speculative_draft_attention_backend") if drafts else None
            ),
            "attn_backend": lambda: self._own_backend(runner, drafts),
            "init_new_workspace": lambda: False,
        }
        return runner

    def _own_backend(self, runner: _Lazy, drafts: bool) -> Any:
        override = self._setting("speculative_draft_attention_backend")
        if drafts and override:
            return self._made(str(override), runner)
        prefill, decode = self._sides()
        if prefill == decode:
            return self._made(decode, runner)
        made = {"decode_backend": self._made(decode, runner), "prefill_backend": self._made(prefill, runner)}
        for cls in self._classes("HybridAttnBackend"):
            return Instance(cls, {}, ((runner,), made), "hybrid")
        return Unknown("hybrid backend")

    def _sides(self) -> tuple[str, str]:
        values = self._settings.values
        whole = values.get("attention_backend")
        sides = (values.get("prefill_attention_backend"), values.get("decode_attention_backend"))
        return str(sides[0] or whole), str(sides[1] or whole)

    def _made(self, name: str, runner: _Lazy) -> Any:
        maker = self._makers().get(name)
        return self._machine.call(Bound(maker), (runner,)) if maker is not None else Unknown(name)

    def _classes(self, name: str) -> list[Class]:
        found: list[Class] = self._machine.remembered(
            ("classes", name), lambda: _classes(self._program, name)
        )
        return found

    def _makers(self) -> dict[str, Function]:
        found: dict[str, Function] = self._machine.remembered("makers", lambda: makers(self._program))
        return found

    def _require_known(self) -> None:
        """Raise the tree's own error for an unknown algorithm and for the first backend that nothing registers."""
        self._algorithm()
        guard = self._machine.remembered("guard", self._guard)
        names = (*self._sides(), self._setting("speculative_draft_attention_backend"))
        for name in dict.fromkeys(names):
            if guard is not None and isinstance(name, str) and name not in self._makers():
                function, parameter = guard
                self._machine.call(Bound(function), (), {parameter: name})

    def _guard(self) -> tuple[Function, str] | None:
        """Return the function that makes a registered backend, and its parameter for the backend's name."""
        files = [
            file for file, text in self._program.sources.items() if f"not in {_REGISTRY}".encode() in text
        ]
        modules = [module for file in files if (module := self._program.module(file)) is not None]
        for function in (each for module in modules for each in module.all_functions()):
            parameters = {arg.arg for arg in function.parameters}
            for node in walk(function.node):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
                    name = getattr(node.left, "id", "")
                    if name in parameters and is_named(node.comparators[0], _REGISTRY):
                        return function, name
        return None

    def _drafting(self, maker: str) -> Any:
        for cls in self._classes("DraftBackendFactory"):
            topk, steps = self._setting("speculative_eagle_topk"), self._setting("speculative_num_steps")
            known = {
                "server_args": self._settings,
                "draft_model_runner": self._runners[True],
                "topk": 1 if topk is None else topk,
                "speculative_num_steps": 3 if steps is None else steps,
            }
            init = self._program.method(cls, "__init__")
            taken = [arg.arg for arg in init.parameters[1:]] if init is not None else []
            factory = Instance(cls, {}, ((), {name: known[name] for name in taken if name in known}))
            return self._machine.call(self._machine.attribute(factory, maker))
        return Unknown("draft backend")

    def _roles(self, reads: Callable[[Any], bool]) -> Iterator[Role]:
        values = self._settings.values
        prefill, decode = self._sides()
        drafting = {"draft steps": "create_decode_backend", "draft extend": "create_draft_extend_backend"}
        for role, name in {"prefill": prefill, "decode": decode}.items():
            yield from self._role(
                role, name, functools.partial(self._made, name, self._runners[False]), reads
            )
        if prefill != decode:
            yield from self._combining(f"{prefill}+{decode}", reads)
        if not str(values.get("speculative_algorithm")).startswith(("EAGLE", "STANDALONE", "FROZEN")):
            return
        draft = self._setting("speculative_draft_attention_backend")
        extending = decode if values.get("speculative_attention_mode") == "decode" else prefill
        for role, name in {
            "draft steps": str(draft or decode),
            "draft extend": str(draft or extending),
        }.items():
            if role == "draft steps" and self._setting("speculative_num_steps") == 1:
                continue
            yield from self._role(role, name, functools.partial(self._drafting, drafting[role]), reads)

    def _combining(self, name: str, reads: Callable[[Any], bool]) -> Iterator[Role]:
        """Yield the backend that combines those for prefill and decode if it keeps the mirror although they do not."""
        for cls in self._classes("HybridAttnBackend"):
            free = _Free()
            made = {"decode_backend": free, "prefill_backend": free}
            if reads(Instance(cls, {}, ((self._runners[False],), made), "hybrid")):
                yield Role("prefill and decode", name, cls.name, True)

    def _role(
        self, role: str, name: str, make: Callable[[], Any], reads: Callable[[Any], bool]
    ) -> Iterator[Role]:
        backend = make()
        if backend is None:
            return
        cls = backend.cls.name if isinstance(backend, Instance) and backend.cls is not None else ""
        yield Role(role, name, cls, reads(backend))

    # Names that are not evaluated from the tree.

    def _natives(self) -> dict[str, Any]:
        off = {each.strip() for each in self._launch.environment.get(DISABLE, "").split(",")}
        return (
            dict.fromkeys(self._contexts(), self._context)
            | dict.fromkeys(_FALSE, lambda *_: False)
            | _BUILTINS
            | {
                "disabled": lambda _, patch: patch in off,
                "report": lambda *_: None,
                _REGISTRY: tuple(self._makers()),
                "envs": _Environment(self._launch, self._defaults()),
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

    def _context(self, _: Machine, *args: Any, **named: Any) -> Any:
        # None of them has a parameter: a function of the same name that has one is another.
        return NotImplemented if args or named else self._settings.view()

    def _contexts(self) -> list[str]:
        context = self._program.module("srt/runtime_context.py")
        return [
            name for name in (context.functions if context is not None else ()) if name.startswith("get_")
        ]

    def _defaults(self) -> dict[str, Any]:
        module = self._program.module("srt/environ.py")
        found: dict[str, Any] = {}
        for cls in module.classes.values() if module is not None else ():
            for name, value in cls.fields.items():
                if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Constant):
                    found[name] = value.args[0].value
        return found


class _NotAskedError(Exception):
    """The scheduler makes no decision about the mirror."""


def _getattr(machine: Machine, owner: Any, name: str, *default: Any) -> Any:
    try:
        return machine.attribute(owner, name)
    except AttributeError:
        if default:
            return default[0]
        raise RaisedError(f"no {name}") from None


def _hasattr(machine: Machine, owner: Any, name: str) -> Any:
    if isinstance(owner, Unknown):
        return Unknown(f"hasattr({owner.name}, {name})")
    try:
        machine.attribute(owner, name)
    except AttributeError:
        return False
    return True


def _isinstance(machine: Machine, value: Any, classes: Any) -> Any:
    asked = classes if isinstance(classes, tuple) else (classes,)
    names = [getattr(each, "name", "") or getattr(each, "__name__", "") for each in asked]
    if is_plain(value):
        return not {cls.__name__ for cls in type(value).__mro__}.isdisjoint(names)
    if isinstance(value, (Member, Instance)) and value.cls is not None:
        return not machine.program.ancestors(value.cls).isdisjoint(names)
    return Unknown(f"isinstance({getattr(value, 'name', '')}, {', '.join(names)})")


def _range(_: Machine, *ends: Any) -> Any:
    return range(*ends) if all(isinstance(end, int) for end in ends) else [Unknown("i")]


def _next(_: Machine, values: Sequence[Any], *default: Any) -> Any:
    return values[0] if values else default[0]


def _either(machine: Machine, values: Any, ending: bool) -> Any:
    if isinstance(values, Unknown):
        return values
    return next((ending for each in values if machine.truth(each) is ending), not ending)


def _plain(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(_: Machine, *args: Any) -> Any:
        if any(isinstance(arg, Unknown) for arg in args):
            return Unknown(f"{make.__name__}({', '.join(getattr(arg, 'name', '') for arg in args)})")
        return make(*args)

    made.__name__ = make.__name__
    return made


_BUILTINS: dict[str, Any] = {
    "all": lambda machine, values: _either(machine, values, False),
    "any": lambda machine, values: _either(machine, values, True),
    "bool": lambda machine, value=False: machine.truth(value),
    "getattr": _getattr,
    "hasattr": _hasattr,
    "isinstance": _isinstance,
    "next": _next,
    "object": lambda _: object(),
    "range": _range,
    "type": lambda _, value: getattr(value, "cls", None) or Unknown(f"type({getattr(value, 'name', '')})"),
} | {
    made.__name__: _plain(made) for made in (dict, frozenset, int, len, list, max, min, set, str, tuple, zip)
}

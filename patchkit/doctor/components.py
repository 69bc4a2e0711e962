"""The parts that a server is made of: scheduler, workers, model runners and attention backends."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from patchkit.doctor import registry
from patchkit.doctor.evaluation.values import Bound, Instance, RaisedError, Unknown
from patchkit.doctor.objects import FreeBackend, Lazy
from patchkit.doctor.outcome import Role
from patchkit.tree.index import Class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.doctor.evaluation.evaluator import FunctionEvaluator
    from patchkit.doctor.objects import EnvironmentVariables, Settings
    from patchkit.tree.index import Function

PLAN_STREAM = "SGLANG_ENABLE_OVERLAP_PLAN_STREAM"
ALGORITHM = "speculative_algorithm"
UNNAMED = "an unknown backend"
"""The backend of a server whose settings are not known and name none."""


class Components:
    """The parts of one server."""

    def __init__(
        self,
        evaluator: FunctionEvaluator,
        settings: Settings,
        environment: EnvironmentVariables,
    ) -> None:
        self._evaluator = evaluator
        self._program = evaluator.program
        self._settings = settings
        self._environment = environment
        self._runners = {False: self._runner(drafts=False), True: self._runner(drafts=True)}

    def _setting(self, name: str) -> Any:
        return self._settings.values.get(name)

    def scheduler(self) -> dict[str, Any]:
        """Return the attributes of the scheduler."""
        algorithm = self._algorithm()
        target = Lazy({"model_runner": lambda: self._runners[False]}, "target_worker")
        worker = self._created(algorithm)
        return {
            "server_args": self._settings,
            "enable_overlap": not self._setting("disable_overlap_schedule"),
            "spec_algorithm": algorithm,
            "tp_worker": target,
            "draft_worker": self._worker(worker, target),
        }

    def worker(self) -> str:
        """Return the name of the draft worker's class, empty if it is not known."""
        try:
            created = self._created(self._algorithm())
        except RaisedError:
            return ""
        return created.name if isinstance(created, Class) else ""

    def _created(self, algorithm: Any) -> Any:
        """Return the class of the draft worker of an algorithm. Raise the tree's own error."""
        return self._evaluator.call(self._evaluator.attribute(algorithm, "create_worker"), (self._settings,))

    def roles(self, reads: Callable[[Any], bool]) -> Iterator[Role]:
        """Yield each backend of the server; ``reads`` returns whether one reads the mirror."""
        prefill, decode = self.sides()
        for role, name in {"prefill": prefill, "decode": decode}.items():
            yield from self._role(
                role, name, functools.partial(self._made, name, self._runners[False]), reads
            )
        if prefill != decode:
            yield from self._combining(f"{prefill}+{decode}", reads)
        if not str(self._setting(ALGORITHM)).startswith(("EAGLE", "STANDALONE", "FROZEN")):
            return
        draft = self._setting("speculative_draft_attention_backend")
        extending = decode if self._setting("speculative_attention_mode") == "decode" else prefill
        makers = (
            ("draft steps", draft or decode, "create_decode_backend"),
            ("draft extend", draft or extending, "create_draft_extend_backend"),
        )
        for role, name, maker in makers[self._setting("speculative_num_steps") == 1 :]:
            yield from self._role(role, str(name), functools.partial(self._drafting, maker), reads)

    def require_known(self) -> None:
        """Raise the tree's own error for an unknown algorithm and for the first backend that nothing registers."""
        self._algorithm()
        guard = self._program.value("guard", lambda: registry.guard(self._program))
        names = (*self.sides(), self._setting("speculative_draft_attention_backend"))
        for name in dict.fromkeys(names):
            if guard is not None and isinstance(name, str) and name not in (UNNAMED, *self.makers()):
                function, parameter = guard
                self._evaluator.call(Bound(function), (), {parameter: name})

    def sides(self) -> tuple[str, str]:
        """Return the names of the backends for prefill and for decode."""
        default = self._setting("attention_backend") or UNNAMED
        sides = self._setting("prefill_attention_backend"), self._setting("decode_attention_backend")
        return str(sides[0] or default), str(sides[1] or default)

    def makers(self) -> dict[str, Function]:
        """Return the function that makes each backend, by the backend's name."""
        makers: dict[str, Function] = self._program.value("makers", lambda: registry.makers(self._program))
        return makers

    def _algorithm(self) -> Any:
        """Return the speculative algorithm. Raise the tree's own error for an unknown name."""
        name = self._setting(ALGORITHM)
        for cls in self._classes("SpeculativeAlgorithm"):
            from_string = self._evaluator.attribute(cls, "from_string")
            try:
                return self._evaluator.call(from_string, (name,))
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
        draft = Lazy(
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
        stream = self._evaluator.attribute(self._evaluator.attribute(self._environment, PLAN_STREAM), "get")
        return Instance(
            cls,
            {
                "_target_worker": target,
                "target_worker": target,
                "_draft_worker": draft,
                "draft_worker": draft,
                "draft_model_runner": runner,
                "draft_runner": runner,
                "plan_stream": Instance(None, name="stream")
                if self._evaluator.call(stream) is True
                else None,
            },
        )

    def _runner(self, *, drafts: bool) -> Lazy:
        runner = Lazy({}, "model")
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

    def _own_backend(self, runner: Lazy, drafts: bool) -> Any:
        override = self._setting("speculative_draft_attention_backend")
        if drafts and override:
            return self._made(str(override), runner)
        prefill, decode = self.sides()
        if prefill == decode:
            return self._made(decode, runner)
        made = {"decode_backend": self._made(decode, runner), "prefill_backend": self._made(prefill, runner)}
        for cls in self._classes("HybridAttnBackend"):
            return Instance(cls, {}, ((runner,), made), "hybrid")
        return Unknown("hybrid backend")

    def _made(self, name: str, runner: Lazy) -> Any:
        maker = self.makers().get(name)
        return self._evaluator.call(Bound(maker), (runner,)) if maker is not None else Unknown(name)

    def _classes(self, name: str) -> list[Class]:
        classes: list[Class] = self._program.value(
            ("classes", name), lambda: registry.classes_named(self._program, name)
        )
        return classes

    def _drafting(self, maker: str) -> Any:
        for cls in self._classes("DraftBackendFactory"):
            topk, steps = self._setting("speculative_eagle_topk"), self._setting("speculative_num_steps")
            makers = {
                "server_args": self._settings,
                "draft_model_runner": self._runners[True],
                "topk": 1 if topk is None else topk,
                "speculative_num_steps": 3 if steps is None else steps,
            }
            init = self._program.method(cls, "__init__")
            taken = [arg.arg for arg in init.parameters[1:]] if init is not None else []
            factory = Instance(cls, {}, ((), {name: makers[name] for name in taken if name in makers}))
            return self._evaluator.call(self._evaluator.attribute(factory, maker))
        return Unknown("draft backend")

    def _combining(self, name: str, reads: Callable[[Any], bool]) -> Iterator[Role]:
        """Yield the backend that combines those for prefill and decode if it keeps the mirror although they do not."""
        for cls in self._classes("HybridAttnBackend"):
            free = FreeBackend()
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

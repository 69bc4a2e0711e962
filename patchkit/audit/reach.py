"""Decide what can run without the mirror: opted-out backends, spec-v2 workers, features that force it."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.tree import mirror
from patchkit.tree.backends import Backends
from patchkit.tree.index import Class, class_of_annotation, is_runtime, last_name
from patchkit.tree.nodes import walk
from patchkit.tree.sglang import served

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from patchkit.findings.finding import Step
    from patchkit.tree.index import Function, Module, Program

_KNOWN = served("disaggregation", "managers", "mem_cache", "model_executor", "observability", "speculative")
_SPECULATIVE = served("speculative")
_HARDWARE = served("hardware_backend")
_MODELS = served("models")
_FEATURE = re.compile(r"^(?:enable|disable|is)_")
_SERVING = re.compile(r"(?:GraphRunner|ModelRunner|Worker|WorkerV2)$")
_GENERIC = 6
_CALLER_LEVELS = 2
_SHARED = (
    "kinds",
    "backends",
    "forced",
    "relevant",
    "_calls",
    "_definitions",
    "_backend_names",
    "_v2_roots",
    "_v1_files",
)


class Reach:
    """Answers about reachability on the mirror-less path of one tree.

    ``pretend`` is one backend class that is taken to have opted out, whatever its flag says; then no other
    backend counts. With ``keeps`` only those count that keep the mirror, which is there then.
    """

    def __init__(self, program: Program, pretend: Class | None = None, *, keeps: bool = False) -> None:
        self._program = program
        self.pretend = pretend
        self.keeps = keeps
        self._excluded: dict[tuple[Function, str | None], bool] = {}

    def pretending(self, cls: Class) -> Reach:
        """Return the answers that would hold if ``cls``, and no other backend, had opted out."""
        return self._sharing(Reach(self._program, cls))

    def keeping(self) -> Reach:
        """Return the answers about the backends that keep the mirror."""
        return self._sharing(Reach(self._program, keeps=True))

    def _sharing(self, other: Reach) -> Reach:
        for name in _SHARED:
            other.__dict__[name] = getattr(self, name)
        return other

    @cached_property
    def has_flag(self) -> bool:
        """Whether the tree itself asks for the decision about the mirror; without it every backend needs it."""
        return any(
            mirror.decides(module.text) for module in self._program.core if not is_runtime(module.file)
        )

    @cached_property
    def decision(self) -> list[Function]:
        """The functions that decide whether the mirror is kept."""
        return [
            function
            for module in self._program.core
            for function in module.functions.values()
            if mirror.FLAG in function.name
        ]

    @cached_property
    def forced(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names that are false, and names that are true, without the mirror: the decision says so."""
        false: set[str] = set()
        true: set[str] = set()
        for function in self.decision:
            for statement in function.node.body:
                if isinstance(statement, ast.If) and _returns_true(statement):
                    for test in _alternatives(statement.test):
                        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                            true.add(_tested(test.operand))
                        else:
                            false.add(_tested(test))
        return frozenset(false - {""}), frozenset(true - {""})

    @cached_property
    def backends(self) -> list[Class]:
        """Every attention backend class in the files that matter."""
        return self.kinds.all

    @cached_property
    def kinds(self) -> Backends:
        """Which classes are backends, and which of them opted out."""
        return Backends(self._program)

    def opted_out(self, cls: Class) -> bool:
        """Say whether a backend's flag is, or on some configuration can be, False."""
        if self.pretend is not None:
            return cls is self.pretend
        return self.kinds.opted_out(cls) or self.kinds.answers_itself(cls)

    @cached_property
    def active_backends(self) -> list[Class]:
        """Backends that can run without the mirror."""
        return [cls for cls in self.backends if self.opted_out(cls) != self.keeps]

    @cached_property
    def _active_names(self) -> frozenset[str]:
        return frozenset(cls.name for cls in self.active_backends)

    @cached_property
    def _backend_names(self) -> frozenset[str]:
        return frozenset(cls.name for cls in self.backends)

    def made_by(self, cls: Class | None) -> list[Class]:
        """Return the backends that the constructor of a class makes and that can run without the mirror."""
        for known in self._program.mro(cls) if cls is not None else ():
            init = known.methods.get("__init__")
            names = {name for _, name in init.called_names} if init is not None else set()
            if names & self._backend_names:
                return [backend for backend in self.active_backends if backend.name in names]
        return self.active_backends

    def excluded(self, function: Function, self_class: str | None) -> bool:
        """Say whether a function cannot run without the mirror."""
        asked = function, self_class
        if asked not in self._excluded:
            self._excluded[asked] = self._cannot_run(function, self_class)
        return self._excluded[asked]

    def _cannot_run(self, function: Function, self_class: str | None) -> bool:
        if self.feature_forced(function.module):
            return True
        owner = function.owner
        if owner is None:
            return False
        if owner.name == facts.MODE_CLASS:
            return True
        names = {self_class, owner.name} - {None}
        if names & self._backend_names:
            return not names & self._active_names
        return self._v1_worker(owner) or function.module.file in self._v1_files

    def feature_forced(self, module: Module) -> bool:
        """Say whether a file belongs to a feature for which the decision keeps the mirror."""
        return _stem(module.file).startswith(self._features)

    @cached_property
    def _features(self) -> tuple[str, ...]:
        """How the files of such features begin: with the name, or with its initials."""
        found: list[str] = []
        for name in self.forced[0] | self.forced[1]:
            feature = _FEATURE.sub("", name)
            if feature != name:
                initials = "".join(word[0] for word in feature.split("_"))
                found += [feature, *([f"{initials}_"] if len(initials) > 1 else [])]
        return tuple(found)

    def _v1_worker(self, cls: Class) -> bool:
        if not cls.module.file.startswith(_SPECULATIVE):
            return False
        if not self._v2_roots:
            return False
        is_worker = self._program.method(cls, "forward_batch_generation") is not None
        return is_worker and not self._program.ancestors(cls) & self._v2_roots

    @cached_property
    def _v1_files(self) -> frozenset[str]:
        """Files of the speculative folder that only files of spec-v1 workers import."""
        modules = [module for module in self._program.core if module.file.startswith(_SPECULATIVE)]
        old = {
            module.file
            for module in modules
            if any(map(self._v1_worker, module.classes.values()))
            and not any(self._program.ancestors(cls) & self._v2_roots for cls in module.classes.values())
        }
        folder = b"speculative."
        importer = re.compile(rb"\b%s(\w+)\b" % re.escape(folder))
        users: dict[bytes, set[str]] = {}
        for file, text in self._program.sources.items():
            for stem in importer.findall(text) if folder in text else ():
                users.setdefault(stem, set()).add(file)
        found = set()
        for module in modules:
            importers = users.get(_stem(module.file).encode(), set()) - {module.file}
            if importers and importers <= old:
                found.add(module.file)
        return frozenset(found)

    @cached_property
    def _v2_roots(self) -> frozenset[str]:
        known = {
            name
            for module in self._program.core
            for cls in module.classes.values()
            for name in self._program.ancestors(cls)
        }
        return frozenset(known & set(facts.SPEC_WORKER_ROOTS))

    def steps_of(self, function: Function, steps: Sequence[str]) -> Sequence[str]:
        """Return those of ``steps`` in which a function runs: a scheduler hands its spec-v2 worker no verify."""
        owner = function.owner
        if function.name != facts.WORKER_STEP or owner is None:
            return steps
        if not self._program.ancestors(owner) & self._v2_roots:
            return steps
        return [step for step in steps if step == facts.DECODE]

    def known(self, function: Function, self_class: str | None) -> bool:
        """Say whether a function is known to run without the mirror; False when nobody can tell."""
        names = {self_class, function.owner.name if function.owner else None}
        if names & self._active_names:
            return True
        if function.module.file.startswith(_HARDWARE) or self._handed_around(function):
            return False
        return function.module.file.startswith(_KNOWN)

    def serves(self, function: Function) -> bool:
        """Say whether a method belongs to a runner or worker, which a server calls in every step."""
        owner = function.owner
        return owner is not None and bool(_SERVING.search(owner.name)) and self.known(function, None)

    def _handed_around(self, function: Function) -> bool:
        """Say whether other code names a function that nothing calls by that name."""
        if function.owner is not None or self.callers_of(function):
            return False
        name = function.name.encode()
        return sum(module.text.count(name) for module in self._program.core) > 1

    @cached_property
    def relevant(self) -> frozenset[Function]:
        """Functions that name the mirror, and those that hand batches to them."""
        pattern = re.compile("|".join(sorted(mirror.TRACKED | {mirror.FLAG})))
        found = {
            function
            for module in self._program.core
            for function in module.all_functions()
            if pattern.search(function.source)
        }
        pending = list(found)
        for _ in range(_CALLER_LEVELS):
            pending = [
                caller
                for function in pending
                if not self._generic(function.name)
                for caller, _ in self.callers_of(function)
                if caller not in found
            ]
            found.update(pending)
        for cls, holders in self._holders.items():
            if any(method in found for method in cls.methods.values()):
                found.update(holders)
        # The runtime stands for code that named the mirror, whatever its own names are; what tells a batch's
        # mode stands for a test of it.
        found.update(
            function
            for module in self._program.core
            for function in module.all_functions()
            if is_runtime(module.file) or self._tells_mode(function)
        )
        return frozenset(found)

    def _tells_mode(self, function: Function) -> bool:
        """Say whether a function returns a batch's mode, or one of a few answers that depends on it."""
        told = class_of_annotation(function.node.returns)
        if told is None or told == facts.MODE_CLASS or "forward_mode" not in function.source:
            return told == facts.MODE_CLASS
        answer = self._program.resolve(function.module, told)
        return told == "bool" or (isinstance(answer, Class) and self._program.is_enum(answer))

    @cached_property
    def in_order(self) -> list[Function]:
        """The relevant functions in source order, so that an audit of a tree always runs alike."""
        return [
            function
            for module in self._program.core
            for function in module.all_functions()
            if function in self.relevant
        ]

    @cached_property
    def _calls(self) -> dict[str, list[tuple[str, Function]]]:
        found: dict[str, list[tuple[str, Function]]] = {}
        for module in self._program.core:
            for function in module.all_functions():
                for receiver, name in function.called_names:
                    found.setdefault(name, []).append((receiver, function))
        return found

    @cached_property
    def _holders(self) -> dict[Class, list[Function]]:
        """The functions that call a method of a graph runner on an attribute of its name."""
        found: dict[Class, list[Function]] = {}
        for module in self._program.core:
            for function in module.all_functions():
                for attribute, name in function.received_names:
                    cls = self._program.held_by(attribute)
                    if cls is not None and name in cls.methods:
                        found.setdefault(cls, []).append(function)
        return found

    def held(self, method: Function) -> bool:
        """Say whether a method is of a graph runner that is called by its name."""
        return method.owner in self._holders

    def _followed(self, method: Function) -> bool:
        """Say whether a graph runner's method runs where those that are followed call it, and nowhere else."""
        callers = [caller for caller, _ in self.callers_of(method)]
        running = [
            caller for caller in callers if caller in self.relevant and not self.excluded(caller, None)
        ]
        if self.held(method):
            return bool(running)
        making = [caller for caller in running if self._calls_its_own(caller, method)]
        return bool(making) and not any(
            self._may_call(caller, method, making) for caller in callers if caller not in making
        )

    def _calls_its_own(self, caller: Function, method: Function) -> bool:
        """Say whether a function calls a graph runner's method on what its own class made and keeps, nowhere else."""
        runners = self._runners_called(caller, method.name).values()
        return bool(runners) and all(
            runner is not None and self._program.method(runner, method.name) is method for runner in runners
        )

    def _may_call(self, caller: Function, method: Function, making: Sequence[Function]) -> bool:
        """Say whether a function can call a graph runner's method where it is not known to call another's."""
        kept = {held for maker in making for held in self._runners_called(maker, method.name)}
        for held, runner in self._runners_called(caller, method.name).items():
            if runner is not None and self._program.method(runner, method.name) is not method:
                continue
            keeps = caller.owner is not None and any(
                f"self.{held} = " in own.source
                for known in self._program.mro(caller.owner)
                for own in known.methods.values()
            )
            assert method.owner is not None
            if runner is None and (
                self._program.is_named_after_a_class(held)
                or (keeps and method.owner.name.encode() not in caller.module.text)
            ):
                continue
            if runner is not None or held.endswith("runner") or any(name in caller.source for name in kept):
                return True
        return False

    def _runners_called(self, caller: Function, name: str) -> dict[str, Class | None]:
        """Return what a function calls a method of that name on, by its last name, each with its class if known."""
        return {
            held: self._program.held_by(held) or self._program.runner_made_for(caller.owner, held)
            for held, called in caller.received_names
            if called == name and not held[:1].isupper()
        }

    def callers_of(self, function: Function) -> list[tuple[Function, bool]]:
        """Return the functions that may call one; False beside those that only a name suggests."""
        found = []
        for receiver, caller in self._calls.get(function.name, ()):
            if caller is function or ((receiver == "") != (function.owner is None) and receiver != "."):
                continue
            if (
                receiver == "self."
                and caller.owner is not None
                and not self._own_call(caller.owner, function)
            ):
                continue
            found.append((caller, receiver != "."))
        return found

    def _own_call(self, cls: Class, method: Function) -> bool:
        if self._program.method(cls, method.name) is method:
            return True
        return method.owner is not None and cls in self._program.mro(method.owner)

    @cached_property
    def _definitions(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for module in self._program.core:
            for function in module.all_functions():
                counts[function.name] = counts.get(function.name, 0) + 1
        return counts

    def _generic(self, name: str) -> bool:
        return name.startswith("__") or self._definitions.get(name, 0) > _GENERIC

    def backend_entries(self) -> list[tuple[Function, str | None]]:
        """Return the methods that others call on backends without the mirror, with the class of ``self``."""
        found: list[tuple[Function, str | None]] = []
        for cls in self.active_backends:
            for name in {name for known in self._program.mro(cls) for name in known.methods}:
                method = self._program.method(cls, name)
                if method is None or name.startswith("_") or facts.CAPTURE.search(name):
                    continue
                if method not in self.relevant:
                    continue
                callers = self.callers_of(method)
                if not callers or not all(sure for _, sure in callers):
                    found.append((method, cls.name))
        return _ordered(found)

    def entry_points(self) -> list[tuple[Function, str | None]]:
        """Return the functions from which to start without knowing a caller, with the class of ``self``."""
        found = [
            entry
            for entry in self.backend_entries()
            if not self._for_a_runner(entry[0]) and entry not in self.for_models
        ]
        for function in self._startable:
            callers = [caller for caller, _ in self.callers_of(function)]
            running = [caller for caller in callers if not self.excluded(caller, None)]
            if self._followed(function):
                continue
            unfollowed = self._generic(function.name) or not any(
                caller in self.relevant for caller in running
            )
            if not callers or function in self.decision or (running and unfollowed):
                found.append((function, None))
        return _ordered(found)

    @cached_property
    def for_models(self) -> dict[tuple[Function, str | None], list[Function]]:
        """Backends' methods that models alone call, whose calls are followed, each with its callers."""
        found = {}
        for method, cls in self.backend_entries():
            # A backend that wraps another hands on what it was handed.
            callers = [caller for caller, _ in self.callers_of(method) if not self._forwards(caller, method)]
            asked = bool(callers) and all(self._asks(caller, method.name) for caller in callers)
            if asked and not self._named_elsewhere(method):
                found[method, cls] = callers
        return found

    def _forwards(self, caller: Function, method: Function) -> bool:
        return (
            caller.name == method.name
            and caller.owner is not None
            and caller.owner.name in self._backend_names
        )

    def _asks(self, caller: Function, name: str) -> bool:
        """Say whether a function of a model calls a method of that name on its backend, and on nothing else."""
        calls = [
            node.func
            for node in walk(caller.node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        ]
        return (
            caller.module.file.startswith(_MODELS)
            and caller in self.relevant
            and not self.excluded(caller, None)
            and all(facts.BACKEND_NAME.search(last_name(function.value)) for function in calls)
        )

    def _named_elsewhere(self, method: Function) -> bool:
        """Say whether code that is not followed names a method: in a file, or as a text that is looked up."""
        name = method.name.encode()
        parsed = {module.file for module in self._program.core}
        if any(name in text for file, text in self._program.sources.items() if file not in parsed):
            return True
        for module in self._program.core:
            if name in module.text:
                asked = len(re.findall(rb'hasattr\([^"]*"%s"\)' % name, module.text))
                forwarded = sum(
                    function.source.encode().count(b'"%s"' % name)
                    for function in module.all_functions()
                    if self._forwards(function, method)
                )
                if module.text.count(b'"%s"' % name) > asked + forwarded:
                    return True
        return False

    def _for_a_runner(self, method: Function) -> bool:
        """Say whether a backend's method is called by graph runners alone, whose calls are followed."""
        callers = [caller for caller, _ in self.callers_of(method)]
        owners = [caller.owner for caller in callers if caller.owner is not None]
        return (
            len(owners) == len(callers)
            and any(owner in self._holders for owner in owners)
            and all(owner in self._holders or owner.name in self._backend_names for owner in owners)
            and all(caller in self.relevant for caller in callers)
            and all(
                facts.BACKEND_NAME.search(held) or not held.isidentifier()
                for caller in callers
                for held, name in caller.received_names
                if name == method.name
            )
        )

    def handed_by_a_backend(self, function: Function, path: Sequence[Step]) -> bool:
        """Say whether a backend hands a value on, by ``path``, to a function that is none of a backend's."""
        files = {known.module.file for cls in self.backends for known in self._program.mro(cls)}
        own = function.owner is not None and function.owner.name in self._backend_names
        return path[0].file in files and function.module.file not in files and not own

    def leftovers(self, entered: Set[Function]) -> list[tuple[Function, str | None]]:
        """Return functions that nothing entered although, by name, running code may call them."""
        return _ordered(
            (function, None)
            for function in self._startable
            if function not in entered
            and not self._followed(function)
            and any(
                not sure and not self.excluded(caller, None) for caller, sure in self.callers_of(function)
            )
        )

    @cached_property
    def _startable(self) -> list[Function]:
        return [
            function
            for function in self.in_order
            if not self.excluded(function, None)
            and not facts.CAPTURE.search(function.name)
            and not (function.owner is not None and function.owner.name in self._backend_names)
        ]


def _stem(file: str) -> str:
    return file.rsplit("/", 1)[-1].removesuffix(".py")


def _ordered(entries: Iterable[tuple[Function, str | None]]) -> list[tuple[Function, str | None]]:
    return sorted(entries, key=lambda entry: (entry[0].module.file, entry[0].node.lineno, entry[1] or ""))


def _returns_true(statement: ast.If) -> bool:
    last = statement.body[-1]
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Constant) and last.value.value is True


def _alternatives(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return [inner for value in test.values for inner in _alternatives(value)]
    return [test] if not isinstance(test, (ast.BoolOp, ast.Compare)) else []


def _tested(node: ast.expr) -> str:
    """Return the name of the setting that a test reads, directly or with ``getattr``."""
    if isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
        return last_name(node.args[1])
    return last_name(node)

"""Propagate None across calls to a fixed point: arguments, results and writes of functions."""

from __future__ import annotations

import ast
import time
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.audit.context import Context
from patchkit.audit.entries import Entries
from patchkit.audit.modes import Modes, mode_member
from patchkit.audit.values import ANY, NONE, PRESENT, SOME, Value, join, widen
from patchkit.errors import TreeError
from patchkit.findings.finding import Step
from patchkit.tree import mirror
from patchkit.tree.index import class_of_annotation, last_name, root
from patchkit.tree.nodes import statements, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.audit.context import Call, Fields, Summary
    from patchkit.audit.reach import Reach
    from patchkit.audit.runners import AuditedProgram
    from patchkit.audit.values import Environment
    from patchkit.tree.index import Class, Function

    Known = frozenset[tuple[str, str]]
    """The mirror attributes of parameters that every caller of a context has filled."""

    Key = tuple[Function, str | None, str, Known | None]

_MAX_DEPTH = 40
_MAX_TARGETS = 6
_MAX_RUNS = 8
_SECONDS = 300
"""More than twenty times what the largest release takes."""


class Solver:
    """Runs contexts until nothing changes, by ``interpret``, and answers what it asks of the other code."""

    def __init__(
        self, program: AuditedProgram, reach: Reach, interpret: Callable[[Solver, Context], Summary]
    ) -> None:
        self.program = program
        self.reach = reach
        self._interpret = interpret
        self._entries = Entries(reach)
        self.modes = Modes(program)
        self.forced_false, self.forced_true = reach.tree.decision.forced
        self.contexts: dict[Key, Context] = {}
        self._pending: list[Context] = []
        self._fields: dict[tuple[str, str], Value] = {}
        self._readers: dict[tuple[str, str], dict[Context, None]] = {}
        self._handed: dict[tuple[str, str], Value] = {}
        self._stored_modes: dict[tuple[str | None, str], frozenset[str] | None] = {}
        self._ancestries: dict[str | None, tuple[list[str], list[dict[str, str]]]] = {}
        self._makers_done = False
        self._awaiting: list[Function] = []
        self._depth = 0
        self._started = time.process_time()

    def solve(self, watch: Callable[[str, int, int], None] | None = None) -> None:
        """Run every entry point, and whatever changes, to the fixed point.

        ``watch`` is called with the current function, how many functions are done, and how many there are.
        """
        for function in self.reach.in_order:
            if _makes_draft_batch(function) and not self.reach.excluded(function, None):
                self._enter(function, None, is_known=self.reach.known(function, None))
        self._run_pending()
        self._makers_done = True
        self._pending.extend(self.contexts.values())  # They ran before all batches were recorded.
        entries = self._entries.points()
        for done, (function, self_class) in enumerate(entries):
            if watch is not None:
                watch(f"functions: {function.qualname}", done, len(entries))
            self._enter(function, self_class, is_known=self.reach.known(function, self_class))
        self._run_pending()
        entered = {context.function for context in self.contexts.values()}
        for function, self_class in self._entries.leftovers(entered):
            self._enter(function, self_class, is_known=self.reach.serves(function))
        self._run_pending()
        for (function, self_class), callers in self._entries.for_models.items():
            entered = {context.function for context in self.contexts.values()}
            if not entered.issuperset(callers):
                self._enter(function, self_class, is_known=self.reach.known(function, self_class))
                self._run_pending()
        for context in self.contexts.values():
            owner = context.function.owner.name if context.function.owner is not None else None
            context.only_models = (context.function, context.self_class or owner) in self._entries.for_models
            context.known |= context.only_models
        pending = [context for context in self.contexts.values() if context.known]
        callees: dict[Context, list[Context]] = {}
        for context in self.contexts.values():
            for caller in context.callers:
                callees.setdefault(caller, []).append(context)
        while pending:
            for callee in callees.get(pending.pop(), ()):
                if not callee.known:
                    callee.known = True
                    pending.append(callee)

    def solve_backend(self) -> None:
        """Run only the backends under analysis, from the methods called from outside."""
        for function, self_class in self._entries.of_backends():
            self._enter(function, self_class, is_known=True)
        self._run_pending()

    def _run_pending(self) -> None:
        while self._pending or self._awaiting:
            while self._pending:
                self._run(self._pending.pop())
            awaiting, self._awaiting = self._awaiting, []
            for function in awaiting:
                self._enter(function, None, is_known=self.reach.known(function, None))

    def _enter(self, function: Function, self_class: str | None, is_known: bool) -> None:
        self_class = _distinct(function, self_class)
        steps = self.modes.mirrorless if not self.reach.keeps else (facts.VERIFY,)
        for step in self.reach.tree.workers.steps_of(function, steps):
            key = (function, self_class, step, None)
            if key not in self.contexts:
                self.contexts[key] = Context(function, self_class, step, entered=False)
                self._run(self.contexts[key])
            self.contexts[key].known |= is_known

    def _run(self, context: Context) -> None:
        if context.running or context.runs >= _MAX_RUNS:
            return
        if time.process_time() - self._started > _SECONDS:
            raise TreeError(
                f"the audit of {context.function.qualname} did not end within {_SECONDS} s of CPU time",
                where=context.function.module.file,
                advice="split that function or remove the file, then try again",
            )
        context.running = True
        context.runs += 1
        self._depth += 1
        summary = self._interpret(self, context)
        self._depth -= 1
        context.running = False
        if summary.facts() != context.summary.facts():
            context.summary = summary
            self._pending.extend(caller for caller in context.callers if not caller.running)

    # Calls

    def known_outcomes(self, made: Call) -> list[Summary] | None:
        """Return the outcomes of a call that adds nothing to what is known; None if it may add something."""
        method, self_class = made.method, made.self_class
        if self._not_followed(method, self_class) or method not in self.reach.tree.relevant:
            return []
        self_class = _distinct(method, self_class)
        summaries = []
        for step in self.reach.tree.workers.steps_of(method, made.steps):
            context = self.contexts.get((method, self_class, step, None))
            if context is None:
                return None
            context.callers[made.caller] = None
            summaries.append(context.summary)
        return summaries

    def _not_followed(self, method: Function, self_class: str | None) -> bool:
        return self._depth > _MAX_DEPTH or self.reach.excluded(method, self_class)

    def call(self, made: Call, entry: dict[str, Value], entry_fields: Fields) -> list[Summary]:
        """Merge a call's arguments into the callee's contexts and return their outcomes; none if not followed."""
        method, self_class = made.method, made.self_class
        if self._not_followed(method, self_class):
            return []
        self_class = _distinct(method, self_class)
        filled = _filled(entry_fields)
        summaries = []
        for step in self.reach.tree.workers.steps_of(method, made.steps):
            key = (method, self_class, step, filled)
            context = self.contexts.get(key)
            if context is None:
                context = self.contexts[key] = Context(
                    method, self_class, step, True, dict(entry), dict(entry_fields)
                )
                changed = True
            else:
                changed = any([widen(context.entry, entry), widen(context.entry_fields, entry_fields)])
            context.callers[made.caller] = None
            if changed:
                self._run(context)
            summaries.append(context.summary)
        return summaries

    def method_targets(
        self,
        context: Context,
        base: Value,
        function: ast.Attribute,
        arguments: Sequence[tuple[object, object, Value]],
    ) -> list[tuple[Function, str | None]]:
        """Return the functions that ``base.name(...)`` can run: by class if known, else by a distinctive name."""
        name = function.attr
        if facts.BACKEND_NAME.search(last_name(function.value)):
            own = None
            if last_name(root(function.value)) == "self":
                own = self.class_named(self.class_of_self(context))
            methods = [(self.program.method(cls, name), cls.name) for cls in self.reach.made_by(own)]
            return [(method, cls) for method, cls in methods if method is not None]
        cls = self.class_named(base.cls)
        if cls is None and isinstance(function.value, ast.Attribute):
            cls = self.program.held_by(function.value.attr)
            method = self.program.method(cls, name)
            if cls is not None and method is not None:
                return [(method, cls.name)]
        if cls is not None:
            method = self.program.method(cls, name)
            if method is not None:
                return [(method, base.cls)]
            if base.cls != facts.SPEC_INPUT_ROOT:
                return []
        if base.cls == facts.SPEC_INPUT_ROOT:
            return self._by_name(name, spec_inputs=True)
        if base.cls is None and any(value.missing or self.is_record(value.cls) for _, _, value in arguments):
            return self._by_name(name, spec_inputs=False)
        return []

    def _by_name(self, name: str, spec_inputs: bool) -> list[tuple[Function, str | None]]:
        named = [
            method
            for method in self._methods.get(name, ())
            if self._is_spec_input(method) == spec_inputs
            and (spec_inputs or not self.is_record(method.owner.name if method.owner else None))
            and not self.reach.excluded(method, None)
            and not self.reach.tree.runners.is_called_by_attribute(method)
        ]
        is_distinctive = len(named) <= _MAX_TARGETS
        return [(method, None) for method in named if is_distinctive and method not in self._entries.followed]

    def _is_spec_input(self, method: Function) -> bool:
        host = self._records.get(method.owner.name) if method.owner is not None else None
        return host is not None and host not in mirror.BATCH_CLASSES

    @cached_property
    def _methods(self) -> dict[str, list[Function]]:
        methods: dict[str, list[Function]] = {}
        for module in self.program.core:
            for cls in module.classes.values():
                for method in cls.methods.values():
                    methods.setdefault(method.name, []).append(method)
        return methods

    # Classes

    @cached_property
    def _records(self) -> dict[str, str]:
        """Names of classes that have the mirror, each with the class of its methods' ``self``."""
        records = {name: name for name in (*mirror.BATCH_CLASSES, facts.SPEC_INPUT_ROOT)}
        for module in self.program.core:
            for cls in module.classes.values():
                ancestors = self.program.ancestors(cls)
                if cls.name in mirror.BATCH_CLASSES or facts.SPEC_INPUT_ROOT in ancestors:
                    records[cls.name] = cls.name
                    for mixin in ancestors - {facts.SPEC_INPUT_ROOT, "ABC", "Enum", "object"}:
                        records.setdefault(mixin, cls.name)
        return records

    def is_record(self, cls: str | None) -> bool:
        """Return whether instances of a class have the mirror of a step."""
        return cls in self._records

    def class_of_self(self, context: Context) -> str:
        """Return the class of ``self``; for a mixin, a class that inherits it."""
        name = context.self_class
        if name is None:
            assert context.function.owner is not None
            name = context.function.owner.name
        return self._records.get(name, name)

    def class_named(self, name: str | None) -> Class | None:
        """Return the class of that name, or None."""
        classes = self.program.classes_named(name) if name is not None else []
        return classes[0] if classes else None

    @staticmethod
    @lru_cache(maxsize=4096)
    def class_of_name(name: str, hint: str | None) -> str | None:
        """Return the class that an annotation names or, without one, that a variable's name suggests."""
        if hint is not None and hint != "Any":
            return hint
        if facts.SPEC_INPUT_NAME.match(name):
            return facts.SPEC_INPUT_ROOT
        if not facts.BATCH_NAME.search(name):
            return None
        return (
            "ForwardBatch"
            if name in ("forward_batch", "fb") or name.endswith("forward_batch")
            else "ScheduleBatch"
        )

    def class_of_attribute(self, cls: str | None, name: str) -> str | None:
        """Return the class of an attribute, from its owner's code or else from its name."""
        for classes in self._ancestry(cls)[1]:
            if name in classes:
                return classes[name]
        return self.class_of_name(name, None)

    def stored_modes(self, cls: str | None, name: str) -> frozenset[str] | None:
        """Return the modes that a class stores in an attribute of its own, None if it stores others too.

        A class for both versions of speculative decoding stores the second's where the mirror is missing.
        """
        key = cls, name
        if key not in self._stored_modes:
            modes = [
                mode_member(node.value)
                for method in self.program.methods_naming(self.class_named(cls), f"self.{name} = ")
                for node in statements(method.node)
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"self.{name}"
            ]
            members = frozenset(mode for mode in modes if mode is not None)
            possible = members.intersection(self.modes.mirrorless) or members
            self._stored_modes[key] = possible if modes and None not in modes else None
        return self._stored_modes[key]

    def cleared(self, cls: str | None, name: str) -> bool:
        """Return whether methods of a class other than its constructor set an attribute to None."""
        clearing = self.program.methods_naming(self.class_named(cls), f"self.{name} = None")
        return any(method.name != "__init__" for method in clearing)

    def constructor_fields(self, cls: Class) -> list[str]:
        """Return a dataclass's fields in the order of its constructor."""
        names: list[str] = []
        for ancestor in reversed(self.program.mro(cls)):
            names.extend(name for name in ancestor.annotations if name not in names)
        return names

    def annotated_result(self, method: Function) -> str | None:
        """Return the class in a function's return annotation."""
        return class_of_annotation(method.node.returns)

    # Defaults

    def is_decision(self, function: Function) -> bool:
        """Return whether a function decides about the mirror from backend slots that can be unset."""
        return function in self.reach.tree.decision.functions and bool(self.unset_slots)

    @cached_property
    def unset_slots(self) -> list[str]:
        """Names of the decision's backend slots that other code leaves unset or checks for None."""
        names = set()
        for method in self._methods.get("spec_v2_attn_backends", ()):
            for node in walk(method.node):
                if isinstance(node, ast.Attribute) and facts.BACKEND_NAME.search(node.attr):
                    names.add(node.attr)
        return sorted(name for name in names if self._can_be_unset(name))

    def _can_be_unset(self, name: str) -> bool:
        signs = tuple(
            f"{name}{sign}".encode() for sign in (" = None", " is None", " is not None", ": Optional")
        )
        tests = (f"if self.{name}:".encode(), f"if not self.{name}:".encode())
        naming = [text for text in self.program.sources.values() if name.encode() in text]
        return any(sign in text for text in naming for sign in signs + tests)

    def default_mirror(self, cls: str | None, name: str, step: str, where: Step) -> Value:
        """Return the value of an object's mirror if a function's callers are unknown."""
        if name in mirror.MIRROR:
            if self.reach.keeps:
                return PRESENT
            return _lacking(where, f"{cls}.{name} is None in a {step} step without the mirror")
        if cls == "ForwardBatch" and step == facts.VERIFY:
            return _lacking(where, f"{cls}.{name} {facts.NO_LISTS}")
        if cls != "ForwardBatch" or "DRAFT" not in step:
            return Value(ANY)
        passed = self._handed.get((name, step))
        if passed is not None:
            return replace(passed)
        return _lacking(where, f"{cls}.{name} stays unset in a {step} step without the mirror")

    def default_argument(self, context: Context, name: str, where: Step) -> Value:
        """Return the value of a parameter named like the mirror if no caller is known."""
        if context.entered or self.reach.assumed_opt_out is None or name not in mirror.MIRROR:
            return PRESENT
        return _lacking(where, f"{name} would be None if {self.reach.assumed_opt_out.name} opted out")

    def publish(self, context: Context, cls: str | None, obj: str, env: Environment) -> None:
        """Record the contents of a draft-extend batch when the function that made it passes it on."""
        owner = context.function.owner
        own = owner is not None and owner.name == "ForwardBatch"
        if self._makers_done or own or cls != "ForwardBatch":
            return
        mode = env.cells.get(("field", obj, "forward_mode"))
        for step in (mode.modes or ()) if mode is not None else ():
            for name in mirror.EXTEND_MIRROR if "DRAFT" in step else ():
                value = env.cells.get(("field", obj, name))
                if value is not None:
                    handed = self._handed.get((name, step))
                    self._handed[(name, step)] = value if handed is None else join(handed, value)

    # Attributes of other classes

    def stored_field(self, context: Context, cls: str | None, name: str) -> Value | None:
        """Return the value stored in an attribute of a class if that can be None, else None."""
        for owner in self._ancestry(cls)[0]:
            place = (owner, name)
            self._readers.setdefault(place, {})[context] = None
            value = self._fields.get(place)
            if value is not None and value.missing:
                return value
        return None

    def store_field(self, cls: str, name: str, value: Value) -> None:
        """Record a value stored in an attribute, and run its readers again if it can hold more values."""
        if self.is_record(cls):
            return
        key = (cls, name)
        stored = self._fields.get(key)
        wider = value if stored is None else join(stored, value)
        if wider != stored:
            self._fields[key] = replace(wider, obj=None, items=None, refinement=None)
            if wider.missing:
                self._pending.extend(self._readers.get(key, ()))
                self._await_readers(cls, name)

    def _await_readers(self, cls: str, name: str) -> None:
        """Schedule the methods of a class that name an attribute which can be None."""
        naming = self.program.methods_naming(self.class_named(cls), f"self.{name}")
        self._awaiting += (method for method in naming if not self.reach.excluded(method, None))

    def _ancestry(self, cls: str | None) -> tuple[list[str], list[dict[str, str]]]:
        """Return the names of a class and its ancestors, and the classes of their attributes."""
        if cls not in self._ancestries:
            resolved = self.class_named(cls)
            order = self.program.mro(resolved)
            names = [cls] if resolved is None and cls is not None else [parent.name for parent in order]
            self._ancestries[cls] = names, list(map(self._attribute_classes, order))
        return self._ancestries[cls]

    def _attribute_classes(self, cls: Class) -> dict[str, str]:
        attribute_classes = cls.attribute_classes
        if cls.module not in self.program.holders:
            return attribute_classes
        return {name: hint for name, hint in attribute_classes.items() if self.class_named(hint) is not None}

    def fixed_answer(self, function: ast.Attribute) -> bool | None:
        """Return what a predicate always returns without the mirror; None if it can return either."""
        name = function.attr
        if facts.ALGORITHM_NAME.search(last_name(function.value)):
            if name == "is_none":
                return False
            if name in facts.ALWAYS_TRUE:
                return True
        if name in self.forced_false:
            return False
        return True if name in self.forced_true else None


def _lacking(where: Step, why: str) -> Value:
    return Value(NONE, tainted=True, trail=(Step(where.file, where.line, why),))


def _filled(entry_fields: dict[tuple[str, str], Value]) -> Known:
    return frozenset(
        place for place, value in entry_fields.items() if place[1] in mirror.TRACKED and value.nulls == SOME
    )


def _distinct(function: Function, self_class: str | None) -> str | None:
    """Return the class of ``self`` if it differs from the class that defines the method, else None."""
    return self_class if function.owner is None or self_class != function.owner.name else None


def _makes_draft_batch(function: Function) -> bool:
    return "DRAFT_EXTEND" in function.source and "ForwardBatch" in function.source

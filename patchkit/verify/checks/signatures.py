"""Check that overrides, and functions with edits, accept what their callers in the tree pass."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit import memory
from patchkit.findings.rule import Rule
from patchkit.tree import mirror
from patchkit.tree.index import Class, Function, last_name
from patchkit.tree.nodes import bound_names, own_statements, walk
from patchkit.tree.sglang import serves
from patchkit.verify.check import CheckOutcome, register, violation
from patchkit.verify.runtime import is_api

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import FunctionNode, Module
    from patchkit.verify.runtime import Runtime
    from patchkit.verify.subject import Subject

SIGNATURE = Rule("PV402", "signature", "a function does not accept what a caller in the tree passes")
# The backend of a multi-step draft plans several steps in one call; its methods have other parameters.
_STEPS = "MultiStep"
# Models call this method with the arguments of their own backend.
_OF_MODELS = "forward"
_CLASS = re.compile(rb"^class \w*Backend", re.MULTILINE)
_DEFINED = re.compile(rb"def (\w+)\(")
_RECEIVERS = {"attn_backend": False, "draft_attn_backend": True}
_ON_RECEIVER = re.compile(rb"\b(?:%s)\s*\.\w+\(" % b"|".join(map(str.encode, _RECEIVERS)))


@register("signatures", "Functions accept what callers pass", SIGNATURE, order=70)
def check(subject: Subject) -> CheckOutcome:
    """Match calls with the functions that they may call, as far as the source shows which those are.

    A call on something named ``attn_backend`` may call any backend's override. In a file with an edit, calls on
    ``self``, of classes, of functions and of the runtime are followed by name.
    """
    calls = list(_calls(subject, subject.runtime))
    findings = {
        (call.module.file, call.node.lineno, mismatch): call.finding(mismatch)
        for call in calls
        for mismatch in call.mismatches()
    }
    return CheckOutcome(f"{len(calls)} calls", tuple(findings.values()))


@dataclass(frozen=True)
class _Callee:
    """A function that may be called; ``bound`` if its first parameter is the receiver of the call."""

    name: str
    place: str
    node: FunctionNode
    bound: bool


@dataclass(frozen=True)
class _Call:
    module: Module
    caller: str
    node: ast.Call
    callees: Sequence[_Callee]

    def mismatches(self) -> Iterator[str]:
        for callee in self.callees:
            wrong = ", ".join(_mismatches(self.node, callee))
            if wrong:
                yield f"{callee.name} ({callee.place}) {wrong}"

    def finding(self, mismatch: str) -> Finding:
        return violation(
            SIGNATURE,
            self.module.file,
            self.node.lineno,
            mismatch,
            "give the function the parameter, with a default if other callers omit it",
            function=self.caller,
            expression=ast.unparse(self.node.func),
        )


def _mismatches(call: ast.Call, callee: _Callee) -> Iterator[str]:
    """Yield each mismatch between a call and the parameters of the callee."""
    arguments = callee.node.args
    positional = [*arguments.posonlyargs, *arguments.args][callee.bound :]
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    has_double_star = any(keyword.arg is None for keyword in call.keywords)
    passed = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
    by_name = {a.arg for a in arguments.args[max(0, callee.bound - len(arguments.posonlyargs)) :]}
    by_name |= {a.arg for a in arguments.kwonlyargs}
    if not starred and arguments.vararg is None and len(call.args) > len(positional):
        yield f"takes {len(positional)} positional arguments and is passed {len(call.args)}"
    if arguments.kwarg is None:
        for name in sorted(passed - by_name):
            yield f"takes no `{name}`"
    if starred or has_double_star:
        return
    needed = positional[: len(positional) - len(arguments.defaults)] if arguments.defaults else positional
    for parameter in needed[len(call.args) :]:
        if parameter.arg not in passed:
            yield f"needs `{parameter.arg}`"
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None and parameter.arg not in passed:
            yield f"needs `{parameter.arg}`"


def _calls(subject: Subject, runtime: Runtime) -> Iterator[_Call]:
    overrides = _overrides(subject)
    patched = _patched_methods(subject)
    # Each pattern begins with rare text: an alternation of both would be tried at every character.
    patched_call = re.compile(rb"\.(?:%s)\(" % b"|".join(map(str.encode, patched))) if patched else None
    for file, text in subject.sources.items():
        followed = file in subject.files
        if not serves(file):
            continue
        if not (
            followed
            or (b"attn_backend" in text and _ON_RECEIVER.search(text))
            or (patched_call is not None and patched_call.search(text))
        ):
            continue
        module = subject.program.module(file)
        if module is None:
            continue
        for caller, owner, call in _all_calls(module):
            callees = _by_name(call, overrides, patched)
            if not callees and followed:
                callees = _callees_of(subject, runtime, module, owner, call)
            if callees:
                yield _Call(module, caller, call, callees)


@memory.cached(512)
def _all_calls(module: Module) -> tuple[tuple[str, Class | None, ast.Call], ...]:
    return tuple(_calls_in(module))


def _calls_in(module: Module) -> Iterator[tuple[str, Class | None, ast.Call]]:
    for function in module.all_functions():
        for node in walk(function.node):
            if isinstance(node, ast.Call):
                yield function.qualname, function.owner, node
    for statement in module.tree.body:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for node in walk(statement):
                if isinstance(node, ast.Call):
                    yield "module", None, node


def _overrides(subject: Subject) -> dict[bool, dict[str, list[_Callee]]]:
    """Return the overrides of the abstract backend's methods by name, those of multi-step drafts separately."""
    methods: dict[bool, dict[str, list[_Callee]]] = {False: {}, True: {}}
    roots = subject.program.classes_named(mirror.BACKEND_ROOT)
    names = {name for root in roots for name in root.methods if not name.startswith(_OF_MODELS)}
    for file, text in subject.sources.items():
        if not serves(file) or b"Backend" not in text or not _CLASS.search(text):
            continue
        module = subject.program.module(file)
        for cls in module.classes.values() if module is not None else ():
            steps = _STEPS in cls.name
            if steps or mirror.BACKEND_ROOT in subject.program.ancestors(cls):
                for name in names & cls.methods.keys():
                    methods[steps].setdefault(name, []).append(_callee(cls.methods[name]))
    return methods


def _patched_methods(subject: Subject) -> dict[str, list[_Callee]]:
    """Return the methods by name that patches edit and that the tree defines once."""
    methods: dict[str, list[_Callee]] = {}
    for _, edit in subject.in_place:
        owner, _, name = edit.site.rpartition(".")
        module = subject.program.module(edit.file) if owner and not name.startswith("__") else None
        method = module.classes[owner].methods.get(name) if module and owner in module.classes else None
        if method is not None:
            methods[name] = [_callee(method)]
    defined = Counter(name for text in subject.sources.values() for name in _DEFINED.findall(text))
    return {name: methods for name, methods in methods.items() if defined[name.encode()] == 1}


def _by_name(
    call: ast.Call, overrides: dict[bool, dict[str, list[_Callee]]], patched: dict[str, list[_Callee]]
) -> list[_Callee]:
    if not isinstance(call.func, ast.Attribute):
        return []
    name, receiver = call.func.attr, last_name(call.func.value)
    if name in patched:
        return patched[name]
    if receiver not in _RECEIVERS:
        return []
    several = overrides[True].get(name, []) if _RECEIVERS[receiver] else []
    # In a draft of one layer the slot holds a plain backend; a callee that takes any argument proves nothing.
    definite = [callee for callee in several if not _takes_anything(callee)]
    if several and not all(any(_mismatches(call, callee)) for callee in definite or several):
        return several
    return overrides[False].get(name, [])


def _takes_anything(callee: _Callee) -> bool:
    return callee.node.args.vararg is not None or callee.node.args.kwarg is not None


def _callees_of(
    subject: Subject, runtime: Runtime, module: Module, owner: Class | None, call: ast.Call
) -> list[_Callee]:
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        base = function.value.id
        if base == "self" and owner is not None:
            method = subject.program.method(owner, function.attr)
            return [_callee(method)] if method is not None else []
        dotted, name = module.imports.get(base, ("", None))
        if dotted == runtime.package and name is not None and is_api(name):
            api = runtime.api(name)
            node = runtime.definition(api, function.attr) if api is not None else None
            return [_Callee(function.attr, f"runtime {name}", node, False)] if node is not None else []
    if isinstance(function, ast.Name):
        target = subject.program.resolve(module, function.id, parse=False)
        if _is_one_of_several(module, function.id) or (
            isinstance(target, (Function, Class)) and _is_one_of_several(target.module, target.name)
        ):
            return []
        if isinstance(target, Function):
            return [_callee(target)]
        if isinstance(target, Class):
            made = target.methods.get("__init__")
            return [_callee(made)] if made is not None else []
    return []


def _is_one_of_several(module: Module, name: str) -> bool:
    """Return whether the top level binds a name more than once, as by an import and its fallback: one is called."""
    return _bindings(module)[name] > 1


@memory.cached(512)
def _bindings(module: Module) -> Counter[str]:
    return Counter(name for node in own_statements(module.tree.body) for name in bound_names(node))


def _callee(function: Function) -> _Callee:
    bound = function.owner is not None and "staticmethod" not in function.decorators
    place = f"{function.module.file}:{function.node.lineno}"
    return _Callee(function.qualname, place, function.node, bound)

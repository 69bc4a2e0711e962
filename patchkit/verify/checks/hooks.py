"""Check that every backend within reach of the overlap plan stream defines the hook that a verify calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.tree import mirror
from patchkit.tree.index import Class, last_name
from patchkit.tree.nodes import walk
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import Function, Module
    from patchkit.verify.subject import Subject

MISSING = Rule("PV401", "hook-missing", "the overlap plan stream can reach a backend without its hook")
HOOK = "update_verify_buffers_to_fill_after_draft"
_NAMED = 3
_START_CHECK = "require_overlap_hook_to_verify"
_WORKERS_OWN_CHECK = "require_overlap_hook"


@register("hooks", "Backends have the overlap hook", MISSING, order=60)
def check(subject: Subject) -> CheckOutcome:
    """Check the backends that opted out of the mirror or that a worker names.

    For a worker that calls the hook without a check at startup, check all backends of the tree.
    """
    workers = _workers(subject)
    if not workers:
        return CheckOutcome("no worker of this tree calls the hook", skipped=True)
    backends = _backends(subject)
    names = _names_in_reach(subject, workers)
    if subject.patched is not None:
        # A backend that a patch opts out, or names in a worker, could call the hook before the patch, too.
        names |= _names_in_reach(subject.patched, _workers(subject.patched))
    in_reach = [cls for cls in backends if cls.name in names]
    findings = [_missing(cls) for cls in in_reach if not _has(subject, cls)]
    for worker in workers:
        if not _checked(subject, worker):
            out_of_reach = [cls for cls in backends if cls not in in_reach and not _has(subject, cls)]
            findings += _unchecked(worker, out_of_reach)
    return CheckOutcome(f"{len(in_reach)} backends", tuple(findings))


def _workers(subject: Subject) -> list[Function]:
    """Return the functions outside backends that call the hook of a backend."""
    program = subject.program
    callers = [function for function in program.functions() if _calls(function, HOOK)]
    return [caller for caller in callers if mirror.BACKEND_ROOT not in program.ancestors(caller.owner)]


def _backends(subject: Subject) -> list[Class]:
    backends = subject.backends
    return [cls for cls in backends.all if backends.derived(cls) and not backends.serves_inside(cls)]


def _names_in_reach(subject: Subject, workers: list[Function]) -> frozenset[str]:
    """Return the names of the backends that opted out of the mirror or that a worker names."""
    named = {name for worker in workers for name in _named(worker.module)}
    return frozenset(
        cls.name for cls in _backends(subject) if subject.backends.opted_out(cls) or cls.name in named
    )


def _calls(function: Function, name: str) -> bool:
    return any(called == name for _, called in function.called_names)


def _named(module: Module) -> Iterator[str]:
    """Yield the classes in the ``isinstance`` tests of a worker's file."""
    for node in walk(module.tree):
        if isinstance(node, ast.Call) and last_name(node.func) == "isinstance" and len(node.args) == 2:
            kinds = node.args[1]
            yield from map(last_name, kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])


def _has(subject: Subject, cls: Class) -> bool:
    owner = subject.program.method(cls, HOOK)
    return owner is not None and owner.owner is not None and owner.owner.name != mirror.BACKEND_ROOT


def _checked(subject: Subject, worker: Function) -> bool:
    """Return whether startup rejects a backend without the hook, in the scheduler or in the worker itself.

    For a function outside any class, a check in any worker counts.
    """
    core = subject.program.core
    own = [worker.module] if worker.owner is not None else core
    return _called(core, _START_CHECK) or _called(own, _WORKERS_OWN_CHECK)


def _called(modules: Sequence[Module], name: str) -> bool:
    return any(_calls(function, name) for module in modules for function in module.all_functions())


def _missing(cls: Class) -> Finding:
    return violation(
        MISSING,
        cls.module.file,
        cls.node.lineno,
        f"{cls.name} defines no {HOOK}, which a verify calls with the overlap plan stream",
        f"define {HOOK}(self, spec_info, cuda_graph_bs), empty if no verify metadata depends on the draft",
        function=cls.name,
    )


def _unchecked(worker: Function, without: list[Class]) -> Iterator[Finding]:
    if without:
        names = ", ".join(sorted({cls.name for cls in without})[:_NAMED])
        names += f" and {len(without) - _NAMED} more" if len(without) > _NAMED else ""
        yield violation(
            MISSING,
            worker.module.file,
            worker.node.lineno,
            f"some backends define no {HOOK}: this call raises during a verify",
            f"patchkit apply 25925, which makes the server reject them at startup ({names})",
            function=worker.qualname,
        )

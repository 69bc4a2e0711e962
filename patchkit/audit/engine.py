"""``audit(tree)`` returns every use of the CPU mirror that breaks when it is None; no code is run."""

from __future__ import annotations

import ast
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from patchkit import cache, memory
from patchkit.audit import facts
from patchkit.audit.interpreter.flow import interpret
from patchkit.audit.reach import Reach
from patchkit.audit.rules import UNREAD, Use, guard
from patchkit.audit.runners import AuditedProgram
from patchkit.audit.solver import Solver
from patchkit.audit.values import NONE
from patchkit.findings import suppress
from patchkit.findings.finding import Confidence, Finding
from patchkit.findings.report import Report
from patchkit.tree import mirror
from patchkit.tree.index import read_sources
from patchkit.tree.sglang import SERVING, served, serves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from patchkit.audit.context import Context, Hit
    from patchkit.tree.backends import InheritingBackend
    from patchkit.tree.tree import Tree

_PLACES_OF_MODELS = served("models", "lora", "eplb", "hardware_backend")
_MAX_EXPRESSION = 120
CACHED = "audit"
"""The folder of cached reports, in the user's cache folder."""


@memory.collector_paused()
def audit(tree: Tree) -> Report:
    """Return the audit of a tree's ``srt`` package; files that do not parse become notes."""
    started = time.perf_counter()
    return _with_unread(audit_program(AuditedProgram(read_sources(tree)), started), tree)


@memory.collector_paused()
def audit_cached(tree: Tree, watch: Callable[[str, int, int], None] | None = None) -> Report:
    """Return the audit of a tree, from the cache if neither the files nor the analysis changed.

    ``watch`` is called with the current item, how many are done, and how many there are.
    """
    started = time.perf_counter()
    sources = read_sources(tree)
    name = cache_key(sources)
    report = cache.load(CACHED, name, Report)
    if report is None:
        report = audit_program(AuditedProgram(sources), started, watch)
        cache.save(CACHED, name, report)
    return _with_unread(replace(report, seconds=time.perf_counter() - started), tree)


def cache_key(sources: dict[str, bytes]) -> str:
    """Return a digest of the files, of the analysis and of the interpreter whose grammar it uses."""
    return cache.key(sources, ("audit", "findings", "runtime", "tree"))


def _with_unread(report: Report, tree: Tree) -> Report:
    """Return the report with a finding for each unreadable folder, which the cached report cannot contain."""
    findings = tuple(
        Finding(
            rule=UNREAD.id,
            file=folder,
            line=1,
            function="module",
            expression="",
            message="a linked or unreadable folder, which was not audited",
            confidence=Confidence.CERTAIN,
            path=(),
            guard="replace the link with the files and make them readable, or ignore it with --allow-unread",
        )
        for folder in tree.unread(SERVING)
    )
    return replace(report, findings=(*findings, *report.findings)) if findings else report


def unread_noted(report: Report) -> Report:
    """Return the report with unreadable folders as notes instead of findings."""
    unread = [finding for finding in report.findings if finding.rule == UNREAD.id]
    notes = tuple(f"{finding.file} is {finding.message}" for finding in unread)
    rest = tuple(finding for finding in report.findings if finding.rule != UNREAD.id)
    return replace(report, findings=rest, notes=(*report.notes, *notes))


def audit_program(
    program: AuditedProgram, started: float, watch: Callable[[str, int, int], None] | None = None
) -> Report:
    """Return the audit of an indexed tree; ``started`` is a time of ``time.perf_counter``."""
    notes: list[str] = []
    findings: tuple[Finding, ...] = ()
    reach = Reach(program)
    if not reach.has_flag:
        notes.append(
            f"the tree does not read {mirror.FLAG}: every backend keeps the mirror, so it is never None; "
            "--suggest-opt-out lists the backends that could opt out"
        )
    else:
        solver = Solver(program, reach, interpret)
        solver.solve(watch)
        keeping = Solver(program, reach.keeping(), interpret)
        keeping.solve_backend()
        findings = collect(solver, keeping)
    notes += [f"{file} does not parse and was skipped" for file in program.unparsed]
    lines = {finding.file: program.lines(finding.file) for finding in findings}
    reported, suppressed, complaints = suppress.split(findings, lines)
    seconds = time.perf_counter() - started
    scanned = sum(map(serves, program.sources))
    return Report(reported, scanned, seconds, suppressed, (*notes, *complaints))


def collect(*solvers: Solver) -> tuple[Finding, ...]:
    """Return the findings of the solvers of one tree, one per place and rule, in source order."""
    best: dict[tuple[str, int, int, str], Finding] = {}
    inheriting = {(backend.file, backend.line): backend for backend in solvers[0].reach.tree.kinds.inheriting}
    for context in (context for solver in solvers for context in solver.contexts.values()):
        for hit in context.hits:
            if _no_lists(hit) and not solvers[0].reach.handed_by_a_backend(context.function, hit.value.trail):
                continue
            place = (context.function.module.file, hit.subject.lineno, hit.subject.col_offset, hit.use.rule)
            finding = _finding(context, hit, inheriting)
            if place not in best or _order(finding) < _order(best[place]):
                best[place] = finding
    return tuple(best[place] for place in sorted(best))


def _order(finding: Finding) -> tuple[int, int, tuple[str, ...]]:
    return finding.confidence.rank, len(finding.path), tuple(step.text for step in finding.path)


def _finding(context: Context, hit: Hit, inheriting: Mapping[tuple[str, int], InheritingBackend]) -> Finding:
    module = context.function.module
    owner = context.function.owner
    backend = None if owner is None else inheriting.get((owner.module.file, owner.node.lineno))
    remedies = [] if backend is None else [backend.remedy]
    expression = _shown(hit.node)
    subject = _shown(hit.subject)
    message = f"{hit.use.value.summary}: {_why(context, hit, subject)}"
    return Finding(
        rule=hit.use.rule,
        file=module.file,
        line=hit.subject.lineno,
        function=context.function.qualname,
        expression=expression,
        message=message,
        confidence=_confidence(context, hit),
        path=hit.value.trail,
        guard="; or ".join([guard(hit.use, expression, subject), *remedies]),
    )


def _why(context: Context, hit: Hit, subject: str) -> str:
    if hit.use is Use.SLOT:
        return f"`{subject}` is None if the configuration leaves the slot unset"
    step = context.step.lower().replace("_", " ")
    if hit.use is Use.STALE:
        return f"`{subject}` is not refreshed in a {step} step without the mirror"
    if _no_lists(hit):
        return f"`{subject}` is not set in a {step} step"
    certainty = "is" if hit.value.nulls == NONE else "can be"
    inherited = f", in code that {context.self_class} inherits" if context.self_class is not None else ""
    return f"`{subject}` {certainty} None in a {step} step without the mirror{inherited}"


def _confidence(context: Context, hit: Hit) -> Confidence:
    if _no_lists(hit) or not context.known or context.function.module.file.startswith(_PLACES_OF_MODELS):
        return Confidence.POSSIBLE
    definite = hit.value.nulls == NONE and (hit.mode_checked or (context.entered and not context.only_models))
    return Confidence.CERTAIN if definite or hit.use is Use.SLOT else Confidence.LIKELY


def _no_lists(hit: Hit) -> bool:
    return any(step.text.endswith(facts.NO_LISTS) for step in hit.value.trail)


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _MAX_EXPRESSION else f"{text[: _MAX_EXPRESSION - 3]}..."

"""Diagnose what keeps a server's CPU mirror, why, and which patch or option removes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.doctor import fixes
from patchkit.doctor.causes import Cause, causes_of
from patchkit.doctor.examined import TOP_K, ExaminedServer, ExaminedTree
from patchkit.doctor.execution.kinds import LINEAR
from patchkit.doctor.fixes import Fix  # noqa: TC001  # schemas are made of it
from patchkit.doctor.gains import Gain, gains
from patchkit.doctor.models import named, unless_usual
from patchkit.doctor.optouts import decides, opts_out
from patchkit.doctor.phrases import listed, option
from patchkit.doctor.registry import makers
from patchkit.doctor.remedies import Trials
from patchkit.doctor.server import outcomes, without_speculation
from patchkit.errors import UsageError
from patchkit.patchset import runs
from patchkit.plan.status import IN_PLACE, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.audit.reach import Reach
    from patchkit.audit.runners import AuditedProgram
    from patchkit.doctor.launch import Launch
    from patchkit.doctor.outcome import Outcomes, ServerOutcome
    from patchkit.plan.status import PatchStatus

_MIRROR = "The CPU mirror of sequence lengths"
_NOTHING = "No CPU mirror to remove: a server without speculation copies no sequence lengths to the host."
_NAMES_OF_BACKENDS = (
    "prefill_attention_backend",
    "decode_attention_backend",
    "speculative_draft_attention_backend",
)
# The wrapper of a target's backend for models with linear attention, and the base of its backends for these layers.
_LINEAR_WRAPPER = "HybridLinearAttnBackend"
_LINEAR_ROOT = "MambaAttnBackendBase"
_OTHER_MACHINES = "/hardware_backend/"


class Touched(msgspec.Struct, frozen=True):
    """A backend that the server's forwards use; ``opted_out`` if it runs without the mirror.

    ``reads`` are the models with which it reads the mirror, empty if that is the same for all.
    """

    role: str
    backend: str
    classes: tuple[str, ...]
    opted_out: bool
    reads: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """A server's verdict: ``kept`` if any cause keeps the mirror, and the measured ``gains`` of removing it.

    ``fixes`` are those that the tree lacks and the server needs; ``frees`` is True if the default patches remove it for
    some models.
    """

    kept: bool
    verdict: str
    backends: tuple[Touched, ...]
    causes: tuple[Cause, ...]
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]
    fixes: tuple[Fix, ...] = ()
    frees: bool = False


def diagnose(examined: ExaminedTree, launch: Launch) -> Diagnosis:
    """Return the diagnosis of a launch on a tree; nothing is imported.

    Raise UsageError if the tree's code raises with these options.
    """
    tree, statuses, program = examined.tree, examined.statuses, examined.program
    if not launch.get("speculative_algorithm"):
        plain = without_speculation(program, launch) if fixes.lacking(statuses) else []
        return Diagnosis(False, _NOTHING, (), (), (), launch.notes, tuple(fixes.needed(plain, statuses)))
    server = ExaminedServer(program, launch, examined.advises)
    results = server.outcomes
    usual = results[0][1]
    notes = list(launch.notes)
    if usual.refused is not None:
        raise UsageError(f"this tree's server raises {usual.refused}", where=usual.refused.where)
    trials = Trials(tree, program, launch, statuses if examined.advises else ())
    causes = tuple(causes_of(server, statuses, trials))
    if usual.kept:
        notes += _instead(server)
    if any(case.facts.get(LINEAR) for case in launch.cases):
        notes += _of_linear_attention(program, server.reach, statuses)
    verdict = _verdict(results, causes)
    freed = any(not outcome.kept for _, outcome in results)
    frees = False
    default = {status.patch.id for status in statuses if status.patch.default}
    freeing = _freeing(statuses, results)
    running = [patch for patch, state in freeing.items() if state is State.APPLIED] if freed else []
    changes = examined.changes
    patched = ExaminedServer(examined.patched, launch.on(changes), examined.advises)
    if usual.kept and changes and patched.outcomes:
        patched_outcomes = patched.outcomes
        freed = frees = any(not outcome.kept for _, outcome in patched_outcomes)
        remaining_causes = tuple(causes_of(patched, (), Trials(tree, patched.program, patched.launch, ())))
        after = [f"After `patchkit apply`: {_verdict(patched_outcomes, remaining_causes)}"]
        after += _branching(remaining_causes)
        after += _instead(patched) if patched_outcomes[0][1].kept else ()
        notes.append(" ".join(after))
        lacking = [patch for patch, state in freeing.items() if state not in IN_PLACE and patch in default]
        running = lacking if freed else []
    notes += filter(None, [runs.never_run(running, tree.version)])
    names = {one.role: one.name for one in usual.roles}
    prefill, decode = (names.get(side, "") for side in ("prefill", "decode"))
    touched = tuple(_touched(results))
    measured = gains(tree.version, prefill, decode, default) if freed else ()
    if not running:
        # Upstream removed it here, so what patches gain on an older release is not to be had.
        measured = tuple(case for case in measured if case.release == runs.release_of(tree.version))
    return Diagnosis(
        any(outcome.kept for _, outcome in results),
        verdict,
        touched,
        causes,
        measured,
        tuple(notes),
        fixes=tuple(fixes.needed(results, statuses)),
        frees=frees,
    )


def _branching(causes: Sequence[Cause]) -> Iterator[str]:
    """Yield a sentence for each set of options for one branch, with the causes that it removes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cause in causes:
        for remedy in cause.remedies:
            if remedy.startswith(option(TOP_K)):
                groups.setdefault((remedy, cause.where), []).append(cause.who)
    for (remedy, where), names in groups.items():
        yield f"{remedy} removes it from {listed(names)}{' ' if where else ''}{where}."


def _instead(server: ExaminedServer) -> Iterator[str]:
    """Yield a sentence that names the backends with which there is no mirror, if there are any."""
    free: list[str] = []
    partly: dict[str, list[str]] = {}
    for name in sorted(makers(server.program)) if server.advises else ():
        settings = {**dict.fromkeys(_NAMES_OF_BACKENDS), "attention_backend": name}
        # Only for a backend that may remove the mirror the settings are executed.
        if not any(map(_is_free, outcomes(server.program, server.launch.guessed(settings))[:1])):
            continue
        outcomes_after = outcomes(server.program, server.launch.with_settings(settings))
        if any(map(_is_free, outcomes_after[:1])):
            kept = [answers for answers, outcome in outcomes_after if outcome.kept]
            if kept:
                partly.setdefault(named(kept), []).append(name)
            else:
                free.append(name)
    groups = [" or ".join(free)] if free else []
    groups += [f"{' or '.join(names)}, except {models}" for models, names in partly.items()]
    if groups:
        yield (
            "On this server other backends remove the mirror, if the GPU and the model support them: "
            f"--attention-backend {'; or '.join(groups)}."
        )


def _is_free(case: tuple[dict[str, bool], ServerOutcome]) -> bool:
    """Return whether a server starts with known backends, and without the mirror."""
    outcome = case[1]
    starts = outcome.refused is None and bool(outcome.roles)
    return not outcome.kept and starts and all(one.cls for one in outcome.roles)


def _verdict(results: Outcomes, causes: Sequence[Cause]) -> str:
    """Return the verdict in one sentence."""
    kept = [answers for answers, outcome in results if outcome.kept]
    if not kept:
        return f"{_MIRROR} is removed: decode steps do not wait for a device-to-host copy."
    if len(kept) == len(results):
        return f"{_MIRROR} is kept{_by(causes)}."
    freed = [answers for answers, outcome in results if not outcome.kept]
    usual, other, those = ("kept", "removed", freed) if results[0][1].kept else ("removed", "kept", kept)
    return f"{_MIRROR} is {usual} for most models, but {other} {named(those)}."


def _by(causes: Sequence[Cause]) -> str:
    """Return the causes as the end of a sentence, those of some models behind those of all."""
    groups: dict[str, list[str]] = {"": []}
    for cause in causes:
        groups.setdefault(cause.where, []).append(cause.who)
    always = groups.pop("")
    some = [f"{where} by {listed(names)}" for where, names in groups.items()]
    text = f" by {listed(always)}" if always else ""
    return text + f"{', and' if always else ''} {'; '.join(some)}" if some else text


def _freeing(statuses: Sequence[PatchStatus], results: Outcomes) -> dict[str, State]:
    """Return the states of the patches that add the decision or let one of the server's backends opt out."""
    classes = {one.cls for _, outcome in results for one in outcome.roles if one.cls}
    return {
        status.patch.id: status.state
        for status in statuses
        if status.state is not State.NOT_APPLICABLE
        and (decides(status.patch) or any(opts_out(status.patch, cls) for cls in classes))
    }


def _touched(results: Outcomes) -> Iterator[Touched]:
    """Yield each role once, with its classes for all kinds of model."""
    roles = dict.fromkeys((one.role, one.name) for _, outcome in results for one in outcome.roles)
    for role, name in roles:
        same = [
            (answers, one)
            for answers, outcome in results
            for one in outcome.roles
            if (one.role, one.name) == (role, name)
        ]
        classes = tuple(dict.fromkeys(one.cls for _, one in same if one.cls))
        reading = [answers for answers, one in same if one.reads]
        depends = bool(reading) and len(reading) < len(same)
        where = unless_usual(reading) if depends else ""
        yield Touched(role, name, classes, bool(classes) and not reading, where)


def _of_linear_attention(
    program: AuditedProgram, reach: Reach, statuses: Sequence[PatchStatus]
) -> Iterator[str]:
    """Yield a note on models with linear attention, which no option of a launch determines."""
    wrappers = [cls for cls in reach.backends if cls.name == _LINEAR_WRAPPER]
    if not wrappers:
        return
    linear_model = "A model with linear-attention layers"
    if not all(map(reach.opted_out, wrappers)):
        freeing = [
            f"patch {status.patch.id}"
            for status in statuses
            if status.state not in IN_PLACE | {State.NOT_APPLICABLE}
            and opts_out(status.patch, _LINEAR_WRAPPER)
        ]
        freed = f"; {' or '.join(freeing)} removes it" if freeing else ""
        certain = "" if freeing else " in any case"
        yield f"{linear_model} keeps the mirror{certain}, by {_LINEAR_WRAPPER}{freed}."
        return
    # Backends of other hardware do not run on a server with a GPU.
    linear = {
        cls.name: cls
        for cls in reach.backends
        if _LINEAR_ROOT in program.ancestors(cls) and _OTHER_MACHINES not in cls.module.file
    }
    bases = {name for cls in linear.values() for name in program.ancestors(cls) - {cls.name}}
    keeping = sorted(name for name, cls in linear.items() if name not in bases and not reach.opted_out(cls))
    if keeping:
        yield f"{linear_model} keeps the mirror if {' or '.join(keeping)} runs them."

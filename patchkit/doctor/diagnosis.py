"""Diagnose what keeps a server's CPU mirror, why, and which patch or option frees it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.audit.reach import Reach
from patchkit.audit.runners import AuditedProgram
from patchkit.doctor import fixes
from patchkit.doctor.fixes import Fix  # noqa: TC001  # schemas are made of it
from patchkit.doctor.models import named, unless_usual
from patchkit.doctor.options import meant
from patchkit.doctor.remedies import Trials
from patchkit.doctor.server import (
    ASSUMED,
    PLAN_STREAM,
    Outcome,
    algorithms,
    makers,
    outcomes,
    without_speculation,
)
from patchkit.doctor.worth import Worth, worth
from patchkit.patchset import runs
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.tree import mirror
from patchkit.tree.index import Program, read_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from patchkit.doctor.options import Launch, Refusal
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree

Found = list[tuple[dict[str, bool], Outcome]]

_MIRROR = "The CPU mirror of sequence lengths"
_REFUSED = "The server does not start with these options."
_NOTHING = "No CPU mirror to free: a server without speculation copies no sequence lengths to the host."
_ASSUMPTION = (
    f"No attention backend is given, so sglang chooses one by GPU and model; {ASSUMED}, its choice on "
    "Hopper, is assumed. Add --attention-backend NAME for another one."
)
_NAMES_OF_BACKENDS = (
    "prefill_attention_backend",
    "decode_attention_backend",
    "speculative_draft_attention_backend",
)
_TOP_K = "speculative_eagle_topk"
# Without these it is no server of its kind.
_REQUIRED = frozenset({"model_path", "speculative_algorithm", "speculative_draft_model_path"})
# Of the first three sglang accepts all or none, and the others it chooses by the GPU if they are left out.
_KEPT = _REQUIRED | {
    *(_TOP_K, "speculative_num_steps", "speculative_num_draft_tokens"),
    *("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
}
_V2 = "SGLANG_ENABLE_SPEC_V2"
_FALSE = re.compile(rf"\b{mirror.FLAG}(: *bool)? = False")
_TRUE = re.compile(rf"\b{mirror.FLAG}(: *bool)? = True")
_IN_PLACE = {State.APPLIED, State.UPSTREAM}
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


class Keeper(msgspec.Struct, frozen=True):
    """What keeps the mirror, why, and each remedy: options, or ``patch ID…`` with a remark in brackets.

    ``where`` are the models with which it does, empty if that is the same for all.
    """

    who: str
    why: str
    remedies: tuple[str, ...] = ()
    where: str = ""


class Refused(msgspec.Struct, frozen=True):
    """The error with which a server ends, its file and line, and each option with which the server starts."""

    why: str
    where: str
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Server:
    """A launch on a tree: its outcomes, and those with one branch if it may have several."""

    program: AuditedProgram
    launch: Launch
    memory: dict[Any, Any]

    @cached_property
    def found(self) -> Found:
        return outcomes(self.program, self.launch, self.memory)

    @cached_property
    def reach(self) -> Reach:
        return Reach(self.program)

    @cached_property
    def _single(self) -> tuple[Found, str]:
        """The outcomes with one branch, and the options for it; both are empty if the launch has one branch."""
        if self.launch.get(_TOP_K) == 1 or _TOP_K not in self.launch.defaults:
            return [], ""
        settings = {_TOP_K: 1}
        if self.launch.get("speculative_num_steps") is None:
            # sglang takes all three of them or none.
            settings |= {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}
        known = {name: value for name, value in settings.items() if name in self.launch.defaults}
        said = " ".join(f"{_option(name)} {value}" for name, value in known.items())
        return outcomes(self.program, self.launch.with_settings(known), self.memory), said

    def freed_by_one_branch(self, keeps: Callable[[Outcome], bool]) -> tuple[str, ...]:
        """Return the options for one branch if ``keeps`` no longer holds with them for some kind of model."""
        single, said = self._single
        changed = any(
            keeps(outcome) and not keeps(other)
            for answers, outcome in self.found
            for others, other in single
            if all(others.get(fact, so) is so for fact, so in answers.items())
        )
        return (said,) if changed else ()


class Diagnosis(msgspec.Struct, frozen=True):
    """A server's verdict: ``kept`` if any keeper keeps the mirror, and the measured ``worth`` of freeing it.

    ``fixes`` are those that the tree lacks and the server needs. Of a server that is ``refused`` nothing else is known.
    """

    kept: bool
    verdict: str
    backends: tuple[Touched, ...]
    keepers: tuple[Keeper, ...]
    worth: tuple[Worth, ...]
    notes: tuple[str, ...]
    refused: Refused | None = None
    fixes: tuple[Fix, ...] = ()


def diagnose(tree: CheckoutTree, launch: Launch, status: Callable[[], Sequence[PatchStatus]]) -> Diagnosis:
    """Return the diagnosis of a launch on a tree whose patches have the ``status``; nothing is imported."""
    if launch.refused is not None:
        return _refusal(launch.refused.why, launch.refused.where)
    statuses = status()
    if not launch.get("speculative_algorithm"):
        missing = fixes.lacking(statuses)
        if not missing:
            return Diagnosis(False, _NOTHING, (), (), (), ())
        plain = without_speculation(Program(read_sources(tree)), launch)
        if plain.refused is not None:
            return _refusal(plain.refused.why, plain.refused.where)
        return Diagnosis(False, _NOTHING, (), (), (), (), fixes=tuple(fixes.needed([({}, plain)], missing)))
    program = AuditedProgram(read_sources(tree))
    server = _Server(program, launch, {})
    found = server.found
    usual = found[0][1]
    notes = [_ASSUMPTION] if _unnamed(launch) else []
    if usual.refused is not None:
        given = "" if usual.refused.filled else _blamed(server, usual.refused)
        why = f"{usual.refused.why}{given}{_misspelt(program, launch, usual.refused.why)}"
        return _refusal(why, usual.refused.where, _starting(server), notes)
    trials = Trials(tree, program, launch, statuses)
    keepers = tuple(_keepers(server, statuses, trials))
    if usual.kept:
        notes += _instead(server)
    notes += _of_linear_attention(program, server.reach, statuses)
    verdict = _verdict(found, keepers)
    freed = any(not outcome.kept for _, outcome in found)
    freeing = _freeing(statuses, found)
    running = [patch for patch, state in freeing.items() if state is State.APPLIED] if freed else []
    plan = make_plan(tree, [status.patch for status in statuses if status.patch.default])
    changes = {change.file: change.after for change in plan.changes}
    if not freed and changes:
        patched = _Server(trials.patched(changes), launch, {})
        later = patched.found
        freed = any(not outcome.kept for _, outcome in later)
        left = tuple(_keepers(patched, ()))
        after = [f"After `patchkit apply {tree.argument}`: {_verdict(later, left)}"]
        after += _branching(left)
        after += _instead(patched) if later[0][1].kept else ()
        notes.append(" ".join(after))
        planned = {status.patch.id for status in statuses if status.patch.default}
        lacking = [patch for patch, state in freeing.items() if state not in _IN_PLACE and patch in planned]
        running = lacking if freed else []
    notes += filter(None, [runs.never_run(running, tree.version)])
    whole = launch.get("attention_backend") or ASSUMED
    sides = (str(launch.get(f"{side}_attention_backend") or whole) for side in ("prefill", "decode"))
    touched = tuple(_touched(found))
    measured = worth(tree.version, *sides) if freed else ()
    if not running:
        # Upstream frees it here, so what patches gain on an older release is not to be had.
        measured = tuple(case for case in measured if case.release == runs.release_of(tree.version))
    return Diagnosis(
        any(outcome.kept for _, outcome in found),
        verdict,
        touched,
        keepers,
        measured,
        tuple(notes),
        fixes=tuple(fixes.needed(found, statuses)),
    )


def _refusal(why: str, where: str, remedies: Iterable[str] = (), notes: Sequence[str] = ()) -> Diagnosis:
    refused = Refused(why, where, tuple(remedies))
    return Diagnosis(False, _REFUSED, (), (), (), tuple(notes), refused)


def _blamed(server: _Server, refusal: Refusal) -> str:
    """Return the given options without which the tree raises no such error, with their values, in brackets."""
    launch = server.launch
    blamed = [
        f"{_option(name)} {launch.given[name]}"
        for name in sorted(launch.given.keys() - _REQUIRED)
        if _refused_at(server, launch.without(name)) != refusal.where
    ]
    return f" ({_listed(blamed)})" if blamed else ""


def _misspelt(program: Program, launch: Launch, why: str) -> str:
    """Return a hint for the name of a backend or an algorithm that an error quotes and that the tree does not have."""
    known = {
        "speculative_algorithm": algorithms(program),
        **{key: [*makers(program)] for key in ("attention_backend", *_NAMES_OF_BACKENDS)},
    }
    for name, names in known.items():
        value = launch.given.get(name)
        if isinstance(value, str) and not {value, value.upper()} & {*names} and value in why:
            return meant(value, names)
    return ""


def _refused_at(server: _Server, launch: Launch) -> str:
    refused = outcomes(server.program, launch, server.memory)[0][1].refused
    return refused.where if refused is not None else ""


def _starting(server: _Server) -> Iterator[str]:
    """Yield the changes of one option with which a refused server starts."""
    yield from server.freed_by_one_branch(lambda outcome: outcome.refused is not None)
    launch = server.launch
    for name in sorted(launch.given.keys() - _KEPT):
        if not _refused_at(server, launch.without(name)):
            yield f"leave out {_option(name)}"


def _branching(keepers: Sequence[Keeper]) -> Iterator[str]:
    """Yield a sentence for each set of options for one branch, with the keepers that it removes."""
    found: dict[tuple[str, str], list[str]] = {}
    for keeper in keepers:
        for way in keeper.remedies:
            if way.startswith(_option(_TOP_K)):
                found.setdefault((way, keeper.where), []).append(keeper.who)
    for (way, where), names in found.items():
        yield f"{way} frees it from {_listed(names)}{' ' if where else ''}{where}."


def _instead(server: _Server) -> Iterator[str]:
    """Yield a sentence that names the backends with which the mirror is freed, if there are any."""
    free: list[str] = []
    partly: list[str] = []
    for name in sorted(makers(server.program)):
        launch = server.launch.with_settings({**dict.fromkeys(_NAMES_OF_BACKENDS), "attention_backend": name})
        found = outcomes(server.program, launch, server.memory)
        usual = found[0][1]
        if not usual.kept and usual.refused is None and usual.roles and all(one.cls for one in usual.roles):
            kept = [answers for answers, outcome in found if outcome.kept]
            if kept:
                partly.append(f"{name} (not {named(kept)})")
            else:
                free.append(name)
    if free or partly:
        yield (
            "These backends free it on this server, if GPU and model support them: "
            f"--attention-backend {' or '.join((*free, *partly))}."
        )


def _unnamed(launch: Launch) -> bool:
    sides = [launch.get(f"{side}_attention_backend") for side in ("prefill", "decode")]
    return not launch.get("attention_backend") and None in sides


def _verdict(found: Found, keepers: Sequence[Keeper]) -> str:
    """Return the verdict in one sentence."""
    kept = [answers for answers, outcome in found if outcome.kept]
    if not kept:
        return f"{_MIRROR} is freed: decode steps do not wait for a device-to-host copy."
    if len(kept) == len(found):
        return f"{_MIRROR} is kept{_by(keepers)}."
    freed = [answers for answers, outcome in found if not outcome.kept]
    usual, other, those = ("kept", "freed", freed) if found[0][1].kept else ("freed", "kept", kept)
    return f"{_MIRROR} depends on the model, not on the options: it is {usual}, but {other} {named(those)}."


def _by(keepers: Sequence[Keeper]) -> str:
    """Return the keepers as the end of a sentence, those of some models behind those of all."""
    groups: dict[str, list[str]] = {"": []}
    for keeper in keepers:
        groups.setdefault(keeper.where, []).append(keeper.who)
    always = groups.pop("")
    some = [f"{where} by {_listed(names)}" for where, names in groups.items()]
    said = f" by {_listed(always)}" if always else ""
    return said + f"{', and' if always else ''} {'; '.join(some)}" if some else said


def _freeing(statuses: Sequence[PatchStatus], found: Found) -> dict[str, State]:
    """Return the states of the patches that add the decision or let one of the server's backends opt out."""
    classes = {one.cls for _, outcome in found for one in outcome.roles if one.cls}
    return {
        status.patch.id: status.state
        for status in statuses
        if status.state is not State.NOT_APPLICABLE
        and (
            _writes(status.patch, f"def {mirror.FLAG}")
            or _declares(status.patch)
            or any(_opts_out(status.patch, cls) for cls in classes)
        )
    }


def _touched(found: Found) -> Iterator[Touched]:
    """Yield each role once, with its classes for all kinds of model."""
    roles = dict.fromkeys((one.role, one.name) for _, outcome in found for one in outcome.roles)
    for role, name in roles:
        same = [
            (answers, one)
            for answers, outcome in found
            for one in outcome.roles
            if (one.role, one.name) == (role, name)
        ]
        classes = tuple(dict.fromkeys(one.cls for _, one in same if one.cls))
        reading = [answers for answers, one in same if one.reads]
        depends = bool(reading) and len(reading) < len(same)
        where = unless_usual(reading) if depends else ""
        yield Touched(role, name, classes, bool(classes) and not reading, where)


def _keepers(
    server: _Server, statuses: Sequence[PatchStatus], trials: Trials | None = None
) -> Iterator[Keeper]:
    """Yield what keeps the mirror for any kind of model, each once; no patch is named without ``trials``."""
    found, launch = server.found, server.launch
    kept = [outcome for _, outcome in found if outcome.kept]
    if not kept:
        return
    if not all(outcome.decided or not outcome.overlap for outcome in kept) or not server.reach.has_flag:
        yield _undecided(statuses)
    for name in dict.fromkeys(name for outcome in kept for name in outcome.forced):
        yield _forced(name, server, trials)
    if not all(outcome.overlap for outcome in kept):
        yield _without_overlap(server)
    if any(outcome.unnamed for outcome in kept):
        stream = launch.environment.get(PLAN_STREAM, "0").lower() in ("1", "true")
        why = "the plan stream reads lengths that are ordered only by the wait for the mirror"
        if stream:
            yield Keeper(PLAN_STREAM, why, (f"start without {PLAN_STREAM}",))
        else:
            yield Keeper("the draft worker", "it does not name the backends that it runs")
    # Without the overlap schedule the backends do not matter.
    asked = [
        (answers, outcome)
        for answers, outcome in found
        if outcome.kept and (outcome.decided or outcome.overlap)
    ]
    yield from _of_backends(server, asked, trials)


def _without_overlap(server: _Server) -> Keeper:
    launch = server.launch
    why = "no step starts before the results of the last one are on the host"
    algorithm = str(launch.get("speculative_algorithm"))
    if launch.get("disable_overlap_schedule"):
        return Keeper("--disable-overlap-schedule", why, ("leave out --disable-overlap-schedule",))
    single = server.freed_by_one_branch(lambda outcome: not outcome.overlap)
    if single:
        lacking = [answers for answers, outcome in server.found if not outcome.overlap]
        return Keeper("speculative decoding v1", why, single, unless_usual(lacking))
    if launch.environment.get(_V2, "1").lower() in ("0", "false"):
        return Keeper("speculative decoding v1", why, (f"start without {_V2}",))
    return Keeper(f"{algorithm.upper()}, which runs without the overlap schedule", why)


def _undecided(statuses: Sequence[PatchStatus]) -> Keeper:
    deciding = [
        status.patch
        for status in statuses
        if _writes(status.patch, f"def {mirror.FLAG}") or _declares(status.patch)
    ]
    first = next((patch for patch in deciding if not patch.requires), None)
    remedies = (f"patch {first.id}",) if first is not None else ()
    return Keeper("this tree", f"it has no {mirror.FLAG}, so every server keeps the mirror", remedies)


def _forced(name: str, server: _Server, trials: Trials | None) -> Keeper:
    if name == "speculative_algorithm":
        algorithm = str(server.launch.get(name)).upper()
        return Keeper(algorithm, f"the decision keeps the mirror with --speculative-algorithm {algorithm}")
    if not name:
        return Keeper("the decision", "it keeps the mirror whatever the backends need")
    if not name.startswith("disable_"):
        on = "the decision keeps the mirror where this is on"
        return Keeper(_option(name), on, (f"leave out {_option(name)}",))
    feature = name.removeprefix("disable_").replace("_", " ")
    candidates = trials.deciding() if trials is not None else ()
    models = [answers for answers, outcome in server.found if name in outcome.forced]
    remedies = _patches(trials, candidates, models, lambda outcome: name in outcome.forced)
    why = f"the decision keeps the mirror unless {_option(name)} is given"
    return Keeper(feature, why, (_option(name), *remedies))


def _patches(
    trials: Trials | None,
    candidates: Sequence[str],
    models: Sequence[dict[str, bool]],
    keeps: Callable[[Outcome], bool],
) -> Iterator[str]:
    """Yield the sets of patches that free the mirror, with the models for which each of them does not."""
    for remedy in trials.freeing(candidates, models, keeps) if trials is not None else ():
        unless = f" (not {named(remedy.kept)})" if remedy.kept else ""
        yield f"patch {' '.join(remedy.patches)}{unless}"


def _of_backends(server: _Server, found: Found, trials: Trials | None) -> Iterator[Keeper]:
    asked: dict[str, list[tuple[dict[str, bool], str]]] = {}
    for answers, outcome in found:
        for one in outcome.roles:
            if one.reads:
                asked.setdefault(one.cls or one.name, []).append((answers, one.role))
    for cls, played in asked.items():
        models = [answers for answers, _ in played]
        known = server.program.classes_named(cls)
        files = {each.module.file for one in known for each in server.program.mro(one)}
        keeps = functools.partial(_is_read, cls)
        candidates = trials.opting_out(files) if trials is not None else ()
        remedies = (*_patches(trials, candidates, models, keeps), *server.freed_by_one_branch(keeps))
        roles = list(dict.fromkeys(role for _, role in played))
        why = f"it runs {_listed(roles)} and needs the mirror"
        yield Keeper(cls, why, remedies, unless_usual(models))


def _is_read(cls: str, outcome: Outcome) -> bool:
    return any(one.reads and (one.cls or one.name) == cls for one in outcome.roles)


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
            if status.state not in _IN_PLACE | {State.NOT_APPLICABLE}
            and _writes_at(status.patch, _LINEAR_WRAPPER, re.compile(rf"def {mirror.FLAG}"))
        ]
        freed = f"; {' or '.join(freeing)} frees it" if freeing else ""
        yield f"{linear_model} keeps the mirror in any case, by {_LINEAR_WRAPPER}{freed}."
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


def _opts_out(patch: Patch, cls: str) -> bool:
    return _writes_at(patch, cls, _FALSE) or _writes_at(patch, cls, re.compile(rf"def {mirror.FLAG}"))


def _writes_at(patch: Patch, cls: str, pattern: re.Pattern[str]) -> bool:
    return any(
        pattern.search(code) is not None and any(scope.rpartition(".")[2] == cls for scope in edit.scopes)
        for edit in patch.edits
        for code in edit.kind.written
    )


def _declares(patch: Patch) -> bool:
    return any(
        _TRUE.search(code) is not None
        for edit in patch.edits
        for code in edit.kind.written
        if any(scope.rpartition(".")[2] == mirror.BACKEND_ROOT for scope in edit.scopes)
    )


def _writes(patch: Patch, text: str) -> bool:
    return any(text in code for code in _code(patch))


def _code(patch: Patch) -> Iterator[str]:
    return (code for edit in patch.edits for code in edit.kind.written)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

"""What keeps a server's CPU mirror, why, and which options and patches remove it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from patchkit.doctor.components import PLAN_STREAM
from patchkit.doctor.models import limits, unless_usual
from patchkit.doctor.optouts import decides
from patchkit.doctor.phrases import listed, option
from patchkit.doctor.server import DISABLE
from patchkit.tree import mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.doctor.examined import ExaminedServer
    from patchkit.doctor.outcome import Outcomes, ServerOutcome
    from patchkit.doctor.remedies import Trials
    from patchkit.plan.status import PatchStatus

_V2 = "SGLANG_ENABLE_SPEC_V2"


class Cause(msgspec.Struct, frozen=True):
    """What keeps the mirror, why, and each remedy: options, or ``patch ID…`` with a remark in brackets.

    ``where`` are the models with which it does, empty if that is the same for all.
    """

    who: str
    why: str
    remedies: tuple[str, ...] = ()
    where: str = ""


def causes_of(server: ExaminedServer, statuses: Sequence[PatchStatus], trials: Trials) -> Iterator[Cause]:
    """Yield what keeps the mirror for any kind of model, each once, with the patches in ``trials`` that free it."""
    outcomes, launch = server.outcomes, server.launch
    kept = [outcome for _, outcome in outcomes if outcome.kept]
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
        why = "without the wait for the mirror, the plan stream could read lengths that are not written yet"
        if stream:
            yield Cause(PLAN_STREAM, why, (f"start without {PLAN_STREAM}",))
        else:
            yield Cause("the draft worker", "it does not name the backends that it runs")
    for reader in dict.fromkeys(reader for outcome in kept for reader in outcome.readers):
        models = [answers for answers, outcome in outcomes if reader in outcome.readers]
        given = reader.name.startswith(f"{DISABLE}=")
        yield Cause(reader.name, reader.why, (f"start without {reader.name}",) * given, unless_usual(models))
    # Without the overlap schedule the backends do not matter.
    deciding = [
        (answers, outcome)
        for answers, outcome in outcomes
        if outcome.kept and (outcome.decided or outcome.overlap)
    ]
    yield from _of_backends(server, deciding, trials)


def _without_overlap(server: ExaminedServer) -> Cause:
    launch = server.launch
    why = "each step waits until the results of the previous step are on the host"
    algorithm = str(launch.get("speculative_algorithm"))
    if launch.get("disable_overlap_schedule"):
        return Cause("--disable-overlap-schedule", why, ("leave out --disable-overlap-schedule",))
    single = server.freed_by_one_branch(lambda outcome: not outcome.overlap)
    if single:
        lacking = [answers for answers, outcome in server.outcomes if not outcome.overlap]
        return Cause("speculative decoding v1", why, single, unless_usual(lacking))
    if launch.environment.get(_V2, "1").lower() in ("0", "false"):
        return Cause("speculative decoding v1", why, (f"start without {_V2}",))
    return Cause(f"{algorithm.upper()}, which runs without the overlap schedule", why)


def _undecided(statuses: Sequence[PatchStatus]) -> Cause:
    deciding = [status.patch for status in statuses if decides(status.patch)]
    first = next((patch for patch in deciding if not patch.requires), None)
    remedies = (f"patch {first.id}",) if first is not None else ()
    return Cause("the unpatched code", f"it has no {mirror.FLAG}, so every server keeps the mirror", remedies)


def _forced(name: str, server: ExaminedServer, trials: Trials) -> Cause:
    if name == "speculative_algorithm":
        algorithm = str(server.launch.get(name)).upper()
        return Cause(algorithm, f"the decision keeps the mirror with --speculative-algorithm {algorithm}")
    if not name:
        return Cause("the server code", "it keeps the mirror for all backends")
    if not name.startswith("disable_"):
        on = "the decision keeps the mirror where this is on"
        return Cause(option(name), on, (f"leave out {option(name)}",))
    feature = name.removeprefix("disable_").replace("_", " ")
    models = [answers for answers, outcome in server.outcomes if name in outcome.forced]
    remedies = _patches(trials, trials.deciding(), models, lambda outcome: name in outcome.forced)
    why = f"the decision keeps the mirror unless {option(name)} is given"
    return Cause(feature, why, (option(name), *remedies))


def _patches(
    trials: Trials,
    candidates: Sequence[str],
    models: Sequence[dict[str, bool]],
    keeps: Callable[[ServerOutcome], bool],
) -> Iterator[str]:
    """Yield the sets of patches that free the mirror, with the models for which each of them does or does not."""
    for remedy in trials.freeing(candidates, models, keeps):
        yield f"patch {' '.join(remedy.patches)}{limits(remedy.freed, remedy.kept)}"


def _of_backends(server: ExaminedServer, outcomes: Outcomes, trials: Trials) -> Iterator[Cause]:
    readers: dict[str, list[tuple[dict[str, bool], str]]] = {}
    for answers, outcome in outcomes:
        for one in outcome.roles:
            if one.reads:
                readers.setdefault(one.cls or one.name, []).append((answers, one.role))
    for cls, played in readers.items():
        models = [answers for answers, _ in played]
        classes = server.program.classes_named(cls)
        files = {ancestor.module.file for one in classes for ancestor in server.program.mro(one)}
        keeps = functools.partial(_is_read, cls)
        options = server.freed_by_one_branch(keeps) if server.advises else ()
        remedies = (*_patches(trials, trials.opting_out(files), models, keeps), *options)
        roles = list(dict.fromkeys(role for _, role in played))
        why = f"it runs {listed(roles)} and needs the mirror"
        yield Cause(cls, why, remedies, unless_usual(models))


def _is_read(cls: str, outcome: ServerOutcome) -> bool:
    return any(one.reads and (one.cls or one.name) == cls for one in outcome.roles)

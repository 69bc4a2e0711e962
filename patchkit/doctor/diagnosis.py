"""Who keeps the CPU mirror of a server started so, why, and which patch or flag would free it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from patchkit.audit.reach import Reach
from patchkit.doctor import backends
from patchkit.doctor.worth import Worth, worth
from patchkit.plan.status import State
from patchkit.tree import mirror
from patchkit.tree.index import Program, read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.doctor.options import Launch
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import Tree

_ASSUMED = "fa3"
_PLAN_STREAM = "SGLANG_ENABLE_OVERLAP_PLAN_STREAM"
_V2 = "SGLANG_ENABLE_SPEC_V2"
_FALSE = re.compile(rf"\b{mirror.FLAG}(: *bool)? = False")
_TRUE = re.compile(rf"\b{mirror.FLAG}(: *bool)? = True")
_IN_PLACE = {State.APPLIED, State.UPSTREAM}
# What wraps a target's backend where a model has layers with linear attention, and what theirs inherit from.
_LINEAR_WRAPPER = "HybridLinearAttnBackend"
_LINEAR_ROOT = "MambaAttnBackendBase"


class Touched(msgspec.Struct, frozen=True):
    """A backend that the server's forwards touch; ``opted_out`` if it runs without the mirror."""

    role: str
    backend: str
    classes: tuple[str, ...]
    opted_out: bool


class Keeper(msgspec.Struct, frozen=True):
    """What keeps the mirror, why, and each way to free it: ``patch ID`` or a flag."""

    who: str
    why: str
    remedies: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True):
    """``kept`` if any keeper keeps the mirror; ``worth`` is what freeing it was measured to be."""

    kept: bool
    backends: tuple[Touched, ...]
    keepers: tuple[Keeper, ...]
    worth: tuple[Worth, ...]
    notes: tuple[str, ...]


def diagnose(tree: Tree, launch: Launch, statuses: Sequence[PatchStatus]) -> Diagnosis:
    """Return what a launch comes to on a tree, whose patches have ``statuses``; nothing is imported."""
    program = Program(read_sources(tree))
    reach = Reach(program)
    notes: list[str] = []
    speculating = launch.get("speculative_algorithm")
    touched = list(_touched(program, reach, launch, notes))
    keepers: list[Keeper] = []
    if not speculating:
        notes.append("Without speculation no step copies lengths to the host: there is nothing to free.")
    elif not reach.has_flag or not reach.decision:
        keepers.append(_undecided(statuses))
        decision = Path(__file__).parents[1] / "runtime" / "decision.py"
        coming = Program({"srt/decision.py": decision.read_bytes()})
        keepers += _forced(Reach(coming), launch, statuses)
    else:
        keepers += _forced(reach, launch, statuses)
    if speculating:
        if launch.environment.get(_PLAN_STREAM, "0").lower() in ("1", "true"):
            why = "the plan stream reads lengths that only the host's wait for the mirror orders"
            keepers.append(Keeper(_PLAN_STREAM, why, (f"start without {_PLAN_STREAM}",)))
        if _is_v1(launch):
            keepers.append(Keeper("speculative decoding v1", "its workers read the lengths on the host"))
        keepers += _of_backends(touched, statuses)
        notes += _of_linear_attention(program, reach, statuses)
    decode = str(launch.get("decode_attention_backend") or launch.get("attention_backend") or _ASSUMED)
    return Diagnosis(bool(keepers), tuple(touched), tuple(keepers), worth(decode), tuple(notes))


def _touched(program: Program, reach: Reach, launch: Launch, notes: list[str]) -> Iterator[Touched]:
    known = backends.registered(program)
    whole = launch.get("attention_backend")
    prefill = str(launch.get("prefill_attention_backend") or whole or "")
    decode = str(launch.get("decode_attention_backend") or whole or "")
    if not prefill or not decode:
        notes.append(
            f"No attention backend is named, and sglang chooses by GPU and model: {_ASSUMED}, its choice on "
            "Hopper, is assumed. --attention-backend NAME asks about another."
        )
    prefill, decode = prefill or _ASSUMED, decode or _ASSUMED
    for role, name in {"prefill": prefill, "decode": decode}.items():
        yield _looked_up(reach, role, name, known.get(name, ()), notes)
    if launch.get("speculative_algorithm"):
        drafts = backends.drafting(program)
        draft = launch.get("speculative_draft_attention_backend")
        extending = decode if launch.get("speculative_attention_mode") == "decode" else prefill
        for role, kind, name in (
            ("draft steps", "steps", str(draft or decode)),
            ("draft extend", "extend", str(draft or extending)),
        ):
            made = drafts[kind].get(name, ())
            if kind == "steps" and launch.get("speculative_num_steps") == 1:
                continue
            yield _looked_up(reach, role, name, made, notes)


def _looked_up(reach: Reach, role: str, name: str, classes: Sequence[str], notes: list[str]) -> Touched:
    if not classes:
        notes.append(
            f"{role}: the tree's registry names no class for {name}; it counts as reading the mirror."
        )
    found = [cls for cls in reach.backends if cls.name in classes]
    free = bool(found) and {cls.name for cls in found} >= set(classes) and all(map(reach.opted_out, found))
    return Touched(role, name, tuple(classes), free)


def _undecided(statuses: Sequence[PatchStatus]) -> Keeper:
    deciding = [
        status.patch
        for status in statuses
        if _writes(status.patch, f"def {mirror.FLAG}") or _declares(status.patch)
    ]
    first = next((patch for patch in deciding if not patch.requires), None)
    remedies = (f"patch {first.id}",) if first is not None else ()
    return Keeper("this tree", f"it has no {mirror.FLAG}, so every server keeps the mirror", remedies)


def _forced(reach: Reach, launch: Launch, statuses: Sequence[PatchStatus]) -> Iterator[Keeper]:
    false, true = reach.forced
    for name in sorted(false):
        if launch.get(name):
            yield Keeper(
                _option(name),
                "the decision keeps the mirror where this is on",
                (f"leave out {_option(name)}",),
            )
    for name in sorted(true):
        if name in launch.defaults and not launch.get(name):
            feature = name.removeprefix("disable_").replace("_", " ")
            remedies = [f"{_option(name)}"]
            remedies += (
                f"patch {status.patch.id}"
                for status in statuses
                if status.state not in _IN_PLACE and name in "\n".join(_code(status.patch)) + status.patch.why
            )
            yield Keeper(
                feature, f"the decision keeps the mirror unless {_option(name)} is given", tuple(remedies)
            )


def _of_backends(touched: Sequence[Touched], statuses: Sequence[PatchStatus]) -> Iterator[Keeper]:
    asked: dict[tuple[str, ...], list[Touched]] = {}
    for one in touched:
        if not one.opted_out:
            asked.setdefault(one.classes or (one.backend,), []).append(one)
    for classes, roles in asked.items():
        freeing = [
            status
            for status in statuses
            if status.state not in _IN_PLACE | {State.NOT_APPLICABLE}
            and any(_opts_out(status.patch, name) for name in classes)
        ]
        remedies = tuple(f"patch {status.patch.id}" for status in freeing)
        why = f"{' and '.join(one.role for one in roles)}: it does not say that it runs without the mirror"
        yield Keeper(" or ".join(classes), why, remedies)


def _of_linear_attention(program: Program, reach: Reach, statuses: Sequence[PatchStatus]) -> Iterator[str]:
    """Yield what a model with linear attention comes to: no option of a launch says that a model is one."""
    wrappers = [cls for cls in reach.backends if cls.name == _LINEAR_WRAPPER]
    if not wrappers:
        return
    unsaid = "A model with linear-attention layers, which no option tells,"
    if not all(map(reach.opted_out, wrappers)):
        freeing = [
            f"patch {status.patch.id}"
            for status in statuses
            if status.state not in _IN_PLACE | {State.NOT_APPLICABLE}
            and _writes_at(status.patch, _LINEAR_WRAPPER, re.compile(rf"def {mirror.FLAG}"))
        ]
        freed = f"; {' or '.join(freeing)} frees it" if freeing else ""
        yield f"{unsaid} keeps the mirror whatever is said here: {_LINEAR_WRAPPER} does{freed}."
        return
    linear = {cls.name: cls for cls in reach.backends if _LINEAR_ROOT in program.ancestors(cls)}
    bases = {name for cls in linear.values() for name in program.ancestors(cls) - {cls.name}}
    keeping = sorted(name for name, cls in linear.items() if name not in bases and not reach.opted_out(cls))
    if keeping:
        yield f"{unsaid} keeps the mirror where one of {', '.join(keeping)} serves them."


def _opts_out(patch: Patch, cls: str) -> bool:
    return _writes_at(patch, cls, _FALSE)


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


def _is_v1(launch: Launch) -> bool:
    topk = launch.get("speculative_eagle_topk")
    off = launch.environment.get(_V2, "1").lower() in ("0", "false")
    return off or (isinstance(topk, int) and topk > 1) or bool(launch.get("disable_overlap_schedule"))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"

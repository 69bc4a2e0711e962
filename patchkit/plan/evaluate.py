"""Evaluate a patch on a tree: locate and examine each edit, and derive the patch's state."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cache, lru_cache, partial
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec

from patchkit import memory
from patchkit.codemods.examination import Examination, Reason, SiteState, absent, ambiguous, ready
from patchkit.codemods.language.imports import Import
from patchkit.codemods.language.placeholders import PatternError
from patchkit.codemods.language.scope import Scope
from patchkit.codemods.language.syntax import source_of
from patchkit.errors import UsageError
from patchkit.patchset.patch import Address, ConvertedChange
from patchkit.plan import landing, vendor
from patchkit.plan.comments import COMMENT_PREFIX, PREFIX, comments_of
from patchkit.plan.examinations import ExaminationResult
from patchkit.plan.locate import key_of
from patchkit.plan.status import (
    ACCEPTED,
    BY_HAND,
    IN_PLACE,
    EditStatus,
    PatchStatus,
    State,
    comment_start,
    is_noted,
    missing_reason,
    name_of,
)
from patchkit.tree.limits import recursing
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import libcst as cst

    from patchkit.codemods.kind import Kind
    from patchkit.patchset.patch import Edit, Fact, Part, Patch
    from patchkit.plan.examinations import Examinations
    from patchkit.plan.locate import EditedFile, Overlay


@lru_cache(maxsize=2048)
def _key_of(patch: str, edit: Edit) -> str:
    return key_of(patch, msgspec.structs.replace(edit, change=ConvertedChange(edit.kind, edit.imports)))


def _examined(overlay: Overlay, patch: Patch, edit: Edit) -> tuple[EditStatus, Examination]:
    """Return an edit's location, as a status whose state is not yet decided, and its examination."""
    if overlay.examinations is None:
        return _examined_anew(overlay, patch, edit)
    key = _key_of(f"{patch.id} {patch.form}", edit)
    result = overlay.examinations.find(key, overlay.answer)
    if result is None:
        return _recorded(overlay, overlay.examinations, patch, edit)
    before = overlay.snapshot()

    @cache
    def now() -> Examination:
        return _examined_anew(before, patch, edit)[1]

    def explain() -> Reason:
        return now().explain() if result.reason is None else result.reason

    def rewrite() -> cst.Module:
        made = now().rewrite
        assert made is not None  # The examination that was remembered had a rewrite.
        return made()

    state = SiteState(result.state)
    status = EditStatus(
        edit.name, result.file, result.scope, State.CONFLICT, calls_runtime=result.calls_runtime
    )
    is_ready = state is SiteState.READY
    return status, Examination(state, explain, rewrite if is_ready else None, result.added_imports)


def _recorded(
    overlay: Overlay, examinations: Examinations, patch: Patch, edit: Edit
) -> tuple[EditStatus, Examination]:
    """Examine an edit for which nothing is remembered, and remember the result."""
    recording = overlay.snapshot(recording=True)
    status, examined = _examined_anew(recording, patch, edit)
    key, answers = _key_of(f"{patch.id} {patch.form}", edit), recording.answers
    result = ExaminationResult(
        status.file,
        status.site,
        examined.state.value,
        examined.added_imports,
        calls_runtime=status.calls_runtime,
    )
    examinations.record(key, answers, result)

    def explain() -> Reason:
        reason = examined.explain()
        examinations.record(key, answers, msgspec.structs.replace(result, reason=reason))
        return reason

    return status, replace(examined, explain=explain)


def _examined_anew(overlay: Overlay, patch: Patch, edit: Edit) -> tuple[EditStatus, Examination]:
    place = overlay.locate_new(edit) if edit.kind.makes_file else overlay.locate_first(edit.addresses)
    if isinstance(place, Examination):
        nearest = overlay.nearest(edit.addresses)
        return EditStatus(edit.name, nearest.files[0], nearest.scope, State.CONFLICT), place
    with recursing(place.file):
        examined = _named(
            patch, edit, _examined_scope(edit.kind, place.scope, f"{comment_start(patch)} {edit.why}")
        )
        if edit.imports:
            examined = _with_imports(overlay, place.scope, edit, examined)
    calls = _calls_runtime(edit, examined)
    return EditStatus(edit.name, place.file, place.scope.name, State.CONFLICT, calls_runtime=calls), examined


def _named(patch: Patch, edit: Edit, examined: Examination) -> Examination:
    """Let the rewrite of an edit whose code does not fit what it matched raise a UsageError that names the edit."""
    made = examined.rewrite
    if made is None:
        return examined

    def rewrite() -> cst.Module:
        try:
            return made()
        except PatternError as error:
            raise UsageError(
                f"patch {patch.id}: edit.{edit.name}.code: {error}",
                advice="write a name of its own there, or a `find` that matches less",
            ) from None

    return replace(examined, rewrite=rewrite)


def _calls_runtime(edit: Edit, examined: Examination) -> bool:
    """Return whether the code of an edit in place has a call of the runtime that the edit writes.

    A function of upstream's may contain one that another patch wrote.
    """
    if examined.state is not SiteState.PRESENT or not examined.form:
        return False
    imports = [need for need in map(Import, edit.imports) if vendor.is_runtime(need.source)]
    names = "|".join(sorted(name for need in imports for name in need.names))
    written, there = (
        set(re.findall(rf"\b(?:{names})\b(?:\.\w+)?", code) if names else ())
        for code in ("\n".join(edit.kind.written), examined.form)
    )
    return not written.isdisjoint(there)


@memory.cached(2048)
def _examined_scope(kind: Kind, scope: Scope, note: str) -> Examination:
    """Examine a scope. Results are cached, since syntax trees are immutable."""
    return kind.examine(scope, note)


def _with_imports(overlay: Overlay, scope: Scope, edit: Edit, examined: Examination) -> Examination:
    """Add an edit's imports to its rewrite. An edit that is already in place must have them."""
    imports = [Import(code) for code in edit.imports]
    if examined.state is SiteState.PRESENT:
        unmet = [need for need in imports if need.used_but_missing(scope)]
    elif examined.state is SiteState.READY and examined.rewrite is not None:
        conflict = _shadowing_conflict(scope, imports, examined.rewrite)
        if conflict is not None:
            return conflict
        unmet = [need for need in imports if need.missing(scope.module)]
        if unmet:
            # Some imports are only for the code of another variant.
            written = Scope(examined.rewrite(), scope.path, scope.name)
            unmet = [need for need in unmet if need.is_used_in(written)]
    else:
        return examined
    if not unmet:
        return examined
    homes = [overlay.from_defining_file(need) for need in unmet]
    undefined = [need.code for need, home in zip(unmet, homes, strict=True) if home is None]
    if undefined:
        return absent(f"`{undefined[0]}`: the tree defines that neither there nor in exactly one other file")

    def rewrite() -> cst.Module:
        changed = examined.rewrite() if examined.rewrite is not None else scope.module
        for need in homes:
            changed = need.add(changed) if need is not None else changed
        return changed

    return ready(rewrite, tuple(need.code for need in homes if need is not None))


def _shadowing_conflict(
    scope: Scope, imports: Sequence[Import], rewrite: Callable[[], cst.Module]
) -> Examination | None:
    """Return the conflict if the new code's imported names are shadowed in its scope, or None."""
    for need in imports:
        names = need.hidden_in(scope)
        if names and need.is_used_in(Scope(rewrite(), scope.path, scope.name)):
            where = scope.name or "the module"
            return ambiguous(f"`{need.code}`: {where} may bind {names[0]} to something else")
    return None


def _in_each_file(overlay: Overlay, patch: Patch, edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits, each whole-file edit once for every file with its sites.

    A tree in the middle of a move may have a file under both names.
    """
    placed: list[Edit] = []
    for edit in edits:
        files = [file for file in edit.files if overlay.modules.source(file) is not None]
        is_whole = edit.scopes == ("",) and len(files) > 1
        having = [
            file
            for file in (files if is_whole else ())
            if any(
                _examined(overlay, patch, _at_file(other, file))[1].state in _FOUND
                for other in edits
                if other.kind.looks_inside and other.files == edit.files
            )
        ]
        placed += [_at_file(edit, file) for file in having] or [edit]
    return placed


_CHANGED = "the tree has upstream's change, and changed this site since"
_EDITED = (
    "the patch was made in this file, and this part of it was edited since; revert it, and apply it again"
)
_NOT_FOUND = "the change was made but is not found again"


def _with_lines(overlay: Overlay, file: str, site: str, reason: Reason) -> str:
    """Return a reason with the numbers of the lines that end it, unless the site has more lines like them, or none."""
    numbers = _lines_of(overlay, file, site, frozenset(reason.lines)) if reason.lines else {}
    if {text: len(lines) for text, lines in numbers.items()} != Counter(reason.lines):
        return reason.numbered()
    return reason.numbered([numbers[text].pop(0) for text in reason.lines])


def _lines_of(overlay: Overlay, file: str, site: str, texts: frozenset[str]) -> dict[str, list[int]]:
    """Return the numbers of the lines of a site, as the tree has it, that are one of ``texts``."""
    module = overlay.modules.index.module(file)
    lines = module.lines if module is not None else []
    functions = module.all_functions() if module is not None else ()
    node = next((function.node for function in functions if function.qualname == site), None)
    start, end = (node.lineno - 1, node.end_lineno) if node is not None else (0, None)
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(lines[start:end], start + 1):
        text = line.strip()
        text = text.removeprefix("el") if text.startswith("elif ") else text  # As an edit quotes it.
        if text in texts:
            numbers.setdefault(text, []).append(number)
    return numbers


_FOUND = frozenset({SiteState.PRESENT, SiteState.READY})


def _at_file(edit: Edit, file: str) -> Edit:
    return msgspec.structs.replace(edit, addresses=(Address("", (file,)),))


def _place(fact: Fact) -> str:
    where = " or ".join(fact.files)
    scopes = " or ".join(filter(None, fact.scopes))
    return f"{scopes} in {where}" if scopes else where


def _exists(overlay: Overlay, fact: Fact) -> bool:
    """Return whether the place of a fact exists, whatever its code."""
    return overlay.holds(msgspec.structs.replace(fact, has="", lacks=""))


def _add_imports(overlay: Overlay, edit: Edit, file: str) -> None:
    """Add an edit's imports to a file in which the edit itself is left to a person."""
    for need in map(Import, edit.imports):
        module, home = overlay.get(file), overlay.from_defining_file(need)
        if module is not None and home is not None and need.missing(module):
            overlay.make(file, partial(home.add, module))


def evaluate(
    overlay: Overlay, patch: Patch, *, try_closest_shape: bool = False, allow_partial: bool = False
) -> PatchStatus:
    """Return the patch's status and make its pending edits in ``overlay``, unless it or a part of it conflicts.

    If the tree has none of the shapes, ``try_closest_shape`` evaluates the edits of the closest shape, so that the
    conflicting ones are named. ``allow_partial`` does this too, and makes those edits of a conflicting patch whose
    sites are unambiguous. The closest shape is also used if the tree has a comment of the patch: its edits there were
    made for that shape.
    """
    before = dict(overlay.edited)
    statuses = {}
    for part in patch.all_parts:
        unmet = next((fact for fact in part.applies_when if not overlay.holds(fact)), None)
        if unmet is None:
            statuses[part.name] = _evaluate_part(
                overlay, patch, part, try_closest_shape=try_closest_shape, allow_partial=allow_partial
            )
            continue
        other = "other code in " if unmet.has or unmet.lacks else ""
        reason = unmet.why or f"needs a tree with {other}{_place(unmet)}"
        statuses[part.name] = PatchStatus(patch, State.NOT_APPLICABLE, (), reason)
        if part is patch:
            return statuses[part.name]
    status = _together(patch, statuses) if patch.parts else statuses[""]
    if status.state is State.CONFLICT and not allow_partial:
        overlay.edited = before
    return status


def _evaluate_part(
    overlay: Overlay, patch: Patch, part: Part, *, try_closest_shape: bool, allow_partial: bool
) -> PatchStatus:
    """Return the status of a part and make its pending edits in ``overlay``."""
    before = dict(overlay.edited)
    pristine = overlay.pristine()
    has_upstream_change = bool(part.upstream_when) and all(map(pristine.holds, part.upstream_when))
    evaluation = _Evaluation(overlay, patch, part, pristine, has_upstream_change)
    if patch.diffs:
        return _summarise(evaluation, evaluation.landed(allow_partial=allow_partial))
    shapes = frozenset(name for name, facts in part.shapes.items() if all(map(overlay.holds, facts)))
    is_shapeless = bool(part.any_shape_of) and not shapes & set(part.any_shape_of)
    is_there = is_shapeless and evaluation.has_comment
    if is_shapeless:
        shapes |= evaluation.closest_shape if try_closest_shape or allow_partial or is_there else frozenset()
        if not shapes & set(part.any_shape_of):
            return evaluation.shape_conflict(
                is_close=bool(evaluation.closest_shape) and not (try_closest_shape or allow_partial)
            )
    statuses = []
    for edit in evaluation.edits(shapes):
        status = evaluation.status(edit)
        statuses.append(status)
        if allow_partial and status.state is State.CONFLICT and not edit.kind.makes_file:
            _add_imports(overlay, edit, status.file)
    is_stuck = any(status.state is State.CONFLICT for status in statuses)
    if is_shapeless and not is_there and not is_stuck:  # The shape was a guess.
        overlay.edited = before
        return evaluation.shape_conflict()
    if not statuses and has_upstream_change:
        reason = "the tree has upstream's change in part, and this patch makes none of the rest"
        return PatchStatus(patch, State.NOT_APPLICABLE, (), reason)
    summary = _summarise(evaluation, statuses)
    if part is not patch and part.left_out and summary.state not in IN_PLACE:
        overlay.edited = before
        absent = (
            replace(status, state=State.NOT_APPLICABLE, reason=part.left_out)
            for status in statuses
            if status.state not in IN_PLACE
        )
        return PatchStatus(patch, State.NOT_APPLICABLE, tuple(absent), part.left_out)
    return summary


def _together(patch: Patch, statuses: dict[str, PatchStatus]) -> PatchStatus:
    """Return the status of a patch from those of its parts, by name; what it stands for itself has none."""
    edits = tuple(edit for status in statuses.values() for edit in status.edits)
    states = {
        name: status.state for name, status in statuses.items() if status.state is not State.NOT_APPLICABLE
    }
    if not states:
        return replace(statuses[""], edits=edits)
    for name, status in statuses.items():
        if status.state is State.CONFLICT:
            reason = f"{name}: {status.reason}" if name else status.reason
            return PatchStatus(patch, State.CONFLICT, edits, reason)
    kinds = set(states.values())
    if kinds == {State.PENDING}:
        return PatchStatus(patch, State.PENDING, edits, _reasons(statuses))
    if kinds & {State.PENDING, State.PARTIAL}:
        missing = [name for name, state in states.items() if state is State.PENDING]
        # Upstream's form lacks what it never had; a part that patchkit did not complete is a fault.
        if not kinds & {State.PARTIAL, State.APPLIED}:
            there = [name for name in states if name not in missing]
            which = f"without {_listed(missing)}" if "" not in missing else f"in {_listed(there)}"
            return PatchStatus(patch, State.PENDING, edits, f"upstream's {which}")
        parts = [f"the edits of {_listed(missing)} are missing"] if missing else []
        parts += [
            " of ".join(filter(None, (statuses[name].reason, name)))
            for name, state in states.items()
            if state is State.PARTIAL
        ]
        return PatchStatus(patch, State.PARTIAL, edits, "; ".join(parts))
    order = (State.APPLIED, State.UPSTREAM, State.UNKNOWN)
    return PatchStatus(patch, next(state for state in order if state in kinds), edits, _reasons(statuses))


def _reasons(statuses: dict[str, PatchStatus]) -> str:
    """Return what is said of parts that a person made, in place or still to be made."""
    said = (status.reason for status in statuses.values() if status.state is not State.NOT_APPLICABLE)
    return "; ".join(filter(None, said))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name or "the patch itself" for name in names)


@dataclass
class _Evaluation:
    """The evaluation of a part of a patch on a tree.

    ``pristine`` is the tree without the edits of earlier patches, which may have upstream's change.
    ``customised`` are the edits that the tree has in a form of its own. ``noted`` are the edits that a comment marks as
    made or accepted by hand.
    """

    overlay: Overlay
    patch: Patch
    part: Part
    pristine: Overlay
    has_upstream_change: bool
    customised: list[EditStatus] = field(default_factory=list)
    noted: dict[str, list[str]] = field(default_factory=dict)

    @property
    def closest_shape(self) -> frozenset[str]:
        """The closest shape for a tree that has none of the part's: the only one whose places exist."""
        shapes = {name: self.part.shapes[name] for name in self.part.any_shape_of}
        matches = [n for n, facts in shapes.items() if all(_exists(self.pristine, fact) for fact in facts)]
        return frozenset(matches if len(matches) == 1 else ())

    @property
    def has_comment(self) -> bool:
        """Whether a file that the part may change has a comment of it."""
        return self.is_commented(file for edit in self.patch.edits_of(self.part.name) for file in edit.files)

    def is_commented(self, files: Iterable[str]) -> bool:
        """Return whether one of these files has a comment of the part, by its words if the patch has several parts.

        Words that are of no edit, as another version of the patch may have, are of a part that is not upstream's.
        """
        sources = [self.pristine.modules.source(file) or b"" for file in sorted(set(files))]
        starts = [comment_start(self.patch)]
        if self.patch.parts:
            starts = [f"{PREFIX}{self.part.formerly}:"] if self.part.formerly else []
            words = {edit.why: edit.part for edit in self.patch.edits}
            words |= {
                f"{how}: {edit.name}": edit.part for how in (BY_HAND, ACCEPTED) for edit in self.patch.edits
            }
            unknown = None if self.has_upstream_change else self.part.name
            said = (text for source in sources for text in comments_of(source, self.patch.id))
            if any(words.get(text, unknown) == self.part.name for text in said):
                return True
        return any(start.encode() in source for source in sources for start in starts)

    def provenance(self, statuses: Sequence[EditStatus]) -> State:
        """Return whose the edits in place are: APPLIED for patchkit's, UPSTREAM, or UNKNOWN if nothing tells.

        A comment and a call of the runtime show that they are patchkit's, and for a part that upstream never had (no
        ``upstream_when``) a comment of any patch. ``has_upstream_change`` shows that they are upstream's,
        or, where no fact can tell, that upstream has a commit or pull request of the part.
        """
        part, source = self.part, self.overlay.modules.source
        files = {status.file for status in statuses}
        is_commented = (
            self.is_commented(files)
            if part.upstream_when
            else any(COMMENT_PREFIX.encode() in (source(file) or b"") for file in sorted(files))
        )
        if is_commented or any(status.calls_runtime for status in statuses):
            return State.APPLIED
        is_named = part is self.patch and self.patch.has_pull_request
        is_upstreams = (
            self.has_upstream_change if part.upstream_when else bool(part.upstream_commit) or is_named
        )
        return State.UPSTREAM if is_upstreams else State.UNKNOWN

    def shape_conflict(self, *, is_close: bool = False) -> PatchStatus:
        """Return the conflict with a tree that has none of the part's shapes, with what to do.

        ``is_close`` is whether the edits of the closest shape show which line differs.
        """
        patch, part = self.patch, self.part
        places = {_place(fact): fact for name in part.any_shape_of for fact in part.shapes[name]}
        matches = [place for place, fact in places.items() if _exists(self.pristine, fact)]
        reason = f"expected a known form of {', '.join(matches)}, found the fork's own: "
        if not matches:
            reason = f"needs a tree with one of {', '.join(places)}, and this one has none of them"
        elif is_close:
            reason += f"patchkit diff {patch.id} shows the line that failed to match"
        else:
            reason += (
                f"leave {name_of(patch, part)} out if that already has the patch's effect, otherwise add a variant "
                "for it (docs/authoring.md)"
            )
        return PatchStatus(patch, State.CONFLICT, (), reason)

    def edits(self, shapes: frozenset[str]) -> list[Edit]:
        """Return the edits for a tree with these shapes, each with its file."""
        is_upstreams = self.has_upstream_change and not self.has_comment
        counting = [
            edit
            for edit in self.patch.edits_of(self.part.name)
            if (not edit.shapes or shapes & set(edit.shapes)) and not (edit.beyond_upstream and is_upstreams)
        ]
        return _in_each_file(self.overlay, self.patch, counting)

    def status(self, edit: Edit) -> EditStatus:
        """Return an edit's status, and make the edit in the overlay if it is pending."""
        status, examined = _examined(self.overlay, self.patch, edit)
        is_there = examined.state is SiteState.PRESENT
        if noted := self._noted(status, is_there=is_there):
            return noted
        if is_there:
            return self._in_place(edit, status, examined.reason)
        if examined.state is SiteState.READY and examined.rewrite is not None:
            return self._made(edit, status, examined)
        if examined.state is SiteState.ABSENT and self.has_upstream_change:
            return replace(status, state=State.UPSTREAM, reason=_CHANGED)
        if examined.state is SiteState.ABSENT and edit.optional:
            return replace(status, state=State.NOT_APPLICABLE, reason=edit.optional)
        return replace(status, reason=_with_lines(self.overlay, status.file, status.site, examined.explain()))

    def landed(self, *, allow_partial: bool) -> list[EditStatus]:
        """Return the statuses of a diff's edits, and make those that are pending, unless one conflicts."""
        tree = self.overlay.tree
        source = landing.landed(self.patch, tree)
        statuses = landing.statuses(source)
        is_upstreams = not self.has_comment and (self.has_upstream_change or self._is_in_history(statuses))
        if is_upstreams and not source.is_in_place:
            return [
                status
                if status.state is State.APPLIED
                else replace(status, state=State.UPSTREAM, reason=_CHANGED)
                for status in statuses
            ]
        noted = [
            replace(status, state=State.CONFLICT, reason=_EDITED)
            if status.state is State.PENDING and landing.is_edited(self.patch, tree, source, status)
            else status
            for status in map(self._as_noted, statuses)
        ]
        is_stuck = any(status.state is State.CONFLICT for status in noted)
        if any(status.state is State.PENDING for status in noted) and (allow_partial or not is_stuck):
            made = landing.contents(self.patch, tree, source)
            again = landing.statuses(landing.landed(self.patch, OverlayTree(tree, made)))
            lost = {status.name for status in again if status.state is not State.APPLIED}
            lost -= {status.name for status in statuses if status.state is State.CONFLICT}
            if lost:
                return [
                    replace(status, state=State.CONFLICT, reason=_NOT_FOUND)
                    if status.name in lost
                    else status
                    for status in noted
                ]
            for file, content in made.items():
                self.overlay.land(file, content)
        return noted

    def _is_in_history(self, statuses: Sequence[EditStatus]) -> bool:
        """Return whether the tree comes after upstream's commit; not if it has nothing of it, as after a revert.

        Nobody has to ask if it has all of it.
        """
        commit, subject = self.patch.upstream_commit, self.patch.upstream_subject
        states = {status.state for status in statuses}
        return states not in ({State.PENDING}, {State.APPLIED}) and self.overlay.modules.has_commit(
            commit, subject
        )

    def _as_noted(self, status: EditStatus) -> EditStatus:
        """Return a diff's edit as a person or an earlier patch made it, if one of them did."""
        is_there = status.state is State.APPLIED
        if noted := self._noted(status, is_there=is_there):
            return noted
        if is_there and status.file in self.overlay.edited:
            source = landing.landed(self.patch, self.pristine.tree)
            before = next(
                (earlier for earlier in landing.statuses(source) if earlier.name == status.name), status
            )
            if before.state is not State.APPLIED:
                return replace(status, state=State.PENDING)
        return status

    def _noted(self, status: EditStatus, *, is_there: bool) -> EditStatus | None:
        """Return the status of an edit that a comment marks as made or accepted by hand, None for any other."""
        how = BY_HAND if is_there else ACCEPTED
        if not is_noted(self.overlay.modules.source(status.file) or b"", self.patch.id, status.name, how):
            return None
        self.noted.setdefault(how, []).append(status.name)
        return replace(status, state=State.APPLIED, reason=how)

    def _in_place(self, edit: Edit, status: EditStatus, own: str) -> EditStatus:
        if own:
            status = replace(status, state=State.UPSTREAM, reason=own)
            self.customised.append(status)
            return status
        is_fresh = (
            status.file in self.overlay.edited
            and _examined(self.pristine, self.patch, edit)[1].state is not SiteState.PRESENT
        )
        if is_fresh:
            return replace(status, state=State.PENDING, reason="made by a patch that is applied before it")
        return replace(status, state=State.APPLIED)

    def _made(self, edit: Edit, status: EditStatus, examined: Examination) -> EditStatus:
        """Make an edit, and undo it if a second examination does not find it in place."""
        assert examined.rewrite is not None
        undone = dict(self.overlay.edited)
        what: tuple[str, ...] = ()
        if self.overlay.examinations is not None:
            what = (_key_of(f"{self.patch.id} {self.patch.form}", edit), status.site, *examined.added_imports)
        self.overlay.make(status.file, examined.rewrite, *what)
        _, again = _examined(self.overlay, self.patch, edit)
        is_found = again.state is SiteState.PRESENT
        meets_own = is_found and self._meets_own_code(edit, status.file, undone)
        if is_found and not meets_own:
            return replace(status, state=State.PENDING)
        self.overlay.edited = undone
        reason = f"the edit was made but is not found again ({again.reason or 'it matches once more'})"
        return replace(status, state=State.CONFLICT, reason=_OLDER_FORM if meets_own else reason)

    def _meets_own_code(self, edit: Edit, file: str, undone: Mapping[str, EditedFile]) -> bool:
        """Return whether an edit nested its code in code of its patch, or put it beside the same one, edited since."""
        start = comment_start(self.patch)
        if start.encode() not in (self.overlay.modules.source(file) or b""):
            return False  # Nothing is parsed for a tree without the patch.
        before = undone[file].module if file in undone else self.overlay.modules.get(file)
        after = self.overlay.get(file)
        if before is None or after is None:
            return False
        old, new = (source_of(module).decode(errors="replace").splitlines() for module in (before, after))
        codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return any(
            _stands_at(f"{COMMENT_PREFIX[:2]}{start} {edit.why}", old, begin, new[first:last])
            if tag == "insert"
            else any(_is_below(start, old, index) for index in range(begin, end))
            for tag, begin, end, first, last in codes
            if tag != "equal"
        )


_OLDER_FORM = (
    "an older form of the patch, or one that a person edited, stands there: revert it with the version of patchkit "
    "that applied it, then apply again"
)


def _is_below(start: str, lines: Sequence[str], index: int) -> bool:
    """Return whether the comments directly above a line of code have one that begins like this."""
    above = takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[:index]))
    return not lines[index].lstrip().startswith("#") and any(start in line for line in above)


def _stands_at(note: str, lines: Sequence[str], index: int, inserted: Sequence[str]) -> bool:
    """Return whether the code directly above or below inserted lines, in their block, begins with a comment."""
    margin = min((line[: -len(line.lstrip())] for line in inserted if line.strip()), key=len, default="")
    above = takewhile(lambda line: line.strip() and line.startswith(margin), reversed(lines[:index]))
    return any(line.rstrip() == margin + note for line in (*above, *lines[index : index + 1]))


def _summarise(evaluation: _Evaluation, statuses: list[EditStatus]) -> PatchStatus:
    """Return a part's status from its edits' states; customised edits count only if there are no others."""
    patch, customised = evaluation.patch, evaluation.customised
    provenance = evaluation.provenance(statuses)
    noted = tuple(
        replace(status, state=provenance) if status.state is State.APPLIED else status for status in statuses
    )
    parts = [f"{how}: {', '.join(names)}" for how, names in sorted(evaluation.noted.items())]
    adapted = [status for status in noted if patch.diffs and status.state is State.PENDING and status.reason]
    parts += [f"{status.name}: {status.reason}" for status in adapted]
    own = "; ".join([*(status.reason for status in customised), *parts])
    states = {status.state for status in noted if status not in customised} - {State.NOT_APPLICABLE}
    if not states and customised:
        return PatchStatus(patch, State.UPSTREAM, noted, own)
    if not states:
        return PatchStatus(patch, State.NOT_APPLICABLE, noted, "no site of this patch is in the tree")
    if State.CONFLICT in states:
        first = next(status for status in noted if status.state is State.CONFLICT)
        return PatchStatus(patch, State.CONFLICT, noted, first.placed_reason)
    if states == {State.PENDING}:
        return PatchStatus(patch, State.PENDING, noted, own)
    if State.PENDING in states:
        # As with parts: what upstream has of one lacks what upstream never had.
        is_upstreams = evaluation.part is not patch and provenance is not State.APPLIED
        state = State.PENDING if is_upstreams else State.PARTIAL
        return PatchStatus(patch, state, noted, missing_reason(noted))
    whose = provenance if provenance in states else State.UPSTREAM
    return PatchStatus(patch, whose, noted, own)

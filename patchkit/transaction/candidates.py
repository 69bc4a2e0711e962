"""Find the contents from before the patches of a tree: by its record, and without one in git's history."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, PatchkitError, TreeError, UsageError
from patchkit.plan import vendor
from patchkit.plan.comments import SIGNS, TRACE, commenting_patches, is_patched, runtime_line
from patchkit.plan.markers import without_equal_conflicts
from patchkit.plan.planner import PatchBase
from patchkit.plan.record import Record, attributed
from patchkit.plan.status import IN_PLACE, FileChange, State
from patchkit.transaction.apply import with_plan
from patchkit.transaction.conflicts import before_markers, conflicts_in
from patchkit.transaction.current import current_record
from patchkit.transaction.edited import without_replaced
from patchkit.transaction.history import originals_of
from patchkit.transaction.ports import commits_of, layers_of, ports_in
from patchkit.transaction.revert_plan import undo_ports
from patchkit.transaction.store import Store
from patchkit.transaction.swap import content_or_none, digest_of, digest_or_none
from patchkit.transaction.wording import with_wording_of
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from patchkit.plan.planner import Planner
    from patchkit.plan.record import AppliedPatch
    from patchkit.plan.status import PatchStatus
    from patchkit.transaction.history import Original
    from patchkit.transaction.ports import PortCommit
    from patchkit.tree.tree import CheckoutTree, Contents


@dataclass(frozen=True)
class CandidateRecord:
    """The tree's record, or one that is computed from its code, and its contents by digest.

    ``is_unedited`` is whether no file was edited since. ``is_recorded`` is whether it is the tree's record, or its part
    about ports. ``committed_conflicts`` has the files with committed conflict markers that the record does not contain:
    the content without them, and their patches. ``is_of_ports`` is whether the record is of ports in git's history.
    """

    record: Record
    content: Callable[[str], bytes]
    is_unedited: bool = True
    is_recorded: bool = False
    committed_conflicts: Mapping[str, tuple[bytes, frozenset[str]]] = field(default_factory=dict)
    is_of_ports: bool = False

    @cached_property
    def originals(self) -> Contents:
        """The content of each file before any patch."""
        contents: dict[str, str | None] = {}
        for layer in self.record.layers:
            contents = {file: change.original for file, change in layer.files.items()} | contents
        return {file: content_or_none(digest, self.content) for file, digest in contents.items()}


class Candidates:
    """The records that can describe a tree's patches, the most reliable first, each computed when it is needed."""

    def __init__(
        self,
        tree: CheckoutTree,
        planner: Planner,
        statuses: Callable[[], tuple[PatchStatus, ...]] | None = None,
    ) -> None:
        """Read the record of ``tree``. Raise TreeError if it is damaged. ``statuses`` are computed if not given."""
        self._tree = tree
        self._planner = planner
        self._inspect = cache(statuses or (lambda: planner.tree_status(before_markers(tree)).patches))
        self._history: dict[str, Original] = {}
        self.record = without_replaced(tree, current_record(tree), self._inspect)
        self._store = Store(tree.package, self.record.contents)
        self._lost = self._ports_without_contents()

    @cached_property
    def traces(self) -> dict[str, frozenset[str]]:
        """The files with comments of patches or code of theirs that calls the runtime, and the ids of these patches."""
        files = self._tree.containing(*SIGNS)
        texts = {file: text for file in files if is_patched(text := self._tree.read(file))}
        commented = {
            file: names for file, text in texts.items() if (names := commenting_patches(text or b""))
        }
        for file, name in self._calls({file: text for file, text in texts.items() if runtime_line(text)}):
            commented[file] = commented.get(file, frozenset()) | {name}
        return commented

    @property
    def is_unpatched(self) -> bool:
        """Whether neither code nor record names a patch."""
        return not self.traces and not self.record.layers

    def _calls(self, importing: Contents) -> Iterator[tuple[str, str]]:
        """Yield each file of those that import the runtime with each patch whose code calls it there.

        A file as patchkit wrote it has the comments of these patches.
        """
        written = {(file, change.applied) for file, change in self.record.files.items()}
        edited = {file for file, text in importing.items() if (file, digest_or_none(text)) not in written}
        for status in self.statuses if edited else ():
            for edit in status.edits:
                if edit.calls_runtime and edit.file in edited:
                    yield edit.file, status.patch.id

    def _ports_without_contents(self) -> frozenset[str]:
        """Return the ports of which a commit has other changes too, or none in this clone; git's history has them."""
        digests = self.record.of_ports(self.record.ported).contents
        missing = [digest for digest in digests if not self._store.has(digest)]
        lost = self._checkout.lacking(missing) if missing and self._checkout is not None else frozenset[str]()
        ports = (layer for layer in self.record.layers if layer.is_ported)
        return frozenset(
            name
            for layer in ports
            if lost & Record((layer,)).contents
            for name in (p.id for p in layer.patches)
        )

    @property
    def _found(self) -> Record:
        """The record without the ports of which a content is missing."""
        layers = (layer for layer in self.record.layers if self._lost.isdisjoint(p.id for p in layer.patches))
        return self.record.replaced(Record(tuple(layers))) if self._lost else self.record

    def read(self, file: str) -> bytes | None:
        """Return a file's current content."""
        return self._tree.read(file)

    def real_paths(self, files: Iterable[str]) -> frozenset[Path]:
        """Return the files' real paths, with links resolved."""
        return frozenset((self._tree.package / file).resolve() for file in files)

    @cached_property
    def statuses(self) -> tuple[PatchStatus, ...]:
        """Each patch's status, evaluated on the tree without conflict markers."""
        return attributed(self._inspect(), self.record)

    @cached_property
    def traced(self) -> frozenset[str]:
        """The patches that have a comment in the code or whose code calls the runtime."""
        return frozenset[str]().union(*self.traces.values())

    @property
    def in_code(self) -> frozenset[str]:
        """The patches that patchkit applied to the code, also those without a trace that are in the record."""
        return self.traced.union(self.tidied, self.record.patches) - self._lost

    @cached_property
    def tidied(self) -> frozenset[str]:
        """The patches whose code is in place without a comment, which it had in HEAD or in a commit since."""
        if self._checkout is None:
            return frozenset()
        with suppress(ConflictError):
            originals = self._originals_of(self._committed.union(self.traces))
            had = {
                (file, name)
                for file, original in originals.items()
                for name in original.patches - self.traced
            }
            names = frozenset(name for _, name in had)
            return frozenset(
                status.patch.id
                for status in (self._statuses_of(names) if had else ())
                if status.state in IN_PLACE
                and any((edit.file, status.patch.id) in had for edit in status.edits)
            )
        return frozenset()

    def _statuses_of(self, names: frozenset[str]) -> tuple[PatchStatus, ...]:
        """Return the statuses of these patches at least, whose files can be read where those of another one cannot."""
        try:
            return self.statuses
        except TreeError:
            return self._planner.statuses_of(names)

    @property
    def not_loaded(self) -> dict[str, AppliedPatch]:
        """The recorded patches that are not loaded, which a record that is computed from the code lacks."""
        others = self.record.ported.union(self._planner.ids)
        return {name: patch for name, patch in self.record.patches.items() if name not in others}

    @property
    def untold(self) -> frozenset[str]:
        """The patches in the code without any comment, of which only a plan shows whether they are gone."""
        commented = frozenset[str]().union(
            *(commenting_patches(self.read(file) or b"") for file in self.traces)
        )
        silent = self.record.patches.keys() - self.record.ported - commented
        # A patch whose edits another one had made has no comment of its own.
        return (
            self.traced | self.tidied | (silent & self._written_comments if silent else silent)
        ) - commented

    @property
    def _written_comments(self) -> frozenset[str]:
        """The patches of which the recorded contents have a comment."""
        ids = frozenset[str]()
        for change in self.record.files.values():
            with suppress(TreeError):
                ids |= commenting_patches(content_or_none(change.applied, self._store.get) or b"")
        return ids

    @property
    def ported(self) -> frozenset[str]:
        """The names of the ports in git's history or in the record."""
        return self.record.ported.union(port.name for port in self._ports)

    def committed_ports_in(self, record: Record) -> frozenset[str]:
        """Return the ports in a record that git's history names or whose code HEAD has.

        They are reverted only by name.
        """
        if self._checkout is None or not record.ported:
            return frozenset()
        named = record.ported.intersection(port.name for port in self._ports)
        committed = partial(self._checkout.at, "HEAD")
        undone = self._undone(record.of_ports(record.ported - named), committed)
        return named.union(name for name, was_there in undone if was_there)

    @property
    def uncommitted_ports(self) -> CandidateRecord:
        """The part of the record about ports that are not committed."""
        names = self._found.ported - self.committed_ports_in(self._found)
        return self._recorded(self._found.of_ports(names))

    def ports_in_code(self) -> dict[str, bool]:
        """Return the ports whose code is in the tree, the oldest first, each with whether it is committed."""
        names = tuple(dict.fromkeys(port.name for port in self._ports))
        committed = {port.name for port in self._ports if not port.parent}
        if self._checkout is not None and names:
            commits = commits_of(self._checkout, self._tree.package, [p for p in self._ports if p.parent])
            layers = ((layer, contents.__getitem__) for layer, contents in commits)
            committed |= _not_absent(undo_ports(layers, self._tree.read, self._planner))
        ports = self._found.of_ports(self._found.ported.difference(names))
        present = _not_absent(self._undone(ports, self._tree.read))
        in_head = self.committed_ports_in(ports) if present else frozenset[str]()
        others = {name: name in in_head for name in ports.patches if name in present}
        if committed:
            # A patch of the same name is reverted instead of a port that only git's history has.
            committed -= self.in_code - self.record.ported
        return {name: True for name in names if name in committed} | others

    def _undone(
        self, ports: Record, read: Callable[[str], bytes | None]
    ) -> Iterator[tuple[str, bool | None]]:
        layers = ((layer, self._store.get) for layer in reversed(ports.layers))
        return undo_ports(layers, read, self._planner)

    def committed_ports(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of ``names`` that are ports which git's history has, and no record of uncommitted ones."""
        missing = names - self.in_code
        return missing.intersection(port.name for port in self._ports) if missing else missing

    @cached_property
    def _ports(self) -> tuple[PortCommit, ...]:
        return () if self._checkout is None else ports_in(self._tree.package)

    def of_ports(self, names: frozenset[str]) -> CandidateRecord:
        """Return the record of ports in git's history.

        Raise ConflictError if one cannot be distinguished from other changes.
        """
        if self._checkout is None:
            return CandidateRecord(Record(), self._store.get)
        layers, contents = layers_of(self._checkout, self._tree.package, self._ports, names)
        return CandidateRecord(Record(layers), contents.__getitem__, is_of_ports=True)

    @cached_property
    def originals(self) -> Contents:
        """The contents of the patched files before any patch. Raise ConflictError if they are not known."""
        if not self.traces and not self.record.layers:
            return {}
        error: PatchkitError | None = None
        nearest: Contents | None = None
        try:
            for candidate in self:
                try:
                    originals = candidate.originals
                except PatchkitError as another:
                    error = error or another
                    continue
                if not self.traces.keys() <= originals.keys() or any(map(is_patched, originals.values())):
                    continue
                if not (candidate.is_recorded and candidate.record.found_files):
                    return originals
                # Git's history may have the code from before a person made an edit.
                nearest = originals
        except ConflictError:
            if nearest is None:
                raise
        if nearest is not None:
            return nearest
        raise error or ConflictError("the code before the patches is not known", advice="use git revert")

    @property
    def applied(self) -> Contents:
        """The contents that patchkit wrote to those files. Raise ConflictError if they are not known."""
        candidate = next(iter(self))
        files = candidate.record.files.items()
        return {file: content_or_none(change.applied, candidate.content) for file, change in files}

    def __iter__(self) -> Iterator[CandidateRecord]:
        """Yield each candidate. Raise ConflictError after the last one if git lacks a content."""
        return self.of(None)

    def of(self, patches: frozenset[str] | None) -> Iterator[CandidateRecord]:
        """Yield each candidate for these patches (None: all): of a file that two branches wrote no record tells."""
        if self._checkout is None and not self.record.layers:
            requirement = f"sglang=={self._tree.version}" if self._tree.version else "its release"
            raise ConflictError(
                f"no record and no git history has the unpatched files of {self._tree.package}",
                advice=f"run pip install --force-reinstall --no-deps {requirement}, or restore the files from a copy",
            )
        written = (
            file
            for layer in self.record.layers
            for file, change in layer.files.items()
            if patches is None or patches.intersection(change.patches)
        )
        if self.record.layers and self.record.forked.isdisjoint(written):
            yield self._recorded(self._found)
        if self._checkout is not None:
            yield self._infer(self._checkout)

    def _recorded(self, record: Record) -> CandidateRecord:
        files = record.files.items()
        is_unedited = all(digest_or_none(self._tree.read(file)) == change.applied for file, change in files)
        return CandidateRecord(record, self._store.get, is_unedited=is_unedited, is_recorded=True)

    def _before(self, files: Iterable[str]) -> dict[str, bytes | None]:
        """Return the files' contents from before the patches. Raise ConflictError if one is not known.

        A record that began in a patched file, as a tree without one leaves it, or in one in which a person had made an
        edit, does not have the original.
        """
        texts: dict[str, bytes | None] = {}
        unknown = self.record.found_files if self._checkout is not None else frozenset[str]()
        for layer in self.record.layers:
            for file in layer.files.keys() - texts.keys() - unknown if not layer.is_ported else ():
                with suppress(TreeError):
                    content = content_or_none(layer.files[file].original, self._store.get)
                    texts |= {} if is_patched(content) else {file: content}
        wanted = frozenset(files)
        history = self._originals_of(wanted - texts.keys())
        return {file: texts[file] for file in wanted & texts.keys()} | {
            file: original.content for file, original in history.items()
        }

    def _originals_of(self, files: Iterable[str]) -> dict[str, Original]:
        """Return what git's history has of these files. Raise ConflictError if git lacks one."""
        wanted = frozenset(files)
        if self._checkout is not None:
            self._history |= originals_of(self._tree, self._checkout, sorted(wanted - self._history.keys()))
        return {file: self._history[file] for file in sorted(wanted) if file in self._history}

    @cached_property
    def _checkout(self) -> Checkout | None:
        return Checkout.tracking(self._tree.package)

    @cached_property
    def _committed(self) -> frozenset[str]:
        """The files that have a trace of a patch in HEAD."""
        return frozenset() if self._checkout is None else self._checkout.having(TRACE, ["."])

    def _infer(self, checkout: Checkout) -> CandidateRecord:
        """Compute the record from the contents before the patches and the loaded patches."""
        statuses = [status for status in self.statuses if status.patch.id in self.in_code]
        sites = {
            edit.file
            for status in statuses
            for edit in status.edits
            if edit.state is State.APPLIED or (status.patch.id in self.tidied and edit.state in IN_PLACE)
        }
        written = {file for layer in self.record.layers if not layer.is_ported for file in layer.files}
        originals = self._before(sites.union(self.traces, written) - self._moved)
        if vendor.is_vendored(self._tree):
            originals |= dict.fromkeys(self._tree.files(vendor.FOLDER, ""))
        planned = self._planner.plan_exactly([status.patch.id for status in statuses], originals)
        # An edit that is in the code but conflicts in the original was made by a person.
        manual_edits = _edits(statuses, {State.APPLIED, State.UPSTREAM}) & _edits(
            planned.patches, {State.CONFLICT}
        )
        conflicts = self._committed_conflicts(checkout)
        copies = self._vendored_copies(checkout)
        users = next((change.patches for change in planned.changes if change.file in copies), ())
        removed = copies.keys() - {change.file for change in planned.changes}
        changes = (
            *(
                replace(
                    change,
                    after=copies[change.file]
                    if change.file in copies
                    else self._with_current_wording(change, conflicts),
                )
                for change in planned.changes
            ),
            # A later runtime may lack some of the files.
            *(FileChange(file, None, copies[file], users) for file in sorted(removed) if users),
        )
        planned = replace(planned, manual_edits=manual_edits, changes=changes)
        record = with_plan(Record(), planned)
        pairs = ((change.before, change.after) for change in planned.changes)
        texts = {digest_of(text): text for pair in pairs for text in pair if text is not None}
        return CandidateRecord(record, texts.__getitem__, committed_conflicts=conflicts)

    @property
    def _moved(self) -> frozenset[str]:
        """The recorded files that are gone and of which a patch is in a file that the record does not have."""
        files = self.record.files
        lost = {
            file for file, change in files.items() if change.applied is not None and self.read(file) is None
        }
        if not lost:
            return frozenset()
        traces = {(file, name) for file, names in self.traces.items() for name in names}
        traces |= {(e.file, s.patch.id) for s in self.statuses for e in s.edits if e.state is State.APPLIED}
        elsewhere = {name for file, name in traces if file not in files}
        return frozenset(file for file in lost if not elsewhere.isdisjoint(files[file].patches))

    def _vendored_copies(self, checkout: Checkout) -> dict[str, bytes]:
        """The files of the vendored runtime that nobody edited, which another version of patchkit may have copied.

        A hook may have changed them in the commit that added them.
        """
        files = {file: self._tree.read(file) or b"" for file in self._tree.files(vendor.FOLDER, "")}
        copies = {file: content for file, content in files.items() if vendor.is_copy(content)}
        if all(vendor.is_current_copy(*copy) for copy in copies.items()):
            return copies
        unchanged, blobs = checkout.unchanged(vendor.FOLDER), checkout.committed([f"{vendor.FOLDER}/"])
        return {
            file: content
            for file, content in copies.items()
            if vendor.is_current_copy(file, content)
            or (file in unchanged and checkout.is_content(blobs[file], content))
        }

    def _with_current_wording(
        self, change: FileChange, conflicts: Mapping[str, tuple[bytes, frozenset[str]]]
    ) -> bytes | None:
        """Return what the patches make of a file, with the words of the comments that are in the code."""
        current = conflicts[change.file][0] if change.file in conflicts else self._tree.read(change.file)
        return with_wording_of(current, change.after)

    def _committed_conflicts(self, checkout: Checkout) -> dict[str, tuple[bytes, frozenset[str]]]:
        conflicted: dict[str, tuple[bytes, frozenset[str]]] = {}
        for file, blocks in conflicts_in(self._tree).items():
            current = self._tree.read(file) or b""
            _, without = without_equal_conflicts(checkout.at("HEAD", file) or b"", current)
            if without != current:
                conflicted[file] = without, frozenset(block.patch for block in blocks)
        return conflicted


def patch_base(tree: CheckoutTree, planner: Planner) -> PatchBase | None:
    """Return the originals of the tree's patches; None if it has no patches or if one of their files was edited.

    Also None if the originals are not known or the record is damaged, which the write reports.
    """
    try:
        candidates = Candidates(tree, planner)
        if candidates.is_unpatched:
            return None
        candidate = next(iter(candidates))
        record = candidate.record
        if not candidate.is_unedited or len(record.layers) != 1 or record.manual_edits:
            return None
        if any(digest_or_none(tree.read(file)) != change.applied for file, change in record.files.items()):
            return None
        contents = candidate.originals
    except (ConflictError, TreeError, UsageError):
        return None
    makers = frozenset((file, name) for file, change in record.files.items() for name in change.patches)
    return PatchBase(tuple(record.patches), contents, makers)


def _not_absent(undone: Iterable[tuple[str, bool | None]]) -> frozenset[str]:
    return frozenset(name for name, was_there in undone if was_there is not False)


def _edits(statuses: Iterable[PatchStatus], states: set[State]) -> frozenset[tuple[str, str]]:
    return frozenset((s.patch.id, edit.name) for s in statuses for edit in s.edits if edit.state in states)

"""What is verified: a tree, its patches and the original contents, each read once, on first use."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit import engine
from patchkit.errors import PatchkitError, RefusedRepositoryError, TreeError
from patchkit.patchset.patch import former_ids
from patchkit.patchset.select import PatchSet
from patchkit.plan import record, vendor
from patchkit.plan.build import inspect
from patchkit.plan.comments import COMMENT_PREFIX, commenting_patches
from patchkit.plan.planner import Planner
from patchkit.plan.record import Record, attributed
from patchkit.plan.status import IN_PLACE
from patchkit.transaction.candidates import Candidates
from patchkit.transaction.current import lined_record
from patchkit.transaction.resolve import unrecorded_edits
from patchkit.transaction.store import Store
from patchkit.tree.backends import Backends
from patchkit.tree.checkout import Checkout
from patchkit.tree.index import Program
from patchkit.tree.sglang import serves
from patchkit.tree.tree import CheckoutTree, OverlayTree
from patchkit.verify.runtime import Runtime, runtime_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.findings.finding import Confidence, Finding
    from patchkit.findings.report import Report
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.tree.tree import Contents


@dataclass(frozen=True)
class Criteria:
    """The audit findings that fail, those that are known, and whether patched modules are imported."""

    confidence: Confidence
    baseline: Sequence[Finding] = ()
    importing: bool = False


@dataclass(frozen=True)
class _ChangedTree(CheckoutTree):
    """A tree on disk with replaced contents of some files."""

    contents: Contents

    @property
    def _overlay(self) -> OverlayTree:
        return OverlayTree(CheckoutTree(self.root, self.package), self.contents)

    def read(self, file: str) -> bytes | None:
        return self._overlay.read(file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        return self._overlay.files(folder, suffix)

    def _python_files(self, names: Iterable[str]) -> list[str]:
        return super()._python_files({*names, *self.contents})


@dataclass(frozen=True)
class Subject:
    """A tree to verify, with everything that the checks read of it.

    Each tree of a verify that refers to another does so in one direction, or weakly: the syntax trees of a cycle would
    stay until garbage is collected.
    """

    tree: CheckoutTree
    patches: tuple[Patch, ...]
    criteria: Criteria
    _patched: weakref.ref[Subject] | None = None

    @property
    def patched(self) -> Subject | None:
        """The patched tree if this is the tree before its patches, so that both are checked at the same places."""
        return None if self._patched is None else self._patched()

    @property
    def replaced(self) -> Contents:
        """The contents that the tree has in place of those on disk."""
        return self.tree.contents if isinstance(self.tree, _ChangedTree) else {}

    @cached_property
    def _read_record(self) -> tuple[Record, TreeError | None]:
        try:
            return record.read(self.tree), None
        except TreeError as error:
            return Record(), error

    @property
    def record_error(self) -> TreeError | None:
        """Why the record cannot be read."""
        return self._read_record[1]

    @property
    def lost(self) -> frozenset[str]:
        """The ids of contents in the record that are lost, without which a revert fails.

        In a checkout git's history can make up for them.
        """
        store, wanted = Store(self.tree.package), self._read_record[0].contents
        missing = frozenset(digest for digest in wanted if not store.has(digest))
        checkout = Checkout.tracking(self.tree.package) if missing else None
        if checkout is None:
            return missing
        is_made_up_for = self.originals_error is None or checkout.is_shallow
        return frozenset() if is_made_up_for else checkout.lacking(missing)

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """Every Python file of the package folder, by name."""
        files = ((file, self.tree.read(file)) for file in self.tree.files(""))
        return {file: source for file, source in files if source is not None}

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder with a Python file at any depth, each with a trailing slash; the package folder is ``""``."""
        cuts = (
            (file, index) for file in self.sources for index, character in enumerate(file) if character == "/"
        )
        return frozenset({file[: index + 1] for file, index in cuts} | ({""} if self.sources else set()))

    @cached_property
    def marked_files(self) -> frozenset[str]:
        """The files that contain a patch's comment, and those of the vendored runtime."""
        sign, folder = COMMENT_PREFIX.encode(), f"{vendor.FOLDER}/"
        return frozenset(
            file for file, source in self.sources.items() if sign in source or file.startswith(folder)
        )

    @cached_property
    def statuses(self) -> tuple[PatchStatus, ...]:
        """Each patch's status. Raise TreeError if a file that patches name is not valid Python."""
        return attributed(inspect(self.tree, self.patches), lined_record(self.tree))

    @cached_property
    def unrecorded(self) -> tuple[tuple[str, str, str], ...]:
        """The edits whose conflict markers a person removed without recording the code: patch id, name and file."""
        return unrecorded_edits(self.tree)

    @cached_property
    def commenting_patches(self) -> frozenset[str]:
        """The patches whose comments the tree contains."""
        return frozenset[str]().union(*(commenting_patches(self.sources[file]) for file in self.marked_files))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The patches that comments in the tree name but that are not loaded."""
        ids = {patch.id for patch in self.patches} | former_ids(self.patches).keys()
        return tuple(sorted(self.commenting_patches - ids))

    @cached_property
    def in_place(self) -> tuple[tuple[Patch, EditStatus], ...]:
        """The edits that are in place, by whomever."""
        return tuple(
            (status.patch, edit)
            for status in self.statuses
            for edit in status.edits
            if edit.state in IN_PLACE
        )

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files that contain edits, a patch's comment, or the vendored runtime."""
        in_place = {edit.file for _, edit in self.in_place}
        return tuple(sorted(self.marked_files.union(in_place & self.sources.keys())))

    @property
    def originals(self) -> Contents:
        """The patched files' original contents; empty if they are not available."""
        return self._read_originals[0]

    @property
    def originals_error(self) -> PatchkitError | None:
        """The reason why the original contents are not available."""
        return self._read_originals[1]

    @cached_property
    def lacks_history(self) -> bool:
        """Whether the original contents are not available because the clone is shallow."""
        checkout = Checkout.tracking(self.tree.package) if self.originals_error is not None else None
        return checkout is not None and checkout.is_shallow

    @cached_property
    def _read_originals(self) -> tuple[Contents, PatchkitError | None]:
        try:
            return self._candidates.originals, None
        except RefusedRepositoryError:
            raise
        except PatchkitError as error:
            return {}, error

    @cached_property
    def before(self) -> Subject | None:
        """The tree with the original contents of every patched file; None if there are none."""
        return self._with(self.originals) if self.originals else None

    @property
    def as_written(self) -> Subject | None:
        """The tree with every patched file as patchkit wrote it; itself if no file was changed since."""
        applied = self._applied
        is_whole = applied is not None and all(self.tree.read(file) == text for file, text in applied.items())
        return self if is_whole else self._rewritten

    @cached_property
    def _rewritten(self) -> Subject | None:
        return None if self._applied is None else self._with(self._applied)

    @cached_property
    def _applied(self) -> Contents | None:
        try:
            return self._candidates.applied
        except PatchkitError:
            return None

    @cached_property
    def _candidates(self) -> Candidates:
        own = weakref.proxy(self)
        return Candidates(self.tree, Planner(self.tree, PatchSet(self.patches, "")), lambda: own.statuses)

    def _with(self, contents: Contents) -> Subject:
        """Return the tree with other contents of some files."""
        tree = _ChangedTree(self.tree.root, self.tree.package, contents)
        earlier = Subject(tree, self.patches, self.criteria, weakref.ref(self))
        files = tuple(file for file in self.files if contents.get(file, b"") is not None)
        earlier.__dict__.update(files=files, in_place=self.in_place, runtime=self.runtime)
        earlier.__dict__.update(_read_originals=self._read_originals)
        return earlier

    @cached_property
    def report(self) -> Report:
        """The audit's report."""
        return engine.audit_cached(self.tree)

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime that the tree's code would import."""
        return runtime_of(self.tree)

    @cached_property
    def backends(self) -> Backends:
        """The attention backends of the tree."""
        return Backends(self.program)

    @cached_property
    def program(self) -> Program:
        """The classes and functions of the tree."""
        return Program({file: text for file, text in self.sources.items() if serves(file)})

    def line(self, file: str, dotted: str) -> int:
        """Return the line on which a class, function or method of a file starts; 1 if it is not defined."""
        module = self.program.module(file)
        owner, _, name = dotted.rpartition(".")
        if module is None:
            return 1
        if owner in module.classes:
            method = module.classes[owner].methods.get(name)
            return method.node.lineno if method is not None else module.classes[owner].node.lineno
        definition = module.classes.get(name) or module.functions.get(name)
        return definition.node.lineno if definition is not None else 1

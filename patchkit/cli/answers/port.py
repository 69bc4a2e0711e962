"""The answer of ``port``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer

if TYPE_CHECKING:
    from patchkit.change.edits import Edit
    from patchkit.change.land import LandedFile
    from patchkit.commands.port import PortedChange
    from patchkit.commands.port import PortResult as PortedTree
    from patchkit.findings.finding import Finding


class PortedEdit(Answer, frozen=True, kw_only=True):
    """An edit of a change; ``site`` is the dotted name of its class or function, empty at a file's top level.

    ``outcome`` is landed, changed, kept (this tree's own comment stays), already, conflict, no-site or unmet. ``was``
    and ``found`` are the code at its site on its own tree and on this one, if they differ.
    """

    site: str
    outcome: str
    reason: str
    was: str = ""
    found: str = ""
    wanted: str = ""

    @classmethod
    def of(cls, edit: Edit) -> PortedEdit:
        """Return the answer for an edit."""
        return cls(
            site=edit.site,
            outcome=edit.outcome.value,
            reason=edit.reason,
            was=edit.base_text,
            found=edit.ours_text,
            wanted=edit.wanted,
        )


class PortedFile(Answer, frozen=True, kw_only=True):
    """A file of a change, and the file that it was made in; ``notes`` list the renames that were followed."""

    file: str
    onto: str
    outcome: str
    notes: tuple[str, ...]
    edits: tuple[PortedEdit, ...]

    @classmethod
    def of(cls, file: LandedFile) -> PortedFile:
        """Return the answer for a file."""
        return cls(
            file=file.file,
            onto=file.onto,
            outcome=file.outcome.value,
            notes=tuple(file.notes),
            edits=tuple(map(PortedEdit.of, file.edits)),
        )


class PortFinding(Answer, frozen=True, kw_only=True):
    """A place where the change may mean something else in this tree, as found by ``verify``."""

    rule: str
    file: str
    line: int
    function: str
    message: str

    @classmethod
    def of(cls, finding: Finding) -> PortFinding:
        """Return the answer for a finding."""
        return cls(
            rule=finding.rule,
            file=finding.file,
            line=finding.line,
            function=finding.function,
            message=finding.message,
        )


class Change(Answer, frozen=True, kw_only=True):
    """A change; ``commit`` is its original commit, ``made`` the commit made here, ``left`` what is left out.

    ``outside`` are its files outside the package, named from the top of sglang's repository. ``skipped`` is whether it
    was left out, since it is not whole, and ``needs`` are the changes left out before it that it needs.
    """

    id: str
    title: str
    commit: str
    made: str
    left: tuple[str, ...]
    files: tuple[PortedFile, ...]
    outside: tuple[PortedFile, ...]
    findings: tuple[PortFinding, ...]
    skipped: bool
    needs: tuple[str, ...]

    @classmethod
    def of(cls, ported: PortedChange) -> Change:
        """Return the answer for a change."""
        return cls(
            id=ported.change.facts.id,
            title=ported.change.title,
            commit=ported.change.facts.upstream_commit,
            made=ported.commit,
            left=ported.change.left_out,
            files=tuple(map(PortedFile.of, ported.files)),
            outside=tuple(map(PortedFile.of, ported.outside)),
            findings=tuple(map(PortFinding.of, ported.findings)),
            skipped=ported.skipped,
            needs=ported.needs,
        )


class PortedOnto(Answer, frozen=True, kw_only=True):
    """The outcome of changes on a tree; ``error`` is the reason why there is no tree.

    ``not_ported`` are the ids of changes behind one whose conflicts are marked, ``patches`` the files of the series for
    this tree.
    """

    onto: str
    whole: bool
    changes: tuple[Change, ...]
    changed_files: tuple[str, ...]
    patches: tuple[str, ...] = ()
    error: str = ""
    not_ported: tuple[str, ...] = ()

    @classmethod
    def of(cls, ported: PortedTree) -> PortedOnto:
        """Return the answer for a tree."""
        return cls(
            onto=ported.onto,
            whole=ported.is_whole,
            changes=tuple(map(Change.of, ported.changes)),
            changed_files=ported.changed,
            patches=tuple(map(str, ported.written)),
            error=ported.error,
            not_ported=tuple(change.facts.id for change in ported.not_ported),
        )


class Port(Answer, frozen=True, kw_only=True):
    """The answer of ``port``; ``written`` is whether the tree was changed."""

    written: bool
    trees: tuple[PortedOnto, ...]

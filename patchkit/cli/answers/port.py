"""The answer of ``port``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from patchkit.cli.answers.base import Answer

if TYPE_CHECKING:
    from patchkit.commands.port import PortedChange
    from patchkit.commands.port import PortResult as PortedTree


class PortedEdit(Answer, frozen=True, kw_only=True):
    """An edit of a change; ``site`` is the dotted name of its class or function, empty at a file's top level.

    ``outcome`` is landed, changed, kept (this tree's own comment stays), already, conflict, no-site or unmet. ``was``
    and ``found`` are the code at its site on its own tree and on this one, if they differ.
    """

    site: str
    outcome: str
    reason: str
    base_text: str = field(default="", name="was")
    ours_text: str = field(default="", name="found")
    wanted: str = ""


class PortedFile(Answer, frozen=True, kw_only=True):
    """A file of a change, and the file that it was made in; ``notes`` list the renames that were followed."""

    file: str
    onto: str
    outcome: str
    notes: tuple[str, ...]
    edits: tuple[PortedEdit, ...]


class PortFinding(Answer, frozen=True, kw_only=True):
    """A place where the change may mean something else in this tree, as found by ``verify``."""

    rule: str
    file: str
    line: int
    function: str
    message: str


class Change(Answer, frozen=True, kw_only=True):
    """A change; ``commit`` is its original commit, ``made`` the commit made here, ``left`` what is left out.

    ``outside`` are its links, and its files outside the package, named from the top of sglang's repository. ``skipped``
    is whether it was left out, since it is not whole, and ``needs`` are the changes left out before it that it needs.
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
    def made_of(cls, ported: PortedChange) -> Change:
        """Return the answer for a change."""
        facts = ported.change.facts
        return cls.of(
            ported,
            facts,
            title=ported.change.title,
            commit=facts.upstream_commit,
            made=ported.commit,
            left=ported.change.left_out,
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
    def made_of(cls, ported: PortedTree) -> PortedOnto:
        """Return the answer for a tree."""
        return cls.of(
            ported,
            whole=ported.is_whole,
            changes=tuple(map(Change.made_of, ported.changes)),
            changed_files=ported.changed,
            patches=ported.written,
            not_ported=tuple(change.facts.id for change in ported.not_ported),
        )


class Port(Answer, frozen=True, kw_only=True):
    """The answer of ``port``; ``written`` is whether the tree was changed."""

    written: bool
    trees: tuple[PortedOnto, ...]

"""The answers of ``apply``, and of ``apply --continue`` and ``--abort``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from patchkit.cli.answers.base import Answer, LeftOutAnswer, States, TreeAnswer, states
from patchkit.series.commit import Commit  # noqa: TC001  # schemas are made of it
from patchkit.verify.result import Result  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from patchkit.series.commit import CommitResult
    from patchkit.tree.tree import CheckoutTree


class Marked(Answer, frozen=True, kw_only=True):
    """A conflict that ``apply --markers`` left in a file, starting at ``line``."""

    patch: str
    edit: str
    file: str
    line: int


class InheritedOptOut(Answer, frozen=True, kw_only=True):
    """A backend that inherits the mirror opt-out of ``base`` and reads the mirror in ``methods``."""

    name: str = field(name="backend")
    file: str
    line: int
    base: str
    methods: tuple[str, ...]
    remedy: str


class Apply(States, frozen=True, kw_only=True):
    """The answer of ``apply``.

    ``left`` are the patches that were left out because they do not fit, ``markers`` the conflicts left by
    ``--markers``, ``inherited_opt_outs`` the tree's backends that inherit an opt-out and read the mirror, and
    ``commits`` the commits made by ``--commit``, and ``checks`` the checks of ``--verify``.
    """

    changed_files: tuple[str, ...]
    left: tuple[LeftOutAnswer, ...] = ()
    markers: tuple[Marked, ...] = ()
    inherited_opt_outs: tuple[InheritedOptOut, ...] = ()
    commits: tuple[Commit, ...] = ()
    checks: tuple[Result, ...] = ()

    @classmethod
    def made_of(cls, tree: CheckoutTree, done: CommitResult) -> Apply:
        """Return the answer for applied patches, their commits, and the verdict on them if they were verified."""
        applied = done.applied
        return cls.of(
            tree=tree,
            patches=states(tree, applied.patches),
            changed_files=applied.files,
            left=LeftOutAnswer.each(applied.left_out),
            markers=tuple(
                Marked.of(block, file=file, line=block.start + 1) for file, block in applied.marked
            ),
            inherited_opt_outs=applied.inheriting,
            commits=done.commits,
            checks=done.verdict.results if done.verdict is not None else (),
        )


class Recover(Answer, frozen=True, kw_only=True):
    """The answer of ``apply --continue`` and ``--abort``; ``action`` is finished, rolled-back or nothing."""

    tree: TreeAnswer
    action: str
    files: tuple[str, ...]

"""The answer of ``apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, CommitAnswer, LeftOutAnswer, States, TreeAnswer, states
from patchkit.cli.answers.verify import checks_of
from patchkit.verify.result import Result  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.plan.markers import MarkedConflict
    from patchkit.series.commit import Commit
    from patchkit.transaction.apply import ApplyResult
    from patchkit.tree.backends import InheritingBackend
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict


class Marked(Answer, frozen=True, kw_only=True):
    """A conflict that ``apply --markers`` left in a file, starting at ``line``."""

    patch: str
    edit: str
    file: str
    line: int

    @classmethod
    def of(cls, file: str, block: MarkedConflict) -> Marked:
        """Return the answer for a conflict in a file."""
        return cls(patch=block.patch, edit=block.edit, file=file, line=block.start + 1)


class InheritedOptOut(Answer, frozen=True, kw_only=True):
    """A backend that inherits the mirror opt-out of ``base`` and reads the mirror in ``methods``."""

    backend: str
    file: str
    line: int
    base: str
    methods: tuple[str, ...]
    remedy: str

    @classmethod
    def of(cls, backend: InheritingBackend) -> InheritedOptOut:
        """Return the answer for a backend."""
        return cls(
            backend=backend.name,
            file=backend.file,
            line=backend.line,
            base=backend.base,
            methods=backend.methods,
            remedy=backend.remedy,
        )


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
    commits: tuple[CommitAnswer, ...] = ()
    checks: tuple[Result, ...] = ()

    @classmethod
    def of(
        cls, tree: CheckoutTree, applied: ApplyResult, commits: Iterable[Commit], verdict: Verdict | None
    ) -> Apply:
        """Return the answer for applied patches, their commits, and the verdict on them if they were verified."""
        return cls(
            tree=TreeAnswer.of(tree),
            patches=states(tree, applied.patches),
            changed_files=applied.files,
            left=LeftOutAnswer.each(applied.left_out),
            markers=tuple(Marked.of(file, block) for file, block in applied.marked),
            inherited_opt_outs=tuple(map(InheritedOptOut.of, applied.inheriting)),
            commits=tuple(map(CommitAnswer.of, commits)),
            checks=checks_of(verdict) if verdict is not None else (),
        )

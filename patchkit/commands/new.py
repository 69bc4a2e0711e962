"""Write a patch folder from diffs or commits, which makes exactly the same change on the same tree."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.commands.patch_folder import staged
from patchkit.drafting import difference
from patchkit.drafting.patch import draft_patch
from patchkit.errors import UsageError
from patchkit.patchset.header import require_name
from patchkit.plan.package_name import as_upstream
from patchkit.series.message import TRAILER
from patchkit.tree.git import git, place_of, require_repository
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.drafting.change import Draft
    from patchkit.drafting.patch import Watch
    from patchkit.plan.status import FileChange
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class DraftedPatch:
    """A drafted patch's file, and the number of its edits.

    ``todo`` lists what a person has to complete. ``exact`` is whether the patch makes the whole change.
    """

    file: Path
    edits: int
    todo: tuple[str, ...]
    exact: bool


def new(
    tree: CheckoutTree,
    identifier: str,
    folder: Path,
    *,
    diff: str | Sequence[str] = "",
    commit: str = "",
    base: Sequence[str] = (),
    watch: Watch | None = None,
) -> DraftedPatch:
    """Draft ``folder`` from unified diffs against ``tree``, or from a commit or a range of its repository.

    Several diffs are applied in order, after those of ``base``, which are not part of the patch. ``watch`` is called
    with each file. Raise UsageError, with nothing written, if no patch can have the id, if ``folder`` has a patch, if a
    diff's lines are not in the tree, or if no edit can be drafted.
    """
    require_name(identifier)
    file = folder / "patch.toml"
    if file.exists():
        raise UsageError("the folder already has a patch", where=file, advice="name another folder with -o")
    draft = draft_of(tree, identifier, diff=diff, commit=commit, base=base, watch=watch)
    if not draft.edits:
        if commit:
            _require_own(tree, commit)
        option = "--from-commit" if commit else "--from-diff"
        raise UsageError(
            f"{option}: no patch can be made of it",
            reasons=draft.left_out or ("it changes no file of the package",),
            advice="name a diff or a commit that changes files of sglang's package",
        )
    with staged({folder: draft.files}):
        pass
    return DraftedPatch(file, len(draft.edits), draft.left_out, not draft.left_out)


def _require_own(tree: CheckoutTree, commit: str) -> None:
    """Raise UsageError if patchkit made a commit, so that there is a patch of its change already."""
    if not any(
        line.startswith(f"{TRAILER}: ")
        for line in difference.facts_of_commit(tree.root, "", commit).message.splitlines()
    ):
        return
    search = ("--max-count=1", "--no-merges", "--invert-grep", f"--grep=^{TRAILER}: ", "--format=%h")
    own = git(tree.root, "log", *search, difference.last_of(commit), "--", str(tree.package)).stdout.decode()
    raise UsageError(
        f"patchkit made {commit}, which is the commit of a patch",
        advice=f"name a commit of your own{f', such as {own.strip()}' if own.strip() else ''}",
    )


def draft_of(
    tree: CheckoutTree,
    identifier: str,
    *,
    diff: str | Sequence[str] = "",
    commit: str = "",
    base: Sequence[str] = (),
    watch: Watch | None = None,
) -> Draft:
    """Return the draft that ``new`` writes."""
    places = difference.places_of(tree.package)
    if commit:
        require_repository(tree.root, "name the TREE of the commit with --on")
        changes = difference.of_commit(tree.root, commit, places)
        facts = difference.facts_of_commit(tree.root, identifier, commit)
    else:
        given = [diff] if isinstance(diff, str) else diff
        texts = [mail for text in given for mail in difference.mails(text)]
        changes = difference.of_diffs(tree, texts, base, places)
        facts = difference.facts_of_diff(identifier, texts[-1] if texts else "", "--from-diff")
    with GitRepository(tree.root) if commit else nullcontext() as repository:
        parent = difference.parent_of(commit)
        below = tree if repository is None else GitTree(repository, parent, place_of(tree.package))
        files = [_as_upstream(change, below.name) for change in changes.files]
        return draft_patch(below, files, facts, changes.without_outside, watch=watch)


def _as_upstream(change: FileChange, name: str) -> FileChange:
    """Return a change in a renamed package with upstream's names, in which patches are written."""

    def spelled(content: bytes | None) -> bytes | None:
        text = content and content.decode(errors="surrogateescape")
        return content if not text else as_upstream(text, name).encode(errors="surrogateescape")

    return replace(change, before=spelled(change.before), after=spelled(change.after))

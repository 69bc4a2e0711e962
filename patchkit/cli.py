"""Every command answers on stdout, talks on stderr, and ends with the exit code that is documented for it.

0 done; 1 a check failed, or something was left out; 2 usage; 3 a conflict; 4 the tree cannot be used.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from patchkit import __version__
from patchkit.audit.command import audit
from patchkit.errors import ConflictError, PatchkitError, UsageError
from patchkit.verify.command import verify

if TYPE_CHECKING:
    from patchkit.patchset import PatchSet
    from patchkit.plan import Plan
    from patchkit.tree import CheckoutTree
    from patchkit.unwind import Replay

_Command = TypeVar("_Command", bound=Callable[..., None])


class _Commands(click.Group):
    """Commands in the order in which one meets them; what they refuse is one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PatchkitError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)


@dataclass(frozen=True)
class _Words:
    """What the command line says about the tree and the patch set, as typed."""

    tree: str | None
    installed: bool
    folders: Sequence[Path]

    @property
    def tail(self) -> str:
        """What to type behind another command for it to mean the same."""
        words = [self.tree] if self.tree else ["--installed"] if self.installed else []
        for folder in self.folders:
            words += ["--patches", str(folder)]
        return "".join(f" {shlex.quote(word)}" for word in words)

    def open(self) -> CheckoutTree:
        from patchkit.tree import installed_tree, open_tree

        if self.installed and self.tree:
            raise UsageError(f"--installed and {self.tree} are two trees: name one of them.")
        return installed_tree() if self.installed else open_tree(Path(self.tree or "."))

    def open_settled(self) -> CheckoutTree:
        from patchkit.transaction import require_settled

        tree = self.open()
        require_settled(tree)
        return tree


def _options(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_tree = click.argument("tree", required=False)
_tree_and_patches = click.argument("arguments", nargs=-1, metavar="[TREE] [PATCH]...")
_everything = click.option(
    "--all", "everything", is_flag=True, help="Every patch, which is also the default."
)
_installed = click.option("--installed", is_flag=True, help="Let TREE be this environment's sglang.")
_folders = click.option(
    "--patches",
    "folders",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take the patches in DIR too; may be repeated.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="patchkit")
def main() -> None:
    """Bring upstream sglang upgrades to a fork, whatever its exact shape, and take them back.

    TREE is a git checkout, its python folder, a package folder or site-packages, and `.` if left out. An
    argument that names a patch is a PATCH, any other is TREE.
    """


@main.command("list")
@_options(_folders, _as_json)
def list_(*, folders: Sequence[Path], as_json: bool) -> None:
    """Name the patches."""
    from patchkit import patchset, report

    report.print_list(tuple(patchset.load(folders)), as_json=as_json)


@main.command()
@click.argument("patch")
@_options(_folders, _as_json)
def show(*, patch: str, folders: Sequence[Path], as_json: bool) -> None:
    """Say what PATCH changes, why, and at what risk."""
    from patchkit import patchset, report

    report.print_patch(patchset.load(folders).get(patch), as_json=as_json)


@main.command()
@_options(
    _tree,
    click.option("--check", is_flag=True, help="Exit 1 unless every patch that fits TREE is in it."),
    _installed,
    _folders,
    _as_json,
)
@click.pass_context
def status(
    context: click.Context,
    *,
    tree: str | None,
    check: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Say of each patch whether TREE has it."""
    from patchkit import patchset, plan, report
    from patchkit.standing import standing

    words = _Words(tree, installed, folders)
    patches = patchset.load(folders)
    opened = words.open_settled()
    with report.working(opened):
        statuses = standing(opened, patches)
    report.print_status(opened, statuses, words.tail, as_json=as_json)
    # What is not applicable has nothing to do here, so it cannot fail a check either.
    done = {plan.State.APPLIED, plan.State.UPSTREAM, plan.State.NOT_APPLICABLE}
    if check and any(status.patch.default and status.state not in done for status in statuses):
        context.exit(1)


@main.command()
@_options(_tree_and_patches, _installed, _folders, _as_json)
def diff(
    *,
    arguments: Sequence[str],
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Print what apply would change, as a unified diff."""
    from patchkit import patchset, plan, report

    patches = patchset.load(folders)
    words, ids = _understood(arguments, installed, folders, patches)
    tree = words.open_settled()
    with report.working(tree):
        planned = plan.make_plan(tree, patches.select(ids))
    report.print_diff(tree, planned, as_json=as_json)
    conflicts = _conflicts(planned)
    if conflicts:
        raise ConflictError(f"{conflicts}: patchkit status{words.tail} says why.")


@main.command()
@_options(
    _tree_and_patches,
    _everything,
    click.option(
        "--dry-run", is_flag=True, help="Check everything and say what would change; write nothing."
    ),
    click.option("--keep-going", is_flag=True, help="Leave out what conflicts, apply the rest, and exit 1."),
    click.option("--only", is_flag=True, help="Do not bring along the patches that harden a PATCH."),
    click.option("--allow-dirty", is_flag=True, help="Change files that have uncommitted changes too."),
    _installed,
    _folders,
    _as_json,
)
@click.pass_context
def apply(
    context: click.Context,
    *,
    arguments: Sequence[str],
    everything: bool,
    dry_run: bool,
    keep_going: bool,
    only: bool,
    allow_dirty: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Apply each PATCH with what it requires and what hardens it."""
    from patchkit import patchset, plan, report
    from patchkit.transaction import Applied, Transaction

    patches = patchset.load(folders)
    words, ids = _understood(arguments, installed, folders, patches, everything=everything)
    tree = words.open_settled()
    with report.working(tree):
        planned = plan.make_plan(tree, patches.select(ids, only=only))
    conflicts = _conflicts(planned)
    if conflicts and not keep_going:
        refused = Applied(planned.patches, ())
        report.print_applied(tree, refused, words.tail, as_json=as_json, dry_run=dry_run)
        raise ConflictError(f"{conflicts}, so nothing was written: --keep-going applies the others.")
    transaction = Transaction(tree, patches.digest, allow_dirty=allow_dirty)
    outcome = transaction.check(planned) if dry_run else transaction.commit(planned)
    report.print_applied(tree, outcome, words.tail, as_json=as_json, dry_run=dry_run)
    if conflicts:
        context.exit(1)


@main.command()
@_options(_tree_and_patches, _everything, _installed, _folders, _as_json)
def revert(
    *,
    arguments: Sequence[str],
    everything: bool,
    installed: bool,
    folders: Sequence[Path],
    as_json: bool,
) -> None:
    """Take back each PATCH; edits that a person made since stay."""
    from patchkit import patchset, report, transaction

    patches = patchset.load(folders)
    words, ids = _understood(arguments, installed, folders, patches, everything=everything)
    tree = words.open_settled()
    recorded = transaction.recorded(tree)
    unrecorded = [name for name in ids or patches.ids if name not in recorded]
    if unrecorded and (ids or not recorded):
        _refuse_unrecorded(tree, patches, unrecorded, named=bool(ids))
    named = frozenset(ids).intersection(recorded)
    reverted = transaction.Reverted((), ())
    if named or not ids:
        with report.working(tree):
            reverted = transaction.revert(tree, named or None, _replay(tree, patches))
    report.print_reverted(tree, reverted, words.tail, as_json=as_json)


@main.command()
@_options(_tree, _installed, _as_json)
def recover(*, tree: str | None, installed: bool, as_json: bool) -> None:
    """Finish or roll back an interrupted write to TREE."""
    from patchkit import report, transaction

    words = _Words(tree, installed, ())
    opened = words.open()
    report.print_recovery(opened, transaction.recover(opened), words.tail, as_json=as_json)


main.add_command(verify)
main.add_command(audit)


def _understood(
    arguments: Sequence[str],
    installed: bool,
    folders: Sequence[Path],
    patches: PatchSet,
    *,
    everything: bool = False,
) -> tuple[_Words, tuple[str, ...]]:
    """Tell TREE from the patch ids among ``arguments``."""
    ids = tuple(argument for argument in arguments if argument in patches.ids)
    others = [argument for argument in arguments if argument not in patches.ids]
    trees = [argument for argument in others if Path(argument).exists()]
    unknown = [argument for argument in others if argument not in trees]
    if unknown and (trees or installed or len(unknown) > 1 or _like_an_id(unknown[0], patches)):
        patches.get(unknown[-1])
    if len(others) > 1:
        raise UsageError(f"{others[0]} and {others[1]} are two trees: name one of them.")
    if everything and ids:
        raise UsageError(f"--all and {ids[0]} contradict each other: leave out one of them.")
    return _Words(others[0] if others else None, installed, folders), ids


def _like_an_id(word: str, patches: PatchSet) -> bool:
    return os.sep not in word and (word.isdigit() or bool(difflib.get_close_matches(word, patches.ids)))


def _conflicts(planned: Plan) -> str:
    """Name the conflicting patches in the first half of a sentence; empty if there is none."""
    from patchkit.plan import State

    ids = [status.patch.id for status in planned.patches if status.state is State.CONFLICT]
    return f"{', '.join(ids)} {'conflict' if len(ids) > 1 else 'conflicts'} with this tree" if ids else ""


def _refuse_unrecorded(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str], *, named: bool) -> None:
    """Raise ConflictError if the tree has a patch although no ledger records it."""
    from patchkit.plan import State, inspect

    statuses = inspect(tree, tuple(map(patches.get, ids)))
    ours = [s.patch.id for s in statuses if any(edit.state is State.APPLIED for edit in s.edits)]
    theirs = [s.patch.id for s in statuses if s.state is State.UPSTREAM]
    if ours:
        raise ConflictError(
            f"{', '.join(ours)}: in the code of {tree.package}, but its ledger (.patchkit) does not say what "
            "was there before: undo it with git revert or git checkout."
        )
    if theirs and named:
        raise ConflictError(
            f"{', '.join(theirs)}: upstream's own in {tree.package}: git revert takes it out."
        )


def _replay(tree: CheckoutTree, patches: PatchSet) -> Replay:
    """Return what files become of the given contents under the given patches of ``patches``."""
    from patchkit.plan import make_plan
    from patchkit.tree import OverlayTree

    def replay(contents: Mapping[str, bytes], ids: Sequence[str]) -> Mapping[str, bytes]:
        missing = [name for name in ids if name not in patches.ids]
        if missing:
            raise UsageError(f"{missing[0]} came from a folder of patches: name it again with --patches DIR.")
        chosen = tuple(patch for patch in patches if patch.id in ids)
        changes = make_plan(OverlayTree(tree, contents), chosen).changes
        return {**contents, **{change.file: change.after for change in changes}}

    return replay

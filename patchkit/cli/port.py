"""``patchkit port``: port changes to another tree, and report the outcome of each edit."""

from __future__ import annotations

import difflib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.change.edits import EditOutcome, Outcome
    from patchkit.change.land import LandedFile
    from patchkit.commands.port import PortedChange, PortResult

_OUTCOMES = {
    "landed": ("[green]+[/]", "applied"),
    "already": ("[green]=[/]", "already applied"),
    "changed": ("[yellow]~[/]", "applied; the code around it differs"),
    "kept": ("[yellow]=[/]", "comment kept"),
    "conflict": ("[red]![/]", "conflict"),
    "no-site": ("[red]-[/]", "not found"),
    "unmet": ("[red]?[/]", "not applicable"),
}


@options.command(
    "port",
    click.argument("patches", metavar="PATCH...", nargs=-1, required=True),
    click.option(
        "--from",
        "base",
        metavar="TREE|REF|RELEASE",
        help="The base of the first diff, such as 0.5.14 (default: as the diff's blob ids say; a commit's base is its "
        "parent).",
    ),
    click.option(
        "--onto",
        "onto",
        metavar="TREE|REF|RELEASE",
        multiple=True,
        help="The tree to change (default: the tree that contains the current folder). Several trees, a REF or a "
        "RELEASE are only reported on.",
    ),
    click.option(
        "--repo",
        "repository",
        default=".",
        metavar="REPO",
        type=click.Path(file_okay=False, path_type=Path),
        help="The repository of commits and REFs (default: the current one).",
    ),
    options.flag("--commit committing", "Commit the change with its author, date and message."),
    options.flag("--dry-run", "Show the outcome of each edit; write nothing."),
    options.flag(
        "--keep-going", "Leave out what conflicts (of several patches whole ones), make the rest, and exit 1."
    ),
    options.flag(
        "--markers", "Write conflict markers for edits that conflict, stop there in a series, and exit 1."
    ),
    options.allow_dirty,
    options.output_folder("Also write the series to DIR, as patches for the tree."),
    options.as_json,
)
def command(
    given: options.Target,
    *,
    patches: Sequence[str],
    base: str | None,
    onto: Sequence[str],
    repository: Path,
    committing: bool,
    dry_run: bool,
    keep_going: bool,
    markers: bool,
    allow_dirty: bool,
    folder: Path | None,
) -> int:
    """A PATCH is a commit, a range, a diff, a file of mails as from git format-patch, or a folder of these, in the
    order of its file `series` or by name. Shows for each edit whether it was applied, was already there or cannot be
    applied, and the difference where the code around it differs. If an edit cannot be applied, nothing is written and
    the exit code is 3. Exit code 1 if a change may behave differently in that tree, or a part of one was left out.
    Files outside the package are merged as text, and links and modes are carried.
    """
    from patchkit.commands.port import PortConflictError, port, port_matrix
    from patchkit.series.source import Source
    from patchkit.tree.git import top_around
    from patchkit.tree.tree import open_tree

    if committing and (dry_run or allow_dirty or markers):
        raise UsageError(
            "--commit cannot be combined with --dry-run, --allow-dirty or --markers", advice="leave them out"
        )
    places = onto or (".",)
    alone = Path(places[0]) if len(places) == 1 and os.path.exists(places[0]) else None
    if alone is None and (committing or markers):
        raise UsageError("--commit and --markers need one folder", advice="name one TREE with --onto")
    if folder is not None and len(places) > 1:
        raise UsageError("-o needs one tree", advice="name one TREE, REF or RELEASE with --onto")
    if alone is not None and repository == Path() and top_around(repository.resolve()) is None:
        repository = alone  # Where git apply -3 would look up what a diff names.
    with console.progress() as watch, Source(patches, base or "", repository) as source:
        try:
            if alone is None:
                results = port_matrix(source, places, keep_going=keep_going, folder=folder, watch=watch)
            else:
                patch_port = port(
                    source,
                    open_tree(options.located(places[0])),
                    keep_going=keep_going,
                    markers=markers,
                    allow_dirty=allow_dirty,
                    dry_run=dry_run,
                    committing=committing,
                    folder=folder,
                    watch=watch,
                )
                results = (patch_port,)
        except PortConflictError as error:
            _print((error.ported,), done="--keep-going would change", as_json=given.as_json)
            raise
    written = alone is not None and not dry_run and bool(results[0].changed)
    more = ""
    if written and committing:
        commits = [change.commit for change in results[0].changes if change.commit]
        more = console.by_hooks(open_tree(options.located(places[0])), results[0].changed, commits)
    done = "Changed" if written else "Would change"
    _print(results, done=done, more=more, written=written, as_json=given.as_json)
    if alone is not None and not dry_run and not given.as_json:
        again = shlex.join(("port", *patches, *options.typed("base", "onto", "repository"), "--markers"))
        _say_next(alone, results[0], committed=committing, again="" if markers else again)
    if (
        alone is None
        and not keep_going
        and any(not result.is_whole and not result.error for result in results)
    ):
        return 3
    if any(result.error for result in results):
        return 4
    return int(not all(result.is_clean for result in results))


def _print(
    results: Sequence[PortResult], *, done: str, more: str = "", written: bool = False, as_json: bool
) -> None:
    """Print the outcome; ``done`` and ``more`` are printed before and after the number of files."""
    from patchkit.cli.answers.port import Port, PortedOnto

    if as_json:
        console.emit(Port(written=written, trees=tuple(map(PortedOnto.made_of, results))))
        return
    for result in results:
        console.say(f"\n{escaped(result.onto)}:")
        if result.error:
            console.say(f"  {escaped(result.error)}")
        for change in result.changes:
            _print_change(change, brief=len(results) > 1)
        for skipped in result.not_ported:
            facts = skipped.facts
            console.say(
                f"  {escaped(facts.id)}  {escaped(skipped.title)}: not ported; resolve the conflicts first"
            )
    for result in results if len(results) == 1 else ():
        changed = f"{done} {console.count(result.changed)}{more}." if result.changed else "Nothing changed."
        console.say(f"\n{changed}")
        if result.written:
            folder = escaped(str(result.written[0].parent))
            console.say(f"{folder} contains {_patches(result.written)} for this tree.")


def _say_next(tree: Path, ported: PortResult, *, committed: bool, again: str) -> None:
    """Print the next command: for the first conflict, or to revert what was written and is not committed in git.

    ``again`` is the command that writes conflict markers, if this was not it.
    """
    from patchkit.transaction.conflicts import conflicts_in
    from patchkit.tree.checkout import Checkout
    from patchkit.tree.tree import open_tree

    opened = open_tree(tree)
    is_in_git = not committed and Checkout.tracking(opened.package) is not None
    note = ". Only what port --commit commits can be reverted in a clone." if is_in_git else ""
    block = next((block for blocks in conflicts_in(opened).values() for block in blocks), None)
    if block is not None:
        words = shlex.join(("resolve", str(tree), block.patch, block.edit))
        console.say_next((words, f"records the first conflict once you have removed its markers{note}"))
    elif again and not ported.is_whole:
        console.say_next((again, "writes conflict markers, to resolve by hand"))
    elif is_in_git and ported.changed:
        names = dict.fromkeys(change.change.facts.id for change in ported.changes if change.is_revertible)
        if names:
            console.say_next((shlex.join(("revert", str(tree), *names)), f"reverts the change{note}"))
    if is_in_git and ported.changed and block is None:
        console.say_new_files(opened, ported.changed)


def _print_change(change: PortedChange, *, brief: bool) -> None:
    facts = change.change.facts
    needed = f"; it needs {', '.join(change.needs)}" if change.needs else ""
    skipped = f": skipped{needed}" if change.skipped else ""
    console.say(f"  {escaped(facts.id)}  {escaped(change.change.title)}{escaped(skipped)}")
    for file in change.files:
        mark, text = _OUTCOMES[file.outcome.value]
        console.say(f"  {mark} {escaped(file.onto)}: {text}{_counted(file)}")
        for note in file.notes:
            console.say(f"      {escaped(note)}")
        same: dict[tuple[Outcome, str], list[EditOutcome]] = {}
        for edit in file.edits if not brief else ():
            if edit.reason:
                same.setdefault((edit.outcome, edit.reason), []).append(edit)
        for edits in same.values():
            _print_edits(edits)
    for file in change.outside:
        mark, text = _OUTCOMES[file.outcome.value]
        reason = "; left out" if not file.is_whole else ", as text"
        why = "".join(f": {edit.reason}" for edit in file.edits if edit.reason)
        console.say(f"  {mark} {escaped(file.onto)}: {text}{escaped(why)}{reason}")
        for note in file.notes:
            console.say(f"      {escaped(note)}")
    for part in change.change.left_out:
        console.say(f"  [yellow]![/] {escaped(part)}")
    for finding in change.findings:
        where = f"{finding.file}:{finding.line}: {finding.function}"
        console.say(f"  [yellow]{finding.rule}[/] {escaped(where)}: {escaped(finding.message)}")
    if change.commit:
        console.say(f"  committed as {change.commit[:12]}")


def _patches(written: Sequence[Path]) -> str:
    return counted(sum(path.name != "series" for path in written), "patch")


def _counted(file: LandedFile) -> str:
    """Return how many of a file's edits were made, empty if it has only one."""
    from patchkit.change.land import NOT_MADE

    made = sum(edit.outcome not in NOT_MADE for edit in file.edits)
    return f" ({made} of {len(file.edits)} edits)" if len(file.edits) > 1 else ""


def _print_edits(edits: Sequence[EditOutcome]) -> None:
    """Print edits of one file that have the same outcome and reason."""
    _, text = _OUTCOMES[edits[0].outcome.value]
    sites = ", ".join(dict.fromkeys(edit.site for edit in edits if edit.site))
    site = f"{sites}: " if sites else ""
    console.say(f"      {escaped(site)}{text.partition(';')[0]}: {escaped(edits[0].reason)}")
    for base, ours in dict.fromkeys((edit.base_text, edit.ours_text) for edit in edits):
        if not base or not ours or base == ours:
            continue
        lines = difflib.unified_diff(
            base.splitlines(),
            ours.splitlines(),
            "its own tree",
            "this tree",
            lineterm="",
            n=1,
        )
        for line in list(lines)[2:]:
            console.say(f"        {escaped(line)}")

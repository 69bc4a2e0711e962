"""``patchkit doctor``: show why servers need the CPU mirror, and which fixes their tree lacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from patchkit.cli import console, options
from patchkit.findings.printable import escaped
from patchkit.tree.limits import read_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.doctor.fixes import Fix
    from patchkit.doctor.gains import Gain
    from patchkit.doctor.survey import SurveyedServer

_Item = TypeVar("_Item")


@options.command(
    "doctor",
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[TREE] [SERVER OPTIONS|FILE]..."),
    click.option(
        "--server-args",
        "settings",
        type=options.FILE,
        help="Read a ServerArgs JSON from FILE; options on the command line override it.",
    ),
    click.option(
        "--gpu",
        "gpus",
        multiple=True,
        metavar="NAME",
        help="The server's GPU, such as h100, b200 or mi300x; without it, a Hopper and a Blackwell one.",
    ),
    click.option(
        "--model-config", type=options.FILE, help="The config.json of a model that is not on this machine."
    ),
    click.option("--draft-config", type=options.FILE, help="The config.json of its draft model."),
    options.flag("--read-only", "Run none of TREE's code; only the given options are known."),
    options.shared,
    context_settings={"ignore_unknown_options": True},
)
def command(
    given: options.Target,
    *,
    settings: Path | None,
    gpus: Sequence[str],
    model_config: Path | None,
    draft_config: Path | None,
    read_only: bool,
) -> None:
    """SERVER OPTIONS are sglang's, such as --attention-backend triton --speculative-algorithm EAGLE3, or the launch
    command in quotes. Prints the backends that the server uses, which of them need the CPU mirror (the host copy of a
    batch's sequence lengths), the patch or option that removes this need, and the fixes for this server that TREE
    lacks. TREE is only read. Its own code resolves the options, in a process without network and GPU; with --read-only
    none of its code runs.

    With FILEs, or folders of them behind TREE, prints a table of the servers that they start: shell scripts, Markdown
    documents, Dockerfiles, compose and Kubernetes manifests, and files of sglang's --config.
    """
    from patchkit.cli.answers.doctor import Doctor, DoctorFiles
    from patchkit.commands.doctor import diagnoses, doctor
    from patchkit.doctor.command_line import command_of
    from patchkit.doctor.files import found_in
    from patchkit.doctor.survey import SurveyedServer

    words = given.words
    named = bool(words) and not words[0].startswith("-") and os.path.isdir(words[0])
    paths = [Path(word) for word in words[named:]]
    servers = found_in(paths) if paths and all(map(os.path.exists, paths)) and settings is None else []
    if not servers:
        command_of(words[named:])  # A TREE that does not exist is an error, even outside of every tree.
    target = given.on(words[0] if named else None)
    tree = target.open()
    server_args = read_named(settings) if settings is not None else b""
    configs = {"model": model_config, "draft": draft_config}
    models = {name: read_named(file) for name, file in configs.items() if file is not None}
    with console.working(tree):
        patches = given._replace(words=words[:named]).patches()
        if servers:
            outcomes = diagnoses(
                tree, patches, servers, gpus=gpus, models=models, read_only=read_only, advises=False
            )
            surveyed = tuple(map(SurveyedServer.of, servers, outcomes))
            if given.as_json:
                console.emit(DoctorFiles.of(servers=surveyed, tree=tree))
            else:
                _say_survey(surveyed, target.tail, tree.version)
            return
        diagnosis = doctor(
            tree, patches, words[named:], server_args, gpus=gpus, models=models, read_only=read_only
        )
    if given.as_json:
        console.emit(Doctor.of(diagnosis, tree=tree))
    else:
        _say(diagnosis, target.tail, tree.version)


def _say_survey(servers: Sequence[SurveyedServer], tail: str, version: str | None) -> None:
    """Print a table of the servers, and below it each refusal of the tree."""
    rows = [(f"server on {version or 'this tree'}", "mirror", "gains from apply", "needs", "unknown")]
    for server in servers:
        ratios = [case.ratio for case in server.gains]
        measured = f", {min(ratios):.2f} to {max(ratios):.2f} of the step time" if ratios else ""
        gain = f"mirror removed{measured}" if server.frees else "-"
        state = "refused" if server.refused else "kept" if server.kept else "none"
        columns = (state, gain, " ".join(server.needs) or "-", " ".join(server.unknown) or "-")
        rows.append((f"{server.file}:{server.line}", *columns))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.say(escaped("  ".join(cells).rstrip()))
    for server in servers:
        if server.refused:
            console.say(f"\n{escaped(f'{server.file}:{server.line}: {server.refused}')}")
    needed = sorted({patch for server in servers for patch in server.needs})
    if needed:
        console.say(f"\nAll that they need: {escaped(f'`patchkit apply{tail} ' + ' '.join(needed))}`")


def _by_condition(items: Iterable[_Item], condition: Callable[[_Item], str]) -> list[tuple[str, list[_Item]]]:
    """Return items grouped by condition, those without a condition first."""
    groups: dict[str, list[_Item]] = {}
    for item in items:
        groups.setdefault(condition(item), []).append(item)
    return sorted(groups.items(), key=lambda pair: pair[0] != "")


def _say_gains(gains: Sequence[Gain], version: str | None) -> None:
    from patchkit.patchset.runs import release_of

    if not gains:
        return
    release, tree_release = gains[0].release, release_of(version)
    if release != tree_release:
        console.say(
            f"\nThe gain was not measured on {escaped(tree_release or 'this tree')} with these backends."
        )
    console.say(
        f"\nMeasured on {escaped(release)}: time per step with the default patches of that run, divided "
        "by the unpatched release's (95 % interval):"
    )
    for case in gains:
        low, high = case.interval
        console.say(
            f"  {escaped(case.server)}, {case.layers} layers, batch {case.batch}: {case.ratio:.3f} "
            f"({low:.3f} to {high:.3f}), {escaped(case.gpu)}: {case.gain}"
        )


def _command(remedy: str, tail: str) -> str:
    """Return a remedy that removes the mirror as one types it: a patch by the command that applies it."""
    if not remedy.startswith("patch "):
        return remedy
    patches, _, remark = remedy.removeprefix("patch ").partition(" (")
    return f"`patchkit apply{tail} {patches}`" + (f", {remark.removesuffix(')')}" if remark else "")


def _say_fixes(fixes: Sequence[Fix], tail: str) -> None:
    if fixes:
        console.say(
            "\nFixes for this server that this tree lacks, with the requests or models that need them:"
        )
    for fix in fixes:
        concerned = "; ".join(filter(None, (fix.concerns, fix.where)))
        concerns = f" ({concerned})" if concerned else ""
        console.say(f"  [yellow]![/] {escaped(fix.patch)}: {escaped(fix.symptom + concerns)}")
        released = f"; fixed upstream in {fix.fixed_in}" if fix.fixed_in else ""
        conflict = f"conflicts with this tree: `patchkit diff{tail} {fix.patch}` shows where"
        remedy = conflict if fix.conflict else f"`patchkit apply{tail} {fix.patch}`"
        console.say(f"      {escaped(remedy + released)}")
    fitting = [fix.patch for fix in fixes if not fix.conflict]
    if len(fitting) > 1:
        console.say(f"  All of them: {escaped(f'`patchkit apply{tail} ' + ' '.join(fitting))}`")


def _say(diagnosis: Diagnosis, tail: str, version: str | None) -> None:
    colour = "yellow" if diagnosis.kept else "green"
    console.say(f"[{colour}]{escaped(diagnosis.verdict)}[/]")
    if diagnosis.causes:
        console.say("\nThe mirror is kept by:")
    for where, causes in _by_condition(diagnosis.causes, lambda cause: cause.where):
        if where:
            console.say(f" {escaped(where[:1].upper() + where[1:])}:")
        for cause in causes:
            console.say(f"  [yellow]![/] {escaped(cause.who)}: {escaped(cause.why)}")
            for place, remedy in enumerate(cause.remedies):
                console.say(f"      {'or' if place else 'removed'} by: {escaped(_command(remedy, tail))}")
            if not cause.remedies:
                console.say("      no patch or option removes it")
    width = max((len(backend.role) for backend in diagnosis.backends), default=0)
    wide = max((len(backend.backend) for backend in diagnosis.backends), default=0)
    if diagnosis.backends:
        console.say("\nBackends in use:")
    for where, backends in _by_condition(diagnosis.backends, lambda backend: backend.reads):
        if where:
            console.say(f" Reading the mirror {escaped(where)}:")
        for backend in backends:
            reads = "" if where else ": [yellow]reads the mirror[/]"
            mark = ": [green]without the mirror[/]" if backend.opted_out else reads
            classes = escaped(" or ".join(backend.classes) or "unknown class")
            console.say(f"  {backend.role:{width}}  {escaped(backend.backend):{wide}}  {classes}{mark}")
    for note in diagnosis.notes:
        console.say(f"\n{escaped(options.runnable(note))}")
    _say_fixes(diagnosis.fixes, tail)
    _say_gains(diagnosis.gains, version)

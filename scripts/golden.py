"""Keep what patchkit does in one digest a case, so that a change of the tool shows where it differs.

usage: python scripts/golden.py [--check] [--clone CLONE] [GROUP...]

Writes ``tests/golden.json``, or with ``--check`` names each case that differs and exits with 1. A group is a release,
``stories``, or ``ports``, which need a clone of sglang with its history. Cases of a release are the patches' states
before and after each act, and the bytes of the tree after an apply of the default patches, of the opt-in patches that
fit as well, after the revert of each one alone, and of all. A case of a revert is named by the set of patches that are
left. Stories and ports that the file has are told and made again; others are drawn if it has none.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests" / "transaction"), str(REPOSITORY / "tests"), str(REPOSITORY)]

from corpus import ports, releases, stories  # noqa: E402
from support.constructed import RELEASES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Cases = dict[str, str]

CORPUS = REPOSITORY / "tests" / "golden.json"
PORTS, STORIES = "ports", "stories"
AT_ONCE = 20
"""The ports that one process makes in turn."""


def parts(group: str, known: Cases, clone: Path | None) -> Iterator[Callable[[], Cases]]:
    """Yield what makes the cases of a group; its ports are in several parts."""
    if group == STORIES:
        yield partial(stories.cases, sorted(known) or stories.drawn())
    elif group == PORTS:
        if clone is None:
            raise click.UsageError("ports need a clone of sglang with its history: name it with --clone.")
        names = sorted(known) or ports.drawn(clone)
        for first in range(0, len(names), AT_ONCE):
            yield partial(ports.cases, clone, names[first : first + AT_ONCE])
    else:
        yield partial(releases.cases, group)


def differences(old: dict[str, Cases], new: dict[str, Cases]) -> list[str]:
    """Return a line for each case of ``new`` that is another one, is missing, or was not there."""
    lines = []
    for group, found in new.items():
        known = old.get(group, {})
        for case in sorted({*known, *found}):
            if known.get(case) != found.get(case):
                lines.append(f"{group}: {case}: {known.get(case)} is now {found.get(case)}")
    return lines


@click.command()
@click.argument("groups", nargs=-1)
@click.option("--check", is_flag=True, help="Write nothing, and exit with 1 if a digest differs.")
@click.option("--clone", type=click.Path(exists=True, path_type=Path), help="A clone of sglang, for ports.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
def main(groups: Sequence[str], check: bool, clone: Path | None, jobs: int) -> None:
    """Compare what patchkit does in GROUPS (default: all; ports only with --clone) with the corpus, or write it."""
    known: dict[str, Cases] = json.loads(CORPUS.read_bytes()) if CORPUS.exists() else {}
    names = list(groups or [*([PORTS] if clone else []), STORIES, *RELEASES])
    made: dict[str, Cases] = {}
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [
            (name, pool.submit(part)) for name in names for part in parts(name, known.get(name, {}), clone)
        ]
        for name, part in waiting:
            made.setdefault(name, {}).update(part.result())
    number = sum(map(len, made.values()))
    if check:
        lines = differences(known, made)
        for line in lines:
            click.echo(line)
        click.echo(f"{number} cases, {len(lines)} differ.")
        sys.exit(bool(lines))
    CORPUS.write_text(json.dumps(known | made, indent=1, sort_keys=True) + "\n")
    click.echo(f"Wrote {number} cases to {CORPUS}.")


if __name__ == "__main__":
    main()

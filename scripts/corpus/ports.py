"""The cases of ports: commits of sglang's main, each made on main as it was a number of commits earlier.

A case is named by the commit and its target, and tells how many edits have each outcome, with digests of the edits, of
the files with and without conflict markers, and of what the change uses and the target lacks.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING

import bench_port

from corpus.digests import contents, digest
from patchkit import memory
from patchkit.change.follow import Trees
from patchkit.change.land import land
from patchkit.drafting import difference
from patchkit.porting.dependencies import dependencies_of
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NUMBER = 200
SEED = 20
DISTANCES = (50, 150, 400, 1000)
_ABBREVIATED = 12


def drawn(clone: Path) -> list[str]:
    """Return the names of the cases: the commits that ``bench_port.py --seed 20`` takes, the distances in turn."""
    line = bench_port.listed(clone, "log", "--first-parent", "--format=%H", "HEAD")
    at = {commit: number for number, commit in enumerate(line)}
    commits = (commit for commit, _ in bench_port.of_main(clone, SEED))
    pairs = zip(itertools.islice(commits, NUMBER), itertools.cycle(DISTANCES), strict=False)
    return [
        f"{commit[:_ABBREVIATED]} onto {line[at[commit] + 1 + distance][:_ABBREVIATED]}"
        for commit, distance in pairs
    ]


def cases(clone: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the outcome of each case."""
    with GitRepository(clone) as repository:
        return {name: ported(clone, repository, *name.split(" onto ")) for name in names}


def ported(clone: Path, repository: GitRepository, commit: str, onto: str) -> str:
    """Return the outcome of a commit on a tree."""
    tree = GitTree(repository, onto)
    changed = difference.of_commit(clone, commit).files
    sources = {file.file: (file.before, file.after) for file in changed}
    landing = land(sources, Trees(GitTree(repository, f"{commit}^"), tree), "port")
    edits = [
        (file.file, file.onto, edit.site, edit.outcome.value) for file in landing.files for edit in file.edits
    ]
    lacking = [
        (finding.rule, finding.file, finding.line) for finding in dependencies_of(tree, sources, landing)
    ]
    counts = Counter(outcome for *_, outcome in edits)
    memory.forget_if_large()
    parts = {
        "edits": digest([json.dumps(sorted(edits)).encode()]),
        "bytes": contents(landing.contents),
        "marked": contents(landing.marked),
        f"{len(lacking)} lacking": digest([json.dumps(sorted(lacking)).encode()]),
    }
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    return "; ".join([told, *(f"{part} {value}" for part, value in parts.items())])

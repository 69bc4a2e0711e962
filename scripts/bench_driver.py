#!/usr/bin/env python3
"""Merge again what people merged and picked in public histories, with git and with the merge driver, and compare.

usage: python scripts/bench_driver.py SET FOLDER [--judge DIR] [-o FILE]

SET is a name in ``SETS``: repositories, whose whole histories are in FOLDER/OWNER+NAME/repo or FOLDER/NAME, a seed, the
number of picks to draw from each, and their first day. A pick is a merge of two commits, or a commit that names the
commit that it was picked from; all that git leaves in conflict are drawn, in the order of the seed. A file in conflict
is clean if the driver merges it whole. A clean file equals the people's if it has the same code and comments, or if all
that the driver put in place of git's conflicts is there. Those that have the people's statements and comments in
another order are counted apart, and the others, and all with a name that neither side leaves undefined, are different:
DIR has a folder for each file with all versions, for a person to judge. Adds the figures and each file to FILE as JSON,
and prints them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from patchkit.change.blocks import same_statements  # noqa: E402
from patchkit.change.comments import comments, words_and_comments  # noqa: E402
from patchkit.change.undefined import undefined_names  # noqa: E402
from patchkit.commands.merge_driver import Files, merge  # noqa: E402
from patchkit.tree.objects import GitRepository  # noqa: E402
from patchkit.tree.source import fault_of  # noqa: E402
from patchkit.tree.text import decoded  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Drawn(NamedTuple):
    """The repositories of a set, its seed, how many picks are drawn from each, and the first day of these."""

    repositories: tuple[str, ...]
    seed: int
    picks: int
    since: str = ""


SETS = {
    # The driver was mended on these two.
    "first": Drawn(("sphinx-doc/sphinx", "pytest-dev/pytest", "pypa/pip"), 41, 60),
    "second": Drawn(("ipython/ipython", "celery/celery", "buildbot/buildbot"), 4103, 60),
    "last": Drawn(("scrapy/scrapy", "mopidy/mopidy", "mitmproxy/mitmproxy"), 411128, 60),
    # From a day on when all were written for Python 3.
    "fresh": Drawn(
        ("certbot/certbot", "sqlalchemy/sqlalchemy", "openstack/neutron", "spyder-ide/spyder"),
        301128,
        60,
        "2016-01-01",
    ),
    "again": Drawn(("aio-libs/aiohttp", "pylint-dev/pylint"), 301129, 60, "2016-01-01"),
    # Their branches are kept by picks, and their changes are told in files of their own.
    "kept": Drawn(("ansible/ansible", "openstack/cinder", "pulp/pulpcore"), 411130, 20, "2018-01-01"),
    # A backup tool, a collection of modules by many authors, and a router's system: merges of branches and backports.
    "backports": Drawn(
        ("borgbackup/borg", "ansible-collections/community.general", "vyos/vyos-1x"),
        411131,
        20,
        "2018-01-01",
    ),
    # Clouds, an installer, and collectors of facts: kept by picks, with changes told in files or messages of their own.
    "stable": Drawn(
        ("openstack/nova", "openstack/ironic", "rhinstaller/anaconda", "RedHatInsights/insights-core"),
        411132,
        15,
        "2018-01-01",
    ),
    # Clouds again, and collections of modules for one: drawn after what the set before it had shown was mended.
    "clouds": Drawn(
        (
            "openstack/octavia",
            "openstack/manila",
            "ansible-collections/amazon.aws",
            "ansible-collections/community.aws",
        ),
        411133,
        15,
        "2018-01-01",
    ),
    # Services of the same cloud: drawn after a private name that one side lost had become a doubt.
    "services": Drawn(
        ("openstack/heat", "openstack/keystone", "openstack/glance", "openstack/designate"),
        411134,
        15,
        "2018-01-01",
    ),
    # More of its services: drawn after an import that one side moves and the other removes had become a doubt.
    "platforms": Drawn(
        ("openstack/trove", "openstack/magnum", "openstack/sahara", "openstack/mistral"),
        411135,
        15,
        "2018-01-01",
    ),
    # The set before it has few picks in conflict: larger ones, by the same code.
    "stores": Drawn(
        (
            "openstack/horizon",
            "openstack/swift",
            "openstack/tripleo-common",
            "openstack/kolla-ansible",
            "ansible-collections/kubernetes.core",
        ),
        411136,
        15,
        "2018-01-01",
    ),
}
PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{40})\)")
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Stages(NamedTuple):
    """The three versions of a file in conflict, as git's index has them."""

    base: bytes
    ours: bytes
    theirs: bytes


class Pick(NamedTuple):
    """A commit, its Python files that git cannot merge, and how many other files it cannot merge."""

    commit: str
    files: dict[str, Stages]
    others: int


@dataclass
class Figures:
    """The figures of a repository, and what came of each file."""

    picks: int = 0
    python: int = 0
    """Picks in which only Python files are in conflict."""
    picks_clean: int = 0
    files: int = 0
    clean: int = 0
    equal: int = 0
    order: int = 0
    """Files with the people's statements and comments in another order."""
    invalid: int = 0
    seconds: float = 0.0
    outcomes: dict[str, str] = field(default_factory=dict)
    """By commit and file: conflict, equal, order, different with the names that are undefined, or invalid."""

    def as_json(self) -> dict[str, object]:
        """Return the figures as a JSON object."""
        return vars(self) | {"seconds": round(self.seconds, 1)}


def git(clone: Path, *arguments: str) -> bytes:
    """Return the output of a git command, whatever its exit code."""
    return subprocess.run(("git", "-C", str(clone), *arguments), capture_output=True, check=False).stdout


def blob(clone: Path, name: str) -> bytes | None:
    """Return a blob's content; None if there is none."""
    found = _objects(clone).object(name, "blob")
    return found and found[1]


@cache
def _objects(clone: Path) -> GitRepository:
    return GitRepository(clone)


def picks_of(clone: Path, drawn: Drawn) -> Iterator[Pick]:
    """Yield the merges and picks that git leaves in conflict, in the order of a set's seed."""
    log = ("log", *([f"--since={drawn.since}"] if drawn.since else []))
    merges = git(clone, *log, "--merges", "--max-parents=2", "--format=%H %P", "HEAD").decode().splitlines()
    grep = "--grep=cherry picked from commit"
    picks = git(clone, *log, "--all", "--no-merges", grep, "--format=%H%x00%B%x01")
    named = [entry.strip().partition("\0") for entry in picks.decode(errors="replace").split("\x01")]
    found = [(commit, PICKED.findall(body)) for commit, _, body in named]
    taken = [line.split() for line in merges] + [[commit, *ids[-1:]] for commit, ids in found if ids]
    taken.sort()
    random.Random(drawn.seed).shuffle(taken)
    for commit, *parents in taken:
        pick = (
            merged_again(clone, commit, *parents)
            if len(parents) == 2
            else picked_again(clone, commit, *parents)
        )
        if pick.files:
            yield pick


def merged_again(clone: Path, commit: str, ours: str, theirs: str) -> Pick:
    """Return what is in conflict if git merges two commits."""
    done = subprocess.run(
        ("git", "-C", str(clone), "merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs),
        capture_output=True,
        check=False,
    )
    stages: dict[str, dict[str, str]] = {}
    for entry in done.stdout.split(b"\0")[1:] if done.returncode == 1 else ():
        info, _, name = entry.partition(b"\t")
        if name:
            _, blob_id, stage = info.decode().split()
            stages.setdefault(name.decode(errors="surrogateescape"), {})[stage] = blob_id
    files: dict[str, Stages] = {}
    others = 0
    for path, ids in stages.items():
        versions = [blob(clone, ids[stage]) for stage in "123" if stage in ids]
        if path.endswith(".py") and len(versions) == 3 and None not in versions:
            files[path] = Stages(*(version or b"" for version in versions))
        else:
            others += 1
    return Pick(commit, files, others)


def picked_again(clone: Path, commit: str, source: str) -> Pick:
    """Return what is in conflict if git picks a commit to the parent of the commit that people made of it."""
    names = git(clone, "diff-tree", "-r", "-z", "--name-only", "--no-renames", f"{source}^", source)
    files: dict[str, Stages] = {}
    others = 0
    for name in filter(None, names.decode(errors="surrogateescape").split("\0")):
        sides = [blob(clone, f"{each}:{name}") for each in (f"{source}^", f"{commit}^", source)]
        if sides[0] == sides[1] or sides[1] == sides[2]:
            continue
        base, ours, theirs = (side or b"" for side in sides)
        if None in sides or not name.endswith(".py"):
            others += None in sides or by_git(Stages(base, ours, theirs))[0]
        elif by_git(Stages(base, ours, theirs))[0]:
            files[name] = Stages(base, ours, theirs)
    return Pick(commit, files, others)


def by_git(stages: Stages) -> tuple[bool, bytes]:
    """Return whether git leaves a file in conflict, and its result."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for path, content in zip(paths, (stages.ours, stages.base, stages.theirs), strict=True):
            path.write_bytes(content)
        done = subprocess.run(
            ("git", "merge-file", "-p", "--diff3", *map(str, paths)), capture_output=True, check=False
        )
    return done.returncode != 0, done.stdout


def by_driver(stages: Stages, name: str) -> tuple[bool, bytes]:
    """Return whether the driver leaves a file in conflict, and its result."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / each for each in ("base", "ours", "theirs")]
        for path, content in zip(paths, stages, strict=True):
            path.write_bytes(content)
        is_whole = merge(Files(*paths), name)
        return not is_whole, paths[1].read_bytes()


def is_equal(stages: Stages, result: bytes, people: bytes) -> bool:
    """Return whether a result is the people's, or has all of theirs where git has conflicts."""
    if result == people:
        return True
    one, other = decoded(result), decoded(people)
    if words_and_comments(one) == words_and_comments(other):
        return True
    lines = [line.strip() for line in other.split("\n") if line.strip()]
    whole = "\n" + "\n".join(lines) + "\n"
    return all(
        "\n" + "\n".join(line.strip() for line in part.split("\n") if line.strip()) + "\n" in whole
        for part in resolved(decoded(by_git(stages)[1]), one)
    )


def is_reordered(result: bytes, people: bytes) -> bool:
    """Return whether two versions have the same statements in the same blocks, and the same comments."""
    one, other = decoded(result), decoded(people)
    return fault_of(other) is None and same_statements(one, other) and comments(one) == comments(other)


def resolved(marked: str, result: str) -> Iterator[str]:
    """Yield what stands in a result in place of each of git's conflicts, with a line above and below."""
    parts = re.split(r"^<{7} .*?^>{7} [^\n]*\n", marked, flags=re.DOTALL | re.MULTILINE)
    index = 0
    for before, after in itertools.pairwise(parts):
        start = result.find(before, index) + len(before)
        end = result.find(after, start) if after.strip() else len(result)
        if start < len(before) + index or end < 0:
            yield result
            return
        above = result[:start].rstrip("\n").rpartition("\n")[2]
        yield f"{above}\n{result[start:end]}{after.lstrip().partition(chr(10))[0]}"
        index = start


def measure(clone: Path, drawn: Drawn, judge: Path | None) -> Figures:
    """Merge the picks of a repository again."""
    figures = Figures()
    for pick in picks_of(clone, drawn):
        figures.picks += 1
        figures.python += not pick.others
        is_clean = not pick.others
        for name, stages in pick.files.items():
            figures.files += 1
            started = time.process_time()
            in_conflict, result = by_driver(stages, name)
            figures.seconds += time.process_time() - started
            label = f"{pick.commit[:12]} {name}"
            people = blob(clone, f"{pick.commit}:{name}") or b""
            outcome = "conflict"
            if in_conflict:
                is_clean = False
            else:
                figures.clean += 1
                is_valid = fault_of(result) is None
                missing = (
                    [each for each, _ in undefined_names(stages.ours, result, stages.theirs)]
                    if is_valid
                    else []
                )
                if is_valid and not missing and is_equal(stages, result, people):
                    figures.equal += 1
                    outcome = "equal"
                elif is_valid and not missing and is_reordered(result, people):
                    figures.order += 1
                    outcome = "order"
                else:
                    figures.invalid += not is_valid
                    outcome = f"different {missing or ''}".rstrip() if is_valid else "invalid"
            figures.outcomes[label] = outcome
            print(f"{outcome:10} {label}", file=sys.stderr, flush=True)
            if judge is not None:
                owner = clone.parent.name if clone.name == "repo" else clone.name
                folder = f"{owner}-{label.replace('/', '_').replace(' ', '-')}"
                keep(judge / outcome.split()[0] / folder, stages, people, result)
        figures.picks_clean += is_clean
        if figures.picks == drawn.picks:
            break
    return figures


def keep(folder: Path, stages: Stages, people: bytes, result: bytes) -> None:
    """Write all versions of a file for a person to judge."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    versions = {"base": stages.base, "ours": stages.ours, "theirs": stages.theirs, "people": people}
    for name, content in (versions | {"driver": result, "git": by_git(stages)[1]}).items():
        (folder / name).write_bytes(content)


def main(arguments: Sequence[str]) -> int:
    """Measure a set, and print and save the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(arguments)
    drawn = SETS[options.set]
    rows: dict[str, object] = {}
    for name in drawn.repositories:
        owner, _, short = name.partition("/")
        clone = options.folder / f"{owner}+{short}" / "repo"
        clone = clone if clone.exists() else options.folder / short
        rows[name] = measure(clone, drawn, options.judge).as_json()
    found = {"seed": drawn.seed, "repositories": rows}
    text = json.dumps(found, indent=2)
    print(text)
    if options.output:
        known = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
        known[options.set] = known.get(options.set, {}) | found
        options.output.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Port changes that other people wrote to drifted trees, with patchkit and with text tools, and measure the results.

usage: python scripts/bench_port.py drafts --repo CLONE [--commits N] [--seed N] [-o FILE]
       python scripts/bench_port.py backwards --repo CLONE [--commits N] [--distances N,N] [--seed N] [-o FILE]
       python scripts/bench_port.py picks --repo FOLDER [--judge DIR] [-o FILE]
       python scripts/bench_port.py branches --repo FOLDER [--judge DIR] [-o FILE]
       python scripts/bench_port.py fresh --repo FOLDER [--judge DIR] [-o FILE]
       python scripts/bench_port.py series --repo FOLDER [--judge DIR] [-o FILE]
       python scripts/bench_port.py humans --repo CLONE_OF_THE_PROJECT_WITH_PATCHES [-o FILE]

drafts: commits of sglang's main of March to June 2026 that change one to six files of the server, each as a patch of
its own on main a month before and a month later, as it is and without the commit. backwards: the same commits, each
ported to main as it was a number of commits earlier. picks: commits that people picked into the forks of ``FORKS`` from
commits whose tree differs in a file that changes; each of those is ported to the parent of the pick. branches: the
same of ``BRANCHES``, drawn after what picks had shown was mended. fresh: the same of ``FRESH``, drawn after what
branches had shown was mended, without the commits of both. series: the folders of patches in ``SERIES``; each
patch is ported to the next release, with those before it as people have them there. The histories are in
FOLDER/OWNER+NAME/repo, and each file is compared with the people's: it is equal if it has the same code and comments,
and DIR has a folder with all versions of each other clean file of ``port``. humans: a project that keeps a patch for
each release; each patch is ported to the next release that has one. Files are counted individually. A file is clean if
the tool reports no conflict in it. A clean file is wrong if it does not compile, has an undefined name, or differs from
the result of `git apply` where that applies completely. Files in which nothing can be applied are counted apart, by
what the tree lacks: the file, a class or function that changes, or a statement that changes (all lines of a hunk, and
any like them). Adds the figures to FILE as JSON, and prints them; requires what the tests require.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "scripts", REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

import compare_text_tools as compare  # noqa: E402
import msgspec  # noqa: E402
from bench_driver import PICKED, Drawn, Stages, git, keep  # noqa: E402
from support.releases import unpack  # noqa: E402

from patchkit import memory  # noqa: E402
from patchkit.change.comments import comments, words_and_comments  # noqa: E402
from patchkit.change.edits import Outcome  # noqa: E402
from patchkit.change.follow import Trees  # noqa: E402
from patchkit.change.land import NOT_MADE, land  # noqa: E402
from patchkit.change.outline import Item, NoOutlineError, outline  # noqa: E402
from patchkit.change.tokens import words  # noqa: E402
from patchkit.change.undefined import undefined_names  # noqa: E402
from patchkit.drafting import difference  # noqa: E402
from patchkit.drafting.change import Facts  # noqa: E402
from patchkit.drafting.patch import draft_patch  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.patchset import convert  # noqa: E402
from patchkit.patchset.header import OwnFile  # noqa: E402
from patchkit.plan.build import make_plan  # noqa: E402
from patchkit.plan.status import FileChange, State  # noqa: E402
from patchkit.porting.dependencies import dependencies_of  # noqa: E402
from patchkit.porting.findings import findings_of  # noqa: E402
from patchkit.tree import toml  # noqa: E402
from patchkit.tree.objects import GitRepository, GitTree  # noqa: E402
from patchkit.tree.text import decoded  # noqa: E402
from patchkit.tree.tree import OverlayTree, open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from patchkit.change.land import Landing
    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import Tree

OURS = "patchkit port"
FORM = 0.8
"""The share of equal words from which two lines are versions of one line."""
SERVER = "python/sglang/srt"
FILES = range(1, 7)
DRAFTED = "2026-03-01T00:00:00Z", "2026-06-10T00:00:00Z"
MONTH = 30 * 24 * 60 * 60
SINCE, UNTIL = "2026-05-01T00:00:00Z", "2026-08-01T00:00:00Z"  # Without a time git takes that of today.
FORKS = Drawn(
    (
        "bytedance-iaas/sglang",
        "fzyzcjy/sglang",
        "triple-mu/sglang",
        "carlosfundora/sglang-1-bit-turbo",
        "antgroup/sglang",
        "HYGON-AI/sglang-das",
        "kvcache-ai/sglang",
        "YAMY1234/sglang",
    ),
    411,
    60,
)
BRANCHES = Drawn(
    ("modal-projects/sglang", "modal-labs/sglang", "flytiger-eco/sglang-for-sail", "trevor-m/sglang"), 412, 60
)
FRESH = Drawn(
    (
        "narutolhy/sglang",
        "seedleap/sglang",
        "lifuhuang/sglang",
        "scitix/sglang",
        "guapisolo/sglang",
        "JustinTong0323/sglang",
        "HaiShaw/sglang",
        "ch-wan/sglang",
        "yushengsu-thu/sglang",
        "ishandhanani/sglang",
        "hubertlu-tw/sglang",
    ),
    413,
    60,
)
PICKED_FILES = range(1, 21)


class Step(NamedTuple):
    """A folder of patches at two commits: the last for one release, and the first that is whole for the next."""

    old: str
    last: str
    new: str
    first: str


SERIES = {
    "mattbucci/2x-R9700-RDNA4-GFX1201-sglang-inference": (
        Step("0.5.12", "8fa0b4e^", "0.5.13.post1", "192dde7"),
        Step("0.5.13.post1", "5d2fa09^", "0.5.14", "5d2fa09"),
        Step("0.5.14", "6dfa754^", "0.5.15", "6dfa754"),
    ),
    "mattbucci/2x-3090-GA102-300-A1-sglang-inference": (
        Step("0.5.13.post1", "8216abb^", "0.5.14", "98c0231"),
        Step("0.5.14", "209e511^", "0.5.15", "15950d2"),
        Step("0.5.15", "632a50b^", "0.5.16", "632a50b"),
        Step("0.5.16", "7fb3f3f^", "0.5.17", "7fb3f3f"),
    ),
}


class Moved(NamedTuple):
    """A change of one tree that people made in another: what it changes, and that tree before and after."""

    name: str
    changes: tuple[FileChange, ...]
    trees: Trees
    people: Tree


@dataclass
class Tally:
    """The results of a tool: its clean files (``landed``), the wrong ones of them, and CPU seconds."""

    landed: int = 0
    wrong: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)


@dataclass
class Figures:
    """The results of all tools for files whose sites the tree has; ``siteless`` counts the others.

    ``left`` counts patchkit's files with a conflict by its kind.
    """

    files: int = 0
    siteless: int = 0
    tools: dict[str, Tally] = field(default_factory=dict)
    lacking: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        """Return the figures as a JSON object."""
        tools = {name: vars(tally) for name, tally in self.tools.items()}
        without = {"siteless": self.siteless, "lacking": dict(self.lacking)}
        return {"files": self.files, **without, "left": dict(self.left), "tools": tools}


@dataclass(frozen=True)
class PortedChange:
    """A change ported to a tree: patchkit's result, and each tool's files; None for a file with conflicts."""

    landing: Landing
    texts: Mapping[str, Mapping[str, bytes | None]]


# ---- the sites of a change ------------------------------------------------------------------------------------------


def sites(before: bytes | None, after: bytes | None) -> set[str]:
    """Return the classes and functions of a file that a change edits or adds to."""
    try:
        one, other = (scopes_of(text or b"") for text in (before, after))
    except (NoOutlineError, UnicodeDecodeError):
        return set()
    changed = {site for site in one if one[site] != other.get(site)}
    return changed | {site.rpartition(".")[0] for site in other if site not in one}


@functools.lru_cache(maxsize=64)
def scopes_of(text: bytes) -> Mapping[str, tuple[str, ...]]:
    """Return the lines of each definition of a file as ``scopes`` does, cached: each distance needs them."""
    return scopes(outline(decoded(text)))


def scopes(root: Item) -> dict[str, tuple[str, ...]]:
    """Return the lines of each definition of a file, without those of the definitions in it."""
    found: dict[str, list[str]] = {
        "": [part.own_dedented for part in root.children if not part.is_definition]
    }
    for definition in root.definitions():
        if definition.is_function:
            found.setdefault(definition.site, []).append(definition.own_dedented)
        else:
            own = [part.own_dedented for part in definition.children if not part.is_definition]
            found.setdefault(definition.site, []).extend((definition.head, *own))
    return {
        site: tuple(line.rstrip() for text in texts for line in text.splitlines())
        for site, texts in found.items()
    }


def lacking(change: FileChange, trees: Trees) -> str:
    """Return which site of the change the tree lacks; empty if it has all of them."""
    there = trees.file(change.file)
    if change.before is None:
        return ""
    if there is None:
        return "the file"
    whole = trees.outline(there, onto=True)
    if whole is None or change.after is None:
        return ""
    if any(whole.find(site) is None for site in sites(change.before, change.after) - {""}):
        return "a class or function"
    try:
        before, after = (scopes_of(text) for text in (change.before, change.after))
    except (NoOutlineError, UnicodeDecodeError):
        return ""
    known = scopes(whole)
    changed = ((before[site], after.get(site, ()), known.get(site, ())) for site in before)
    return "a statement" if any(itertools.starmap(lacks_lines, changed)) else ""


def lacks_lines(before: Sequence[str], after: Sequence[str], current: Sequence[str]) -> bool:
    """Return whether a change deletes or replaces lines of a definition, and the tree's has none of them or like them.

    False if the tree's definition already has the replacement.
    """
    if before == after:
        return False
    one, other, lines = ([line.strip() for line in text] for text in (before, after, current))
    rows = list(map(words, set(lines)))
    for kind, start, end, first, last in difflib.SequenceMatcher(
        None, one, other, autojunk=False
    ).get_opcodes():
        removed = [row for row in map(words, one[start:end]) if len(row) > 2]
        added = [line for line in other[first:last] if len(words(line)) > 2]
        has_replacement = bool(added) and set(added) <= set(lines)
        if (
            kind in {"replace", "delete"}
            and removed
            and not has_replacement
            and not any(is_like(row, each) for row in removed for each in rows)
        ):
            return True
    return False


def is_like(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two lines differ in one word only or are similar, so that they may be versions of one line."""
    if len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) == 1:
        return True
    if 2 * min(len(one), len(other)) <= FORM * (len(one) + len(other)):
        return False
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() > FORM and matcher.ratio() > FORM


# ---- the results ----------------------------------------------------------------------------------------------------


def meaning(text: bytes) -> str:
    """Return a file's syntax tree as text, without layout and comments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.dump(ast.parse(text))


@functools.lru_cache(maxsize=64)
def fault(original: bytes, text: bytes, truth: bytes | None) -> str:
    """Return the error in a clean file; empty if there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "it", "exec", dont_inherit=True)
        result_meaning = meaning(text)
    except (SyntaxError, ValueError):
        return "does not compile"
    missing = undefined_names(original, text)
    if missing:
        return f"{missing[0][0]} is not defined"
    return (
        "is not what git apply makes of it"
        if truth not in (None, text) and result_meaning != meaning(truth or b"")
        else ""
    )


def with_tools(
    folder: Path, changes: Sequence[FileChange], onto: Mapping[str, bytes]
) -> Iterator[tuple[str, dict[str, bytes | None], float]]:
    """Yield each text tool's result for the files of a change, and its CPU seconds."""
    changed = [change for change in changes if change.after is not None]
    base = {change.file: change.before for change in changed if change.before is not None}
    bench = compare.Bench(
        folder, base, {change.file: change.after for change in changed if change.after is not None}
    )
    bench.check_out(compare.Case("", "", onto, {}, True, 0.0))
    (start,) = listed(folder, "rev-parse", "HEAD")
    for name, tool in compare.TOOLS.items():
        if shutil.which(name.split()[0]):
            compare.git(folder, "reset", "-q", "--hard", start)
            compare.git(folder, "clean", "-fdq")
            started = compare.cpu_seconds()
            yield name, tool(bench), compare.cpu_seconds() - started


@memory.collector_paused()
def count(
    figures: Figures, name: str, changes: Sequence[FileChange], trees: Trees, root: Path
) -> PortedChange:
    """Port a change to a tree with every tool, and count the results of its files."""
    started = time.process_time()
    onto = trees.onto
    landing = land({change.file: (change.before, change.after) for change in changes}, trees)
    seconds = time.process_time() - started
    places = {file.file: file.onto for file in landing.files}
    originals = {change.file: onto.read(places.get(change.file, change.file)) for change in changes}
    known = {file: text for file, text in originals.items() if text is not None}
    folder = root / "bench"
    results_by_tool = {tool: (found, took) for tool, found, took in with_tools(folder, changes, known)}
    shutil.rmtree(folder)
    truths = results_by_tool["git apply"][0] if "git apply" in results_by_tool else {}
    ours: dict[str, bytes | None] = {}
    for landed_file in landing.files:
        text = landing.contents.get(landed_file.onto, onto.read(landed_file.onto))
        ours[landed_file.file] = text if landed_file.is_whole else None
    results_by_tool[OURS] = (ours, seconds)
    landed = {file.file: file for file in landing.files}
    for change in changes:
        if not change.file.endswith(".py") or change.after is None or change.file not in landed:
            continue
        missing = lacking(change, trees)
        if missing:
            figures.siteless += 1
            figures.lacking.update([missing])
            continue
        figures.files += 1
        if not landed[change.file].is_whole:
            stuck = [edit for edit in landed[change.file].edits if edit.outcome in NOT_MADE]
            figures.left.update([landed[change.file].outcome.value])
            conflicts = [f"{name}: {change.file}: {edit.site}: {edit.reason}" for edit in stuck[:3]]
            print(*conflicts, sep="\n", file=sys.stderr)
        for tool, (found, took) in results_by_tool.items():
            tally = figures.tools.setdefault(tool, Tally())
            tally.seconds += took / len(changes)
            text = found.get(change.file)
            if text is None:
                continue
            tally.landed += 1
            wrong = fault(originals[change.file] or b"", text, truths.get(change.file))
            if wrong:
                tally.wrong += 1
                print(f"{tool}: {name}: {change.file}: {wrong}", file=sys.stderr)
                tally.examples.append(f"{name}: {change.file}: {wrong}")
    memory.forget_if_large()
    return PortedChange(landing, {tool: found for tool, (found, _) in results_by_tool.items()})


# ---- the sources ----------------------------------------------------------------------------------------------------


def listed(clone: Path, *arguments: str) -> list[str]:
    """Return the words that git prints."""
    command = ("git", "-C", str(clone), *arguments)
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def of_main(
    clone: Path, seed: int, since: str = SINCE, until: str = UNTIL
) -> Iterator[tuple[str, list[FileChange]]]:
    """Yield the commits of main to count, in random order, each with the files of the server that it changes."""
    found = listed(
        clone, "log", "--first-parent", f"--since={since}", f"--until={until}", "--format=%H", "HEAD"
    )
    random.Random(seed).shuffle(found)
    for commit in found:
        names = listed(clone, "diff-tree", "-r", "--name-only", f"{commit}^", commit, "--", SERVER)
        if len(names) in FILES:
            changes = difference.of_commit(clone, commit).files
            yield (
                commit,
                [change for change in changes if f"{SERVER.removesuffix('srt')}{change.file}" in names],
            )


def drafts(clone: Path, number: int, seed: int) -> dict[str, object]:
    """Make commits of main patches of their own, and evaluate each on main a month before and a month later."""
    times = listed(clone, "log", "--first-parent", "--format=%H %ct", "HEAD")
    line = list(zip(times[::2], map(int, times[1::2]), strict=True))
    at = {commit: place for place, (commit, _) in enumerate(line)}
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in ("before", "later", "without")}
    differing, taken, seconds = [], 0, 0.0
    with GitRepository(clone) as repository:
        for commit, inside in of_main(clone, seed, *DRAFTED):
            when = line[at[commit]][1]
            later = next((each for each, time in reversed(line[: at[commit]]) if time >= when + MONTH), None)
            before = next((each for each, time in line[at[commit] :] if time <= when - MONTH), None)
            if later is None or before is None:
                continue
            started = time.process_time()
            patch = drafted(GitTree(repository, f"{commit}^"), inside, commit)
            if patch is None:
                continue
            month = GitTree(repository, later)
            trees: dict[str, tuple[Tree, Tree | None]] = {
                "before": (GitTree(repository, before), None),
                "later": (month, month),
            }
            removed = without(month, inside)
            trees |= {"without": (OverlayTree(month, removed), month)} if removed else {}
            for name, (tree, wanted) in trees.items():
                known = "" if name == "without" else commit  # Its history has the commit.
                own = msgspec.structs.replace(patch, upstream_commit=known)
                outcome = evaluated(own, inside, tree, wanted)
                outcomes[name][outcome] += 1
                differing += [f"{commit[:12]} {name}"] if outcome == "different" else []
            seconds += time.process_time() - started
            memory.forget_if_large()
            taken += 1
            print(f"{taken} of {number} commits", file=sys.stderr)
            if taken == number:
                break
    counts = {name: dict(each) for name, each in outcomes.items()}
    return {"commits": taken, "seed": seed, **counts, "differing": differing, "seconds": seconds}


def drafted(tree: Tree, changes: Sequence[FileChange], commit: str) -> Patch | None:
    """Return the patch that ``patchkit new --from-commit`` makes of a commit; None if it changes no text."""
    draft = draft_patch(tree, changes, Facts("a-draft", commit, upstream_commit=commit))
    if not draft.files:
        return None
    file = OwnFile(toml.read(draft.files["patch.toml"]), Path("patch.toml"), draft.files)
    return convert.own([file], {}, {})["a-draft"].patch


def without(tree: Tree, changes: Sequence[FileChange]) -> dict[str, bytes | None]:
    """Return the files of a tree without a change, as git's merge takes it out; none if that conflicts."""
    found: dict[str, bytes | None] = {}
    for change in changes:
        ours = tree.read(change.file)
        if change.before is None or change.after is None or ours is None:
            if ours != change.after:
                return {}
            found[change.file] = change.before
            continue
        with tempfile.TemporaryDirectory() as scratch:
            names = [Path(scratch, name) for name in ("ours", "after", "before")]
            for name, text in zip(names, (ours, change.after, change.before), strict=True):
                name.write_bytes(text)
            merged = subprocess.run(("git", "merge-file", "-p", *names), capture_output=True, check=False)
        if merged.returncode or merged.stdout == ours:
            return {}
        found[change.file] = merged.stdout
    return found


def evaluated(patch: Patch, changes: Sequence[FileChange], tree: Tree, wanted: Tree | None) -> str:
    """Return whether a patch is right on a tree: it gives the ``wanted`` one, or else changes the lines of its diff."""
    plan = make_plan(tree, (patch,))
    if plan.patches[0].state in {State.CONFLICT, State.NOT_APPLICABLE}:
        return "conflict"
    comment = re.compile(rb"^[ \t]*# patchkit a-draft: .*(?:\n|\Z)", re.MULTILINE)
    made = {change.file: change.after and comment.sub(b"", change.after) for change in plan.changes}
    if wanted is not None:
        files = {*made, *(change.file for change in changes)}
        pairs = {file: (made[file] if file in made else tree.read(file), wanted.read(file)) for file in files}
        same = all(
            one == other or (file.endswith(".py") and one and other and meaning(one) == meaning(other))
            for file, (one, other) in pairs.items()
        )
        return "right" if same else "different"
    mine = [changed_lines(tree.read(file), text) for file, text in made.items()]
    theirs = [changed_lines(change.before, change.after) for change in changes]
    same = all(
        sum((text[side] for text in mine), Counter()) == sum((text[side] for text in theirs), Counter())
        for side in (0, 1)
    )
    return "right" if same else "different"


def changed_lines(before: bytes | None, after: bytes | None) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return the lines that a change removes, and those that it adds, without indentation."""
    old, new = (
        Counter(filter(None, map(bytes.strip, (text or b"").splitlines()))) for text in (before, after)
    )
    return old - new, new - old


def backwards(clone: Path, number: int, distances: Sequence[int], seed: int) -> dict[str, object]:
    """Port commits of main to main as it was before."""
    line = listed(clone, "log", "--first-parent", "--format=%H", "HEAD")
    at = {commit: number for number, commit in enumerate(line)}
    figures = {distance: Figures() for distance in distances}
    taken = 0
    with GitRepository(clone) as repository, tempfile.TemporaryDirectory() as scratch:
        for commit, inside in itertools.islice(of_main(clone, seed), number):
            taken += 1
            for distance in distances:
                place = at[commit] + 1 + distance
                if place >= len(line):
                    continue
                base, onto = GitTree(repository, f"{commit}^"), GitTree(repository, line[place])
                label = f"{commit[:12]} {distance} back"
                count(figures[distance], label, inside, Trees(base, onto), Path(scratch))
            print(f"{taken} of {number} commits", file=sys.stderr)
    by_distance = {str(distance): figures.as_json() for distance, figures in figures.items()}
    return {"commits": taken, "seed": seed, "distances": by_distance}


def entries(clone: Path, *options: str) -> list[list[str]]:
    """Return the commits that ``git log`` finds: name, author, date, title and message."""
    log = git(clone, "log", "--no-merges", "--format=%H%x00%an%x00%at%x00%s%x00%b%x01", *options)
    found = log.decode(errors="replace").split("\x01")
    return [entry.strip().split("\0") for entry in found if entry.strip()]


def picked(clone: Path, seed: int) -> list[tuple[str, str]]:
    """Return the commits that are not in main with the commit that each was picked from, in the order of a seed.

    The message names that commit, or one commit of main has the same author and title, and its date or a number.
    """
    main: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for commit, author, date, title, _ in entries(clone, "main"):
        main.setdefault((author, title), []).append((commit, date))
    known = set(listed(clone, "rev-list", "--all"))
    found: list[tuple[str, str]] = []
    for commit, author, date, title, body in entries(clone, "--all", "--not", "main"):
        named = [each for each in PICKED.findall(body) if each in known]
        like = main.get((author, title), [])
        if named:
            found.append((commit, named[-1]))
        elif len(like) == 1 and (like[0][1] == date or re.search(r"\(#\d+\)$", title)):
            found.append((commit, like[0][0]))
    found.sort()
    random.Random(seed).shuffle(found)
    return found


def picks_of(clone: Path, drawn: Drawn, taken: set[str]) -> Iterator[Moved]:
    """Yield picks of a repository; each commit counts once, and is added to those ``taken``."""
    number = 0
    with GitRepository(clone) as repository:
        for commit, source in picked(clone, drawn.seed):
            ends = [repository.object(f"{each}^") for each in (commit, source)]
            if source in taken or None in ends or number == drawn.picks:
                continue
            changes = tuple(difference.of_commit(clone, source).files)
            base, onto, people = (GitTree(repository, each) for each in (f"{source}^", f"{commit}^", commit))
            names = [change.file for change in changes if change.file.endswith(".py")]
            has_drifted = any(base.read(name) != onto.read(name) for name in names)
            is_made = any(people.read(name) != onto.read(name) for name in names)
            if len(names) in PICKED_FILES and has_drifted and is_made:
                taken.add(source)
                number += 1
                yield Moved(commit[:12], changes, Trees(base, onto), people)


def series_of(clone: Path, steps: Sequence[Step], root: Path) -> Iterator[Moved]:
    """Yield each patch of a folder that people kept for the next release, on what they have before it there."""
    for step in steps:
        for version in (step.old, step.new):
            if not (root / version).exists():
                unpack(version, root / version)
        old, new = open_tree(root / step.old), open_tree(root / step.new)
        theirs = texts_in(clone, step.first)
        made: dict[str, bytes | None] = {}
        given: dict[str, tuple[Tree, tuple[FileChange, ...]]] = {}
        for name, text in texts_in(clone, step.last).items():
            before = OverlayTree(old, dict(made))
            given[name] = before, applied(before, [text])[0]
            made |= {change.file: change.after for change in given[name][1]}
        there: dict[str, bytes | None] = {}
        for name, text in theirs.items():
            onto = OverlayTree(new, dict(there))
            there |= {change.file: change.after for change in applied(onto, [text])[0]}
            base, changes = given.get(name, (old, ()))
            if changes:
                yield Moved(f"{step.new} {name}", changes, Trees(base, onto), OverlayTree(new, dict(there)))


def texts_in(clone: Path, commit: str) -> dict[str, str]:
    """Return the patches of a folder in order, by name."""
    names = listed(clone, "ls-tree", "--name-only", commit, "patches/")
    return {
        Path(name).stem: git(clone, "show", f"{commit}:{name}").decode()
        for name in names
        if name.endswith(".patch")
    }


def beside_people(name: str, moved: Iterator[Moved], judge: Path | None) -> dict[str, Any]:
    """Port changes with every tool, and compare each file with the people's.

    A text tool gets each file of the tree under the name that it has in the change. ``broken`` are clean files that do
    not compile or have an undefined name, and ``said`` those other clean ones of which ``port`` reports anything.
    """
    tools: dict[str, Counter[str]] = {}
    different: list[dict[str, object]] = []
    names: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        for change in moved:
            names.add(change.name)
            onto = change.trees.onto
            sources = {change.file: (change.before, change.after) for change in change.changes}
            started = time.process_time()
            landing = land(sources, change.trees)
            findings = (
                *findings_of(onto, landing.contents, (), change.trees.base, sources),
                *dependencies_of(onto, sources, landing),
            )
            seconds = time.process_time() - started
            places = {file.file: file for file in landing.files if file.file in sources}
            known = {file: onto.read(landed.onto) for file, landed in places.items()}
            made = dict(with_texts(Path(scratch, "bench"), change.changes, known))
            made[OURS] = {
                file: landing.contents.get(landed.onto, known[file]) if landed.is_whole else None
                for file, landed in places.items()
            }
            for file, landed in places.items():
                before, after = sources[file]
                if not file.endswith(".py") or after is None:
                    continue
                wanted, original = change.people.read(landed.onto), known[file] or b""
                outcome = ""
                for tool, texts in made.items():
                    outcome = outcome_of(original, texts.get(file), wanted)
                    tools.setdefault(tool, Counter())[outcome] += 1
                print(f"{outcome:10} {change.name} {landed.onto} {seconds:.1f}", file=sys.stderr, flush=True)
                if outcome not in {"different", "broken"}:
                    continue
                said = [f"{one.rule} {one.message}" for one in findings if one.file == landed.onto]
                said += [
                    f"{edit.site}: {edit.reason}" for edit in landed.edits if edit.outcome is Outcome.CHANGED
                ]
                label = f"{change.name} {landed.onto}"
                different.append({"file": label, "said": bool(said)})
                if judge is not None:
                    folder = judge / f"{name}-{label}".replace("/", "_").replace(" ", "-")
                    keep(
                        folder, Stages(before or b"", original, after), wanted or b"", made[OURS][file] or b""
                    )
                    (folder / "said").write_text("\n".join((*said, *landed.notes)))
            memory.forget_if_large()
    return {"changes": len(names), "tools": tools, "different": different}


def with_texts(
    folder: Path, changes: Sequence[FileChange], known: Mapping[str, bytes | None]
) -> Iterator[tuple[str, Mapping[str, bytes | None]]]:
    """Yield each text tool's files."""
    for tool, found, _ in with_tools(
        folder, changes, {file: text for file, text in known.items() if text is not None}
    ):
        yield tool, found
    shutil.rmtree(folder)


def outcome_of(original: bytes, text: bytes | None, wanted: bytes | None) -> str:
    """Return whether a file is the people's: equal, different, broken, or in conflict."""
    if text is None:
        return "conflict"
    if text == wanted or fault(original, text, None):
        return "equal" if text == wanted else "broken"
    one, other = decoded(text), decoded(wanted or b"")
    if words_and_comments(one) == words_and_comments(other):
        return "equal"
    same = wanted is not None and comments(one) == comments(other) and meaning(text) == meaning(wanted)
    return "equal" if same else "different"


def picks(
    folder: Path, judge: Path | None, drawn: Drawn = FORKS, earlier: Sequence[Drawn] = ()
) -> dict[str, object]:
    """Port the commits that people picked in forks to the parents of the picks, and compare with the picks.

    The commits that ``earlier`` sets have drawn are left out.
    """
    taken: set[str] = set()
    for other in earlier:
        for name in other.repositories:
            for _ in picks_of(history(folder, name), other, taken):
                pass
    rows = {
        name: beside_people(name, picks_of(history(folder, name), drawn, taken), judge)
        for name in drawn.repositories
    }
    return {"seed": drawn.seed, "repositories": rows}


def series(folder: Path, judge: Path | None) -> dict[str, object]:
    """Port the patches of folders to the next release, and compare with the people's."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = {
            name: beside_people(name, series_of(history(folder, name), steps, Path(scratch)), judge)
            for name, steps in SERIES.items()
        }
    return {"repositories": rows}


def history(folder: Path, name: str) -> Path:
    """Return the place of a repository's history."""
    return folder / name.replace("/", "+") / "repo"


def humans(clone: Path) -> dict[str, object]:
    """Port each release's patch to the next release, and compare with the project's patch for that release."""
    patches = patches_of(clone)
    steps = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for (old, texts), (new, newer) in itertools.pairwise(patches):
            for version in (old, new):
                if not (root / version).exists():
                    unpack(version, root / version)
            base, onto = open_tree(root / old), open_tree(root / new)
            changes, unfit = applied(base, texts)
            theirs, _ = applied(onto, newer)
            wanted = {text.file: text.after for text in theirs}
            figures = Figures()
            port = count(figures, f"{old} to {new}", changes, Trees(base, onto), root)
            kept: dict[str, Counter[str]] = {}
            differing: list[str] = []
            for file in port.landing.files:
                change = next(one for one in changes if one.file == file.file)
                original, truth = onto.read(file.onto), wanted.get(file.onto)
                made = {tool: texts.get(file.file) or original for tool, texts in port.texts.items()}
                # For a file with conflicts, the result with --keep-going, which makes the other edits.
                made[OURS] = port.landing.contents.get(file.onto, original)
                for tool, text in made.items():
                    for site, outcome in compared(change, original, text, truth):
                        kept.setdefault(tool, Counter())[outcome] += 1
                        if outcome == "different":
                            differing.append(f"{tool}: {file.onto}: {site}")
            edits = {tool: dict(outcomes) for tool, outcomes in kept.items()}
            step = {"from": old, "to": new, "unfit": unfit, "edits": edits, "differing": differing}
            steps.append({**step, **figures.as_json()})
            print(f"{old} to {new}", file=sys.stderr)
    return {"steps": steps}


def applied(tree: Tree, texts: Sequence[str]) -> tuple[tuple[FileChange, ...], int]:
    """Return what diffs change in a tree, and the number of files that do not fit it: some are for a later build."""
    contents: dict[str, bytes | None] = {}
    unfit = 0
    for part in (part for text in texts for part in re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)):
        if not part.startswith("diff --git "):
            continue
        try:
            given_files = difference.of_diffs(OverlayTree(tree, dict(contents)), (part,)).files
        except PatchkitError:
            unfit += 1
            continue
        contents |= {file.file: file.after for file in given_files}
    changed = ((file, tree.read(file), after) for file, after in contents.items())
    return tuple(FileChange(*each) for each in changed if each[1] != each[2]), unfit


def patches_of(clone: Path) -> list[tuple[str, list[str]]]:
    """Return the releases for which the project has patches, each with their texts, oldest first."""
    names = listed(clone, "ls-tree", "-r", "--name-only", "HEAD", "docker/patch")
    # The patch with the shortest name is the base of the others.
    names.sort(key=lambda name: (name.rpartition("/")[0], len(name)))
    found: dict[str, list[str]] = {}
    for name in names:
        version = re.fullmatch(r"docker/patch/v(\d[\w.]*)/sglang[\w-]*\.patch", name)
        if version:
            text = subprocess.run(
                ("git", "-C", str(clone), "show", f"HEAD:{name}"), capture_output=True, check=True
            ).stdout
            found.setdefault(version[1], []).append(text.decode())

    def order(version: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", version)]

    return sorted(found.items(), key=lambda each: order(each[0]))


def compared(
    change: FileChange, original: bytes | None, made: bytes | None, wanted: bytes | None
) -> Iterator[tuple[str, str]]:
    """Yield each class and function that a patch changes, with its result compared with the one that people wrote.

    If they made the same change: ``equal``, ``different``, or ``missing`` if it was not made. ``theirs`` if they
    changed or dropped it. In a file that is no longer valid Python, everything is different.
    """
    try:
        versions = [
            scopes_of(text or b"") for text in (change.before, change.after, original, wanted or original)
        ]
    except (NoOutlineError, UnicodeDecodeError):
        return
    before, after, current, theirs = versions
    try:
        ours: Mapping[str, tuple[str, ...]] = scopes_of(made or b"")
    except (NoOutlineError, UnicodeDecodeError):
        ours = dict.fromkeys((*before, *after), ("is no Python",))
    for site in sorted(before.keys() | after.keys()):
        edit = edited(before.get(site, ()), after.get(site, ()))
        if not edit:
            continue
        if edited(current.get(site, ()), theirs.get(site, ())) != edit:
            yield site, "theirs"
        elif ours.get(site, ()) == current.get(site, ()):
            yield site, "missing"
        else:
            yield site, "equal" if code(ours.get(site, ())) == code(theirs.get(site, ())) else "different"


def edited(before: Sequence[str], after: Sequence[str]) -> Counter[str]:
    """Return the added and removed lines, prefixed with + or -."""
    one, other = (Counter(line for line in lines if line.strip()) for lines in (before, after))
    return Counter({f"+{line}": n for line, n in (other - one).items()}) + Counter(
        {f"-{line}": n for line, n in (one - other).items()}
    )


def code(lines: Sequence[str]) -> list[str]:
    """Return a definition's statements as sorted syntax trees; its sorted lines if these are not valid Python alone."""
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return sorted(line.strip() for line in lines if line.strip())
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.ImportFrom):
            node.names.sort(key=ast.dump)
    return sorted(map(ast.dump, body))


def main(arguments: Sequence[str]) -> int:
    """Measure one source, and print and save the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "source", choices=("drafts", "backwards", "picks", "branches", "fresh", "series", "humans")
    )
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--distances", default="50,150,400,1000")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--judge", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.source == "drafts":
            found = drafts(options.repo, options.commits, options.seed)
        elif options.source == "backwards":
            distances = [int(each) for each in options.distances.split(",")]
            found = backwards(options.repo, options.commits, distances, options.seed)
        else:
            branches = functools.partial(picks, drawn=BRANCHES)
            fresh = functools.partial(picks, drawn=FRESH, earlier=(FORKS, BRANCHES))
            beside: Mapping[str, Callable[[Path, Path | None], dict[str, object]]]
            beside = {"picks": picks, "branches": branches, "fresh": fresh, "series": series}
            found = (
                beside[options.source](options.repo, options.judge)
                if options.source in beside
                else humans(options.repo)
            )
    except PatchkitError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    text = json.dumps(found, indent=2)
    print(text)
    if options.output:
        known = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
        known[options.source] = found
        options.output.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

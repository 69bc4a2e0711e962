#!/usr/bin/env python3
"""Move a folder of patches from one release to another with one command, and apply what it writes with git am.

usage: python scripts/move_series.py --repo CLONE [--from RELEASE] [--onto RELEASE] [--count N] [--seed N] [--keep DIR]

The folder is drawn from the history of CLONE, a clone of sglang: commits of main that the second release does not have,
that change at most eight files, and that git cherry-pick makes on the first release without a conflict. Each release is
its wheel, in the files of the commit of main that is most like it. Prints how many patches `patchkit port` moves, what
git am and git rebase make of the same folder, and what the port took; requires what the tests require.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

from support.releases import wheel  # noqa: E402

from patchkit.tree.git import object_id  # noqa: E402

PACKAGE = "python/sglang"
SINCE = "2026-05-01T00:00:00Z"
FILES = range(1, 9)
LINES = 400
PERSON = ("-c", "user.name=A Maintainer", "-c", "user.email=maintainer@example.org")


def git(folder: Path, *words: str, check: bool = True, **environment: str) -> str:
    """Return git's output, without its errors."""
    done = subprocess.run(
        ("git", *PERSON, "-C", str(folder), *words),
        capture_output=True,
        check=check,
        env={**os.environ, **environment},
    )
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def unpacked(version: str, folder: Path) -> dict[str, str]:
    """Unpack a release as ``python/sglang`` in a folder, and return git's id of each file."""
    with zipfile.ZipFile(wheel(version)) as archive:
        names = [name for name in archive.namelist() if name.startswith("sglang/") and not name.endswith("/")]
        archive.extractall(folder / "python", names)
        return {f"python/{name}": object_id(archive.read(name)) for name in names if name.endswith(".py")}


def nearest(clone: Path, commits: list[str], files: dict[str, str]) -> int:
    """Return the position of the commit that has the most of a release's files."""

    def score(at: int) -> int:
        listed = git(clone, "ls-tree", "-r", commits[at], "--", PACKAGE).split("\n")
        there = {name: words.split()[2] for words, _, name in (line.partition("\t") for line in listed)}
        return sum(there.get(name) == blob for name, blob in files.items())

    low, high = 0, len(commits) - 1
    while high - low > 2:
        third = (high - low) // 3
        if score(low + third) < score(high - third):
            low += third
        else:
            high -= third
    return max(range(low, high + 1), key=score)


def committed(home: Path, version: str, near: str) -> None:
    """Commit a release in the repository at ``home``, as a tag."""
    with tempfile.TemporaryDirectory() as folder:
        unpacked(version, Path(folder))
        git(home, "read-tree", near)
        git(home, "rm", "-rq", "--cached", "--", PACKAGE)
        git(home, "add", "--force", "--", PACKAGE, GIT_WORK_TREE=folder, GIT_DIR=str(home / ".git"))
        tree = git(home, "write-tree")
    commit = git(home, "commit-tree", tree, "-m", f"Release {version}")
    git(home, "tag", f"v{version}", commit)


def drawn(home: Path, clone: Path, commits: list[str], given: argparse.Namespace) -> int:
    """Pick commits onto a release, and return how many were tried."""
    count, base = given.count, given.base
    shuffled = random.Random(given.seed).sample(commits, len(commits))
    chosen = sorted(shuffled[: count * 16], key=commits.index)
    git(home, "switch", "-q", "--detach", "--force", f"v{base}")
    tried = made = 0
    for commit in chosen:
        changed = [
            line.split("\t") for line in git(clone, "show", "--numstat", "--format=", commit).split("\n")
        ]
        names = [each[-1] for each in changed]
        lines = sum(int(number) for each in changed for number in each[:-1] if number.isdecimal())
        is_code = any(name.startswith(f"{PACKAGE}/srt/") and name.endswith(".py") for name in names)
        if len(names) not in FILES or lines > LINES or not is_code:
            continue
        tried += 1
        git(home, "cherry-pick", commit, check=False)
        if git(home, "status", "--porcelain", "--untracked-files=no"):
            git(home, "cherry-pick", "--abort", check=False)
            git(home, "reset", "-q", "--hard")
            continue
        made = int(git(home, "rev-list", "--count", f"v{base}..HEAD"))
        if made == count:
            break
    git(home, "branch", "-f", "ours", "HEAD")
    return tried


def am(home: Path, release: str, files: list[str], *options: str) -> int:
    """Return how many mails git am applies to a release, skipping those that do not apply."""
    git(home, "switch", "-q", "--detach", "--force", f"v{release}")
    git(home, "am", "-q", *options, *files, check=False)
    while (home / ".git" / "rebase-apply").exists():
        git(home, "reset", "-q", "--hard")
        git(home, "am", "-q", "--skip", check=False)
    return int(git(home, "rev-list", "--count", f"v{release}..HEAD"))


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", required=True, type=Path)
    parser.add_argument("--from", dest="base", default="0.5.12.post1")
    parser.add_argument("--onto", default="0.5.14")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given, given.keep or Path(folder))


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Draw a folder of patches, move it, and print what came out."""
    home, patches, moved = folder / "home", folder / "patches", folder / "moved"
    clone = given.repo.resolve()
    home.mkdir(parents=True)
    git(home, "init", "-q")
    (home / ".git" / "objects" / "info" / "alternates").write_text(
        f"{git(clone, 'rev-parse', '--path-format=absolute', '--git-path', 'objects')}\n"
    )
    commits = git(clone, "rev-list", "--first-parent", "--reverse", f"--since={SINCE}", "HEAD").split()
    places = {}
    for version in (given.base, given.onto):
        with tempfile.TemporaryDirectory() as place:
            places[version] = nearest(clone, commits, unpacked(version, Path(place)))
        committed(home, version, commits[places[version]])
    later = commits[max(places.values()) + 1 :]
    tried = drawn(home, clone, later, given)
    git(home, "format-patch", "-q", "-o", str(patches), f"v{given.base}..ours")
    files = sorted(map(str, patches.iterdir()))
    print(f"{len(files)} patches on {given.base}, of {tried} commits tried", flush=True)
    plain = am(home, given.onto, files)
    threeway = am(home, given.onto, files, "-3")
    words = ("port", str(patches), "--from", given.base, "--onto", f"v{given.onto}", "--repo", str(home))
    done = subprocess.run(
        (sys.executable, "-m", "patchkit", *words, "-o", str(moved), "--keep-going", "--json"),
        capture_output=True,
        check=False,
        cwd=REPOSITORY,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr.decode())
    (tree,) = json.loads(done.stdout)["trees"]
    (folder / "answer.json").write_bytes(done.stdout)
    changes = tree["changes"]
    written = sorted(map(str, moved.iterdir())) if moved.is_dir() else []
    landed = [change for change in changes if not change["skipped"]]
    clean = [each for each in landed if not each["findings"] and not each["left"] and not _unsure(each)]
    print(f"patchkit port: {len(landed)} moved, {len(clean)} of them without a note; {len(written)} written")
    print(f"git am applies {am(home, given.onto, written)} of these to {given.onto}")
    print(f"git am: {plain} of {len(files)}; git am -3: {threeway}")
    for change in changes:
        if change["skipped"]:
            needs = f"; needs {', '.join(change['needs'])}" if change["needs"] else ""
            print(f"skipped: {change['title']}{needs}")
    print(f"exit {done.returncode}; peak CPU of all children {used.ru_utime + used.ru_stime:.0f} s")


def _unsure(change: dict[str, list[dict[str, str]]]) -> bool:
    every = (*change["files"], *change["outside"])
    return any(each["outcome"] in {"changed", "conflict", "no-site", "unmet"} for each in every)


if __name__ == "__main__":
    main()

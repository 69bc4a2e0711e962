#!/usr/bin/env python3
"""Compare patchkit with text tools that apply the same change to the same drifted trees.

usage: python scripts/compare_text_tools.py [--repo CLONE --commits N] [-o FILE]

The change is patchkit's result on one release, as one diff per file. The trees are other releases, and the same
release with typical changes of forks: lines inserted into functions, renamed locals, moved methods, another
formatter. With --repo they are also commits of a clone of sglang's repository. A file is clean if the tool reports
no conflict; a clean file is correct if it equals patchkit's plan for that tree, apart from comments, layout and the
order of imports, and wrong otherwise. The plan itself is checked: each patch must be applied in it, and the file
must compile. Prints the figures as JSON; requires what the tests require.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

from support import drift  # noqa: E402
from support.releases import unpack  # noqa: E402

from patchkit.patchset import load  # noqa: E402
from patchkit.plan.build import make_plan  # noqa: E402
from patchkit.plan.status import State  # noqa: E402
from patchkit.tree.objects import GitRepository, GitTree  # noqa: E402
from patchkit.tree.tree import OverlayTree, open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import Tree

BASE = "0.5.12.post1"
RELEASES = ("0.5.11", "0.5.12")
SIBLING = "0.5.12"
"""A form of drift that several trees share, like the branches of one fork."""
SETTINGS = (
    "user.name=A Person",
    "user.email=person@example.com",
    "rerere.enabled=true",
    "merge.conflictStyle=merge",
)
GIT = ("git", *(word for setting in SETTINGS for word in ("-c", setting)))


@dataclass
class Tally:
    """The results of a tool: clean files, the correct and wrong ones of them, and those with a conflict (``left``)."""

    clean: int = 0
    correct: int = 0
    wrong: int = 0
    left: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A drifted tree: its files, the changed ones, and patchkit's plan for each."""

    name: str
    kind: str
    files: Mapping[str, bytes]
    planned: Mapping[str, bytes]
    whole: bool
    seconds: float


def git(folder: Path, *arguments: str, code: bool = True) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder with fixed settings; with ``code``, it must exit with this code."""
    return subprocess.run((*GIT, "-C", str(folder), *arguments), capture_output=True, check=code)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its ended children."""
    return sum(os.times()[:4])


# ---- drift --------------------------------------------------------------------------------------------------------


def with_lines(code: bytes) -> bytes:
    """Insert a line at the start of every function, as a fork that logs or counts does."""
    lines = code.splitlines(keepends=True)
    at = []
    for function in drift.functions(ast.parse(code)):
        body = function.body[1:] if drift.is_docstring(function.body[0]) else function.body
        if body and body[0].lineno > function.lineno:
            decorated = getattr(body[0], "decorator_list", [])
            at.append((min([body[0].lineno, *(each.lineno for each in decorated)]), body[0].col_offset))
    for line, column in sorted(at, reverse=True):
        lines.insert(line - 1, b" " * column + b"fork_probe = None\n")
    return b"".join(lines)


def with_locals_renamed(code: bytes) -> bytes:
    """Rename the locals of functions without nested functions, except those in f-strings."""
    module = ast.parse(code)
    lines = code.splitlines(keepends=True)
    places: set[tuple[int, int, str]] = set()
    inner = (*drift.Function.__args__, ast.Lambda, ast.ClassDef, ast.comprehension, ast.Global, ast.Nonlocal)
    for function in drift.functions(module):
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        if any(isinstance(node, inner) for node in nodes):
            continue
        arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
        formatted = {
            name.id
            for node in nodes
            if isinstance(node, ast.JoinedStr)
            for name in ast.walk(node)
            if isinstance(name, ast.Name)
        }
        names = [node for node in nodes if isinstance(node, ast.Name)]
        stored = {name.id for name in names if isinstance(name.ctx, ast.Store)} - arguments - formatted
        places |= {(name.lineno, name.col_offset, name.id) for name in names if name.id in stored}
    for line, column, _ in sorted(places, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + b"fork_" + text[column:]
    return b"".join(lines)


def with_other_format(code: bytes) -> bytes:
    """Format the file with longer lines and other quotes."""
    return drift.formatted(code, 119, "single")


def with_methods_moved(code: bytes) -> bytes:
    """Move the last method of every class to the front of its methods."""
    module = ast.parse(code)
    lines = code.splitlines(keepends=True)
    moves = []
    for cls in module.body:
        methods = [each for each in getattr(cls, "body", []) if isinstance(each, drift.Function)]
        if isinstance(cls, ast.ClassDef) and len(methods) > 2 and cls.body[-1] is methods[-1]:
            first, last = (
                min([m.lineno, *(d.lineno for d in m.decorator_list)]) for m in (methods[0], methods[-1])
            )
            moves.append((first - 1, last - 1, methods[-1].end_lineno or last))
    for first, start, end in reversed(moves):
        moved = [*lines[start:end], b"\n"]
        if not moved[-2].endswith(b"\n"):
            moved[-2] += b"\n"
        lines[start:end] = []
        lines[first:first] = moved
    return b"".join(lines)


FORMS: Mapping[str, Callable[[bytes], bytes]] = {
    "lines put into every function": with_lines,
    "locals renamed": with_locals_renamed,
    "another formatter": with_other_format,
    "methods moved": with_methods_moved,
}


# ---- equality -----------------------------------------------------------------------------------------------------


def meaning(code: bytes) -> tuple[Counter[str], str] | None:
    """Return a file without comments, layout and the order of imports; None if it is not Python."""
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    rest = [item for item in module.body if not isinstance(item, ast.Import | ast.ImportFrom)]
    return drift.imports(module), ast.dump(ast.Module(rest, []))


# ---- the trees ----------------------------------------------------------------------------------------------------


def case(name: str, kind: str, tree: Tree, patches: Sequence[Patch], files: Sequence[str]) -> Case:
    """Plan the patches for a tree, check the plan, and keep the changed files."""
    started = cpu_seconds()
    plan = make_plan(tree, patches)
    seconds = cpu_seconds() - started
    after = {change.file: change.after for change in plan.changes}
    texts = {file: tree.read(file) for file in files}
    return Case(
        name,
        kind,
        {file: text for file, text in texts.items() if text is not None},
        {file: text for file, text in after.items() if text is not None},
        all(status.state is not State.CONFLICT for status in plan.patches),
        seconds,
    )


def cases(root: Path, patches: Sequence[Patch], files: Sequence[str]) -> Iterator[Case]:
    """Yield the releases, and two of them in each form."""
    for version in RELEASES:
        unpack(version, root / version)
        yield case(version, "another release", open_tree(root / version), patches, files)
    for version in (BASE, SIBLING):
        tree = open_tree(root / version)
        for name, form in FORMS.items():
            changed: dict[str, bytes | None] = {}
            for file in files:
                text = tree.read(file)
                if text is not None:
                    with suppress(SyntaxError):
                        changed[file] = form(text)
            forked = OverlayTree(tree, changed)
            yield case(f"{version}, {name}", "a release as a fork changes it", forked, patches, files)


def commits(clone: Path, count: int, patches: Sequence[Patch], files: Sequence[str]) -> Iterator[Case]:
    """Yield commits of a clone, evenly spread between the releases that lack the change and the one that has it."""
    listed = (
        git(
            clone,
            "log",
            "--first-parent",
            "--format=%H",
            "v0.5.11..v0.5.13",
            "--",
            *(f"python/sglang/{file}" for file in files),
        )
        .stdout.decode()
        .split()
    )
    with GitRepository(clone) as repository:
        for commit in listed[:: max(1, len(listed) // count)][:count]:
            yield case(commit[:12], "a commit", GitTree(repository, commit), patches, files)


# ---- the tools ----------------------------------------------------------------------------------------------------


class Bench:
    """A repository with the base, the changed base, and one drifted tree after the other."""

    def __init__(self, folder: Path, base: Mapping[str, bytes], changed: Mapping[str, bytes]) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "base")
        self.write(base)
        self.commit("The release")
        git(folder, "checkout", "-q", "-b", "change")
        self.write(changed)
        self.commit("The change")
        self.diffs = {
            file: git(folder, "diff", "--full-index", "base", "change", "--", file).stdout for file in changed
        }
        mail = ("format-patch", "-1", "--full-index", "--stdout", "change", "--")
        self.mails = {file: git(folder, *mail, file).stdout for file in changed}

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files of the work tree."""
        for file, text in files.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)

    def commit(self, why: str) -> None:
        """Commit the work tree."""
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", why)

    def check_out(self, case: Case) -> None:
        """Check out the base and replace it by the drifted tree, in one commit."""
        git(self.folder, "checkout", "-q", "-f", "-B", "fork", "base")
        git(self.folder, "clean", "-fdq")
        for file in git(self.folder, "ls-files").stdout.decode().split():
            (self.folder / file).unlink()
        self.write(case.files)
        self.commit("A fork")

    def texts(self) -> dict[str, bytes]:
        """Return the changed files' current content."""
        return {file: path.read_bytes() for file in self.diffs if (path := self.folder / file).is_file()}

    def reset(self) -> None:
        """Restore the drifted tree."""
        git(self.folder, "reset", "-q", "--hard", "fork")
        git(self.folder, "clean", "-fdq")


def each_file(
    bench: Bench, *command: str, given: Mapping[str, bytes] | None = None
) -> dict[str, bytes | None]:
    """Pass each file's diff, or ``given``, to a command; return None for a file on which the command fails.

    ``FILE`` in the command is replaced by the file's name.
    """
    found: dict[str, bytes | None] = {}
    for file, text in (given or bench.diffs).items():
        words = [file if word == "FILE" else word for word in command]
        done = subprocess.run(words, cwd=bench.folder, input=text, capture_output=True, check=False)
        path = bench.folder / file
        found[file] = path.read_bytes() if done.returncode == 0 and path.is_file() else None
    return found


def git_apply(bench: Bench) -> dict[str, bytes | None]:
    """Apply each diff exactly."""
    return each_file(bench, "git", "apply", "-")


def git_apply_3(bench: Bench) -> dict[str, bytes | None]:
    """Apply each diff, or merge with the file that it was made from."""
    return each_file(bench, "git", "apply", "-3", "-")


def patch(bench: Bench) -> dict[str, bytes | None]:
    """Apply each diff with fuzz."""
    return each_file(bench, "patch", "-p1", "-F3", "--batch", "--no-backup-if-mismatch", "-r", "-")


def git_am_3(bench: Bench) -> dict[str, bytes | None]:
    """Apply one mail per file, or merge with the file that it was made from."""
    found: dict[str, bytes | None] = {}
    for file, mail in bench.mails.items():
        found |= each_file(bench, *GIT, "am", "-q", "-3", given={file: mail})
        if found[file] is None:
            git(bench.folder, "am", "--abort", code=False)
    return found


def wiggle(bench: Bench) -> dict[str, bytes | None]:
    """Apply each diff, word by word where a line does not match."""
    return each_file(bench, "wiggle", "--merge", "--replace", "FILE", "-")


def cherry_pick(bench: Bench) -> dict[str, bytes | None]:
    """Cherry-pick the change, with rerere."""
    git(bench.folder, "cherry-pick", "change", code=False)
    stuck = git(bench.folder, "diff", "--name-only", "--diff-filter=U").stdout.decode().split()
    found = bench.texts()
    return {file: None if file in stuck else found.get(file) for file in bench.diffs}


def with_rerere(bench: Bench) -> dict[str, bytes | None]:
    """Cherry-pick the change, with rerere's resolutions from the trees before."""
    found = cherry_pick(bench)
    unresolved = git(bench.folder, "rerere", "remaining").stdout.decode().split()
    return {
        file: text if text is not None else (bench.texts().get(file) if file not in unresolved else None)
        for file, text in found.items()
    }


def end_pick(bench: Bench, case: Case | None) -> None:
    """End a cherry-pick; with a case, resolve its conflicts by patchkit's plan, which rerere records."""
    if case is not None:
        bench.write({file: text for file, text in case.planned.items() if file in bench.diffs})
        git(bench.folder, "add", "-A")
        git(bench.folder, "rerere")
        git(bench.folder, "commit", "-q", "--allow-empty", "-m", "Resolved", code=False)
    git(bench.folder, "cherry-pick", "--abort", code=False)
    bench.reset()


TOOLS: Mapping[str, Callable[[Bench], dict[str, bytes | None]]] = {
    "git apply": git_apply,
    "git apply -3": git_apply_3,
    "git am -3": git_am_3,
    "patch -F3": patch,
    "wiggle": wiggle,
}
"""The tools by their command, which may not be installed."""


def count(tally: Tally, case: Case, found: Mapping[str, bytes | None]) -> None:
    """Compare a tool's result with patchkit's plan."""
    for file, wanted in case.planned.items():
        text = found.get(file)
        if text is None:
            tally.left += 1
            continue
        tally.clean += 1
        if meaning(text) == meaning(wanted):
            tally.correct += 1
        else:
            tally.wrong += 1
            tally.examples.append(f"{case.name}: {file}")


def measured(
    found: Sequence[Case], base: Mapping[str, bytes], changed: Mapping[str, bytes], root: Path
) -> dict[str, object]:
    """Return the results of each tool over all trees."""
    installed = [name for name in TOOLS if shutil.which(name.split()[0])]
    names = [*installed, "git cherry-pick", "git rerere", "patchkit"]
    tallies = {name: Tally() for name in names}
    for name in names[:-1]:
        folder = root / name.replace(" ", "-")
        bench = Bench(folder, base, changed)
        for case in found:
            bench.check_out(case)
            started = cpu_seconds()
            if name in TOOLS:
                result = TOOLS[name](bench)
            else:
                result = (with_rerere if name == "git rerere" else cherry_pick)(bench)
            tallies[name].seconds += cpu_seconds() - started
            count(tallies[name], case, result)
            if name in TOOLS:
                bench.reset()
            else:
                # Resolutions of a tree's conflicts are only available to later trees.
                end_pick(bench, case if name == "git rerere" else None)
        shutil.rmtree(folder)
    own = tallies["patchkit"]
    for case in found:
        own.seconds += case.seconds
        for text in case.planned.values():
            is_correct = case.whole and meaning(text) is not None
            own.clean += 1
            own.correct += is_correct
            own.wrong += not is_correct
    return {
        "trees": [{"name": each.name, "kind": each.kind, "files": len(each.planned)} for each in found],
        "files": sum(len(each.planned) for each in found),
        "tools": [
            {
                "tool": name,
                "clean": tally.clean,
                "correct": tally.correct,
                "wrong": tally.wrong,
                "left": tally.left,
                "cpu_seconds": round(tally.seconds / max(1, len(found)), 2),
                "examples": tally.examples[:5],
            }
            for name, tally in tallies.items()
        ],
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repo", type=Path, help="a clone of sglang's repository, whose commits are trees too"
    )
    parser.add_argument("--commits", type=int, default=12, help="how many of them (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchkit-compare-") as folder:
        root = Path(folder)
        patches = tuple(each for each in load.patches() if each.default)
        unpack(BASE, root / BASE)
        tree = open_tree(root / BASE)
        plan = make_plan(tree, patches)
        changed = {change.file: change.after for change in plan.changes if change.after is not None}
        base = {change.file: change.before for change in plan.changes if change.before is not None}
        found = list(cases(root, patches, sorted(changed)))
        if options.repo:
            found += commits(options.repo, options.commits, patches, sorted(changed))
        text = json.dumps(measured(found, base, changed, root), indent=1) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()

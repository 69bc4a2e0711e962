#!/usr/bin/env python3
"""Run every command that writes on a disk with less and less free space, and check the result.

FOLDER is the root of a small file system, such as ``mount -t tmpfs -o size=2m tmpfs FOLDER``. The checkout, git's
folder, the temporary folder, the user's folders and the output are placed there in turn, and a command runs with 0,
1, 2, ... free blocks until it succeeds. A command that fails must change nothing, and exit with its message and
exit code; an interrupted write must be finished or rolled back by ``apply --continue``. Prints the counts of
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

from click.testing import CliRunner  # noqa: E402
from support.repositories import committing, whole  # noqa: E402
from support.toys import (  # noqa: E402
    CRLF,
    MIRROR,
    SOURCES,
    add_patch,
    attribute,
    edit,
    everything,
    git,
    rewriting,
    write_package,
)

from patchkit.cli import main as command  # noqa: E402
from patchkit.patchset import load  # noqa: E402
from patchkit.transaction.store import Store  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.tree.tree import CheckoutTree

PLACES = (
    "checkout",
    "git's folder",
    "temporary folder",
    "a person's folders",
    "the answer's folder",
    "all of them",
)
LONG = "".join(f"# {number:078d}\n" for number in range(200)).encode()
"""Padding that makes a file longer than a block."""


def start(root: Path) -> CheckoutTree:
    """Commit a tree of a release."""
    write_package(root / "python" / "sglang", {**SOURCES, MIRROR: SOURCES[MIRROR] + LONG})
    git(root.parent, "init", "-q", root.name)
    git(root, "add", ".")
    git(root, "commit", "-qm", "As upstream has it")
    return committing(open_tree(root))


def ran(*arguments: str) -> None:
    """Run a command that must succeed."""
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output


def applied(tree: CheckoutTree) -> None:
    """Apply two patches without a commit."""
    ran("apply", str(tree.root), "one", "two")


def committed(tree: CheckoutTree) -> None:
    """Commit a patch."""
    ran("apply", str(tree.root), "one", "--commit")


def finished(tree: CheckoutTree) -> None:
    """Apply with conflict markers, and resolve the conflict."""
    CliRunner().invoke(command, ["apply", str(tree.root), "odd", "--markers"])
    path = tree.package / MIRROR
    head, _, rest = path.read_bytes().partition(b"<<<<<<<")
    tail = rest.partition(b">>>>>>>")[2].partition(b"\n")[2]
    path.write_bytes(head + b"        return self.copies.numpy()\n" + tail)


def on_two_branches(tree: CheckoutTree) -> None:
    """Patch an old release and a new one on two branches, and check out the old one."""
    git(tree.root, "switch", "-qc", "release")
    edit(tree, MIRROR, b"    copies = 0", b"    pages = 64\n    copies = 0")
    git(tree.root, "commit", "-qam", "The new release")
    ran("apply", str(tree.root), "two", "--commit")
    git(tree.root, "switch", "-qc", "vendor", "HEAD~2")
    ran("apply", str(tree.root), "one", "two", "--commit")


def on_a_branch(tree: CheckoutTree) -> None:
    """Commit a change on a branch that is not checked out."""
    git(tree.root, "switch", "-qc", "theirs")
    edit(tree, MIRROR, b"copies = 0", b"copies = 0\n    drafted = 1")
    git(tree.root, "commit", "-qam", "Draft")
    git(tree.root, "switch", "-q", "-")


def ported(tree: CheckoutTree) -> None:
    """Port a change without a commit."""
    on_a_branch(tree)
    ran("port", "theirs", "--repo", str(tree.root), "--onto", str(tree.root))


@dataclass(frozen=True)
class Act:
    """A command, the preparation of its tree, and its exit code on success."""

    name: str
    prepare: Callable[[CheckoutTree], object]
    words: tuple[str, ...]
    done: int = 0

    def arguments(self, root: Path, out: Path) -> list[str]:
        """Return the command's arguments."""
        values = {"TREE": str(root), "OUT": str(out / "made"), "DIFF": str(root.parent / "a.diff")}
        return [values.get(word, word) for word in self.words]


ACTS = (
    Act("apply", lambda tree: None, ("apply", "TREE", "one", "two")),
    Act("revert", applied, ("revert", "TREE")),
    Act("apply --commit", lambda tree: None, ("apply", "TREE", "one", "two", "--commit")),
    Act("later apply --commit", committed, ("apply", "TREE", "two", "--commit")),
    Act(
        "apply --commit --verify",
        lambda tree: None,
        ("apply", "TREE", "one", "two", "--commit", "--verify"),
    ),
    Act("revert --commit", committed, ("revert", "TREE", "--commit")),
    Act("rebase --merge", on_two_branches, ("rebase", "TREE", "--onto", "release", "--merge")),
    Act("apply --markers", lambda tree: None, ("apply", "TREE", "odd", "--markers"), done=1),
    Act("resolve", finished, ("resolve", "TREE", "odd", "odd")),
    Act("port", on_a_branch, ("port", "theirs", "--repo", "TREE", "--onto", "TREE")),
    Act("port --commit", on_a_branch, ("port", "theirs", "--repo", "TREE", "--onto", "TREE", "--commit")),
    Act("revert of a port", ported, ("revert", "TREE")),
    Act("export", lambda tree: None, ("export", "TREE", "-o", "OUT")),
    Act("new", lambda tree: None, ("new", "drafted", "--from-diff", "DIFF", "--on", "TREE", "-o", "OUT")),
)


class Disk:
    """A small file system with a limited number of free blocks."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._ballast = top / "ballast"

    def leave(self, blocks: int) -> None:
        """Fill the disk up to some blocks."""
        self.free()
        known = os.statvfs(self.top)
        with self._ballast.open("wb") as file:
            file.flush()
            size = (os.statvfs(self.top).f_bavail - blocks) * known.f_frsize
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)

    def free(self) -> None:
        """Free the space again."""
        self._ballast.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all files."""
        for path in self.top.iterdir():
            if path.name != "lost+found":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@dataclass
class Layout:
    """The folders of one run."""

    root: Path
    temporary: Path
    home: Path
    out: Path

    @property
    def tree(self) -> CheckoutTree:
        """The checkout."""
        return open_tree(self.root)

    def snapshot(self) -> tuple[object, ...]:
        """Return the state that a failed command must not change."""
        found = whole(self.tree)
        # The lock's file contains its last holder.
        found["files"] = {k: v for k, v in everything(self.root).items() if not k.endswith(".patchkit/lock")}
        return *found.items(), everything(self.out), sorted(self.temporary.iterdir())

    def result(self) -> tuple[object, ...]:
        """Return the result of a success, without names and times of commits."""
        files = {name: k for name, k in everything(self.root).items() if ".patchkit/" not in f"{name}/"}
        commits = git(self.root, "log", "--format=%s %T"), git(self.root, "status", "--porcelain")
        states = CliRunner().invoke(command, ["status", str(self.root), "--json"]).stdout
        return (
            files,
            commits,
            sorted(everything(self.out)),
            json.loads(states)["patches"],
            sorted(self.temporary.iterdir()),
        )


class Grid:
    """The commands, the places and the numbers of free blocks."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk, self._folder = disk, folder
        self.counts: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []

    def _layout(self, act: Act, where: str) -> Layout:
        template = self._folder / "templates" / act.name.replace(" ", "-")
        if not template.exists():
            template.mkdir(parents=True)
            settle(self._folder / "prepared" / act.name)
            tree = start(template / "fork")
            edit(tree, MIRROR, b"copies = 0", b"copies = 0\n    drafted = 1")
            (template / "a.diff").write_text(git(tree.root, "diff"))
            git(tree.root, "checkout", "-q", ".")
            act.prepare(tree)
        shutil.rmtree(self._folder / "run", ignore_errors=True)
        self._disk.free()
        self._disk.clear()
        names = dict(zip(PLACES, ("tree", "git", "tmp", "home", "out"), strict=False))
        at = {
            name: (self._disk.top if where in (label, PLACES[-1]) else self._folder / "run") / name
            for label, name in names.items()
        }
        for path in at.values():
            path.mkdir(parents=True)
        shutil.copytree(template, at["tree"], symlinks=True, dirs_exist_ok=True)
        root = at["tree"] / "fork"
        shutil.move(root / ".git", at["git"] / "git")
        (root / ".git").write_text(f"gitdir: {at['git'] / 'git'}\n")
        git(root, "status")
        return Layout(root, at["tmp"], at["home"], at["out"])

    def run(self, act: Act, where: str) -> None:
        """Run a command with more and more space until it succeeds."""
        layout = self._layout(act, where)
        done = self._act(act, layout)
        assert done[0] == act.done, done
        expected = layout.result()
        for blocks in count():
            layout = self._layout(act, where)
            before = layout.snapshot()
            self._disk.leave(blocks)
            done = self._act(act, layout)
            self._disk.free()
            self.counts[act.name, where] += 1
            try:
                is_done = done[0] == act.done and layout.result() == expected
                found = "" if is_done else self._found(layout, before, expected, done)
            except Exception as error:
                is_done, found = False, f"{type(error).__name__}: {error}"
            if found:
                code, output = done
                self.wrong.append(
                    f"{act.name}, {where}, {blocks} free blocks, exit {code}: {found}: {output}"
                )
            if is_done or done[0] == 0:
                break

    def _act(self, act: Act, layout: Layout) -> tuple[int, str]:
        return forked(partial(act_in, act, layout))

    def _found(self, layout: Layout, before: object, expected: object, done: tuple[int, str]) -> str:
        """Return the errors in the result of a run."""
        code, output = done
        if "Traceback" in output or code not in (0, 1, 3, 4, 5):
            return "no error message"
        if code == 0:
            return "not the expected result"
        if Store(layout.tree.package).pending:
            ran("apply", "--continue", str(layout.root))
            if layout.result() != expected and layout.snapshot() != before:
                return "neither the old tree nor the new one after the recovery"
            return (
                ""
                if "apply --continue" in output
                else "interrupted, and the message does not name apply --continue"
            )
        if layout.snapshot() != before:
            return "something changed"
        return (
            ""
            if "nothing was" in output and output.startswith("error: ")
            else "the message does not state that nothing was written"
        )


def act_in(act: Act, layout: Layout) -> tuple[int, str]:
    """Run a command with its folders; return its exit code and output."""
    settle(layout.home, layout.temporary)
    os.chdir(layout.temporary)
    done = CliRunner().invoke(command, act.arguments(layout.root, layout.out))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return done.exit_code, "".join(traceback.format_exception(done.exception))
    return done.exit_code, done.stderr


def settle(home: Path, temporary: Path | None = None) -> None:
    """Set the user's folders and the temporary one."""
    os.environ |= {"XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}
    if temporary is not None:
        # Python uses another temporary folder if the configured one is full.
        os.environ["TMPDIR"] = str(temporary)
        tempfile.tempdir = None
        tempfile._candidate_tempdir_list = lambda: [str(temporary)]  # type: ignore[attr-defined]


def forked(act: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Run a function in a forked process, with empty caches."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(reading)
            with os.fdopen(writing, "w") as stream:
                json.dump(act(), stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    code, output = json.loads(answer) if answer else (-1, "no answer")
    return code, output


def patches(folder: Path) -> None:
    """Replace the built-in patches by patches of the toy tree."""
    add_patch(folder, "one", attribute(MIRROR, "Mirror", "one = 1"), attribute(CRLF, "Backend", "own = 1"))
    add_patch(folder, "two", attribute(MIRROR, "Mirror", "two = 2"))
    add_patch(
        folder,
        "odd",
        rewriting("odd", f"{MIRROR}::Mirror.host", "return self.copies.cpu()", "return self.copies.numpy()"),
        default="false",
    )
    load.BUILT_IN = folder


def table(grid: Grid) -> Iterator[str]:
    """Yield the counts as a Markdown table."""
    yield "| | runs |\n| --- | ---: |"
    for act in dict.fromkeys(act for act, _ in grid.counts):
        yield f"| {act} | {sum(grid.counts[act, where] for where in PLACES)} |"
    yield f"\n{sum(grid.counts.values()):,} runs; wrong: {len(grid.wrong)}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the grid and print its counts; return 1 if there is an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [act.name for act in ACTS]
    parser.add_argument("folder", type=Path, help="the top of an empty, small file system")
    parser.add_argument("--act", action="append", choices=names, help="this one only; may be given again")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        patches(Path(folder, "toys"))
        grid = Grid(Disk(options.folder.resolve()), Path(folder))
        for act in (act for act in ACTS if act.name in (options.act or names)):
            for where in PLACES:
                grid.run(act, where)
            print(f"{act.name}: {len(grid.wrong)} wrong", file=sys.stderr)
    print("\n".join(table(grid)))
    for line in grid.wrong[:40]:
        print(f"wrong: {line}")
    return 1 if grid.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

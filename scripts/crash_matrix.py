#!/usr/bin/env python3
"""Interrupt every operation that writes a tree at every system call that changes something, and check the result.

A call fails (EIO, ENOSPC, EROFS), raises KeyboardInterrupt, or the process is killed before it or, for a write,
half way through. ``recover`` follows if a write is pending, and is interrupted in the same ways. Then bytes, modes
and times of the whole tree must be the old ones or the new ones, the record must agree, and ``revert`` must restore
the original. Prints the counts of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

from support.cached_git import caching_git, git_state  # noqa: E402
from support.faults import ERRORS, Faults, copy_folder, failing, interrupting, killed, torn_write  # noqa: E402
from support.toys import (  # noqa: E402
    ABRUPT,
    COPIES,
    CRLF,
    GUARD,
    MIRROR,
    STRIDE,
    attribute,
    edit,
    everything,
    few_runtime_files,
    git,
    new_file_edit,
    planner_of,
    rewriting,
    toy,
    with_deletion,
    write_package,
)

from patchkit import api  # noqa: E402
from patchkit.commands.port import port  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.patchset.select import PatchSet  # noqa: E402
from patchkit.plan import vendor  # noqa: E402
from patchkit.plan.build import make_plan  # noqa: E402
from patchkit.series.source import Source  # noqa: E402
from patchkit.series.worktree import sweep  # noqa: E402
from patchkit.transaction.apply import Transaction  # noqa: E402
from patchkit.transaction.resolve import manual_edits  # noqa: E402
from patchkit.transaction.revert import ported, recorded, revert  # noqa: E402
from patchkit.transaction.store import Store  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree

MAKE = toy("make", new_file_edit("srt/fresh/new.py", "made = 1"))
FIRST = (COPIES, GUARD, STRIDE, MAKE)
SECOND = toy("depth", rewriting("depth", MIRROR, "depth = 1", "depth = 2\nheight = 3"))
ALL = (*FIRST, SECOND)
WITH_RUNTIME = PatchSet(
    (
        toy(
            "flag",
            attribute(MIRROR, "Mirror", "needs_host = patchkit_api"),
            imports='["from patchkit.runtime import api_1 as patchkit_api"]',
        ),
        toy("limits", attribute(ABRUPT, "Worker", "limit = 8"), attribute(CRLF, "Backend", "own = 1")),
    ),
    "toys",
)
NEIGHBOURS = PatchSet(
    (
        toy("one", attribute(MIRROR, "Mirror", "one = 1")),
        toy("two", attribute(MIRROR, "Mirror", "two = 2"), attribute(CRLF, "Backend", "too = 2")),
    ),
    "toys",
)
COPY = toy(
    "copy",
    attribute(MIRROR, "Mirror", "sure = True"),
    rewriting("copy", f"{MIRROR}::Mirror.host", "return self.copies.cpu()", "return self.copies.numpy()"),
)
HALF = PatchSet((COPY, SECOND), "toys")
MODES = ("kill", "torn", *ERRORS, "interrupt")


def apply_second(tree: CheckoutTree) -> None:
    """Apply the later patch, which also deletes a file."""
    Transaction(tree).commit(with_deletion(make_plan(tree, (SECOND,)), ABRUPT))


def revert_patches(tree: CheckoutTree, *patches: Patch) -> None:
    """Revert toy patches, by default all."""
    revert(tree, frozenset(patch.id for patch in patches) or None, planner_of(tree, ALL))


def untouched(tree: CheckoutTree) -> None:
    """Leave the tree unpatched."""


def patched(tree: CheckoutTree) -> None:
    """Apply the first patches."""
    Transaction(tree).commit(make_plan(tree, FIRST))


def edited(tree: CheckoutTree) -> None:
    """Apply the first patches, then edit one of the files as a person would."""
    patched(tree)
    edit(tree, MIRROR, b"class Mirror:", b"# mine\nclass Mirror:")


def twice(tree: CheckoutTree) -> None:
    """Apply twice, with an edit in between."""
    edited(tree)
    apply_second(tree)


def committed(tree: CheckoutTree) -> None:
    """Commit the unpatched tree."""
    git(tree.root, "init", "-q")
    git(tree.root, "config", "user.name", "A Person")
    git(tree.root, "config", "user.email", "person@example.com")
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", "As upstream has it")


def committed_patched(tree: CheckoutTree) -> None:
    """Commit the tree and then its patches."""
    committed(tree)
    api.commit(tree, WITH_RUNTIME)


def committed_later(tree: CheckoutTree) -> None:
    """Commit the second of two patches at one place; the first will move it."""
    committed(tree)
    api.commit(tree, NEIGHBOURS, ("two",))


def on_two_branches(tree: CheckoutTree) -> None:
    """Patch an old release and a new one on two branches, and check out the old one."""
    committed(tree)
    git(tree.root, "switch", "-qc", "release")
    edit(tree, MIRROR, b"    copies = 0", b"    pages = 64\n    copies = 0")
    git(tree.root, "commit", "-qam", "The new release")
    api.commit(tree, NEIGHBOURS, ("two",))
    git(tree.root, "switch", "-qc", "vendor", "HEAD~2")
    api.commit(tree, NEIGHBOURS)


def with_theirs(tree: CheckoutTree) -> None:
    """Commit the tree, and keep a change of others as a mail."""
    committed(tree)
    edit(tree, MIRROR, b"    copies = 0", b"    pages = 64\n    copies = 0")
    git(tree.root, "commit", "-qam", "A change of theirs (#77)")
    mail = git(tree.root, "format-patch", "-1", "--stdout")
    git(tree.root, "reset", "-q", "--hard", "HEAD~1")
    (tree.root / ".git" / "77.patch").write_text(mail)


def port_theirs(tree: CheckoutTree) -> None:
    """Port the change of the others. Of a commit, a git would be asked that forks of this process share."""
    with Source([str(tree.root / ".git" / "77.patch")], str(tree.root), tree.root) as source:
        port(source, tree, committing=True)


def revert_port(tree: CheckoutTree) -> None:
    """Revert the port, if it was made."""
    if "77" in ported(tree):
        api.revert(tree, PatchSet((), "none"), ("77",))


def marked(tree: CheckoutTree) -> None:
    """Apply with conflict markers."""
    api.apply(tree, HALF, markers=True)


def finished(tree: CheckoutTree) -> None:
    """Apply with conflict markers, and resolve the conflict."""
    marked(tree)
    path = tree.package / MIRROR
    head, _, rest = path.read_bytes().partition(b"<<<<<<<")
    tail = rest.partition(b">>>>>>>")[2].partition(b"\n")[2]
    path.write_bytes(head + b"        return self.copies.numpy()\n" + tail)


def resolve(tree: CheckoutTree) -> None:
    """Record the resolution."""
    api.resolve(tree, HALF, "copy", "copy")


def resolve_and_revert(tree: CheckoutTree) -> None:
    """Record the resolution, if that was not done yet, and revert it."""
    resolve(tree)
    api.revert(tree, HALF)


@dataclass(frozen=True)
class Act:
    """An operation that writes a tree, its preparation, and its reversal."""

    name: str
    prepare: Callable[[CheckoutTree], object]
    do: Callable[[CheckoutTree], object]
    undo: Callable[[CheckoutTree], object] = revert_patches


VENDORED = partial(api.apply, patches=WITH_RUNTIME, runtime="vendored")
BACK = partial(api.revert, patches=WITH_RUNTIME)
ACTS = (
    Act("apply", untouched, patched),
    Act("second apply", edited, apply_second),
    Act("revert", twice, revert_patches),
    Act("partial revert", twice, lambda tree: revert_patches(tree, GUARD, MAKE)),
    Act("apply --runtime vendored", untouched, VENDORED, BACK),
    Act("revert of vendored", VENDORED, BACK, BACK),
    Act(
        "apply --commit",
        committed,
        partial(api.commit, patches=WITH_RUNTIME),
        BACK,
    ),
    Act(
        "later apply --commit",
        committed_later,
        partial(api.commit, patches=NEIGHBOURS),
        partial(api.revert, patches=NEIGHBOURS),
    ),
    Act(
        "apply --commit --verify",
        committed,
        partial(api.commit, patches=NEIGHBOURS, verifying=True),
        partial(api.revert, patches=NEIGHBOURS),
    ),
    Act("port --commit", with_theirs, port_theirs, revert_port),
    Act("revert --commit", committed_patched, partial(api.commit_revert, patches=WITH_RUNTIME), BACK),
    Act(
        "rebase --merge",
        on_two_branches,
        partial(api.merge, patches=NEIGHBOURS, ref="release"),
        partial(api.revert, patches=NEIGHBOURS),
    ),
    Act("apply --markers", untouched, marked, partial(api.revert, patches=HALF)),
    Act("resolve", finished, resolve, resolve_and_revert),
)


@dataclass
class Tally:
    """The number of faults by operation and mode, and the errors found."""

    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


State = dict[str, tuple[int, int, bytes]]


def state(tree: CheckoutTree, *, times: bool) -> State:
    """Return mode, time and bytes of everything in the package but patchkit's own folder; for folders without time."""
    found = {}
    for path in sorted(tree.package.rglob("*")):
        name = path.relative_to(tree.package)
        if name.parts[0] != ".patchkit":
            known = path.lstat()
            when = known.st_mtime_ns if times and path.is_file() else 0
            found[name.as_posix()] = known.st_mode, when, path.read_bytes() if path.is_file() else b""
    return found


Known = tuple[tuple[str, ...], frozenset[tuple[str, str]]]


def known(tree: CheckoutTree) -> Known:
    """Return the recorded patches, and the edits recorded as made by a person."""
    return recorded(tree), manual_edits(tree)


@dataclass(frozen=True)
class Expected:
    """A tree before and after an operation, and its record then."""

    old: tuple[State, Known]
    new: tuple[State, Known]


class Matrix:
    """The operations, modes and system calls, each run in a copy at the same path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._world = folder / "world"
        # A shared temporary folder would be swept by other processes that commit at the same time.
        tempfile.tempdir = str(self._world)
        self._reversible: set[object] = set()
        self._new: set[object] = set()
        self._is_branching = False
        self._end: Callable[[], NoReturn] | None = None
        self.tally = Tally()

    def _tree(self, act: Act) -> CheckoutTree:
        prepared = self._folder / act.name.replace(" ", "-")
        if not prepared.exists():
            shutil.rmtree(self._world, ignore_errors=True)
            act.prepare(open_tree(write_package(self._world / "tree" / "sglang")))
            self._world.rename(prepared)
        return self._copy_world(prepared)

    def _copy_world(self, world: Path) -> CheckoutTree:
        """Replace the world by a copy of another one."""
        shutil.rmtree(self._world, ignore_errors=True)
        copy_folder(world, self._world)
        return open_tree(self._world / "tree" / "sglang")

    def expected(self, act: Act) -> Expected:
        """Return the result of an uninterrupted operation; its reversal must restore the original."""
        tree = self._tree(act)
        old = state(tree, times=False), known(tree)
        act.do(tree)
        new = state(tree, times=False), known(tree)
        if not (self._is_reversible(act, tree) and self._is_reversible(act, self._tree(act))):
            raise AssertionError(f"{act.name} cannot be undone without an interruption")
        return Expected(old, new)

    def run(self, act: Act, every: int, doubled: int) -> None:
        """Interrupt an operation at each ``every``-th call in each mode, and its recovery at each ``doubled``-th call.

        The operation runs once: at each call, a forked process continues in a copy for each mode, and what a killed
        process would leave is kept for the recovery.
        """
        expected = self.expected(act)
        tree = self._tree(act)
        before = state(tree, times=True)

        def stop(number: int, name: str, arguments: tuple[Any, ...]) -> None:
            if self._is_branching:
                return
            if doubled and (number - 1) % doubled == 0:
                for torn in (False, True):
                    with torn_write(name, arguments, torn=torn):
                        copy_folder(self._world, self._folder / "killed" / f"{number}-{torn}")
                    kept.append((number, torn))
            if (number - 1) % every:
                return
            self._is_branching = True
            for mode in MODES:
                # Half a write of nothing is the same as being killed.
                if mode != "torn" or name == "write":
                    self.tally.faults[act.name, mode] += 1
                    where = f"{act.name}, {mode} at {number}"
                    check = partial(self._check, where, act, tree, before, expected)
                    self._branch(where, mode, arguments, check)
            self._is_branching = False

        kept: list[tuple[int, bool]] = []
        with Faults(stop).on():
            try:
                act.do(tree)
            except BaseException as error:
                if self._end is None:
                    raise
                if not isinstance(error, PatchkitError | KeyboardInterrupt):
                    self.tally.wrong.append(f"{act.name}: {type(error).__name__}: {error}")
            if self._end is not None:
                self._end()
        for number, torn in kept:
            self._recover_doubled(act, before, expected, number, doubled, torn=torn)

    def _branch(self, where: str, mode: str, arguments: tuple[Any, ...], check: Callable[[], None]) -> None:
        """Fork a process that continues from an interrupted call in a copy of the world, and check its result."""
        original = self._folder / "original"
        # Open and locked files stay so in the renamed folder.
        self._world.rename(original)
        subprocess.run(("cp", "-a", original, self._world), check=True)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            self.tally, self._new = Tally(), set()
            self._end = partial(self._report, write, check)
            if mode == "kill":
                self._end()
            # A killed process has released its lock.
            redirect_files(original, self._world, locked=mode != "torn")
            if mode == "torn":
                content = bytes(arguments[1])
                os.pwrite(arguments[0], content[: len(content) // 2], 0)
                self._end()
            if mode == "interrupt":
                raise KeyboardInterrupt
            raise OSError(ERRORS[mode], os.strerror(ERRORS[mode]), str(arguments[0]))
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            report = stream.read()
        os.waitpid(child, 0)
        if report:
            outcomes, wrong, new = pickle.loads(report)
            self.tally.outcomes.update(outcomes)
            self.tally.wrong += wrong
            self._reversible |= new
        else:
            self.tally.wrong.append(f"{where}: the process ended without a report")
        shutil.rmtree(self._world)
        original.rename(self._world)

    def _report(self, write: int, check: Callable[[], None]) -> NoReturn:
        """Check the result, and exit with it."""
        try:
            check()
            with os.fdopen(write, "wb") as stream:
                stream.write(pickle.dumps((self.tally.outcomes, self.tally.wrong, self._new)))
        finally:
            os._exit(0)

    def _is_reversible(self, act: Act, tree: CheckoutTree) -> bool:
        """Return whether ``revert`` restores the original from a tree; results are cached by state."""
        key = act.name, heads(tree), frozenset(everything(tree.package).items())
        if key not in self._reversible:
            act.undo(tree)
            if recorded(tree):
                return False
            self._reversible.add(key)
            self._new.add(key)
        return True

    def _recover_doubled(
        self, act: Act, before: State, expected: Expected, number: int, every: int, *, torn: bool
    ) -> None:
        """Interrupt the recovery of an operation that was killed at call ``number``."""
        interrupted = self._folder / "killed" / f"{number}-{torn}"
        for mode in (mode for mode in MODES if (mode == "torn") == torn):
            for second in count(1, every):
                tree = self._copy_world(interrupted)
                if not stopped(mode, second, partial(api.recover, tree)):
                    break
                self.tally.faults[f"recover after {act.name}", mode] += 1
                where = f"{act.name}, killed at {number}, recover {mode} at {second}"
                self._check(where, act, tree, before, expected)
        shutil.rmtree(interrupted)

    def _check(self, where: str, act: Act, tree: CheckoutTree, before: State, expected: Expected) -> None:
        try:
            if Store(tree.package).pending:
                api.recover(tree)
            if not is_tidy(tree):
                self.tally.wrong.append(f"{where}: branch, index and files of the checkout differ")
                return
            now = state(tree, times=False), known(tree)
            if now == expected.old:
                self.tally.outcomes["old"] += 1
                if state(tree, times=True) != before:
                    self.tally.outcomes["old, with another time"] += 1
            elif now == expected.new:
                self.tally.outcomes["new"] += 1
            else:
                self.tally.wrong.append(f"{where}: neither the old tree nor the new one")
                return
            if not self._is_reversible(act, tree):
                self.tally.wrong.append(f"{where}: revert does not restore the original")
        except PatchkitError as error:
            self.tally.wrong.append(f"{where}: {error}")
        except Exception as error:
            self.tally.wrong.append(f"{where}: {type(error).__name__}: {error}")


def redirect_files(original: Path, world: Path, *, locked: bool) -> None:
    """Redirect each descriptor of this process from one folder to its copy; lock again what was ``locked``."""
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        with suppress(FileNotFoundError):  # A deleted file is not in the copy.
            path = os.readlink(f"/proc/self/fd/{handle}")
            if not Path(path).is_relative_to(original):
                continue
            has_lock = "FLOCK" in Path(f"/proc/self/fdinfo/{handle}").read_text()
            flags = fcntl.fcntl(handle, fcntl.F_GETFL)
            copy = os.open(world / Path(path).relative_to(original), flags | os.O_CLOEXEC)
            if not flags & os.O_DIRECTORY:
                os.lseek(copy, os.lseek(handle, 0, os.SEEK_CUR), os.SEEK_SET)
            os.dup2(copy, handle, inheritable=os.get_inheritable(handle))
            os.close(copy)
            if locked and has_lock:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def heads(tree: CheckoutTree) -> frozenset[tuple[str, bytes]]:
    """Return the HEAD of a tree's checkout, empty without one."""
    return frozenset(git_state(tree.root).items())


def is_tidy(tree: CheckoutTree) -> bool:
    """Return whether branch, index and files of a checkout agree and no other worktree is left."""
    if not (tree.root / ".git").exists():
        return True
    sweep(tree)
    listed = git(tree.root, "worktree", "list").splitlines()
    return len(listed) == 1 and not git(tree.root, "status", "--porcelain", "--untracked-files=no")


def stopped(mode: str, number: int, act: Callable[[], object]) -> bool:
    """Run an operation and interrupt it at one call; return False if it has fewer calls."""
    if mode in ("kill", "torn"):
        return killed(act, number, torn=mode == "torn")
    faults: Faults = interrupting(number) if mode == "interrupt" else failing(number, ERRORS[mode])
    with faults.on(), suppress(PatchkitError, KeyboardInterrupt):
        act()
    return faults.count >= number


def row(tally: Tally, act: Act) -> str:
    """Return the number of interruptions of an operation and of its recovery, as a row of a Markdown table."""
    counts = (
        sum(tally.faults[name, mode] for mode in MODES) for name in (act.name, f"recover after {act.name}")
    )
    return f"| {act.name} | {' | '.join(f'{number:,}' for number in counts)} |"


def total(tally: Tally) -> str:
    """Return the totals."""
    found = ", ".join(f"{times:,} {outcome}" for outcome, times in sorted(tally.outcomes.items()))
    return f"{sum(tally.faults.values()):,} faults: {found}; wrong: {len(tally.wrong)}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix and print its counts; return 1 if there is an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [act.name for act in ACTS]
    parser.add_argument("--act", action="append", choices=names, help="this one only; may be given again")
    parser.add_argument("--every", type=int, default=1, help="stop at every N-th call only")
    parser.add_argument("--doubled", type=int, default=3, help="for two stops, every N-th call; 0: none")
    options = parser.parse_args(arguments)
    print("| | interruptions | of its recovery |\n| --- | ---: | ---: |", flush=True)
    few = few_runtime_files()
    vendor.runtime_files = lambda: few  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        # Resolutions are stored there.
        os.environ |= {"XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder}
        # Fixed dates give the same commit ids in each tree.
        os.environ |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2000000000 +0000")
        matrix = Matrix(Path(folder))
        with caching_git(Path(folder)):
            for act in (act for act in ACTS if act.name in (options.act or names)):
                matrix.run(act, options.every, options.doubled)
                print(row(matrix.tally, act), flush=True)
    print(f"\n{total(matrix.tally)}")
    for line in matrix.tally.wrong[:20]:
        print(f"wrong: {line}")
    return 1 if matrix.tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

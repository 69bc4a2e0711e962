#!/usr/bin/env python3
"""Stops every act that writes a tree at every system call that changes something, and looks at what is left.

A call fails (EIO, ENOSPC, EROFS), is interrupted from the keyboard, is the last one of its process, or, where it
writes, is the last one and writes half. ``recover`` follows where a write is pending, and is stopped itself in
each of these ways too. Then the bytes, modes and times of the whole tree have to be the old ones or the new ones,
what is recorded has to agree, and ``revert`` has to lead back. Prints the counts that stand in docs/reliability.md.
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

from support.asked_once import asking_once, standing  # noqa: E402
from support.faults import ERRORS, Faults, failing, interrupting, killed  # noqa: E402
from support.toys import (  # noqa: E402
    ABRUPT,
    COPIES,
    CRLF,
    GUARD,
    MIRROR,
    STRIDE,
    at_hand,
    attribute,
    edit,
    everything,
    git,
    making,
    rewriting,
    taking,
    toy,
    write_package,
)

from patchkit import api  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.patchset.select import PatchSet  # noqa: E402
from patchkit.plan import vendor  # noqa: E402
from patchkit.plan.build import make_plan  # noqa: E402
from patchkit.series.worktree import sweep  # noqa: E402
from patchkit.transaction.apply import Transaction  # noqa: E402
from patchkit.transaction.resolve import by_hand  # noqa: E402
from patchkit.transaction.revert import recorded, revert  # noqa: E402
from patchkit.transaction.store import Store  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree

MAKE = toy("make", making("srt/fresh/new.py", "made = 1"))
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
    """Apply the patch that comes later, and take a file away."""
    Transaction(tree, "toys").commit(taking(make_plan(tree, (SECOND,)), ABRUPT))


def take_back(tree: CheckoutTree, *patches: Patch) -> None:
    """Revert toy patches, all without a name."""
    revert(tree, frozenset(patch.id for patch in patches) or None, at_hand(tree, ALL))


def untouched(tree: CheckoutTree) -> None:
    """Leave a tree as the release has it."""


def patched(tree: CheckoutTree) -> None:
    """Apply the first patches."""
    Transaction(tree, "toys").commit(make_plan(tree, FIRST))


def edited(tree: CheckoutTree) -> None:
    """Apply the first patches, and let a person edit one of the files."""
    patched(tree)
    edit(tree, MIRROR, b"class Mirror:", b"# mine\nclass Mirror:")


def twice(tree: CheckoutTree) -> None:
    """Apply twice, with an edit in between."""
    edited(tree)
    apply_second(tree)


def one_runtime_of_few_files() -> None:
    """Let the copy of the runtime be a part of it: a call less in each file stops no other way."""
    needed = ("_patchkit/__init__.py", "runtime/__init__.py", "runtime/api_1.py")
    files = {name: text for name, text in vendor.runtime_files().items() if name.endswith(needed)}
    vendor.runtime_files = lambda: files  # type: ignore[assignment]


def committed(tree: CheckoutTree) -> None:
    """Commit a tree as the release has it."""
    git(tree.root, "init", "-q")
    git(tree.root, "config", "user.name", "A Person")
    git(tree.root, "config", "user.email", "person@example.com")
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", "As upstream has it")


def committed_later(tree: CheckoutTree) -> None:
    """Commit the second of two patches at one place, which the first will move."""
    committed(tree)
    api.commit(tree, NEIGHBOURS, ("two",))


def on_two_branches(tree: CheckoutTree) -> None:
    """Patch an old release and a new one, each on its branch, and be on that of the old one."""
    committed(tree)
    git(tree.root, "switch", "-qc", "release")
    edit(tree, MIRROR, b"    copies = 0", b"    pages = 64\n    copies = 0")
    git(tree.root, "commit", "-qam", "The new release")
    api.commit(tree, NEIGHBOURS, ("two",))
    git(tree.root, "switch", "-qc", "vendor", "HEAD~2")
    api.commit(tree, NEIGHBOURS)


def marked(tree: CheckoutTree) -> None:
    """Leave a person the conflict of an edit."""
    api.apply(tree, HALF, markers=True)


def finished(tree: CheckoutTree) -> None:
    """Leave a conflict, and let a person finish it."""
    marked(tree)
    path = tree.package / MIRROR
    head, _, rest = path.read_bytes().partition(b"<<<<<<<")
    tail = rest.partition(b">>>>>>>")[2].partition(b"\n")[2]
    path.write_bytes(head + b"        return self.copies.numpy()\n" + tail)


def resolve(tree: CheckoutTree) -> None:
    """Record what a person finished."""
    api.resolve(tree, HALF, "copy", "copy")


def resolve_and_take_back(tree: CheckoutTree) -> None:
    """Record what a person finished, again where that is done, and revert it."""
    resolve(tree)
    api.revert(tree, HALF)


@dataclass(frozen=True)
class Act:
    """Something that writes a tree, what was done to the tree before, and what takes all of it back."""

    name: str
    prepare: Callable[[CheckoutTree], object]
    do: Callable[[CheckoutTree], object]
    back: Callable[[CheckoutTree], object] = take_back


VENDORED = partial(api.apply, patches=WITH_RUNTIME, runtime="vendored")
BACK = partial(api.revert, patches=WITH_RUNTIME)
ACTS = (
    Act("apply", untouched, patched),
    Act("second apply", edited, apply_second),
    Act("revert", twice, take_back),
    Act("partial revert", twice, lambda tree: take_back(tree, GUARD, MAKE)),
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
        "rebase --merge",
        on_two_branches,
        partial(api.merge, patches=NEIGHBOURS, ref="release"),
        partial(api.revert, patches=NEIGHBOURS),
    ),
    Act("apply --markers", untouched, marked, partial(api.revert, patches=HALF)),
    Act("resolve", finished, resolve, resolve_and_take_back),
)


@dataclass
class Tally:
    """How many faults were injected by act and mode, and what was found wrong."""

    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


State = dict[str, tuple[int, int, bytes]]


def state(tree: CheckoutTree, *, times: bool) -> State:
    """Return mode, time and bytes of everything in the package but the ledger's folder; folders have no time."""
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
    """Return the patches that the ledger records, and the edits that it has a person's name on."""
    return recorded(tree), by_hand(tree)


@dataclass(frozen=True)
class Expected:
    """A tree before an act and after it, and what its ledger records then."""

    old: tuple[State, Known]
    new: tuple[State, Known]


class Matrix:
    """The grid of acts, modes and system calls, each in a tree of its own that lies where the one before it lay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._world = folder / "world"
        # A process that commits elsewhere meanwhile would hold, and sweep, what was left in a folder of all.
        tempfile.tempdir = str(self._world)
        self._led_back: set[object] = set()
        self._new: set[object] = set()
        self._told = False
        self._end: Callable[[], NoReturn] | None = None
        self.tally = Tally()

    def _tree(self, act: Act) -> CheckoutTree:
        prepared = self._folder / act.name.replace(" ", "-")
        if not prepared.exists():
            shutil.rmtree(self._world, ignore_errors=True)
            act.prepare(open_tree(write_package(self._world / "tree" / "sglang")))
            self._world.rename(prepared)
        return self._be(prepared)

    def _be(self, world: Path) -> CheckoutTree:
        """Let the world be a copy of another."""
        shutil.rmtree(self._world, ignore_errors=True)
        shutil.copytree(world, self._world, symlinks=True)
        return open_tree(self._world / "tree" / "sglang")

    def expected(self, act: Act) -> Expected:
        """Return what an act that nothing stops makes of its tree; it leads back from there."""
        tree = self._tree(act)
        old = state(tree, times=False), known(tree)
        act.do(tree)
        new = state(tree, times=False), known(tree)
        if not (self._leads_back(act, tree) and self._leads_back(act, self._tree(act))):
            raise AssertionError(f"{act.name} does not lead back where nothing stops it")
        return Expected(old, new)

    def run(self, act: Act, every: int, doubled: int) -> None:
        """Stop an act at each ``every``-th call in each mode, and its recovery at each ``doubled``-th one.

        The act is done once: at each call and for each mode a process of its own goes on from there, in a copy.
        """
        expected = self.expected(act)
        tree = self._tree(act)
        before = state(tree, times=True)

        def stop(number: int, name: str, arguments: tuple[Any, ...]) -> None:
            if self._told or (number - 1) % every:
                return
            self._told = True
            for mode in MODES:
                # What writes nothing cannot write half: that is no other stop than being killed.
                if mode != "torn" or name == "write":
                    self.tally.faults[act.name, mode] += 1
                    where = f"{act.name}, {mode} at {number}"
                    look = partial(self._look, where, act, tree, before, expected)
                    self._branch(where, mode, arguments, look)
            del faults.calls[number:]
            self._told = False

        faults = Faults(stop)
        with faults.on():
            try:
                act.do(tree)
            except BaseException as error:
                if self._end is None:
                    raise
                if not isinstance(error, PatchkitError | KeyboardInterrupt):
                    self.tally.wrong.append(f"{act.name}: {type(error).__name__}: {error}")
            if self._end is not None:
                self._end()
        if doubled:
            self._run_doubled(act, expected, doubled)

    def _branch(self, where: str, mode: str, arguments: tuple[Any, ...], look: Callable[[], None]) -> None:
        """Let a process go on from a call that is stopped, in a copy of the world, and look at what it leaves."""
        held = self._folder / "held"
        # What is open here, and locked, stays so under the other name.
        self._world.rename(held)
        subprocess.run(("cp", "-a", held, self._world), check=True)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            self.tally, self._new = Tally(), set()
            self._end = partial(self._report, write, look)
            if mode == "kill":
                self._end()
            # A process that is killed holds no lock while somebody looks.
            follow(held, self._world, locked=mode != "torn")
            if mode == "torn":
                content = bytes(arguments[1])
                os.pwrite(arguments[0], content[: len(content) // 2], 0)
                self._end()
            if mode == "interrupt":
                raise KeyboardInterrupt
            raise OSError(ERRORS[mode], os.strerror(ERRORS[mode]), str(arguments[0]))
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            said = stream.read()
        os.waitpid(child, 0)
        if said:
            outcomes, wrong, new = pickle.loads(said)
            self.tally.outcomes.update(outcomes)
            self.tally.wrong += wrong
            self._led_back |= new
        else:
            self.tally.wrong.append(f"{where}: ended without a word")
        shutil.rmtree(self._world)
        held.rename(self._world)

    def _report(self, write: int, look: Callable[[], None]) -> NoReturn:
        """Look, and end the process with what was found."""
        try:
            look()
            with os.fdopen(write, "wb") as stream:
                stream.write(pickle.dumps((self.tally.outcomes, self.tally.wrong, self._new)))
        finally:
            os._exit(0)

    def _leads_back(self, act: Act, tree: CheckoutTree) -> bool:
        """Tell whether ``revert`` leads back from a tree as it stands; what is known to do so does it again."""
        stands = act.name, heads(tree), frozenset(everything(tree.package).items())
        if stands not in self._led_back:
            act.back(tree)
            if recorded(tree):
                return False
            self._led_back.add(stands)
            self._new.add(stands)
        return True

    def _run_doubled(self, act: Act, expected: Expected, every: int) -> None:
        """Stop an act where the last call is cut short, or is whole, and then its recovery in each mode."""
        left = self._folder / "left"
        for torn in (False, True):
            modes = [mode for mode in MODES if (mode == "torn") == torn]
            for number in count(1, every):
                tree = self._tree(act)
                before = state(tree, times=True)
                if not killed(partial(act.do, tree), number, torn=torn):
                    break
                self._world.rename(left)
                for mode in modes:
                    for second in count(1, every):
                        tree = self._be(left)
                        if not stopped(mode, second, partial(api.recover, tree)):
                            break
                        self.tally.faults[f"recover after {act.name}", mode] += 1
                        where = f"{act.name}, killed at {number}, recover {mode} at {second}"
                        self._look(where, act, tree, before, expected)
                shutil.rmtree(left)

    def _look(self, where: str, act: Act, tree: CheckoutTree, before: State, expected: Expected) -> None:
        try:
            if Store(tree.package).pending:
                api.recover(tree)
            if not is_tidy(tree):
                self.tally.wrong.append(f"{where}: git has something half done")
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
            if not self._leads_back(act, tree):
                self.tally.wrong.append(f"{where}: does not lead back")
        except PatchkitError as error:
            self.tally.wrong.append(f"{where}: {error}")
        except Exception as error:
            self.tally.wrong.append(f"{where}: {type(error).__name__}: {error}")


def follow(held: Path, world: Path, *, locked: bool) -> None:
    """Let each descriptor of this process that is of one folder be of its copy, ``locked`` where it was."""
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        with suppress(FileNotFoundError):  # What has no name any more is in no copy.
            path = os.readlink(f"/proc/self/fd/{handle}")
            if not Path(path).is_relative_to(held):
                continue
            has_lock = "FLOCK" in Path(f"/proc/self/fdinfo/{handle}").read_text()
            flags = fcntl.fcntl(handle, fcntl.F_GETFL)
            copy = os.open(world / Path(path).relative_to(held), flags | os.O_CLOEXEC)
            if not flags & os.O_DIRECTORY:
                os.lseek(copy, os.lseek(handle, 0, os.SEEK_CUR), os.SEEK_SET)
            os.dup2(copy, handle, inheritable=os.get_inheritable(handle))
            os.close(copy)
            if locked and has_lock:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def heads(tree: CheckoutTree) -> frozenset[tuple[str, bytes]]:
    """Return what the checkout of a tree has committed, empty where it is none."""
    return frozenset(standing(tree.root).items())


def is_tidy(tree: CheckoutTree) -> bool:
    """Tell whether branch, index and files of a checkout agree and no other worktree is left."""
    if not (tree.root / ".git").exists():
        return True
    sweep(tree)
    listed = git(tree.root, "worktree", "list").splitlines()
    return len(listed) == 1 and not git(tree.root, "status", "--porcelain", "--untracked-files=no")


def stopped(mode: str, number: int, act: Callable[[], object]) -> bool:
    """Do an act and stop it at one call; False if it has fewer calls."""
    if mode in ("kill", "torn"):
        return killed(act, number, torn=mode == "torn")
    faults: Faults = interrupting(number) if mode == "interrupt" else failing(number, ERRORS[mode])
    with faults.on(), suppress(PatchkitError, KeyboardInterrupt):
        act()
    return faults.count >= number


def row(tally: Tally, act: Act) -> str:
    """Return how often an act was stopped in all modes, and the recovery after it, as a row of a Markdown table."""
    counts = (
        sum(tally.faults[name, mode] for mode in MODES) for name in (act.name, f"recover after {act.name}")
    )
    return f"| {act.name} | {' | '.join(f'{number:,}' for number in counts)} |"


def total(tally: Tally) -> str:
    """Return what was found in all."""
    found = ", ".join(f"{times:,} {outcome}" for outcome, times in sorted(tally.outcomes.items()))
    return f"{sum(tally.faults.values()):,} faults: {found}; wrong: {len(tally.wrong)}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix and print its counts; 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [act.name for act in ACTS]
    parser.add_argument("--act", action="append", choices=names, help="this one only; may be given again")
    parser.add_argument("--every", type=int, default=1, help="stop at every N-th call only")
    parser.add_argument("--doubled", type=int, default=3, help="for two stops, every N-th call; 0: none")
    options = parser.parse_args(arguments)
    print("| | stopped | and its recovery stopped |\n| --- | ---: | ---: |", flush=True)
    one_runtime_of_few_files()
    with tempfile.TemporaryDirectory() as folder:
        # What a person resolved is remembered there.
        os.environ |= {"XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder}
        # The same commit has the same id in each tree.
        os.environ |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2000000000 +0000")
        matrix = Matrix(Path(folder))
        with asking_once(Path(folder)):
            for act in (act for act in ACTS if act.name in (options.act or names)):
                matrix.run(act, options.every, options.doubled)
                print(row(matrix.tally, act), flush=True)
    print(f"\n{total(matrix.tally)}")
    for line in matrix.tally.wrong[:20]:
        print(f"wrong: {line}")
    return 1 if matrix.tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

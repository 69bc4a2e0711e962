"""System calls that change something, counted, and made to fail, to be cut short or to kill the process."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.transaction import folder
from support.sweeps import is_every

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

NAMES = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "fsync",
    "rename",
    "link",
    "symlink",
    "unlink",
    "mkdir",
    "rmdir",
    "fchmod",
    "fchown",
)

_PWRITE = os.pwrite
_PATCHKIT = f"{Path(folder.__file__).parents[1]}{os.sep}"

_GIT = frozenset(
    (
        "add",
        "checkout",
        "commit",
        "merge",
        "read-tree",
        "update-index",
        "update-ref",
        "worktree",
        "write-tree",
    )
)


def _changes_files(name: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether a call changes files: an open may only read, and a write may be to the formatter's pipe."""
    if name == "run":
        return arguments[0][0] == "git" and not _GIT.isdisjoint(arguments[0])
    if name == "open":
        return bool(len(arguments) > 1 and arguments[1] & os.O_CREAT)
    return name != "write" or not stat.S_ISFIFO(os.fstat(arguments[0]).st_mode)


def _callers(name: str) -> tuple[tuple[str, int], ...]:
    """Return the innermost lines of patchkit that a call is made by; every git is started by the same two."""
    frames = (frame for frame, _ in traceback.walk_stack(sys._getframe(2)))
    own = (frame for frame in frames if frame.f_code.co_filename.startswith(_PATCHKIT))
    return tuple(
        (frame.f_code.co_filename, frame.f_lineno) for frame in islice(own, 5 if name == "run" else 2)
    )


@dataclass
class Faults:
    """The calls so far; ``instead`` receives each call before it is made, and may raise or end the process.

    Calls that ``instead`` makes are not counted.
    """

    instead: Callable[[int, str, tuple[Any, ...]], None] = lambda number, name, arguments: None
    calls: list[str] = field(default_factory=list)
    places: list[Hashable] = field(default_factory=list)
    """Each call with the lines that it was made by."""
    _is_within: bool = False
    _is_told: bool = False
    _alike: set[Hashable] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.calls)

    def _counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **keys: Any) -> Any:
            if not self._is_within and _changes_files(name, arguments):
                self.calls.append(name)
                self.places.append((name, _callers(name)))
                self._is_within = True
                try:
                    self.instead(self.count, name, arguments)
                finally:
                    self._is_within = False
            return function(*arguments, **keys)

        return counted

    def tells(self, *, itself: bool = False) -> bool:
        """Return whether this call is the first that its lines made since lines made one for the first time.

        Unless the call ``itself`` is altered, one after an fsync that told something tells that again. In a run of
        all tests every call counts. Ask once for each call.
        """
        place = self.places[-1]
        if place not in self.places[:-1]:
            self._alike.clear()
        is_new = place not in self._alike
        self._alike.add(place)
        self._is_told = self._is_told and self.calls[-2:-1] == ["fsync"]
        told = is_every() or (is_new and (itself or not self._is_told))
        self._is_told = self._is_told or told
        return told

    @contextmanager
    def on(self) -> Iterator[Faults]:
        """Count and replace calls within this context."""
        owners = [(os, name) for name in NAMES] + [(folder, "exchange"), (subprocess, "run")]
        whole = [(owner, name, getattr(owner, name)) for owner, name in owners]
        for owner, name, function in whole:
            setattr(owner, name, self._counting(name, function))
        try:
            yield self
        finally:
            for owner, name, function in whole:
                setattr(owner, name, function)


def failing(at: int, code: int, *, lasting: bool = False) -> Faults:
    """Make call number ``at`` fail with an error; if lasting, also all later calls that write new content."""

    def instead(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        # A disk that stays full takes no new content, while renames and removals go through.
        hits = name in {"open", "write", "mkdir", "link"} and number >= at if lasting else number == at
        if hits:
            raise OSError(code, os.strerror(code), str(arguments[0]))

    return Faults(instead)


def interrupting(at: int) -> Faults:
    """Raise KeyboardInterrupt at call number ``at``."""

    def instead(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if number == at:
            raise KeyboardInterrupt

    return Faults(instead)


def tearing(at: int, end: Callable[[], None]) -> Faults:
    """Call ``end`` at call number ``at``; if that call writes, write a part of its data first."""

    def instead(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if number == at:
            if name == "write":
                _write_half(*arguments)
            end()

    return Faults(instead)


def _write_half(handle: int, content: bytes) -> None:
    _PWRITE(handle, bytes(content)[: len(content) // 2], 0)


def killed(act: Callable[[], object], at: int, *, torn: bool = False) -> bool:
    """Run ``act`` in a process that is killed at call number ``at``; False if it ended before."""
    child = os.fork()
    if child == 0:
        try:
            faults = (
                tearing(at, lambda: os._exit(9))
                if torn
                else Faults(lambda number, name, arguments: os._exit(9) if number == at else None)
            )
            with faults.on():
                act()
            os._exit(0)
        except BaseException:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def telling(act: Callable[[], object], *, itself: bool = False) -> list[int]:
    """Run ``act``; return the numbers of those of its calls that tell something, and at last one past them.

    With ``itself`` as in `Faults.tells`.
    """
    numbers: list[int] = []

    def note(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if faults.tells(itself=itself):
            numbers.append(number)

    faults = Faults(note)
    with faults.on():
        act()
    return [*numbers, faults.count + 1]


def killings(act: Callable[[], object], *folders: Path, torn: bool = False) -> Iterator[int]:
    """Yield numbers of calls; each time ``folders`` are what ``act`` leaves if it is killed there, at last if it ends.

    ``act`` runs once: what a killed process leaves is what there was before its call, which is copied.
    """
    numbers: list[int] = []
    with tempfile.TemporaryDirectory(dir=folders[0].parent) as kept:

        def place(number: int, folder: Path) -> Path:
            return Path(kept, f"{number}-{folders.index(folder)}")

        def keep(number: int, name: str, arguments: tuple[Any, ...]) -> None:
            if not faults.tells(itself=torn):
                return
            numbers.append(number)
            with torn_write(name, arguments, torn=torn):
                for folder in folders:
                    copy_folder(folder, place(number, folder))

        faults = Faults(keep)
        with faults.on():
            act()
        assert faults.count >= 10
        for folder in folders:
            folder.rename(place(faults.count + 1, folder))
        for number in (*numbers, faults.count + 1):
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
                place(number, folder).rename(folder)
            yield number


@contextmanager
def torn_write(name: str, arguments: tuple[Any, ...], *, torn: bool) -> Iterator[None]:
    """If ``torn`` and the call writes, write a part of its data, and take that back at the end."""
    if not torn or name != "write":
        yield
        return
    size = os.fstat(arguments[0]).st_size
    _write_half(*arguments)
    yield
    os.ftruncate(arguments[0], size)


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a folder with the times of its files, and those names of one file that are links to each other."""
    copies: dict[int, str] = {}

    def copy(source: str, target: str) -> None:
        known = os.lstat(source)
        if known.st_ino in copies:
            os.link(copies[known.st_ino], target)
        else:
            shutil.copy2(source, target)
            copies[known.st_ino] = target

    shutil.copytree(folder, to, symlinks=True, copy_function=copy)
    for path in filter(Path.is_symlink, folder.rglob("*")):
        if path.lstat().st_nlink > 1:
            copied = to / path.relative_to(folder)
            first = copies.setdefault(path.lstat().st_ino, str(copied))
            if first != str(copied):
                copied.unlink()
                os.link(first, copied, follow_symlinks=False)


ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS}

"""Write the new content of every file and the record, or leave all of them unchanged.

A write stores a journal and all contents, old and new, in patchkit's own folder, and stages each new file beside the
old one; then each pair is exchanged, the record last. A failure is rolled back; a killed write is finished or rolled
back by ``recover``. A write that moves a checkout to another commit leaves the contents to git, and moves the branch
last.
"""

from __future__ import annotations

import errno
import os
import posixpath
import resource
import stat
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from msgspec import UNSET

from patchkit.errors import PatchkitError, TreeError, UnfinishedError
from patchkit.plan import record
from patchkit.plan.record import is_file, is_outside, is_record_file
from patchkit.transaction import byte_code
from patchkit.transaction.current import hidden_files
from patchkit.transaction.folder import Folder
from patchkit.transaction.journal import Journal, Kinds
from patchkit.transaction.lock import exclusive
from patchkit.transaction.store import Store
from patchkit.transaction.swap import (
    FileKind,
    Swap,
    concurrent_change_error,
    digest_of,
    staged_name,
    unfinished_name,
)
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import top_around
from patchkit.tree.names import is_unsafe
from patchkit.tree.tree import CheckoutTree, ReadTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from patchkit.plan.record import Record

_Result = TypeVar("_Result")
_TRIES = 5
_NOTHING_CHANGED = "nothing was changed; fix the cause and try again"
Exchange = tuple[bytes | None, bytes | None]
"""A file's bytes before and after a write, None if it does not exist; those of a link are its target."""


def require_no_pending_write(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` is running or was interrupted."""
    if Store(tree.package).pending:
        raise TreeError(
            f"a write to {tree.package} is running or was interrupted",
            advice=f"if no other patchkit is running, run patchkit apply --continue {tree.argument}",
        )


def read_consistently(tree: CheckoutTree, compute: Callable[[ReadTree], _Result]) -> _Result:
    """Return what ``compute`` returns for the tree; it is called again if a file that it reads changes meanwhile.

    Raise TreeError if a write to ``tree`` is running or was interrupted, or if files keep changing.
    """
    store = Store(tree.package)
    for _ in range(_TRIES):
        generation, read = store.generation, ReadTree(tree.root, tree.package)
        require_no_pending_write(tree)
        try:
            result = compute(read)
        except Exception:
            # Files from before and after a write can make an answer fail in any way.
            if store.generation == generation and read.is_unchanged:
                raise
        else:
            if store.generation == generation and read.is_unchanged:
                return result
    raise concurrent_change_error(tree.package)


@contextmanager
def locked(tree: CheckoutTree, *, recovering: bool = False) -> Iterator[Store]:
    """Lock the tree and create patchkit's own folder. Raise TreeError if it is locked already or read-only."""
    _require_writable(tree.package)
    store = Store(tree.package)
    with ExitStack() as stack:
        with wrapped_os_errors(tree):
            is_new = stack.enter_context(exclusive(tree.package))
            try:
                # Both raise for files that are damaged or from a newer patchkit.
                record.read(tree)
                store.journal()
                store.create()
            except BaseException:
                if is_new:
                    store.tidy(frozenset())
                raise
        try:
            if not recovering:
                require_no_pending_write(tree)
            yield store
        finally:
            with suppress(TreeError):
                store.tidy(record.read(CheckoutTree(tree.root, tree.package)).contents)


@contextmanager
def wrapped_os_errors(
    tree: CheckoutTree, advice: str = _NOTHING_CHANGED, kind: type[PatchkitError] = TreeError
) -> Iterator[None]:
    """Raise errors of the operating system, and an interruption that leaves a write unfinished, as ``kind``."""
    try:
        yield
    except KeyboardInterrupt as error:
        if kind is not UnfinishedError:
            raise
        raise kind("patchkit was interrupted", where=tree.package, advice=advice) from error
    except OSError as error:
        raise kind(str(error.strerror), where=error.filename or tree.package, advice=advice) from error
    except TreeError as error:
        if kind is TreeError:
            raise
        raise kind(error.what, where=error.where, advice=error.advice) from error


class Place(NamedTuple):
    """A file's real location: the folders from the package to it, ``..`` for one above, and its name."""

    folders: tuple[str, ...]
    name: str

    @property
    def above(self) -> tuple[str, ...]:
        """The paths of the folders that contain the file, outermost first."""
        return tuple("/".join(self.folders[:end]) for end in range(1, len(self.folders) + 1))


def place_of(tree: CheckoutTree, file: str, *, exists: bool, is_followed: bool = True) -> Place:
    """Return the location of ``file``, which exists if ``exists``: of a link the file's, unless it is not followed.

    Raise TreeError if it is outside the package, or outside the checkout if its name leads out of the package.
    """
    named = tree.package / file
    is_within = is_file(file) or is_record_file(file)
    if not is_within and not is_outside(file):
        raise TreeError(f"{file!r} is not a valid file name in the package", advice="rename it")
    try:
        is_resolved = exists and is_followed
        path = named.resolve(strict=True) if is_resolved else _resolved_parent(named) / named.name
        kind = path.lstat().st_mode if exists or path.is_symlink() or path.exists() else None
    except (OSError, RuntimeError) as error:
        raise TreeError(f"{named} cannot be read ({error})", advice="restore it and try again") from error
    if is_within and not path.is_relative_to(tree.package):
        raise TreeError(
            f"{named} is a link out of the tree, to {path}", advice="replace it with a copy of the file"
        )
    if not is_within and not _is_beside(tree.package, path):
        raise TreeError(
            f"{path} is not in the checkout beside {tree.package}", advice="name a file that git can track"
        )
    if not exists and kind is not None:
        raise TreeError(f"{named} already exists", advice="move it away and try again")
    if kind is not None and not (stat.S_ISREG(kind) or (stat.S_ISLNK(kind) and not is_followed)):
        raise TreeError(f"{named} is not a regular file", advice="replace it with one")
    *folders, name = Path(os.path.relpath(path, tree.package)).parts
    return Place(tuple(folders), name)


def record_path(tree: CheckoutTree) -> Path:
    """Return the folder where the record is, or is to be written: patchkit's own folder if git cannot tell."""
    existing = tree.record_path
    if existing is not None:
        return existing
    paths = tree.record_paths
    with suppress(TreeError):
        if Checkout.tracking(tree.package) is not None:
            return paths[0]
    return paths[-1]


def _is_beside(package: Path, path: Path) -> bool:
    """Return whether a path is outside the package, but in its checkout, and not in git's folder."""
    top = top_around(package)
    if top is None or path.is_relative_to(package) or not path.is_relative_to(top):
        return False
    return not any(map(is_unsafe, path.relative_to(top).parts))


def _resolved_parent(named: Path) -> Path:
    """Resolve the links in a file's folders, as far as these exist."""
    missing: list[str] = []
    folder = named.parent
    while not os.path.lexists(folder):
        missing.insert(0, folder.name)
        folder = folder.parent
    return folder.resolve(strict=True).joinpath(*missing)


def _require_writable(path: Path) -> None:
    # Root may write everywhere, but a file without any write bit is meant not to be changed.
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise TreeError(
            f"{path} is read-only", advice="make it writable (chmod u+w) or work on a copy of the tree"
        )


class Targets(NamedTuple):
    """Contents that can be written, each file's location, and the folders to create, outermost first."""

    contents: Mapping[str, Exchange]
    places: Mapping[str, Place]
    new_folders: tuple[str, ...]
    kinds: Mapping[str, Kinds] = MappingProxyType({})


def check_targets(
    tree: CheckoutTree, contents: Mapping[str, Exchange], kinds: Mapping[str, Kinds] = MappingProxyType({})
) -> Targets:
    """Return the targets of a write. Raise TreeError if one cannot be written or differs from its old content."""
    places: dict[str, Place] = {}
    new_folders: dict[str, None] = {}
    for file, (before, after) in contents.items():
        place = place_of(tree, file, exists=before is not None, is_followed=file not in kinds)
        path = Path(os.path.normpath(tree.package.joinpath(*place.folders, place.name)))
        is_link = file in kinds and path.is_symlink()
        if before is not None and not is_link:
            _require_writable(path)
            if byte_code.exists(path):
                _require_writable(path.parent / byte_code.FOLDER)
        above = next(folder for folder in path.parents if folder.exists())
        _require_writable(above)
        if not above.is_dir():
            raise TreeError(
                f"{above} is not a folder", advice=f"{path} needs one there: move it away and try again"
            )
        if (os.readlink(os.fsencode(path)) if is_link else tree.read(file)) != before:
            raise concurrent_change_error(path)
        same = next((other for other, seen in places.items() if seen == place), None)
        if same is not None:
            raise TreeError(
                f"{same} and {file} are the same file", advice="replace the link with a copy of the file"
            )
        staged = staged_name(place.name)
        for aside in map(path.with_name, (staged, unfinished_name(staged))):
            if os.path.lexists(aside):
                raise TreeError(f"{aside} already exists", advice="move it away and try again")
        places[file] = place
        if after is not None:
            new_folders |= {
                folder: None for folder in place.above if not os.path.lexists(tree.package / folder)
            }
    return Targets(contents, places, tuple(new_folders), kinds)


class MovingCheckout(Protocol):
    """A checkout that moves from a commit to another, with its files."""

    top: Path
    base: str
    last: str

    @property
    def kinds(self) -> Mapping[str, tuple[FileKind, FileKind]]:
        """The kinds of each file before and after."""
        ...

    def keep(self) -> None:
        """Keep git from removing the new commit as unused."""
        ...

    def forget(self) -> None:
        """Let git remove the new commit if nothing else has it."""
        ...

    def begin(self) -> None:
        """Keep other programs from moving the checkout."""
        ...

    def complete(self) -> None:
        """Move the branch, when every file is in place. If this raises TreeError, the branch is where it was."""
        ...

    def end(self) -> None:
        """Let other programs move the checkout again."""
        ...


class Write:
    """A write in progress: the folders are open, and each file is one swap.

    The files are named from the package, or from the top of the checkout if it moves.
    """

    def __init__(
        self,
        tree: CheckoutTree,
        store: Store,
        journal: Journal,
        places: Mapping[str, Place],
        content: Callable[[str], bytes],
        *,
        move: MovingCheckout | None = None,
    ) -> None:
        self.tree = tree
        self.store = store
        self.journal = journal
        self.swaps: list[Swap] = []
        self._places = places
        self._content = content
        self.move = move
        self._stack = ExitStack()
        self._opened: dict[tuple[str, ...], Folder] = {}

    def __enter__(self) -> Write:
        if self.move:
            # A move opens each folder of its files, of which a merge has more than many systems let a process open.
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with ExitStack() as stack:
            root = self.move.top if self.move else self.tree.package
            self._root = stack.enter_context(Folder.open(root))
            # A file that takes the place of a folder cannot be staged beside it.
            staging = stack.enter_context(self.store.staging()) if self.move else None
            self._stack = stack.pop_all()
        for file, (before, after) in self.journal.files.items():
            place = self._places[file]
            kinds = self.move.kinds[file] if self.move else self.journal.known_kinds.get(file)
            aside = (staging, file) if staging else None
            opened = partial(self._folder, place.folders)
            self.swaps.append(Swap(file, opened, place.name, before, after, self._content, kinds, aside))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _folder(self, folders: tuple[str, ...]) -> Folder:
        """Return a folder, opened without following links. Raise OSError if it does not exist."""
        if folders not in self._opened:
            self._opened[folders] = self._stack.enter_context(self._root.open_path(folders))
        return self._opened[folders]

    @property
    def reachable(self) -> list[Swap]:
        """The files whose folder exists."""
        return list(filter(_has_folder, self.swaps))

    def create_folders(self, folders: Sequence[str]) -> None:
        """Create folders that do not exist, outermost first."""
        for folder in sorted(folders, key=len):
            *above, name = folder.split("/")
            with self._root.open_path(tuple(above)) as parent:
                parent.create_folder(name)

    def remove_empty_folders(self, folders: Sequence[str]) -> None:
        """Remove those of the folders that are empty, innermost first."""
        for folder in sorted(folders, key=len, reverse=True):
            parent_path, name = posixpath.split(folder)
            # It may be created again.
            self._opened.pop(tuple(folder.split("/")), None)
            try:
                with self._root.open_path(tuple(parent_path.split("/")) if parent_path else ()) as parent:
                    parent.remove_empty_folder(name)
            except OSError as error:
                # A folder above is gone, or a file is in its place.
                if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                    raise

    def require_in_place(self, swaps: Sequence[Swap]) -> None:
        """Raise TreeError if a folder of ``swaps`` was moved since it was opened."""
        for folders, opened in {self._places[swap.file].folders: swap.folder for swap in swaps}.items():
            try:
                with self._root.open_path(folders) as current:
                    is_moved = not current.is_same(opened)
            except OSError:
                is_moved = True
            if is_moved:
                raise TreeError(f"{opened.path} was moved while patchkit was running", advice="try again")

    def stage(self) -> None:
        """Write the new content of each file aside."""
        if not self.move:
            self.create_folders(self.journal.made)
            self.require_in_place(self.swaps)
        for swap in self.swaps:
            swap.stage()

    def publish(self) -> None:
        """Put the new content of each file in place."""
        first, others = self._parted()
        self._publish(first)
        if self.move:
            self.remove_empty_folders(self.journal.emptied)
            self.create_folders(self.journal.made)
        self._publish(others)
        self.require_in_place(others)

    def _publish(self, swaps: Sequence[Swap]) -> None:
        for swap in swaps:
            self.require_in_place([swap])
            swap.publish()

    def undo(self) -> None:
        """Restore the old content of each file, from any stage of the write."""
        last, others = self._parted()
        for swap in reversed(others):
            _undo(swap)
        self.remove_empty_folders(self.journal.made)
        if last:
            self.create_folders(self.journal.emptied)
        for swap in last:
            swap.undo()

    def end(self) -> None:
        """End the journal, whose commit git may remove afterwards."""
        self.store.end()
        if self.move:
            self.move.forget()

    def _parted(self) -> tuple[list[Swap], list[Swap]]:
        """Return apart the files whose place a folder may take, or whose folder a file may replace, and the others."""
        parts: tuple[list[Swap], list[Swap]] = ([], [])
        for swap in self.swaps:
            parts[0 if self.move and swap.after is None else 1].append(swap)
        return parts


def _has_folder(swap: Swap) -> bool:
    try:
        swap.opened()
    except OSError as error:
        # In a move, a file or link can be in the place of the folder of a file that only one commit has.
        is_replaced = swap.staging is not None and None in (swap.before, swap.after)
        if error.errno != errno.ENOENT and not (is_replaced and error.errno in {errno.ENOTDIR, errno.ELOOP}):
            raise
        return False
    return True


def _undo(swap: Swap) -> None:
    if _has_folder(swap):
        swap.undo()
    elif swap.staging:
        swap.discard_staged()


def write_all(
    tree: CheckoutTree,
    store: Store,
    contents: Mapping[str, Exchange],
    after: Record,
    *,
    kept: Sequence[bytes] = (),
    kinds: Mapping[str, Kinds] = MappingProxyType({}),
) -> None:
    """Write the new content of every file and the record, or leave all unchanged and raise TreeError.

    ``kept`` are further contents that the record refers to. Only those of its files that differ are written; that of a
    port of whose code a stash may have a part stays. Folders of deleted files are removed if they are empty. ``kinds``
    are as in a journal.
    """
    fresh = CheckoutTree(tree.root, tree.package)
    old, new = fresh.record(), record.files_of(after)
    new |= {name: old[name] for name in hidden_files(fresh, after)}
    folder = os.path.relpath(record_path(fresh), fresh.package)
    pairs = {name: (old.get(name), new.get(name)) for name in sorted({*old, *new})}
    recorded = {posixpath.join(folder, name): pair for name, pair in pairs.items() if pair[0] != pair[1]}
    targets = check_targets(fresh, {**contents, **recorded}, kinds)
    removed = (targets.places[file] for file, (_, text) in contents.items() if text is None)
    emptied = {folder: None for place in removed for folder in place.above if not folder.startswith("..")}
    if old and not new:
        emptied[folder] = None
    write_targets(tree, store, targets, kept=kept, emptied=tuple(emptied))


def write_targets(
    tree: CheckoutTree,
    store: Store,
    targets: Targets,
    *,
    kept: Sequence[bytes] = (),
    emptied: Sequence[str] = (),
    move: MovingCheckout | None = None,
) -> None:
    """Write the new content of every file, or leave all unchanged and raise TreeError.

    ``kept`` are further contents to store; ``emptied`` are folders to remove if they are empty. With ``move`` the
    checkout moves.
    """
    contents: dict[str, tuple[bytes, FileKind]] = {}
    files: dict[str, tuple[str | None, str | None]] = {}
    written_kinds = move.kinds if move else targets.kinds
    for file, pair in targets.contents.items():
        digests: list[str | None] = []
        for text, kind in zip(pair, written_kinds.get(file, (FileKind.PLAIN, FileKind.PLAIN)), strict=True):
            digests.append(None if text is None else digest_of(text, kind))
            contents |= {digest_of(text, kind): (text, kind)} if text is not None else {}
        files[file] = (digests[0], digests[1])
    kinds = dict(targets.kinds) or UNSET
    journal = Journal(files, tuple(map(digest_of, kept)), targets.new_folders, tuple(emptied), kinds=kinds)
    # Git has the contents and the names, of which a journal cannot contain all.
    stored = Journal(files, move=(move.base, move.last)) if move else journal
    in_progress = Write(tree, store, journal, targets.places, lambda digest: contents[digest][0], move=move)
    with wrapped_os_errors(tree), in_progress as write:
        try:
            if move:
                move.keep()
            store.begin(stored)
            if move:
                move.begin()
            for text in kept:
                store.put(text)
            for text, kind in () if move else contents.values():
                store.put(text, kind)
            write.stage()
            write.publish()
            if move:
                move.complete()
        except UnfinishedError:
            raise
        except BaseException:
            _roll_back(write)
            raise
        clean_up(write)


def clean_up(write: Write) -> None:
    """Delete the old contents beside the files, and the journal. Raise UnfinishedError if the system refuses."""
    advice = f"all files are written; run patchkit apply --continue {write.tree.argument}"
    with wrapped_os_errors(write.tree, advice, UnfinishedError):
        for swap in write.swaps:
            swap.discard_old()
        if write.move:
            write.move.end()
        else:
            write.remove_empty_folders(write.journal.emptied)
        write.end()


def _roll_back(write: Write) -> None:
    advice = f"the write is interrupted; run patchkit apply --continue {write.tree.argument}"
    with wrapped_os_errors(write.tree, advice, UnfinishedError):
        write.undo()
        if write.move:
            write.move.end()
        write.end()

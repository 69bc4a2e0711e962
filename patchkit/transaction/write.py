"""Every file of a write and the ledger get their next content, or all keep the one that they have.

A write notes itself in a journal, keeps every content that it takes or gives in the ledger's folder and stages
the new files beside the old ones; then each changes names with its file. What fails in between is taken back;
what is killed in between is finished or taken back by ``recover``.
"""

from __future__ import annotations

import os
import posixpath
import stat
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError, TreeError, UnfinishedError
from patchkit.transaction.folder import Folder
from patchkit.transaction.ledger import Journal, is_file
from patchkit.transaction.lock import exclusive
from patchkit.transaction.store import Store
from patchkit.transaction.swap import Swap, aside_of, digest_of, digest_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.transaction.ledger import Ledger
    from patchkit.tree.tree import CheckoutTree

Contents = tuple[bytes | None, bytes | None]
"""A file's bytes before and after a write; None stands for no file."""


def require_settled(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` is under way or was interrupted."""
    if Store(tree.package).pending:
        raise TreeError(
            f"a write to {tree.package} is under way or was interrupted",
            advice=f"if no other patchkit is at work, run patchkit apply --continue {tree.root}",
        )


@contextmanager
def locked(tree: CheckoutTree, *, recovering: bool = False) -> Iterator[Store]:
    """Hold the tree's lock, with its ledger's folder made; TreeError if another holds it or it is read-only."""
    _require_writable(tree.package)
    store = Store(tree.package)
    # What is there but no ledger of ours, or one of a newer patchkit, is left as it is.
    store.read()
    store.journal()
    with ExitStack() as stack:
        with refusing(tree, "nothing was changed; fix the cause and try again"):
            fresh = stack.enter_context(exclusive(tree.package))
            try:
                store.create()
            except BaseException:
                if fresh:
                    store.tidy()
                raise
        try:
            if not recovering:
                require_settled(tree)
            yield store
        finally:
            store.tidy()


@contextmanager
def refusing(tree: CheckoutTree, advice: str, kind: type[PatchkitError] = TreeError) -> Iterator[None]:
    """Turn what the system refuses into a refusal that ends in ``advice``."""
    try:
        yield
    except OSError as error:
        raise kind(f"{error.filename or tree.package}: {error.strerror}: {advice}.") from error
    except TreeError as error:
        raise error if kind is TreeError else kind(str(error)) from error


@dataclass(frozen=True)
class Place:
    """Where a file really is: the folders from the package down to it, and its name in the last one."""

    folders: tuple[str, ...]
    name: str

    @property
    def above(self) -> tuple[str, ...]:
        """The folders that the file is in, as the ledger names them, outermost first."""
        return tuple("/".join(self.folders[:end]) for end in range(1, len(self.folders) + 1))


def place_of(tree: CheckoutTree, file: str, *, there: bool) -> Place:
    """Return where ``file`` is, or, if it is not to be ``there``, belongs; TreeError unless in the package."""
    named = tree.package / file
    if not is_file(file):
        raise TreeError(f"{file!r} is no name of a file in the package: give it another name.")
    try:
        path = named.resolve(strict=True) if there else _resolved_parent(named) / named.name
        kind = path.lstat().st_mode if there or path.is_symlink() or path.exists() else None
    except (OSError, RuntimeError) as error:
        raise TreeError(f"{named} cannot be reached ({error}): put it back and try again.") from error
    if not path.is_relative_to(tree.package):
        raise TreeError(f"{named} leads out of the tree to {path}: put a copy of the file in its place.")
    if not there and kind is not None:
        raise TreeError(f"{named} is there already: move it away and try again.")
    if kind is not None and not stat.S_ISREG(kind):
        raise TreeError(f"{named} is not a regular file: put one in its place.")
    *folders, name = path.relative_to(tree.package).parts
    return Place(tuple(folders), name)


def _resolved_parent(named: Path) -> Path:
    """Resolve the folders above a file as far as they are there."""
    missing: list[str] = []
    folder = named.parent
    while not os.path.lexists(folder):
        missing.insert(0, folder.name)
        folder = folder.parent
    return folder.resolve(strict=True).joinpath(*missing)


def _require_writable(path: Path) -> None:
    # Root may write everywhere, yet a file without any write bit says that its owner wants it left alone.
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise TreeError(f"{path} is read-only: make it writable (chmod u+w) or work on a copy of the tree.")


@dataclass(frozen=True)
class Checked:
    """Contents that may be written: where each file is, and the folders, outermost first, that it takes."""

    contents: Mapping[str, Contents]
    places: Mapping[str, Place]
    made: tuple[str, ...]


def checked(tree: CheckoutTree, contents: Mapping[str, Contents]) -> Checked:
    """Check that each file may be written and stands as the first of its contents."""
    places: dict[str, Place] = {}
    made: dict[str, None] = {}
    for file, (before, after) in contents.items():
        place = place_of(tree, file, there=before is not None)
        path = tree.package.joinpath(*place.folders, place.name)
        if before is not None:
            _require_writable(path)
        _require_writable(next(folder for folder in path.parents if folder.exists()))
        if tree.read(file) != before:
            raise TreeError(f"{path} was changed while patchkit was at work: try again.")
        twin = next((other for other, known in places.items() if known == place), None)
        if twin is not None:
            raise TreeError(f"{twin} and {file} are the same file: put a copy in place of the link.")
        aside = path.with_name(aside_of(place.name))
        if os.path.lexists(aside):
            raise TreeError(f"{aside} is in the way: move it elsewhere and try again.")
        places[file] = place
        if after is not None:
            made |= {folder: None for folder in place.above if not os.path.lexists(tree.package / folder)}
    return Checked(contents, places, tuple(made))


class Write:
    """A write to files of a tree whose folders are open; every file is one swap."""

    def __init__(
        self,
        tree: CheckoutTree,
        store: Store,
        journal: Journal,
        places: Mapping[str, Place],
        content: Callable[[str], bytes],
    ) -> None:
        self.tree = tree
        self.store = store
        self.journal = journal
        self._places = places
        self._content = content
        self._stack = ExitStack()
        self.swaps: list[Swap] = []

    def __enter__(self) -> Write:
        self._package = self._stack.enter_context(Folder.open(self.tree.package))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self) -> None:
        """Open the folder of every file that is there, and only follow what is a folder."""
        opened: dict[tuple[str, ...], Folder] = {}
        for file, (before, after) in self.journal.files.items():
            place = self._places[file]
            if place.folders not in opened:
                try:
                    folder = self._package.reach(place.folders)
                except FileNotFoundError:
                    continue
                opened[place.folders] = self._stack.enter_context(folder)
            self.swaps.append(Swap(file, opened[place.folders], place.name, before, after, self._content))

    def make_folders(self) -> None:
        """Make the folders that the write brings."""
        for folder in self.journal.made:
            *above, name = folder.split("/")
            with self._package.reach(tuple(above)) as parent:
                parent.make(name)

    def unmake_folders(self, folders: Sequence[str]) -> None:
        """Remove those of the folders that are empty, innermost first."""
        for folder in sorted(folders, key=len, reverse=True):
            above, name = posixpath.split(folder)
            try:
                with self._package.reach(tuple(above.split("/")) if above else ()) as parent:
                    parent.unmake(name)
            except FileNotFoundError:
                continue

    def require_in_place(self) -> None:
        """Raise TreeError if a folder is no longer where it was opened."""
        for swap in self.swaps:
            try:
                with self._package.reach(self._places[swap.file].folders) as now:
                    moved = not now.is_same(swap.folder)
            except OSError:
                moved = True
            if moved:
                raise TreeError(f"{swap.folder.path} was moved while patchkit was at work: try again.")


def write_all(
    tree: CheckoutTree,
    store: Store,
    checked: Checked,
    *,
    before: Ledger,
    after: Ledger,
    kept: Sequence[bytes] = (),
    emptied: Sequence[str] = (),
) -> None:
    """Give every file and the ledger their new content, or leave every one as it is and raise TreeError.

    ``kept`` are contents that the new ledger refers to; ``emptied`` are folders that go if nothing is in them.
    """
    known = {digest_of(text): text for pair in checked.contents.values() for text in pair if text is not None}
    files = {
        file: (digest_or_none(old), digest_or_none(new)) for file, (old, new) in checked.contents.items()
    }
    journal = Journal(files, after, checked.made, tuple(emptied))
    begun: list[Swap] = []
    with Write(tree, store, journal, checked.places, known.__getitem__) as write:
        try:
            store.begin(journal)
            for text in (*kept, *known.values()):
                store.put(text)
            store.stage(after)
            write.make_folders()
            write.open()
            write.require_in_place()
            for swap in write.swaps:
                begun.append(swap)
                swap.stage()
            for swap in write.swaps:
                write.require_in_place()
                swap.publish()
            store.publish()
        except BaseException as error:
            _roll_back(write, begun, before)
            if isinstance(error, OSError):
                raise TreeError(
                    f"{error.filename or tree.package}: {error.strerror}: nothing was changed; fix the cause "
                    "and try again."
                ) from error
            raise
        end(write)


def end(write: Write) -> None:
    """Let go of what was kept aside and of the journal; UnfinishedError if the system refuses."""
    advice = f"everything is written; run patchkit apply --continue {write.tree.root}"
    with refusing(write.tree, advice, UnfinishedError):
        for swap in write.swaps:
            swap.settle()
        write.unmake_folders(write.journal.emptied)
        write.store.end()


def _roll_back(write: Write, begun: Sequence[Swap], before: Ledger) -> None:
    store = write.store
    advice = f"the write is interrupted; run patchkit apply --continue {write.tree.root}"
    with refusing(write.tree, advice, UnfinishedError):
        for swap in reversed(begun):
            swap.undo()
        write.unmake_folders(write.journal.made)
        store.unstage()
        if store.read() != before:
            store.stage(before)
            store.publish()
        store.end()

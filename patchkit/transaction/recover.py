"""Finish or roll back an interrupted write, and keep what was changed since."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from patchkit.errors import TreeError, UnfinishedError
from patchkit.transaction.store import Store
from patchkit.transaction.swap import FileState
from patchkit.transaction.write import Place, Write, clean_up, locked, place_of, wrapped_os_errors
from patchkit.tree.fork import is_of_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.transaction.swap import Swap
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Recovery:
    """How an interrupted write ended: ``finished``, ``rolled-back``, or ``nothing`` if there was none."""

    action: str
    files: tuple[str, ...] = ()


def recover(tree: CheckoutTree, *, roll_back: bool = False) -> Recovery:
    """Finish an interrupted write if all of its contents are on disk; otherwise, or with ``roll_back``, roll it back.

    Raise TreeError, with nothing written, if one of the files was changed since, or if with ``roll_back`` every file is
    already written. Raise UnfinishedError if the system refuses in between.
    """
    with Store(tree.package).opened() as folder:
        if folder is None:
            return Recovery("nothing")
    with locked(tree, recovering=True) as store:
        journal = store.journal()
        if journal is None:
            return Recovery("nothing")
        places = {
            file: _place(tree, file, is_followed=file not in journal.known_kinds) for file in journal.files
        }
        with Write(tree, store, journal, places, store.get) as write:
            with wrapped_os_errors(
                tree, "nothing was changed; fix the cause and run patchkit apply --continue again"
            ):
                reachable = write.reachable
            # All contents are stored before the first file is changed: if one is missing, no file was.
            finish = not roll_back and all(map(store.has, journal.contents))
            if finish:
                _require_finishable(store, reachable)
                _finish(write)
            else:
                write.swaps[:] = reachable = _without_others_files(write, reachable)
                if roll_back and reachable and all(s.states()[0] is FileState.AFTER for s in reachable):
                    raise TreeError(
                        f"all files of the write to {tree.package} are already written",
                        advice=f"patchkit apply --continue {tree.argument}, then undo it: an apply with patchkit "
                        "revert, a revert with patchkit apply",
                    )
                require_undoable(reachable, partial(_changed_error, store))
                with wrapped_os_errors(write.tree, _advice(write), UnfinishedError):
                    write.undo()
                    write.store.end()
    files = tuple(file for file in journal.files if not is_of_record(file))
    return Recovery("finished" if finish else "rolled-back", files)


def _place(tree: CheckoutTree, file: str, *, is_followed: bool) -> Place:
    try:
        return place_of(tree, file, exists=True, is_followed=is_followed)
    except TreeError:
        # The write creates or deletes this file.
        return place_of(tree, file, exists=False)


def _without_others_files(write: Write, swaps: Sequence[Swap]) -> list[Swap]:
    """Leave out the files that are as they were to become if the write was interrupted before the first one.

    git checked them out, for example, while not all contents were stored.
    """
    is_stored = all(os.path.lexists(write.store.where(digest)) for digest in write.journal.contents)
    asides = {swap: swap.states()[1] for swap in swaps}
    if is_stored or FileState.BEFORE in asides.values():
        return list(swaps)
    return [swap for swap, aside in asides.items() if aside is not FileState.NOTHING]


def _require_finishable(store: Store, swaps: Sequence[Swap]) -> None:
    for swap in swaps:
        if swap.states()[0] is FileState.OTHER:
            raise _changed_error(store, swap)
        swap.require_unsaved()


def require_undoable(swaps: Sequence[Swap], changed: Callable[[Swap], TreeError | None]) -> None:
    """Raise TreeError if a person changed a file since, saved one to what is aside, or an old content is missing.

    ``changed`` returns the error for a file with another content, or None if what is in its place can stay.
    """
    states = [(swap, *swap.states()) for swap in swaps]
    is_started = any(target is FileState.AFTER or aside is FileState.BEFORE for _, target, aside in states)
    for swap, target, aside in states:
        if target is FileState.OTHER and is_started and (error := changed(swap)):
            raise error
        if target is not FileState.AFTER and swap.is_saved_aside:
            raise swap.saved_error()
        if target is FileState.AFTER and aside is FileState.NOTHING and swap.before is not None:
            swap.content(swap.before)


def _changed_error(store: Store, swap: Swap) -> TreeError:
    if swap.before is not None and store.has(swap.before):
        return swap.changed_error(str(store.where(swap.before)))
    return swap.changed_error()


def _finish(write: Write) -> None:
    with wrapped_os_errors(write.tree, _advice(write), UnfinishedError):
        write.create_folders(write.journal.made)
        # A folder that the write removes at its end may be gone.
        write.swaps[:] = write.reachable
        for swap in write.swaps:
            swap.finish()
    clean_up(write)


def _advice(write: Write) -> str:
    return f"the write is still interrupted; fix the cause and run patchkit apply --continue {write.tree.argument}"

"""An interrupted write is finished or taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction import atomic
from patchkit.transaction.store import Store, digest_of

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

from patchkit.transaction.write import locked, refusing, target_of


@dataclass(frozen=True)
class Recovery:
    """How an interrupted write ended: ``finished``, ``rolled-back``, or ``nothing`` was interrupted."""

    action: str
    files: tuple[str, ...] = ()


def recover(tree: CheckoutTree) -> Recovery:
    """Finish an interrupted write if everything that it takes is on disk, take it back otherwise.

    TreeError, and nothing written, if someone has changed one of the files since.
    """
    if not Store(tree.package).folder.exists():
        return Recovery("nothing")
    with locked(tree, recovering=True) as store:
        journal = store.journal()
        if journal is None:
            return Recovery("nothing")
        stands = {file: digest_of(tree.read(file) or b"") for file in journal.files}
        for file, known in journal.files.items():
            if stands[file] not in known:
                raise TreeError(
                    f"{tree.package / file} was changed after the write was interrupted: keep your version "
                    f"elsewhere, copy {store.path(known[0])} in its place, and run patchkit recover again."
                )
        finish = all(map(store.holds, journal.contents))
        wanted = {file: after if finish else before for file, (before, after) in journal.files.items()}
        with refusing(tree, "run patchkit recover again once that is mended"):
            for file, digest in wanted.items():
                path = target_of(tree, file)
                atomic.unstage(path)
                if stands[file] != digest:
                    atomic.replace(path, store.get(digest), like=path)
            if finish:
                store.stage(journal.ledger)
                store.publish()
            store.end()
    return Recovery("finished" if finish else "rolled-back", tuple(wanted))

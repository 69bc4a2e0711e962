"""What stood before the patches that a tree has: the code says which those are, and git what it was.

Of what is not committed only the ledger knows what stood before. Of what is committed git does, alike in every clone;
there a record counts where git confirms it, and where git cannot tell.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan import vendor
from patchkit.plan.markers import without_same
from patchkit.plan.marks import SIGN, signers
from patchkit.plan.planner import Origin
from patchkit.plan.status import State
from patchkit.transaction.apply import with_plan
from patchkit.transaction.history import before_patches, checkout_of
from patchkit.transaction.holding import nameless, ranked
from patchkit.transaction.ledger import Record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of, digest_or_none
from patchkit.transaction.unfinished import before_markers, unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from patchkit.plan.planner import Planner
    from patchkit.plan.status import PatchStatus
    from patchkit.transaction.ledger import Ledger
    from patchkit.tree.checkout import Checkout
    from patchkit.tree.tree import CheckoutTree

    Contents = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Account:
    """What a ledger says, or would say, of the tree as it stands, and its contents by digest.

    It is ``sure`` unless it is a record for which nothing but some lines of the code speaks. ``marked`` are files whose
    conflicts, which git has as well, it knows nothing of, as they are without those, and whose conflicts they are.
    """

    record: Record
    content: Callable[[str], bytes]
    sure: bool = True
    marked: Mapping[str, tuple[bytes, frozenset[str]]] = field(default_factory=dict)

    @property
    def originals(self) -> dict[str, bytes | None]:
        """What stood in each file before any patch."""
        found: dict[str, str | None] = {}
        for layer in self.record.layers:
            found = {file: known.original for file, known in layer.files.items()} | found
        return {file: None if digest is None else self.content(digest) for file, digest in found.items()}


class Origins:
    """The accounts of what stood before a tree's patches, the surest first, each worked out when it is asked for."""

    def __init__(
        self,
        tree: CheckoutTree,
        planner: Planner,
        statuses: Callable[[], tuple[PatchStatus, ...]] | None = None,
    ) -> None:
        """Read ``tree`` and its ledger; TreeError if that cannot be read. ``statuses`` tells those that are known."""
        self._tree = tree
        self._planner = planner
        self._inspect = statuses or (lambda: planner.standing(before_markers(tree)).patches)
        self._store = Store(tree.package)
        self.ledger: Ledger = self._store.read()

    @cached_property
    def signed(self) -> dict[str, frozenset[str]]:
        """The files with the comment of a patch, and whose comments those are."""
        texts = ((file, self._tree.read(file) or b"") for file in self._tree.files(""))
        return {file: names for file, text in texts if SIGN.encode() in text and (names := signers(text))}

    def read(self, file: str) -> bytes | None:
        """Return a file of the tree as it stands."""
        return self._tree.read(file)

    def real(self, files: Iterable[str]) -> frozenset[Path]:
        """Return what the files are where links lead."""
        return frozenset((self._tree.package / file).resolve() for file in files)

    @cached_property
    def statuses(self) -> tuple[PatchStatus, ...]:
        """Each patch's status; a conflict that was left for a person counts as the code that was found there."""
        return self._inspect()

    @cached_property
    def ours(self) -> frozenset[str]:
        """The patches with a comment of theirs in the code."""
        return frozenset[str]().union(*self.signed.values())

    @cached_property
    def uncommitted(self) -> tuple[Record, ...]:
        """The records of patches that git has not: nobody but the ledger can say what stood before them."""
        return tuple(record for record, _ in self._ranked if not self._committed & record.files.keys())

    @property
    def in_code(self) -> frozenset[str]:
        """The patches that patchkit has put into the code, also those without a comment that only a record tells."""
        return self.ours.union(*(record.patches for record in self.uncommitted))

    @cached_property
    def lost(self) -> dict[str, tuple[str, str]]:
        """What the ledger records and neither a comment nor git says: by patch, a file and its comment."""

        def committed(file: str) -> bytes | None:
            return None if self._checkout is None else self._checkout.at("HEAD", file)

        return nameless(self.ledger, self._tree.read, committed, self._store.get)

    @cached_property
    def originals(self) -> Contents:
        """What stood in the patched files before any patch; ConflictError if that is not known."""
        if not self.signed and not self.uncommitted:
            return {}
        if self._checkout is not None and not self.uncommitted:
            with suppress(ConflictError):
                return self._before
        return next(iter(self)).originals

    @property
    def applied(self) -> Contents:
        """What patchkit made of those files; ConflictError if that is not known."""
        account = next(iter(self))
        files = account.record.files.items()
        return {f: None if known.applied is None else account.content(known.applied) for f, known in files}

    def __iter__(self) -> Iterator[Account]:
        """Yield each account; ConflictError behind the last one if git does not have what it should have."""
        if self._checkout is None and not self._ranked:
            again = f"sglang=={self._tree.version}" if self._tree.version else "the release that it was"
            raise ConflictError(
                f"the patches in {self._tree.package} are in no ledger (.patchkit) and no git history: install the "
                f"package again (pip install --force-reinstall --no-deps {again}) or put its files back from a copy."
            )
        yield from (Account(record, self._store.get) for record in self.uncommitted)
        if self._checkout is None:
            return
        yield from (Account(record, self._store.get) for record in self._confirmed)
        refusal: ConflictError | None = None
        try:
            before = self._before
        except ConflictError as error:
            refusal = error
        else:
            yield self._inferred(self._checkout, before)
        for record, exact in self._ranked:
            if record not in self.uncommitted and record not in self._confirmed:
                yield Account(record, self._store.get, sure=exact)
        if refusal is not None:
            raise refusal

    @cached_property
    def _before(self) -> Contents:
        """What git says stood before the comments of patches; ConflictError where it has not."""
        return {} if self._checkout is None else before_patches(self._tree, self._checkout, self.signed)

    @cached_property
    def _confirmed(self) -> tuple[Record, ...]:
        """The records by which all files stand as they do now, and stood as git says that they did."""
        if self._checkout is None:
            return ()
        try:
            before = self._before
        except ConflictError:
            return ()
        exact = (record for record, exact in self._ranked if exact and record not in self.uncommitted)
        return tuple(record for record in exact if self._confirms(record, before))

    @cached_property
    def _checkout(self) -> Checkout | None:
        return checkout_of(self._tree.package)

    @cached_property
    def _ranked(self) -> list[tuple[Record, bool]]:
        return ranked(self.ledger, self._tree.read, self._store.get)

    @cached_property
    def _committed(self) -> frozenset[str]:
        """The files that have the comment of a patch in git as well."""
        files = frozenset(self.signed).union(*(record.files for record, _ in self._ranked))
        return self._checkout.having(SIGN, sorted(files)) if self._checkout is not None else frozenset()

    def _confirms(self, record: Record, before: Contents) -> bool:
        """Tell whether what git says stood ``before`` the patches is what a record says."""
        unsigned = record.patches.keys() - self.ours
        whole = {s.patch.id for s in self.statuses if s.state is State.APPLIED} if unsigned else set[str]()
        if not self.ours <= record.patches.keys() or not unsigned <= whole:
            return False
        try:
            originals = Account(record, self._store.get).originals
        except TreeError:
            return False
        return all(file in originals and originals[file] == text for file, text in before.items())

    def _inferred(self, checkout: Checkout, before: Contents) -> Account:
        """Work out what a ledger would say, from what stood ``before`` the comments and the patches at hand."""
        ours = [status for status in self.statuses if status.patch.id in self.ours]
        sites = {edit.file for status in ours for edit in status.edits if edit.state is State.APPLIED}
        originals = {**before, **before_patches(self._tree, checkout, sites.difference(before))}
        if vendor.is_vendored(self._tree):
            originals |= dict.fromkeys(self._tree.files(vendor.FOLDER, ""))
        planned = self._planner.exactly([status.patch.id for status in ours], originals)
        # What has no certain place in what was there before, and is in the code, a person wrote.
        written = _edits(ours, {State.APPLIED, State.UPSTREAM}) & _edits(planned.patches, {State.CONFLICT})
        planned = replace(planned, by_hand=written)
        made = [change.file for change in planned.changes if change.before is None]
        record = with_plan(Record(), planned, "", _folders_of(self._tree, made))
        pairs = ((change.before, change.after) for change in planned.changes)
        texts = {digest_of(text): text for pair in pairs for text in pair if text is not None}
        return Account(record, texts.__getitem__, marked=self._marked(checkout))

    def _marked(self, checkout: Checkout) -> dict[str, tuple[bytes, frozenset[str]]]:
        found: dict[str, tuple[bytes, frozenset[str]]] = {}
        for file, blocks in unfinished(self._tree).items():
            stands = self._tree.read(file) or b""
            _, without = without_same(checkout.at("HEAD", file) or b"", stands)
            if without != stands:
                found[file] = without, frozenset(block.patch for block in blocks)
        return found


def origin(tree: CheckoutTree, planner: Planner) -> Origin | None:
    """Return what the tree's patches were applied to; None if it has none or a person edited one of their files.

    It is None too where that is not known, or the ledger cannot be read: to refuse that is for who writes.
    """
    try:
        origins = Origins(tree, planner)
        if not origins.signed and not origins.uncommitted:
            return None
        account = next(iter(origins))
        record = account.record
        if not account.sure or len(record.layers) != 1 or record.by_hand:
            return None
        if any(digest_or_none(tree.read(file)) != known.applied for file, known in record.files.items()):
            return None
        contents = account.originals
    except (ConflictError, TreeError, UsageError):
        return None
    makers = frozenset((file, name) for file, known in record.files.items() for name in known.patches)
    return Origin(tuple(record.patches), contents, makers)


def _edits(statuses: Iterable[PatchStatus], states: set[State]) -> frozenset[tuple[str, str]]:
    return frozenset((s.patch.id, edit.name) for s in statuses for edit in s.edits if edit.state in states)


def _folders_of(tree: CheckoutTree, made: Iterable[str]) -> list[str]:
    """Return the folders, outermost first, in which nothing is but files that patches made."""
    files = set(made)
    above = {file[:at] for file in files for at, each in enumerate(file) if each == "/"}
    return sorted(folder for folder in above if files.issuperset(tree.files(folder, "")))

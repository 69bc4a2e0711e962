"""One file gets its next content in one step, and what it had is kept beside it until the whole write is done.

The next content is staged under a name of its own and then changes names with the file. What comes out is
looked at again: if someone saved the file in the meantime, the two change names once more and nothing is lost.
"""

from __future__ import annotations

import enum
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.transaction.folder import Folder


class Stand(enum.Enum):
    """What a name holds: nothing, the content before the write or after it, or something else."""

    NOTHING = "nothing"
    BEFORE = "before"
    AFTER = "after"
    OTHER = "other"


@dataclass(frozen=True)
class Swap:
    """A file's content before and after a write, each as its digest; None stands for no file.

    ``file`` is its name in the ledger, ``folder`` and ``name`` are where it really is, and ``content`` gives
    contents by digest.
    """

    file: str
    folder: Folder
    name: str
    before: str | None
    after: str | None
    content: Callable[[str], bytes]

    @property
    def aside(self) -> str:
        """The name under which the next content waits, and then the last one."""
        return aside_of(self.name)

    @property
    def _back(self) -> str:
        """The name under which the last content is written anew; what is there is never a person's."""
        return f".{self.name}.patchkit-back"

    @property
    def path(self) -> str:
        """Where the file is, for messages."""
        return str(self.folder.path / self.name)

    def stands(self) -> tuple[Stand, Stand]:
        """Return what the file is, and what is kept aside."""
        return self._stand(self.name), self._stand(self.aside)

    def _stand(self, name: str) -> Stand:
        digest = self._digest(name)
        if digest is None and name == self.aside:
            return Stand.NOTHING
        if digest == self.before:
            return Stand.BEFORE
        return Stand.AFTER if digest == self.after else Stand.OTHER

    def _digest(self, name: str) -> str | None:
        known = self.folder.stat(name)
        if known is not None and not stat.S_ISREG(known.st_mode):
            return "not a file"
        content = None if known is None else self.folder.read(name)
        return None if content is None else digest_of(content)

    def stage(self) -> None:
        """Write the next content to disk, aside, with the file's mode and owner."""
        if self.after is not None:
            like = self.folder.stat(self.name) if self.before is not None else None
            self.folder.create(self.aside, self.content(self.after), like)

    def publish(self) -> None:
        """Put the next content in place; TreeError, and nothing changed, if the file is not as it was before."""
        try:
            if self.before is None:
                self.folder.link(self.aside, self.name)
                self.folder.remove(self.aside)
            elif self.after is None:
                self.folder.rename(self.name, self.aside)
                if self._stand(self.aside) is not Stand.BEFORE:
                    self.folder.link(self.aside, self.name)
                    self.folder.remove(self.aside)
                    raise self._moved()
            elif self.folder.exchange(self.aside, self.name):
                if self._stand(self.aside) is not Stand.BEFORE:
                    self.folder.exchange(self.aside, self.name)
                    raise self._moved()
            else:
                if self._stand(self.name) is not Stand.BEFORE:
                    raise self._moved()
                self.folder.rename(self.aside, self.name)
        except (FileExistsError, FileNotFoundError):
            raise self._moved() from None
        self.folder.flush()

    def settle(self) -> None:
        """Let go of what is kept aside; TreeError if that is somebody's."""
        if self._stand(self.aside) is Stand.OTHER:
            raise self.saved_meanwhile()
        self.folder.remove(self.aside)

    def undo(self) -> None:
        """Put back what the file was, wherever the write stopped; TreeError if someone changed it since."""
        self.folder.remove(self._back)
        target, aside = self.stands()
        if aside is Stand.AFTER:
            if self.before is None and target is Stand.AFTER and self._is_one_file():
                self.folder.remove(self.name)
            self.folder.remove(self.aside)
        elif target is Stand.AFTER:
            self._put_back(aside)
        elif aside is not Stand.NOTHING and target is Stand.OTHER:
            raise self.saved_meanwhile()
        else:
            self.folder.remove(self.aside)
        self.folder.flush()

    def _put_back(self, aside: Stand) -> None:
        """Take the new content away: what is aside, of whomever it is, was the file before."""
        if self.before is None:
            self.folder.remove(self.name)
        elif self.after is None:
            if aside is Stand.NOTHING:
                self.folder.create(self.aside, self.content(self.before))
            self.folder.link(self.aside, self.name)
        elif aside is Stand.NOTHING:
            self.folder.create(self._back, self.content(self.before), self.folder.stat(self.name))
            self.folder.rename(self._back, self.name)
        elif not self.folder.exchange(self.aside, self.name):
            self.folder.rename(self.aside, self.name)
        self.folder.remove(self.aside)

    def finish(self) -> None:
        """Put the next content in place, wherever the write stopped; TreeError if someone changed the file."""
        self.folder.remove(self._back)
        target, aside = self.stands()
        if target is Stand.OTHER:
            raise self.changed_since()
        if target is Stand.BEFORE:
            self.folder.remove(self.aside)
            self.stage()
            self.publish()
        elif aside is Stand.OTHER:
            raise self.saved_meanwhile()

    def _is_one_file(self) -> bool:
        named, waiting = self.folder.stat(self.name), self.folder.stat(self.aside)
        return named is not None and waiting is not None and os.path.samestat(named, waiting)

    def _moved(self) -> TreeError:
        return TreeError(f"{self.path} was changed while patchkit was at work: try again.")

    def changed_since(self, kept: str = "what was there before the write") -> TreeError:
        """Return the refusal of a file that was changed after the write stopped; ``kept`` is what to put back."""
        return TreeError(
            f"{self.path} was changed after the write was interrupted: keep your version elsewhere, "
            f"copy {kept} in its place, and run patchkit apply --continue again."
        )

    def saved_meanwhile(self) -> TreeError:
        """Return the refusal of a save that came in the middle of the write."""
        aside = self.folder.path / self.aside
        return TreeError(
            f"{aside} holds what someone saved as {self.name} in the middle of the write: move it elsewhere "
            "and run patchkit apply --continue."
        )


def aside_of(name: str) -> str:
    """Return the name beside ``name`` under which a file's next content waits."""
    return f".{name}.patchkit"


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_or_none(content: bytes | None) -> str | None:
    """Return the SHA-256 of ``content``; None, which stands for no file, for None."""
    return None if content is None else digest_of(content)

"""Find ported changes in git's history, where the commit of each names it and what it changed."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.findings.plural import counted
from patchkit.patchset.unified import printed
from patchkit.plan.record import AppliedFile, AppliedPatch, Layer, is_file
from patchkit.transaction.swap import digest_of, digest_or_none
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git, raw_changes
from patchkit.tree.modes import LINK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    Changes = Mapping[str, tuple[bytes | None, bytes | None]]

TRAILER = "Patchkit-Port"
LEFT_OUT = "Patchkit-Left-Out"
"""The trailer that names a file of which a port leaves out a part."""
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
"""The number of a pull request, the start of a commit's id, or the name of a diff's file."""
_TRAILER_LINE = re.compile(rf"^{TRAILER}: ({_NAME}) ([0-9a-f]{{32}})$", re.MULTILINE)
# git removes spaces and carriage returns at the ends of a message's lines, so any line may become a trailer.
_ANY_TRAILER_LINE = re.compile(rf"^{TRAILER}:.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class PortCommit:
    """A commit with the trailer of a port; ``parent`` is empty if this clone lacks it."""

    name: str
    digest: str
    commit: str
    parent: str


def trailer(name: str, changes: Changes) -> str:
    """Return the line of a commit's message that names a port and identifies its changes, by file."""
    return f"{TRAILER}: {name} {_digest_of(changes)}"


def without_trailers(message: str) -> str:
    """Return a commit's message without the lines that name ports, which are those of another commit."""
    return _ANY_TRAILER_LINE.sub("", message)


def ported_message(message: str, name: str, left_out: Sequence[str], *trailers: str) -> str:
    """Return a change's message, or its name if it has none, for its port, with what is left out and other trailers.

    The trailers of a port that is ported again state what that one changed, and go.
    """
    lines = "".join(f"{line}\n" for line in trailers)
    return f"{without_trailers(message).strip() or name}\n\n{left_out_note(left_out)}{lines}"


def left_out_note(left_out: Sequence[str]) -> str:
    """Return the text of a message that says of which files a part is left out; empty if the change is whole."""
    part = f"Only a part of the change: {counted(len(left_out), 'file')} left out or not whole.\n\n"
    lines = "".join(f"{LEFT_OUT}: {printed(file)}\n" for file in left_out)
    return f"{part}{lines}" if left_out else ""


def trailer_of(package: Path, name: str, parent: str, commit: str) -> str:
    """Return the line for what a commit changes in a package."""
    return trailer(name, _changes(Checkout(package), package, PortCommit(name, "", commit, parent)))


def ports_in(package: Path) -> tuple[PortCommit, ...]:
    """Return the ports that HEAD contains, oldest first; none if there is no git history."""
    arguments = (
        "--reverse",
        "--topo-order",
        "--no-merges",
        "--fixed-strings",
        f"--grep={TRAILER}: ",
    )
    listed = git(package, "log", *arguments, "--format=%x00%H%x00%P%x00%B", "HEAD", "--")
    words = iter(listed.stdout.decode(errors="replace").split("\0")[1:])
    return tuple(
        port
        for commit, parents, message in zip(words, words, words, strict=False)
        for port in _ports_of(package, commit, parents.partition(" ")[0], message)
    )


def _ports_of(package: Path, commit: str, parent: str, message: str) -> Sequence[PortCommit]:
    """Return the ports that a commit's message names: its own, or those that were squashed into the commit."""
    # A port of a port can have both trailers, its own last.
    digests = dict(_TRAILER_LINE.findall(message))
    ports = [PortCommit(name, digest, commit, parent) for name, digest in digests.items()]
    if len(ports) < 2 or not parent:
        return ports
    digest = _digest_of(_changes(Checkout(package), package, ports[0]))
    return [port for port in ports if port.digest == digest][-1:] or ports


def layers_of(
    checkout: Checkout, package: Path, ports: Sequence[PortCommit], names: frozenset[str]
) -> tuple[tuple[Layer, ...], dict[str, bytes]]:
    """Return a layer for each port in ``names`` and for later ones of the same files, and the contents by digest.

    Raise ConflictError if a commit has other changes than the port made, or if git lacks the code before it.
    """
    layers: list[Layer] = []
    contents: dict[str, bytes] = {}
    files: set[str] = set()
    for port in ports:
        if port.name not in names and not files:
            continue
        if not port.parent:
            raise ConflictError(
                f"{port.name}: this clone has no code from before its commit {port.commit[:12]}",
                advice="run git fetch --unshallow",
            )
        changes = _changes(checkout, package, port)
        if port.name not in names and files.isdisjoint(changes):
            continue
        if port.name in names and _digest_of(changes) != port.digest:
            raise ConflictError(
                f"{port.name}: its commit {port.commit[:12]} has other changes too, or not all of its own",
                advice=f"use git revert {port.commit[:12]}",
            )
        files.update(changes)
        contents |= _contents(changes)
        layers.append(_layer([port.name], changes))
    return tuple(layers), contents


def commits_of(
    checkout: Checkout, package: Path, ports: Sequence[PortCommit]
) -> Iterator[tuple[Layer, Mapping[str, bytes]]]:
    """Yield a layer for each commit of ``ports``, the last first, and its contents by digest."""
    by_commit: dict[str, list[PortCommit]] = {}
    for port in reversed(ports):
        by_commit.setdefault(port.commit, []).append(port)
    for same in by_commit.values():
        changes = _changes(checkout, package, same[0])
        yield _layer([port.name for port in same], changes), _contents(changes)


def _contents(changes: Changes) -> dict[str, bytes]:
    return {digest_of(text): text for pair in changes.values() for text in pair if text is not None}


def _layer(names: Sequence[str], changes: Changes) -> Layer:
    files = {
        file: AppliedFile(digest_or_none(before), digest_or_none(after), tuple(names))
        for file, (before, after) in changes.items()
    }
    return Layer(tuple(AppliedPatch(name, (), ()) for name in names), files, is_ported=True)


def _changes(checkout: Checkout, package: Path, port: PortCommit) -> Changes:
    arguments = ("-r", "-z", "--no-renames", "--raw", "--relative", port.parent, port.commit)
    # The record has neither links nor modes.
    return {
        file: (checkout.at(port.parent, file), checkout.at(port.commit, file))
        for file, modes, (old, new) in raw_changes(git(package, "diff-tree", *arguments, "--").stdout)
        if is_file(file) and old != new and LINK not in modes
    }


def _digest_of(changes: Changes) -> str:
    """Return a digest of the lines that changes remove and add, which a rebase does not change."""
    described = [
        [file, before is None, after is None, *_changed_lines(before, after)]
        for file, (before, after) in sorted(changes.items())
    ]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:32]


def _changed_lines(before: bytes | None, after: bytes | None) -> Iterable[list[tuple[bytes, int]]]:
    old, new = (text.splitlines() if text is not None else [] for text in (before, after))
    removed, added = Counter[bytes](), Counter[bytes]()
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed.update(old[start:end])
            added.update(new[new_start:new_end])
    return sorted(removed.items()), sorted(added.items())

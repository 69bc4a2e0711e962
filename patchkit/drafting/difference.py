"""What a diff or a commit changes, as each file's source before and after."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from patchkit.errors import UsageError
from patchkit.tree.git import git, place_of
from patchkit.tree.names import is_unsafe
from patchkit.tree.sglang import PARENTS, PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.tree.tree import CheckoutTree

_FILE = re.compile(r"^\+\+\+ (?:b/)?(\S+)", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)")

Sources = dict[str, tuple[str | None, str | None]]
"""Files below the package folder -> their source before and after; None where there is no such file."""


def of_commit(tree: CheckoutTree, commit: str) -> Sources:
    """Return what a commit changes in the package; UsageError for one that is none or changes nothing there."""
    names = git(tree.root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", f"{commit}^", commit, "--")
    if names.returncode != 0:
        raise UsageError(
            f"--from-commit {commit}: no commit of {tree.root} with a parent: git fetch it there."
        )
    found: Sources = {}
    places = (place_of(tree.package), *PLACES)
    for name in names.stdout.decode(errors="surrogateescape").split("\0"):
        file = _inside(name, places)
        if file is not None:
            found[file] = (_shown(tree, f"{commit}^:{name}"), _shown(tree, f"{commit}:{name}"))
    if not found:
        raise UsageError(f"--from-commit {commit}: it changes no Python file of the package.")
    return found


def of_diff(tree: CheckoutTree, text: str) -> Sources:
    """Return what a unified diff changes in ``tree``; UsageError where a hunk's lines are not there."""
    found: Sources = {}
    own = (posixpath.join(parent, tree.package.name) for parent in PARENTS)
    places = (*filter(None, [place_of(tree.package)]), *own, *PLACES)
    for part in re.split(r"^(?=--- )", text, flags=re.MULTILINE):
        named = _FILE.search(part)
        file = _inside(named[1], places) if named else None
        if file is None:
            continue
        source = _text(file, tree.read(file) or b"")
        if part.startswith("--- /dev/null"):
            found[file] = (None, "".join(line[1:] for line in part.splitlines(True) if _added(line)))
        else:
            found[file] = (source, _applied(file, source, part))
    if not found:
        raise UsageError("--from-diff: it changes no Python file of the package: give a unified diff.")
    return found


def _text(file: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not readable as UTF-8: save it as that, and try again.") from None


def _applied(file: str, source: str, part: str) -> str:
    lines = source.splitlines(keepends=True)
    shift = 0
    for hunk in re.split(r"^(?=@@ -)", part, flags=re.MULTILINE)[1:]:
        header, *body = hunk.splitlines(keepends=True)
        body = [line for line in body if line[:1] in " +-" and not line.startswith(("--- ", "-- \n"))]
        old = [line[1:] for line in body if line[0] in " -"]
        new = [line[1:] for line in body if line[0] in " +"]
        wanted = int(_HUNK.match(header)[1]) - 1 + shift if _HUNK.match(header) else 0  # type: ignore[index]
        at = min(_places(lines, old), key=lambda place: abs(place - wanted), default=None)
        if at is None:
            raise UsageError(
                f"--from-diff: {file}: the lines of {header.strip()} are not in the tree: name with --on the tree "
                "that the diff was made on."
            )
        lines[at : at + len(old)] = new
        shift += len(new) - len(old)
    return "".join(lines)


def _places(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    last = len(lines) - len(wanted) + 1
    return (at for at in range(last) if list(lines[at : at + len(wanted)]) == list(wanted))


def _added(line: str) -> bool:
    return line.startswith("+") and not line.startswith("+++ ")


def _inside(name: str, places: Sequence[str]) -> str | None:
    for place in places:
        above = f"{place}/" if place else ""
        if name.startswith(above) and name.endswith(".py"):
            if any(map(is_unsafe, name.split("/"))):
                raise UsageError(f"{name!r} leads out of the package: take it out of the change.")
            return name.removeprefix(above)
    return None


def _shown(tree: CheckoutTree, name: str) -> str | None:
    shown = git(tree.root, "cat-file", "blob", name)
    return _text(name, shown.stdout) if shown.returncode == 0 else None

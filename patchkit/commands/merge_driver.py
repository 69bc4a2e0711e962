"""Merge three versions of a file for git, and tell git to ask for it: never worse than git's own merge.

Git is told once, in its configuration and attributes. Whatever goes wrong, also where this program is gone or killed,
git's merge by lines is the result: the file that git reads is replaced last, by a rename.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import TreeError, UsageError
from patchkit.tree.git import git, require_repository
from patchkit.tree.source import fault_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "patchkit"
LINE = f"*.py merge={NAME}"
_TITLE = "patchkit's structural merge of Python files"
_LABELS = ("ours", "base", "theirs")
_MARKER_SIZE = 7
_MOST_CONFLICTS = 127
"""The highest exit code of git merge-file for conflicts; others are errors."""
_START = (
    "import os,sys;"
    "sys.excepthook=lambda*error:(sys.__excepthook__(*error),os._exit(2));"
    # Python looks in the working folder first, which is the repository that is merged.
    "sys.path[:]=filter(None,sys.path);"
    "from patchkit.cli import main;main(prog_name='patchkit')"
)


class Files(NamedTuple):
    """The three versions of a file, which git names; ``ours`` is also where the merge is written."""

    base: Path
    ours: Path
    theirs: Path


def merge(files: Files, name: str, marker_size: int = _MARKER_SIZE, labels: Sequence[str] = ()) -> bool:
    """Merge ``theirs`` into ``ours``; return whether that left no conflict.

    ``labels`` are for the markers: ours, base and theirs. Raise UsageError if a file cannot be read.
    """
    try:
        contents = [file.read_bytes() for file in files]
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read ({error.strerror})",
            advice="name three files: base, ours and theirs",
        ) from None
    # Versions of git from before 2.44 leave the placeholders as they are.
    named = [
        label if label and not label.startswith("%") else other
        for label, other in zip(labels or _LABELS, _LABELS, strict=True)
    ]
    result = _by_git(contents, marker_size, named)
    if name.endswith(".py") and not (result.is_whole and fault_of(result.content or b"") is None):
        # Such as a parser that is out of memory: git's merge is there.
        with suppress(Exception):
            result = _by_structure(contents, result, marker_size, named)
    content, is_whole = result
    if content is not None:
        _replace(files.ours, content)
    return is_whole


class _Result(NamedTuple):
    """The merged text, None to leave ours, and whether it has no conflict."""

    content: bytes | None
    is_whole: bool


def _by_structure(
    contents: Sequence[bytes], plain: _Result, marker_size: int, labels: Sequence[str]
) -> _Result:
    from patchkit.change.sides import marked, merged, sides_of

    sides = sides_of(*contents)
    if sides is None:
        return plain
    result = merged(sides)
    versions = [text.encode() for text in result.sides]
    if result.is_whole:
        return _Result(versions[0], is_whole=True)
    if plain.is_whole:
        # Git's merge is clean, and is no Python.
        return _Result(marked(sides, marker_size, labels).encode(), is_whole=False)
    return _by_git(versions, marker_size, labels)


def _by_git(contents: Sequence[bytes], marker_size: int, labels: Sequence[str]) -> _Result:
    """Return git's merge by lines, with markers in the style of the person's configuration."""
    with tempfile.TemporaryDirectory(prefix="patchkit-") as name:
        paths = [Path(name) / label for label in ("base", "ours", "theirs")]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        base, ours, theirs = map(str, paths)
        given = (word for label in labels for word in ("-L", label))
        done = git(Path(), "merge-file", "-p", f"--marker-size={marker_size}", *given, ours, base, theirs)
    if done.returncode > _MOST_CONFLICTS or done.returncode < 0:  # Such as a binary file.
        return _Result(None, is_whole=False)
    return _Result(done.stdout, done.returncode == 0)


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if path.exists():
            os.chmod(name, path.stat().st_mode & 0o7777)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


# ---- git's configuration --------------------------------------------------------------------------------------------


def driver() -> str:
    """Return the command that git runs: this interpreter's patchkit, else git's own merge."""
    if not sys.executable:
        raise UsageError("Python does not know its own path", advice="run patchkit with a Python that does")
    start = f"{shlex.quote(os.path.abspath(sys.executable))} -c {shlex.quote(_START)}".replace("%", "%%")
    options = "--marker-size %L --labels %X %S %Y -- %O %A %B %P"
    git_merge = "git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B || exit 1"
    return f"{start} merge-driver {options}; code=$?; [ $code -lt 2 ] && exit $code; {git_merge}"


def install(folder: Path, *, everywhere: bool) -> Path:
    """Tell git to merge Python files with patchkit, in one repository or for this user; return the attributes file."""
    attributes = _attributes(folder, everywhere)
    _configure(folder, everywhere, f"merge.{NAME}.name", _TITLE)
    _configure(folder, everywhere, f"merge.{NAME}.driver", driver())
    lines = _lines(attributes)
    if LINE.encode() not in map(bytes.strip, lines):
        # Of several lines the last one counts, so that a person's lines win.
        attributes.parent.mkdir(parents=True, exist_ok=True)
        _write(attributes, [f"{LINE}\n".encode(), *lines])
    return attributes


def uninstall(folder: Path, *, everywhere: bool) -> tuple[Path, bool]:
    """Take back what ``install`` did; return the attributes file, and whether there was anything."""
    attributes = _attributes(folder, everywhere)
    lines = _lines(attributes)
    left = [line for line in lines if line.strip() != LINE.encode()]
    if left != lines:
        _write(attributes, left)
    scope = _scope(everywhere)
    was_there = git(folder, "config", scope, "--get", f"merge.{NAME}.driver").returncode == 0
    if was_there:
        git(folder, "config", scope, "--remove-section", f"merge.{NAME}")
    return attributes, was_there or left != lines


def _scope(everywhere: bool) -> str:
    return "--global" if everywhere else "--local"


def _configure(folder: Path, everywhere: bool, key: str, value: str) -> None:
    done = git(folder, "config", _scope(everywhere), "--replace-all", key, value)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise TreeError(
            f"git cannot write its configuration ({reason})", advice="fix the cause and try again"
        )


def _attributes(folder: Path, everywhere: bool) -> Path:
    """Return the attributes file of this user, or that of a repository which is not part of it."""
    if not everywhere:
        require_repository(folder, "cd into one, or add --global")
        named = git(folder, "rev-parse", "--git-path", "info/attributes").stdout
        return folder / os.fsdecode(named.removesuffix(b"\n"))
    named = git(folder, "config", "--global", "--type=path", "--get", "core.attributesFile").stdout
    if named.strip():
        return Path(os.fsdecode(named.removesuffix(b"\n")))
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(settings) / "git" / "attributes"


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TreeError(
            f"{path} cannot be read ({error.strerror})", advice="fix the cause and try again"
        ) from None


def _write(path: Path, lines: Sequence[bytes]) -> None:
    try:
        if lines:
            _replace(Path(os.path.realpath(path)), b"".join(lines))
        else:
            path.unlink()
    except OSError as error:
        raise TreeError(
            f"{path} cannot be written ({error.strerror})", advice="fix the cause and try again"
        ) from None

"""A patch is applied, verified and taken back on a copy of each tree; the trees themselves are only read."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from patchkit.errors import PatchkitError, TreeError
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree


class Trial(msgspec.Struct, frozen=True):
    """What a patch came to on one tree; ``problems`` is empty where everything held."""

    tree: str
    version: str | None
    state: str
    files: tuple[str, ...]
    problems: tuple[str, ...]


class Steps(msgspec.Struct, frozen=True):
    """What a trial does with a tree: the state before, applying, the failed checks, taking back."""

    state: Callable[[CheckoutTree], tuple[str, str]]
    apply: Callable[[CheckoutTree], tuple[str, ...]]
    failures: Callable[[CheckoutTree], tuple[str, ...]]
    revert: Callable[[CheckoutTree], object]


def trial(path: Path, steps: Steps) -> Trial:
    """Try a patch on a copy of the tree at ``path``; TreeError if that is none."""
    tree = open_tree(path)
    problems: list[str] = []
    files: tuple[str, ...] = ()
    state = ""
    with tempfile.TemporaryDirectory(prefix="patchkit-") as folder:
        _copy(tree, Path(folder) / "sglang")
        copy = open_tree(Path(folder))
        before = {file: copy.read(file) for file in copy.files("", "")}
        try:
            state, reason = steps.state(copy)
            if state in ("conflict", "not-applicable"):
                problems += [reason] if state == "conflict" else []
                return Trial(str(path), tree.version, state, (), tuple(problems))
            had = set(steps.failures(copy))
            files = steps.apply(copy)
            if files:
                problems += (f"verify: {one}" for one in steps.failures(copy) if one not in had)
                again = steps.apply(copy)
                problems += [f"a second apply changes {', '.join(again)}"] if again else []
                steps.revert(copy)
                after = {file: copy.read(file) for file in copy.files("", "")}
                changed = sorted(
                    file for file in before.keys() | after.keys() if before.get(file) != after.get(file)
                )
                problems += [f"revert does not give back {', '.join(changed)}"] if changed else []
        except PatchkitError as error:
            problems.append(str(error))
    return Trial(str(path), tree.version, state, files, tuple(problems))


def _copy(tree: CheckoutTree, place: Path) -> None:
    """Copy the package folder, but for ledger, caches and git's own; TreeError where it cannot be read."""

    def copy(source: str, target: str) -> None:
        Path(target).write_bytes(tree.read(Path(source).relative_to(tree.package).as_posix()) or b"")
        shutil.copymode(source, target)

    ignored = shutil.ignore_patterns(".patchkit", "__pycache__", ".git")
    try:
        shutil.copytree(tree.package, place, ignore=ignored, symlinks=True, copy_function=copy)
    except OSError as error:
        said = error.args[0][0][2] if isinstance(error, shutil.Error) else error
        raise TreeError(f"{tree.package} cannot be copied ({said}): mend that and try again.") from None

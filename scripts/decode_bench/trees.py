"""The trees to compare, and copies of them with a fault that the comparison must detect."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import UsageError
from patchkit.transaction.extract import extract
from patchkit.tree.objects import GitRepository, GitTree
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Sequence


_MARK = re.compile(r"^\s*# patchkit ([\w-]+):", re.MULTILINE)


@dataclass(frozen=True)
class Contender:
    """A tree with its name in the results; a control must give other tokens than its field's first tree."""

    name: str
    # The folder that contains `sglang/`.
    folder: Path
    version: str | None
    control: bool = False

    @property
    def field(self) -> str:
        """The part of the name before the last slash: trees of one field are compared with each other."""
        return self.name.rpartition("/")[0]

    def patches(self) -> tuple[str, ...]:
        """Return the patches with comments in the tree."""
        files = (self.folder / "sglang" / "srt").rglob("*.py")
        return tuple(
            sorted({mark for file in files for mark in _MARK.findall(file.read_text(errors="replace"))})
        )

    def opt_in(self) -> tuple[str, ...]:
        """Return those of its patches that apply makes only by name."""
        # The machine with the GPU lacks what reads patches, unless the site has it.
        from patchkit.patchset import load

        default = {patch.id for patch in load.patches() if patch.default}
        return tuple(patch for patch in self.patches() if patch not in default)


@dataclass(frozen=True)
class Fault:
    """Expressions to replace in a tree; each must occur exactly once in its file."""

    name: str
    tree: str
    # (file below the package folder, expression, replacement)
    edits: Sequence[tuple[str, str, str]]


def contender(name: str, path: Path, control: bool = False) -> Contender:
    """Return the tree at ``path``. Raise TreeError if there is none, UsageError if it cannot be imported."""
    tree = open_tree(path)
    if tree.package.name != "sglang":
        raise UsageError(f"{path} cannot be imported, since it is not a folder named sglang: rename it.")
    return Contender(name, tree.package.parent, tree.version, control)


def located(place: str, folder: Path) -> Path:
    """Return the tree at ``place``, a path or ``REPOSITORY@REF``, whose package is written below ``folder``.

    The result of an earlier run there is deleted. Raise TreeError if there is no such repository, ref or tree.
    """
    repository, separator, ref = place.rpartition("@")
    if not separator or Path(place).exists():
        return Path(place)
    with GitRepository(Path(repository)) as opened:
        tree = GitTree(opened, ref)
        shutil.rmtree(folder / "sglang", ignore_errors=True)
        extract(tree, folder / "sglang")
    return folder


def read_faults(file: Path) -> list[Fault]:
    """Read ``[{"name", "tree", "edits": [{"file", "old", "new"}]}]``. Raise UsageError for other content."""
    try:
        return [
            Fault(
                entry["name"],
                entry["tree"],
                [(edit["file"], edit["old"], edit["new"]) for edit in entry["edits"]],
            )
            for entry in json.loads(file.read_text())
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{file} is not a list of faults ({error!r}): each has name, tree and edits (file, old, new)."
        ) from error


def faulty_copy(fault: Fault, contenders: Sequence[Contender], folder: Path) -> Contender:
    """Copy the fault's tree below ``folder`` and insert the fault. Raise UsageError if a place is not unique."""
    original = next((tree for tree in contenders if tree.name == fault.tree), None)
    if original is None:
        raise UsageError(f"{fault.name} is to be made from {fault.tree}, which no --tree names: add it.")
    copy = folder / fault.name / "sglang"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original.folder / "sglang", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in fault.edits:
        file = copy / name
        text = file.read_text() if file.is_file() else ""
        if text.count(old) != 1:
            raise UsageError(
                f"{old!r} occurs {text.count(old)} times in {fault.tree}'s {name}: give one that occurs once."
            )
        file.write_text(text.replace(old, new))
    name = "/".join(filter(None, (original.field, fault.name)))
    return Contender(name, copy.parent, original.version, control=True)

"""Copy the runtime into a tree for ``--runtime vendored``, so that a fork needs no new dependency.

The runtime and the backends are copied to ``_patchkit`` in the package folder, and the imports that edits add name that
folder. A tree that has a copy keeps using it; the copied files are recorded for each patch that imports them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.errors import ConflictError
from patchkit.plan.comments import SIGNS
from patchkit.plan.package_name import translated
from patchkit.plan.status import FileChange, Plan
from patchkit.tree.sglang import NAME
from patchkit.tree.tree import OverlayTree, files_containing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import Tree

FOLDER = "_patchkit"
PACKAGE = "patchkit.runtime"
VENDORED = f"{NAME}.{FOLDER}.runtime"
_OUTSIDE = re.compile(rf"from ({re.escape(PACKAGE)}) import")
# A fork may have renamed the package.
_INSIDE = re.compile(rf"from (\w+\.{FOLDER}\.runtime) import")
_COPIED = re.compile(
    rb"^# Copied from sglang-patchkit (\S+) by `patchkit apply --runtime vendored`", re.MULTILINE
)
_PACKAGES = ("runtime", "backends")
_AGAIN = "patchkit revert, commit that if the patches are committed, then patchkit apply --runtime"
RESTORE = f"{_AGAIN} vendored"
"""The steps that write a deleted runtime again."""
_HEADER = f"""\
# Copyright the patchkit authors. SPDX-License-Identifier: Apache-2.0
# Licensed under the Apache License, Version 2.0: http://www.apache.org/licenses/LICENSE-2.0
# Copied from sglang-patchkit {__version__} by `patchkit apply --runtime vendored`; do not edit it here.
# fmt: off
# isort: skip_file
# ruff: noqa
"""


@cache
def runtime_files() -> Mapping[str, bytes]:
    """Return the files of the vendored runtime, by path in the package folder, without importing them."""
    home = Path(__file__).parents[1]
    files = {f"{FOLDER}/__init__.py": b'"""What patched code imports at serving time."""\n'}
    for package in _PACKAGES:
        for path in sorted((home / package).rglob("*.py")):
            files[f"{FOLDER}/{path.relative_to(home).as_posix()}"] = path.read_bytes()
    return {file: _HEADER.encode() + content for file, content in files.items()}


def is_runtime(module: str) -> bool:
    """Return whether a module is the runtime, installed or vendored, or one of its modules."""
    return module == PACKAGE or module.startswith(f"{PACKAGE}.") or f".{FOLDER}.runtime" in module


def is_inside(module: str | None) -> bool:
    """Return whether a module is a vendored runtime."""
    return module is not None and _INSIDE.fullmatch(f"from {module} import") is not None


def is_vendored(tree: Tree) -> bool:
    """Return whether a tree has a vendored runtime."""
    return tree.read(f"{FOLDER}/runtime/__init__.py") is not None


def is_copy(content: bytes) -> bool:
    """Return whether a file has the header of a vendored runtime's files, of any version."""
    return _COPIED.search(content) is not None


def is_current_copy(file: str, content: bytes) -> bool:
    """Return whether a file is that of today's runtime, whatever version and line ends it has."""
    own = runtime_files().get(file)
    return own is not None and _without_header(own) == _without_header(content)


def _without_header(content: bytes) -> bytes:
    return _COPIED.sub(b"", content.replace(b"\r\n", b"\n"), count=1)


def uses_vendored(tree: Tree, files: Sequence[str]) -> bool:
    """Return whether a tree has a vendored runtime. Raise ConflictError if ``files`` import one that is missing."""
    if is_vendored(tree):
        return True
    if importing := _importing(tree, files, _INSIDE):
        file, package = importing
        raise ConflictError(
            f"the file imports {package}, which is missing",
            where=file,
            advice=f"restore {FOLDER} with git, or run {RESTORE}",
        )
    return False


def require_one_runtime(tree: Tree, files: Sequence[str], *, vendored: bool) -> None:
    """Raise ConflictError if patched code in ``files`` imports the runtime from the other place."""
    if other := _importing(tree, files, _OUTSIDE if vendored else _INSIDE):
        file, package = other
        raise ConflictError(
            f"patches of this file import {package}",
            where=file,
            advice=f"run {_AGAIN} {'vendored' if vendored else 'import'}",
        )


def _importing(tree: Tree, files: Sequence[str], runtime: re.Pattern[str]) -> tuple[str, str] | None:
    """Return the first file that imports such a runtime, and the runtime's name."""
    for file in files_containing(tree, *SIGNS, among=files):
        if match := runtime.search((tree.read(file) or b"").decode("latin-1")):
            return file, match[1]
    return None


def with_vendored_imports(patches: Sequence[Patch]) -> tuple[Patch, ...]:
    """Return the patches with their runtime imports changed to the vendored runtime."""
    return translated(patches, lambda code: code.replace(f"from {PACKAGE} ", f"from {VENDORED} "))


def with_runtime_files(tree: Tree) -> OverlayTree:
    """Return the tree with the runtime's files added."""
    return OverlayTree(tree, runtime_files())


def with_runtime(tree: Tree, plan: Plan) -> Plan:
    """Return a plan that was made on ``with_runtime_files(tree)``, with the runtime's files added to its changes."""
    users = [status.patch.id for status in plan.changed_patches if _imports_runtime(status.patch)]
    return replace(plan, tree=tree, changes=(*_copies(tree, users), *plan.changes))


def _imports_runtime(patch: Patch) -> bool:
    texts = (after or b"" for diff in patch.diffs for _, after in diff.files.values())
    return any(_INSIDE.match(code) for edit in patch.edits for code in edit.imports) or any(
        _INSIDE.search(text.decode(errors="replace")) for text in texts
    )


def _copies(tree: Tree, users: Sequence[str]) -> list[FileChange]:
    """Return a change for each runtime file; one that already exists is recorded for its new users."""
    if not users:
        return []
    changes = []
    for file, content in runtime_files().items():
        existing = tree.read(file)
        is_edited = existing is not None and _differs_in_header(existing, content)
        changes.append(FileChange(file, existing, existing if is_edited else content, tuple(users)))
    return changes


def _differs_in_header(existing: bytes, content: bytes) -> bool:
    """Return whether a file is a copy to which at most comments were added at the top, as hooks do for a license."""
    before, copied, after = existing.replace(b"\r\n", b"\n").rpartition(content)
    return bool(copied) and not after and all(line[:1] in (b"#", b"") for line in before.splitlines())

"""Find and read the runtime that a tree's code would import, without importing it or needing torch."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.plan.vendor import PACKAGE, VENDORED, is_vendored
from patchkit.tree.limits import read_whole
from patchkit.tree.nodes import bound_names, own_statements
from patchkit.tree.sglang import files_of
from patchkit.tree.source import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree

_API = "api_"


@dataclass(frozen=True)
class Runtime:
    """The runtime of patched code; ``read`` returns a module's source by dotted name, or None.

    ``package`` is the name under which patched code imports it.
    """

    place: str
    read: Callable[[str], bytes | None]
    package: str = PACKAGE

    def api(self, name: str) -> ast.Module | None:
        """Return the syntax tree of ``api_N``, or None if the runtime has no such API."""
        source = self.read(f"{self.package}.{name}")
        return None if source is None else parsed(source)

    @property
    def present(self) -> bool:
        """Whether the runtime is installed."""
        return self.read(self.package) is not None

    def definition(self, api: ast.Module, name: str) -> ast.FunctionDef | None:
        """Return the function that an API exports as ``name``, or None if that is not a function."""
        for statement in api.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return statement
            if isinstance(statement, ast.ImportFrom) and statement.module:
                for alias in statement.names:
                    if (alias.asname or alias.name) == name:
                        module = "." * statement.level + statement.module
                        home = self.read(importlib.util.resolve_name(module, self.package))
                        body = parsed(home).body if home is not None else []
                        functions = (item for item in body if isinstance(item, ast.FunctionDef))
                        return next((item for item in functions if item.name == alias.name), None)
        return None


def is_api(name: str) -> bool:
    """Return whether a name is that of a version of the runtime's API."""
    return name.startswith(_API) and name.removeprefix(_API).isdigit()


def names_in(module: ast.Module) -> frozenset[str]:
    """Return the names that a module binds at its top level."""
    return frozenset(name for node in own_statements(module.body) for name in bound_names(node))


def runtime_of(tree: CheckoutTree) -> Runtime:
    """Return the runtime in the tree, else that of the tree's environment, else that of this interpreter."""
    if is_vendored(tree):

        def read_inside(dotted: str) -> bytes | None:
            contents = (tree.read(file) for file in files_of(dotted))
            return next((content for content in contents if content is not None), None)

        return Runtime(str(tree.package), read_inside, VENDORED)
    installed = tree.root.name in {"site-packages", "dist-packages"}
    paths = _with_linked_folders(tree.root) if installed else sys.path

    def read(dotted: str) -> bytes | None:
        search: list[str] | None = list(paths)
        spec = None
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), search)
            if spec is None:
                return None
            search = list(spec.submodule_search_locations or ())
        origin = spec.origin if spec is not None else None
        return Path(origin).read_bytes() if origin and origin.endswith(".py") else None

    return Runtime(str(tree.root) if installed else sys.prefix, read)


def _with_linked_folders(site: Path) -> list[str]:
    """Return a site folder and the folders that its ``.pth`` files add, as editable installs do."""
    paths = [str(site)]
    for link in sorted(site.glob("*.pth")):
        # Python skips an unreadable one, too.
        with suppress(OSError):
            lines = map(str.strip, os.fsdecode(read_whole(link)).splitlines())
            places = [os.path.join(site, line) for line in lines if line]
            paths += [place for place in places if os.path.isdir(place) and place not in paths]
    return paths

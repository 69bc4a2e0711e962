"""A site is found by names and structure, wherever a fork has moved it, or it is said why not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods.examination import Examination, Standing, absent, ambiguous
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import Scope, base_names, resolve
from patchkit.tree.sglang import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.kinds.definitions import Import
    from patchkit.patchset.patch import Address, Fact
    from patchkit.tree.modules import Modules

from patchkit.tree.sglang import serves


@dataclass(frozen=True)
class Place:
    """A scope in a file."""

    file: str
    scope: Scope


class Workspace:
    """The tree as it would be after the edits made so far; a snapshot can be taken and gone back to."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.edited: dict[str, cst.Module] = {}

    def get(self, file: str) -> cst.Module | None:
        """Return the file's syntax tree with the edits so far."""
        return self.edited.get(file) or self.modules.get(file)

    def locate_first(self, addresses: Sequence[Address]) -> Place | Examination:
        """Find the first of several addresses of a place that the tree has."""
        place = self.locate(addresses[0].files, addresses[0].scope)
        for address in addresses[1:]:
            if isinstance(place, Place) or place.standing is not Standing.ABSENT:
                break
            place = self.locate(address.files, address.scope)
        return place

    def locate(self, files: Sequence[str], dotted: str) -> Place | Examination:
        """Find the one place in the tree with this dotted name, in ``files`` or wherever it has moved."""
        there = [file for file in files if self.modules.source(file) is not None]
        if not dotted:
            places = [Place(file, Scope(module, (), "")) for file in there if (module := self.get(file))]
        else:
            places = [place for file in there for place in self._in_file(file, dotted)]
            first = dotted.split(".", 1)[0]
            if not places and not any(self._binds(file, first) for file in there):
                moved = self.modules.defining(first) if any(map(serves, files)) else []
                places = [
                    place for file in moved if file not in there for place in self._in_file(file, dotted)
                ]
        if len(places) == 1:
            return places[0]
        if places:
            where = ", ".join(sorted({place.file for place in places}))
            return ambiguous(f"{dotted or 'the file'} is there {len(places)} times ({where})")
        wanted = f"{dotted} in {' or '.join(files)}" if dotted else " or ".join(files)
        return absent(f"the tree has no {wanted}")

    def _binds(self, file: str, name: str) -> bool:
        assignment = rb"^" + re.escape(name).encode() + rb"\s*(:.*)?="
        source = self.modules.source(file) or b""
        return bool(self._resolve(file, name)) or re.search(assignment, source, re.MULTILINE) is not None

    def _resolve(self, file: str, dotted: str) -> list[Place]:
        """Find a place in a file by its name; the file is parsed only if it may hold all parts of the name."""
        if file not in self.edited and not all(
            self.modules.mentions(file, part) for part in dotted.split(".")
        ):
            return []
        module = self.get(file)
        return [] if module is None else [Place(file, scope) for scope in resolve(module, dotted)]

    def _in_file(self, file: str, dotted: str) -> list[Place]:
        self.get(file)  # A file that a patch names has to be valid, whatever it holds.
        found = self._resolve(file, dotted)
        if found or "." not in dotted:
            return found
        owner, method = dotted.rsplit(".", 1)
        return self._inherited(file, owner, method, frozenset())

    def _bases(self, file: str, owner: str) -> list[str]:
        outlined = None if file in self.edited else self.modules.bases(file, owner)
        if outlined is not None:
            return outlined
        nodes = [place.scope.node for place in self._resolve(file, owner)]
        return [base for node in nodes if isinstance(node, cst.ClassDef) for base in base_names(node)]

    def _inherited(self, file: str, owner: str, method: str, seen: frozenset[str]) -> list[Place]:
        """Follow a method that moved to a base class, also one in another file."""
        if owner in seen:
            return []
        for base in self._bases(file, owner):
            found: list[Place] = []
            for home in [file] if self._resolve(file, base) else self.modules.homes(file, base):
                own = self._resolve(home, f"{base}.{method}")
                found += own or self._inherited(home, base, method, seen | {owner})
            if found:
                return found
        return []

    def at_home(self, need: Import) -> Import | None:
        """Return an import of what the tree defines from where it does, ``None`` if no one place does."""
        package, _, module = need.source.partition(".")
        if package != NAME or self._provides(module.replace(".", "/"), need.names):
            return need
        homes = {home for name in need.names for home in self.modules.defining(name)}
        if len(homes) != 1:
            return None
        (home,) = homes
        return need.moved_to(f"{NAME}.{home.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}")

    def _provides(self, module: str, names: set[str]) -> bool:
        """Tell whether a module, or a package's folder, has these names; those that edits added are there too."""
        file = f"{module}.py"
        source = self.modules.source(file) or self.modules.source(f"{module}/__init__.py") or b""
        return file in self.edited or all(
            name.encode() in source or self.modules.source(f"{module}/{name}.py") is not None
            for name in names
        )

    def holds(self, fact: Fact) -> bool:
        """Tell whether a fact is true of the tree with the edits so far."""
        place = self.locate_first(fact.addresses)
        if isinstance(place, Examination):
            return False
        root, path = place.scope.node, place.scope.path
        if fact.has and not Pattern.compile(fact.has).find(root, path):
            return False
        return not (fact.lacks and Pattern.compile(fact.lacks).find(root, path))

"""Find a file or definition of one tree in another: under the same name, or moved or renamed."""

from __future__ import annotations

import difflib
import posixpath
import re
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from patchkit.change.imports import parted
from patchkit.change.outline import MODULE, Item, NoOutlineError, outline
from patchkit.change.pairing import likeness
from patchkit.change.undefined import undefined_names
from patchkit.tree.sglang import SERVING, files_of, module_of, serves
from patchkit.tree.text import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from patchkit.tree.tree import Tree

_Place = TypeVar("_Place")
LIKE = 0.5
"""The least likeness, up to 1, of a file or definition that may have been renamed."""
_MAX_DEFINING_FILES = 20
"""A name that more files define does not show where a definition has moved."""
_REMOTELY = 0.3
"""The least likeness of what may be like it in a tree that has drifted."""
_MIN_BYTES = 200
"""The least size of a file that is looked for by its lines."""
_CLOSE = 0.1
"""The least difference in likeness between the best match and the next; closer ones are ambiguous."""


class Trees:
    """The tree of a change and the tree that it is ported to, and what corresponds in them."""

    def __init__(self, base: Tree, onto: Tree) -> None:
        self.base = base
        self.onto = onto
        self._outlines: dict[tuple[bool, str], Item | None] = {}
        self._files: dict[str, str | None] = {}
        self._fresh: dict[str, dict[str, bytes]] = {}

    def file(self, name: str) -> str | None:
        """Return the file of the second tree that corresponds to one of the first; None if none does."""
        if name not in self._files:
            self._files[name] = name if self.onto.read(name) is not None else self._alike(name)
        return self._files[name]

    def undefined(self, file: str, content: bytes, *theirs: bytes) -> list[str]:
        """Return the names that only become undefined in a file of the second tree with this content.

        What is undefined in ``theirs``, the change's own files, is none of them.
        """
        return [name for name, _ in undefined_names(self.onto.read(file) or b"", content, *theirs)]

    def _alike(self, name: str) -> str | None:
        """Return the only file new in the second tree that has nearly the same lines."""
        text = self.base.read(name)
        if text is None or len(text) < _MIN_BYTES:
            return None
        suffix = posixpath.splitext(name)[1]
        stem = posixpath.basename(name)
        if suffix not in self._fresh:
            served = [file for file in self.onto.files(SERVING, suffix) if self.base.read(file) is None]
            files = [*served, *self._outside(suffix)]
            self._fresh[suffix] = {file: self.onto.read(file) or b"" for file in files}
        fresh = self._fresh[suffix]
        named = [file for file in fresh if posixpath.basename(file) == stem] or list(fresh)
        return _likeliest([(alike(text, fresh[file]), file) for file in named])

    def _outside(self, suffix: str = ".py") -> list[str]:
        """Return the files of the second tree that are new and not of the serving package: code moved there too.

        What of them is new is known only if the first tree is a whole package, not some of its files.
        """
        if self.base.read("__init__.py") is None:
            return []
        names = frozenset(self.base.files("", suffix))
        return [file for file in self.onto.files("", suffix) if not (serves(file) or file in names)]

    def outline(self, file: str, *, onto: bool) -> Item | None:
        """Return a file of one of the trees as items; None if there is none or it is not Python."""
        if (onto, file) not in self._outlines:
            content = (self.onto if onto else self.base).read(file)
            self._outlines[onto, file] = None if content is None else outlined(content)
        return self._outlines[onto, file]

    def definition(self, file: str, base: Item) -> tuple[str, Item] | None:
        """Return the one file and item to which a class, function or value of ``file`` has moved; None if unclear."""
        if not base.is_definition:
            return self._value(base)
        scores: list[tuple[float, tuple[str, Item]]] = []
        for home, definition in self.named(base.name):
            if definition.kind == "ClassDef" and base.kind != "ClassDef":
                continue
            before = self.outline(home, onto=False)
            if before is not None and before.find(definition.site) is not None:
                continue  # It is another one, which the first tree has as well.
            score = _likeness(base, definition)
            if score >= LIKE:
                scores.append((score, (home, definition)))
        return _likeliest(scores)

    def is_orphan(self, name: str, file: str) -> bool:
        """Return whether nothing in the second tree imports a file, as something in the first, if whole, does."""
        if not serves(file) or self.base.read("__init__.py") is None or _imports_of(file, self._sources):
            return False
        read = ((file, self.base.read(file)) for file in self.base.files(""))
        return _imports_of(name, {file: text for file, text in read if text is not None})

    def importing(self, line: str, siblings: Iterable[str] = ()) -> str:
        """Return an import of one name as the second tree has it, from where that is now; empty if that is unclear.

        ``siblings`` are imports, of one name each, of the file there: a name's home may be that of its former siblings.
        """
        source, taken, alias = parted(line)
        files = files_of(source)
        is_known = any(self.base.read(file) is not None for file in files)
        # What the first tree does not have there comes with the change.
        is_new = is_known and not self._resolves(self.base, source, taken)
        if not files or is_new or self._resolves(self.onto, source, taken):
            return line
        if not taken:
            moved = self._moved(files) if alias else ""
            return f"import {self._module(moved, line)} as {alias}" if moved else ""
        as_alias = f" as {alias}" if alias else ""
        moved = self._moved(files_of(f"{source}.{taken}"))
        if moved:
            folder, _, name = self._module(moved, line).rpartition(".")
            as_other = as_alias or (f" as {taken}" if name != taken else "")
            return f"from {folder} import {name}{as_other}"
        homes = {self._moved(files)} if self._binds(self.onto, self._moved(files), taken) else set[str]()
        homes = homes or {
            file
            for home, name, _ in map(parted, siblings)
            for file in files_of(home)
            if self._resolves(self.base, source, name) and self._binds(self.onto, file, taken)
        }
        homes = homes or self._homes(files, taken)
        (home,) = homes if len(homes) == 1 else ("",)
        return f"from {self._module(home, line)} import {taken}{as_alias}" if home else ""

    def _homes(self, files: Sequence[str], name: str) -> set[str]:
        """Return the files of the second tree to which a definition or a value of a module may have moved."""
        was = next((file for file in files if self.base.read(file) is not None), "")
        original = self.outline(was, onto=False) if was else None
        before = original.find(name) if original is not None else None
        if before is not None:
            moved = self.definition(was, before)
            return {moved[0]} if moved is not None else set()
        homes = {
            file for file, item in self.named(name) if item.parent is not None and item.parent.kind == MODULE
        }
        if homes or not was:
            return homes
        return self._assigning(name)

    def _assigning(self, name: str) -> set[str]:
        """Return the files of the second tree that assign a name at their top level, and do not in the first."""
        sign = re.compile(rb"^%s[ \t]*(?::[^=\n]+)?=(?!=)" % re.escape(name.encode()), re.M)
        return {file for file in self._having(name, sign) if not sign.search(self.base.read(file) or b"")}

    def _value(self, base: Item) -> tuple[str, Item] | None:
        """Return the one file and statement to which a module's value has moved unchanged."""
        is_of_module = base.parent is not None and base.parent.kind == MODULE
        roots = ((file, self.outline(file, onto=True)) for file in self._assigning(base.name) if is_of_module)
        places = [
            (file, item)
            for file, root in roots
            for item in (root.children if root is not None else ())
            if item.name == base.name and item.code == base.code
        ]
        return places[0] if len(places) == 1 else None

    def _moved(self, files: Sequence[str]) -> str:
        """Return the file to which one of some files of the first tree has moved; empty if none has."""
        was = next((file for file in files if self.base.read(file) is not None), "")
        now = self.file(was) if was else None
        return now if now is not None and now != was else ""

    def _module(self, file: str, line: str) -> str:
        return module_of(file, line.split()[1].partition(".")[0])

    def _resolves(self, tree: Tree, source: str, taken: str) -> bool:
        """Return whether a tree has a module or, if one is ``taken``, a name in it."""
        files = files_of(source)
        if not taken:
            return any(tree.read(file) is not None for file in files)
        folder = files[-1].removesuffix("__init__.py")
        is_module = any(tree.read(f"{folder}{taken}{end}") is not None for end in (".py", "/__init__.py"))
        return is_module or any(self._binds(tree, file, taken) for file in files)

    def _binds(self, tree: Tree, file: str, name: str) -> bool:
        """Return whether a file may have a name: it is in it, or the file has all names of others."""
        text = tree.read(file) if file else None
        sign = rb"\b(?:%s|import \*|__getattr__)(?!\w)" % re.escape(name.encode())
        return text is not None and re.search(sign, text) is not None

    def named(self, name: str) -> list[tuple[str, Item]]:
        """Return the classes and functions of the second tree with a name, with their files; none if it is common."""
        sign = re.compile(
            rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+" + re.escape(name.encode()) + rb"\b", re.M
        )
        places: list[tuple[str, Item]] = []
        homes = self._having(name, sign)
        if len(homes) <= _MAX_DEFINING_FILES:
            for file in homes:
                root = self.outline(file, onto=True)
                inside = root.definitions() if root is not None else ()
                places += [(file, item) for item in inside if item.name == name]
        return places

    def _having(self, name: str, sign: re.Pattern[bytes]) -> list[str]:
        """Return the files of the second tree with a pattern, in which is a name."""
        word = name.encode()
        return [file for file, text in self._sources.items() if word in text and sign.search(text)]

    @cached_property
    def _sources(self) -> dict[str, bytes]:
        read = ((file, self.onto.read(file)) for file in [*self.onto.files(SERVING), *self._outside()])
        return {file: content for file, content in read if content is not None}


def _likeliest(scores: Sequence[tuple[float, _Place]]) -> _Place | None:
    """Return the place with the greatest likeness, unless that is little, or that of another one nearly as great."""
    best = sorted(scores, key=lambda score: -score[0])[:2]
    if not best or best[0][0] < LIKE or (len(best) > 1 and best[0][0] - best[1][0] < _CLOSE):
        return None
    return best[0][1]


def _imports_of(file: str, sources: Mapping[str, bytes]) -> bool:
    """Return whether other files may import a file: they name it below its folder, or are beside it and name it."""
    folder, name = posixpath.split(file.removesuffix(".py").removesuffix("/__init__"))
    above, stem = (re.escape(part.encode()) for part in (posixpath.basename(folder), name))
    sign = re.compile(
        rb"\b%b\.%b\b|\b%b\s+import\s*(?:\([^)]*|[^\n(]*)\b%b\b" % (above, stem, above, stem)
        if above
        else rb"\b%b\b" % stem
    )
    sibling = re.compile(rb"\b%b\b" % stem)
    return any(
        (sign.search(text) or (posixpath.dirname(importer).startswith(folder) and sibling.search(text)))
        for importer, text in sources.items()
        if importer != file and name.encode() in text
    )


def module_files(line: str) -> tuple[str, ...]:
    """Return the files that an import of one name may be of."""
    source, taken, _ = parted(line)
    return (*files_of(source), *(files_of(f"{source}.{taken}") if taken else ()))


def lookalikes(tree: Tree, name: str, before: bytes | None, after: bytes | None) -> list[str]:
    """Return the other files of a tree, and the other definitions, that may look like a changed one that has moved.

    A change that is to be made without its tree needs them: they are not where its code has moved.
    """
    if before is None:
        return []
    suffix = posixpath.splitext(name)[1]
    files = (
        [file for file in tree.files(SERVING, suffix) if file != name] if len(before) >= _MIN_BYTES else []
    )
    candidates = [file for file in files if alike(before, tree.read(file) or b"") >= _REMOTELY]
    base, theirs = outlined(before), outlined(after or b"")
    if base is None or theirs is None:
        return candidates
    trees = Trees(tree, tree)
    for item in base.definitions():
        other = theirs.find(item.site)
        is_changed = other is None or other.code != item.code
        for home, definition in trees.named(item.name) if is_changed else ():
            is_other = (home, definition.site) != (name, item.site) and home.isprintable()
            if is_other and _likeness(item, definition) >= _REMOTELY:
                candidates.append(f"{home}::{definition.site}")
    return candidates


def alike(one: bytes, other: bytes) -> float:
    """Return the share of equal lines of two files; 0 if one is much longer."""
    if not 0.5 < (len(one) + 1) / (len(other) + 1) < 2:
        return 0.0
    left, right = set(one.splitlines()), set(other.splitlines())
    return 2 * len(left & right) / max(1, len(left) + len(right))


def _likeness(one: Item, other: Item) -> float:
    if one.own_dedented == other.own_dedented:
        return 1.0
    lines = (one.own_dedented.splitlines(), other.own_dedented.splitlines())
    return max(
        likeness(one, other) if one.name != other.name else 0.0,
        difflib.SequenceMatcher(None, *lines, autojunk=False).ratio(),
    )


def outlined(content: bytes) -> Item | None:
    """Return a file of a tree as items, which share its syntax tree with its checks; None if it is not Python."""
    try:
        return outline(decoded(content), content)
    except (NoOutlineError, UnicodeDecodeError):
        return None

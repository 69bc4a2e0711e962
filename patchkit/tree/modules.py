"""Parse a tree's files on first use; trees that share a file share its syntax tree."""

from __future__ import annotations

import hashlib
import re
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from patchkit import memory
from patchkit.errors import TreeError
from patchkit.tree.bodies import NeededBodies, ReducedSource, Reduction, without_bodies
from patchkit.tree.history import has_commit
from patchkit.tree.index import Class, Function, Index
from patchkit.tree.limits import require_manageable, require_short
from patchkit.tree.nesting import unvalidated
from patchkit.tree.piecewise import parse
from patchkit.tree.sglang import SERVING, files_of
from patchkit.tree.source import MARKER, fault_of
from patchkit.tree.tree import CheckoutTree

if TYPE_CHECKING:
    from collections.abc import Hashable

    from patchkit.tree.tree import Tree

_Source = TypeVar("_Source", bound="Hashable")
_Result = TypeVar("_Result")


_PARSED: memory.RecentCache[bytes, cst.Module] = memory.RecentCache(128)
_REDUCED: memory.RecentCache[bytes, Reduction] = memory.RecentCache(512)
_DEFINITION = re.compile(rb"\n(?:class|(?:async )?def) ([^\s(:\[\\]+)")
# Looks ahead, since the name after the last word of a comment, "class", may be the next line's "def".
_NAMED = re.compile(rb"(?:class|def)\s+(?=([^\s(:\[\\]+))")


@memory.cached(2048)
def _defined_in(source: bytes) -> frozenset[bytes]:
    """Return the names of a file's top-level classes and functions."""
    return frozenset(_DEFINITION.findall(b"\n" + source))


@memory.cached(2048)
def _named_in(source: bytes) -> frozenset[bytes]:
    """Return a superset of the names of a file's classes and functions."""
    return frozenset(_NAMED.findall(source))


@dataclass(frozen=True)
class PlainText(cst.Module):
    """The text of a file that is not Python; a missing file if ``content`` is None."""

    content: str | None = None

    @property
    def bytes(self) -> bytes:
        """The file's bytes."""
        return self.code.encode()

    @property
    def code(self) -> str:
        """The file's text."""
        return self.content or ""


def text_module(content: str | None) -> PlainText:
    """Return a text, or a missing file (None), as a module without statements."""
    return PlainText(body=(), content=content)


def is_no_file(module: cst.Module | None) -> bool:
    """Return whether a module represents a missing file."""
    return isinstance(module, PlainText) and module.content is None


class WidenedError(Exception):
    """A file has more in its syntax tree now than in that which was rewritten: it has to be rewritten anew."""


class Modules:
    """A tree's files as syntax trees, parsed on first use."""

    def __init__(self, tree: Tree, needed: NeededBodies | None = None) -> None:
        """Read ``tree``; of ``needed`` bodies, syntax trees lack all others."""
        self.tree = tree
        self._needed = needed
        self._parsed: dict[str, cst.Module | None] = {}
        self._reduced: dict[str, ReducedSource] = {}
        self._rewritten: set[str] = set()
        self._widened: set[str] = set()
        self._sources: dict[str, bytes | None] = {}
        self._named: dict[str, frozenset[bytes]] = {}
        own = weakref.ref(self)

        def alive() -> Modules:
            modules = own()
            assert modules is not None  # An index does not outlive its modules.
            return modules

        # Without a cycle, syntax trees are freed with their last reference.
        self.index = Index(lambda file: alive().source(file), lambda name: alive()._classes_named(name))

    def source(self, file: str) -> bytes | None:
        """Return a file's bytes, or None if the tree has no such file."""
        if file not in self._sources:
            self._sources[file] = self.tree.read(file)
        return self._sources[file]

    def label(self, file: str) -> str:
        """Return a digest of a file's bytes, empty if the tree has no such file."""
        source = self.source(file)
        return "" if source is None else hashlib.blake2b(source, digest_size=16).hexdigest()

    def version(self) -> str | None:
        """Return the tree's version, or None if it is unknown."""
        return self.tree.version

    def has_commit(self, commit: str, subject: str) -> bool:
        """Return whether a commit, or one with this subject, is in the history of the tree."""
        return has_commit(self.tree, commit, subject)

    def get(self, file: str) -> cst.Module | None:
        """Return a file's syntax tree, or None if there is no such file. Raise TreeError if it does not parse."""
        if file not in self._parsed:
            source = self.source(file)
            shaped = self._shape if file.endswith(".py") else self._text
            self._parsed[file] = None if source is None else shaped(file, source)
        return self._parsed[file]

    def note_rewrite(self, file: str) -> None:
        """Note that a file's syntax tree is rewritten, so that a wider one cannot take its place."""
        self._rewritten.add(file)

    def widen(self, file: str) -> bool:
        """Let a file's syntax tree have what is needed of any file; return whether it had less.

        Raise WidenedError if that was rewritten.
        """
        if self._needed is None or file not in self._needed.own or file in self._widened:
            return False
        self._widened.add(file)
        had_less = self._parsed.pop(file, None) is not None
        if file in self._rewritten:
            raise WidenedError
        return had_less

    def parsed(self, file: str, source: bytes) -> cst.Module:
        """Return the whole syntax tree of other content for a file. Raise TreeError if it does not parse."""
        return self._parse(file, source) if file.endswith(".py") else self._text(file, source)

    def _text(self, file: str, source: bytes) -> cst.Module:
        require_short(file, source)
        try:
            return text_module(source.decode())
        except UnicodeDecodeError:
            raise TreeError(
                "not UTF-8, so the file cannot be edited", where=file, advice="save it as UTF-8 and try again"
            ) from None

    def _shape(self, file: str, source: bytes) -> cst.Module:
        # Python and libcst may count these line endings differently, so such files are parsed whole.
        needed = self._needed
        if needed is not None and file not in self._widened:
            needed = needed.own.get(file, needed)
        if needed is not None and (file in needed.files or b"\f" in source or b"\r" in source):
            needed = None
        reduction = _REDUCED.get(source, Reduction)
        reduced = reduction.made(needed, lambda wanted: self._reduce(file, source, wanted))
        self._reduced[file] = reduced
        return _PARSED.get(reduced.source, lambda: self._parse(file, reduced.source))

    def _reduce(self, file: str, source: bytes, needed: NeededBodies | None) -> ReducedSource:
        require_manageable(file, source)
        module = self.index.module(file)
        if module is None or needed is None:
            return ReducedSource(source)
        return without_bodies(source, module.tree, needed)

    def restored(self, file: str, content: bytes) -> bytes:
        """Return the edited ``content`` of a file with its stripped function bodies restored."""
        return self._reduced[file].restored(content) if file in self._reduced else content

    def _parse(self, file: str, source: bytes) -> cst.Module:
        try:
            with unvalidated():
                module = parse(source)
        except cst.ParserSyntaxError as error:
            fault = fault_of(source)  # libcst often names a later line.
            line = fault.line if fault is not None else error.raw_line
            what, advice = "not valid Python", "fix the file and try again"
            if MARKER.search(source):
                what, advice = "conflict markers of a merge", "resolve the conflict and try again"
            raise TreeError(what, where=f"{file}:{line}", advice=advice) from None
        except (UnicodeError, LookupError, SyntaxError):  # An escape in a coding can give half a character.
            raise TreeError(
                "neither UTF-8 nor the encoding in its coding line",
                where=file,
                advice="save it as UTF-8, without a coding line, and try again",
            ) from None
        # The parser drops a form feed in front of code, and lines that a carriage return alone ends.
        if (b"\f" in source or b"\r" in source) and module.bytes != source:
            raise TreeError(
                "has form feeds or bare carriage returns, which a rewrite would lose",
                where=file,
                advice="remove them and try again",
            )
        return module

    def mentions(self, file: str, name: str) -> bool:
        """Return whether a file may define a class or function of this name, without parsing it."""
        if file not in self._named:
            self._named[file] = _named_in(self.source(file) or b"")
        return name.encode() in self._named[file]

    def homes(self, file: str, name: str) -> list[str]:
        """Return the files that may define a name used in ``file``: the one it is imported from, or else any."""
        module = self.index.module(file)
        if module is None or name not in module.imports:
            return self.defining(name)
        definition = self.index.resolve(module, name)
        if isinstance(definition, Class | Function):
            return [definition.module.file]
        source, _ = module.imports[name]
        return self.defining(name) if files_of(source) else []

    def defining(self, name: str) -> list[str]:
        """Return the files of the serving package with a top-level class or function of this name."""
        return self._defining.get(name.encode(), [])

    @cached_property
    def _defining(self) -> dict[bytes, list[str]]:
        texts = self.tree.definitions() if isinstance(self.tree, CheckoutTree) else None
        if texts is None:
            texts = {file: self.source(file) or b"" for file in self.tree.files(SERVING)}
        by_name: dict[bytes, list[str]] = {}
        for file, text in texts.items():
            for name in _defined_in(text):
                by_name.setdefault(name, []).append(file)
        return by_name

    def _classes_named(self, name: str) -> list[Class]:
        modules = map(self.index.module, self.defining(name))
        return [module.classes[name] for module in modules if module is not None and name in module.classes]

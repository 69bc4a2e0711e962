"""The tree's files as syntax trees, each parsed when first asked for, and once for all trees that have it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Generic, TypeVar

import libcst as cst

from patchkit import collector
from patchkit.errors import TreeError
from patchkit.tree.headers import Interest, Reduced, without_bodies
from patchkit.tree.index import Class, Function, Index
from patchkit.tree.limits import require_shallow, require_short
from patchkit.tree.plain import plain
from patchkit.tree.sglang import SERVING, files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from patchkit.tree.tree import Tree

_Source = TypeVar("_Source", bound="Hashable")
_Made = TypeVar("_Made")


class _Kept(Generic[_Source, _Made]):
    """What was made of sources, for trees that share files; the last ones used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[_Source, _Made] = {}
        collector.forgotten_with(self._made.clear)

    def get(self, source: _Source, make: Callable[[], _Made]) -> _Made:
        """Return what is made of a source, by ``make`` if it is not among what is kept."""
        made = self._made.pop(source) if source in self._made else make()
        self._made[source] = made
        if len(self._made) > self._most:
            del self._made[next(iter(self._made))]
        return made


_PARSED: _Kept[bytes, cst.Module] = _Kept(128)
_REDUCED: _Kept[tuple[bytes, Interest | None], Reduced] = _Kept(512)


class Modules:
    """The tree's files as syntax trees, parsed when first asked for."""

    def __init__(self, tree: Tree, interest: Interest | None = None) -> None:
        """Read ``tree``; with an ``interest`` the syntax trees lack the bodies of functions outside it."""
        self.tree = tree
        self._interest = interest
        self._parsed: dict[str, cst.Module | None] = {}
        self._reduced: dict[str, Reduced] = {}
        self._sources: dict[str, bytes | None] = {}
        self._listing: list[str] | None = None
        self._homes: dict[str, list[str]] = {}
        self._mentions: dict[tuple[str, str], bool] = {}
        self.index = Index(self.source, self._classes_named)

    def source(self, file: str) -> bytes | None:
        """Return a file's bytes, ``None`` where the tree has no such file."""
        if file not in self._sources:
            self._sources[file] = self.tree.read(file)
        return self._sources[file]

    def label(self, file: str) -> str:
        """Return a name of a file's bytes, nothing where the tree has no such file."""
        source = self.source(file)
        return "" if source is None else hashlib.blake2b(source, digest_size=16).hexdigest()

    def version(self) -> str | None:
        """Return the tree's version, ``None`` where nothing tells it."""
        return self.tree.version

    def get(self, file: str) -> cst.Module | None:
        """Return a file's syntax tree, ``None`` if there is no such file; TreeError if it does not parse."""
        if file not in self._parsed:
            source = self.source(file)
            shaped = self._shape if file.endswith(".py") else self._plain
            self._parsed[file] = None if source is None else shaped(file, source)
        return self._parsed[file]

    def _plain(self, file: str, source: bytes) -> cst.Module:
        require_short(file, source)
        try:
            return plain(source.decode())
        except UnicodeDecodeError:
            raise TreeError(
                f"{file}: not UTF-8, so no line of it can be changed; save it as UTF-8 and try again."
            ) from None

    def _shape(self, file: str, source: bytes) -> cst.Module:
        # Line ends that the parsers may count differently are rare enough to parse all of the file.
        interest = self._interest
        if interest is not None and (file in interest.files or b"\f" in source or b"\r" in source):
            interest = None
        reduced = _REDUCED.get((source, interest), lambda: self._reduce(file, source, interest))
        self._reduced[file] = reduced
        return _PARSED.get(reduced.source, lambda: self._parse(file, reduced.source))

    def _reduce(self, file: str, source: bytes, interest: Interest | None) -> Reduced:
        require_short(file, source)
        module = self.index.module(file)
        require_shallow(file, source, None if module is None else module.tree)
        if module is None or interest is None:
            return Reduced(source)
        return without_bodies(source, module.tree, interest)

    def whole(self, file: str, content: bytes) -> bytes:
        """Return what a file became, whose syntax tree may lack bodies of functions, with those."""
        return self._reduced[file].restored(content) if file in self._reduced else content

    def _parse(self, file: str, source: bytes) -> cst.Module:
        try:
            module = cst.parse_module(source)
        except cst.ParserSyntaxError as error:
            where = f"{file}:{error.raw_line}"
            raise TreeError(
                f"{where}: not valid Python, so nothing can be planned; mend the file and try again."
            ) from None
        except (UnicodeDecodeError, LookupError, SyntaxError):
            raise TreeError(
                f"{file}: not UTF-8 nor what its coding line says; save it as UTF-8 and try again."
            ) from None
        # The parser drops a form feed in front of code, and lines that a carriage return alone ends.
        if (b"\f" in source or b"\r" in source) and module.bytes != source:
            raise TreeError(
                f"{file}: has form feeds or bare carriage returns, which a rewrite would lose; "
                "take them out and try again."
            )
        return module

    def mentions(self, file: str, name: str) -> bool:
        """Tell whether a file might define a class or function of this name; parses nothing."""
        if (file, name) not in self._mentions:
            source, word = self.source(file) or b"", name.encode()
            sign = rb"\b(class|def)\s+" + re.escape(word) + rb"\b"
            self._mentions[file, name] = word in source and re.search(sign, source) is not None
        return self._mentions[file, name]

    def homes(self, file: str, name: str) -> list[str]:
        """Return the files that may define a name of ``file``: the one that it is imported from, or any."""
        module = self.index.module(file)
        if module is None or name not in module.imports:
            return self.defining(name)
        found = self.index.resolve(module, name)
        if isinstance(found, Class | Function):
            return [found.module.file]
        source, _ = module.imports[name]
        return self.defining(name) if files_of(source) else []

    def defining(self, name: str) -> list[str]:
        """Return the files of the serving package that define a top-level class or function of this name."""
        if self._listing is None:
            self._listing = self.tree.files(SERVING)
        if name not in self._homes:
            word = name.encode()
            sign = re.compile(rb"^(class|(async )?def) " + re.escape(word) + rb"\b", re.MULTILINE)
            named = [file for file in self._listing if word in (self.source(file) or b"")]
            self._homes[name] = [file for file in named if sign.search(self.source(file) or b"")]
        return self._homes[name]

    def _classes_named(self, name: str) -> list[Class]:
        modules = map(self.index.module, self.defining(name))
        return [module.classes[name] for module in modules if module is not None and name in module.classes]

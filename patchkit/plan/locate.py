"""Locate the sites of edits by name and structure, also where a fork has moved them."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING

import libcst as cst

from patchkit import memory
from patchkit.codemods.examination import Examination, SiteState, absent, ambiguous
from patchkit.codemods.language.layout import Style, lay_out, lay_out_together
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import Scope, base_names, resolve
from patchkit.codemods.language.syntax import source_of
from patchkit.errors import ConflictError
from patchkit.plan.examinations import ExaminationResult
from patchkit.tree.index import linearised
from patchkit.tree.limits import recursing
from patchkit.tree.modules import PlainText, is_no_file, text_module
from patchkit.tree.nesting import NestingError
from patchkit.tree.sglang import files_of, module_of, serves
from patchkit.tree.tree import TreeAbove

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from patchkit.codemods.language.imports import Import
    from patchkit.patchset.patch import Address, Edit, Fact
    from patchkit.plan.examinations import AnsweredQuestion, Examinations, Question
    from patchkit.tree.modules import Modules


_TEXT, _SOURCE, _MENTIONS, _HOMES, _DEFINING, _PROVIDES = (
    "text",
    "source",
    "mentions",
    "homes",
    "defining",
    "provides",
)


@lru_cache(maxsize=2048)
def key_of(*parts: Hashable) -> str:
    """Return a digest that identifies an edit or a fact, and is the same in every process."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


@memory.cached(2048)
def _has(scope: Scope, code: str) -> bool:
    """Return whether a pattern matches in a scope."""
    return bool(Pattern.compile(code).find(scope.node, scope.path))


_SOURCES: memory.RecentCache[tuple[cst.Module | None, cst.Module, Style], bytes] = memory.RecentCache(256)


def _formatted_source(read: cst.Module | None, module: cst.Module, style: Style) -> bytes:
    return _SOURCES.get(
        (read, module, style), lambda: source_of(module if read is None else lay_out(read, module, style))
    )


@dataclass(frozen=True)
class ScopeInFile:
    """A scope in one of the tree's files."""

    file: str
    scope: Scope


class EditedFile:
    """A file with an edit on top of the edits ``before`` it, made on first use.

    ``label`` identifies the edits. ``content`` are the bytes of a file in which a diff was the last edit, ``landed`` is
    the file after the last diff.
    """

    def __init__(
        self,
        make: Callable[[], cst.Module],
        label: str = "",
        before: EditedFile | None = None,
        content: bytes | None = None,
    ) -> None:
        self._make = make
        self._before = before
        self._module: cst.Module | None = None
        self.label = label
        self.content = content
        self.landed: EditedFile | None = self if content is not None else before and before.landed

    @property
    def module(self) -> cst.Module:
        """The syntax tree."""
        if self._module is None:
            waiting = [self]
            while waiting[-1]._before is not None and waiting[-1]._before._module is None:
                waiting.append(waiting[-1]._before)
            for waiting_file in reversed(waiting):  # Oldest first; recursion would overflow on a long chain.
                waiting_file._module = waiting_file._make()
                waiting_file._before = None
        assert self._module is not None
        return self._module


class Overlay:
    """A tree with the edits made so far.

    With a ``examinations``, results for another tree are reused if every question asked there has the same answer here.
    """

    def __init__(self, modules: Modules, examinations: Examinations | None = None) -> None:
        self.modules = modules
        self.edited: dict[str, EditedFile] = {}
        self.examinations = examinations
        self._answers: dict[Question, str] | None = None

    def pristine(self) -> Overlay:
        """Return an overlay of the tree without the edits."""
        return Overlay(self.modules, self.examinations)

    def snapshot(self, *, recording: bool = False) -> Overlay:
        """Return a copy without the examinations; with ``recording``, it records the questions asked of it."""
        overlay = Overlay(self.modules)
        overlay.edited = dict(self.edited)
        overlay._answers = {} if recording else None
        return overlay

    @property
    def answers(self) -> tuple[AnsweredQuestion, ...]:
        """The recorded questions and answers, in order."""
        return tuple((self._answers or {}).items())

    def get(self, file: str) -> cst.Module | None:
        """Return the file's syntax tree with the edits so far."""
        self._note(_TEXT, file)
        module = self.edited[file].module if file in self.edited else self.modules.get(file)
        return None if is_no_file(module) else module

    def make(
        self,
        file: str,
        rewrite: Callable[[], cst.Module],
        *what: str,
    ) -> None:
        """Add an edit to a file; ``what`` identifies the edit for the file's label."""
        self.modules.note_rewrite(file)
        label = ""
        if self.examinations is not None:
            parts = repr((self._label(file), *what)).encode()
            label = f"+{hashlib.blake2b(parts, digest_size=16).hexdigest()}"

        def made() -> cst.Module:
            with recursing(file):
                return rewrite()

        self.edited[file] = EditedFile(made, label, self.edited.get(file))

    def land(self, file: str, content: bytes | None) -> None:
        """Replace a file by the content that a diff gives it, None to remove it."""
        label = f"+{key_of(content)}" if self.examinations is not None else ""
        parsed = self.modules.parsed
        make = (lambda: parsed(file, content)) if content is not None else (lambda: text_module(None))
        self.edited[file] = EditedFile(make, label, content=content)

    @property
    def tree(self) -> PlannedTree:
        """The tree with the edits made so far."""
        return PlannedTree(self.modules.tree, self)

    def content(self, file: str) -> bytes | None:
        """Return a file's bytes with the edits so far, or None if there is no such file."""
        return self.written(file, ()) if self._is_edited(file) else self._source(file)

    def written(self, file: str, patches: Sequence[str]) -> bytes | None:
        """Return an edited file's bytes, with new code formatted in the tree's style; None if it is removed.

        ``patches`` changed it, for an error message.
        """
        edited = self.edited[file]
        if edited.content is not None:
            return edited.content
        module, tree = edited.module, self.modules.tree
        if isinstance(module, PlainText):
            return None if is_no_file(module) else module.bytes
        try:
            with recursing(file):
                source = _formatted_source(self._read(file), module, Style(tree.line_length, tree.name))
                return self.modules.restored(file, source)
        except UnicodeEncodeError as error:
            raise ConflictError(
                f"{', '.join(patches)} would write {error.object[error.start]!r}, which is not in {module.encoding}",
                where=file,
                advice="save the file as UTF-8, without a coding line, and try again",
            ) from None

    def _read(self, file: str) -> cst.Module | None:
        """Return an edited file as the tree has it, or as its last diff left it."""
        landed = self.edited[file].landed
        return self.modules.get(file) if landed is None else landed.module

    def format_together(self) -> None:
        """Format the edited files, so that ``written`` knows them; what fails is left to that."""
        style = Style(self.modules.tree.line_length, self.modules.tree.name)
        waiting = []
        with suppress(NestingError, RecursionError, UnicodeEncodeError):
            for file, edited in self.edited.items():
                if edited.content is None and not isinstance(edited.module, PlainText):
                    read = self._read(file)
                    if read is not None and (read, edited.module, style) not in _SOURCES:
                        waiting.append((read, edited.module))
            for pair, module in zip(waiting, lay_out_together(waiting, style), strict=True):
                _SOURCES.get((*pair, style), partial(source_of, module))

    def _label(self, file: str) -> str:
        return self.edited[file].label if file in self.edited else self.modules.label(file)

    def _note(self, *question: str) -> None:
        if self._answers is not None and question not in self._answers:
            self._answers[question] = self.answer(question)

    def answer(self, question: Question) -> str:
        """Return this tree's answer to a recorded question."""
        kind, *key = question
        if kind == _TEXT:
            return self._label(key[0])
        if kind == _SOURCE:
            return self.modules.label(key[0])
        if kind == _MENTIONS:
            return "mentioned" if self.modules.mentions(key[0], key[1]) else ""
        if kind == _HOMES:
            return "\0".join(self.modules.homes(key[0], key[1]))
        if kind == _DEFINING:
            return "\0".join(self.modules.defining(key[0]))
        names = key.index("")
        return "provided" if self._is_provided(key[:names], key[names + 1 :]) else ""

    def _source(self, file: str) -> bytes | None:
        self._note(_SOURCE, file)
        return self.modules.source(file)

    def _mentions(self, file: str, name: str) -> bool:
        self._note(_MENTIONS, file, name)
        return self.modules.mentions(file, name)

    def _homes(self, file: str, name: str) -> list[str]:
        self._note(_HOMES, file, name)
        return self.modules.homes(file, name)

    def _defining(self, name: str) -> list[str]:
        self._note(_DEFINING, name)
        return self.modules.defining(name)

    def _is_edited(self, file: str) -> bool:
        self._note(_TEXT, file)
        return file in self.edited

    def locate_first(self, addresses: Sequence[Address]) -> ScopeInFile | Examination:
        """Return the scope at the first address that the tree has, or an examination with the reason.

        If it has none, the reason is that of the ``nearest`` address.
        """
        for address in addresses:
            place = self.locate(address.files, address.scope)
            if isinstance(place, ScopeInFile) or place.state is not SiteState.ABSENT:
                return place
        nearest = self.nearest(addresses)
        return self.locate(nearest.files, nearest.scope)

    def nearest(self, addresses: Sequence[Address]) -> Address:
        """Return the first address with a file that the tree has, otherwise the first one."""
        return next((address for address in addresses if any(map(self._has, address.files))), addresses[0])

    def locate_new(self, edit: Edit) -> ScopeInFile | Examination:
        """Return the module scope of a file that an edit creates; an empty one if the file does not exist yet."""
        file = next((file for file in edit.files if self._has(file)), edit.files[0])
        return ScopeInFile(file, Scope(self.get(file) or text_module(None), (), ""))

    def _has(self, file: str) -> bool:
        if self._is_edited(file):
            return self.get(file) is not None
        return self.modules.source(file) is not None

    def locate(self, files: Sequence[str], dotted: str) -> ScopeInFile | Examination:
        """Return the only scope with this dotted name, in ``files`` or in the file that it moved to.

        If there is none or more than one, return an examination with that reason.
        """
        present = [file for file in files if self._has(file)]
        if not dotted:
            places = [
                ScopeInFile(file, Scope(module, (), "")) for file in present if (module := self.get(file))
            ]
        else:
            places = [place for file in present for place in self._in_file(file, dotted)]
            first = dotted.split(".", 1)[0]
            if not places and not any(self._binds(file, first) for file in present):
                moved = self._defining(first) if any(map(serves, files)) else []
                places = [
                    place for file in moved if file not in present for place in self._in_file(file, dotted)
                ]
        if any(self.modules.widen(place.file) for place in places if place.file not in files):
            return self.locate(files, dotted)
        if len(places) == 1:
            return places[0]
        if places:
            where = ", ".join(sorted({place.file for place in places}))
            return ambiguous(f"{dotted or 'the file'} exists {len(places)} times ({where})")
        wanted = f"{dotted} in {' or '.join(files)}" if dotted else " or ".join(files)
        empty = "" if any((self._source(file) or b"").strip() for file in present) else ", ".join(present)
        hint = f": {empty} is empty; restore it, for example with git restore" if empty else ""
        return absent(f"the tree has no {wanted}{hint}")

    def _binds(self, file: str, name: str) -> bool:
        assignment = rb"^" + re.escape(name).encode() + rb"\s*(:.*)?="
        source = self._source(file) or b""
        return bool(self._resolve(file, name)) or re.search(assignment, source, re.MULTILINE) is not None

    def _resolve(self, file: str, dotted: str) -> list[ScopeInFile]:
        """Return the scopes of a file with this name; parses the file only if it may define all parts of the name."""
        if not self._is_edited(file) and not all(self._mentions(file, part) for part in dotted.split(".")):
            return []
        module = self.get(file)
        return [] if module is None else [ScopeInFile(file, scope) for scope in resolve(module, dotted)]

    def _in_file(self, file: str, dotted: str) -> list[ScopeInFile]:
        self.get(file)  # Raises TreeError for a file that a patch names and that is not valid.
        places = self._resolve(file, dotted)
        if places or "." not in dotted:
            return places
        owner, method = dotted.rsplit(".", 1)
        return self._inherited(file, owner, method)

    def _inherited(self, file: str, owner: str, method: str) -> list[ScopeInFile]:
        """Return the method of a base class, which may be in another file, in method resolution order."""
        for _, bases in groupby(
            linearised((file, owner), self._parents, ": ".join)[1:], key=lambda pair: pair[1]
        ):
            places = [place for home, base in bases for place in self._resolve(home, f"{base}.{method}")]
            if places:
                return places
        return []

    def _parents(self, pair: tuple[str, str]) -> list[tuple[str, str]]:
        """Return the bases of a class with their files; a base that several files may define is listed with each."""
        file, owner = pair
        return [
            (home, base)
            for base in self._bases(file, owner)
            for home in ([file] if self._resolve(file, base) else self._homes(file, base))
        ]

    def _bases(self, file: str, owner: str) -> Sequence[str]:
        module = None if self._is_edited(file) else self.modules.index.module(file)
        if module is not None and module.defines_once(owner):
            return module.classes[owner].bases
        nodes = [place.scope.node for place in self._resolve(file, owner)]
        return [base for node in nodes if isinstance(node, cst.ClassDef) for base in base_names(node)]

    def from_defining_file(self, need: Import) -> Import | None:
        """Return an import from the file in which the tree defines its names, or None if that is not one file."""
        files = files_of(need.source)
        if not files or self._provides(files, need.taken):
            return need
        homes = {home for name in sorted(need.taken) for home in self._defining(name)}
        if len(homes) != 1:
            return None
        (home,) = homes
        return need.moved_to(module_of(home, need.source.partition(".")[0]))

    def _provides(self, files: Sequence[str], names: set[str]) -> bool:
        """Return whether a module, or a package's folder, has these names; an edited file is assumed to."""
        self._note(_PROVIDES, *files, "", *sorted(names))
        return self._is_provided(files, sorted(names))

    def _is_provided(self, files: Sequence[str], names: Sequence[str]) -> bool:
        if any(file in self.edited for file in files):
            return True
        source = next((content for file in files if (content := self.modules.source(file))), b"")
        folder = files[-1].removesuffix("__init__.py")
        return all(
            name.encode() in source or self.modules.source(f"{folder}{name}.py") is not None for name in names
        )

    def holds(self, fact: Fact) -> bool:
        """Return whether a fact is true of the tree with the edits so far.

        If the tree has the file under several names, one must match ``has``, and none may match ``lacks``.
        """
        if self.examinations is None:
            return self._holds(fact)
        key = key_of(fact)
        result = self.examinations.find(key, self.answer)
        if result is None:
            recording = self.snapshot(recording=True)
            result = ExaminationResult(state="holds" if recording._holds(fact) else "")
            self.examinations.record(key, recording.answers, result)
        return bool(result.state)

    def _holds(self, fact: Fact) -> bool:
        if fact.scopes == ("",):
            modules = [module for file in fact.files if (module := self.get(file)) is not None]
            scopes = [Scope(module, (), "") for module in modules]
        else:
            place = self.locate_first(fact.addresses)
            scopes = [place.scope] if isinstance(place, ScopeInFile) else []

        def has(code: str) -> bool:
            return any(_has(scope, code) for scope in scopes)

        return bool(scopes) and (not fact.has or has(fact.has)) and not (fact.lacks and has(fact.lacks))


@dataclass(frozen=True)
class PlannedTree(TreeAbove):
    """A tree with the edits made so far, as a tree."""

    overlay: Overlay

    def read(self, file: str) -> bytes | None:
        """Return the bytes of a file with the edits so far, None if there is no such file."""
        return self.overlay.content(file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files below a folder, with those that edits made and without those that they removed."""
        start = f"{folder}/" if folder else ""
        edited = {file for file in self.overlay.edited if file.startswith(start) and file.endswith(suffix)}
        present = {file for file in edited if self.overlay.content(file) is not None}
        return sorted((set(super().files(folder, suffix)) - edited) | present)

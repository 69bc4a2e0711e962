"""Make a change, given as files before and after it, in another tree, with the outcome of each file and edit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from patchkit import memory
from patchkit.change import lines
from patchkit.change.comments import loses_comments
from patchkit.change.correspondence import Correspondence
from patchkit.change.edits import EditLog, EditOutcome, Outcome
from patchkit.change.follow import LIKE, alike, module_files, outlined
from patchkit.change.imports import all_imported, bound, import_of, imported
from patchkit.change.kinds import another_kind, may_depend
from patchkit.change.layout import laid_out
from patchkit.change.merge import Merge
from patchkit.change.output import Output
from patchkit.change.sequence import unreachable_in
from patchkit.change.surroundings import reported
from patchkit.change.tokens import shifted, words
from patchkit.change.variants import new_names, variant_of
from patchkit.tree.nodes import bound_names, own_statements
from patchkit.tree.source import fault_of, parsed_or_none
from patchkit.tree.text import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from patchkit.change.edits import Key, Refusal
    from patchkit.change.follow import Trees
    from patchkit.change.outline import Item

    Sources = Mapping[str, tuple[bytes | None, bytes | None]]
    """The files of a change, before and after it; None if there is no file."""
    OutlineOf = Callable[[bytes], Item | None]
    """Returns a version of a file as items, the same for the same bytes; None if it is not Python."""
    Watch = Callable[[str, int, int], None]

NOT_MADE = frozenset({Outcome.CONFLICT, Outcome.NO_SITE, Outcome.UNMET})
"""The outcomes of edits that were not made."""
_UNMARKED = "it has no conflict markers: make this edit by hand"


@dataclass
class LandedFile:
    """One file of a change, its name in the tree (``onto``), and the outcomes of its edits."""

    file: str
    onto: str
    edits: list[EditOutcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, reason: str = "") -> None:
        """Record the outcome of an edit of the whole file."""
        self.edits.append(EditOutcome("", outcome, reason))

    @property
    def is_whole(self) -> bool:
        """Whether all of its edits are there now; edits of comments may be missing."""
        return not {edit.outcome for edit in self.edits} & NOT_MADE

    @property
    def outcome(self) -> Outcome:
        """The outcome of the file: the worst outcome of its edits."""
        outcomes = {edit.outcome for edit in self.edits}
        made = (Outcome.CHANGED, Outcome.LANDED, Outcome.KEPT)
        order = (Outcome.CONFLICT, Outcome.NO_SITE, Outcome.UNMET, *made)
        return next((outcome for outcome in order if outcome in outcomes), Outcome.ALREADY)


@dataclass
class Landing:
    """A change in another tree: its files, and the new contents; None for a file that is removed.

    ``marked`` are the contents with conflict markers at edits that were not made, ``concerned`` the files of the tree
    in which edits were made, or found to be made, and ``roots`` the items of those that were merged.
    """

    files: list[LandedFile]
    contents: dict[str, bytes | None]
    marked: dict[str, bytes | None] = field(default_factory=dict)
    concerned: frozenset[str] = frozenset()
    roots: Mapping[str, Item] = field(default_factory=dict)


@memory.collector_paused()
def land(
    sources: Sources, trees: Trees, name: str = "", *, adapting: bool = True, watch: Watch | None = None
) -> Landing:
    """Make a change on the second of two trees; ``name`` is for its markers, and ``watch`` is called with each file.

    An edit whose code has a name that nothing there defines is not made, nor one that leaves no valid Python. Unless
    ``adapting``, nor is one that would change or remove a statement that this tree has in a form of its own.
    """
    outline_of, correspondence = cache(outlined), Correspondence()
    refused: dict[Key, Refusal] = {}
    own = frozenset(file for file, (before, after) in sources.items() if before is None and after is not None)
    sources, moves = _with_moves(sources)
    sources, notes = _with_homes(sources, own, trees, outline_of)
    while True:
        merging = Merge(lambda _item: None, EditLog(refused), correspondence)
        made = _Landing(sources, trees, moves, merging, outline_of)
        landing = made.land(name, watch)
        checks = (made.invalid, made.disturbing, made.unmet, made.repeating, made.of_another_kind)
        every = checks if adapting else (*checks, made.adapted)
        refusals = next(filter(None, (dict(check()) for check in every)), {})
        more = {key: why for key, why in refusals.items() if key not in refused}
        if not more:
            made.lay_out()
            made.report_orphans()
            for file in landing.files:
                file.notes += notes.get(file.file, ())
            return landing
        refused |= more


def _with_moves(sources: Sources) -> tuple[Sources, dict[str, str]]:
    """Return the change with renames in place of deleted files that have a similar new one, and new names by old."""
    deleted = {file: before for file, (before, after) in sources.items() if before and after is None}
    added = {file: after for file, (before, after) in sources.items() if after and before is None}
    moves: dict[str, str] = {}
    for old, before in deleted.items():
        likely = [(alike(before, after), new) for new, after in added.items() if new not in moves.values()]
        score, new = max(likely, default=(0.0, ""))
        if score >= LIKE:
            moves[old] = new
    moved = {
        file: (before, added[moves[file]] if file in moves else after)
        for file, (before, after) in sources.items()
        if file not in moves.values()
    }
    return moved, moves


def _with_homes(
    sources: Sources, own: frozenset[str], trees: Trees, outline_of: OutlineOf
) -> tuple[Sources, dict[str, list[str]]]:
    """Return the change with its new imports from where the second tree has what they import, and notes on these.

    What comes from its ``own`` new or renamed files stays.
    """
    sources_found = dict(sources)
    notes: dict[str, list[str]] = {}
    for name, (before, after) in sources.items():
        is_python = after is not None and name.endswith(".py")
        base, theirs = (outline_of(before or b""), outline_of(after or b"")) if is_python else (None, None)
        if base is None or theirs is None:
            continue
        there = trees.outline(trees.file(name) or name, onto=True)
        siblings = sorted(set(all_imported(there.walk()))) if there is not None else []
        homes = {
            line: home
            for line in set(all_imported(theirs.walk())).difference(all_imported(base.walk()))
            if own.isdisjoint(module_files(line))
            if (home := trees.importing(line, siblings)) not in {"", line}
        }
        if homes:
            sources_found[name] = before, encoded(_imported_from(homes, theirs), after or b"")
            notes[name] = [f"`{line}` is `{home}` in this tree" for line, home in sorted(homes.items())]
    return sources_found, notes


def _imported_from(homes: Mapping[str, str], root: Item) -> str:
    """Return a file with some imports, of one name each, replaced by others."""
    output = Output()
    for import_item in (item for item in root.walk() if not homes.keys().isdisjoint(all_imported([item]))):
        modules: dict[str, list[str]] = {}
        for line in imported(import_item):
            home = homes.get(line, line)
            modules.setdefault(home.partition(" import ")[0], []).append(home)
        output.write(import_item, "".join(import_of(lines, import_item) for lines in modules.values()))
    return output.render(root)


def home_of(edit: EditOutcome, roots: Mapping[str, Item]) -> str:
    """Return the file in which an edit is made, which may be another than that of the change; empty if in none."""
    root = edit.place.root if edit.place is not None else None
    return next((file for file, item in roots.items() if item is root), "")


def _binds(edit: EditOutcome, name: str) -> bool:
    """Return whether the new code of an edit that was not made binds a name."""
    tree = parsed_or_none(edit.wanted.encode())
    if tree is None:  # It is a header.
        return name in {*words(edit.wanted)}.difference(words(edit.base_text))
    return any(name in bound_names(statement) for statement in own_statements(tree.body))


class _Landing:
    def __init__(
        self, sources: Sources, trees: Trees, moves: Mapping[str, str], merging: Merge, outline_of: OutlineOf
    ) -> None:
        self._sources = sources
        self._trees = trees
        self._moves = dict(moves)
        self._merging = merging
        self._outline_of = outline_of
        self._files: list[LandedFile] = []
        self._contents: dict[str, bytes | None] = {}
        self._roots: dict[str, Item] = {}
        self._from: dict[str, list[str]] = {}
        """The files of the change whose edits are made in a file."""

    def land(self, name: str, watch: Watch | None) -> Landing:
        for file, versions in self._sources.items():
            if watch is not None:
                watch(f"files: porting {file}", len(self._files), len(self._sources))
            self._files.append(self._port_file(file, *versions))
        for file in self._roots:
            self._write(file)
        for file, content in list(self._written()):
            if self._add_imports(file, content):
                self._write(file)
        for landed in self._files:
            self._mark_unchanged(landed)
        marked = self._mark(name) if name else {}
        named = {
            file for landed in self._files for file in (landed.file, landed.onto, self._target(landed.file))
        }
        concerned = named.union(self._roots, self._contents, marked)
        return Landing(
            self._files, self._contents, self._contents | marked, frozenset(concerned), self._roots
        )

    def invalid(self) -> Iterator[tuple[Key, Refusal]]:
        """Yield the edits that leave a function, or otherwise the file, invalid Python."""
        for name, content in self._written():
            if fault_of(content) is not None:
                edits = self._inside(name)
                within = [edit for edit in edits if not self._is_valid_around(edit)]
                why = Outcome.UNMET, "the result would not be valid Python"
                yield from ((edit.key, why) for edit in within or edits if edit.key)

    def disturbing(self) -> Iterator[tuple[Key, Refusal]]:
        """Yield the edits that leave a statement unreachable, or reverse the order of this tree's."""
        edits = self._merging.disturbing()
        yield from ((edit.key, (Outcome.CONFLICT, reason)) for edit, reason in edits if edit.key)

    def unmet(self) -> Iterator[tuple[Key, Refusal]]:
        """Yield the edits that leave a name undefined in their file that the change's file defines, and what it is."""
        left = [edit for file in self._files for edit in file.edits if edit.outcome in NOT_MADE]
        for name, content in self._written():
            theirs = (self._sources[file][1] or b"" for file in self._from[name])
            imports = all_imported(self._roots[name].walk())
            for missing in self._trees.undefined(name, content, *theirs):
                for edit in self._inside(name):
                    assert edit.key is not None
                    item, part = edit.key
                    text = item.head if part else item.own
                    if missing in words(edit.wanted or text):
                        home = next((edit.site for edit in left if _binds(edit, missing)), "")
                        where = f", since the edit of {home} is not made" if home else " in this tree"
                        where = (
                            ", but imported for type checkers" if missing in map(bound, imports) else where
                        )
                        yield edit.key, (Outcome.UNMET, f"{missing} is not defined{where}")

    def repeating(self) -> Iterator[tuple[Key, Refusal]]:
        """Yield the edits of which this tree has a variant of its own."""
        outlines: dict[str, tuple[Item, Item]] = {}
        python = ((name, texts) for name, texts in self._sources.items() if name.endswith(".py"))
        for name, (before, after) in python:
            base, theirs = self._outline_of(before or b""), self._outline_of(after or b"")
            if base is not None and theirs is not None:
                outlines[name] = base, theirs
        names = new_names(*([pair[side] for pair in outlines.values()] for side in (0, 1)))
        for file in (file for file in self._files if file.file in outlines):
            base, theirs = outlines[file.file]
            for edit in file.edits:
                is_new = edit.key is not None and edit.key[0].root is theirs
                variant = variant_of(edit, base, names) if is_new else ""
                if edit.key is not None and variant:
                    yield edit.key, (Outcome.CONFLICT, f"this tree has a variant of it: `{variant}`")

    def of_another_kind(self) -> Iterator[tuple[Key, Refusal]]:
        """Yield the edits of classes whose base class is of another kind in this tree."""
        for file in self._files:
            for edit in file.edits:
                home = home_of(edit, self._roots)
                if edit.key is not None and home:
                    item, part = edit.key
                    reason = self._another_kind(item, file.file, home, head_only=bool(part))
                    yield from [(edit.key, (Outcome.CONFLICT, reason))] if reason else []

    def _another_kind(self, item: Item, file: str, home: str, *, head_only: bool) -> str:
        """Return how a base class differs in kind for an item of a file of the change, ``home`` in this tree."""

        def read_theirs(name: str) -> Item | None:
            _, after = self._sources.get(name, (None, None))
            return self._trees.outline(name, onto=False) if after is None else self._outline_of(after)

        theirs, ours = (read_theirs, file), (partial(self._trees.outline, onto=True), home)
        return another_kind(item, head_only, theirs, ours)

    def _fits(self, file: str, home: str, before: bytes, after: bytes) -> bool:
        """Return whether a file, which is as the change found it, takes its classes: by the kinds of their bases."""
        if not file.endswith(".py") or not may_depend(before, after):
            return True
        base, theirs = self._outline_of(before), self._outline_of(after)
        if base is None or theirs is None:
            return True
        codes = {item.code for item in base.walk()}
        new = (item for item in theirs.walk() if item.code not in codes)
        return not any(self._another_kind(item, file, home, head_only=False) for item in new)

    def report_orphans(self) -> None:
        """Say which changed files nothing imports any more."""
        for file in self._files:
            is_python = file.file.endswith(".py") and None not in self._sources[file.file]
            made = {Outcome.LANDED, Outcome.CHANGED}
            if is_python and file.outcome in made and self._trees.is_orphan(file.file, file.onto):
                file.add(Outcome.CHANGED, "nothing in this tree imports the file any more")

    def adapted(self) -> Iterator[tuple[Key, Refusal]]:
        """Yield the edits of statements that this tree has in a form of its own."""
        files = (file for files in self._from.values() for file in files)
        roots = {self._outline_of(self._sources[file][0] or b"") for file in files}
        for edit in self._merging.log.edits:
            if edit.outcome is Outcome.CHANGED and edit.key is not None and edit.base_text:
                item, _ = edit.key
                if (edit.wanted or item.root in roots) and not item.is_import:
                    yield edit.key, (Outcome.CONFLICT, edit.reason)

    def lay_out(self) -> None:
        """Give each file the layout that a merge by lines gives it, where that has the same code."""
        for name, content in self._written():
            homes, ours = self._from[name], self._trees.onto.read(name) or b""
            before, after = self._sources[homes[0]]
            if len(homes) == 1 and before is not None and after is not None:
                text = laid_out(decoded(before), decoded(after), decoded(ours), decoded(content))
                self._contents[self._target(name)] = encoded(text, ours)

    def _written(self) -> Iterator[tuple[str, bytes]]:
        """Yield each merged file that changes, by its name before, and its new content."""
        for name in self._roots:
            content = self._contents.get(self._target(name))
            if content is not None:
                yield name, content

    def _inside(self, name: str) -> list[EditOutcome]:
        """Return the edits that were made in a file."""
        edits = (edit for file in self._files for edit in file.edits if edit.key is not None)
        return [edit for edit in edits if home_of(edit, self._roots) == name]

    def _is_valid_around(self, edit: EditOutcome) -> bool:
        function = edit.place.function if edit.place is not None else None
        if function is None:
            return True
        text = shifted(self._merging.output.render(function), function.indent, "")
        return fault_of(text) is None

    def _write(self, name: str) -> None:
        before = self._trees.onto.read(name) or b""
        text, target = self._merging.output.render(self._roots[name]), self._target(name)
        if text != decoded(before) or target != name:
            self._put(name, encoded(text, before))

    def _put(self, name: str, content: bytes) -> None:
        """Give a file of the tree its new content, under its new name where the change renames it."""
        target = self._target(name)
        self._contents[target] = content
        if target != name:
            self._contents[name] = None

    def _mark(self, name: str) -> dict[str, bytes | None]:
        """Return the files with markers at their conflicts, and note which edits have none."""
        every = [edit for file in self._files for edit in file.edits]
        numbers = {edit: number for number, edit in enumerate(every, 1)}
        marked: set[int] = set()
        contents: dict[str, bytes | None] = {}
        for file, root in self._roots.items():
            text, marked_here = self._merging.marked(root, name, numbers)
            if marked_here:
                contents[self._target(file)] = encoded(text, self._trees.onto.read(file) or b"")
                marked |= marked_here
        for landed in self._files:
            landed.edits = [
                replace(edit, reason=f"{edit.reason}; {_UNMARKED}")
                if edit.outcome in NOT_MADE and numbers[edit] not in marked
                else edit
                for edit in landed.edits
            ]
        return contents

    def _add_imports(self, name: str, content: bytes) -> bool:
        """Add imports that the new code of a file needs and the file lacks; return whether it does."""
        roots = [self._outline_of(self._sources[file][1] or b"") for file in self._from[name]]
        needed = [line for root in roots if root is not None for line in all_imported(root.children)]
        imports = {bound(line): line for line in needed}
        lines = [
            line
            for missing in (self._trees.undefined(name, content) if imports else ())
            if missing in imports and (line := self._trees.importing(imports[missing]))
        ]
        for line in dict.fromkeys(lines):
            self._merging.add_import(self._roots[name], line)
        return bool(lines)

    def _mark_unchanged(self, file: LandedFile) -> None:
        """Set the outcome of edits that change nothing to already applied."""
        names = {file.onto, *(name for name, sources in self._from.items() if file.file in sources)}
        if names & self._roots.keys() and not any(self._target(name) in self._contents for name in names):
            made = {Outcome.LANDED, Outcome.CHANGED}
            file.edits = [
                replace(edit, outcome=Outcome.ALREADY, reason="") if edit.outcome in made else edit
                for edit in file.edits
            ]

    def _target(self, name: str) -> str:
        return self._moves.get(name, name)

    def _rename(self, landed: LandedFile) -> None:
        """Rename a file as the change does, and note if it already has the new name."""
        target = self._target(landed.file)
        if target == landed.file:
            return
        if target == landed.onto:
            landed.add(Outcome.ALREADY, f"already renamed to {target}")
            return
        self._moves[landed.onto] = target
        landed.notes.append(f"renamed {landed.onto} to {target}")
        landed.add(Outcome.LANDED)

    def _port_file(self, name: str, before: bytes | None, after: bytes | None) -> LandedFile:
        if before is None:
            return self._add_file(name, after or b"")
        onto = self._trees.file(name)
        if onto is None:
            landed = LandedFile(name, name)
            if after is None:
                landed.add(Outcome.ALREADY)
            elif not (name.endswith(".py") and self._port_moved_definitions(landed, before, after)):
                landed.add(Outcome.NO_SITE, f"the tree has no {name}")
            return landed
        landed = LandedFile(name, onto)
        if onto != name:
            landed.notes.append(f"{name} is {onto} in this tree")
        target = self._target(name)
        if target not in {name, onto} and self._trees.onto.read(target) not in {None, after}:
            reason = f"the change renames the file to {target}, and this tree has another"
            landed.add(Outcome.CONFLICT, reason)
            return landed
        self._rename(landed)
        ours = self._trees.onto.read(onto) or b""
        if after is None:
            self._delete_file(landed, before, ours)
        elif ours == after:
            self._keep_file(landed, ours)
        elif ours == before and not self._merging.log.refused and self._fits(name, onto, before, after):
            self._put(onto, after)
            landed.add(Outcome.LANDED)
        else:
            self._merge(landed, before, after, ours)
        return landed

    def _keep_file(self, landed: LandedFile, ours: bytes) -> None:
        """Record that a file already has the change's content, apart from a rename."""
        if self._target(landed.onto) != landed.onto:
            self._put(landed.onto, ours)
        elif not landed.edits:
            landed.add(Outcome.ALREADY)

    def _add_file(self, name: str, after: bytes) -> LandedFile:
        landed = LandedFile(name, name)
        ours = self._trees.onto.read(name)
        if ours is None:
            self._contents[name] = after
            landed.add(Outcome.LANDED)
        elif not _same(ours, after):
            landed.add(Outcome.CONFLICT, "the change adds the file, and this tree has another")
        elif _has_own_comments(after, ours):
            landed.add(Outcome.KEPT, "this tree has the file, without the comments of the change")
        else:
            landed.add(Outcome.ALREADY)
        return landed

    def _delete_file(self, landed: LandedFile, before: bytes, ours: bytes) -> None:
        if _same(ours, before) and not _has_own_comments(ours, before):
            self._contents[landed.onto] = None
            landed.add(Outcome.LANDED)
        else:
            landed.add(Outcome.CONFLICT, "the change deletes the file, and this tree's version differs")

    def _merge(self, landing: LandedFile, before: bytes, after: bytes, ours: bytes) -> None:
        reason = "the file is not text, and this tree's version differs"
        try:
            change = decoded(before), decoded(after)
            reason = (
                "this tree's version is not UTF-8; save it as UTF-8, without a coding line, and try again"
            )
            texts = (*change, decoded(ours))
        except UnicodeDecodeError:
            landing.add(Outcome.CONFLICT, reason)
            return
        is_python = landing.onto.endswith(".py")
        root = self._trees.outline(landing.onto, onto=True) if is_python else None
        base, theirs = (
            (self._outline_of(before), self._outline_of(after)) if root is not None else (None, None)
        )
        if root is None or base is None or theirs is None:
            text, edits = lines.merged(*texts)
            reason = unreachable_in(*texts[1:], text) if is_python else ""
            if reason:
                landed = Outcome.LANDED
                edits = [
                    replace(edit, outcome=Outcome.CONFLICT, reason=reason) if edit.outcome is landed else edit
                    for edit in edits
                ]
                text = texts[2]
            landing.edits += edits
            if text != texts[2] or self._target(landing.onto) != landing.onto:
                self._put(landing.onto, encoded(text, ours))
            return
        self._register(landing.onto, root, landing.file)
        self._record_edits(landing, lambda: self._merging.make(base, theirs, root))
        landing.edits = [reported(edit, base) for edit in landing.edits]

    def _record_edits(self, landed: LandedFile, make: Callable[[], None]) -> None:
        """Make edits, and record them for a file."""
        first = len(self._merging.log.edits)
        self._merging.elsewhere = lambda item: self._elsewhere(landed, item)
        make()
        landed.edits += self._merging.log.edits[first:]
        landed.notes += sorted(self._merging.rename_notes)
        self._merging.rename_notes.clear()

    def _elsewhere(self, landed: LandedFile, item: Item) -> Item | None:
        place = self._trees.definition(landed.file, item)
        if place is None:
            return None
        file, definition = place
        names = [item.site if item.is_definition else item.name for item in (item, definition)]
        landed.notes.append(f"{names[0]} is {names[1]} in {file} of this tree")
        root = self._trees.outline(file, onto=True)
        assert root is not None  # The definition is in it.
        self._register(file, root, landed.file)
        return definition

    def _register(self, name: str, root: Item, source: str) -> None:
        """Record that edits of one of the change's files (``source``) are made in a file."""
        self._roots.setdefault(name, root)
        self._from.setdefault(name, []).append(source)

    def _port_moved_definitions(self, landed: LandedFile, before: bytes, after: bytes) -> bool:
        """Make the edits of a file that the tree lacks in its definitions elsewhere."""
        base, theirs = self._outline_of(before), self._outline_of(after)
        if base is None or theirs is None:
            return False
        reason = f"the tree has no {landed.file}"
        self._record_edits(landed, lambda: self._merging.merge_moved(base, theirs, reason))
        return True


def _same(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    left, right = outlined(one), outlined(other)
    return left is not None and right is not None and left.code == right.code


def _has_own_comments(ours: bytes, before: bytes) -> bool:
    return ours != before and loses_comments(decoded(ours), decoded(before), "")

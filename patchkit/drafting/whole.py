"""A draft is made file by file, and each is proved: its edits are loaded and planned on the file before.

What the structural edits do not make of it exactly is made by hunks; where even these do not, the file is left out.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.codemods.kinds.delete_file import digest_of
from patchkit.drafting import examples, hunks, write
from patchkit.drafting.change import Draft, Drafted, Facts
from patchkit.drafting.draft import draft
from patchkit.drafting.lines import count
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.patchset import whole
from patchkit.patchset.examples import FILE as EXAMPLES
from patchkit.plan.build import make_plan
from patchkit.plan.marks import SIGN, signers
from patchkit.plan.rehearse import MemoryTree
from patchkit.plan.status import State
from patchkit.tree.limits import MAX_BYTES, is_deep
from patchkit.tree.modules import Modules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from patchkit.drafting.change import FileDiff
    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import Tree

_FILE = Path(write.FILE)


def drafted(tree: Tree, changes: Sequence[FileDiff], facts: Facts, left_out: Iterable[str] = ()) -> Draft:
    """Return a patch folder whose edits make ``changes`` of the files before; ``tree`` is what has these.

    Of the tree nothing is read but its name and style, and nothing is written. What was ``left_out`` of the changes
    before stands in the patch with what no edit says.
    """
    edits: list[Drafted] = []
    left = [*left_out]
    made: dict[str, bytes | None] = {}
    for change in changes:
        trial = _Trial(tree, change, facts.id)
        found: list[Drafted] | str = ""
        if change.before != change.after:
            found = _edits_of(trial, change, is_moved=_is_moved(change, changes))
        if isinstance(found, str):
            left += [f"{change.file}: {found}"] if found else []
            continue
        edits += found
        made[change.file] = change.after
    named = write.named(edits)
    if not named:
        return Draft({}, {}, tuple(left), made)
    files = {write.FILE: write.text(facts, named, left)}
    patch = whole.read(tomllib.loads(files[write.FILE]), _FILE)
    sources = {each.file: each.before.decode() for each in changes if each.before and each.file in made}
    shown = examples.text(patch, named, sources)
    files |= {EXAMPLES: shown} if shown else {}
    return Draft(files, named, tuple(left), made)


def _is_moved(change: FileDiff, changes: Sequence[FileDiff]) -> bool:
    """Tell whether half of the lines of a file that goes, or more, come in a file that is new."""
    if change.after is not None or not change.before:
        return False
    lines = set(change.before.split(b"\n"))
    others = (set(each.after.split(b"\n")) for each in changes if each.before is None and each.after)
    return any(2 * len(lines & other) >= len(lines) for other in others)


def _edits_of(trial: _Trial, change: FileDiff, *, is_moved: bool) -> list[Drafted] | str:
    """Return the edits that make a file's change, or why none do."""
    try:
        before, after = (None if text is None else text.decode() for text in (change.before, change.after))
    except UnicodeDecodeError:
        return "it is binary, or not UTF-8, and no edit says that: it is left out."
    if any(text is not None and "\0" in text for text in (before, after)):
        return "it is binary, and no edit says that: it is left out."
    if any(text is not None and len(text) > MAX_BYTES for text in (before, after)):
        return "it is too long to be followed: it is left out."
    if change.file.endswith(".py") and any(
        text is not None and is_deep(text.encode()) for text in (before, after)
    ):
        return "it nests too deep to be followed: it is left out."
    if signers((after or "").encode()) - signers((before or "").encode()):
        return "it has comments that an applied patch has left: draft from a change without them; it is left out."
    tried: Iterable[list[Drafted]]
    if after is None:
        keys: dict[str, str | list[str]] = {"names": trial.names()}
        # What a fork changed in a file that is put elsewhere would not be there.
        keys |= {"digest": digest_of(before or "")} if is_moved else {}
        tried = [[Drafted("delete-file", change.file, keys)]]
    elif before is None:
        tried = _fresh(change.file, after)
    else:
        tried = _ways(trial, change.file, before, after)
    reason = ""
    for edits in tried:
        result = trial.run(edits)
        if result.is_as(change.after):
            reason = trial.refusal(edits, result)
            if not reason:
                return edits
        else:
            reason = result.reason or "the edits do not make it exactly"
    return f"{reason}: it is left out."


def _fresh(file: str, after: str) -> Iterable[list[Drafted]]:
    if file.endswith(".py") and after.strip("\n") + "\n" == after:
        yield [Drafted("new-file", file, {"code": after.rstrip("\n")})]
    yield [hunks.made_file(file, after)]


def _ways(trial: _Trial, file: str, before: str, after: str) -> Iterable[list[Drafted]]:
    """Yield lists of edits to try, the most structural first."""
    if "\r" in before or "\r" in after:
        same_ends = before.count("\r\n") == before.count("\n") and after.count("\r\n") == after.count("\n")
        if not same_ends:
            return
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    if file.endswith(".py"):
        kept, middle = _structural(trial, file, before, after)
        if kept:
            yield [*kept, *hunks.hunks(file, middle, after)]
    yield hunks.hunks(file, before, after)
    yield hunks.whole(file, before, after)


def _structural(trial: _Trial, file: str, before: str, after: str) -> tuple[list[Drafted], str]:
    """Return the structural edits that change only what the change does, and what they make of the file."""
    drafts = draft(file, before, after)
    old, new = hunks.Named(file, before), hunks.Named(file, after)
    places: dict[str, list[Drafted]] = {}
    for each in drafts:
        places.setdefault(each.at.partition("::")[2], []).append(each)
    kept: list[Drafted] = []
    for name, edits in places.items():
        if not name:
            texts = hunks.outlines(before, after)
        elif name in old.spans and name in new.spans:
            texts = ["\n".join((*side.side(name).lines, "")) for side in (old, new)]
        else:
            continue
        alone = trial.of(texts[0])
        there = file if not name else f"{file}::{name.rpartition('.')[2]}"
        kept += [replace(each, at=edits[0].at) for each in _on_the_way(alone, edits, there, *texts)]
    if not kept:
        return [], before
    middle = trial.run(kept).text(trial.newline)
    if middle is None or not _is_between(before, middle, after):
        return [], before
    return kept, middle


def _on_the_way(trial: _Trial, edits: Sequence[Drafted], at: str, before: str, after: str) -> list[Drafted]:
    """Return those edits, each in the first of its ways that does, which change only what the change does."""
    ways = [
        [way for way in (replace(each, at=at) for each in (edit, *edit.others)) if trial.is_loaded(way)]
        for edit in edits
    ]
    first = [each[0] for each in ways if each]
    if trial.is_right(first, before, after):
        return first
    kept: list[Drafted] = []
    for each in ways:
        found = next((way for way in each if trial.is_right([*kept, way], before, after)), None)
        kept += [found] if found is not None else []
    return kept


def _is_between(before: str, middle: str, after: str) -> bool:
    """Tell whether every line that has changed in ``middle`` is one that changes."""
    old, there, new = (text.split("\n") for text in (before, middle, after))
    return count(old, there) + count(there, new) == count(old, new)


@dataclass(frozen=True)
class _Result:
    """What edits make of a file, without the comments that they leave."""

    content: bytes | None
    states: tuple[State, ...]
    reason: str = ""

    def is_as(self, content: bytes | None) -> bool:
        return not self.reason and self.content == content

    def text(self, newline: str) -> str | None:
        return None if self.content is None or self.reason else self.content.decode().replace(newline, "\n")


def _is_written(edit: Drafted, table: Mapping[str, Any]) -> bool:
    """Tell whether a table says what an edit does; a text of several lines has one more line feed there."""
    return all(
        table[key] == (list(value) if isinstance(value, (list, tuple)) else value)
        or (isinstance(value, str) and table[key] == f"{value}\n")
        for key, value in edit.keys.items()
    )


class _Trial:
    """A file before its change, on which edits are tried."""

    def __init__(self, tree: Tree, change: FileDiff, identifier: str, *, is_part: bool = False) -> None:
        self._is_part = is_part
        self._change = change
        self._id = identifier
        self._tree = tree
        self._notes = re.compile(
            rb"^[ \t]*%s%s: .*(\r?\n|\Z)" % (SIGN.encode(), re.escape(identifier).encode()), re.MULTILINE
        )
        first = (change.before or b"").partition(b"\n")[0]
        self.newline = "\r\n" if first.endswith(b"\r") else "\n"

    def _memory(self, content: bytes | None) -> MemoryTree:
        contents = {} if content is None else {self._change.file: content}
        return MemoryTree(contents, name=self._tree.name, line_length=self._tree.line_length)

    def names(self) -> list[str]:
        """Return the names that the file defines."""
        from patchkit.codemods.language.definitions import bound_names
        from patchkit.codemods.language.scope import Scope

        try:
            module = Modules(self._memory(self._change.before)).get(self._change.file)
        except TreeError:
            return []
        return [] if module is None else sorted(bound_names(Scope(module, (), "")))

    def is_loaded(self, edit: Drafted) -> bool:
        """Tell whether an edit is one that loads."""
        try:
            self._patch([edit])
        except UsageError:
            return False
        return True

    def _patch(self, edits: Sequence[Drafted]) -> Patch:
        table = {"kind": "", "why": "drafted", "at": ""}
        named = {
            name: {**table, "kind": e.kind, "at": e.at, **e.keys} for name, e in write.named(edits).items()
        }
        said = dict.fromkeys(("title", "why", "risk", "verify"), "drafted")
        raw: dict[str, Any] = {"schema": 1, "id": self._id, **said, "edit": named}
        patch = whole.read(raw, _FILE)
        whole.check(patch, _FILE)
        return patch

    def run(self, edits: Sequence[Drafted]) -> _Result:
        """Return what edits make of the file as it was before."""
        if not edits:
            return _Result(self._change.before, ())
        result = self._planned(edits, self._change.before)
        if result.content is None or result.reason:
            return result
        return _Result(self._notes.sub(b"", result.content), result.states)

    def _planned(self, edits: Sequence[Drafted], content: bytes | None) -> _Result:
        try:
            memory = self._memory(content)
            # A part is read whole, so that all plans of it are made of one syntax tree.
            modules = Modules(memory) if self._is_part else None
            plan = make_plan(memory, (self._patch(edits),), certain=True, modules=modules)
        except (UsageError, TreeError, ConflictError) as error:
            return _Result(None, (State.CONFLICT,) * len(edits), str(error))
        made = [change.after for change in plan.changes] or [content]
        return _Result(made[0], tuple(status.state for status in plan.patches[0].edits))

    def refusal(self, edits: Sequence[Drafted], result: _Result) -> str:
        """Return why edits that make the change are none for all that: one is not found again, or is not needed."""
        if any(state is not State.PENDING for state in result.states):
            return "some of its edits are there before"
        named = write.named(edits)
        written = tomllib.loads(write.text(Facts(self._id), named, ()))["edit"]
        if any(not _is_written(edit, written[name]) for name, edit in named.items()):
            return "a line of it cannot be written in TOML"
        noted = self._planned(edits, self._change.before).content
        again = self._planned(edits, noted)
        if again.reason or any(state not in {State.APPLIED, State.UPSTREAM} for state in again.states):
            return "some of its edits are not found again"
        return ""

    def of(self, text: str) -> _Trial:
        """Return the same for a part of the file."""
        change = replace(self._change, before=text.replace("\n", self.newline).encode())
        return _Trial(self._tree, change, self._id, is_part=True)

    def is_right(self, edits: Sequence[Drafted], before: str, after: str) -> bool:
        """Tell whether all of some edits can be made, and change no line but such as the change does."""
        if not edits:
            return False
        result = self.run(edits)
        made = result.text(self.newline)
        if made is None or made == before or any(state is not State.PENDING for state in result.states):
            return False
        return _is_between(before, made, after)

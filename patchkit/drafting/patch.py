"""Draft a patch file by file, and check each draft: its edits are loaded and planned on the file.

What the structural edits do not reproduce exactly is drafted as hunks; a file for which that fails too is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst

from patchkit import collector
from patchkit.codemods.examination import SiteState
from patchkit.codemods.kind import codemod_of
from patchkit.codemods.kinds.delete_file import digest_of
from patchkit.codemods.language.definitions import bound_names
from patchkit.codemods.language.layout import Style, lay_out
from patchkit.codemods.language.placeholders import PatternError
from patchkit.codemods.language.scope import Scope, resolve
from patchkit.drafting import examples, hunks, patch_file
from patchkit.drafting.change import Draft, EditDraft, Facts
from patchkit.drafting.draft import draft
from patchkit.drafting.lines import count
from patchkit.drafting.passages import passages
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.patchset import convert
from patchkit.patchset.examples import FILE as EXAMPLES
from patchkit.plan.build import make_plan
from patchkit.plan.comments import COMMENT_PREFIX, commenting_patches
from patchkit.plan.examples import MemoryTree
from patchkit.plan.status import IN_PLACE, State
from patchkit.tree import toml
from patchkit.tree.limits import MAX_BYTES
from patchkit.tree.modules import Modules
from patchkit.tree.nesting import MAX_DEPTH, NestingError, nests_deeper, parse_module

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from patchkit.codemods.kind import Kind
    from patchkit.drafting.change import FileDiff
    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import Tree

    Watch = Callable[[str, int, int], None]

_FILE = Path(patch_file.FILE)


@collector.paused()
def draft_patch(
    tree: Tree,
    changes: Sequence[FileDiff],
    facts: Facts,
    left_out: Iterable[str] = (),
    *,
    watch: Watch | None = None,
) -> Draft:
    """Return a patch folder whose edits make ``changes``; ``tree`` contains the files before them.

    Only the name and style of the tree are read, and nothing is written. ``left_out`` are changes that are already
    left out; the patch lists them with those that no edit covers. ``watch`` is called with each file.
    """
    edits: list[EditDraft] = []
    all_left_out = [*left_out]
    made: dict[str, bytes | None] = {}
    for at, change in enumerate(changes):
        if watch is not None:
            watch(f"files: drafting {change.file}", at, len(changes))
        trial = _Trial(tree, change, facts.id)
        found: list[EditDraft] | str = ""
        if change.before != change.after:
            found = _edits_of(trial, change, is_moved=_is_moved(change, changes))
        if isinstance(found, str):
            all_left_out += [f"{change.file}: {found}"] if found else []
            continue
        edits += found
        made[change.file] = change.after
    named = patch_file.named_edits(edits)
    if not named:
        return Draft({}, {}, tuple(all_left_out), made)
    files = {patch_file.FILE: patch_file.text(facts, named, all_left_out)}
    patch = convert.read(toml.read(files[patch_file.FILE].encode()), _FILE)
    sources = {each.file: each.before.decode() for each in changes if each.before and each.file in made}
    examples_toml = examples.text(patch, named, sources)
    files |= {EXAMPLES: examples_toml} if examples_toml else {}
    return Draft(files, named, tuple(all_left_out), made)


def _is_moved(change: FileDiff, changes: Sequence[FileDiff]) -> bool:
    """Return whether at least half of a deleted file's lines are in a new file."""
    if change.after is not None or not change.before:
        return False
    lines = set(change.before.split(b"\n"))
    others = (set(each.after.split(b"\n")) for each in changes if each.before is None and each.after)
    return any(2 * len(lines & other) >= len(lines) for other in others)


def _edits_of(trial: _Trial, change: FileDiff, *, is_moved: bool) -> list[EditDraft] | str:
    """Return the edits that make a file's change, or why there are none."""
    try:
        before, after = (None if text is None else text.decode() for text in (change.before, change.after))
    except UnicodeDecodeError:
        return "it is binary or not UTF-8, which no edit can change; left out."
    if any(text is not None and "\0" in text for text in (before, after)):
        return "it is binary, which no edit can change; left out."
    if any(text is not None and len(text) > MAX_BYTES for text in (before, after)):
        return "it is too long; left out."
    if change.file.endswith(".py") and any(
        text is not None and nests_deeper(text, MAX_DEPTH) for text in (before, after)
    ):
        return "it is nested too deep; left out."
    if commenting_patches((after or "").encode()) - commenting_patches((before or "").encode()):
        return "it adds comments of an applied patch: draft from a change without them; left out."
    tried: Iterable[list[EditDraft]]
    if after is None:
        keys: dict[str, str | list[str]] = {"names": trial.names()}
        # A fork's own changes of a moved file would be lost.
        keys |= {"digest": digest_of(before or "")} if is_moved else {}
        tried = [[EditDraft("delete-file", change.file, keys)]]
    elif before is None:
        tried = _new_file_edits(change.file, after)
    else:
        tried = _attempts(trial, change.file, before, after)
    reason = ""
    for edits in tried:
        result = trial.run(edits)
        if result.gives(change.after):
            reason = trial.refusal(edits, result)
            if not reason:
                return edits
        else:
            reason = result.reason or "the edits do not reproduce it exactly"
    return f"{reason}; left out."


def _new_file_edits(file: str, after: str) -> Iterable[list[EditDraft]]:
    if file.endswith(".py") and after.strip("\n") + "\n" == after:
        yield [EditDraft("new-file", file, {"code": after.rstrip("\n")})]
    yield [hunks.new_file_hunk(file, after)]


def _attempts(trial: _Trial, file: str, before: str, after: str) -> Iterable[list[EditDraft]]:
    """Yield lists of edits to try, the most structural first."""
    if "\r" in before or "\r" in after:
        same_ends = before.count("\r\n") == before.count("\n") and after.count("\r\n") == after.count("\n")
        if not same_ends:
            return
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    refused = -1
    while file.endswith(".py") and refused < len(trial.refused):
        refused = len(trial.refused)
        accepted, middle = _structural(trial, file, before, after)
        if not accepted:
            break
        edits = [*accepted, *hunks.hunks(file, middle, after)]
        yield edits
        trial.refuse_imports(edits)
    yield hunks.hunks(file, before, after)
    yield hunks.file_hunk(file, before, after)


def _structural(trial: _Trial, file: str, before: str, after: str) -> tuple[list[EditDraft], str]:
    """Return the structural edits that are part of the change, and the file after them.

    First those of the specific kinds, then those that place statements and comments by their neighbours.
    """
    accepted: list[EditDraft] = []
    middle = before
    for drafts in (draft, passages):
        found = _fitting(trial, file, middle, after, drafts(file, middle, after)) if middle != after else []
        for edits in (found, *([each] for each in found if len(found) > 1)):
            made = trial.run([*accepted, *edits]).text(trial.newline) if edits else None
            if made is not None and made != middle and _is_between(middle, made, after):
                accepted, middle = [*accepted, *edits], made
                if edits is found:
                    break
    return accepted, middle


def _fitting(
    trial: _Trial, file: str, before: str, after: str, drafts: Sequence[EditDraft]
) -> list[EditDraft]:
    """Return the edits, tried place by place, that are part of the change."""
    old, new = hunks.definition_ranges(file, before), hunks.definition_ranges(file, after)
    places: dict[str, list[EditDraft]] = {}
    for each in drafts:
        places.setdefault(each.at.partition("::")[2], []).append(each)
    accepted: list[EditDraft] = []
    for name, edits in places.items():
        if name and not (name in old.spans and name in new.spans):
            continue
        part = trial.part(name.rpartition(".")[2], *hunks.outlines(file, name, before, after))
        accepted += part.fitting(edits) if part is not None else []
    return accepted


def _is_between(before: str, middle: str, after: str) -> bool:
    """Return whether every line that differs between ``before`` and ``middle`` is part of the change."""
    if middle == after:
        return True
    old, there, new = (text.split("\n") for text in (before, middle, after))
    return count(old, there) + count(there, new) == count(old, new)


@dataclass(frozen=True)
class _Result:
    """The result of edits for a file, without the comments that they add."""

    content: bytes | None
    states: tuple[State, ...]
    reason: str = ""

    def gives(self, content: bytes | None) -> bool:
        return not self.reason and self.content == content

    def text(self, newline: str) -> str | None:
        return None if self.content is None or self.reason else self.content.decode().replace(newline, "\n")


def _identity(edit: EditDraft) -> str:
    return repr((edit.kind, edit.at, sorted(edit.keys.items())))


def _is_written(edit: EditDraft, table: Mapping[str, Any]) -> bool:
    """Return whether a table contains an edit; a text of several lines has one more line feed there."""
    return all(
        table[key] == (list(value) if isinstance(value, (list, tuple)) else value)
        or (isinstance(value, str) and table[key] == f"{value}\n")
        for key, value in edit.keys.items()
    )


class _Trial:
    """A file before its change, on which edits are tried."""

    def __init__(self, tree: Tree, change: FileDiff, identifier: str) -> None:
        self._change = change
        self._id = identifier
        self._tree = tree
        self._comments = re.compile(
            rb"^[ \t]*%s%s: .*(\r?\n|\Z)" % (COMMENT_PREFIX.encode(), re.escape(identifier).encode()),
            re.MULTILINE,
        )
        first = (change.before or b"").partition(b"\n")[0]
        self.refused: set[str] = set()
        self._kinds: dict[int, tuple[EditDraft, Kind | None]] = {}
        self._results: dict[tuple[int, ...], tuple[Sequence[EditDraft], _Result]] = {}
        self.newline = "\r\n" if first.endswith(b"\r") else "\n"

    def _memory(self, content: bytes | None) -> MemoryTree:
        contents = {} if content is None else {self._change.file: content}
        return MemoryTree(contents, name=self._tree.name, line_length=self._tree.line_length)

    def names(self) -> list[str]:
        """Return the names that the file defines."""
        try:
            module = Modules(self._memory(self._change.before)).get(self._change.file)
        except TreeError:
            return []
        return [] if module is None else sorted(bound_names(Scope(module, (), "")))

    def _kind(self, edit: EditDraft) -> Kind | None:
        """Return an edit's kind; None if it does not load or was rejected before."""
        if _identity(edit) in self.refused:
            return None
        key = id(edit)
        if key not in self._kinds:
            try:
                self._kinds[key] = (edit, self._patch([edit]).edits[0].kind)
            except UsageError:
                self._kinds[key] = (edit, None)
        return self._kinds[key][1]

    def _patch(self, edits: Sequence[EditDraft]) -> Patch:
        table = {"kind": "", "why": "drafted", "at": ""}
        named = {
            name: {**table, "kind": e.kind, "at": e.at, **e.keys}
            for name, e in patch_file.named_edits(edits).items()
        }
        texts = dict.fromkeys(("title", "why", "risk", "verify"), "drafted")
        raw: dict[str, Any] = {"schema": 1, "id": self._id, **texts, "edit": named}
        patch = convert.read(raw, _FILE)
        convert.check(patch, _FILE)
        return patch

    def run(self, edits: Sequence[EditDraft]) -> _Result:
        """Return the result of edits for the original file."""
        if not edits:
            return _Result(self._change.before, ())
        result = self._run_with_comments(edits)
        if result.content is None or result.reason:
            return result
        return _Result(self._comments.sub(b"", result.content), result.states)

    def _run_with_comments(self, edits: Sequence[EditDraft]) -> _Result:
        """Return the result of edits with the comments that they add, cached."""
        key = tuple(map(id, edits))
        if key not in self._results:
            self._results[key] = (edits, self._run_on(edits, self._change.before))
        return self._results[key][1]

    def _run_on(self, edits: Sequence[EditDraft], content: bytes | None) -> _Result:
        try:
            plan = make_plan(self._memory(content), (self._patch(edits),), allow_partial=True)
        except (UsageError, TreeError, ConflictError) as error:
            return _Result(None, (State.CONFLICT,) * len(edits), str(error))
        made = [change.after for change in plan.changes] or [content]
        return _Result(made[0], tuple(status.state for status in plan.patches[0].edits))

    def refuse_imports(self, edits: Sequence[EditDraft]) -> None:
        """Reject edits of kind ``import`` if all edits together do not make the change.

        Where such an edit puts its import depends on the imports around it, which a hunk may change as well. An edit of
        the names that one statement imports does not.
        """
        if not self.run(edits).gives(self._change.after):
            self.refused.update(_identity(edit) for edit in edits if edit.kind == "import")

    def refusal(self, edits: Sequence[EditDraft], result: _Result) -> str:
        """Return why edits that make the change cannot be used: one is not recognised afterwards, or not needed."""
        if self._refuse(edits, result, {State.PENDING}):
            return "some of its edits are in place before the change"
        named = patch_file.named_edits(edits)
        try:
            written = toml.read(patch_file.text(Facts(self._id), named, ()).encode())["edit"]
        except toml.TomlError as error:
            return str(error)
        if any(not _is_written(edit, written[name]) for name, edit in named.items()):
            return "one of its lines cannot be written in TOML"
        content = self._run_with_comments(edits).content
        again = self._run_on(edits, content)
        if self._refuse(edits, again, IN_PLACE) or again.reason:
            return "some of its edits are not recognised afterwards"
        return ""

    def _refuse(self, edits: Sequence[EditDraft], result: _Result, wanted: Container[State]) -> bool:
        """Return whether an edit is in none of the wanted states, and reject such edits from now on."""
        others = [
            _identity(edit) for edit, state in zip(edits, result.states, strict=False) if state not in wanted
        ]
        self.refused.update(others)
        return bool(others)

    def part(self, name: str, before: str, after: str) -> _Part | None:
        """Return a part of the file alone, before and after; None if it is not valid Python alone."""
        try:
            module = parse_module(before)
        except (cst.ParserSyntaxError, NestingError):
            return None
        style = Style(self._tree.line_length, self._tree.name)
        return _Part(name, module, before, after, self._kind, style)


@dataclass
class _Part:
    """A class or function alone, or the code around them (an empty ``name``), on which edits are tried one by one.

    The plan of the whole file decides in the end.
    """

    name: str
    module: cst.Module
    before: str
    after: str
    kind: Callable[[EditDraft], Kind | None]
    style: Style

    def fitting(self, edits: Sequence[EditDraft]) -> list[EditDraft]:
        """Return the edits that are part of the change, each in the first form that works."""
        first = [form for edit in edits if (form := next(self._forms(edit), None)) is not None]
        if self._is_fitting(first):
            return first
        forms = [list(self._forms(edit)) for edit in edits]
        alone = [next((form for form in each if self._is_fitting([form])), None) for each in forms]
        found = [form for form in alone if form is not None]
        if len(found) == len(forms) and self._is_fitting(found):
            return found
        accepted: list[EditDraft] = []
        for single, each in zip(alone, forms, strict=True):
            # An edit may be possible only after the ones before it.
            tried = [single] if single is not None else each if accepted else []
            accepted += [form for form in tried if self._is_fitting([*accepted, form])][:1]
        return accepted

    def _forms(self, edit: EditDraft) -> Iterator[EditDraft]:
        return (form for form in (edit, *edit.others) if self.kind(form) is not None)

    def _is_fitting(self, edits: Sequence[EditDraft]) -> bool:
        """Return whether all of the edits can be made and change only lines of the change."""
        made = self._made(edits) if edits else None
        return made is not None and made != self.before and _is_between(self.before, made, self.after)

    def _made(self, edits: Sequence[EditDraft]) -> str | None:
        """Return the result of edits for the part; None if one cannot be made or is not recognised afterwards."""
        module, verbatim = self.module, frozenset[str]()
        for edit in edits:
            kind = self.kind(edit)
            scope = self._scope(module)
            if kind is None or scope is None:
                return None
            found = codemod_of(kind).examine(scope, "")
            if found.state is not SiteState.READY or found.rewrite is None:
                return None
            try:
                module = found.rewrite()
            except PatternError:
                return None
            again = self._scope(module)
            if again is None or codemod_of(kind).examine(again, "").state is not SiteState.PRESENT:
                return None
            verbatim |= kind.verbatim
        return lay_out(self.module, module, self.style, verbatim).code

    def _scope(self, module: cst.Module) -> Scope | None:
        found = resolve(module, self.name)
        return found[0] if len(found) == 1 else None

"""Read and write the diffs of a patch folder, each with the files that it was made on.

``change.diff``, or one ``change-NAME.diff`` for each of several trees, are diffs as git writes them. ``base/`` has the
whole files that they were made on, named by git's blob ids, which the diffs state: a merge needs all of a file, and
what a patch does to a tree must not depend on which objects are at hand where it is applied.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.errors import UsageError
from patchkit.patchset.patch import Address, BasedDiff, ConvertedChange, DiffEdit, Edit
from patchkit.patchset.unified import DiffOptions, path_in_package, sections, text_after
from patchkit.tree.git import object_id
from patchkit.tree.sglang import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.patchset.unified import FileSection, Hunk

CHANGE = re.compile(r"change(?:-[A-Za-z0-9._-]+)?\.diff")
"""The names of a patch folder's diffs."""
BASE = "base"
_BLOB = re.compile(r"[0-9a-f]{40}")
OTHER = "Other: "
"""The start of a line above a diff with one of its ``others``."""
_DEFINITION = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)")


class Lines(Kind, frozen=True, kw_only=True, tag="diff", forbid_unknown_fields=True):
    """Lines of a diff in one class or function; a patch file cannot have this kind."""

    removed: str = ""
    added: str = ""

    looks_inside: ClassVar[bool] = False
    is_for_text: ClassVar[bool] = True
    writes: ClassVar[tuple[str, ...]] = ("added",)

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """The lines before and after the change."""
        return ((self.removed, self.added),)


def is_of_diffs(name: str) -> bool:
    """Return whether a file beside a ``patch.toml``, or in its folder ``base``, belongs to a diff."""
    folder, _, file = name.rpartition("/")
    return (CHANGE if not folder else _BLOB).fullmatch(file) is not None and folder in {"", BASE}


def read(files: Mapping[str, bytes], path: Path) -> tuple[BasedDiff, ...]:
    """Return the diffs among the files beside the ``patch.toml`` at ``path``. Raise UsageError for a malformed one."""
    bases = {
        name.removeprefix(f"{BASE}/"): text for name, text in files.items() if name.startswith(f"{BASE}/")
    }
    for name, content in bases.items():
        if object_id(content) != name:
            raise UsageError(
                "its content differs from its name, which is a blob id of git's",
                where=path.with_name(BASE) / name,
                advice="restore it, or write the folder again with patchkit new",
            )
    return tuple(_diff(name, files[name], bases, path) for name in sorted(files) if CHANGE.fullmatch(name))


def _diff(name: str, content: bytes, bases: Mapping[str, bytes], path: Path) -> BasedDiff:
    where = path.with_name(name)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UsageError(
            "not UTF-8", where=where, advice="write the folder again with patchkit new"
        ) from None
    head = text.partition("\ndiff --git ")[0]
    others = tuple(line.removeprefix(OTHER) for line in head.split("\n") if line.startswith(OTHER))
    files: dict[str, tuple[bytes | None, bytes | None]] = {}
    edits: list[DiffEdit] = []
    options = DiffOptions(str(where))
    for section in sections(text, options):
        for file, versions, parts in _versions(section, bases, options):
            if file in files:
                raise UsageError(f"{file} stands in it twice", where=where, advice="remove one of the two")
            files[file] = versions
            edits += parts
    if not files:
        raise UsageError(
            "it changes no file of the package",
            where=where,
            advice="write the folder again with patchkit new",
        )
    return BasedDiff(name=name, files=files, edits=_named(edits), others=others)


def _versions(
    section: FileSection, bases: Mapping[str, bytes], options: DiffOptions
) -> Iterator[tuple[str, tuple[bytes | None, bytes | None], Sequence[DiffEdit]]]:
    """Yield each file of a section, its content before and after it, and its parts."""
    old, new = (
        None if name is None else path_in_package(name, PLACES) for name in (section.old, section.new)
    )
    name = section.new or section.old or ""
    if (old is None) is (section.old is not None) or (new is None) is (section.new is not None):
        raise UsageError(
            f"{options.diff}: {name} is outside the package", advice="remove its part of the diff"
        )
    if section.is_binary or any(mode.startswith(("12", "16")) for mode in section.modes):
        raise UsageError(f"{options.diff}: {name} is not a text file", advice="remove its part of the diff")
    before: bytes | None = None
    if old is not None:
        texts = [text for base, text in bases.items() if section.base and base.startswith(section.base)]
        if len(texts) != 1:
            raise UsageError(
                f"{options.diff}: {BASE}/{section.base or 'ID'}, the file {old} that the diff was made on, is missing",
                advice="write the folder with patchkit new ID --from-diff FILE --on TREE",
            )
        (before,) = texts
    try:
        text = text_after(old or name, (before or b"").decode(), section.hunks, options)
    except UnicodeDecodeError:
        raise UsageError(
            f"{options.diff}: {name} is not UTF-8", advice="remove its part of the diff"
        ) from None
    except UsageError:
        raise UsageError(
            f"{options.diff}: its hunks do not fit {BASE}/{section.base}",
            advice="write the folder again with patchkit new",
        ) from None
    after = None if new is None else text.encode()
    if old is not None and old == new and before is not None and after is not None:
        yield old, (before, after), tuple(_parts(old, before, after, section.hunks))
        return
    if old is not None:
        yield old, (before, None), [DiffEdit(old, "", (before or b"").decode(), "")]
    if new is not None:
        yield new, (None, after), [DiffEdit(new, "", "", text)]


def _parts(file: str, before: bytes, after: bytes, hunks: Sequence[Hunk]) -> Iterator[DiffEdit]:
    """Yield what a file's hunks change in each of its innermost classes and functions, as indentation shows them."""
    versions = [text.decode().split("\n") for text in (before, after)]
    scopes = [_scopes(lines) if file.endswith(".py") else [""] * len(lines) for lines in versions]
    parts: dict[str, tuple[list[str], list[str]]] = {}
    shift = 0
    for hunk in hunks:
        first = hunk.first - (1 if hunk.old else 0)
        for tag, *ends in difflib.SequenceMatcher(None, hunk.old, hunk.new, autojunk=False).get_opcodes():
            for side, (start, end) in enumerate((ends[:2], ends[2:]) if tag != "equal" else ()):
                for number in range(first + start + side * shift, first + end + side * shift):
                    line = versions[side][number]
                    if line.strip():
                        parts.setdefault(scopes[side][number], ([], []))[side].append(line)
        shift += len(hunk.new) - len(hunk.old)
    for site, (removed, added) in parts.items() or [("", ([], []))]:
        yield DiffEdit(file, site, "\n".join(removed), "\n".join(added))


def _scopes(lines: Sequence[str]) -> list[str]:
    """Return the dotted name of the innermost class or function at each line."""
    names: list[str] = []
    inside: list[tuple[int, str]] = []
    for line in lines:
        code = line.lstrip()
        if code and code[0] not in "#)]}":
            while inside and inside[-1][0] >= len(line) - len(code):
                inside.pop()
            if definition := _DEFINITION.match(code):
                inside.append((len(line) - len(code), definition[1]))
        names.append(".".join(name for _, name in inside))
    return names


def _named(parts: Iterable[DiffEdit]) -> dict[str, DiffEdit]:
    """Return parts by unique names."""
    edits: dict[str, DiffEdit] = {}
    for part in parts:
        words = f"{part.file.rpartition('/')[2].removesuffix('.py')} {part.site}".lower()
        base = re.sub(r"[^a-z0-9_]+", "-", words).strip("-") or "file"
        name, number = base, 1
        while name in edits:
            number += 1
            name = f"{base}-{number}"
        edits[name] = part
    return edits


def edits_of(diffs: Sequence[BasedDiff]) -> tuple[Edit, ...]:
    """Return the edits of a patch's diffs, each with its place in each of them."""
    by_scope: dict[str, list[DiffEdit]] = {}
    for diff in diffs:
        for name, part in diff.edits.items():
            by_scope.setdefault(name, []).append(part)
    return tuple(
        Edit(
            name=name,
            why=f"{parts[0].file}: {parts[0].site}".removesuffix(": "),
            change=ConvertedChange(Lines(why="", removed=parts[0].removed, added=parts[0].added), ()),
            addresses=tuple(dict.fromkeys(Address(part.site, (part.file,)) for part in parts)),
        )
        for name, parts in by_scope.items()
    )

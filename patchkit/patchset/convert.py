"""Convert tables of patch files to patches, and validate them with their edits and extensions."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language import texts
from patchkit.codemods.language.imports import Import
from patchkit.errors import UsageError, spelling_hint
from patchkit.patchset import condition, diffs
from patchkit.patchset.extend import Addition, ExtensionFile, extended
from patchkit.patchset.header import patch_of, require_free, unknown_patch
from patchkit.patchset.malformed import Malformation, malformation_of
from patchkit.patchset.schema import AnyKind, PatchFile
from patchkit.tree.names import is_unsafe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from patchkit.patchset.header import OwnFile
    from patchkit.patchset.patch import BasedDiff, Patch

    Raw = dict[str, Any]

_Form = TypeVar("_Form", bound=msgspec.Struct)


class OwnPatch(NamedTuple):
    """A patch that a folder other than the built-in one defines or extends, and the file that defines it."""

    patch: Patch
    path: Path


def read(raw: Raw, path: Path) -> Patch:
    """Return the patch that a table defines. Raise UsageError, with file, key and reason, if it is malformed."""
    return patch_of(_file(raw, path), path)


def own(
    tables: Iterable[OwnFile], built_in: Mapping[str, tuple[Raw, Path]], former: Mapping[str, str]
) -> dict[str, OwnPatch]:
    """Return the patches that files define or extend, by id. Raise UsageError for a malformed one.

    ``former`` are the ``former_ids`` of the built-in ones.
    """
    files: dict[str, PatchFile] = {}
    paths = {name: path for name, (_, path) in built_in.items()}
    extensions = []
    # An error in a patch is reported for the last file that contributes to it.
    last: dict[str, Path] = {}
    found_diffs: dict[str, tuple[BasedDiff, ...]] = {}
    for raw, path, diff_files in tables:
        if "extends" in raw:
            extensions.append((_converted(raw, path, ExtensionFile, Addition), path))
            continue
        file = _file(raw, path)
        require_free(file.id, path, paths)
        files[file.id], paths[file.id], last[file.id] = file, path, path
        found_diffs[file.id] = diffs.read(diff_files, path)
    for extension, path in extensions:
        name = extension.extends
        if name not in paths:
            raise unknown_patch("extends", name, former, path)
        try:
            files[name] = extended(files[name] if name in files else _file(*built_in[name]), extension)
        except ValueError as error:
            raise UsageError(str(error), where=path, advice="fix it and try again") from None
        last[name] = path
    patches = {
        name: OwnPatch(patch_of(file, last[name], diffs=found_diffs.get(name, ())), paths[name])
        for name, file in files.items()
    }
    for name, (patch, _) in patches.items():
        check(patch, last[name])
    return patches


def _file(raw: Raw, path: Path) -> PatchFile:
    return _converted(raw, path, PatchFile, AnyKind)


def _converted(raw: Raw, path: Path, form: type[_Form], edit: Any) -> _Form:
    """Return a table converted to the struct ``form``; ``edit`` is the form of its edits."""
    if "schema" not in raw:
        raise UsageError(
            "key `schema`: missing, so this is not a patch, or it is one for patchkit 0.1",
            where=path,
            advice="start it with `schema = 1`, make each `[[edit]]` a table `[edit.NAME]`, and write "
            '`at = "file::name"` for `file` and `in` (docs/authoring.md has every key)',
        )
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        fault = _fault(raw, error, form, edit)
        raise UsageError(fault.what, where=path, advice=fault.advice) from None


def _fault(raw: Raw, error: msgspec.ValidationError, form: type[_Form], edit: Any) -> Malformation:
    """Return what is wrong with a patch, with the name of the edit, which msgspec leaves out."""
    edits = raw.get("edit")
    for name, table in edits.items() if isinstance(edits, dict) and "`$.edit[...]" in str(error) else ():
        kind = table.get("kind") if isinstance(table, dict) else None
        if edit is AnyKind and isinstance(kind, str) and kind not in KINDS:
            return Malformation(
                f"edit.{name}: key `kind`: no kind is called {kind!r}",
                f"{spelling_hint(kind, KINDS)}the kinds are {', '.join(KINDS)}",
            )
        try:
            msgspec.convert(table, edit)
        except msgspec.ValidationError as first:
            converted = KINDS.get(kind, edit) if edit is AnyKind and isinstance(kind, str) else edit
            return malformation_of(first, converted, f"edit.{name}")
    return malformation_of(error, form)


def check(patch: Patch, path: Path) -> None:
    """Build all codemods and patterns of a patch. Raise UsageError, with file, key and reason, for a malformed one."""
    for edit in patch.edits:
        try:
            _require_inside(edit.files, is_text=edit.kind.is_for_text and edit.scopes == ("",))
            if edit.kind.is_for_modules and edit.scopes != ("",):
                scope = "".join(edit.scopes)
                raise ValueError(f"key `at`: this kind edits a whole module, so `at` cannot name {scope!r}")
            if not edit.why.isprintable():
                raise ValueError(
                    "key `why`: contains a line break or a control character, which a comment cannot contain"
                )
            if not patch.diffs:
                edit.kind.check()
            with texts.naming("imports"):
                for code in edit.imports:
                    Import(code)
        except ValueError as error:
            raise UsageError(
                f"edit.{edit.name}: {error}", where=path, advice="fix it and try again"
            ) from None
    if patch.affects is not None:
        try:
            if patch.affects.when:
                condition.parsed(patch.affects.when)
            for key in ("symptom", "concerns"):
                if not getattr(patch.affects, key).isprintable():
                    raise ValueError(f"key `{key}`: contains a line break or a control character")
        except ValueError as error:
            raise UsageError(f"affects: {error}", where=path, advice="fix it and try again") from None
    for fact in patch.facts:
        try:
            _require_inside(fact.files)
            for key, text in (("has", fact.has), ("lacks", fact.lacks)):
                texts.patterns(key, *([text] if text else []))
        except ValueError as error:
            raise UsageError(
                f"fact about {fact.files[0]}: {error}", where=path, advice="fix it and try again"
            ) from None


def _require_inside(files: Sequence[str], *, is_text: bool = False) -> None:
    """Raise ValueError for a file that is not below the package folder or not named relative to it."""
    for file in files:
        place = PurePosixPath(file)
        for above in ("python/sglang/", "sglang/"):
            if file.startswith(above):
                raise ValueError(
                    f"key `at`: {file!r} starts above the package folder; write {file.removeprefix(above)!r}"
                )
        is_outside = place.is_absolute() or any(map(is_unsafe, file.split("/")))
        if is_outside or not (is_text or place.suffix == ".py") or not file.isprintable():
            raise ValueError(
                f"key `at`: {file!r} is not a {'' if is_text else 'Python '}file below the package folder"
            )

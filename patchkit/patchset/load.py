"""Patch folders are read, checked whole and put in order; what is malformed is refused with file, key and reason."""

from __future__ import annotations

import difflib
import functools
import hashlib
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language import texts
from patchkit.errors import UsageError
from patchkit.patchset.schema import AnyKind, PatchFile, patch_of
from patchkit.patchset.select import PatchSet
from patchkit.tree.limits import read_named

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Codemod
    from patchkit.codemods.kind import Kind
    from patchkit.patchset.extend import ExtensionFile
    from patchkit.patchset.patch import Patch


_Form = TypeVar("_Form")

BUILT_IN = Path(__file__).parents[1] / "patches"
if not BUILT_IN.is_dir():  # A source checkout keeps them beside the package; the wheel carries them inside.
    BUILT_IN = Path(__file__).parents[2] / "patches"


@functools.cache
def codemod_of(kind: Kind) -> Codemod:
    """Return the codemod of an edit, built once a process."""
    return kind.codemod()


def _raw(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        data = read_named(path)
        return tomllib.loads(data.decode("utf-8")), data
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error}); mend it and try again.") from None
    except RecursionError:
        raise UsageError(
            f"{path}: tables or lists nest too deep to be read; mend it and try again."
        ) from None


def read(raw: dict[str, Any], path: Path) -> Patch:
    """Return the patch that a table says; UsageError names the file ``path``, the key and the reason."""
    return _patch(_converted(raw, path, PatchFile), path)


def _converted(raw: dict[str, Any], path: Path, form: type[_Form]) -> _Form:
    if "schema" not in raw:
        raise UsageError(
            f"{path}: key `schema`: missing, so this is no patch or one for patchkit 0.1; begin it with "
            '`schema = 1`, make each `[[edit]]` a table `[edit.NAME]`, and write `at = "file::name"` for `file` '
            "and `in` (docs/authoring.md has every key)."
        )
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_told(raw, error, form)}; mend that key and try again.") from None


def _patch(file: PatchFile, path: Path) -> Patch:
    try:
        patch = patch_of(file)
        # A pattern's end also matches in front of a last line feed.
        for name in (patch.id, *(edit.name for edit in patch.edits)):
            if not name.isprintable():
                raise ValueError(f"key `id` or the name of an edit: {name!r} ends in a line break")
        return patch
    except ValueError as error:
        raise UsageError(f"{path}: {error}; mend it and try again.") from None


def _told(raw: dict[str, Any], error: msgspec.ValidationError, form: type[object]) -> str:
    """Return what is wrong with a patch; where it is in an edit, name that, which msgspec does not."""
    edits = raw.get("edit")
    for name, table in edits.items() if isinstance(edits, dict) and "`$.edit[...]" in str(error) else ():
        kind = table.get("kind") if isinstance(table, dict) else None
        if form is PatchFile and isinstance(kind, str) and kind not in KINDS:
            close = difflib.get_close_matches(kind, KINDS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            return (
                f"edit.{name}: key `kind`: no kind is called {kind!r}; {hint}the kinds are {', '.join(KINDS)}"
            )
        try:
            msgspec.convert(table, _table_of(form))
        except msgspec.ValidationError as found:
            reason, at, where = str(found).partition(" - at `$")
            return f"{reason} - at `$.edit.{name}{where}" if at else f"{reason} - at `$.edit.{name}`"
    return str(error)


def _table_of(form: type[object]) -> Any:
    """Return what each table of the edits is in a form of file."""
    if form is PatchFile:
        return AnyKind
    from patchkit.patchset.extend import Addition

    return Addition


def check(patch: Patch, path: Path) -> None:
    """Build every codemod and every fact's pattern of a patch; UsageError names file, key and reason."""
    from patchkit.codemods.language.imports import Import

    for edit in patch.edits:
        try:
            _require_inside(edit.files)
            if edit.kind.is_for_modules and edit.scopes != ("",):
                scope = "".join(edit.scopes)
                raise ValueError(f"key `at`: {scope!r} is not the module, which is where this kind belongs")
            if not edit.why.isprintable():
                raise ValueError(
                    "key `why`: more than one line, or a control character, which a comment cannot hold"
                )
            codemod_of(edit.kind)
            with texts.naming("imports"):
                for code in edit.imports:
                    Import(code)
        except ValueError as error:
            raise UsageError(f"{path}: edit.{edit.name}: {error}; mend it and try again.") from None
    for fact in patch.facts:
        try:
            _require_inside(fact.files)
            for key, text in (("has", fact.has), ("lacks", fact.lacks)):
                texts.patterns(key, *([text] if text else []))
        except ValueError as error:
            raise UsageError(f"{path}: fact about {fact.files[0]}: {error}; mend it and try again.") from None


def _require_inside(files: Sequence[str]) -> None:
    """Refuse files that are not named relative to the package folder and below it."""
    for file in files:
        place = PurePosixPath(file)
        for above in ("python/sglang/", "sglang/"):
            if file.startswith(above):
                raise ValueError(
                    f"key `at`: {file!r} starts above the package folder; write {file.removeprefix(above)!r}"
                )
        if place.is_absolute() or ".." in place.parts or place.suffix != ".py" or not file.isprintable():
            raise ValueError(f"key `at`: {file!r} is not a Python file below the package folder")


def _ordered(patches: dict[str, Patch], paths: dict[str, Path]) -> list[Patch]:
    """Put built-in patches first, then others by their ids: the order of their folders does not count."""
    for patch in patches.values():
        for key, others in (("requires", patch.requires), ("hardens", patch.hardens)):
            for other in others:
                if other not in patches:
                    raise UsageError(f"{paths[patch.id]}: key `{key}`: no patch is called {other!r}.")
    done: dict[str, Patch] = {}
    for name in sorted(patches, key=lambda name: (not paths[name].is_relative_to(BUILT_IN), name)):
        trail = {} if name in done else {name: iter(patches[name].requires)}
        while trail:
            last = next(reversed(trail))
            needed = next((other for other in trail[last] if other not in done), None)
            if needed is None:
                done[last] = patches[last]
                del trail[last]
            elif needed in trail:
                raise UsageError(
                    f"{paths[needed]}: key `requires`: the patches {' -> '.join(trail)} require each other."
                )
            else:
                trail[needed] = iter(patches[needed].requires)
    return list(done.values())


def patches(folders: Sequence[Path] = ()) -> PatchSet:
    """Load the built-in patches and those in ``folders`` (a patch folder itself or a folder of them).

    A file that ``extends`` a patch adds to that one. Raises UsageError with file, key and reason for a
    malformed patch.
    """
    files: dict[str, PatchFile] = {}
    paths: dict[str, Path] = {}
    extensions: list[tuple[ExtensionFile, Path]] = []
    unchecked: dict[str, Path] = {}
    digest = hashlib.sha256()
    for folder in (BUILT_IN, *folders):
        for path in files_in(folder):
            raw, data = _raw(path)
            digest.update(data)
            if "extends" in raw:
                extensions.append((_extension(raw, path), path))
                continue
            file = _converted(raw, path, PatchFile)
            if file.id in files:
                raise UsageError(
                    f"{path}: key `id`: {file.id!r} is taken by {paths[file.id]}; choose another."
                )
            files[file.id], paths[file.id] = file, path
            if folder is not BUILT_IN:
                unchecked[file.id] = path
    for extension, path in extensions:
        if extension.extends not in files:
            raise UsageError(f"{path}: key `extends`: no patch is called {extension.extends!r}.")
        from patchkit.patchset.extend import extended

        try:
            files[extension.extends] = extended(files[extension.extends], extension)
        except ValueError as error:
            raise UsageError(f"{path}: {error}; mend it and try again.") from None
        unchecked[extension.extends] = path
    loaded = {name: _patch(file, unchecked.get(name, paths[name])) for name, file in files.items()}
    for name, path in unchecked.items():
        check(loaded[name], path)
    for name in loaded.keys() - unchecked.keys():
        loaded[name] = msgspec.structs.replace(loaded[name], built_in=True)
    return PatchSet(_ordered(loaded, paths), digest.hexdigest())


def files_in(folder: Path) -> list[Path]:
    """Return the patch files of a folder, its own or one in each folder below; UsageError if it has none."""
    alone = folder / "patch.toml"
    files = [alone] if alone.is_file() else sorted(folder.glob("*/patch.toml"))
    if not files:
        raise UsageError(
            f"{folder}: no patch.toml there or one folder below; give --patches a folder with one."
        )
    return files


def named_in(path: Path) -> str:
    """Return the id of the patch that a patch file is, or adds to."""
    raw, _ = _raw(path)
    return str(raw.get("id", raw.get("extends", "")))


def _extension(raw: dict[str, Any], path: Path) -> ExtensionFile:
    from patchkit.patchset.extend import ExtensionFile

    return _converted(raw, path, ExtensionFile)

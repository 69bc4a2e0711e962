"""Patch folders are read, checked whole and put in order; what is malformed is refused with file, key and reason."""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.codemods.examination import Codemod

from patchkit.patchset.schema import AnyEdit, Patch, _compile, _naming
from patchkit.patchset.select import PatchSet

BUILT_IN = Path(__file__).parents[1] / "patches"
if not BUILT_IN.is_dir():  # A source checkout keeps them beside the package; the wheel carries them inside.
    BUILT_IN = Path(__file__).parents[2] / "patches"


@functools.cache
def codemod_of(spec: AnyEdit) -> Codemod:
    """Return the codemod of an edit, built once a process."""
    return spec.codemod()


def _load_one(path: Path) -> tuple[Patch, bytes]:
    try:
        data = path.read_bytes()
        raw: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
        patch = msgspec.convert(raw, Patch)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); check the folder given with --patches."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML ({error}); mend it and try again.") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; mend that key and try again.") from None
    names = [edit.name for edit in patch.edits]
    for index, edit in enumerate(patch.edits):
        where = f"{path}: edit[{index}] `{edit.name}`"
        if names.count(edit.name) > 1:
            raise UsageError(f"{where}: key `name`: used twice in this patch; give each edit its own name.")
        _require_shapes(patch, edit.shapes, f"{where}: key `shape`")
    _require_shapes(patch, patch.one_of, f"{path}: key `one_of`")
    return patch, data


def _require_shapes(patch: Patch, shapes: Iterable[str], where: str) -> None:
    for shape in shapes:
        if shape not in patch.shapes:
            known = ", ".join(sorted(patch.shapes)) or "none"
            raise UsageError(f"{where}: `{shape}` is not one of [shapes] ({known}).")


def check(patch: Patch, path: Path) -> None:
    """Build every codemod and every fact's pattern of a patch; UsageError names file, key and reason."""
    from patchkit.codemods.kinds.definitions import Import

    for index, edit in enumerate(patch.edits):
        try:
            _require_inside(edit.files)
            if "\n" in edit.why:
                raise ValueError("key `why`: more than one line, which a comment cannot hold")
            codemod_of(edit)
            with _naming("imports"):
                for code in edit.imports:
                    Import(code)
        except ValueError as error:
            raise UsageError(
                f"{path}: edit[{index}] `{edit.name}`: {error}; mend it and try again."
            ) from None
    for fact in patch.facts:
        try:
            _require_inside(fact.files)
            for key, text in (("has", fact.has), ("lacks", fact.lacks)):
                _compile(key, *([text] if text else []))
        except ValueError as error:
            raise UsageError(f"{path}: fact about {fact.files[0]}: {error}; mend it and try again.") from None


def _require_inside(files: Sequence[str]) -> None:
    """Refuse files that are not named relative to the package folder and below it."""
    for file in files:
        place = PurePosixPath(file)
        if place.is_absolute() or ".." in place.parts or place.suffix != ".py":
            raise ValueError(f"key `file`: {file!r} is not a Python file below the package folder")


def _ordered(patches: dict[str, Patch], paths: dict[str, Path]) -> list[Patch]:
    done: dict[str, Patch] = {}

    def visit(patch: Patch, trail: tuple[str, ...]) -> None:
        if patch.id in done:
            return
        if patch.id in trail:
            raise UsageError(
                f"{paths[patch.id]}: key `requires`: the patches {' -> '.join(trail)} require each other."
            )
        for key, others in (("requires", patch.requires), ("hardens", patch.hardens)):
            for other in others:
                if other not in patches:
                    raise UsageError(f"{paths[patch.id]}: key `{key}`: no patch is called {other!r}.")
        for needed in patch.requires:
            visit(patches[needed], (*trail, patch.id))
        done[patch.id] = patch

    for patch in patches.values():
        visit(patch, ())
    return list(done.values())


def patches(folders: Sequence[Path] = ()) -> PatchSet:
    """Load the built-in patches and those in ``folders`` (a patch folder itself or a folder of them).

    Raises UsageError with file, key and reason for a malformed patch.
    """
    patches: dict[str, Patch] = {}
    paths: dict[str, Path] = {}
    digest = hashlib.sha256()
    for folder in (BUILT_IN, *folders):
        files = (
            [folder / "patch.toml"]
            if (folder / "patch.toml").is_file()
            else sorted(folder.glob("*/patch.toml"))
        )
        if not files:
            raise UsageError(
                f"{folder}: no patch.toml there or one folder below; give --patches a folder with one."
            )
        for path in files:
            patch, data = _load_one(path)
            if folder is not BUILT_IN:
                check(patch, path)
            if patch.id in patches:
                raise UsageError(
                    f"{path}: key `id`: {patch.id!r} is taken by {paths[patch.id]}; choose another."
                )
            patches[patch.id], paths[patch.id] = patch, path
            digest.update(data)
    return PatchSet(_ordered(patches, paths), digest.hexdigest())

"""Write resolutions of conflicts as a folder of patches that extend the originals: one more variant per site."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from patchkit.codemods.kinds.insert_after import InsertAfter
from patchkit.codemods.kinds.insert_before import InsertBefore
from patchkit.codemods.language.variants import TargetVariant
from patchkit.drafting.patch_file import toml_value
from patchkit.patchset.extend import Addition, extended_kind
from patchkit.plan.status import comment_start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.codemods.kind import Kind
    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.resolutions import Resolution


class Extensions(NamedTuple):
    """The text of a ``patch.toml`` for each patch, and the reason for each resolution that is left out."""

    texts: dict[str, str]
    left_out: tuple[str, ...]


def extensions(resolutions: Iterable[Resolution], patches: PatchSet) -> Extensions:
    """Return extensions equivalent to the resolutions of the loaded patches."""
    variants: dict[str, dict[str, list[TargetVariant]]] = {}
    left_out: list[str] = []
    for resolution in resolutions:
        patch = patches.get(resolution.patch) if resolution.patch in patches.ids else None
        name = resolution.edit.partition(".")[0]
        try:
            variant = _variant(patch, resolution)
        except ValueError as error:
            left_out.append(f"{resolution.patch} {resolution.edit}: {error}")
            continue
        target = variants.setdefault(resolution.patch, {}).setdefault(name, [])
        target += [variant] if variant not in target else []
    return Extensions({name: _text(name, edits) for name, edits in variants.items()}, tuple(left_out))


def _variant(patch: Patch | None, resolution: Resolution) -> TargetVariant:
    """Return a resolution as a variant of its edit. Raise ValueError with the reason if that is not possible."""
    kind = next((edit.kind for edit in patch.edits if edit.name == resolution.edit), None) if patch else None
    if patch is None or kind is None:
        raise ValueError("no loaded patch has that edit")
    if patch.diffs:
        raise ValueError("the patch is a diff: add one for this tree, which patchkit new writes")
    text = textwrap.dedent(resolution.found).strip("\n")
    if not text:
        raise ValueError("the code that was found is not known")
    start = f"# {comment_start(patch)}"
    lines = (line for line in resolution.text.split("\n") if not line.strip().startswith(start))
    code = textwrap.dedent("\n".join(lines)).strip("\n")
    if "$" in text or "$" in code:
        raise ValueError("the code contains $, which a pattern cannot match")
    variant = TargetVariant(find=text, code=_added(kind, text, code))
    if not variant.code.strip():
        raise ValueError("the resolution adds no code")
    extended_kind(kind, Addition(variants=(variant,))).check()
    return variant


def _added(kind: Kind, text: str, code: str) -> str:
    """Return the code that the edit itself writes, without the statements beside which it is inserted."""
    if isinstance(kind, InsertAfter):
        if not code.startswith(f"{text}\n"):
            raise ValueError("the edit inserts code after the found code, which the resolution changes")
        return code.removeprefix(text).strip("\n")
    if isinstance(kind, InsertBefore):
        if not code.endswith(f"\n{text}"):
            raise ValueError("the edit inserts code before the found code, which the resolution changes")
        return code.removesuffix(text).strip("\n")
    return code


def _text(patch: str, edits: dict[str, list[TargetVariant]]) -> str:
    lines = ["schema = 1", f"extends = {toml_value(patch)}", 'why = "Resolved by hand."']
    for name, variants in sorted(edits.items()):
        for variant in variants:
            lines += ["", f"[[edit.{name}.variants]]"]
            lines += [f"find = {toml_value(str(variant.find))}", f"code = {toml_value(variant.code)}"]
    return "\n".join(lines) + "\n"

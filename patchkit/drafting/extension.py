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
    for each in resolutions:
        patch = patches.get(each.patch) if each.patch in patches.ids else None
        name = each.edit.partition(".")[0]
        try:
            variant = _variant(patch, each)
        except ValueError as error:
            left_out.append(f"{each.patch} {each.edit}: {error}")
            continue
        known = variants.setdefault(each.patch, {}).setdefault(name, [])
        known += [variant] if variant not in known else []
    return Extensions({name: _text(name, edits) for name, edits in variants.items()}, tuple(left_out))


def _variant(patch: Patch | None, resolution: Resolution) -> TargetVariant:
    """Return a resolution as a variant of its edit. Raise ValueError with the reason if that is not possible."""
    kind = next((edit.kind for edit in patch.edits if edit.name == resolution.edit), None) if patch else None
    if patch is None or kind is None:
        raise ValueError("no loaded patch has that edit")
    if patch.diffs:
        raise ValueError("the patch is a diff: add one for this tree, which patchkit new writes")
    found = textwrap.dedent(resolution.found).strip("\n")
    if not found:
        raise ValueError("the code that was found is not known")
    start = f"# {comment_start(patch)}"
    lines = (line for line in resolution.text.split("\n") if not line.strip().startswith(start))
    code = textwrap.dedent("\n".join(lines)).strip("\n")
    if "$" in found or "$" in code:
        raise ValueError("the code contains $, which a pattern cannot match")
    variant = TargetVariant(find=found, code=_added(kind, found, code))
    if not variant.code.strip():
        raise ValueError("the resolution adds no code")
    extended_kind(kind, Addition(variants=(variant,))).codemod()
    return variant


def _added(kind: Kind, found: str, code: str) -> str:
    """Return the code that the edit itself writes, without the statements beside which it is inserted."""
    if isinstance(kind, InsertAfter):
        if not code.startswith(f"{found}\n"):
            raise ValueError("the edit inserts code after the found code, which the resolution changes")
        return code.removeprefix(found).strip("\n")
    if isinstance(kind, InsertBefore):
        if not code.endswith(f"\n{found}"):
            raise ValueError("the edit inserts code before the found code, which the resolution changes")
        return code.removesuffix(found).strip("\n")
    return code


def _text(patch: str, edits: dict[str, list[TargetVariant]]) -> str:
    lines = ["schema = 1", f"extends = {toml_value(patch)}", 'why = "Resolved by hand."']
    for name, variants in sorted(edits.items()):
        for variant in variants:
            lines += ["", f"[[edit.{name}.variants]]"]
            lines += [f"find = {toml_value(str(variant.find))}", f"code = {toml_value(variant.code)}"]
    return "\n".join(lines) + "\n"

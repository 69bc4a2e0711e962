"""Write examples for some of a draft's edits: a definition before and after the edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.drafting.hunks import definition_ranges
from patchkit.drafting.patch_file import toml_value
from patchkit.errors import TreeError
from patchkit.patchset.examples import PatchExample
from patchkit.plan.build import make_plan
from patchkit.plan.examples import MemoryTree, faults_of
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchkit.drafting.change import EditDraft
    from patchkit.drafting.hunks import DefinitionRanges
    from patchkit.patchset.patch import Edit, Patch

_MAX_EXAMPLES = 4
"""The most examples of a draft: each is planned, and checked for undefined names, twice."""
_MAX_LINES = 30
"""The most lines of an example's definition."""


def text(patch: Patch, edits: Mapping[str, EditDraft], before: Mapping[str, str]) -> str:
    """Return the ``examples.toml`` of a drafted patch; empty if no edit can be shown alone."""
    lines: list[str] = []
    for example in _examples(patch, edits, before):
        lines += ["[[example]]", *(f"{key} = {toml_value(value)}" for key, value in _entries(example)), ""]
    return "\n".join(lines)


def _entries(example: PatchExample) -> Iterator[tuple[str, str]]:
    for key in ("shows", "file", "edit", "before", "after"):
        yield key, str(getattr(example, key)).strip("\n")


def _examples(
    patch: Patch, edits: Mapping[str, EditDraft], before: Mapping[str, str]
) -> Iterator[PatchExample]:
    shown_sites: set[str] = set()
    for edit in patch.edits:
        draft = edits[edit.name]
        name = draft.at.partition("::")[2]
        if (
            not name
            or draft.at in shown_sites
            or draft.file not in before
            or len(shown_sites) == _MAX_EXAMPLES
        ):
            continue
        file = definition_ranges(draft.file, before[draft.file])
        example = _example(patch, edit, draft, _with_headers(file, name)) if name in file.spans else None
        if example is not None and not list(faults_of(patch, example)):
            shown_sites.add(draft.at)
            yield example


def _with_headers(file: DefinitionRanges, name: str) -> str:
    """Return a definition inside the headers of those that contain it; empty if it is long."""
    start, end = file.spans[name]
    if end - start > _MAX_LINES:
        return ""
    containing = [name.rsplit(".", count)[0] for count in range(name.count("."), 0, -1)]
    headers = []
    for outer in containing:
        line = file.lines[file.spans[outer][0]]
        if not line.rstrip().endswith(":"):
            return ""
        headers.append(line)
    return "\n".join((*headers, *file.lines[start:end], ""))


def _example(patch: Patch, edit: Edit, draft: EditDraft, before: str) -> PatchExample | None:
    if not before:
        return None
    alone = msgspec.structs.replace(patch, edits=(edit,), requires=())
    try:
        plan = make_plan(MemoryTree({draft.file: before.encode()}), (alone,))
    except TreeError:  # A definition in another block, such as `if`, is not valid Python alone.
        return None
    if plan.patches[0].state is not State.PENDING or not plan.changes:
        return None
    return PatchExample(
        shows=f"{draft.at.partition('::')[2]}, before and after the change.",
        file=draft.file,
        before=before,
        after=(plan.changes[0].after or b"").decode(),
        edit=edit.name,
    )

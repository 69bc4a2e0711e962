"""A draft as a patch folder that loads: what a person still has to do stands in it as ``todo``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.drafting.draft import Drafted


def text(identifier: str, title: str, edits: Sequence[Drafted], left: Sequence[str], commit: str = "") -> str:
    """Return the ``patch.toml`` of a draft."""
    lines = [
        "schema = 1",
        f"id = {json.dumps(identifier)}",
        f"title = {json.dumps(title or 'todo: what a server gains')}",
        *([f"upstream_commit = {json.dumps(commit)}"] if commit else []),
        'why = "todo: what was wrong or slow before"',
        'risk = "todo: what could go wrong, and who would notice"',
        'verify = "todo: how one sees that it worked"',
    ]
    lines += [f"# todo: {one}" for one in left]
    used: set[str] = set()
    for edit in edits:
        lines += ["", f"[edit.{_name(edit, used)}]"]
        lines += [f"# todo: {' '.join(one.split())}" for one in edit.todo]
        lines += [
            f'kind = "{edit.kind}"',
            'why = "todo: why this line is as it is"',
            f"at = {json.dumps(edit.at)}",
        ]
        lines += [f"{key} = {toml(value)}" for key, value in edit.keys.items()]
    return "\n".join(lines) + "\n"


def _name(edit: Drafted, used: set[str]) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", edit.at.rpartition("/")[2].removesuffix(".py").lower()).strip("-")
    base = f"{base}-{edit.kind}"
    name, number = base, 1
    while name in used:
        number += 1
        name = f"{base}-{number}"
    used.add(name)
    return name


def toml(value: str | Sequence[str]) -> str:
    """Return a text or a list of them as TOML has it."""
    if not isinstance(value, str):
        return f"[{', '.join(map(toml, value))}]"
    if "\n" not in value:
        return json.dumps(value)
    return f"'''\n{value}\n'''" if "'''" not in value else json.dumps(value)

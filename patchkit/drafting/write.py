"""Write a draft as a patch folder that loads; ``todo`` marks what has to be finished by hand."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from patchkit.patchset.patch import TODO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.drafting.change import EditDraft, Facts


FILE = "patch.toml"


def text(facts: Facts, edits: Mapping[str, EditDraft], left: Sequence[str]) -> str:
    """Return the ``patch.toml`` of a draft."""
    title = " ".join(facts.title.split())
    lines = [
        "schema = 1",
        f"id = {toml(facts.id)}",
        f"title = {toml(title or f'{TODO}what changes')}",
        *([f"upstream = {toml(facts.upstream)}"] if facts.upstream else []),
        *([f"upstream_commit = {toml(facts.upstream_commit)}"] if facts.upstream_commit else []),
        f"why = {toml(facts.why.strip() or f'{TODO}what was wrong or slow before')}",
        f'risk = "{TODO}what could go wrong, and for whom"',
        f'verify = "{TODO}how to check that it works"',
    ]
    lines += [f"# {TODO}{' '.join(one.split())}" for one in left]
    for name, edit in edits.items():
        lines += ["", f"[edit.{name}]"]
        lines += [f"# {TODO}{' '.join(one.split())}" for one in edit.todo]
        lines += [
            f'kind = "{edit.kind}"',
            f"why = {toml(_printable(title) or f'{TODO}why this edit is needed')}",
            f"at = {toml(edit.at)}",
        ]
        lines += [f"{key} = {toml(value)}" for key, value in edit.keys.items()]
    return "\n".join(lines) + "\n"


def _printable(title: str) -> str:
    return "".join(sign for sign in title if sign.isprintable())


def named(edits: Sequence[EditDraft]) -> dict[str, EditDraft]:
    """Return the edits by unique names."""
    found: dict[str, EditDraft] = {}
    for edit in edits:
        place = edit.at.rpartition("/")[2].replace(".py", "", 1).lower()
        base = f"{re.sub(r'[^a-z0-9]+', '-', place).strip('-')}-{edit.kind}".lstrip("-")
        name, number = base, 1
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found[name] = edit
    return found


def toml(value: str | Sequence[str] | int) -> str:
    """Return a text, a list of texts, a number or a boolean as TOML."""
    if isinstance(value, int):
        return str(value).lower()
    if not isinstance(value, str):
        return f"[{', '.join(_text(each, end='') for each in value)}]"
    return _text(value, end="" if value.endswith("\n") else "\n")


def _text(value: str, *, end: str) -> str:
    """Return a text as TOML, followed by ``end`` if it has several lines."""
    is_plain = all(sign.isprintable() or sign in "\n\t" for sign in value)
    if "\n" in value and is_plain and "'''" not in value and not value.endswith("'"):
        return f"'''\n{value}{end}'''"
    return json.dumps(value, ensure_ascii=not is_plain)

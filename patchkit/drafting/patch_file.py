"""Write the ``patch.toml`` of a draft, which loads; ``todo`` marks what has to be completed by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from patchkit.patchset.patch import TODO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.drafting.change import Facts


FILE = "patch.toml"


def text(facts: Facts, left_out: Sequence[str]) -> str:
    """Return the ``patch.toml`` of a draft."""
    title = " ".join(facts.title.split())
    lines = [
        "schema = 1",
        f"id = {toml_value(facts.id)}",
        f"title = {toml_value(title or f'{TODO}what changes')}",
        *([f"upstream = {toml_value(facts.upstream)}"] if facts.upstream else []),
        *([f"upstream_commit = {toml_value(facts.upstream_commit)}"] if facts.upstream_commit else []),
        f"why = {toml_value(facts.why.strip() or f'{TODO}what was wrong or slow before')}",
        f'risk = "{TODO}what could go wrong, and for whom"',
        f'verify = "{TODO}how to check that it works"',
    ]
    lines += [f"# {TODO}{' '.join(item.split())}" for item in left_out]
    return "\n".join(lines).encode(errors="replace").decode() + "\n"


def toml_value(value: str) -> str:
    """Return a text as TOML, which has no lone surrogates; of several lines the last one is ended."""
    value = value.encode(errors="replace").decode()
    is_plain = all(character.isprintable() or character in "\n\t" for character in value)
    if "\n" in value and is_plain and "'''" not in value and not value.endswith("'"):
        end = "" if value.endswith("\n") else "\n"
        return f"'''\n{value}{end}'''"
    return json.dumps(value, ensure_ascii=not is_plain)

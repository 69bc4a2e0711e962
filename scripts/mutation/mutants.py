"""Create mutants of the code that patches insert, of whole edits, and of Python modules."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli

from .operators import breaks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .operators import Break

LEFT_OUT = "edit left out"
_NOWHERE = {"at": "left_out.py", "optional": "left out"}
_NAMES = {"$$": "_mutation_run_", "$": "_mutation_name_"}


@dataclass(frozen=True, eq=False)
class Mutant:
    """A file with one fault. ``unit`` is an edit or a function, ``part`` the key of an edit."""

    file: str
    unit: str
    part: str
    operator: str
    before: str
    made: Callable[[], tuple[str, str]]
    """Makes the fault: ``before`` after it, and the whole mutated file."""
    sites: tuple[str, ...] = ()
    """The files of a tree in which the edit may be."""

    @property
    def after(self) -> str:
        """The mutated code."""
        return self.made()[0]

    @property
    def text(self) -> str:
        """The whole mutated file."""
        return self.made()[1]

    @property
    def is_of_patch(self) -> bool:
        """Whether it is a mutant of a patch, not of a module."""
        return self.file.endswith(".toml")

    @property
    def stratum(self) -> tuple[str, str]:
        """The group of which a sample takes at least one mutant."""
        return self.file, self.unit

    @property
    def name(self) -> str:
        """Its place and its fault, in one line."""
        return f"{self.file}: {' '.join(filter(None, (self.unit or 'module', self.part)))}: {self.operator}"

    @property
    def diff(self) -> str:
        """The fault as a unified diff without its header."""
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=2)
        return "\n".join(list(lines)[2:])


class _Fragment(NamedTuple):
    part: str
    code: str
    edit: Any
    """Returns the whole edit with other code in place of the fragment."""
    before: str = ""
    behind: str = ""
    """Prefix that makes a fragment a statement."""


def of_module(file: str, text: str) -> Iterator[Mutant]:
    """Yield a module's mutants."""
    for one in breaks(text):

        def made(one: Break = one) -> tuple[str, str]:
            return one.code, one.code

        yield Mutant(file, one.unit, "", one.operator, text, made)


def of_patch(file: str, text: str) -> Iterator[Mutant]:
    """Yield a patch's mutants: each edit left out, and each fault in its code."""
    patch = tomli.loads(text)
    for name, edit in patch["edit"].items():
        sites = tuple(_files(edit))
        for part, operator, before, after, changed in _changes(edit):
            whole = written({**patch, "edit": {**patch["edit"], name: changed}})

            def made(pair: tuple[str, str] = (after, whole)) -> tuple[str, str]:
                return pair

            yield Mutant(file, name, part, operator, before, made, sites)


def _files(edit: dict[str, Any]) -> Iterator[str]:
    """Yield the files in which an edit may be."""
    for site in edit.get("sites", [edit]):
        places = site["at"] if isinstance(site, dict) else site
        yield from (place.partition("::")[0] for place in ([places] if isinstance(places, str) else places))


def _changes(edit: dict[str, Any]) -> Iterator[tuple[str, str, str, str, dict[str, Any]]]:
    gone = {key: value for key, value in edit.items() if key != "sites"} | _NOWHERE
    yield "", LEFT_OUT, _shown(edit), "", gone
    for fragment in _fragments(edit):
        for operator, code in _broken(fragment, replaces=edit["kind"] == "rewrite"):
            yield fragment.part, operator, fragment.code, code, fragment.edit(code)


def _shown(edit: dict[str, Any]) -> str:
    return "\n".join(fragment.code.strip("\n") for fragment in _fragments(edit)) or edit.get("member", "")


def _fragments(edit: dict[str, Any]) -> Iterator[_Fragment]:
    if edit["kind"] == "import":
        return
    if edit["kind"] == "none-guard":
        # The same edit in its long form, so that its condition can be mutated too.
        rest = {key: value for key, value in edit.items() if key != "value"} | {"kind": "rewrite"}
        guard = f"if {edit['value']} is not None:\n    $$found\n"
        yield _Fragment("value", guard, lambda code: {**rest, "code": code})
    if edit["kind"] == "call-argument":
        yield _Fragment("argument", edit["argument"], lambda code: {**edit, "argument": code}, "call(", ")")
    if "code" in edit:
        around = ("def function(", "): pass") if edit["kind"] == "parameter" else ("", "")
        yield _Fragment("code", edit["code"], lambda code: {**edit, "code": code}, *around)
    for index, variant in enumerate(edit.get("variants", ())):

        def varied(code: str, index: int = index) -> dict[str, Any]:
            variants = edit["variants"]
            changed = {**variants[index], "code": code}
            return {**edit, "variants": [*variants[:index], changed, *variants[index + 1 :]]}

        yield _Fragment(f"variants[{index}].code", variant["code"], varied)


def _broken(fragment: _Fragment, *, replaces: bool) -> Iterator[tuple[str, str]]:
    """Yield the mutations of a fragment; an insertion without its only statement counts as an edit left out."""
    whole = fragment.before + _named(fragment.code) + fragment.behind
    for one in breaks(whole):
        code = one.code.removeprefix(fragment.before).removesuffix(fragment.behind)
        is_fragment = one.code == fragment.before + code + fragment.behind
        nothing = {""} if replaces else {"", "pass"}
        if is_fragment and code.strip() not in nothing:
            yield one.operator, _dollared(code)


def _named(code: str) -> str:
    """Replace placeholders by names, so that a fragment is Python."""
    return re.sub(r"(\${1,2})(?=\w)", lambda found: _NAMES[found[1]], code)


def _dollared(code: str) -> str:
    for sign, name in _NAMES.items():
        code = code.replace(name, sign)
    return code


def written(table: dict[str, Any]) -> str:
    """Return a table as TOML, with every value on one line."""
    return "".join(f"{_value(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON strings, booleans and integers are valid TOML.
    return json.dumps(value, ensure_ascii=False)

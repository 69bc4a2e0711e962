"""Describe a malformed key of a patch or configuration file: its path, and what is wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import inspect

from patchkit.errors import spelling_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT = re.compile(r"(?P<why>.*?)(?: - at (?P<name>`key` in )?`\$\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_VALUE = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_FORM = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_EMPTY = re.compile(r"Expected `\w+` of length >= 1")
_KIND = re.compile(r"Expected `(.*)`, got `(.*)`")
_STEP = re.compile(r"[^.\[\]]+|\[[^\]]*\]")

_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "object": "a table",
    "str": "a string",
}
"""The names of TOML for the kinds of values that msgspec names."""


class Malformation(NamedTuple):
    """What is wrong with a file, in a clause that names the key, and what to do."""

    what: str
    advice: str


def malformation_of(error: msgspec.ValidationError, form: Any, table: str = "") -> Malformation:
    """Return what the conversion to the type ``form`` found wrong; ``table`` is where the converted table is."""
    at = _AT.fullmatch(str(error))
    why, place = (at["why"], at["place"] or "") if at else (str(error), "")
    steps = _STEP.findall(place)
    if at and at["name"]:
        return _at([table, *steps], f"a name in it {_explanation(why, None)}")
    if found := _UNKNOWN.fullmatch(why):
        return _unknown(found[1], sorted(_keys(_inside(form, steps))), [table, *steps])
    if found := _MISSING.fullmatch(why):
        return _at([table, *steps, found[1]], "missing")
    return _at([table, *steps], _explanation(why, _inside(form, steps)))


def _unknown(key: str, keys: list[str], steps: list[str]) -> Malformation:
    where = _path(steps)
    known = ", ".join(f"`{each}`" for each in keys)
    hint = spelling_hint(key, keys, "`")
    return Malformation(f"{where}{': ' if where else ''}unknown key `{key}`", f"{hint}the keys are {known}")


def _at(steps: list[str], why: str) -> Malformation:
    """Return a fault of the key to which the steps lead; a number counts the entries of a list from 0."""
    last = max((number for number, step in enumerate(steps) if step and step[0] != "["), default=0)
    table, key = _path(steps[:last]), _path(steps[last:])
    named = f"{table}: key `{key}`: " if table and key else f"key `{key}`: " if key else ""
    return Malformation(f"{named}{why}", "fix that key and try again")


def _path(steps: list[str]) -> str:
    named = (step for step in steps if step and step != "[...]")
    return "".join(step if step[0] == "[" else f".{step}" for step in named).removeprefix(".")


def _explanation(why: str, kind: Any) -> str:
    if _EMPTY.fullmatch(why):
        return "empty"
    if found := _VALUE.fullmatch(why):
        values = ", ".join(repr(each) for each in getattr(kind, "values", ()))
        return f"{found[1]} is not {'one of ' if ',' in values else ''}{values}" if values else found[0]
    if found := _FORM.fullmatch(why):
        return f"does not match {found[1]}"
    if found := _KIND.fullmatch(why):
        wanted = " or ".join(_KINDS.get(each, each) for each in found[1].split(" | ") if each != "null")
        return f"expected {wanted}, found {_KINDS.get(found[2], found[2])}"
    return why


def _inside(form: Any, steps: list[str]) -> Any:
    """Return the type to which the steps lead, in the terms of ``msgspec.inspect``; None if it is not known."""
    kind: Any = inspect.type_info(form)
    for step in steps:
        kind = next(filter(None, (_below(each, step) for each in _choices(kind))), None)
    return kind


def _below(kind: Any, step: str) -> Any:
    if isinstance(kind, inspect.StructType):
        return next((field.type for field in kind.fields if field.encode_name == step), None)
    return getattr(kind, "value_type", None) or getattr(kind, "item_type", None)


def _choices(kind: Any) -> Iterator[Any]:
    """Yield a type, or each type of a union, without what it is annotated with."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _choices(each)
    elif kind is not None:
        yield kind


def _keys(kind: Any) -> Iterator[str]:
    """Yield the keys that a table of this type can have."""
    for each in _choices(kind):
        if isinstance(each, inspect.StructType):
            yield from (field.encode_name for field in each.fields)
            yield from [each.tag_field] if each.tag_field else []

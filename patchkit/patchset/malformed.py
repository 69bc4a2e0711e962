"""Read a table of a patch or configuration file; an error names the malformed key and what is wrong with it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from patchkit.errors import UsageError, spelling_hint
from patchkit.tree import toml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_Form = TypeVar("_Form", bound=msgspec.Struct)

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


_read = lru_cache(maxsize=128)(toml.read)


def table_in(data: bytes, where: Path | str) -> dict[str, Any]:
    """Return a TOML file's table, which must not be modified. Raise UsageError, with the reason, if it is not TOML."""
    try:
        return _read(data)
    except toml.TomlError as error:
        raise UsageError(str(error), where=where, advice="fix it and try again") from None


def converted(table: object, form: type[_Form], where: Path | str) -> _Form:
    """Return the table of a file as a struct ``form``. Raise UsageError, with key and reason, if it is malformed."""
    try:
        return msgspec.convert(table, form)
    except msgspec.ValidationError as error:
        fault = malformation_of(error, form)
        raise UsageError(fault.what, where=where, advice=fault.advice) from None


class Malformation(NamedTuple):
    """What is wrong with a file, in a clause that names the key, and what to do."""

    what: str
    advice: str


def malformation_of(error: msgspec.ValidationError, form: Any, table: str = "") -> Malformation:
    """Return what the conversion to the type ``form`` found wrong; ``table`` is where the converted table is."""
    position = _AT.fullmatch(str(error))
    why, place = (position["why"], position["place"] or "") if position else (str(error), "")
    steps = _STEP.findall(place)
    if position and position["name"]:
        return _at([table, *steps], f"a name in it {_explanation(why, None)}")
    if match := _UNKNOWN.fullmatch(why):
        return _unknown(match[1], sorted(_keys(_inside(form, steps))), [table, *steps])
    if match := _MISSING.fullmatch(why):
        return _at([table, *steps, match[1]], "missing")
    return _at([table, *steps], _explanation(why, _inside(form, steps)))


def _unknown(key: str, keys: list[str], steps: list[str]) -> Malformation:
    where = _path(steps)
    names = ", ".join(f"`{key}`" for key in keys)
    hint = spelling_hint(key, keys, "`")
    return Malformation(f"{where}{': ' if where else ''}unknown key `{key}`", f"{hint}the keys are {names}")


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
    if match := _VALUE.fullmatch(why):
        values = ", ".join(repr(value) for value in getattr(kind, "values", ()))
        return f"{match[1]} is not {'one of ' if ',' in values else ''}{values}" if values else match[0]
    if match := _FORM.fullmatch(why):
        return f"does not match {match[1]}"
    if match := _KIND.fullmatch(why):
        wanted = " or ".join(_KINDS.get(word, word) for word in match[1].split(" | ") if word != "null")
        return f"expected {wanted}, found {_KINDS.get(match[2], match[2])}"
    return why


def _inside(form: Any, steps: list[str]) -> Any:
    """Return the type to which the steps lead, in the terms of ``msgspec.inspect``; None if it is not known."""
    kind: Any = inspect.type_info(form)
    for step in steps:
        kind = next(filter(None, (_below(choice, step) for choice in _choices(kind))), None)
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
        for member in kind.types:
            yield from _choices(member)
    elif kind is not None:
        yield kind


def _keys(kind: Any) -> Iterator[str]:
    """Yield the keys that a table of this type can have."""
    for choice in _choices(kind):
        if isinstance(choice, inspect.StructType):
            yield from (field.encode_name for field in choice.fields)
            yield from [choice.tag_field] if choice.tag_field else []

"""Read a server's launch command, ``--config`` file or ``ServerArgs`` JSON by the options that the tree declares."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.doctor import phrases
from patchkit.doctor.command_line import config_options, environment, split_command, without_config
from patchkit.doctor.declared import declared
from patchkit.doctor.launch import Launch, Value
from patchkit.errors import UsageError, spelling_hint
from patchkit.tree.index import Class, Index, last_name
from patchkit.tree.nodes import walk
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from patchkit.tree.tree import Tree

_FLAGS = {"store_true": True, "store_false": False, "BooleanOptionalAction": True}
_ANNOTATED = frozenset({"A", "Annotated"})
_WRAPPERS = frozenset({"Optional", "Union", "List", "list"})
_SEQUENCE_TYPES = frozenset({"List", "list", "Sequence", "Tuple", "tuple"})
_PLAIN_ACTIONS = frozenset({*_FLAGS, "store", "store_const"})


@dataclass(frozen=True)
class _Option:
    """An option's setting, the value of a bare flag, and whether it takes ``several`` values."""

    field: str
    flag: Value
    several: bool = True


@dataclass(frozen=True)
class _Declaration:
    """An option's names, the call that declares it, and the type of its field."""

    names: tuple[str, ...]
    call: ast.Call | None
    annotation: ast.expr | None = None

    @cached_property
    def keywords(self) -> dict[str | None, ast.expr]:
        """The keyword arguments of the call."""
        return {word.arg: word.value for word in self.call.keywords} if self.call is not None else {}


class Arguments:
    """The options that a tree's ``ServerArgs`` declares; nothing is imported."""

    def __init__(self, tree: Tree) -> None:
        """Read the options. Raise TreeError if the tree has no such class."""
        self._index = Index(tree.read)
        self._files = functools.partial(_serving, tree)
        self._declared = declared(self._index, self._files, str(tree.package_label))

    @cached_property
    def defaults(self) -> dict[str, Value]:
        """The settings with their defaults; a default that is no constant counts as None."""
        found: dict[str, Value] = {}
        for name, item in self._declared.fields.items():
            value = item.value.value if isinstance(item.value, ast.Constant) else None
            plain = isinstance(value, (str, bool, int, float))
            found[name] = value if plain else None  # type: ignore[assignment]
        return found

    def _declarations(self) -> Iterator[tuple[str, _Declaration]]:
        """Yield the setting and the declaration of each option that the tree declares."""
        for node in walk(self._declared.cls.module.tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                one = _Declaration(tuple(_texts(node.args)), node)
                dest = one.keywords.get("dest")
                spelled = [*_texts([dest] if dest is not None else []), *map(_field, one.names)]
                setting = next((name for name in spelled if name in self.defaults), None)
                if setting is not None:
                    yield setting, one
        for name, item in self._declared.fields.items():
            annotated = item.annotation
            if not isinstance(annotated, ast.Subscript) or last_name(annotated.value) not in _ANNOTATED:
                continue
            type_, *marks = (
                annotated.slice.elts if isinstance(annotated.slice, ast.Tuple) else [annotated.slice]
            )
            calls = [mark for mark in marks if isinstance(mark, ast.Call) and last_name(mark.func) == "Arg"]
            call = calls[0] if calls else None
            one = _Declaration((), call, type_)
            chosen = _texts([one.keywords[word] for word in ("cli_name",) if word in one.keywords])
            aliases = one.keywords.get("aliases")
            others = _texts(aliases.elts) if isinstance(aliases, (ast.List, ast.Tuple)) else []
            yield name, replace(one, names=(*(chosen or [phrases.option(name)]), *others))

    @cached_property
    def _options(self) -> dict[str, _Option]:
        """The options of the command line, by each of their names."""
        found = {
            phrases.option(name): _Option(name, True if value is False else None, several=value is not False)
            for name, value in self.defaults.items()
        }
        for setting, one in self._declarations():
            action = last_name(one.keywords["action"]) if "action" in one.keywords else ""
            option = _Option(setting, self._flag(one, action, setting), _takes_several(one))
            found |= dict.fromkeys(one.names, option)
            if action == "BooleanOptionalAction":
                long = [name for name in one.names if name.startswith("--")]
                found |= {f"--no-{name[2:]}": replace(option, flag=False) for name in long}
        return found

    def _flag(self, one: _Declaration, action: str, setting: str) -> Value:
        """Return what an option without a value sets its setting to, None for one that takes a value."""
        if not action:
            is_bool = one.annotation is not None and last_name(_inner(one.annotation)) == "bool"
            return (
                True if is_bool or (self.defaults[setting] is False and one.annotation is not None) else None
            )
        if action in _FLAGS:
            return _FLAGS[action]
        constants = {
            name: value.value for name, value in one.keywords.items() if isinstance(value, ast.Constant)
        }
        fixed: Any = constants.get("const_value", constants.get("const", True))
        takes_none = action == "store_const" or (self._takes_none(action) and "nargs" not in constants)
        return fixed if takes_none else None

    def _takes_none(self, action: str) -> bool:
        """Return whether options with an action of the tree's own take no value."""
        found = self._index.resolve(self._declared.cls.module, action)
        init = self._index.method(found, "__init__") if isinstance(found, Class) else None
        parameters = init.node.args if init is not None else None
        given = (
            zip(reversed(parameters.args), reversed(parameters.defaults), strict=False)
            if parameters is not None
            else ()
        )
        return any(
            arg.arg == "nargs" and isinstance(value, ast.Constant) and value.value == 0
            for arg, value in given
        )

    def launch(self, words: Sequence[str], settings: bytes = b"") -> Launch:
        """Return the launch that a command line, as typed or split into words, and a ``ServerArgs`` JSON describe.

        The words in front of the server's options (``docker run …``, ``python -m sglang.launch_server``) are ignored,
        except that ``NAME=value`` sets an environment variable. Raise UsageError for an option that the tree does not
        have, for a word that is neither an option nor the value of one, and for a ``--config`` that cannot be read.
        """
        before, options = split_command(words)
        variables = dict(environment(before))
        given = dict(self._decoded(settings)) if settings else {}
        options, config = without_config(options)
        configured = dict(self._configured(config)) if config is not None else {}
        return Launch(given | configured | dict(self._given(options)), self.defaults, variables)

    def _named_option(self, name: str) -> _Option | None:
        """Return an option by its name or by an unambiguous prefix, as argparse does."""
        if name in self._options or not name.startswith("--"):
            return self._options.get(name)
        begun = {option.field: option for long, option in self._options.items() if long.startswith(name)}
        sized = {field: option for field, option in begun.items() if f"{name}-size" in self._named(field)}
        found = sized or begun
        return next(iter(found.values())) if len(found) == 1 else None

    def _named(self, field: str) -> set[str]:
        return {name for name, option in self._options.items() if option.field == field}

    def _decoded(self, settings: bytes) -> Iterator[tuple[str, Value]]:
        try:
            found = msgspec.json.decode(settings, type=dict[str, object])
        except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
            why = "" if isinstance(error, msgspec.ValidationError) else f" ({error})"
            raise UsageError(
                f"--server-args: not a JSON object{why}", advice='save the options as {"name": value, …}'
            ) from None
        for name, value in found.items():
            if name in self.defaults and isinstance(value, (str, bool, int, float, type(None))):
                yield name, value

    def _given(self, words: list[str]) -> Iterator[tuple[str, Value]]:
        """Yield the settings of a command line."""
        option: _Option | None = None
        while words:
            name, equals, value = words.pop(0).partition("=")
            if not name.startswith("-"):
                if name.strip() and (option is None or not option.several):
                    raise UsageError(
                        f"{name}: neither a server option nor the value of one",
                        advice="name the TREE before the server's options",
                    )
                continue  # A further value of an option that takes several.
            option = self._known_option(name)
            if option.flag is not None:
                yield option.field, _plain(value) if equals else option.flag
                continue
            if not equals and (not words or words[0].startswith("--")):
                raise UsageError(f"{name}: a value is missing", advice=f"type {name} VALUE")
            yield option.field, _plain(value if equals else words.pop(0))

    def _configured(self, file: Path) -> Iterator[tuple[str, Value]]:
        """Yield the settings of a configuration file."""
        for name, values in config_options(file):
            where = f"--config {file}: "
            option = self._known_option(f"--{name}", where, is_nested=values == [None])
            if option.flag is not None and values:
                yield from _switched(option, values, f"{where}{name}", f"`{name}: true`")
                continue
            if len(values) > 1 and not option.several:
                raise UsageError(
                    f"{where}{name}: {len(values)} values, and the option takes one",
                    advice=f"write `{name}: VALUE`",
                )
            if values and values[0] is not None:
                yield option.field, _plain(values[0])

    def _known_option(self, name: str, where: str = "", *, is_nested: bool = False) -> _Option:
        """Return an option by its name. Raise UsageError if the tree has none.

        ``where`` is the file that names it, and ``is_nested`` whether there are further names below it.
        """
        option = self._named_option(name)
        if option is None:
            hint = spelling_hint(name, self._options).rstrip()
            hint = hint or f"{self._declared.file} has the server's options"
            if is_nested:
                hint = "write the options below it without indentation"
            raise UsageError(f"{where}{name}: this tree's server has no such option", advice=hint)
        return option


def _switched(
    option: _Option, values: Sequence[str | None], where: str, example: str
) -> Iterator[tuple[str, Value]]:
    """Yield the setting of an option without a value that a configuration file sets to true or false."""
    if values not in (["true"], ["false"]):
        found = ", ".join(each or "a nested value" for each in values)
        found = f"[{found}]" if len(values) > 1 else found
        raise UsageError(
            f"{where}: {found} is neither true nor false", advice=f"write {example} or remove the line"
        )
    if values == ["true"]:
        yield option.field, option.flag
    elif option.flag is True:
        yield option.field, False


def _texts(nodes: Sequence[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _field(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _inner(annotation: ast.expr) -> ast.expr:
    """Return the type of a field's values: without None, and of a list its elements' type."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [annotation.left, annotation.right]
    elif isinstance(annotation, ast.Subscript) and last_name(annotation.value) in _WRAPPERS:
        inside = annotation.slice
        sides = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    else:
        return annotation
    types = [side for side in sides if not (isinstance(side, ast.Constant) and side.value is None)]
    return _inner(types[0]) if len(types) == 1 else annotation


def _takes_several(one: _Declaration) -> bool:
    """Return whether an option may take several values."""
    parts = ast.walk(one.annotation) if one.annotation is not None else ()
    named = [last_name(part) for part in parts if isinstance(part, ast.expr)]
    is_own = "action" in one.keywords and last_name(one.keywords["action"]) not in _PLAIN_ACTIONS
    return is_own or "nargs" in one.keywords or not _SEQUENCE_TYPES.isdisjoint(named)


def _serving(tree: Tree) -> Iterator[tuple[str, bytes]]:
    return ((file, text) for file in tree.files(SERVING, ".py") if (text := tree.read(file)) is not None)


def _plain(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{0,18}\.[0-9]{1,18}", text) else text

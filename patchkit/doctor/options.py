"""Read a server's launch command, ``--config`` file or ``ServerArgs`` JSON by the options that the tree declares."""

from __future__ import annotations

import ast
import difflib
import functools
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.doctor import phrases
from patchkit.doctor.command_line import config_options, environment, split_command, without_config
from patchkit.doctor.declared import declared
from patchkit.doctor.launch import Launch, Refusal, Value
from patchkit.errors import UsageError
from patchkit.tree.index import Class, Index, last_name
from patchkit.tree.nodes import walk
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from patchkit.tree.index import Module
    from patchkit.tree.tree import Tree

_FLAGS = {"store_true": True, "store_false": False, "BooleanOptionalAction": True}
_ANNOTATED = frozenset({"A", "Annotated"})
_WRAPPERS = frozenset({"Optional", "Union", "List", "list"})
_SEQUENCE_TYPES = frozenset({"List", "list", "Sequence", "Tuple", "tuple"})
_PLAIN_ACTIONS = frozenset({*_FLAGS, "store", "store_const"})


@dataclass(frozen=True)
class _Option:
    """An option's setting, the value of a bare flag, and what the parser checks of a value.

    ``type`` is the name of the type that a value is converted to, empty if it is unknown; ``choices`` is None if any
    value is accepted or if the accepted ones are unknown. ``several`` is False if a second value is an error.
    """

    field: str
    flag: Value
    names: tuple[str, ...] = ()
    type: str = ""
    choices: tuple[Value, ...] | None = None
    where: str = ""
    several: bool = True

    def value(self, text: str) -> Value:
        """Return a value as the parser converts it. Raise _RefusedError with the parser's message for a wrong one."""
        try:
            value: Value = _TYPES[self.type](text)
        except ValueError:
            raise _RefusedError(f"argument {self}: invalid {self.type} value: {text!r}", self.where) from None
        if self.choices is None or value in self.choices:
            return value
        known = [*map(str, self.choices)]
        why = f"argument {self}: invalid choice: {value!r} (choose from {', '.join(known)})"
        why += spelling_hint(text, known)
        raise _RefusedError(why, self.where, text)

    def __str__(self) -> str:
        return "/".join(self.names)


@dataclass(frozen=True)
class _Declaration:
    """An option's names, the call that declares it, the module of that call, and the type of its field."""

    names: tuple[str, ...]
    call: ast.Call | None
    module: Module
    line: int
    annotation: ast.expr | None = None

    @cached_property
    def keywords(self) -> dict[str | None, ast.expr]:
        """The keyword arguments of the call."""
        return {word.arg: word.value for word in self.call.keywords} if self.call is not None else {}


class _RefusedError(Exception):
    def __init__(self, why: str, where: str, choice: str = "") -> None:
        super().__init__(why)
        self.refusal = Refusal(why, where)
        self.choice = choice


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
        module = self._declared.cls.module
        for node in walk(module.tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                one = _Declaration(tuple(_texts(node.args)), node, module, node.lineno)
                dest = one.keywords.get("dest")
                spelled = [*_texts([dest] if dest is not None else []), *map(_field, one.names)]
                setting = next((name for name in spelled if name in self.defaults), None)
                if setting is not None:
                    yield setting, one
        for name, item in self._declared.fields.items():
            owner = self._declared.owners[name].module
            annotated = item.annotation
            if not isinstance(annotated, ast.Subscript) or last_name(annotated.value) not in _ANNOTATED:
                continue
            type_, *marks = (
                annotated.slice.elts if isinstance(annotated.slice, ast.Tuple) else [annotated.slice]
            )
            calls = [mark for mark in marks if isinstance(mark, ast.Call) and last_name(mark.func) == "Arg"]
            call = calls[0] if calls else None
            one = _Declaration((), call, owner, item.lineno, type_)
            chosen = _texts([one.keywords[word] for word in ("cli_name",) if word in one.keywords])
            aliases = one.keywords.get("aliases")
            others = _texts(aliases.elts) if isinstance(aliases, (ast.List, ast.Tuple)) else []
            yield name, replace(one, names=(*(chosen or [phrases.option(name)]), *others))

    @cached_property
    def _options(self) -> dict[str, _Option]:
        """The options of the command line, by each of their names."""
        found = {
            phrases.option(name): _Option(
                name, True if value is False else None, (phrases.option(name),), several=value is not False
            )
            for name, value in self.defaults.items()
        }
        for setting, one in self._declarations():
            action = last_name(one.keywords["action"]) if "action" in one.keywords else ""
            option = _Option(
                setting,
                self._flag(one, action, setting),
                one.names,
                "" if action else _type(one),
                self._choices(one),
                f"{one.module.file}:{one.line}",
                _takes_several(one),
            )
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

    def _choices(self, one: _Declaration) -> tuple[Value, ...] | None:
        """Return the values that an option accepts, None if it accepts any or if they are computed."""
        inner = _inner(one.annotation) if one.annotation is not None else None
        if "choices" in one.keywords:
            found = self._listed(one.module, one.keywords["choices"])
        elif isinstance(inner, ast.Subscript) and last_name(inner) == "Literal":
            found = self._listed(one.module, inner.slice)
        else:
            return None
        return tuple(found) if found is not None else None

    def _listed(self, module: Module, node: ast.expr) -> list[Value] | None:
        """Return the constants of a list, None if some of it are computed."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bool, int, float, type(None))):
            return [node.value]
        if isinstance(node, ast.Starred):
            return self._listed(module, node.value)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            parts = [self._listed(module, each) for each in node.elts]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [self._listed(module, node.left), self._listed(module, node.right)]
        elif isinstance(node, ast.Name):
            return self._listed_by_name(module, node.id)
        else:
            return None
        return None if None in parts else [each for part in parts for each in part or ()]

    def _listed_by_name(self, module: Module, name: str) -> list[Value] | None:
        assigned = [
            statement
            for statement in module.tree.body
            if any(isinstance(each, ast.Name) and each.id == name for each in _targets(statement))
        ]
        if assigned:
            (only, *others) = assigned
            is_changed = others or any(_changes(statement, name) for statement in module.tree.body)
            value = only.value if isinstance(only, (ast.Assign, ast.AnnAssign)) else None
            return None if is_changed or value is None else self._listed(module, value)
        dotted, member = module.imports.get(name, ("", None))
        file = self._index.file_of(dotted) if member is not None else None
        source = self._index.module(file) if file is not None and file != module.file else None
        return self._listed_by_name(source, str(member)) if source is not None else None

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
        refused: list[Refusal] = []
        configured = dict(self._configured(config, refused)) if config is not None else {}
        typed = dict(self._given(options, refused))
        files = dict.fromkeys(configured.keys() - typed.keys(), str(config))
        return Launch(
            given | configured | typed, self.defaults, variables, refused[0] if refused else None, files
        )

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

    def _given(self, words: list[str], refused: list[Refusal]) -> Iterator[tuple[str, Value]]:
        """Yield the settings of a command line; values that the parser refuses are added to ``refused``."""
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
            yield from self._parsed(option, value if equals else words.pop(0), refused)

    def _configured(self, file: Path, refused: list[Refusal]) -> Iterator[tuple[str, Value]]:
        """Yield the settings of a configuration file; values that the parser refuses are added to ``refused``."""
        for name, values in config_options(file):
            where = f"--config {file}: "
            option = self._known_option(f"--{name}", where, is_nested=values == [None])
            if option.flag is not None and values:
                yield from _switched(option, values, f"{where}{name}", f"`{name}: true`")
                continue
            is_nested = None in values and (option.choices is not None or option.type in {"float", "int"})
            if is_nested or (len(values) > 1 and not option.several):
                found = "a nested value" if is_nested else f"{len(values)} values"
                raise UsageError(
                    f"{where}{name}: {found}, and the option takes one", advice=f"write `{name}: VALUE`"
                )
            if values and values[0] is not None:
                yield from self._parsed(option, values[0], refused, where)

    def _known_option(self, name: str, where: str = "", *, is_nested: bool = False) -> _Option:
        """Return an option by its name. Raise UsageError if the tree has none.

        ``where`` is the file that names it, and ``is_nested`` whether there are further names below it.
        """
        option = self._named_option(name)
        if option is None:
            close = difflib.get_close_matches(name, self._options, n=1)
            hint = f"did you mean {close[0]}?" if close else f"{self._declared.file} has the server's options"
            if is_nested:
                hint = "write the options below it without indentation"
            raise UsageError(f"{where}{name}: this tree's server has no such option", advice=hint)
        return option

    def _parsed(
        self, option: _Option, text: str, refused: list[Refusal], where: str = ""
    ) -> Iterator[tuple[str, Value]]:
        try:
            yield option.field, option.value(text)
        except _RefusedError as error:
            if error.choice and self._is_added(error.choice):
                yield option.field, error.choice
            else:
                refused.append(replace(error.refusal, why=f"{where}{error.refusal.why}"))

    def _is_added(self, choice: str) -> bool:
        """Return whether a file of the tree adds a value to the choices of an option, as plugins do."""
        return any(
            isinstance(node, ast.Call)
            and "choices" in ast.unparse(node.func).lower()
            and choice
            in _texts([each for arg in node.args for each in ast.walk(arg) if isinstance(each, ast.expr)])
            for file, text in self._files()
            if choice.encode() in text and b"choices" in text.lower() and (module := self._index.module(file))
            for node in walk(module.tree)
        )


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


def spelling_hint(value: str, known: Iterable[str], option: str = "") -> str:
    """Return a hint that names the known value that is spelled most like this one; empty if none is similar."""
    close = difflib.get_close_matches(value, [*known], n=1)
    return f"; did you mean {option}{' ' if option else ''}{close[0]}?" if close else ""


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


def _type(one: _Declaration) -> str:
    """Return the name of the type that an option's values are converted to, an empty text if it is unknown."""
    if one.annotation is None:
        name = last_name(one.keywords["type"]) if "type" in one.keywords else "str"
    elif "type_parser" in one.keywords:
        name = ""
    else:
        inner = _inner(one.annotation)
        first = inner.slice if isinstance(inner, ast.Subscript) and last_name(inner) == "Literal" else None
        first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
        name = type(first.value).__name__ if isinstance(first, ast.Constant) else last_name(inner)
    return name if name in _TYPES else ""


def _takes_several(one: _Declaration) -> bool:
    """Return whether an option may take several values."""
    parts = ast.walk(one.annotation) if one.annotation is not None else ()
    named = [last_name(part) for part in parts if isinstance(part, ast.expr)]
    is_own = "action" in one.keywords and last_name(one.keywords["action"]) not in _PLAIN_ACTIONS
    return is_own or "nargs" in one.keywords or not _SEQUENCE_TYPES.isdisjoint(named)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


def _changes(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement of a module's top level changes the list of a name in place."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    return any(
        (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and getattr(node.func.value, "id", "") == name
        )
        or (isinstance(node, ast.AugAssign) and getattr(node.target, "id", "") == name)
        for node in walk(statement)
    )


def _serving(tree: Tree) -> Iterator[tuple[str, bytes]]:
    return ((file, text) for file in tree.files(SERVING, ".py") if (text := tree.read(file)) is not None)


def _plain(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{0,18}\.[0-9]{1,18}", text) else text


_TYPES: dict[str, Callable[[str], Value]] = {"": _plain, "float": float, "int": int, "str": str}

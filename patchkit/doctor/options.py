"""A launch command line or a ``ServerArgs`` JSON, understood by the arguments that the tree itself declares."""

from __future__ import annotations

import ast
import difflib
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from patchkit.errors import TreeError, UsageError
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.tree.tree import Tree

ARGUMENTS = "srt/server_args.py"
_CLASS = "ServerArgs"
_FLAGS = {"store_true": True, "store_false": False}

Value = str | bool | int | float | None


@dataclass(frozen=True)
class Launch:
    """What a server is started with: ``given`` by whoever starts it, the rest as the tree's defaults have it."""

    given: Mapping[str, Value]
    defaults: Mapping[str, Value]
    environment: Mapping[str, str]

    def get(self, name: str) -> Value:
        """Return a setting by its name in ``ServerArgs``, None where the tree has no such setting."""
        return self.given[name] if name in self.given else self.defaults.get(name)


@dataclass(frozen=True)
class _Option:
    field: str
    flag: Value


class Arguments:
    """The arguments that a tree's ``ServerArgs`` declares; nothing is imported."""

    def __init__(self, tree: Tree) -> None:
        """Read them; TreeError where the tree has no such file or class."""
        source = tree.read(ARGUMENTS)
        try:
            self._module = ast.parse(source or b"")
        except (SyntaxError, ValueError):
            raise TreeError(f"{ARGUMENTS}: not valid Python; mend it and try again.") from None
        if not self.defaults:
            raise TreeError(f"{tree.package_label} has no {_CLASS} in {ARGUMENTS}: name an sglang tree.")

    @cached_property
    def defaults(self) -> dict[str, Value]:
        """The settings with the defaults that are plain values; the others count as None."""
        found: dict[str, Value] = {}
        for node in self._module.body:
            if isinstance(node, ast.ClassDef) and node.name == _CLASS:
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                        value = item.value.value if isinstance(item.value, ast.Constant) else None
                        plain = isinstance(value, (str, bool, int, float))
                        found[item.target.id] = value if plain else None  # type: ignore[assignment]
        return found

    @cached_property
    def _options(self) -> dict[str, _Option]:
        """Each ``--option`` of the command line: the setting that it sets, and what a bare flag sets it to."""
        found = {f"--{name.replace('_', '-')}": _Option(name, None) for name in self.defaults}
        found |= {
            f"--{name.replace('_', '-')}": _Option(name, True)
            for name, value in self.defaults.items()
            if value is False
        }
        for call in walk(self._module):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
                names = [
                    a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
                ]
                said = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
                long = [name for name in names if name.startswith("--")]
                spelled = [str(said.get("dest", "")), *(name[2:].replace("-", "_") for name in long)]
                field = next((name for name in spelled if name in self.defaults), None)
                if field is not None:
                    flag = _FLAGS.get(str(said.get("action")))
                    found |= {name: _Option(field, flag) for name in names}
        return found

    def launch(self, words: Sequence[str], settings: bytes = b"") -> Launch:
        """Return what a command line, as typed or split into words, and a ``ServerArgs`` JSON say.

        Words before the first option (``python -m sglang.launch_server``) are passed over, and ``NAME=value``
        there is the environment. UsageError for an option that the tree does not have.
        """
        if len(words) == 1:
            try:
                words = shlex.split(words[0])
            except ValueError as error:
                raise UsageError(
                    f"{words[0]}: {error}: give the command as it is typed in a shell."
                ) from None
        environment: dict[str, str] = {}
        given = dict(self._decoded(settings)) if settings else {}
        rest = list(words)
        while rest and not rest[0].startswith("--"):
            name, equals, value = rest.pop(0).partition("=")
            if equals and name.isidentifier():
                environment[name] = value
        given |= dict(self._given(rest))
        return Launch(given, self.defaults, environment)

    def _option(self, name: str) -> _Option | None:
        """Return an option by its name or, as argparse does, by the beginning of one setting's names."""
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
            raise UsageError(
                f"--server-args: not a JSON object ({error}): give ServerArgs as JSON."
            ) from None
        for name, value in found.items():
            if name in self.defaults and isinstance(value, (str, bool, int, float, type(None))):
                yield name, value

    def _given(self, words: list[str]) -> Iterator[tuple[str, Value]]:
        while words:
            name, equals, value = words.pop(0).partition("=")
            if not name.startswith("-"):
                continue  # A further value of an option that takes several.
            option = self._option(name)
            if option is None:
                close = difflib.get_close_matches(name, self._options, n=1)
                hint = f"did you mean {close[0]}?" if close else f"{ARGUMENTS} declares none such."
                raise UsageError(f"{name}: this tree's server has no such option; {hint}")
            if equals:
                yield option.field, _plain(value)
            elif option.flag is not None:
                yield option.field, option.flag
            elif words and not words[0].startswith("--"):
                yield option.field, _plain(words.pop(0))
            else:
                raise UsageError(f"{name}: a value is missing behind it.")


def _plain(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else text

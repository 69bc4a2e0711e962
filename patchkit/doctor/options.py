"""What a server is started with: its command line, ``--config`` or ``ServerArgs`` JSON, by what the tree declares."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from patchkit.doctor.declared import declared
from patchkit.errors import UsageError
from patchkit.tree.index import Class, Index, last_name
from patchkit.tree.limits import MAX_SETTINGS_BYTES, read_named
from patchkit.tree.nodes import walk
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.tree.tree import Tree

# What runs a container, and in which the server is started by words further on.
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})
_LAUNCHER = re.compile(r"launch_server|sglang serve ")
# Where a shell's own words begin: what they say is not the server's.
_SHELL = re.compile(r"[0-9]?>|[|&;]")
_FLAGS = {"store_true": True, "store_false": False, "BooleanOptionalAction": True}

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

    def with_settings(self, settings: Mapping[str, Value]) -> Launch:
        """Return the same start with other settings, those that the tree has."""
        known = {name: value for name, value in settings.items() if name in self.defaults}
        return Launch({**self.given, **known}, self.defaults, self.environment)

    def without(self, name: str) -> Launch:
        """Return the same start with one setting left to its default."""
        given = {each: value for each, value in self.given.items() if each != name}
        return Launch(given, self.defaults, self.environment)


@dataclass(frozen=True)
class _Option:
    field: str
    flag: Value


class Arguments:
    """The arguments that a tree's ``ServerArgs`` declares; nothing is imported."""

    def __init__(self, tree: Tree) -> None:
        """Read them; TreeError where the tree has no such class."""
        self._index = Index(tree.read, lambda _: [])
        self._declared = declared(self._index, lambda: _serving(tree), str(tree.package_label))

    @cached_property
    def defaults(self) -> dict[str, Value]:
        """The settings with the defaults that are plain values; the others count as None."""
        found: dict[str, Value] = {}
        for name, item in self._declared.fields.items():
            value = item.value.value if isinstance(item.value, ast.Constant) else None
            plain = isinstance(value, (str, bool, int, float))
            found[name] = value if plain else None  # type: ignore[assignment]
        return found

    def _apart(self) -> Iterator[tuple[list[str], ast.Call]]:
        """Yield the names and the declaration of each option that is declared apart from its setting's own name."""
        for call in walk(self._declared.cls.module.tree):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
                yield _texts(call.args), call
        for name, item in self._declared.fields.items():
            for call in walk(item.annotation):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Arg":
                    named = {word.arg: word.value for word in call.keywords}
                    aliases = named.get("aliases")
                    other = _texts(aliases.elts) if isinstance(aliases, (ast.List, ast.Tuple)) else []
                    chosen = _texts([named[word] for word in ("cli_name",) if word in named])
                    yield [_option(name), *chosen, *other], call

    @cached_property
    def _options(self) -> dict[str, _Option]:
        """Each ``--option`` of the command line: the setting that it sets, and what a bare flag sets it to."""
        found = {_option(name): _Option(name, None) for name in self.defaults}
        found |= {
            _option(name): _Option(name, True) for name, value in self.defaults.items() if value is False
        }
        for names, call in self._apart():
            said = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
            long = [name for name in names if name.startswith("--")]
            spelled = [str(said.get("dest", "")), *(name[2:].replace("-", "_") for name in long)]
            field = next((name for name in spelled if name in self.defaults), None)
            if field is not None:
                flag = self._flag(call, said, field)
                found |= {name: _Option(field, flag) for name in names}
                if _action(call) == "BooleanOptionalAction":
                    found |= {f"--no-{name[2:]}": _Option(field, False) for name in long}
        return found

    def _flag(self, call: ast.Call, said: Mapping[str | None, Any], field: str) -> Value:
        """Return what an option without a value sets its setting to, None for one that takes a value."""
        action = _action(call)
        if not action:
            return True if self.defaults[field] is False and isinstance(call.func, ast.Name) else None
        if action in _FLAGS:
            return _FLAGS[action]
        fixed: Value = said.get("const_value", said.get("const", True))
        takes_none = action == "store_const" or (self._takes_none(action) and "nargs" not in said)
        return fixed if takes_none else None

    def _takes_none(self, action: str) -> bool:
        """Say whether an action of the tree's own is of options that take no value."""
        found = self._index.resolve(self._declared.cls.module, action)
        init = self._index.method(found, "__init__") if isinstance(found, Class) else None
        said = init.node.args if init is not None else None
        given = zip(reversed(said.args), reversed(said.defaults), strict=False) if said is not None else ()
        return any(
            arg.arg == "nargs" and isinstance(value, ast.Constant) and value.value == 0
            for arg, value in given
        )

    def launch(self, words: Sequence[str], settings: bytes = b"") -> Launch:
        """Return what a command line, as typed or split into words, and a ``ServerArgs`` JSON say.

        What stands before the server's own options (``docker run …``, ``python -m sglang.launch_server``) is passed
        over, and ``NAME=value`` there is the environment. UsageError for an option that the tree does not have, and
        for a ``--config`` that cannot be read.
        """
        before, options = _split(words)
        environment = dict(_environment(before))
        given = dict(self._decoded(settings)) if settings else {}
        options, config = _without_config(options)
        if config is not None:
            given |= dict(self._given(_of_config(config), f"--config {config}: "))
        given |= dict(self._given(options))
        return Launch(given, self.defaults, environment)

    def _named_option(self, name: str) -> _Option | None:
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

    def _given(self, words: list[str], where: str = "") -> Iterator[tuple[str, Value]]:
        while words:
            name, equals, value = words.pop(0).partition("=")
            if not name.startswith("-"):
                continue  # A further value of an option that takes several.
            option = self._named_option(name)
            if option is None:
                close = difflib.get_close_matches(name, self._options, n=1)
                hint = f"did you mean {close[0]}?" if close else f"{self._declared.file} declares none such."
                raise UsageError(f"{where}{name}: this tree's server has no such option; {hint}")
            if equals:
                yield option.field, _plain(value)
            elif option.flag is not None:
                yield option.field, option.flag
            elif words and not words[0].startswith("--"):
                yield option.field, _plain(words.pop(0))
            else:
                raise UsageError(f"{where}{name}: a value is missing: type {name} VALUE.")


def _texts(nodes: Sequence[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _action(call: ast.Call) -> str:
    """Return the action of an option's declaration: a word, or the last name of a class."""
    said = [word.value for word in call.keywords if word.arg == "action"]
    return last_name(said[0]) if said else ""


def _serving(tree: Tree) -> Iterator[tuple[str, bytes]]:
    return ((file, text) for file in tree.files(SERVING, ".py") if (text := tree.read(file)) is not None)


def _plain(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{0,18}\.[0-9]{1,18}", text) else text


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before a server's own options, and the options."""
    split = _shell(words[0]) if len(words) == 1 else [word for word in words if word.strip()]
    inner = next((word for word in split if " " in word and _LAUNCHER.search(word)), None)
    if inner is not None:
        # What a shell is handed: bash -c "python -m sglang.launch_server …".
        before, options = _split([inner])
        return [*split[: split.index(inner)], *before], options
    split = list(itertools.takewhile(lambda word: _SHELL.match(word) is None, _after_chains(split)))
    for place, word in enumerate(split):
        if word.endswith(("sglang.launch_server", "launch_server.py")):
            return split[:place], split[place + 1 :]
        if word == "serve" and place and split[place - 1].rpartition("/")[2] == "sglang":
            return split[:place], split[place + 1 :]
    if any(word in _CONTAINERS for word in split):
        raise UsageError(
            f"{split[0]}: no server is started in this command: "
            "give it with its `python3 -m sglang.launch_server …` or `sglang serve …`."
        )
    first = next((place for place, word in enumerate(split) if word.startswith("--")), len(split))
    return split[:first], split[first:]


def _after_chains(words: Sequence[str]) -> list[str]:
    """Leave out the ``&&`` and ``;`` that stand before the server is started."""
    started = next((place for place, word in enumerate(words) if _LAUNCHER.search(f"{word} ")), 0)
    return [
        word.rstrip(";") if place < started else word
        for place, word in enumerate(words)
        if place >= started or word not in ("&&", ";")
    ]


def _shell(command: str) -> list[str]:
    try:
        return shlex.split(command.replace("\\\r\n", " ").replace("\\\n", " "))
    except ValueError as error:
        raise UsageError(f"{command}: {error}: give the command as it is typed in a shell.") from None


def _environment(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that a command sets: ``NAME=value``, and ``-e`` or ``--env`` of a container."""
    for word in words:
        name, equals, value = re.sub("^(?:--env=|-e=?)", "", word).partition("=")
        if equals and name.isidentifier():
            yield name, value


def _without_config(options: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the options without ``--config FILE``, and the file."""
    rest: list[str] = []
    found: list[str] = []
    words = iter(options)
    for word in words:
        if word == "--config":
            file = next(words, "")
            if not file or file.startswith("--"):
                raise UsageError("--config: a value is missing: type --config FILE.yaml.")
            found.append(file)
        elif word.startswith("--config="):
            found.append(word.removeprefix("--config="))
        else:
            rest.append(word)
    if len(found) > 1:
        raise UsageError(f"--config: given {len(found)} times, and a server takes one: leave one.")
    return rest, Path(found[0]) if found else None


def _of_config(path: Path) -> list[str]:
    """Return the options that a server's configuration file stands for; those with a list or a mapping left out."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise UsageError(f"--config {path}: sglang takes a file that ends in .yaml or .yml: rename it.")
    if not path.is_file():
        raise UsageError(
            f"--config {path}: there is no such file here: name a copy that this machine can read."
        )
    content = read_named(path)
    if len(content) > MAX_SETTINGS_BYTES:
        raise UsageError(
            f"--config {path}: more than {MAX_SETTINGS_BYTES // 2**10} KiB, and no server's options are that long: "
            "name its own file."
        )
    try:
        said = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else type(error).__name__
        raise UsageError(f"--config {path}: not valid YAML ({why}): fix it.") from None
    if not isinstance(said, (dict, type(None))) or not all(isinstance(name, str) for name in said or ()):
        raise UsageError(
            f"--config {path}: not a mapping of options: write `name: value`, one option a line."
        )
    return [word for name, value in (said or {}).items() for word in _as_typed(path, name, value)]


def _as_typed(path: Path, name: str, value: object) -> list[str]:
    """Return an option of a configuration file as sglang puts it on the command line."""
    if value is None:
        raise UsageError(f"--config {path}: {name} has no value: write `{name}: VALUE` or remove the line.")
    # What has parts of its own is no setting that is asked about, and its text may be without end.
    plain = [
        str(each).lower() if isinstance(each, bool) else str(each)
        for each in (value if isinstance(value, list) else [value])
        if not isinstance(each, (list, dict, set))
    ]
    return [f"--{name}={plain[0]}", *plain[1:]] if plain else []

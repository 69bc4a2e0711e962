"""The words of a launch command: those of the server's options, its environment, and its ``--config`` file."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from patchkit.errors import UsageError
from patchkit.tree.limits import MAX_SETTINGS_BYTES, read_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Commands that run a container; the server's own command follows in the same line.
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})
_LAUNCHER = re.compile(r"launch_server|sglang serve ")
# A shell's redirection, pipe or separator: the server's options end there.
_SHELL = re.compile(r"[0-9]?>|[|&;]")
_VARIABLE = re.compile(r"[$`]")
_ONE_A_LINE = "write `name: value`, one option per line"


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words in front of a server's options, and the options. Raise UsageError for a command of no server."""
    split = _shell(words[0]) if len(words) == 1 else [word for word in words if word.strip()]
    inner = next((word for word in split if " " in word and _LAUNCHER.search(word)), None)
    if inner is not None:
        # An argument of a shell: bash -c "python -m sglang.launch_server …".
        before, options = split_command([inner])
        return [*split[: split.index(inner)], *before], options
    split = list(itertools.takewhile(lambda word: _SHELL.match(word) is None, _after_chains(split)))
    for place, word in enumerate(split):
        if word.endswith(("sglang.launch_server", "launch_server.py")):
            return split[:place], split[place + 1 :]
        if word == "serve" and place and split[place - 1].rpartition("/")[2] == "sglang":
            is_model = split[place + 1 : place + 2] and not split[place + 1].startswith("-")
            return split[:place], split[place + 2 if is_model else place + 1 :]
    if any(word in _CONTAINERS for word in split):
        raise UsageError(
            f"{split[0]}: this command does not start an sglang server",
            advice="include its `python3 -m sglang.launch_server …` or `sglang serve …`",
        )
    first = next((place for place, word in enumerate(split) if word.startswith("-")), len(split))
    for word in split[:first]:
        if word != "env" and not any(environment([word])):
            raise UsageError(
                f"{word}: neither a folder, a server option nor a launch command",
                advice="name a TREE that exists, or type `python -m sglang.launch_server …` or `sglang serve …`",
            )
    return split[:first], split[first:]


def _after_chains(words: Sequence[str]) -> list[str]:
    """Return the words without each ``&&`` and ``;`` in front of the server's command."""
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
        raise UsageError(f"{command}: {error}", advice="give the command as it is typed in a shell") from None


def known_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options without what a shell fills in, and a note that names it if there is any."""
    known: list[str] = []
    unknown: list[str] = []
    for word in words:
        if _VARIABLE.search(word) is None:
            known.append(word)
            continue
        is_value = not word.startswith("-") and known and known[-1].startswith("--") and "=" not in known[-1]
        unknown.append(f"{known.pop()} {word}" if is_value else word)
    return known, [f"Not known before the shell fills them in: {', '.join(unknown)}."] if unknown else []


def environment(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that a command sets, as ``NAME=value`` or with a container's ``-e`` or ``--env``."""
    for word in words:
        name, equals, value = re.sub("^(?:--env=|-e=?)", "", word).partition("=")
        if equals and name.isidentifier():
            yield name, value


def without_config(options: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the options without ``--config FILE``, and the file."""
    rest: list[str] = []
    found: list[str] = []
    words = iter(options)
    for word in words:
        name, equals, file = word.partition("=")
        if name != "--config":
            rest.append(word)
            continue
        file = file if equals else next(words, "")
        if not file or file.startswith("--"):
            raise UsageError("--config: a value is missing", advice="type --config FILE.yaml")
        found.append(file)
    if len(found) > 1:
        raise UsageError(
            f"--config: given {len(found)} times", advice="a server takes one: leave out the others"
        )
    return rest, Path(found[0]) if found else None


def config_options(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each option in a server's configuration file, and its values.

    Raise UsageError for a file that cannot be read, or that is not a mapping of options to values.
    """
    where = f"--config {path}"
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise UsageError(f"{where}: sglang takes a file that ends in .yaml or .yml", advice="rename it")
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(f"{where}: {what}", advice="name a copy that this machine can read")
    content = read_named(path)
    if len(content) > MAX_SETTINGS_BYTES:
        raise UsageError(
            f"{where}: more than {MAX_SETTINGS_BYTES // 2**10} KiB, too long for a server's options",
            advice="name the server's own file",
        )
    try:
        named = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        why = ", ".join(filter(None, (error.context, error.problem)))
        raise UsageError(f"{where}{line}: not valid YAML ({why})", advice=_ONE_A_LINE) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else type(error).__name__
        raise UsageError(f"{where}: not valid YAML ({why})", advice=_ONE_A_LINE) from None
    if named is None:
        raise UsageError(f"{where}: contains no option", advice=f"{_ONE_A_LINE}, or leave out --config")
    if not isinstance(named, dict):
        kind = "a list" if isinstance(named, list) else "one value"
        raise UsageError(f"{where}: {kind}, not a mapping of options", advice=_ONE_A_LINE)
    for name, value in named.items():
        if not isinstance(name, str):
            raise UsageError(f"{where}: {name}: not the name of an option", advice=_ONE_A_LINE)
        if value is None:
            raise UsageError(
                f"{where}: {name} has no value", advice=f"write `{name}: VALUE` or remove the line"
            )
        values = value if isinstance(value, list) else [value]
        # Aliases can make nested values very large.
        if any(isinstance(each, (list, dict, set)) for each in values):
            raise UsageError(f"{where}: {name} has nested values", advice=_ONE_A_LINE)
        yield name, [_as_typed(each) for each in values]


def _as_typed(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

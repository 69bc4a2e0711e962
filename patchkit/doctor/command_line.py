"""The servers of a command: the options and the environment of each, and its ``--config`` file."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from patchkit.doctor.shell import Command, Word, as_word, commands, first_command
from patchkit.errors import UsageError
from patchkit.tree.limits import MAX_SETTINGS_BYTES, read_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Commands that run a container; the server's own command follows in the same line.
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})
_SERVER = re.compile(r"sglang\.launch_server|(\S*/)?launch_server\.py")
# They take a server's options beside their own.
_TAKING = re.compile(
    r"sglang_router\.launch_server|dynamo\.sglang(\.\w+)*"
    r"|sglang\.(bench_(latency|offline_throughput|one_batch(_server)?)|compile_deep_gemm)"
    r"|(\S*/)?bench_(offline_throughput|one_batch(_server)?)\.py"
)
LAUNCHER = re.compile(rf"{_SERVER.pattern}|{_TAKING.pattern}|\bsglang serve\b|--sglang-\w")
_PYTHON = re.compile(r"(\S*/)?(python|torchrun|accelerate|nsys)[\w.]*")
_PRINTED = frozenset({"echo", "printf"})
# How trainers that take a server's options as --sglang-… call two of them.
_OF_TRAINERS = {"--hf-checkpoint": "--model-path", "--rollout-num-gpus-per-engine": "--tp-size"}
_OPTION = re.compile(r"--?[A-Za-z]")
_ONE_A_LINE = "write `name: value`, one option per line"


class ServerCommand(NamedTuple):
    """A server's options and environment, and the line of its command.

    ``is_alone`` is False if its program takes further options than a server's.
    """

    options: tuple[Word, ...]
    environment: Mapping[str, str]
    line: int = 1
    is_alone: bool = True


def command_of(words: Sequence[str]) -> ServerCommand:
    """Return the first server that words of a command line start, or a server with these words as its options.

    One word is a text as one types it in a shell. Raise UsageError for a command of no server.
    """
    if len(words) == 1:
        server = next(iter(servers(words[0])), None)
        split = first_command(words[0], {})
    else:
        split = Command(tuple(as_word(word) for word in words if word.strip()), {}, 1)
        server = next(started(split), None)
    return server if server is not None else _of_options(split)


def _of_options(command: Command) -> ServerCommand:
    """Return the server of a command that is a server's options alone."""
    texts = [word.text for word in command.words]
    if any(text in _CONTAINERS for text in texts):
        raise UsageError(
            f"{texts[0]}: this command does not start an sglang server",
            advice="include its `python3 -m sglang.launch_server …` or `sglang serve …`",
        )
    first = next((place for place, text in enumerate(texts) if text.startswith("-")), len(texts))
    for text in texts[:first]:
        if text != "env" and not any(_environment([text])):
            raise UsageError(
                f"{text}: neither a folder, a server option nor a launch command",
                advice="name a TREE that exists, or type `python -m sglang.launch_server …` or `sglang serve …`",
            )
    variables = {**command.environment, **dict(_environment(texts[:first]))}
    return ServerCommand(command.words[first:], variables)


def servers(
    text: str, environment: Mapping[str, str] | None = None, line: int = 1
) -> Iterator[ServerCommand]:
    """Yield each server that a shell text starts; ``environment`` are its variables, ``line`` the number of its first.

    A line that begins with an option belongs to the server before it, as where a comment interrupts its command.
    """
    servers_found: list[ServerCommand] = []
    is_last = False
    for command in commands(text, environment or {}):
        if is_last and command.words and _OPTION.match(command.words[0].text):
            servers_found[-1] = servers_found[-1]._replace(
                options=(*servers_found[-1].options, *command.words)
            )
            continue
        # A word that is as long as the text is not one that the text passes to another shell.
        own = list(started(command, len(text)))
        is_last = bool(own)
        servers_found += (server._replace(line=server.line + line - 1) for server in own)
    yield from servers_found


def started(command: Command, shorter: int = sys.maxsize) -> Iterator[ServerCommand]:
    """Yield the servers that a command starts, also those that a ``shorter`` word of it does that is a text itself."""
    words = command.words
    texts = [word.text for word in words]
    if not texts or texts[0].rpartition("/")[2] in _PRINTED:
        return
    for place, text in enumerate(texts):
        if len(text) < shorter and any(character.isspace() for character in text) and LAUNCHER.search(text):
            # An argument of a shell: bash -c "python -m sglang.launch_server …", or a here-document.
            variables = {**command.environment, **dict(_environment(texts[:place]))}
            yield from servers(text, variables, command.line)
            return
    before, options, is_alone = _split(words)
    if options is not None and not any(word.text in ("-h", "--help", "--base-url") for word in options):
        variables = {**command.environment, **dict(_environment(word.text for word in before if word.known))}
        yield ServerCommand(options, variables, command.line, is_alone)


def _split(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[Word, ...] | None, bool]:
    """Return the words in front of a server's options and the options, None if there is no server."""
    runs_python = False
    for place, (text, _) in enumerate(words):
        before = words[place - 1].text if place else ""
        runs_python = runs_python or _PYTHON.fullmatch(text) is not None
        if before == "-m" or (text.endswith(".py") and (runs_python or not place)):
            for pattern in (_SERVER, _TAKING):
                if pattern.fullmatch(text):
                    return words[:place], words[place + 1 :], pattern is _SERVER
        if text == "serve" and before.rpartition("/")[2] == "sglang":
            is_model = words[place + 1 : place + 2] and not words[place + 1].text.startswith("-")
            named = (Word("--model-path"),) if is_model else ()
            return words[:place], (*named, *words[place + 1 :]), True
    options = tuple(_of_trainer(words))
    return words, options if any(word.text.startswith("--sglang-") for word in words) else None, False


def _of_trainer(words: Sequence[Word]) -> Iterator[Word]:
    takes = False
    for text, is_known in words:
        name, equals, value = text.partition("=")
        if name.startswith("--"):
            takes = name.startswith("--sglang-") or name in _OF_TRAINERS
            name = _OF_TRAINERS.get(name, f"--{name.removeprefix('--sglang-')}")
        if takes:
            yield Word(f"{name}{equals}{value}", is_known)


def _environment(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that a command sets, as ``NAME=value`` or with a container's ``-e`` or ``--env``."""
    for word in words:
        name, equals, value = re.sub("^(?:--env=|-e=?)", "", word).partition("=")
        if equals and name.isidentifier():
            yield name, value


def without_config(options: Sequence[Word]) -> tuple[list[Word], Path | None]:
    """Return the options without ``--config FILE``, and the file; one whose name is not known is left in."""
    rest: list[Word] = []
    kept_words: list[str] = []
    words = iter(options)
    for word in words:
        name, equals, file = word.text.partition("=")
        if name != "--config":
            rest.append(word)
            continue
        value = Word(file, word.known) if equals else next(words, Word(""))
        if not value.text or value.text.startswith("--"):
            raise UsageError("--config: a value is missing", advice="type --config FILE.yaml")
        if value.known:
            kept_words.append(value.text)
        else:
            rest.append(value)
    if len(kept_words) > 1:
        raise UsageError(
            f"--config: given {len(kept_words)} times", advice="a server takes one: leave out the others"
        )
    return rest, Path(kept_words[0]) if kept_words else None


def in_a_file(command: ServerCommand) -> ServerCommand:
    """Return a server that a file starts: a ``--config`` of its machine that this one does not have is not known."""
    options = [
        word._replace(known=word.known and os.path.exists(word.text.removeprefix("--config=")))
        if before == "--config" or word.text.startswith("--config=")
        else word
        for before, word in zip(("", *(word.text for word in command.options)), command.options, strict=False)
    ]
    return command._replace(options=tuple(options))


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
        if any(isinstance(value, (list, dict, set)) for value in values):
            raise UsageError(f"{where}: {name} has nested values", advice=_ONE_A_LINE)
        yield name, [str(value).lower() if isinstance(value, bool) else str(value) for value in values]

"""The servers that files start: shell scripts, documents, Dockerfiles, manifests, and files of sglang's own options."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from patchkit.doctor.command_line import LAUNCHER, ServerCommand, in_a_file, servers, started
from patchkit.doctor.shell import Command, Word, as_word, first_command
from patchkit.errors import UsageError
from patchkit.tree.limits import read_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# From a block's fence to one as long, which documents indent as they like.
_BLOCK = re.compile(r"^[ \t>]*(```+|~~~+)[ \t]*(\w*)[^\n]*\n(.*?)^[ \t>]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_OTHER_LANGUAGE = frozenset({"javascript", "js", "json", "jsx", "toml", "ts", "tsx", "typescript"})
_SUFFIXES = frozenset({"dockerfile", "yaml", "yml"})
_INSTRUCTION = re.compile(
    r"^\s*(CMD|ENTRYPOINT|ENV|RUN)\s+((?:[^\n]*\\\s*\n)*[^\n]*)", re.MULTILINE | re.IGNORECASE
)
_USUAL = re.compile(r"\.(bash|md|mdx|sbatch|sh|slurm|ya?ml)$|dockerfile|containerfile")
_COMMAND = ("entrypoint", "command", "args")
_MODEL = frozenset({"model", "model-path", "model_path"})
_RECIPE = "sglang_config"


class FoundServer(NamedTuple):
    """A server's command, and the file that it is in."""

    file: str
    command: ServerCommand


def found_in(paths: Sequence[Path]) -> list[FoundServer]:
    """Return the servers that files start, and those in a folder that usually contain one.

    Raise UsageError for a file that cannot be read, and if there is no server.
    """
    files = [file for path in paths for file in (sorted(_listed(path)) if path.is_dir() else [path])]
    servers_found = [
        FoundServer(str(file), in_a_file(command))
        for file in files
        for command in servers_of_file(str(file), read_named(file).decode(errors="replace"))
    ]
    if not servers_found:
        named = ", ".join(map(str, paths))
        raise UsageError(f"{named}: no command in it starts an sglang server", advice="name other files")
    return servers_found


def _listed(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if _USUAL.search(path.name.lower()) and path.is_file())


def servers_of_file(name: str, text: str) -> Iterator[ServerCommand]:
    """Yield each server that a file of a name starts, in the order of the lines."""
    low = name.rpartition("/")[2].lower()
    text = text.replace("\r\n", "\n")
    if low.endswith((".md", ".mdx")):
        for block in _BLOCK.finditer(text):
            language, content = block[2].lower(), block[3]
            if LAUNCHER.search(content) and language not in _OTHER_LANGUAGE:
                start = text.count("\n", 0, block.start(3))
                named = f"{name}.{language}" if language in _SUFFIXES else ""
                for server in servers_of_file(named, content):
                    yield server._replace(line=server.line + start)
    elif low.endswith((".yaml", ".yml")):
        yield from _of_manifest(name, text)
    elif "dockerfile" in low or "containerfile" in low:
        yield from _of_dockerfile(text)
    else:
        yield from servers(text)


def _of_dockerfile(text: str) -> Iterator[ServerCommand]:
    environment: dict[str, str] = {}
    parts: dict[str, tuple[Word, ...]] = {}
    line = 1
    for instruction in _INSTRUCTION.finditer(text):
        kind, value = instruction[1].upper(), instruction[2]
        start = text.count("\n", 0, instruction.start(1)) + 1
        if kind == "ENV":
            pairs = value if "=" in value else value.replace(" ", "=", 1)
            environment |= first_command(f"export {pairs}\n:", {}).environment
        elif kind == "RUN":
            yield from servers(value, environment, start)
        else:
            parts[kind], line = _words(value), start
    words = (*parts.get("ENTRYPOINT", ()), *parts.get("CMD", ()))
    yield from started(Command(words, environment, line))


def _words(value: str) -> tuple[Word, ...]:
    try:
        return tuple(as_word(str(word)) for word in json.loads(value))
    except (ValueError, TypeError):
        return (Word(value),) if LAUNCHER.search(value) else first_command(value, {}).words


def _of_manifest(name: str, text: str) -> Iterator[ServerCommand]:
    """Yield the servers of a YAML file; one that is none, such as a template, is taken as a shell's text."""
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        yield from servers(text)
        return
    for document in documents:
        if isinstance(document, yaml.MappingNode):
            keys = {key.value for key, _ in document.value if isinstance(key, yaml.ScalarNode)}
            if keys & _MODEL and all(
                isinstance(value, (yaml.ScalarNode, yaml.SequenceNode)) for _, value in document.value
            ):
                yield ServerCommand((Word("--config"), Word(name)), {}, document.start_mark.line + 1)
                continue
        yield from _of_node(document, set())


def _of_node(node: Any, seen: set[int]) -> Iterator[ServerCommand]:
    # An alias is the node itself, and may contain it.
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if LAUNCHER.search(node.value) and any(character.isspace() for character in node.value):
            yield from servers(node.value, line=_line(node))
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _of_node(item, seen)
    else:
        members = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
        given = [members[name] for name in _COMMAND if name in members]
        container_commands = list(_of_container(given, dict(_variables(members))))
        yield from container_commands
        yield from _of_recipe(members)
        for name, value in members.items():
            if not (container_commands and name in _COMMAND):
                yield from _of_node(value, seen)


def _of_recipe(members: Mapping[str, Any]) -> Iterator[ServerCommand]:
    """Yield the servers of a recipe, which has each one's options as a mapping under its role."""
    recipe = members.get(_RECIPE)
    for role, options in recipe.value if isinstance(recipe, yaml.MappingNode) else ():
        if isinstance(options, yaml.MappingNode):
            environment = dict(_variables({"env": members.get(f"{role.value}_environment")}))
            words = tuple(word for name, value in options.value for word in _of_option(name.value, value))
            yield ServerCommand(words, environment, _line(role), is_alone=False)


def _of_option(name: str, value: Any) -> Iterator[Word]:
    option = Word(f"--{name.replace('_', '-')}")
    if isinstance(value, yaml.MappingNode):
        yield from (option, Word(f"${name}", known=False))
    elif isinstance(value, yaml.SequenceNode):
        yield from (option, *(as_word(str(scalar.value)) for scalar in value.value))
    elif value.tag.endswith((":bool", ":null")):
        yield from (option,) if value.value.lower() == "true" else ()
    else:
        yield from (option, as_word(value.value))


def _of_container(given: Sequence[Any], environment: Mapping[str, str]) -> Iterator[ServerCommand]:
    words: list[Word] = []
    line = 0
    for node in given:
        for child in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(child, yaml.ScalarNode):
                return
            if LAUNCHER.search(child.value) or not line:
                line = _line(child)
            is_text = child is node and not (LAUNCHER.search(child.value) and "\n" in child.value.strip())
            words += first_command(child.value, environment).words if is_text else [as_word(child.value)]
    yield from started(Command(tuple(words), environment, line))


def _variables(members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the environment of a container: a mapping, a list of `NAME=value`, or one of names and values."""
    for node in (members.get("env"), members.get("environment")):
        for child in node.value if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) else ():
            if isinstance(child, tuple):
                pair = {"name": child[0], "value": child[1]}
            elif isinstance(child, yaml.MappingNode):
                pair = {key.value: value for key, value in child.value if isinstance(key, yaml.ScalarNode)}
            else:
                left, equals, right = str(child.value).partition("=")
                if equals:
                    yield left, right
                continue
            name, value = (pair.get(part) for part in ("name", "value"))
            if (
                isinstance(name, yaml.ScalarNode)
                and isinstance(value, yaml.ScalarNode)
                and "$" not in value.value
            ):
                yield name.value, value.value


def _line(node: Any) -> int:
    """Return the line at which a scalar's text begins: behind its mark in a block."""
    return int(node.start_mark.line) + 1 + (node.style in ("|", ">"))

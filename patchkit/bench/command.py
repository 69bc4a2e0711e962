"""A server's launch command as a program of this machine, and the prompts that it is to answer."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.errors import UsageError
from patchkit.tree.limits import read_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Prompts = list[str | list[int]]

_SHELL = re.compile(r"[0-9]?[<>]|[|&;]|.*[$`]")
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity", "kubectl", "srun"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PROMPT_TOKENS = 128
# Ids that every vocabulary has, without the special tokens at its start.
_IDS = range(16, 1000)
_TOPICS = (
    "how a hash table grows, and what that costs",
    "the water cycle, from a lake to the sea and back",
    "a chess opening for a beginner, move by move",
    "why bridges have expansion joints",
    "how a bakery plans a night's work",
    "the differences between TCP and UDP",
    "how to sort a large file with little memory",
    "what happened in a city when its tram lines were extended",
)


class LaunchCommand(NamedTuple):
    """The words of a command that starts a server on this machine, and the environment that it sets."""

    words: tuple[str, ...]
    environment: Mapping[str, str]

    def value(self, *names: str) -> str | None:
        """Return the last value of an option that has these names, None if it is not given."""
        found = None
        for place, word in enumerate(self.words):
            name, equals, value = word.partition("=")
            if name in names:
                found = value if equals else next(iter(self.words[place + 1 : place + 2]), None)
        return found

    def number(self, default: int, *names: str) -> int:
        """Return the value of an option that is a number. Raise UsageError if it is not one."""
        value = self.value(*names)
        if value is not None and not value.isdecimal():
            raise UsageError(f"{names[0]} {value}: not a number", advice="correct it in the launch command")
        return default if value is None else int(value)

    @property
    def gpus(self) -> tuple[int, int]:
        """The first GPU that the server takes, among the visible ones, and the number of them."""
        replicas = (
            1
            if "--enable-dp-attention" in self.words
            else self.number(1, "--dp-size", "--dp", "--data-parallel-size")
        )
        ranks = self.number(1, "--tp-size", "--tp", "--tensor-parallel-size") * self.number(
            1, "--pp-size", "--pp", "--pipeline-parallel-size"
        )
        return self.number(0, "--base-gpu-id"), ranks * replicas


def server_command(command: str) -> LaunchCommand:
    """Read a launch command. Raise UsageError for one that starts no server here, or whose model is missing."""
    try:
        words = [os.path.expandvars(word) for word in shlex.split(command.replace("\\\n", " "))]
    except ValueError as error:
        raise UsageError(f"{command}: {error}", advice="give the command as it is typed in a shell") from None
    shell = next((word for word in words if _SHELL.match(word)), None)
    if shell is not None:
        raise UsageError(
            f"{shell}: bench starts the server itself, without a shell",
            advice="leave out pipes, redirections and other commands, and set variables before",
        )
    if words and words[0] == "env":
        del words[0]
    environment = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, environment[name] = words.pop(0).partition("=")
    if any(Path(word).name in _CONTAINERS for word in words[:1]):
        raise UsageError(
            f"{words[0]}: bench starts the server on this machine",
            advice="run patchkit bench inside, with the server's own command",
        )
    found = LaunchCommand(tuple(words), environment)
    if not any(word.endswith(("launch_server", "launch_server.py")) or word == "serve" for word in words):
        raise UsageError(
            f"{command or 'the launch command'}: starts no sglang server",
            advice="type `python -m sglang.launch_server …` or `sglang serve …`",
        )
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"{words[0]}: no such program", advice="run patchkit bench in the serving environment"
        )
    if found.number(1, "--nnodes") > 1:
        raise UsageError("--nnodes: bench measures servers on one machine", advice="leave it out")
    for option in ("--model-path", "--model", "--speculative-draft-model-path", "--config"):
        place = found.value(option)
        if place and place.startswith(("/", ".", "~")) and not Path(place).expanduser().exists():
            raise UsageError(f"{option} {place}: no such file or folder", advice="name one of this machine")
    return found


def read_prompts(file: Path) -> Prompts:
    """Return the prompts in a file: a JSON list of texts or of lists of token ids, or one text in each line.

    Raise UsageError for a file without any.
    """
    content = read_named(file)
    if content.lstrip().startswith(b"["):
        try:
            prompts: Prompts = msgspec.json.decode(content, type=Prompts)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {error}", advice='write ["a text", …] or [[1, 2, 3], …]') from None
    else:
        prompts = [line for line in content.decode(errors="replace").splitlines() if line.strip()]
    if not all(prompts) or len({type(prompt) for prompt in prompts}) != 1:
        raise UsageError(
            f"{file} has no prompts, an empty one, or both texts and token ids",
            advice="write one in each line",
        )
    return prompts


def usual_prompts(batch: int, *, of_text: bool) -> Prompts:
    """Return as many different prompts, of texts or of token ids; the same ones each time."""
    if of_text:
        return [
            f"{number + 1}. Explain in detail {_TOPICS[number % len(_TOPICS)]}.\n" for number in range(batch)
        ]
    drawn = random.Random(batch)
    return [drawn.choices(_IDS, k=_PROMPT_TOKENS) for _ in range(batch)]


def batch_of(prompts: Prompts, batch: int) -> Prompts:
    """Return as many prompts, which repeat if there are fewer."""
    return [prompts[number % len(prompts)] for number in range(batch)]


def most_tokens(batches: Sequence[Prompts], new_tokens: int) -> int:
    """Return a number of tokens that no batch exceeds, prompts and answers together."""
    texts = (
        sum(len(prompt.encode()) if isinstance(prompt, str) else len(prompt) for prompt in batch)
        for batch in batches
    )
    return max(texts) + max(map(len, batches)) * new_tokens

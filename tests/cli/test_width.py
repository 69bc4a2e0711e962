"""What a command prints on a terminal is no wider than that, and breaks no word."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.toys import MIRROR, add_patch, attribute

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

WIDTH = 80
WORDS = " ".join((":bug:", *(f"word{number}" for number in range(40))))


def on_a_terminal(*command: object) -> list[str]:
    """Return the lines that patchkit prints on a terminal, without the colours and what a progress bar overwrote."""
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
        environment = {**os.environ, "TERM": "xterm"}
        environment.pop("COLUMNS", None)
        os.execve(sys.executable, [sys.executable, "-m", "patchkit", *map(str, command)], environment)
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(terminal)
    os.waitpid(child, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode().replace("\r\n", "\n"))
    return [line.rpartition("\r")[2] for line in text.splitlines()]


@pytest.fixture
def wordy(patch_folder: Path) -> Path:
    written = add_patch(patch_folder, "t-wordy", attribute(MIRROR, "Mirror", "wordy = 1"))
    written.write_text(written.read_text().replace("Toy t-wordy", WORDS))
    return patch_folder


@pytest.mark.parametrize("command", [("status", "-v"), ("show",), ("show", "t-wordy")], ids=" ".join)
def test_long_lines_go_on_below_their_last_column(
    command: tuple[str, ...], tree: CheckoutTree, wordy: Path
) -> None:
    where = () if command[0] == "show" else (tree.root,)
    lines = [
        line
        for line in on_a_terminal(*command, *where, "--patches", wordy)
        if not line.startswith(os.sep) and str(wordy) not in line
    ]
    assert max(map(len, lines)) <= WIDTH
    assert [word for word in " ".join(lines).split() if word in WORDS.split()] == WORDS.split()


@pytest.mark.usefixtures("wordy")
def test_a_word_between_colons_is_no_emoji_where_there_is_no_terminal() -> None:
    assert ":bug: word0" in CliRunner().invoke(main, ["show", "t-wordy"]).output


def test_an_error_is_as_wide_as_the_terminal(patch_folder: Path) -> None:
    lines = on_a_terminal("show", *(f"unknown-{number}" for number in range(20)))
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("       unknown-")


@pytest.mark.parametrize("name", ["--help", *main.commands])
def test_help_is_as_wide_as_the_terminal(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"][: 1 + (name in main.commands)], terminal_width=WIDTH)
    assert max(map(len, shown.output.splitlines())) <= WIDTH

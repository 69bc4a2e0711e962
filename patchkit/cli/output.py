"""Write a result to stdout, or to the file of ``-o FILE``, which keeps its content if the new one cannot be written."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from patchkit.errors import UsageError
from patchkit.transaction.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Stdout(Console):
    """Stdout, as wide as its terminal. What is between two colons is no name of an emoji.

    If nobody reads it, BrokenPipeError is raised, not rich's SystemExit(1), as if a check failed.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; on a terminal a line of markup that is too wide goes on below its last column."""
        if not (self.is_terminal and len(objects) == 1 and isinstance(objects[0], str)):
            super().print(*objects, **options)
            return
        for line in objects[0].split("\n"):
            for part in _fitted(self, line):
                super().print(part, **{**options, "soft_wrap": True})

    def on_broken_pipe(self) -> None:
        """Raise the error of the write again."""
        raise BrokenPipeError


_COLUMN = re.compile(r"\S {2,}(?=\S)")
"""The gap before a column of a line."""
_WORD = re.compile(r"\S+")
_FAR = 32
"""How far from its start a line's last column may begin."""


def _fitted(console: Console, line: str) -> Iterator[Text]:
    """Yield the lines that a line of markup takes on a console; no word is broken."""
    text = Text.from_markup(line, emoji=False)
    if len(text.plain) <= console.width:
        yield text
        return
    indent = len(text.plain) - len(text.plain.lstrip())
    columns = [gap.end() for gap in _COLUMN.finditer(text.plain) if gap.end() <= _FAR]
    start = max(columns, default=indent)
    hang = start if columns or not indent else indent + 2
    breaks = [start]
    for word in _WORD.finditer(text.plain, start):
        if word.end() - breaks[-1] > console.width - hang and word.start() > breaks[-1]:
            breaks.append(word.start())
    # rich itself breaks a word that is too long, such as a path.
    for number, part in enumerate(text.divide(breaks)[1:] if start else text.divide(breaks[1:])):
        part.rstrip()
        yield Text.assemble(" " * hang if number else text[:start], part)


@contextmanager
def writing(output: Path | None) -> Iterator[Console]:
    """Yield a console for ``output``, by default stdout. Raise UsageError if the file cannot be written."""
    if output is None:
        yield Stdout(highlight=False, soft_wrap=True)
        return
    text = StringIO()
    yield Console(file=text, emoji=False, highlight=False, soft_wrap=True)
    try:
        _write(output, text.getvalue().encode())
    except OSError as error:
        raise UsageError(
            f"cannot write the result: {error.strerror}", where=output, advice="name another file with -o"
        ) from error


def put(document: str, out: Console | None = None) -> None:
    """Write a document that programs read: on stdout as UTF-8, whatever its encoding."""
    if out is not None and isinstance(out.file, StringIO):
        out.file.write(f"{document}\n")
    else:
        click.echo(document.encode(errors="backslashreplace"))


def _write(output: Path, content: bytes) -> None:
    with Folder.open(output.parent.resolve()) as folder:
        stamp = folder.stat(output.name)
        is_writable = all(os.access(path, os.W_OK) for path in (folder.path, output))
        if stamp is None or (stat.S_ISREG(stamp.st_mode) and is_writable):
            begun = f".patchkit.{os.getpid()}.tmp"
            try:
                folder.create(begun, content, stamp)
                folder.rename(begun, output.name)
            finally:
                folder.remove(begun)
            return
    # A pipe or a device cannot be replaced, nor can a link such as /dev/stdout, or a file in a read-only folder.
    output.write_bytes(content)

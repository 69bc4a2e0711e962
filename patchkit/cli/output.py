"""Write a result to stdout or to the file of ``-o FILE``, which keeps its content if the new one cannot be written."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING

import click
from rich.console import Console

from patchkit.cli.console import Stdout
from patchkit.errors import UsageError
from patchkit.transaction.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def writing(output: Path | None) -> Iterator[Console]:
    """Yield a console for ``output``, by default stdout. Raise UsageError if the file cannot be written."""
    if output is None:
        yield Stdout(highlight=False, soft_wrap=True)
        return
    text = StringIO()
    yield Console(file=text, highlight=False, soft_wrap=True)
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
        if stamp is None or (stat.S_ISREG(stamp.st_mode) and _is_writable(folder.path, output)):
            begun = f".patchkit.{os.getpid()}.tmp"
            try:
                folder.create(begun, content, stamp)
                folder.rename(begun, output.name)
            finally:
                folder.remove(begun)
            return
    # A pipe or a device cannot be replaced, nor can a link such as /dev/stdout, or a file in a read-only folder.
    output.write_bytes(content)


def _is_writable(*paths: Path) -> bool:
    return all(os.access(path, os.W_OK) for path in paths)

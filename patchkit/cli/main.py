"""The ``patchkit`` command group, its error messages (error, location, help) and exit codes.

141 is the code that shells report for SIGPIPE; ``EXIT_CODES`` explains the others.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from patchkit import __version__
from patchkit.cli.options import runnable
from patchkit.cli.topics import SUMMARIES, TOPICS
from patchkit.errors import PatchkitError, UsageError, spelling_hint
from patchkit.findings.printable import excerpt, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

# A last garbage collection over all syntax trees at exit would take seconds.
atexit.register(gc.freeze)

_UNREAD = 141
EXIT_CODES = {
    0: "done",
    1: "a check failed, or the result needs a person",
    2: "usage",
    3: "conflict, and nothing was written",
    4: "the tree cannot be used, and nothing was written",
    5: "a write is unfinished (apply --continue or --abort)",
    _UNREAD: "the output was closed early",
}


class _Commands(Mapping[str, click.Command]):
    """The commands by name, each imported when it is first asked for."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in SUMMARIES:
            raise KeyError(name)
        command: click.Command = import_module(f"patchkit.cli.{name.replace('-', '_')}").command
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


class _Group(click.Group):
    """A group that lists its commands by topic and prints errors in one format."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, SUMMARIES))
        for topic, summaries in TOPICS.items():
            with formatter.section(topic):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in summaries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            # Not every encoding has all characters of a file's name.
            sys.stdout.reconfigure(errors="backslashreplace")
        with _refusing(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _refusing(ctx):
            return super().invoke(ctx)


# click names one option in a sentence of its own, and several in parentheses, in words that differ by version.
_NEAR = re.compile(r" \(?(?:Did you mean|Possible options:) ?(?:one of: )?(?P<names>[^?)]+)\??\)?$")

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


@contextmanager
def _refusing(ctx: click.Context) -> Iterator[None]:
    """Print errors, including click's own, on stderr in one format, and exit with their exit codes."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        message = error.format_message()
        near = _NEAR.search(message)
        what = message[: near.start()] if near else message
        # Errors of click's parser have no context of their own.
        words = (error.ctx.command_path,) if error.ctx else (ctx.command_path, ctx.invoked_subcommand)
        advice = f"did you mean {near['names']}? " if near else _choice_hint(error)
        advice += f"{' '.join(filter(None, words))} --help"
        _print(UsageError(what[:1].lower() + what[1:], advice=advice))
        ctx.exit(error.exit_code)
    except PatchkitError as error:
        _print(error)
        ctx.exit(error.exit_code)
    except BrokenPipeError:
        # Python flushes stdout once more as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ctx.exit(_UNREAD)
    except OSError as error:
        # Only that of a stream has no file's name.
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        # At exit Python writes what is left, and would fail again.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        with suppress(OSError):
            what = f"cannot write to stdout: {error.strerror}"
            _print(UsageError(what, advice="fix the cause; patchkit status shows what was done"))
        ctx.exit(UsageError.exit_code)


def _choice_hint(error: click.UsageError) -> str:
    """Return a hint for a misspelt value of an option with choices, as click gives for names of options."""
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param is not None else None
    if not isinstance(kind, click.Choice):
        return ""
    _, value, *_ = [*error.message.split("'"), ""]
    return spelling_hint(value, map(str, kind.choices))


def _print(error: PatchkitError) -> None:
    lines = [("error: ", runnable(error.what.removesuffix("."))), ("  --> ", error.where)]
    lines += [("", line) for line in excerpt(error.difference)]
    reasons = (
        error.reasons if error.is_quoting else (runnable(why.removesuffix(".")) for why in error.reasons)
    )
    lines += [("  ", reason) for reason in reasons]
    for head, text in (*lines, ("help: ", runnable(error.advice))):
        if text:
            click.echo(_wide(head, printable(text)), err=True)


def _wide(head: str, text: str) -> str:
    """Return a line for stderr; on a terminal it is wrapped at words, below its head."""
    if not sys.stderr.isatty():
        return head + text
    return textwrap.fill(
        text,
        get_terminal_size().columns,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


@click.group(cls=_Group, commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="patchkit")
def main() -> None:
    """Carry patches on a fork of sglang to other releases, and backport its speculative-decoding speedups."""

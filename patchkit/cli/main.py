"""Every command ends with the exit code that is documented for it, and refuses in one form: error, where, help.

0 done; 1 a check failed, or something was left out; 2 usage; 3 a conflict; 4 the tree cannot be used.
"""

from __future__ import annotations

import atexit
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from patchkit import __version__
from patchkit.cli import (
    apply,
    audit,
    check_patch,
    diff,
    doctor,
    export,
    matrix,
    new,
    port,
    rebase,
    resolve,
    revert,
    show,
    status,
    test,
    verify,
)
from patchkit.cli.former import renamed
from patchkit.errors import PatchkitError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The memory of syntax trees goes with the process: to look through it once more would take seconds.
atexit.register(gc.freeze)

_GROUPS = {
    "See what a tree has and what would change": (status, show, diff),
    "Change a tree, and take it back": (apply, resolve, revert),
    "Find what is wrong": (verify, audit, doctor),
    "Work with many branches and commits": (matrix, rebase, export),
    "Carry changes of your own": (port, new, test),
}


class _Commands(click.Group):
    """Commands in groups, and refusals in one form, each with its exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(module.command.name or "") for group in _GROUPS.values() for module in group)
        for heading, group in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (
                            (module.command.name or "").ljust(width),
                            module.command.get_short_help_str(formatter.width - width - 4),
                        )
                        for module in group
                    ]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, renamed(args))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _refusing(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _refusing(ctx):
            return super().invoke(ctx)


@contextmanager
def _refusing(ctx: click.Context) -> Iterator[None]:
    """Let every refusal, click's own too, be said in one form on stderr, and end with its exit code."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        what = error.format_message()
        _refuse(what[:1].lower() + what[1:], advice=f"{(error.ctx or ctx).command_path} --help")
        ctx.exit(error.exit_code)
    except PatchkitError as error:
        _refuse(error.what, error.where, error.advice)
        ctx.exit(error.exit_code)


def _refuse(what: str, where: str = "", advice: str = "") -> None:
    from patchkit.findings.printable import printable

    said = {"error: ": what.removesuffix("."), "  --> ": where, "help: ": advice}
    for head, text in said.items():
        if text:
            click.echo(head + printable(text), err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="patchkit")
def main() -> None:
    """Backport sglang's speculative-decoding speedups to a diverged fork, and revert them byte for byte."""


_TREE = (
    "TREE is an sglang checkout, its python folder, the package folder or site-packages. Without TREE it is the one "
    "that the current folder is in."
)
_PATCH = "PATCH is a patch's name, as patchkit show lists it. A word that names no patch is TREE."


def _explained(command: click.Command) -> str:
    """Say what TREE and PATCH stand for, where the command takes them."""
    taken = {word for param in command.params for word in (param.metavar or "").split()}
    told = [_TREE] if taken & {"TREE", "[TREE]"} else []
    return "\n\n".join([*told, _PATCH] if "[PATCH]..." in taken else told)


for _group in _GROUPS.values():
    for _module in _group:
        _module.command.epilog = _explained(_module.command)
        main.add_command(_module.command)
main.add_command(check_patch.command)

"""Every command ends with the exit code that is documented for it, and refuses in one sentence.

0 done; 1 a check failed, or something was left out; 2 usage; 3 a conflict; 4 the tree cannot be used.
"""

from __future__ import annotations

import atexit
import gc
from typing import Any

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

# The memory of syntax trees goes with the process: to look through it once more would take seconds.
atexit.register(gc.freeze)

_GROUPS = {
    "See what a tree has and what would change": (status, show, diff),
    "Change a tree, and take it back": (apply, resolve, revert),
    "Find what is wrong": (verify, audit, doctor),
    "Work with many branches and commits": (matrix, rebase, export),
    "Write a patch of your own": (new, test),
}


class _Commands(click.Group):
    """Commands in the order in which one meets them; what they refuse is one sentence and an exit code."""

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

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PatchkitError as error:
            from patchkit.findings.printable import printable

            click.echo(f"Error: {printable(str(error))}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="patchkit")
def main() -> None:
    """Bring upstream sglang upgrades to a fork, whatever its exact shape, and take them back.

    TREE is a git checkout, its python folder, a package folder or site-packages; left out, it is the one that the
    current folder is in. An argument that names a patch is a PATCH, any other is TREE.
    """


for _group in _GROUPS.values():
    for _module in _group:
        main.add_command(_module.command)
main.add_command(check_patch.command)

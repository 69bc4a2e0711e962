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
    list_,
    matrix,
    new,
    port,
    rebase_check,
    recover,
    report,
    resolve,
    revert,
    show,
    status,
    test,
    verify,
)
from patchkit.errors import PatchkitError

# The memory of syntax trees goes with the process: to look through it once more would take seconds.
atexit.register(gc.freeze)


class _Commands(click.Group):
    """Commands in the order in which one meets them; what they refuse is one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

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

    TREE is a git checkout, its python folder, a package folder or site-packages, and `.` if left out. An
    argument that names a patch is a PATCH, any other is TREE.
    """


for _module in (
    list_,
    show,
    status,
    diff,
    apply,
    resolve,
    revert,
    recover,
    verify,
    audit,
    matrix,
    export,
    report,
    rebase_check,
    doctor,
    check_patch,
    new,
    port,
    test,
):
    main.add_command(_module.command)

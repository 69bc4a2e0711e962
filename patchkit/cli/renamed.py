"""Former names of commands, which still work and print the new name on stderr."""

from __future__ import annotations

import click

from patchkit.errors import UsageError

NOW = {
    "list": ("show",),
    "recover": ("apply", "--continue"),
    "report": ("status", "--format", "ledger"),
    "rebase-check": ("rebase",),
    "check-patch": ("test",),
}


def renamed(words: list[str]) -> list[str]:
    """Return ``words`` with the command's new name, and print a note. Raise UsageError for report without --ledger."""
    name, *rest = words
    if name not in NOW:
        return words
    now = NOW[name]
    note = f"note: `patchkit {name}` is now `patchkit {' '.join(now)}`; the next release removes the old name"
    click.echo(note, err=True)
    if name == "check-patch":  # Its --on only looks for undefined names; that of test applies the patch.
        return words
    if name == "report" and not {"-h", "--help"} & set(rest):
        if "--ledger" not in rest:
            raise UsageError(
                "report without --ledger prints nothing", advice="patchkit status --format ledger"
            )
        rest.remove("--ledger")
    return [*now, *rest]

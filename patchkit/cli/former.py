"""Names that commands had in the last release: each still does what it did, and says on stderr what to type now."""

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
    """Return what to type now for ``words``, and say so; UsageError for a report without its kind."""
    name, *rest = words
    if name not in NOW:
        return words
    now = NOW[name]
    said = f"note: `patchkit {name}` is now `patchkit {' '.join(now)}`, and the old name goes with the next release"
    click.echo(said, err=True)
    if name == "check-patch":  # Its --on only looks for names, and test's applies.
        return words
    if name == "report" and not {"-h", "--help"} & set(rest):
        if "--ledger" not in rest:
            raise UsageError(
                "report without --ledger prints nothing", advice="patchkit status --format ledger"
            )
        rest.remove("--ledger")
    return [*now, *rest]

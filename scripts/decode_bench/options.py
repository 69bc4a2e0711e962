"""Options shared by the scripts that compare trees on a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    _Command = TypeVar("_Command", bound=Callable[..., object])


def named_tree(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the places of ``NAME=PLACE`` values by name."""
    found = {}
    for value in values:
        name, separator, place = value.partition("=")
        if not separator:
            raise click.BadParameter(f"{value} is not NAME=PATH or NAME=REPOSITORY@REF.")
        if not re.fullmatch(r"[\w.-]*\w[\w.-]*(/[\w.-]*\w[\w.-]*)?", name):
            raise click.BadParameter(f"{name!r} names a folder: use letters, digits, '.', '_' and '-'.")
        if name in found:
            raise click.BadParameter("two trees have the same name.")
        found[name] = place
    return found


def tree_option(description: str) -> Callable[[_Command], _Command]:
    """Return the option that names the trees, with its help text."""
    return click.option(
        "--tree",
        "places",
        multiple=True,
        required=True,
        callback=named_tree,
        metavar="NAME=PLACE",
        help=description,
    )


site_option = click.option(
    "--site",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the packages that this machine lacks, as packed by engine_bundle.py.",
)

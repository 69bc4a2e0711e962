"""Commands load only the modules that they need, so that each starts quickly."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.toys import APPLIED, SOURCES, apply, contents

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

LOADED = """
import sys
from patchkit.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(*(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], ["libcst", "msgspec", "rich", "jinja2", "patchkit.patchset", "patchkit.cli.console"]),
        (["show"], ["libcst", "jinja2", "patchkit.codemods.kinds", "patchkit.patchset.convert"]),
        (["show", "--json"], ["libcst", "patchkit.codemods.kinds"]),
        (["show", "26128"], ["libcst", "patchkit.codemods.kinds"]),
    ],
)
def test_heavy_packages_are_left_out(arguments: list[str], heavy: list[str]) -> None:
    assert loaded(arguments, heavy) == []


def test_a_remembered_status_reads_where_patches_ran_with_what_is_loaded_already(tree: CheckoutTree) -> None:
    heavy = [
        "libcst",
        "jinja2",
        "patchkit.codemods.kinds",
        "patchkit.plan.build",
        "patchkit.doctor",
        "patchkit.verify",
    ]
    arguments = ["status", str(tree.root)]
    assert "libcst" in loaded(arguments, heavy)
    assert loaded(arguments, heavy) == []


def test_revert_by_the_ledger_alone_needs_no_kind_of_edit(tree: CheckoutTree) -> None:
    apply(tree)
    assert loaded(["revert", str(tree.root)], ["libcst", "patchkit.codemods.kinds"]) == []
    assert contents(tree) == {file: SOURCES[file] for file in APPLIED}


def loaded(arguments: list[str], heavy: list[str]) -> list[str]:
    """Return which of the modules a command loads."""
    code = LOADED.format(arguments=arguments, heavy=heavy)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    return done.stderr.split()

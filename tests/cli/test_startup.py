"""What a command does not need it does not load: the first answer of each command stays quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
        (["--help"], ["libcst", "msgspec", "rich", "jinja2", "patchkit.patchset"]),
        (["list"], ["libcst", "jinja2"]),
    ],
)
def test_heavy_packages_are_left_out(arguments: list[str], heavy: list[str]) -> None:
    code = LOADED.format(arguments=arguments, heavy=heavy)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.split() == []

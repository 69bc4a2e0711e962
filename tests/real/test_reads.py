"""What a command reads of a checkout is about as much as it changes, not the whole package."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from support.releases import REFERENCE
from support.repositories import committed

if TYPE_CHECKING:
    from pathlib import Path

    from support.releases import Releases

COUNTED = """
import sys

opened = set()


def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        name = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode()
        if name.startswith(sys.argv[1]) and name.endswith(".py"):
            opened.add(name)


sys.addaudithook(note)
from patchkit.cli import main

try:
    main(["apply", sys.argv[1], "26128"])
finally:
    print(len(opened), file=sys.stderr)
"""


def test_apply_of_one_patch_on_a_checkout_reads_fewer_than_200_files(
    releases: Releases, tmp_path: Path
) -> None:
    root = releases.copy(REFERENCE, tmp_path / "fork").root
    committed(root, "A release")
    command = [sys.executable, "-c", COUNTED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Changed" in done.stdout
    assert int(done.stderr.split()[-1]) < 200

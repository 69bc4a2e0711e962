"""``python -m patchkit`` is ``patchkit``."""

from __future__ import annotations

from patchkit.cli import main

main(prog_name="patchkit")

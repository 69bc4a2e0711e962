"""Find the names that a change of a file leaves undefined."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import msgspec
from ruff.__main__ import find_ruff_bin

from patchkit import collector
from patchkit.tree.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def undefined_names(before: bytes, after: bytes) -> list[tuple[str, int]]:
    """Return the names, with their lines, that are undefined in ``after`` and were not in ``before``."""
    known = {name for name, _ in _undefined_names(before)}
    return [(name, line) for name, line in _undefined_names(after) if name not in known]


def unbound_names(sources: Mapping[str, bytes]) -> list[tuple[str, str, int]]:
    """Return the file, name and line of each read of a name that is undefined or that the function binds later."""
    with scratch() as folder:
        files = {str(folder / f"{number}.py"): file for number, file in enumerate(sources)}
        for path, file in files.items():
            with open(path, "wb") as copy:
                copy.write(sources[file])
        found = _checked("F821,F823", [*files], b"") if files else []
    return [(files[each["filename"]], *_name(each)) for each in found]


@collector.cached(256)
def _undefined_names(source: bytes) -> list[tuple[str, int]]:
    return [_name(each) for each in _checked("F821", ["-"], source)]


def _name(found: dict[str, Any]) -> tuple[str, int]:
    return found["message"].split("`")[1], found["location"]["row"]


def _checked(rules: str, files: Sequence[str], source: bytes) -> list[dict[str, Any]]:
    """Return what ruff finds; a file that is not Python has only findings without a rule of ours."""
    options = ("--isolated", "--no-cache", "--quiet", "--select", rules, "--output-format", "json")
    done = subprocess.run(
        (find_ruff_bin(), "check", *options, *files),
        input=source,
        capture_output=True,
        check=False,
        cwd=os.sep,
    )
    found: list[dict[str, Any]] = msgspec.json.decode(done.stdout or b"[]")
    return [each for each in found if each["code"] in rules.split(",")]

"""A release of sglang by its number: its wheel from the package index, unpacked in the user's cache folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit import cache
from patchkit.errors import TreeError
from patchkit.tree.sglang import NAME
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

_RELEASE = re.compile(r"\d+(?:\.\d+)+(?:\.?(?:post|rc|dev|a|b)\d+)*")
_PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64")
_ADVICE = "name its tree or its ref instead"


def is_release(name: str) -> bool:
    """Return whether a name is the number of a release, such as ``0.5.12.post1``."""
    return _RELEASE.fullmatch(name) is not None


def release(number: str) -> CheckoutTree:
    """Return the tree of a release, which nobody may change. Raise TreeError if it cannot be had."""
    place = cache.folder("releases") / number
    try:
        if not place.is_dir():
            _download(number, place)
        return open_tree(place)
    except (OSError, zipfile.BadZipFile) as error:
        raise TreeError(f"release {number} cannot be read ({error})", advice=_ADVICE) from error


def _download(number: str, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # Its wheels are of one Python and one platform; none of their code runs here.
    named = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input")
    with tempfile.TemporaryDirectory(dir=place.parent) as fresh:
        wanted = ("--no-deps", "--only-binary=:all:", "--python-version", "3.11", *named, "--dest", fresh)
        done = subprocess.run((*pip, *wanted, f"{NAME}=={number}"), capture_output=True, check=False)
        wheel = next(Path(fresh).glob("*.whl"), None)
        if done.returncode != 0 or wheel is None:
            lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
            reason = lines[-1].strip() if lines else "pip found none"
            raise TreeError(
                f"no tag names release {number}, and it could not be downloaded ({reason})", advice=_ADVICE
            )
        unpacked = Path(fresh) / number
        with zipfile.ZipFile(wheel) as archive:
            files = (name for name in archive.namelist() if name.startswith((f"{NAME}/", f"{NAME}-")))
            archive.extractall(unpacked, files)
        try:
            unpacked.replace(place)
        except OSError:
            if not os.path.isdir(place):  # Otherwise another process was faster.
                raise

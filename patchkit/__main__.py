"""``python -m patchkit`` is ``patchkit``, and nothing in the working folder but patchkit itself is imported."""

from __future__ import annotations

import os
import sys

_WORKING_FOLDER = os.getcwd()
if sys.path[:1] == [_WORKING_FOLDER] and not os.path.realpath(__file__).startswith(
    os.path.realpath(_WORKING_FOLDER) + os.sep
):
    # Python looks in the working folder first, which may be an untrusted tree.
    del sys.path[0]

from patchkit.cli import main  # noqa: E402

main(prog_name="patchkit")

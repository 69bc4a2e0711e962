"""The cases of stories: steps of ``tests/transaction/test_story.py``, with states and bytes after each.

A case is named by its story, its number and its step, with the arguments, so that the same stories are told again when
the tests have other steps to choose from. At its end a story is committed and asked in a clone.
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from support.cached_git import caching_git
from support.toys import add_toys, git

from corpus.digests import content
from patchkit import api
from patchkit.errors import PatchkitError
from patchkit.patchset import load
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

# A module of tests, which is in no package.
_tests: Any = importlib.import_module("test_story")
NUMBER, STEPS, SEED = 5, 12, 5
OFTEN = ("apply ids", "commit_patches ids", "revert ids", "insert number place", "commit", "commit")
OTHERS = (
    *("take_back_the_last_commit", "space_out number place", "drop_own number", "turn_line_ends number"),
    *("copy_a_method", "move number folder", "format number", "branch back", "switch number", "stash"),
    *("pop", "merge number", "rebase number", "cherry_pick number", "git_revert back", "amend", "put_back"),
)
"""The steps, each with its arguments."""
CLONE = "clone"


class _Story(_tests.Story):  # type: ignore[misc]
    """A story whose person writes at the same places whatever patchkit makes of a file."""

    def _starts(self, file: str) -> list[tuple[int, bytes]]:
        """Return where a statement may be put: above each but the first of a block, with its indent."""
        text: bytes = self._text(file)
        lines = text.splitlines()
        blocks = [getattr(node, "body", None) for node in ast.walk(ast.parse(text))]
        later = [each for block in blocks if isinstance(block, list) for each in block[1:]]
        return sorted((each.lineno - 1, lines[each.lineno - 1][: each.col_offset]) for each in later)


def drawn() -> list[str]:
    """Return the names of the cases: steps by chance, those of patchkit more often than others."""
    chance = random.Random(SEED)
    found: list[str] = []
    for story in range(1, NUMBER + 1):
        for number in range(1, STEPS + 1):
            name, *keys = chance.choice([*OFTEN * 3, *OTHERS]).split()
            values = (f"{key}={_value(key, chance)}" for key in keys)
            found.append(" ".join([f"{story}.{number:02}", name, *values]))
        found.append(f"{story}.{STEPS + 1:02} {CLONE}")
    return found


def _value(key: str, chance: random.Random) -> str:
    if key == "ids":
        return ",".join(each for each in _tests.IDS if chance.random() < 0.4)
    if key == "folder":
        return chance.choice(["srt/managers", "srt/moved"])
    return str(chance.randrange(3 if key == "back" else 1000))


def cases(names: Sequence[str]) -> dict[str, str]:
    """Tell each story, and return what is there after each step."""
    found: dict[str, str] = {}
    for _, steps in groupby(sorted(names), lambda name: name.partition(".")[0]):
        with tempfile.TemporaryDirectory() as folder:
            found |= told(Path(folder), list(steps))
    return found


def told(folder: Path, steps: Iterable[str]) -> dict[str, str]:
    """Tell one story."""
    os.environ["XDG_CACHE_HOME"] = os.environ["XDG_DATA_HOME"] = str(folder / "remembered")
    add_toys(folder / "toys")
    found: dict[str, str] = {}
    # A process tells stories and plans releases in turn.
    with caching_git(folder), mock.patch.object(load, "BUILT_IN", folder / "toys"):
        story = _Story()
        try:
            story.start()
            for step in steps:
                name, *given = step.split()[1:]
                if name == CLONE:
                    story.commit()
                    git(folder, "clone", "-q", "--no-local", str(story.tree.root), "clone")
                    found[step] = reverted(open_tree(folder / "clone"), story.patches)
                else:
                    made = _made(story, name, dict(each.split("=") for each in given))
                    found[step] = f"{answer(story.tree, story.patches)}{made}"
        finally:
            story.teardown()
    return found


def _made(story: Any, name: str, given: dict[str, str]) -> str:
    """Do a step, and return what is wrong with it, if anything is."""
    values = {
        key: set(filter(None, value.split(","))) if key == "ids" else value if key == "folder" else int(value)
        for key, value in given.items()
    }
    story.clock += 1
    story._commit_at(story.clock)
    try:
        getattr(story, name)(**values)
    except (AssertionError, PatchkitError) as error:
        return f"; {type(error).__name__}"
    return ""


def answer(tree: CheckoutTree, patches: PatchSet) -> str:
    """Return the states of a story's patches, and the digest of the tree."""
    statuses = [status for status in api.status(tree, patches) if status.patch.id in _tests.IDS]
    return "; ".join(
        [
            ", ".join(f"{status.patch.id} {status.state.value}" for status in statuses),
            f"bytes {content(tree)}",
        ]
    )


def reverted(tree: CheckoutTree, patches: PatchSet) -> str:
    """Return the answer of a clone, and its content after a revert of all, or the kind of error."""
    before = answer(tree, patches)
    try:
        api.revert(tree, patches)
    except PatchkitError as error:
        return f"{before}; {type(error).__name__}"
    return f"{before}; reverted {content(tree)}"

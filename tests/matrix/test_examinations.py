"""Answers that reuse results for other trees equal answers computed without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.toys import MIRROR, SOURCES, rewriting, toy, write_package

from patchkit.errors import PatchkitError
from patchkit.patchset import load
from patchkit.plan.build import inspect
from patchkit.plan.examinations import Examinations
from patchkit.plan.needed_bodies import needed_bodies
from patchkit.tree.modules import Modules
from patchkit.tree.tree import OverlayTree, open_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.releases import Releases

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree, Tree

USER, BASE, MOVED = "srt/managers/user.py", "srt/managers/base.py", "srt/layers/moved.py"


def edit(kind: str, name: str, at: str, **keys: str) -> str:
    lines = [f"[edit.{name}]", f'kind = "{kind}"', 'why = "toy"', f'at = "{at}"']
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in keys.items())])


PATCHES = (
    toy(
        "p-first",
        rewriting("copies", f"{MIRROR}::Mirror", "copies = $n", "copies = wanted($n)"),
        edit("class-attribute", "flag", f"{MIRROR}::Mirror", code="'flag = True'"),
        edit(
            "rewrite",
            "host",
            f"{MIRROR}::Mirror.host",
            find="'return self.copies'",
            code="'return helper(self.copies)'",
            imports="['from sglang.srt.managers.base import helper']",
        ),
    ),
    toy(
        "p-second",
        rewriting("again", f"{MIRROR}::Mirror", "copies = wanted($n)", "copies = wanted($n, first=True)"),
        edit("method", "more", f"{USER}::User", code='"def more(self):\\n    return 1"'),
        requires='["p-first"]',
    ),
    toy(
        "p-third",
        edit(
            "insert-before",
            "guard",
            f"{USER}::User.run",
            find="'return $value'",
            code="'guard()'",
            optional="'no user runs'",
        ),
        rewriting("depth", MIRROR, "depth = 1", "depth = 2"),
        upstream_when=f'["{USER}::User.done"]',
    ),
    toy(
        "p-fourth",
        rewriting("stop", f"{USER}::User.run", "value = $v", "value = [$v]"),
        edit("insert-first", "begin", f"{MIRROR}::Mirror.host", code="'begin()'"),
        applies_when=f'[{{ at = "{MIRROR}::Mirror", lacks = "off = 1" }}]',
    ),
)
MIRRORS = (
    SOURCES[MIRROR],
    SOURCES[MIRROR].replace(b"copies = 0", b"copies = 0\n    off = 1"),
    SOURCES[MIRROR].replace(b"copies = 0", b"copies = 0\n    copies = 1"),
    SOURCES[MIRROR].replace(b"copies = 0", b"copies = wanted(4)"),
    SOURCES[MIRROR].replace(b"copies = 0", b"flag = False"),
    SOURCES[MIRROR].replace(
        b"class Mirror:", b"from sglang.srt.managers.base import Base\n\nclass Mirror(Base):"
    ),
    b"from sglang.srt.managers.base import Base\n\nclass Mirror(Base):\n    copies = 0\n\n\ndepth = 1\n",
    b"depth = 1\n",
    b"class Mirror(:\n",
    None,
)
USERS = (
    None,
    b"class User:\n    def run(self):\n        value = 1\n        return value\n",
    b"class User:\n    def run(self):\n        value = 1\n        return value\n\n    def done(self):\n        pass\n",
    b"from sglang.srt.managers.base import Base\n\nclass User(Base):\n    def other(self):\n        return 2\n",
    b"class User:\n    def more(self):\n        return 1\n",
)
BASES = (
    None,
    b"def helper(n):\n    return n\n",
    b"class Base:\n    def host(self):\n        return self.copies\n",
    b"def helper(n):\n    return n\n\n\nclass Base:\n    def run(self):\n        value = 1\n        return value\n",
)
MOVES = (None, SOURCES[MIRROR], b"def helper(n):\n    return 2 * n\n", b"class Mirror:\n    copies = 0\n")
STATES = st.tuples(*map(st.sampled_from, (MIRRORS, USERS, BASES, MOVES)))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> CheckoutTree:
    root: Path = tmp_path_factory.mktemp("examinations")
    write_package(root / "python" / "sglang")
    return open_tree(root)


def inspected(tree: Tree, patches: Sequence[Patch], examinations: Examinations | None) -> object:
    """Return the statuses of patches on a tree, or the error."""
    modules = Modules(tree, needed_bodies(patches))
    try:
        return [
            (status.patch.id, status.state, status.reason, status.edits)
            for status in inspect(tree, patches, modules, examinations)
        ]
    except PatchkitError as error:
        return str(error)


@given(st.lists(STATES, min_size=2, max_size=8))
@settings(deadline=None)
def test_a_tree_is_told_the_same_whatever_is_known_of_others(
    package: CheckoutTree, states: list[tuple[bytes | None, ...]]
) -> None:
    examinations = Examinations()
    other = Examinations()
    for state in states:
        tree = OverlayTree(package, dict(zip((MIRROR, USER, BASE, MOVED), state, strict=True)))
        expected = inspected(tree, PATCHES, None)
        assert inspected(tree, PATCHES, examinations) == expected
        for result in examinations.fresh():
            other.load(result)
        assert inspected(tree, PATCHES, other) == expected, "as in another process"
        assert not examinations.fresh()


def test_what_is_known_saves_looking_and_parsing(
    package: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    examinations = Examinations()
    known = inspected(package, PATCHES, examinations)
    assert examinations.fresh()
    other = OverlayTree(package, {"srt/managers/nothing.py": b"x = 1\n"})

    def refuse(_modules: Modules, file: str) -> None:
        raise AssertionError(f"{file} is parsed")

    monkeypatch.setattr(Modules, "get", refuse)
    assert inspected(other, PATCHES, examinations) == known
    assert not examinations.fresh()


def test_a_release_and_a_fork_of_it_are_told_the_same_whatever_is_known(releases: Releases) -> None:
    """The built-in patches, on a fork with functions of its own in files that they look into."""
    patches = tuple(load.patches())
    release = releases.tree("0.5.12.post1")
    files = (
        "srt/managers/overlap_utils.py",
        "srt/layers/attention/triton_backend.py",
        "srt/speculative/spec_info.py",
    )
    own = b"\n\ndef of_the_fork(value=1):\n    return value\n"
    fork = OverlayTree(release, {file: (release.read(file) or b"") + own for file in files})
    examinations = Examinations()
    for tree in (release, fork):
        assert inspected(tree, patches, examinations) == inspected(tree, patches, None)
        assert examinations.fresh()
    inspected(release, patches, examinations)
    assert not examinations.fresh()

"""Three driven trees: unpatched, patched, and upstream's own release with the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.driven import trees
from support.releases import LATEST, OF_LATER_RELEASES, REFERENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.releases import Releases


_EVERY = (*trees.DEFAULT, *trees.OPTIONAL)
_SHARED = {REFERENCE: _EVERY, "0.5.14": _EVERY, LATEST: trees.DEFAULT}
"""Patches of the releases that other tests drive with so many; to apply them takes as long as ten single ones."""


def without_and_with(
    releases: Releases, version: str, *patches: str, alone: bool = False
) -> tuple[trees.DrivenTree, trees.DrivenTree]:
    """Return a release unpatched, and with patches, beside which it may have others unless they are to be alone."""
    before = trees.as_released(releases, version)
    shared = () if alone else _SHARED.get(version, ())
    if {*patches} <= {*shared}:
        patches = shared
    return before, trees.with_patches(releases, "after", patches, version)


def without_and_with_each(patch: str, versions: Sequence[str], *, alone: bool = False) -> Any:
    """Return a module's fixture: each of the releases unpatched, and with the patch that it lacks."""

    @pytest.fixture(scope="module", params=versions)
    def before_and_after(
        request: pytest.FixtureRequest, releases: Releases
    ) -> tuple[trees.DrivenTree, trees.DrivenTree]:
        return without_and_with(releases, request.param, patch, alone=alone)

    return before_and_after


@pytest.fixture(scope="module", params=["0.5.14", "0.5.17"])
def later_before_and_after(
    request: pytest.FixtureRequest, releases: Releases
) -> tuple[trees.DrivenTree, trees.DrivenTree]:
    """Later releases, each unpatched and with the patches that it lacks."""
    return without_and_with(releases, request.param, *OF_LATER_RELEASES)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the processes of trees, of 200 MB each, where the tests of a folder end."""
    if nextitem is not None and nextitem.path.parent != item.path.parent:
        trees.stop_trees()


def pytest_unconfigure() -> None:
    """Stop the processes that trees were forked from."""
    trees.stop_trees()
    trees.stop_nursery()


@pytest.fixture(scope="session")
def unpatched(releases: Releases) -> trees.DrivenTree:
    return trees.unpatched(releases)


@pytest.fixture(scope="session")
def patched(releases: Releases) -> trees.DrivenTree:
    """The release with every default patch."""
    return trees.with_patches(releases, "patched", trees.DEFAULT)


@pytest.fixture(scope="session")
def upstream(releases: Releases) -> trees.DrivenTree:
    return trees.upstream(releases)


@pytest.fixture(scope="session")
def every_tree(
    unpatched: trees.DrivenTree, patched: trees.DrivenTree, upstream: trees.DrivenTree
) -> tuple[trees.DrivenTree, ...]:
    """All three; the patched one is in the middle."""
    return unpatched, patched, upstream


@pytest.fixture(scope="session")
def hardened(releases: Releases) -> trees.DrivenTree:
    """Upstream's own release with the patches of this project that it lacks."""
    return trees.with_patches(releases, "hardened", trees.DEFAULT, trees.SUCCESSOR)


if trees.OPTIONAL:

    @pytest.fixture(scope="session")
    def opted_out(releases: Releases) -> trees.DrivenTree:
        """The release with every patch, including the opt-in ones."""
        return trees.with_patches(releases, "opted-out", (*trees.DEFAULT, *trees.OPTIONAL))

    @pytest.fixture(scope="session")
    def hardened_opted_out(releases: Releases) -> trees.DrivenTree:
        """Upstream's own release with every patch of this project, including the opt-in ones."""
        every = (*trees.DEFAULT, *trees.OPTIONAL)
        return trees.with_patches(releases, "hardened-opted-out", every, trees.SUCCESSOR)

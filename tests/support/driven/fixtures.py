"""Three trees to ask: without patches, with them, and upstream's own release that has the changes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.driven import trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from support.releases import Releases


@contextmanager
def without_and_with(
    releases: Releases, folder: Path, version: str, *patches: str
) -> Iterator[tuple[trees.DrivenTree, trees.DrivenTree]]:
    """Yield a release as it is, and with patches."""
    before = trees.DrivenTree(version, lambda: releases.copy(version, folder / "before").root)
    after = trees.with_patches(releases, "after", patches, version)
    yield before, after
    before.stop()
    after.stop()


def without_and_with_each(patch: str, versions: Sequence[str]) -> Any:
    """Return a fixture of a module: each of the releases as it is, and with the patch that it lacks."""

    @pytest.fixture(scope="module", params=versions)
    def before_and_after(
        request: pytest.FixtureRequest, releases: Releases, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[trees.DrivenTree, trees.DrivenTree]]:
        folder = tmp_path_factory.mktemp("driven")
        with without_and_with(releases, folder, request.param, patch) as both:
            yield both

    return before_and_after


def pytest_unconfigure() -> None:
    """Stop what trees were forked of."""
    if trees.nursery.cache_info().currsize:
        trees.nursery().stop()


@pytest.fixture(scope="session")
def unpatched(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trees.DrivenTree]:
    tree = trees.unpatched(releases, tmp_path_factory.mktemp("driven"))
    yield tree
    tree.stop()


@pytest.fixture(scope="session")
def patched(releases: Releases) -> Iterator[trees.DrivenTree]:
    """The release with every patch that needs no naming."""
    tree = trees.with_patches(releases, "patched", trees.DEFAULT)
    yield tree
    tree.stop()


@pytest.fixture(scope="session")
def upstream(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trees.DrivenTree]:
    tree = trees.upstream(releases, tmp_path_factory.mktemp("driven"))
    yield tree
    tree.stop()


@pytest.fixture(scope="session")
def every_tree(
    unpatched: trees.DrivenTree, patched: trees.DrivenTree, upstream: trees.DrivenTree
) -> tuple[trees.DrivenTree, ...]:
    """All three; the patched one is in the middle."""
    return unpatched, patched, upstream


@pytest.fixture(scope="session")
def hardened(releases: Releases) -> Iterator[trees.DrivenTree]:
    """Upstream's own release with what this project adds to it."""
    tree = trees.with_patches(releases, "hardened", trees.DEFAULT, trees.SUCCESSOR)
    yield tree
    tree.stop()


if trees.OPTIONAL:

    @pytest.fixture(scope="session")
    def opted_out(releases: Releases) -> Iterator[trees.DrivenTree]:
        """The release with every patch, those that take naming too."""
        tree = trees.with_patches(releases, "opted-out", (*trees.DEFAULT, *trees.OPTIONAL))
        yield tree
        tree.stop()

    @pytest.fixture(scope="session")
    def hardened_opted_out(releases: Releases) -> Iterator[trees.DrivenTree]:
        """Upstream's own release with every patch of this project, those that take naming too."""
        every = (*trees.DEFAULT, *trees.OPTIONAL)
        tree = trees.with_patches(releases, "hardened-opted-out", every, trees.SUCCESSOR)
        yield tree
        tree.stop()

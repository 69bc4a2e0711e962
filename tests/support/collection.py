"""Tests that share something expensive run in one worker, and those that need a release are marked `release`.

`pytest -n 2 --dist loadgroup` gives every test of a group to one worker, which then makes once what the group has
in common. The groups that take longest are handed out first, so that no worker is left alone with one at the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
# Their modules share the trees of `support.driven.fixtures`.
_ONE_GROUP = ("differential",)


def _group_of(item: pytest.Item) -> str:
    """Return the group that a test is in: its mark's, else that of its folder or module."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.args[0])
    place = item.path.relative_to(_ROOT)
    return place.parts[0] if place.parts[0] in _ONE_GROUP else place.as_posix()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests; in a worker, also put those first that need a release, the driven trees before all."""
    groups = {}
    for item in items:
        if "releases" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.release)
        groups[item] = _group_of(item)
        item.add_marker(pytest.mark.xdist_group(groups[item]))
    if hasattr(config, "workerinput"):
        heavy = {groups[item] for item in items if item.get_closest_marker("release")}
        items.sort(key=lambda item: (groups[item] not in _ONE_GROUP, groups[item] not in heavy))

"""A draft-extend of a multimodal draft model embeds, without the mirror, what it embeds with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with
from support.driven.trees import DrivenTree, ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.releases import Releases

RELEASES = ("0.5.11", "0.5.13", "0.5.18")
TOKENS = 4


@pytest.fixture(scope="module", params=RELEASES)
def before_and_after(
    request: pytest.FixtureRequest, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DrivenTree, DrivenTree]]:
    """A release as it is, and with the guards."""
    folder = tmp_path_factory.mktemp("driven")
    with without_and_with(releases, folder, request.param, "pk-mirror-guards") as both:
        yield both


@pytest.mark.parametrize(
    ("prefixes", "images"), [([40, 7, 12], [True, False, True]), ([5], [True]), ([5, 9], [False, False])]
)
def test_a_draft_extend_without_the_mirror_embeds_images_where_they_are(
    before_and_after: tuple[DrivenTree, DrivenTree], prefixes: list[int], images: list[bool]
) -> None:
    before, after = before_and_after
    asked = ("multimodal.embedded", prefixes, TOKENS, images)
    expected = before.ask(*asked, True)
    assert expected["reads"] == []
    assert after.ask(*asked, True) == expected
    assert after.ask(*asked, False) == expected | {"reads": ["tolist"] * any(images)}
    if any(images):
        assert expected["starts"] == [at for at, image in zip(prefixes, images, strict=True) if image]
        with pytest.raises(ProbeError, match="TypeError"):
            before.ask(*asked, False)

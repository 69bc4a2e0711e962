"""A draft-extend of a multimodal draft model embeds, without the mirror, what it embeds with it."""

from __future__ import annotations

import pytest
from support.driven.fixtures import without_and_with_each
from support.driven.trees import DrivenTree, ProbeError

RELEASES = ("0.5.11", "0.5.13", "0.5.18")
TOKENS = 4


before_and_after = without_and_with_each("26128", RELEASES)


@pytest.mark.parametrize(
    ("prefixes", "images"), [([40, 7, 12], [True, False, True]), ([5], [True]), ([5, 9], [False, False])]
)
def test_a_draft_extend_without_the_mirror_embeds_images_where_they_are(
    before_and_after: tuple[DrivenTree, DrivenTree], prefixes: list[int], images: list[bool]
) -> None:
    before, after = before_and_after
    request = ("multimodal.embedded", prefixes, TOKENS, images)
    expected = before.ask(*request, True)
    assert expected["reads"] == []
    assert after.ask(*request, True) == expected
    assert after.ask(*request, False) == expected | {"reads": ["tolist"] * any(images)}
    if any(images):
        assert expected["starts"] == [at for at, image in zip(prefixes, images, strict=True) if image]
        with pytest.raises(ProbeError, match="TypeError"):
            before.ask(*request, False)

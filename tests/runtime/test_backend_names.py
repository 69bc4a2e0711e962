"""A draft's attention backend is distinguished from its target's by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from patchkit.runtime.api_1 import name_of_backend, named_backend


def test_a_draft_and_each_of_its_steps_have_the_name_that_chose_them() -> None:
    steps = [SimpleNamespace(), SimpleNamespace()]
    backend = named_backend(SimpleNamespace(attn_backends=steps), "triton")
    assert {name_of_backend(each, "fa3") for each in (backend, *steps)} == {"triton"}


def test_a_draft_that_was_given_no_name_has_the_targets() -> None:
    assert name_of_backend(named_backend(SimpleNamespace(), None), "fa3") == "fa3"


@pytest.mark.parametrize("name", [None, "triton"])
def test_a_draft_may_have_no_backend_for_draft_extend(name: str | None) -> None:
    assert named_backend(None, name) is None

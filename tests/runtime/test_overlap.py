from __future__ import annotations

import pytest

from patchkit.runtime.overlap import HOOK, has_overlap_hook, require_overlap_hook


class AttentionBackend:
    """Stands for the abstract base, whose hook raises."""

    def update_verify_buffers_to_fill_after_draft(self, spec_info: object, cuda_graph_bs: int | None) -> None:
        raise NotImplementedError


class WithHook(AttentionBackend):
    def update_verify_buffers_to_fill_after_draft(self, spec_info: object, cuda_graph_bs: int | None) -> None:
        pass


class Without(AttentionBackend):
    pass


class InheritsHook(WithHook):
    pass


class InheritsNone(Without):
    pass


class Mixin:
    def update_verify_buffers_to_fill_after_draft(self, spec_info: object, cuda_graph_bs: int | None) -> None:
        pass


class MixinFirst(Mixin, AttentionBackend):
    pass


class MixinHidden(AttentionBackend, Mixin):
    pass


class Unrelated:
    pass


HAVE = (WithHook, InheritsHook, MixinFirst)
LACK = (AttentionBackend, Without, InheritsNone, MixinHidden, Unrelated)


@pytest.mark.parametrize("backend", HAVE)
def test_a_hook_of_ones_own_or_inherited_counts(backend: type) -> None:
    assert has_overlap_hook(backend()) is True


@pytest.mark.parametrize("backend", LACK)
def test_the_abstract_bases_hook_does_not_count(backend: type) -> None:
    assert has_overlap_hook(backend()) is False


@pytest.mark.parametrize("backend", HAVE)
def test_a_server_with_the_hook_starts_with_the_plan_stream(backend: type) -> None:
    require_overlap_hook(object(), backend())


@pytest.mark.parametrize("backend", [*HAVE, *LACK])
def test_a_server_without_the_plan_stream_starts_with_any_backend(backend: type) -> None:
    require_overlap_hook(None, backend())


@pytest.mark.parametrize("backend", LACK)
def test_a_server_without_the_hook_does_not_start_with_the_plan_stream(backend: type) -> None:
    with pytest.raises(RuntimeError) as raised:
        require_overlap_hook(object(), backend())
    said = str(raised.value)
    assert said.startswith(f"{backend.__name__} ")
    assert HOOK in said
    assert "SGLANG_ENABLE_OVERLAP_PLAN_STREAM" in said

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.runtime.overlap import (
    HOOK,
    has_overlap_hook,
    require_overlap_hook,
    require_overlap_hook_to_verify,
    verify_side,
)


class AttentionBackend:
    """A stand-in for the abstract base, whose hook raises."""

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
    message = str(raised.value)
    assert message.startswith(f"{backend.__name__} ")
    assert HOOK in message
    assert "SGLANG_ENABLE_OVERLAP_PLAN_STREAM" in message


class HybridAttnBackend(WithHook):
    """A stand-in for a backend of two sides, of which the server's mode says which verifies."""

    def __init__(self, prefill: object, decode: object, mode: str) -> None:
        self.prefill_backend, self.decode_backend = prefill, decode
        self.model_runner = SimpleNamespace(server_args=SimpleNamespace(speculative_attention_mode=mode))


@pytest.mark.parametrize(("mode", "has"), [("decode", True), ("prefill", False)])
def test_a_hybrid_has_the_hook_where_its_verify_side_has(mode: str, has: bool) -> None:
    assert has_overlap_hook(HybridAttnBackend(Without(), WithHook(), mode)) is has
    nested = HybridAttnBackend(Without(), HybridAttnBackend(Without(), WithHook(), mode), "decode")
    assert has_overlap_hook(nested) is has


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("linear", [True, False])
def test_what_wraps_full_and_linear_attention_has_the_hook_where_both_have(full: bool, linear: bool) -> None:
    wrapper: Any = WithHook()
    wrapper.full_attn_backend, wrapper.linear_attn_backend = (
        WithHook() if has else Without() for has in (full, linear)
    )
    assert has_overlap_hook(wrapper) is (full and linear)
    assert has_overlap_hook(HybridAttnBackend(Without(), wrapper, "decode")) is (full and linear)


@pytest.mark.parametrize("in_decode", [True, False])
def test_the_backends_of_a_hybrid_count_and_not_the_option(in_decode: bool) -> None:
    typed = "prefill" if in_decode else "decode"
    hybrid: Any = HybridAttnBackend(Without(), WithHook(), typed)
    hybrid.spec_attn_is_decode = in_decode
    assert verify_side(hybrid) is (hybrid.decode_backend if in_decode else hybrid.prefill_backend)
    assert has_overlap_hook(hybrid) is in_decode
    # Those that were told nothing of it keep no arguments as typed.
    del hybrid.spec_attn_is_decode
    assert has_overlap_hook(hybrid) is not in_decode


@pytest.mark.parametrize("name", ["dense", "backend"])
def test_a_wrapper_around_a_backend_without_the_hook_does_not_start_and_that_one_is_named(name: str) -> None:
    def wrapped(inner: object) -> Any:
        wrapper = WithHook()
        setattr(wrapper, name, inner)
        return wrapper

    require_overlap_hook(object(), wrapped(WithHook()))
    inner = Without()
    for lacking in (inner, wrapped(inner), HybridAttnBackend(WithHook(), inner, "decode")):
        assert has_overlap_hook(wrapped(lacking)) is False
        with pytest.raises(RuntimeError, match=r"^Without cannot verify"):
            require_overlap_hook(object(), wrapped(lacking))


class Remaking(WithHook):
    """A stand-in for a wrapper that makes what it wraps anew each time it is asked for it."""

    @property
    def backend(self) -> Remaking:
        return Remaking()


@pytest.mark.parametrize("name", ["dense", "backend", "full_attn_backend"])
def test_a_wrapper_that_contains_itself_is_examined_once(name: str) -> None:
    around: Any = WithHook()
    inner: Any = WithHook()
    setattr(around, name, inner)
    setattr(inner, name, around)
    assert has_overlap_hook(around) is True
    itself: Any = WithHook()
    setattr(itself, name, itself)
    assert has_overlap_hook(itself) is True
    inner.linear_attn_backend = Without()
    with pytest.raises(RuntimeError, match=r"^Without cannot verify"):
        require_overlap_hook(object(), around)


def test_a_wrapper_that_makes_its_backend_anew_is_not_followed_for_ever() -> None:
    assert has_overlap_hook(Remaking()) is True


class Kind(Enum):
    FA3 = "fa3"


class AnswersAll:
    """A stand-in for a proxy or a mock, which has whatever is asked for."""

    def __getattr__(self, name: str) -> object:
        return self

    def __repr__(self) -> str:
        return "a proxy"


@pytest.mark.parametrize("name", ["dense", "backend"])
@pytest.mark.parametrize(
    "held",
    ["fa3", "", None, 0, Kind.FA3, Kind, SimpleNamespace(), AnswersAll(), Without, WithHook, print],
    ids=repr,
)
def test_what_is_no_backend_refuses_no_start(name: str, held: object) -> None:
    backend = WithHook()
    setattr(backend, name, held)
    require_overlap_hook(object(), backend)


def test_a_hybrid_that_does_not_hand_the_call_on_has_no_hook() -> None:
    class Plain(AttentionBackend):
        prefill_backend = decode_backend = WithHook()

    hybrid = type("HybridAttnBackend", (Plain,), {})
    assert has_overlap_hook(hybrid()) is False


def test_a_backend_that_names_two_kinds_is_no_hybrid() -> None:
    class Named(WithHook):
        prefill_backend, decode_backend = "fa3", "triton"

    assert has_overlap_hook(Named()) is True


def test_the_error_names_the_side_that_verifies() -> None:
    with pytest.raises(RuntimeError, match=r"^Without cannot verify"):
        require_overlap_hook(object(), HybridAttnBackend(WithHook(), Without(), "decode"))


def target(backend: object) -> SimpleNamespace:
    return SimpleNamespace(model_runner=SimpleNamespace(attn_backend=backend))


def server(mode: str = "null") -> SimpleNamespace:
    return SimpleNamespace(disaggregation_mode=mode)


STREAM = SimpleNamespace(plan_stream=object())


@pytest.mark.parametrize("mode", ["null", "decode"])
def test_a_worker_with_a_plan_stream_starts_only_with_the_hook(mode: str) -> None:
    require_overlap_hook_to_verify(STREAM, target(WithHook()), server(mode))
    with pytest.raises(RuntimeError, match=r"^Without cannot verify"):
        require_overlap_hook_to_verify(STREAM, target(Without()), server(mode))


def test_a_server_that_only_prefills_starts_without_the_hook() -> None:
    require_overlap_hook_to_verify(STREAM, target(Without()), server("prefill"))


@pytest.mark.parametrize("draft", [None, SimpleNamespace(), SimpleNamespace(plan_stream=None)])
def test_nothing_of_a_target_is_looked_at_without_a_plan_stream(draft: object) -> None:
    class Untouched:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    require_overlap_hook_to_verify(draft, Untouched(), Untouched())  # type: ignore[arg-type]

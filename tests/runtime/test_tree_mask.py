from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.runtime.api_1 import verify_mask
from patchkit.runtime.tree_mask import reads_full_mask
from patchkit.runtime.wrappers import verifier


class TreeMaskMode(IntEnum):
    FULL_MASK = 0
    QLEN_ONLY = 1
    QLEN_ONLY_BITPACKING = 2


def backend(name: str, **fields: Any) -> Any:
    made = type(name, (), {})()
    vars(made).update(fields)
    return made


def hybrid(prefill: str, decode: str, verifies: str) -> Any:
    runner = SimpleNamespace(server_args=SimpleNamespace(speculative_attention_mode=verifies))
    sides = {"prefill_backend": backend(prefill), "decode_backend": backend(decode)}
    return backend("HybridAttnBackend", model_runner=runner, **sides)


def subclass_of(made: Any) -> Any:
    other = type(f"Acme{type(made).__name__}", (type(made),), {})()
    vars(other).update(vars(made))
    return other


def beside(full: Any, linear: str = "GDNAttnBackend", wrapper: str = "HybridLinearAttnBackend") -> Any:
    return backend(wrapper, full_attn_backend=full, linear_attn_backend=backend(linear))


@pytest.mark.parametrize(
    ("target", "reads"),
    [
        (backend("TRTLLMMLABackend"), False),
        (backend("TRTLLMHAAttnBackend"), False),
        (backend("FlashMLABackend"), False),
        (backend("FlashAttentionBackend", fa_impl_ver=3, topk=1), False),
        (backend("FlashAttentionBackend", fa_impl_ver=3, topk=4), True),
        (backend("FlashAttentionBackend", fa_impl_ver=4, topk=0), False),
        (backend("AcmeFlashAttentionBackend", topk=1), True),
        (backend("HybridLinearAttnBackend"), True),
        (backend("FlashAttentionBackend", fa_impl_ver=3, topk=1, has_swa=True), False),
        (backend("NativeSparseAttnBackend", needs_cpu_seq_lens=False), False),
        (backend("NativeSparseAttnBackend"), True),
        (backend("TritonAttnBackend"), True),
        (backend("FlashInferAttnBackend"), True),
        (backend("TboAttnBackend"), True),
        (backend("AcmeTRTLLMMLABackend"), True),
        (hybrid("TritonAttnBackend", "TRTLLMHAAttnBackend", "decode"), False),
        (hybrid("TritonAttnBackend", "TRTLLMHAAttnBackend", "prefill"), True),
        (hybrid("TRTLLMHAAttnBackend", "TritonAttnBackend", "prefill"), False),
        (subclass_of(hybrid("TritonAttnBackend", "TRTLLMHAAttnBackend", "decode")), True),
        (beside(backend("TRTLLMHAAttnBackend")), False),
        (beside(backend("TRTLLMHAAttnBackend"), "AcmeLinearBackend"), True),
        (beside(backend("TRTLLMHAAttnBackend"), wrapper="AcmeHybridLinearBackend"), True),
        (beside(backend("TritonAttnBackend")), True),
        (beside(hybrid("TRTLLMHAAttnBackend", "TritonAttnBackend", "prefill")), False),
        (beside(hybrid("TRTLLMHAAttnBackend", "TritonAttnBackend", "decode")), True),
        (backend("TboAttnBackend", primary=backend("TRTLLMHAAttnBackend")), True),
    ],
    ids=lambda value: value if isinstance(value, bool) else type(value).__name__,
)
def test_only_what_is_known_not_to_read_the_mask_does_without_it(target: Any, reads: bool) -> None:
    assert reads_full_mask(target) is reads
    mode, buffer = verify_mask(target, TreeMaskMode.FULL_MASK, "large")
    assert (mode, buffer) == ((TreeMaskMode.FULL_MASK, "large") if reads else (TreeMaskMode.QLEN_ONLY, None))


def test_the_verifying_backend_is_found_in_wrappers_that_contain_each_other() -> None:
    around, inner = backend("AroundBackend"), backend("InnerBackend")
    around.full_attn_backend, inner.dense = inner, around
    assert verifier(around) is inner
    assert verifier(inner) is around


def test_a_tree_with_branches_keeps_its_mask() -> None:
    full = (TreeMaskMode.FULL_MASK, "large")
    assert verify_mask(backend("TRTLLMMLABackend"), *full, 4) == full
    assert verify_mask(backend("TRTLLMMLABackend"), *full, 1) == (TreeMaskMode.QLEN_ONLY, None)


@pytest.mark.parametrize("by_patches", [True, False])
def test_several_branches_have_a_mask_over_themselves_where_the_patches_plan_them(by_patches: bool) -> None:
    opted_out: Any = property(lambda _: False) if by_patches else False
    target = type("FlashAttentionBackend", (), {"topk": 4, "needs_cpu_seq_lens": opted_out})()
    full = (TreeMaskMode.FULL_MASK, "large")
    side = hybrid("TritonAttnBackend", "FlashAttentionBackend", "decode")
    side.decode_backend = target
    for each in (target, side, beside(target), beside(side)):
        # Upstream's own backend, in 0.5.16, reads the whole mask.
        assert verify_mask(each, *full, 4) == ((TreeMaskMode.QLEN_ONLY, None) if by_patches else full)
    for each in (subclass_of(side), beside(target, "AcmeLinearBackend")):
        assert verify_mask(each, *full, 4) == full


def test_another_mode_and_a_switch_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target = backend("TRTLLMMLABackend")
    packed = TreeMaskMode.QLEN_ONLY_BITPACKING
    assert verify_mask(target, packed, "packed") == (packed, "packed")
    monkeypatch.setenv("PATCHKIT_DISABLE", "32886")
    assert verify_mask(target, TreeMaskMode.FULL_MASK, "large") == (TreeMaskMode.FULL_MASK, "large")

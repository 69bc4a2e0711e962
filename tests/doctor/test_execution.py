"""A release's own settings are executed for each kind of model, without GPU, network, torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.sweeps import is_every

from patchkit.doctor.execution.kinds import CROSS, KINDS, LINEAR, MLA, SPARSE
from patchkit.doctor.execution.named import MODELS, by_name
from patchkit.doctor.execution.process import Execution, Request

if TYPE_CHECKING:
    from support.releases import Releases

RELEASES = (
    "0.5.11",
    "0.5.12.post1",
    "0.5.13",
    "0.5.14",
    "0.5.16",
    "0.5.18",
    "0.5.20",
    "0.5.21",
    "0.5.22",
    "0.5.23",
)


ASKED = {
    "h100": KINDS,
    "b200": [kind for kind in KINDS if kind.facts in ((MLA,), (LINEAR,))],
    "mi300x": KINDS[:1],
}
"""The kinds of models that each GPU is asked for; in a run of all tests that is each."""


@pytest.mark.parametrize(
    "version",
    [pytest.param(each, marks=() if each == "0.5.23" else pytest.mark.sweep) for each in RELEASES],
)
def test_each_kind_of_model_starts_with_the_backend_that_the_release_chooses(
    releases: Releases, version: str
) -> None:
    tree = releases.tree(version)
    before = sorted(tree.package.rglob("*"))
    chosen: dict[str, dict[tuple[str, ...], object]] = {}
    with Execution(tree.package, tree.name, Path.cwd()) as execution:
        for gpu, kinds in ASKED.items():
            for kind in KINDS if is_every() else kinds:
                answer = execution.ask(gpu, Request(model=kind.config), {})
                assert (answer.failed, answer.refused) == ("", ""), (gpu, kind.facts)
                assert len(answer.settings) > 300
                # What the decision about the mirror asks, the tree itself says of the kind.
                assert {MLA, CROSS} & set(answer.facts) == {MLA, CROSS} & set(kind.facts)
                chosen.setdefault(gpu, {})[kind.facts] = answer.settings["attention_backend"]
        for model in MODELS:
            answer = execution.ask("h100", Request(model=model.kind.config), {})
            assert (answer.failed, answer.refused) == ("", ""), model.name
            assert {MLA, SPARSE} & set(answer.facts) == {MLA, SPARSE} & set(model.facts), model.name
        refused = execution.ask("h100", Request(options=["--tp-size", "0.5"], model=KINDS[0].config), {})
        assert (refused.by_parser, "invalid int value: '0.5'" in refused.refused) == (True, True)
    assert sorted(tree.package.rglob("*")) == before
    assert (chosen["h100"][()], chosen["h100"][MLA,]) == ("fa3", "fa3")
    assert (chosen["b200"][MLA,], chosen["mi300x"][()]) == ("trtllm_mla", "aiter")
    assert chosen["h100"][MLA, SPARSE] in ("nsa", "dsa")
    assert chosen["b200"][LINEAR,] in ("triton", "trtllm_mha", "flashinfer")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("deepseek-ai/DeepSeek-V3.2-Exp", "DeepSeek-V3.2"),
        ("/models/deepseek-ai/DeepSeek-R1-0528/", "DeepSeek-V3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "Llama"),
        ("$BASE/Meta-Llama-3.1-8B-Instruct", "Llama"),
        ("Qwen/Qwen3-235B-A22B-FP8", "Qwen3-MoE"),
        ("Qwen/Qwen3-8B", "Qwen3"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3-Next"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL"),
        ("zai-org/GLM-4.5V", None),
        ("somebody/model", None),
    ],
)
def test_a_public_model_is_known_by_its_name(path: str, name: str | None) -> None:
    found = by_name(path)
    assert (found.name if found is not None else None) == name

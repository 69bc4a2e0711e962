"""The decode benchmark's model families: what is written of them, and the weights that engines fill in."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "decode_bench" / "startup")]

import bench_weights  # noqa: E402
from decode_bench import models  # noqa: E402

if TYPE_CHECKING:
    from support.releases import Releases

HIDDEN, VOCABULARY, HEADS, HEAD = 128, 512, 4, 32


@pytest.fixture(params=models.MODELS.values(), ids=lambda model: model.name)
def model(request: pytest.FixtureRequest) -> models.Model:
    found: models.Model = request.param
    return found


def test_a_model_without_a_draft_is_one_folder_and_with_one_it_is_two(
    model: models.Model, tmp_path: Path
) -> None:
    target, draft = models.write(model, tmp_path)
    assert json.loads((Path(target) / "config.json").read_text()) == dict(model.target)
    assert (draft == target) == (model.draft is None)
    if model.draft is not None:
        assert json.loads((Path(draft) / "config.json").read_text()) == dict(model.draft)


def test_folders_that_are_there_are_used_again(model: models.Model, tmp_path: Path) -> None:
    first = models.write(model, tmp_path)
    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.json")}
    assert models.write(model, tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.json")} == written


def test_a_folder_of_another_configuration_is_named_and_not_overwritten(
    model: models.Model, tmp_path: Path
) -> None:
    models.write(model, tmp_path)
    other = replace(model, target={**model.target, "hidden_size": 64})
    with pytest.raises(models.ModelError, match=rf"{model.name}/config\.json .* remove .* run again"):
        models.write(other, tmp_path)
    assert models.write(model, tmp_path)


def test_a_name_that_is_none_is_answered_with_those_there_are() -> None:
    with pytest.raises(models.ModelError, match=r"'llama' is no model .* deepseek-mla, .*gemma3"):
        models.model("llama")
    assert models.model("olmo3").family == "Olmo3"


def test_a_prompt_means_the_same_to_every_model(model: models.Model) -> None:
    for config in filter(None, (model.target, model.draft)):
        assert config["vocab_size"] == models.VOCABULARY
        # A head that is the embedding would only repeat the last token.
        assert config["tie_word_embeddings"] is False
        assert config["dtype"] == "bfloat16"
    assert model.options["load_format"] == "dummy"


def test_a_model_with_a_window_has_layers_with_it_and_without(model: models.Model) -> None:
    kinds = model.target.get("layer_types") or model.target.get("hybrid_layer_pattern")
    if "sliding_window" in model.target or "sliding_window_size" in model.target:
        assert isinstance(kinds, list)
        assert len(kinds) == model.target["num_hidden_layers"]
        assert len(set(kinds)) == 2


def test_a_draft_of_eagle3_can_hand_an_embedding_on(model: models.Model) -> None:
    if model.draft is not None:
        assert model.draft["num_key_value_heads"] == model.draft["num_attention_heads"]
        assert model.draft["hidden_size"] == model.target["hidden_size"]


class QKVParallelLinear(nn.Linear):
    """As sglang's, whose rows are queries, keys and values."""

    def __init__(self, columns: int, heads: int, kv_heads: int, *, rank: int = 0, ranks: int = 1) -> None:
        super().__init__(columns, (heads + 2 * kv_heads) * HEAD // ranks, bias=False)
        self.num_heads, self.num_kv_heads, self.head_size = heads // ranks, kv_heads // ranks, HEAD
        self.tp_rank, self.tp_size = rank, ranks


class RMSNorm(nn.Module):
    def __init__(self, size: int = HIDDEN) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.weight * hidden / hidden.square().mean(-1, keepdim=True).sqrt()


class GemmaRMSNorm(RMSNorm):
    def __init__(self, size: int = HIDDEN) -> None:
        super().__init__(size)
        self.register_buffer("gemma_weight", torch.empty(size), persistent=False)


class Attention(nn.Module):
    def __init__(self, columns: int = HIDDEN) -> None:
        super().__init__()
        self.qkv_proj = QKVParallelLinear(columns, HEADS, HEADS)
        self.o_proj = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        queries, keys, values = self.qkv_proj(hidden).unflatten(-1, (3, HEADS, HEAD)).permute(1, 2, 0, 3)
        found = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        attended: torch.Tensor = self.o_proj(found.transpose(0, 1).flatten(1))
        return attended


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down_proj = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj(hidden).chunk(2, -1)
        added: torch.Tensor = self.down_proj(nn.functional.silu(gate) * up)
        return added


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(), RMSNorm()
        self.self_attn, self.mlp = Attention(), Mlp()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden))
        added: torch.Tensor = self.mlp(self.post_attention_layernorm(hidden))
        return hidden + added


class Part(nn.Module):
    """Holds what is given to it by name."""

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)


class Toy(Part):
    """A target of four layers with sglang's names."""

    layers = 4

    def __init__(self) -> None:
        super().__init__()
        self.model = Part()
        self.model.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.model.layers = nn.ModuleList(Layer() for _ in range(self.layers))
        self.model.norm = RMSNorm()
        self.lm_head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    @torch.no_grad()
    def next_tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lm_head(self.model.norm(self.hidden(tokens))).argmax(-1)
        return found

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            hidden = layer(hidden)
        return hidden

    def generated(self, prompt: torch.Tensor, count: int) -> list[int]:
        tokens = prompt
        for _ in range(count):
            tokens = torch.cat([tokens, self.next_tokens(tokens)[-1:]])
        return tokens[len(prompt) :].tolist()


class ToyForCausalLMNextN(Toy):
    """A draft of one layer whose input is the embedding beside the target's hidden state."""

    layers = 1

    def __init__(self) -> None:
        super().__init__()
        self.model.eh_proj = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.model.enorm, self.model.hnorm = RMSNorm(), RMSNorm()

    @torch.no_grad()
    def guesses(self, target: Toy, tokens: torch.Tensor) -> torch.Tensor:
        known = self.model.hnorm(target.hidden(tokens)[:-1])
        embedding = self.model.enorm(self.model.embed_tokens(tokens[1:]))
        hidden = self.model.layers[0](self.model.eh_proj(torch.cat([embedding, known], -1)))
        found: torch.Tensor = self.lm_head(self.model.norm(hidden)).argmax(-1)
        return found


class ToyForCausalLMEagle3(Part):
    """A draft of one layer whose attention sees the embedding beside the hidden state, and adds to that."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.fc = nn.Linear(3 * HIDDEN, HIDDEN, bias=False)
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm = (
            RMSNorm(),
            RMSNorm(),
            RMSNorm(),
        )
        self.self_attn, self.mlp, self.norm = Attention(2 * HIDDEN), Mlp(), RMSNorm()
        self.lm_head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def step(self, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        embedding = self.input_layernorm(self.embed_tokens(tokens))
        hidden = hidden + self.self_attn(torch.cat([embedding, self.hidden_norm(hidden)], -1))
        added: torch.Tensor = self.mlp(self.post_attention_layernorm(hidden))
        return hidden + added

    @torch.no_grad()
    def guesses(self, target: Toy, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the first and the second draft step guess, of which the second has the first's state."""
        first = self.step(self.fc(target.hidden(tokens)[:-1].repeat(1, 3)), tokens[1:])
        second = self.step(first[:-1], tokens[2:])
        first, second = (self.lm_head(self.norm(hidden)).argmax(-1) for hidden in (first, second))
        return first, second


class Parts(nn.Module):
    """One of each parameter that layers of other families have."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.Module()
        self.experts.w13_weight = nn.Parameter(torch.empty(4, 2 * HIDDEN, HIDDEN))
        self.experts.w13_weight_bias = nn.Parameter(torch.empty(4, 2 * HIDDEN))
        self.experts.w2_weight = nn.Parameter(torch.empty(4, HIDDEN, HIDDEN))
        self.gate = nn.Linear(HIDDEN, 4, bias=True)
        self.gate.e_score_correction_bias = nn.Parameter(torch.empty(4))
        self.mixer = nn.Module()
        self.mixer.A = nn.Parameter(torch.empty(64))
        self.mixer.A_log = nn.Parameter(torch.empty(64))
        self.mixer.D = nn.Parameter(torch.empty(64))
        self.mixer.dt_bias = nn.Parameter(torch.empty(64))
        self.mixer.conv1d = nn.Conv1d(64, 64, 4, groups=64)
        self.self_attn = nn.Module()
        self.self_attn.sinks = nn.Parameter(torch.empty(HEADS))
        self.self_attn.q_b_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.self_attn.kv_b_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.self_attn.q_norm, self.self_attn.k_norm = GemmaRMSNorm(HEAD), GemmaRMSNorm(HEAD)
        self.slots = nn.Parameter(torch.zeros(3, dtype=torch.long), requires_grad=False)


def filled(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.fill_(torch.nan)
        bench_weights.fill(model)
    return model


@pytest.fixture(scope="module")
def toy() -> Toy:
    return filled(Toy())  # type: ignore[return-value]


def tokens(count: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randint(bench_weights.SPECIAL, VOCABULARY, (count,), generator=drawn)


@pytest.mark.parametrize("kind", [Toy, ToyForCausalLMNextN, ToyForCausalLMEagle3, Parts])
def test_every_parameter_is_filled_and_the_same_name_gives_the_same_numbers(kind: type[nn.Module]) -> None:
    first, second = filled(kind()), filled(kind())
    for (name, one), other in zip(first.named_parameters(), second.parameters(), strict=True):
        assert one.isfinite().all(), name
        assert torch.equal(one, other), name


def test_layers_are_not_alike(toy: Toy) -> None:
    first, second = (layer.self_attn.qkv_proj.weight for layer in toy.model.layers[:2])
    assert not torch.equal(first, second)


def test_what_is_generated_is_no_cycle_of_two_tokens(toy: Toy) -> None:
    generated = toy.generated(tokens(32), 64)
    assert len(set(generated)) > len(generated) / 4
    assert min(generated) >= bench_weights.SPECIAL


def test_one_stale_entry_and_a_length_that_is_off_by_one_change_tokens(toy: Toy) -> None:
    right = toy.next_tokens(tokens(256))
    stale = tokens(256)
    stale[5] = 7
    assert (toy.next_tokens(stale)[6:] != right[6:]).float().mean() > 0.01
    assert (toy.next_tokens(tokens(256)[1:]) != right[1:]).float().mean() > 0.01


def test_a_prediction_layer_is_right_often_and_not_always(toy: Toy) -> None:
    draft = filled(ToyForCausalLMNextN())
    assert isinstance(draft, ToyForCausalLMNextN)
    agreed = (draft.guesses(toy, tokens(256)) == toy.next_tokens(tokens(256))[1:]).float().mean()
    assert 0.2 < agreed < 0.95


def test_a_draft_of_eagle3_is_right_often_in_its_second_step_too(toy: Toy) -> None:
    draft = filled(ToyForCausalLMEagle3())
    assert isinstance(draft, ToyForCausalLMEagle3)
    right = toy.next_tokens(tokens(256))
    first, second = draft.guesses(toy, tokens(256))
    assert 0.2 < (first == right[1:]).float().mean() < 0.95
    assert 0.2 < (second == right[2:]).float().mean() < 0.95


def test_ranks_split_a_matrix_differently_and_have_the_same_of_what_is_whole() -> None:
    def rank(number: int) -> dict[str, torch.Tensor]:
        part = nn.Module()
        part.qkv_proj = QKVParallelLinear(HIDDEN, HEADS, HEADS, rank=number, ranks=2)
        part.gate = nn.Linear(HIDDEN, 4, bias=False)
        return dict(filled(part).named_parameters())

    first, second = rank(0), rank(1)
    assert not torch.equal(first["qkv_proj.weight"], second["qkv_proj.weight"])
    assert torch.equal(first["gate.weight"], second["gate.weight"])


def test_the_ranks_of_an_eagle3_draft_pass_the_columns_of_their_own_heads() -> None:
    def rank(number: int, ranks: int) -> torch.Tensor:
        part = ToyForCausalLMEagle3()
        part.self_attn.qkv_proj = QKVParallelLinear(2 * HIDDEN, HEADS, HEADS, rank=number, ranks=ranks)
        return filled(part).get_parameter("self_attn.qkv_proj.weight")

    whole = rank(0, 1).unflatten(0, (3, HIDDEN))
    halves = [rank(number, 2).unflatten(0, (3, HIDDEN // 2)) for number in range(2)]
    assert torch.equal(torch.cat(halves, 1), whole)


def test_a_state_decays_and_a_norm_that_adds_one_has_its_sum() -> None:
    parts = filled(Parts())
    assert (parts.get_parameter("mixer.A") < 0).all()
    norm = parts.get_submodule("self_attn.q_norm")
    assert torch.equal(norm.get_buffer("gemma_weight"), norm.get_parameter("weight") + 1)
    assert norm.get_buffer("gemma_weight").unique().tolist() == [bench_weights.SCORE]


def test_what_is_no_number_is_left_alone() -> None:
    assert filled(Parts()).get_parameter("slots").tolist() == [0, 0, 0]


def test_a_quantized_model_is_refused_by_the_name_of_its_parameter() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(torch.zeros(2, 2).to(torch.float8_e4m3fn), requires_grad=False)
    with pytest.raises(ValueError, match=r"weight is quantized .* give the model no quantization"):
        bench_weights.fill(model)


def test_a_draft_of_eagle3_with_too_few_key_heads_is_refused_with_what_it_needs() -> None:
    draft = ToyForCausalLMEagle3()
    draft.self_attn.qkv_proj = QKVParallelLinear(2 * HIDDEN, HEADS, HEADS // 2)
    with pytest.raises(ValueError, match=r"self_attn\.qkv_proj .* num_key_value_heads .* hidden_size"):
        bench_weights.fill(draft)


def loading(tree: Path, program: str, function: str = "initialize_dummy_weights") -> str:
    """Run a program beside a tree whose loader takes the filling function by name, and return what it says."""
    package = tree / "sglang" / "srt" / "model_loader"
    package.mkdir(parents=True)
    for folder in (tree / "sglang", tree / "sglang" / "srt", package):
        (folder / "__init__.py").touch()
    (package / "weight_utils.py").write_text(f"def {function}(model): pass\n")
    (package / "loader.py").write_text(f"from .weight_utils import {function}\n")
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={"PYTHONPATH": f"{tree}:{SCRIPTS / 'decode_bench' / 'startup'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_the_loader_takes_the_benchmarks_function_and_nothing_else_is_imported(tmp_path: Path) -> None:
    output = loading(
        tmp_path,
        """
        import sys, bench_weights
        bench_weights.install()
        assert "torch" not in sys.modules and "sglang" not in sys.modules
        from sglang.srt.model_loader import loader
        print(loader.initialize_dummy_weights is bench_weights.fill)
        """,
    )
    assert output == "True\n"


def test_a_loader_that_is_imported_already_is_named(tmp_path: Path) -> None:
    output = loading(
        tmp_path,
        """
        import sglang.srt.model_loader.loader, bench_weights
        bench_weights.install()
        """,
    )
    assert "RuntimeError: sglang.srt.model_loader.loader is imported already" in output


def test_a_tree_that_fills_weights_by_another_name_is_no_silent_success(tmp_path: Path) -> None:
    output = loading(
        tmp_path,
        """
        import bench_weights
        bench_weights.install()
        import sglang.srt.model_loader.loader
        """,
        function="fill_randomly",
    )
    assert "sglang.srt.model_loader.weight_utils has no initialize_dummy_weights" in output


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.14"])
def test_a_release_serves_the_architectures_and_fills_weights_before_it_derives_others(
    version: str, releases: Releases
) -> None:
    srt = releases.tree(version).root / "sglang" / "srt"
    served = {
        name
        for file in (srt / "models").glob("*.py")
        for entries in re.findall(r"^EntryClass = (.*?)(?:\n\n|\Z)", file.read_text(), re.M | re.S)
        for name in re.findall(r"\w+", entries)
    }
    # Olmo3 is served by its predecessor's class, which the tree's configuration names.
    architectures = {model.target["architectures"][0] for model in models.MODELS.values()}  # type: ignore[index]
    architectures -= {"Olmo3ForCausalLM"}
    drafts = {model.draft["architectures"][0] for model in models.MODELS.values() if model.draft}  # type: ignore[index]
    assert architectures | drafts | {"Olmo2ForCausalLM"} <= served
    loader = (srt / "model_loader" / "loader.py").read_text()
    assert f"    {bench_weights.FUNCTION},\n" in loader
    assert re.search(rf"{bench_weights.FUNCTION}\(model\)\n\n? *_post_load_weights\(model\)", loader)
    weights = (srt / "model_loader" / "weight_utils.py").read_text()
    assert f"def {bench_weights.FUNCTION}(" in weights


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.14"])
def test_a_release_has_every_option_of_every_model(version: str, releases: Releases) -> None:
    root = releases.tree(version).root
    settings = ast.parse((root / "sglang" / "srt" / "server_args.py").read_text())
    known = {
        field.target.id
        for kind in settings.body
        if isinstance(kind, ast.ClassDef) and kind.name == "ServerArgs"
        for field in kind.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    for model in models.MODELS.values():
        assert set(model.options) <= known

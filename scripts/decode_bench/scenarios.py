"""The scenarios: requests, from a fixed seed, and server settings."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from .models import MODELS, TOKEN_MAP, VOCABULARY, Option, token_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The most requests that run at the same time.
SLOTS = 16
# Tokens of KV cache, more than a scenario needs.
ROOM = 40960
# Clock cycles, about a millisecond: longer than the host takes to prepare a step, so that every missing wait
# has an effect.
PAUSE = 2_000_000
_TEMPERATURE = 0.8

# Replaced by the folder of the target's checkpoint in a server's options.
TARGET = "the target's checkpoint"
_ROLES = ("prefill", "decode")
# Of the servers that show what happens at the edges: requests side by side in the largest graph, and at all; tokens
# of a request.
_GRAPH, _RUNNING, _CONTEXT = 8, 12, 1024


@dataclass(frozen=True)
class Request:
    """One prompt and its limits; steps are decode steps since the first batch of its run."""

    prompt: tuple[int, ...]
    new_tokens: int
    # Sampling parameters that change the scores or probabilities of tokens.
    penalties: Mapping[str, float | tuple[int, ...]] = field(default_factory=dict)
    enters: int = 0
    # 0: never.
    aborted: int = 0
    # Tokens after which the request's grammar ends it; 0: no grammar.
    grammar: int = 0
    # 0: the likeliest token, else the random numbers of a run are the same in every tree.
    temperature: float = 0


@dataclass(frozen=True)
class Server:
    """Engine settings besides the common ones."""

    options: Mapping[str, Option] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    # None: the Llama of `checkpoint.py`.
    model: str | None = None
    # Settings with which a tree crashes without its patches.
    of_patched: Mapping[str, Option] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """The number of GPUs of an engine."""
        return int(self.options.get("tp_size") or 1)

    @property
    def family(self) -> str:
        """The model's name."""
        return MODELS[self.model].family if self.model else "Llama"

    @property
    def layers(self) -> int | None:
        """The number of layers of the model; None if the caller chooses it."""
        return int(str(MODELS[self.model].target["num_hidden_layers"])) if self.model else None

    @property
    def backend(self) -> str:
        """The attention backend; if there are two, that for prefill before that for decode."""
        chosen = self.settings("", "")
        both = [chosen.get(f"{role}_attention_backend") or chosen["attention_backend"] for role in _ROLES]
        return "+".join(dict.fromkeys(map(str, both)))

    @property
    def algorithm(self) -> str:
        """The speculative algorithm, or "none"."""
        return str(self.settings("", "").get("speculative_algorithm") or "none")

    def settings(self, target: str, draft: str, *, patched: bool = False) -> dict[str, Option]:
        """Return all settings of an engine with these checkpoints, of a patched tree or another."""
        of_model = MODELS[self.model].options if self.model else {}
        chosen = {**common_options(target, draft), **of_model, **self.options}
        chosen |= self.of_patched if patched else {}
        files = {TARGET: target, TOKEN_MAP: token_map(target)}
        return {name: files.get(str(value), value) for name, value in chosen.items()}


@dataclass(frozen=True)
class Scenario:
    """Requests, their server, and what is recorded."""

    name: str
    requests: Sequence[Request]
    server: Server = Server()
    logprobs: bool = False
    pause: int = 0
    # Requests side by side from the first step on; None if they vary.
    batch: int | None = None
    # The KV cache is too small for the requests, so that some must be retracted.
    scarce: bool = False

    @property
    def label(self) -> str:
        """The name, with the batch size if there is one."""
        return self.name if self.batch is None else f"{self.name} {self.batch}"


def common_options(target: str, draft: str) -> dict[str, Option]:
    """Return the settings of every engine: EAGLE3 with three draft steps, on the Triton attention backend."""
    return {
        "model_path": target,
        "speculative_draft_model_path": draft,
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "skip_tokenizer_init": True,
        "attention_backend": "triton",
        "sampling_backend": "pytorch",
        "grammar_backend": "none",
        "disable_piecewise_cuda_graph": True,
        "disable_radix_cache": True,
        "cuda_graph_max_bs": SLOTS,
        "max_running_requests": SLOTS,
        "context_length": 4096,
        # Engines of several trees share the GPU: each allocates `max_total_tokens`, not a share of the free
        # memory.
        "mem_fraction_static": 0.8,
        "max_total_tokens": ROOM,
        "random_seed": 1,
        "log_level": "info",
        # Idle engines must not use cores.
        "sleep_on_idle": True,
    }


class _Draw:
    """Random prompts and numbers, seeded by the scenario's name."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)

    def prompt(self, length: int) -> tuple[int, ...]:
        # The lowest ids are special tokens.
        return tuple(self._random.randrange(3, VOCABULARY) for _ in range(length))

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def _straight(batch: int) -> Scenario:
    draw = _Draw("straight")
    requests = [Request(draw.prompt(128), new_tokens=512) for _ in range(batch)]
    return Scenario("straight", requests, batch=batch)


def _staggered() -> Scenario:
    draw = _Draw("staggered")
    requests = [Request(draw.prompt(64 + 8 * i), new_tokens=16 + 17 * i) for i in range(SLOTS)]
    return Scenario("staggered", requests)


def _late() -> Scenario:
    draw = _Draw("late")
    requests = [
        Request(draw.prompt(draw.number(16, 256)), new_tokens=160, enters=7 * i) for i in range(SLOTS)
    ]
    return Scenario("late", requests)


def _abort() -> Scenario:
    draw = _Draw("abort")
    # While it waits for a slot; alone; two in one step; just after it started.
    aborted = {16: 9, 1: 20, 4: 45, 5: 45, 18: 62}
    enters = {16: 5, 17: 60, 18: 60, 19: 60}
    requests = [
        Request(draw.prompt(96), new_tokens=200, enters=enters.get(i, 0), aborted=aborted.get(i, 0))
        for i in range(SLOTS + 4)
    ]
    return Scenario("abort", requests)


def _mixture(name: str, longest: int = 192) -> list[Request]:
    """Requests that end, arrive and are aborted while others run."""
    draw = _Draw(name)
    requests = [
        Request(draw.prompt(draw.number(16, longest)), draw.number(32, 224), enters=12 * max(0, i - 7))
        for i in range(2 * SLOTS - 8)
    ]
    third = requests[2]
    requests[2] = Request(third.prompt, new_tokens=224, aborted=30)
    return requests


def _random() -> Scenario:
    draw = _Draw("random")
    requests = [
        Request(draw.prompt(draw.number(1, 400)), draw.number(1, 160), enters=draw.number(0, 900))
        for _ in range(300)
    ]
    return Scenario("random", requests)


def _arriving(name: str, options: Mapping[str, Option], model: str | None = None) -> Scenario:
    """Return requests that arrive while others run: one at first, then faster until 32 are side by side."""
    draw = _Draw("arriving")
    enters = accumulate((max(1, 16 >> i // 12) for i in range(95)), initial=0)
    requests = [
        Request(draw.prompt(draw.number(16, 384)), draw.number(64, 256), enters=step) for step in enters
    ]
    limits = {"cuda_graph_max_bs": 32, "max_running_requests": 32, "context_length": _CONTEXT}
    return Scenario(name, requests, Server({**options, **limits}, {}, model))


def _prefills() -> Scenario:
    """Return requests of few tokens, so that a prefill follows nearly every step."""
    draw = _Draw("prefills")
    requests = [Request(draw.prompt(draw.number(16, 256)), draw.number(4, 12), enters=i) for i in range(384)]
    return replace(_arriving("prefills", {}), requests=requests)


def _edges(name: str, grammar: bool = False) -> list[Request]:
    """Requests that fill the largest graph, then exceed it, and end at or before the context limit.

    With a grammar, every second one ends at the grammar's last token.
    """
    draw = _Draw(name)
    full = [Request(draw.prompt(_CONTEXT - 160 + i), new_tokens=152 - i) for i in range(_GRAPH)]
    more = [
        Request(draw.prompt(draw.number(16, 400)), draw.number(8, 160), enters=12 + 9 * i)
        for i in range(2 * _RUNNING)
    ]
    requests = [*full, *more]
    if not grammar:
        return requests
    return [
        replace(request, grammar=draw.number(5, 60) if number % 2 else 0)
        for number, request in enumerate(requests)
    ]


def _penalised(batch: int) -> Scenario:
    """Return the straight scenario with penalties, of which one keeps requests from ending early."""
    plain = _straight(batch)
    requests = [
        replace(request, penalties={"min_new_tokens": request.new_tokens, "frequency_penalty": 0.5})
        for request in plain.requests
    ]
    return replace(plain, name="penalties-straight", requests=requests)


def _some_penalised(name: str) -> list[Request]:
    """Return the mixture, in which requests with one penalty, with several and with none run side by side.

    Those with ``min_new_tokens`` end at so many tokens that most would end before it.
    """
    ends = tuple(range(0, VOCABULARY, 20))
    kinds: Sequence[Mapping[str, float | tuple[int, ...]]] = (
        {},
        {"min_new_tokens": 24, "stop_token_ids": ends},
        {"frequency_penalty": 0.5, "presence_penalty": 0.25},
        {"min_new_tokens": 16, "frequency_penalty": -0.5, "stop_token_ids": ends},
    )
    return [
        replace(request, penalties=kinds[number % len(kinds)])
        for number, request in enumerate(_mixture(name))
    ]


def _shared_prefixes() -> list[Request]:
    """Requests with common prefixes, some longer than a page and some not, more than the cache can hold."""
    draw = _Draw("radix")
    prefixes = [draw.prompt(length) for length in (160, 200, 333)]
    return [
        Request(
            prefixes[i % 3] + draw.prompt(draw.number(1, 120)),
            draw.number(48, 320),
            enters=5 * max(0, i - 11),
        )
        for i in range(40)
    ]


def _queueing() -> list[Request]:
    draw = _Draw("queueing")
    return [Request(draw.prompt(draw.number(64, 192)), draw.number(192, 384)) for _ in range(2 * SLOTS)]


def _scarce(tokens: int) -> Mapping[str, Option]:
    """Requests that must be retracted: a small cache, and too low an estimate of what a request needs."""
    return {"max_total_tokens": tokens, "schedule_conservativeness": 0.1}


# Its prefill kernels do not support this GPU, so Triton runs prefill, verify and extend.
_TRTLLM_MHA: Mapping[str, Option] = {
    "prefill_attention_backend": "triton",
    "decode_attention_backend": "trtllm_mha",
    "page_size": 64,
}


# Few enough for a graph to be full, and more than a graph holds.
_EDGES: Mapping[str, Option] = {
    "cuda_graph_max_bs": _GRAPH,
    "max_running_requests": _RUNNING,
    "context_length": _CONTEXT,
}
# Sums that do not depend on the batch: any difference is a defect.
_DETERMINISTIC: Mapping[str, Option] = {"enable_deterministic_inference": True}
# A request's states are tracked beside it, for the radix cache to take over.
_MAMBA_BUFFER: Mapping[str, Option] = {
    "mamba_scheduler_strategy": "extra_buffer",
    "disable_radix_cache": False,
    # Left to sglang, the states take half of the memory that is free.
    "max_mamba_cache_size": 96,
}
# A decode server whose requests arrive without a transfer: their prompts' cache is what the slots contain.
_DECODE_SERVER: Mapping[str, Option] = {
    "disaggregation_mode": "decode",
    "disaggregation_transfer_backend": "fake",
}
# sglang's default.
_PIECEWISE: Mapping[str, Option] = {"disable_piecewise_cuda_graph": False}
_FA3: Mapping[str, Option] = {"attention_backend": "fa3"}
_FLASHINFER: Mapping[str, Option] = {"attention_backend": "flashinfer"}
_FLASHMLA: Mapping[str, Option] = {"attention_backend": "flashmla", "page_size": 64}
_FA3_PREFILL: Mapping[str, Option] = {
    "attention_backend": None,
    "prefill_attention_backend": "fa3",
    "decode_attention_backend": "triton",
}
# Before 0.5.13 a larger top-k needs spec v1.
_TOP_K_4: Mapping[str, Option] = {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}
# The target is its own draft, so that every draft token is accepted unless an engine is wrong.
_STANDALONE: Mapping[str, Option] = {
    "speculative_algorithm": "STANDALONE",
    "speculative_draft_model_path": TARGET,
}
_NO_SPECULATION: Mapping[str, Option] = dict.fromkeys(
    (
        "speculative_draft_model_path",
        "speculative_algorithm",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
    )
)


_NGRAM: Mapping[str, Option] = {
    **_NO_SPECULATION,
    "speculative_algorithm": "NGRAM",
    "speculative_num_draft_tokens": 8,
}


# Each of two GPUs has every second request.
_DP: Mapping[str, Option] = {"tp_size": 2, "dp_size": 2, "enable_dp_attention": True}
_SHARED: Mapping[str, str] = {"PATCHKIT_BENCH_SHARES": "2"}


def _side_by_side(name: str) -> list[Request]:
    """Requests of which one GPU's end long before the other's, so that it is idle while the other decodes."""
    draw = _Draw(name)
    return [Request(draw.prompt(draw.number(16, 300)), 40 + 120 * (i % 2)) for i in range(SLOTS)]


def _steps(count: int) -> Mapping[str, Option]:
    return {"speculative_num_steps": count, "speculative_num_draft_tokens": count + 1}


def _edge(
    name: str, options: Mapping[str, Option], model: str | None = None, grammar: bool = False
) -> Scenario:
    """Return the `_edges` scenario on a server."""
    environment = {"PATCHKIT_BENCH_GRAMMAR": "1"} if grammar else {}
    server = Server({**_EDGES, **options}, environment, model)
    return Scenario(name, _edges(name, grammar), server)


def _of_model(model: str, batches: Sequence[int], on: str = "", **options: Option) -> list[Scenario]:
    """Return the scenarios of a model family, straight and edges; the names start with ``on``."""
    edges = _edge(f"{on}{model}-edges", options, model)
    return [
        *(
            replace(_straight(batch), name=f"{on}{model}-straight", server=edges.server)
            for batch in batches
            if batch <= _RUNNING
        ),
        edges,
    ]


def _sampled(batch: int | None = None) -> Scenario:
    """Return requests that are sampled without a top-k or a top-p: the straight ones, or a mixture with greedy ones."""
    scenario = _straight(batch) if batch else Scenario("sampled", _mixture("sampled"))
    requests = [
        request if batch is None and number % 3 == 0 else replace(request, temperature=_TEMPERATURE)
        for number, request in enumerate(scenario.requests)
    ]
    return replace(scenario, name="sampled-straight" if batch else "sampled", requests=requests)


def _cut(name: str) -> list[Request]:
    """Return the mixture, sampled: every second request leaves out the least likely tokens."""
    return [
        replace(
            request, temperature=_TEMPERATURE, penalties={"top_k": 40, "top_p": 0.8} if number % 2 else {}
        )
        for number, request in enumerate(_mixture(name))
    ]


def _straight_on(name: str, options: Mapping[str, Option], batches: Sequence[int]) -> list[Scenario]:
    """Return the straight scenario on another server, once per batch size."""
    return [replace(_straight(batch), name=name, server=Server(options)) for batch in batches]


def _long(context: int, batch: int, options: Mapping[str, Option]) -> Scenario:
    """Return requests that fill a context of that many tokens, except for the generated ones."""
    name = f"{'fa3-' if options else ''}long-{context // 1024}k"
    draw = _Draw(name)
    requests = [Request(draw.prompt(context - 1024), new_tokens=512) for _ in range(batch)]
    limits = {
        "context_length": context,
        "max_total_tokens": batch * context + ROOM,
        "cuda_graph_max_bs": batch,
    }
    return Scenario(name, requests, Server({**options, **limits}), batch=batch)


def scenarios(batches: Sequence[int]) -> list[Scenario]:
    """Return every scenario, the straight ones once per batch size."""
    return [
        *map(_straight, batches),
        *map(_sampled, batches),
        _sampled(),
        Scenario("sampled-top-p", _cut("sampled-top-p")),
        _staggered(),
        _late(),
        _abort(),
        Scenario("delayed", _mixture("delayed"), pause=PAUSE),
        Scenario("logprobs", _mixture("logprobs"), logprobs=True),
        _random(),
        Scenario("queueing", _queueing(), Server(_scarce(3072)), scarce=True),
        Scenario("no-graph", _mixture("no-graph"), Server({"disable_cuda_graph": True})),
        Scenario("no-overlap", _mixture("no-overlap"), Server({"disable_overlap_schedule": True})),
        Scenario(
            "chunked",
            _mixture("chunked", longest=1500),
            Server({"chunked_prefill_size": 256, "enable_mixed_chunk": True}),
        ),
        Scenario(
            "metrics",
            _mixture("metrics"),
            Server({"enable_metrics": True, "enable_forward_pass_metrics": True}),
        ),
        Scenario(
            "patched-metrics",
            _mixture("metrics"),
            Server({"enable_metrics": True}, of_patched={"enable_forward_pass_metrics": True}),
        ),
        Scenario(
            "standalone-patched-metrics",
            _mixture("metrics"),
            Server({**_STANDALONE, "enable_metrics": True}, of_patched={"enable_forward_pass_metrics": True}),
        ),
        Scenario("server-metrics", _mixture("server-metrics"), Server({"enable_metrics": True})),
        Scenario(
            "plan-stream",
            _mixture("plan-stream"),
            Server(environment={"SGLANG_ENABLE_OVERLAP_PLAN_STREAM": "1"}),
        ),
        Scenario(
            "hybrid-plan-stream",
            _mixture("hybrid-plan-stream"),
            Server(_TRTLLM_MHA, {"SGLANG_ENABLE_OVERLAP_PLAN_STREAM": "1"}),
        ),
        Scenario(
            "radix",
            _shared_prefixes(),
            Server({"page_size": 16, "disable_radix_cache": False, **_scarce(2560)}),
            scarce=True,
        ),
        Scenario("trtllm-mha", _mixture("trtllm-mha"), Server(_TRTLLM_MHA)),
        Scenario(
            "trtllm-mha-no-graph",
            _mixture("trtllm-mha-no-graph"),
            Server({**_TRTLLM_MHA, "disable_cuda_graph": True}),
        ),
        *_straight_on("trtllm-mha-straight", _TRTLLM_MHA, batches),
        *_straight_on("default-straight", _PIECEWISE, batches),
        Scenario("default", _mixture("default"), Server(_PIECEWISE)),
        *_straight_on("fa3-straight", _FA3, batches),
        Scenario("fa3", _mixture("fa3"), Server(_FA3)),
        Scenario("fa3-delayed", _mixture("fa3-delayed"), Server(_FA3), pause=PAUSE),
        Scenario("fa3-no-graph", _mixture("fa3-no-graph"), Server({**_FA3, "disable_cuda_graph": True})),
        *_straight_on("fa3-default-straight", {**_FA3, **_PIECEWISE}, batches),
        Scenario("fa3-prefill", _mixture("fa3-prefill"), Server(_FA3_PREFILL)),
        *_straight_on("flashinfer-straight", _FLASHINFER, batches),
        Scenario("flashinfer", _mixture("flashinfer"), Server(_FLASHINFER)),
        Scenario("flashinfer-delayed", _mixture("flashinfer-delayed"), Server(_FLASHINFER), pause=PAUSE),
        Scenario("top-k-4", _mixture("top-k-4"), Server(_TOP_K_4)),
        Scenario("fa3-top-k-4", _mixture("fa3-top-k-4"), Server({**_FA3, **_TOP_K_4})),
        Scenario("flashinfer-top-k-4", _mixture("flashinfer-top-k-4"), Server({**_FLASHINFER, **_TOP_K_4})),
        Scenario("standalone", _mixture("standalone"), Server(_STANDALONE)),
        *(
            Scenario(
                f"fa3-standalone-no-overlap{name}",
                _mixture("fa3-standalone-no-overlap"),
                Server({**_FA3, **_STANDALONE, **options, "disable_overlap_schedule": True}),
            )
            for name, options in (("", {}), ("-deterministic", _DETERMINISTIC))
        ),
        Scenario(
            "spec-v1", _mixture("spec-v1"), Server(_PIECEWISE, environment={"SGLANG_ENABLE_SPEC_V2": "0"})
        ),
        Scenario("no-speculation", _mixture("no-speculation"), Server({**_PIECEWISE, **_NO_SPECULATION})),
        *_straight_on("tensor-parallel", {**_PIECEWISE, "tp_size": 2}, batches),
        *(
            Scenario(f"{name}dp-attention", _side_by_side(f"{name}dp-attention"), Server(_DP, _SHARED, model))
            for name, model in (("", None), ("deepseek-mla-", "deepseek-mla"))
        ),
        *(
            replace(
                _straight(batch),
                name="deepseek-mla-dp-no-overlap",
                server=Server({**_DP, "disable_overlap_schedule": True}, _SHARED, "deepseek-mla"),
            )
            for batch in batches
        ),
        Scenario(
            "deepseek-mla-tensor-parallel", _mixture("mla-tp"), Server({"tp_size": 2}, {}, "deepseek-mla")
        ),
        Scenario(
            "fa3-deepseek-mla-dp-attention-deterministic",
            _side_by_side("fa3-deepseek-mla-dp-attention"),
            Server({**_DP, **_FA3, **_DETERMINISTIC}, _SHARED, "deepseek-mla"),
        ),
        Scenario(
            "fa3-deepseek-mla-tensor-parallel-deterministic",
            _mixture("fa3-mla-tp"),
            Server({"tp_size": 2, **_FA3, **_DETERMINISTIC}, {}, "deepseek-mla"),
        ),
        _edge("edges", {**_PIECEWISE, "piecewise_cuda_graph_max_tokens": 256}),
        _edge("steps-1", _steps(1)),
        _edge("steps-5", _steps(5)),
        *(_edge(f"page-{size}", {"page_size": size}) for size in (16, 64)),
        _edge("grammar", {}, grammar=True),
        _edge("fp8-kv", {"kv_cache_dtype": "fp8_e4m3"}),
        *map(_penalised, batches),
        Scenario("penalties", _some_penalised("penalties")),
        Scenario("penalties-delayed", _some_penalised("penalties-delayed"), pause=PAUSE),
        _edge("deterministic", _DETERMINISTIC),
        _edge("hybrid-edges", _TRTLLM_MHA),
        _edge("fa3-edges", _FA3),
        _edge("fa3-deterministic", {**_FA3, **_DETERMINISTIC}),
        _edge("fa3-grammar", _FA3, grammar=True),
        *(_edge(f"fa3-page-{size}", {**_FA3, "page_size": size}) for size in (16, 64)),
        *(_edge(f"fa3-steps-{count}", {**_FA3, **_steps(count)}) for count in (1, 5)),
        # Above the largest graph FlashAttention-3 splits sums by the table's width, which the patches change.
        _edge("fa3-grammar-deterministic", {**_FA3, **_DETERMINISTIC}, grammar=True),
        *(
            _edge(f"fa3-page-{size}-deterministic", {**_FA3, **_DETERMINISTIC, "page_size": size})
            for size in (16, 64)
        ),
        *(
            _edge(f"fa3-steps-{count}-deterministic", {**_FA3, **_DETERMINISTIC, **_steps(count)})
            for count in (1, 5)
        ),
        _edge("flashinfer-edges", _FLASHINFER),
        _edge("flashinfer-mla-edges", _FLASHINFER, "deepseek-mla"),
        _edge("flashmla-edges", _FLASHMLA, "deepseek-mla"),
        *(
            replace(_straight(batch), name="flashmla-straight", server=Server(_FLASHMLA, {}, "deepseek-mla"))
            for batch in batches
        ),
        _edge("ngram", _NGRAM),
        _edge("standalone-edges", _STANDALONE),
        *(scenario for model in MODELS for scenario in _of_model(model, batches)),
        # Families whose own servers run on another backend.
        *(
            scenario
            for model in ("deepseek-mla", "gpt-oss")
            for scenario in _of_model(model, batches, "fa3-", **_FA3)
        ),
        *(
            Scenario(
                f"fa3-top-k-4-page-2{name}",
                _mixture("fa3-top-k-4-page-2"),
                Server({**_FA3, **_TOP_K_4, "speculative_num_steps": 6, "page_size": 2}, environment),
            )
            for name, environment in (("", {}), ("-disabled", {"PATCHKIT_DISABLE": "pk-fa3-branches"}))
        ),
        *_straight_on("fa3-top-k-4-straight", {**_FA3, **_TOP_K_4}, batches),
        _edge("qwen3-next-buffer", _MAMBA_BUFFER, "qwen3-next"),
        # Neither a batch above the graph nor sums by which tokens that are as good as each other part.
        _edge("nemotron-h-graph", {"cuda_graph_max_bs": _RUNNING}, "nemotron-h"),
        _edge("nemotron-h-deterministic", _DETERMINISTIC, "nemotron-h"),
        _edge("mimo-v2-deterministic", _DETERMINISTIC, "mimo-v2"),
        # Its norms of queries and keys round differently in a graph than in a batch above it.
        _edge("olmo3-deterministic", {**_DETERMINISTIC, "cuda_graph_max_bs": _RUNNING}, "olmo3"),
        _edge("deepseek-mla-no-graph", {"disable_cuda_graph": True}, "deepseek-mla"),
        _edge("hybrid-token-map", _TRTLLM_MHA, "llama-token-map"),
        Scenario("disabled", _edges("disabled"), Server(_EDGES, {"PATCHKIT_DISABLE": "26128"})),
        _edge("olmo3-no-graph", {**_DETERMINISTIC, "disable_cuda_graph": True}, "olmo3"),
        _edge("fa3-deepseek-mla-deterministic", {**_FA3, **_DETERMINISTIC}, "deepseek-mla"),
        _edge("qwen3-next-grammar", _MAMBA_BUFFER, "qwen3-next", grammar=True),
        Scenario(
            "qwen3-next-prefixes",
            _shared_prefixes(),
            Server({**_MAMBA_BUFFER, **_NO_SPECULATION, "mamba_track_interval": 64}, {}, "qwen3-next"),
        ),
        # Some match a cached prefix before there is room for them.
        Scenario(
            "qwen3-next-waiting",
            _shared_prefixes(),
            Server({**_MAMBA_BUFFER, **_NO_SPECULATION, **_scarce(2560)}, {}, "qwen3-next"),
            scarce=True,
        ),
        Scenario("nemotron-h-prefixes", _shared_prefixes(), Server(_MAMBA_BUFFER, {}, "nemotron-h")),
        Scenario("decode-server", _mixture("decode-server"), Server(_DECODE_SERVER)),
        _edge("decode-server-grammar", _DECODE_SERVER, grammar=True),
        _arriving("arriving", {}),
        _prefills(),
        _arriving("fa3-arriving", _FA3),
        _arriving("deepseek-mla-arriving", {}, "deepseek-mla"),
        _arriving("fa3-deepseek-mla-arriving", _FA3, "deepseek-mla"),
        _arriving("fa3-deepseek-mla-arriving-deterministic", {**_FA3, **_DETERMINISTIC}, "deepseek-mla"),
        _arriving("qwen3-next-arriving", {}, "qwen3-next"),
        *(
            _long(context, batch, options)
            for context, batch in ((32768, 4), (131072, 1))
            for options in ({}, _FA3)
        ),
    ]

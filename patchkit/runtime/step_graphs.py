"""Run a part of a step in one graph per batch size, captured beside the tree's own by the tree's own means."""

from __future__ import annotations

import inspect
import logging
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

_logger = logging.getLogger(__name__)
# Options with which a step does more than such a graph, or in another way.
_OPTIONS = {
    "enable_two_batch_overlap": "two batches overlap",
    "moe_a2a_backend": "experts are on other ranks",
    "speculative_moe_a2a_backend": "experts are on other ranks",
    # The draft may write to the target's own, of which a draft-extend's own graph has a copy.
    "enable_return_hidden_states": "requests may ask for hidden states",
    "return_hidden_states_mode": "requests may ask for hidden states",
    "speculative_adaptive": "the number of steps changes",
    "speculative_use_rejection_sampling": "the draft is sampled",
    "enable_lora": "there are adapters",
    "enable_pdmux": "prefills share the GPU",
    "enable_unified_memory": "pools share memory",
    "attn_cp_size": "ranks share a context",
    "dcp_size": "ranks share a context",
    "pp_size": "ranks share the layers",
    "tp_size": "ranks of a tensor-parallel group have not run it",
}
_UNSET = {"None", "False", "0", "1", "none"}
_TARGETS = {"CudaGraphRunner", "DecodeCudaGraphRunner"}

_Graph = TypeVar("_Graph")
_Kind = TypeVar("_Kind", bound="StepGraphs[Any]")


class StepGraphs(Generic[_Graph]):
    """The graphs of a runner that run a part of a step, by size, and how often one did.

    ``step`` and ``kind`` name them in the log: a draft-extend, and a tail graph.
    """

    def __init__(self, step: str, kind: str) -> None:
        self._step, self._kind = step, kind
        self.by_size: dict[int, _Graph] = {}
        self.given_up = False
        self.steps = [0, 0]

    def give_up(self, why: object) -> None:
        """Drop all graphs, and say why."""
        self.given_up = True
        self.by_size.clear()
        _logger.info("patchkit: no %s runs as a %s graph: %s", self._step, self._kind, why)

    def add(self, runner: Any, size: int, capture: Callable[[], _Graph]) -> None:
        """Keep what ``capture`` returns for ``size``, the smallest of ``runner`` last; if it fails, drop all graphs."""
        try:
            self.by_size[size] = capture()
        # Whatever a fork's backend or a compiler raises, the server does without.
        except Exception as error:
            self.give_up(error)
            return
        if size == min(runner.capture_bs):
            sizes = sorted(self.by_size)
            _logger.info("patchkit: %ss of %s requests run as %s graphs", self._step, sizes, self._kind)

    def count(self, *, ran: bool) -> None:
        """Count a step, and log both counts at each power of ten."""
        self.steps[ran] += 1
        total = sum(self.steps)
        if set(str(total)[1:]) <= {"0"} and str(total)[0] == "1":
            ran_as, name = self.steps[True], self._step
            _logger.info("patchkit: of %d %ss, %d ran as a %s graph", total, name, ran_as, self._kind)


def graphs_of(
    runner: Any,
    name: str,
    make: Callable[[Any], _Kind],
    obstacle: Callable[[], str | None],
    without: StepGraphs[Any],
) -> _Kind | None:
    """Return the graphs that ``runner`` has under a name, None if it can have none; the first call decides.

    ``make`` makes them if there is no ``obstacle``; ``without`` stands for them if there is one, or if either fails.
    """
    graphs: Any = getattr(runner, name, None)
    if graphs is None:
        why: object
        try:
            why = obstacle()
            graphs = without if why else make(runner)
        # A fork need not have what is read.
        except Exception as error:
            why, graphs = error, without
        setattr(runner, name, graphs)
        if why:
            graphs.give_up(why)
    made: _Kind | None = None if graphs.given_up else graphs
    return made


def target_of(worker: Any) -> Any:
    """Return what runs the target's graphs."""
    model = worker.target_worker.model_runner
    return getattr(model, "decode_cuda_graph_runner", None) or getattr(model, "graph_runner", None)


def width_of(runner: Any) -> int:
    """Return the tokens of each request in a runner's graphs."""
    width: Any = getattr(runner, "captured_req_width", None) or getattr(runner, "num_tokens_per_bs", 0)
    return int(width)


def backend_of(runner: Any) -> Any:
    """Return what captures a runner's graphs, None in trees whose runners do it themselves."""
    return getattr(runner, "backend", None)


def outputs_of(runner: Any) -> Mapping[Any, Any]:
    """Return the output of each of a runner's graphs, by the key of its replay; none if they are in segments."""
    backend = backend_of(runner)
    if is_in_segments(backend):
        return {}
    return (getattr(runner, "output_buffers", None) if backend is None else backend._outputs) or {}


def is_in_segments(backend: Any) -> bool:
    """Return whether what captures a runner's graphs captures a forward in several."""
    return backend is not None and type(backend).__name__ != "FullCudaGraphBackend"


def obstacles(runner: Any, batch: Any, known: set[str]) -> dict[str, bool]:
    """Return which hold of the reasons for which no part of a step of ``runner``'s worker is in a graph of its own.

    ``known`` are the buffers of ``runner`` that such a graph fills, or does not need.
    """
    model, target, settled = runner.model_runner, target_of(runner.eagle_worker), settled_options(runner)
    return {
        "this is not CUDA": torch.version.hip is not None
        or batch.seq_lens.device.type not in {"cpu", "cuda"},
        "the target's runner is a class of its own": type(target).__name__ not in _TARGETS,
        "the draft has several branches": runner.eagle_worker.topk != 1,
        "its graphs are in segments": is_in_segments(backend_of(runner)),
        "ranks share a batch": runner.require_gathered_buffer or runner.require_mlp_sync,
        "graphs are compiled": runner.enable_torch_compile,
        "it has a buffer of its own": has_others(runner.buffers, known),
        "there are adapters": getattr(runner.eagle_worker.target_worker.model_runner, "lora_manager", None)
        is not None,
        "slots are translated": getattr(getattr(model, "kv_index_translator", None), "is_translating", False),
        "a canary watches it": getattr(model, "canary_manager", None) is not None,
        "positions are multimodal": any(
            getattr(each, "model_is_mrope", False) for each in (model, getattr(model, "model_config", None))
        ),
        **{why: True for name, why in _OPTIONS.items() if str(settled.get(name)) not in _UNSET},
    }


def settled_options(runner: Any) -> Mapping[str, Any]:
    """Return the server's options; later trees settle on those that they were given."""
    args = runner.model_runner.server_args
    settled: Mapping[str, Any] = args.resolved_dict() if hasattr(args, "resolved_dict") else vars(args)
    return settled


def has_others(buffers: Any, known: set[str]) -> bool:
    """Return whether a runner has buffers beside the ``known`` ones."""
    return any(value is not None for name, value in vars(buffers).items() if name not in known)


def names_of_fork(functions: Iterable[Any], names: str) -> set[str]:
    """Return what functions, None for absent ones, name that neither ``names`` has nor a patch calls."""
    named: set[str] = set()
    for function in filter(None, functions):
        own = inspect.unwrap(function)
        codes = [getattr(own, "__code__", None)]
        for code in filter(None, codes):
            named.update(code.co_names)
            codes.extend(each for each in code.co_consts if inspect.iscode(each))
        named.difference_update(dir(getattr(own, "__globals__", {}).get("patchkit_api")))
    return named.difference(names.split())


@contextmanager
def having(made: object, values: dict[str, object]) -> Iterator[None]:
    """Give an object other attributes for a while."""
    before = dict(vars(made))
    vars(made).update(values)
    try:
        yield
    finally:
        vars(made).clear()
        vars(made).update(before)


def capture_beside(
    runner: Any, key: tuple[str, int], run: Callable[[], Any], pool: object, attention: Any
) -> tuple[Callable[[], object], Any]:
    """Capture a graph by the tree's own means; return its replay, and where its results are.

    ``attention`` is the backend that is told of a warm-up, where the tree's runners do not do that themselves.
    """
    backend = backend_of(runner)
    if backend is None:
        graph = runner._create_graph()
        runner._capture_init(run)
        return graph.replay, runner._capture_graph(graph, pool, runner.stream, run)
    backend.capture_one(key, run, post_warmup_hook=getattr(attention, "on_after_cuda_graph_warmup", None))
    return partial(runner._replay_graph, key, None), backend._outputs[key]


def timed(worker: Any, category: str) -> AbstractContextManager[object]:
    """Return what times a replay for forward pass metrics.

    Only the first rank has a timer, and all ranks have to replay the same graph.
    """
    timer = worker.draft_runner.device_timer
    if not timer:
        return nullcontext()
    wrapped: AbstractContextManager[object] = timer.wrap(metadata={"category": category})
    return wrapped

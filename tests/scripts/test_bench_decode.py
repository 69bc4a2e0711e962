"""The decode benchmark's comparison, request gate, engines and checkpoint, without GPU or sglang."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import textwrap
import threading
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pytest
import torch
from safetensors.torch import load_file
from support.hostile import REFUSED, everything, with_entries
from support.toys import git

from patchkit.errors import TreeError, UsageError

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "decode_bench" / "startup")]

import bench_decode  # noqa: E402
import bench_end_tokens  # noqa: E402
import bench_engine  # noqa: E402
import bench_grammar  # noqa: E402
import bench_kernels  # noqa: E402
import bench_options  # noqa: E402
import bench_probe  # noqa: E402
import bench_reach  # noqa: E402
import checkpoint  # noqa: E402
from decode_bench import engines, figures, models, results, scenarios, trees  # noqa: E402
from decode_bench.engines import Engine, EngineError  # noqa: E402
from rich.console import Console  # noqa: E402

from patchkit.bench.figures import Reply, TokenDifference  # noqa: E402
from patchkit.bench.watchdog import Watchdog  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from support.hostile import Entries

    from patchkit.tree.tree import CheckoutTree

# An engine of a few lines whose scheduler has sglang's names: at most two requests a batch, two tokens a
# step, a next token that depends on the whole context.
FAKE_TREE = {
    "__init__.py": """
        import multiprocessing
        from types import SimpleNamespace

        def run_scheduler(pipe):
            from .srt.managers import scheduler
            served = scheduler.Scheduler()
            while True:
                pipe.send(served.serve(pipe.recv()))

        class Engine:
            def __init__(self, **options):
                # As sglang does it: the scheduler is another process, started from scratch.
                context = multiprocessing.get_context("spawn")
                self.pipe, other = context.Pipe()
                context.Process(target=run_scheduler, args=(other,), daemon=True).start()
                other.close()
                print("engine up with", options)

            def flush_cache(self):
                return SimpleNamespace(success=True)

            def generate(self, input_ids, sampling_params, rid, return_logprob, top_logprobs_num):
                requests = [
                    SimpleNamespace(
                        rid=r, prompt=p, limit=s["max_new_tokens"], tokens=[], steps=0, finish=None
                    )
                    for r, p, s in zip(rid, input_ids, sampling_params)
                ]
                self.pipe.send(requests)
                requests = self.pipe.recv()
                return [
                    {
                        "output_ids": r.tokens,
                        "meta_info": {
                            "finish_reason": {"type": r.finish},
                            "spec_verify_ct": r.steps,
                            "output_token_logprobs": [(-0.5, t) for t in r.tokens if return_logprob],
                        },
                    }
                    for r in requests
                ]

            def shutdown(self):
                pass
    """,
    "srt/__init__.py": "",
    "srt/managers/__init__.py": "",
    "srt/managers/io_struct.py": """
        class AbortReq:
            def __init__(self, rid):
                self.rid = rid
    """,
    "srt/server_args.py": """
        import dataclasses

        @dataclasses.dataclass
        class ServerArgs:
            model_path: str
            port: int = 30000
            nccl_port: int | None = None
    """,
    "srt/managers/scheduler.py": """
        import hashlib
        from types import SimpleNamespace
        from .io_struct import AbortReq

        def next_token(request):
            context = request.prompt + request.tokens
            return int.from_bytes(hashlib.sha256(str(context).encode()).digest()[:2], "big") % 32000

        class Worker:
            def forward_batch_generation(self, batch):
                for request in batch.reqs:
                    request.steps += batch.forward_mode.is_decode()
                    for _ in range(1 + batch.forward_mode.is_decode()):
                        if len(request.tokens) < request.limit:
                            request.tokens.append(next_token(request))

        class Scheduler:
            def __init__(self):
                self.model_worker = Worker()
                self.waiting, self.running = [], []

            def serve(self, requests):
                # The first alone and the rest as one message, as the network might deliver them.
                mail = [SimpleNamespace(batch=requests[1:]), requests[0]]
                while any(request.finish is None for request in requests):
                    self.process_input_requests([mail.pop()] if mail else [])
                    new = self.waiting[: 2 - len(self.running)]
                    del self.waiting[: len(new)]
                    batch = new or self.running
                    if batch:
                        mode = SimpleNamespace(is_decode=lambda: not new)
                        self.run_batch(SimpleNamespace(reqs=batch, forward_mode=mode))
                    self.running += new
                    for request in self.running:
                        if len(request.tokens) >= request.limit:
                            request.finish = "length"
                    self.running = [request for request in self.running if request.finish is None]
                return requests

            def process_input_requests(self, messages):
                for message in messages:
                    if not isinstance(message, AbortReq):
                        self.waiting += getattr(message, "batch", [message])
                    for request in self.waiting + self.running:
                        if isinstance(message, AbortReq) and request.rid.startswith(message.rid):
                            request.finish = "abort"
                self.waiting = [request for request in self.waiting if request.finish is None]
                self.running = [request for request in self.running if request.finish is None]

            def run_batch(self, batch):
                self.model_worker.forward_batch_generation(batch)
    """,
}


# What engine and probe use of torch, which takes longer to import than all else takes.
TORCH = """
    from types import SimpleNamespace

    __version__ = "none"
    cuda = SimpleNamespace(is_available=lambda: False)
    distributed = SimpleNamespace(is_initialized=lambda: False)
    version = SimpleNamespace(cuda=None)

    def manual_seed(seed):
        pass
"""


def without_torch(site: Path) -> Path:
    """Write a stand-in for torch to a folder of packages."""
    site.mkdir(exist_ok=True)
    (site / "torch.py").write_text(textwrap.dedent(TORCH))
    return site


def write_tree(folder: Path, **changed: str) -> Path:
    for name, text in (FAKE_TREE | {f"{key}.py": value for key, value in changed.items()}).items():
        file = folder / "sglang" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return folder


def test_a_tree_is_given_by_a_path_or_by_a_ref_of_a_repository(tmp_path: Path) -> None:
    repository = tmp_path / "fork@home"
    write_tree(repository)
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.c commit -qm one", "tag v1"):
        subprocess.run(["git", "-C", repository, *command.split()], check=True)
    committed = (repository / "sglang/__init__.py").read_bytes()
    (repository / "sglang/__init__.py").write_text("later = 1\n")

    assert trees.located(str(repository), tmp_path / "unused") == repository
    assert not (tmp_path / "unused").exists()
    found = trees.located(f"{repository}@v1", tmp_path / "tree")
    assert (found / "sglang/__init__.py").read_bytes() == committed
    assert trees.contender("fork", found).folder == found
    with pytest.raises(TreeError, match="has no ref v2: git fetch it there"):
        trees.located(f"{repository}@v2", tmp_path / "other")


@pytest.mark.parametrize("trick", REFUSED)
def test_a_tree_that_a_benchmark_names_by_a_hostile_ref_is_not_written(
    checkout: CheckoutTree, stolen: Mapping[str, Entries], outside: Path, trick: str
) -> None:
    git(
        checkout.root,
        "branch",
        "hostile",
        with_entries(checkout.root, "python/sglang/srt/managers", *stolen[trick]),
    )
    before = everything(outside)
    home = outside / "a" / "b" / "trees"
    with pytest.raises(TreeError, match="git fsck"):
        trees.located(f"{checkout.root}@hostile", home)
    assert everything(outside, home) == before
    assert all(path.is_relative_to(home / "sglang") for path in home.rglob("*") if path.is_file())


def outputs(*tokens: Sequence[int], finish: str = "length", steps: int = 1) -> list[Reply]:
    return [Reply(tuple(token), finish, steps) for token in tokens]


def a_run(*tokens: Sequence[int]) -> tuple[Reply, ...]:
    return tuple(outputs(*tokens))


# --- figures


def test_the_largest_logprob_difference_is_given_and_none_without_logprobs() -> None:
    one = [Reply((1, 2), "length", 1, (-1.0, -2.0))]
    assert figures.largest_logprob_difference(one, [replace(one[0], logprobs=(-1.0, -2.5))]) == 0.5
    assert figures.largest_logprob_difference(outputs([1]), outputs([1])) is None


# --- the gate


def message(ticket: bench_probe.Ticket) -> SimpleNamespace:
    return SimpleNamespace(rid=str(ticket))


def tickets(*enters: int, run: int = 0, aborted: dict[int, int] | None = None) -> list[bench_probe.Ticket]:
    return [
        bench_probe.Ticket(run, i, len(enters), when, (aborted or {}).get(i, 0), 0)
        for i, when in enumerate(enters)
    ]


def admitted(gate: bench_probe.Gate, *received: Any) -> list[str]:
    return [m if isinstance(m, str) else m.rid for m in gate.admit(received, lambda rid: f"abort {rid}")]


def test_a_ticket_survives_the_way_through_a_request_id() -> None:
    ticket = bench_probe.Ticket(3, 14, 300, 900, 62, 2_000_000)
    assert bench_probe.Ticket.parse(str(ticket)) == ticket
    assert bench_probe.Ticket.parse("health-check") is None
    assert bench_probe.Ticket.parse(None) is None


def test_no_ticket_begins_with_another_one() -> None:
    # sglang aborts by prefix: request 1 must not take request 10 along.
    names = [str(ticket) for ticket in tickets(*[0] * 300)]
    assert not [a for a in names for b in names if a != b and b.startswith(a)]


def test_requests_are_held_until_all_have_come_and_enter_in_order() -> None:
    gate, (first, second, third) = bench_probe.Gate(), tickets(0, 0, 0)
    assert admitted(gate, message(third)) == []
    assert admitted(gate) == []
    assert admitted(gate, message(first)) == []
    assert admitted(gate, message(second)) == [str(first), str(second), str(third)]
    assert admitted(gate) == []


def test_requests_that_were_sent_together_are_taken_apart() -> None:
    gate, (first, late) = bench_probe.Gate(), tickets(0, 1)
    assert admitted(gate, SimpleNamespace(batch=[message(late), message(first)], rids=[])) == [str(first)]
    gate.launched(True)
    assert admitted(gate) == [str(late)]


def test_a_scheduler_that_gets_a_share_of_a_run_waits_for_the_others_to_have_theirs() -> None:
    gate, (_, mine) = bench_probe.Gate(shares=2), tickets(0, 0)
    calls: list[bool] = []

    def agreed(ready: bool) -> bool:
        calls.append(ready)
        return len(calls) > 2

    assert gate.admit([], str, agreed) == []
    assert gate.admit([message(mine)], str, agreed) == []
    (passed,) = gate.admit([], str, agreed)
    assert passed.rid == str(mine)
    assert calls == [True, True, True]


def test_a_batch_of_someone_elses_requests_passes_whole() -> None:
    batch = SimpleNamespace(batch=[SimpleNamespace(rid="a"), SimpleNamespace(rid="b")])
    assert bench_probe.Gate().admit([batch], str) == [batch]


@pytest.mark.parametrize(("rank", "written"), [(None, True), (0, True), (1, False)])
def test_one_of_the_ranks_that_launch_a_batch_records_its_run(
    rank: int | None, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scheduler:
        def __init__(self) -> None:
            self.model_worker = SimpleNamespace(forward_batch_generation=lambda batch: None)

        def process_input_requests(self, messages: Any) -> None: ...

        def run_batch(self, batch: Any) -> None: ...

    monkeypatch.setattr("torch.distributed.is_initialized", lambda: rank is not None)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: rank)
    record = str(tmp_path / "launches")
    bench_probe.instrument(Scheduler, record)
    Scheduler().run_batch(SimpleNamespace(reqs=[1, 2], forward_mode=SimpleNamespace(is_decode=lambda: True)))
    assert bench_probe.has_launched(record, -1) is written
    assert not bench_probe.has_launched(record, 1)


def test_every_run_draws_the_same_random_numbers(tmp_path: Path) -> None:
    class Scheduler:
        def __init__(self) -> None:
            self.model_worker = SimpleNamespace(forward_batch_generation=lambda batch: None)

        def process_input_requests(self, messages: Any) -> None: ...

        def run_batch(self, batch: Any) -> list[float]:
            return torch.rand(3).tolist()

    bench_probe.instrument(Scheduler, str(tmp_path / "launches"))
    scheduler, drawn = Scheduler(), []
    batch = SimpleNamespace(reqs=[], forward_mode=SimpleNamespace(is_decode=lambda: True))
    for run in range(2):
        scheduler.process_input_requests([message(ticket) for ticket in tickets(0, run=run)])
        drawn.append([scheduler.run_batch(batch) for _ in range(2)])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_a_request_enters_at_its_decode_step_whatever_prefills_run() -> None:
    gate, (first, late) = bench_probe.Gate(), tickets(0, 2)
    assert admitted(gate, message(first), message(late)) == [str(first)]
    for decode in (False, True, False):
        gate.launched(decode)
        assert admitted(gate) == []
    gate.launched(True)
    assert admitted(gate) == [str(late)]


def test_an_idle_scheduler_is_not_left_waiting_for_a_step_that_never_comes() -> None:
    gate, (first, late, later) = bench_probe.Gate(), tickets(0, 50, 90)
    assert admitted(gate, message(first), message(late), message(later)) == [str(first)]
    gate.launched(True)
    assert admitted(gate) == []
    assert admitted(gate) == [str(late)]
    gate.launched(True)
    assert admitted(gate) == []


def test_an_abort_comes_at_its_step() -> None:
    gate, (first, second) = bench_probe.Gate(), tickets(0, 0, aborted={1: 1})
    assert admitted(gate, message(first), message(second)) == [str(first), str(second)]
    gate.launched(True)
    assert admitted(gate) == [f"abort {second}"]
    gate.launched(True)
    assert admitted(gate) == []


def test_a_new_run_starts_over_and_forgets_an_abort_that_came_too_late() -> None:
    gate, (only,) = bench_probe.Gate(), tickets(0, aborted={0: 5})
    assert admitted(gate, message(only)) == [str(only)]
    gate.launched(True)
    (again,) = tickets(0, run=1)
    assert admitted(gate, message(again)) == [str(again)]
    for _ in range(6):
        gate.launched(True)
        assert admitted(gate) == []


def test_messages_without_a_ticket_pass_at_once() -> None:
    gate, (first, _) = bench_probe.Gate(), tickets(0, 0)
    flush = SimpleNamespace()
    assert gate.admit([message(first), flush], str) == [flush]


# --- scenarios


@cache
def drawn(*batches: int) -> list[scenarios.Scenario]:
    """Return every scenario; to draw the prompts of all takes a while."""
    return scenarios.scenarios(batches)


def test_scenarios_are_the_same_at_every_call_and_differ_from_each_other() -> None:
    chosen = drawn(1, 8)
    random.random()
    assert chosen == scenarios.scenarios([1, 8])
    assert len({scenario.label for scenario in chosen}) == len(chosen)


def test_every_request_is_one_that_its_server_can_run() -> None:
    for scenario in drawn(1, 8, 16):
        options = scenario.server.settings("t", "d")
        room = min(int(options["context_length"] or 0), int(options["max_total_tokens"] or 0))
        for request in scenario.requests:
            assert 0 < len(request.prompt) + request.new_tokens < room
            assert 3 <= min(request.prompt) <= max(request.prompt) < models.VOCABULARY
            assert request.aborted == 0 or request.aborted > request.enters


def test_a_batch_of_one_size_fills_at_once_and_stays_full() -> None:
    steady = [scenario for scenario in drawn(1, 8, 16) if scenario.batch is not None]
    assert {"straight", "default-straight", "fa3-straight", "tensor-parallel"} <= {s.name for s in steady}
    for scenario in steady:
        assert len(scenario.requests) == scenario.batch
        assert {(request.enters, request.aborted, request.new_tokens) for request in scenario.requests} == {
            (0, 0, 512)
        }


def test_only_the_sampled_scenarios_have_a_temperature() -> None:
    chosen = drawn(1, 8)
    warm = [s for s in chosen if any(request.temperature for request in s.requests)]
    assert [s.label for s in warm] == [
        "sampled-straight 1",
        "sampled-straight 8",
        "sampled",
        "sampled-top-p",
    ]
    assert all(request.temperature for s in warm[:2] for request in s.requests)
    assert not all(request.temperature for request in warm[2].requests)
    (straight,) = (s for s in chosen if s.label == "straight 8")
    assert [request.prompt for request in warm[1].requests] == [r.prompt for r in straight.requests]


def test_a_server_without_speculation_and_one_that_drafts_for_itself_are_settings_like_any_other() -> None:
    servers = {scenario.name: scenario.server for scenario in drawn(1)}
    plain = servers["no-speculation"].settings("t", "d")
    assert {value for name, value in plain.items() if name.startswith("speculative")} == {None}
    assert servers["standalone"].settings("t", "d")["speculative_draft_model_path"] == "t"
    assert servers["straight"].settings("t", "d")["speculative_draft_model_path"] == "d"
    assert [name for name, server in servers.items() if server.gpus > 1] == [
        "tensor-parallel",
        "dp-attention",
        "deepseek-mla-dp-attention",
        "deepseek-mla-dp-no-overlap",
        "deepseek-mla-tensor-parallel",
        "fa3-deepseek-mla-dp-attention-deterministic",
        "fa3-deepseek-mla-tensor-parallel-deterministic",
    ]


def test_what_a_release_crashes_with_is_a_setting_of_its_patched_tree_alone() -> None:
    (server,) = (scenario.server for scenario in drawn(1) if scenario.name == "patched-metrics")
    without, patched = (server.settings("t", "d", patched=has) for has in (False, True))
    assert patched == without | {"enable_forward_pass_metrics": True} != without


def test_every_kind_of_flash_attention_runs_straight_and_is_brought_to_its_edges() -> None:
    every = drawn(1, 8)
    for family in ("deepseek-mla", "gpt-oss"):
        named = [scenario for scenario in every if scenario.name.startswith(f"fa3-{family}-")]
        labels = {scenario.label.removeprefix(f"fa3-{family}-") for scenario in named}
        assert {"straight 1", "straight 8", "edges"} <= labels
        assert {(scenario.server.backend, scenario.server.model) for scenario in named} == {("fa3", family)}
    branches = [scenario.server for scenario in every if scenario.name == "fa3-top-k-4-straight"]
    assert [server.settings("t", "d")["speculative_eagle_topk"] for server in branches] == [4, 4]
    windows = {scenario.name for scenario in every if scenario.server.backend == "fa3"}
    assert {f"{family}-straight" for family in ("gemma3", "mimo-v2", "olmo3")} <= windows


def test_scenarios_share_engines_where_their_server_is_the_same() -> None:
    chosen = [s for s in drawn(1, 8) if s.name in ("metrics", "straight", "late", "no-graph")]
    groups = bench_decode.grouped(chosen[::-1], [32, 8])
    assert [(g.layers, [s.label for s in g.scenarios]) for g in groups] == [
        (32, ["metrics"]),
        (32, ["no-graph"]),
        (32, ["late", "straight 8", "straight 1"]),
        (8, ["metrics"]),
        (8, ["no-graph"]),
        (8, ["late", "straight 8", "straight 1"]),
    ]


def test_no_more_engines_are_up_than_may_be() -> None:
    names = ("straight", "fa3-straight", "metrics", "no-graph", "chunked")
    groups = bench_decode.grouped([s for s in drawn(1) if s.name in names], [8])
    contenders = [trees.Contender(name, Path(name), None) for name in ("one", "two")]
    up: set[str] = set()
    ran: list[str] = []

    class Recorded(bench_decode.Field):
        def await_start(self, report: Any, about: Any) -> None: ...

        def measure(self, scenario: scenarios.Scenario) -> list[results.Measured]:
            ran.append(scenario.name)
            return [results.Measured(tree) for tree in contenders]

        def stop(self) -> None:
            up.remove(self.group.name)

    def start(group: bench_decode.Group) -> bench_decode.Field:
        up.add(group.name)
        assert len(up) <= 3
        return Recorded(group, dict.fromkeys(contenders))  # type: ignore[arg-type]

    for _ in bench_decode.compare(
        groups, start, trees=lambda group: 2, engines=6, report=lambda _: None, about={}
    ):
        pass
    assert sorted(ran) == sorted(group.scenarios[0].name for group in groups)
    assert not up


def test_groups_run_side_by_side_and_what_goes_wrong_in_one_ends_all() -> None:
    groups = bench_decode.grouped([s for s in drawn(1) if s.name in {"metrics", "chunked"}], [8])
    tree = trees.Contender("one", Path("one"), None)
    both, stopped = threading.Barrier(2, timeout=60), list[str]()

    class Failing(bench_decode.Field):
        def await_start(self, report: Any, about: Any) -> None: ...

        def measure(self, scenario: scenarios.Scenario) -> list[results.Measured]:
            both.wait()
            raise ValueError(scenario.name)

        def stop(self) -> None:
            stopped.append(self.group.name)

    def start(group: bench_decode.Group) -> bench_decode.Field:
        return Failing(group, dict.fromkeys([tree]))  # type: ignore[arg-type]

    found = bench_decode.compare(
        groups, start, trees=lambda group: 1, engines=2, report=lambda _: None, about={}
    )
    with pytest.raises(ValueError, match=r"metrics|chunked"):
        next(found)
    assert sorted(stopped) == sorted(group.name for group in groups)


def test_trees_of_a_field_are_compared_with_each_other(tmp_path: Path) -> None:
    names = ("0.5.13/unpatched", "0.5.13/patched", "0.5.14/unpatched")
    assert [trees.Contender(name, tmp_path, None).field for name in names] == ["0.5.13", "0.5.13", "0.5.14"]
    chosen = [s for s in drawn(1) if s.name == "late"]
    groups = bench_decode.grouped(chosen, [8], ["0.5.13", "0.5.14"])
    assert [group.name for group in groups] == ["0.5.13-8-layers-late", "0.5.14-8-layers-late"]


def test_a_scenario_may_be_for_the_trees_of_one_field_alone() -> None:
    chosen = [s for s in drawn(1) if s.name in ("late", "metrics")]
    groups = bench_decode.grouped(
        chosen, [8], ["a", "b"], lambda field, scenario: (field, scenario.name) != ("a", "late")
    )
    assert [(group.field, group.scenarios[0].name) for group in groups] == [
        ("a", "metrics"),
        ("b", "late"),
        ("b", "metrics"),
    ]


def test_an_unknown_scenario_is_a_usage_error() -> None:
    with pytest.raises(click.BadParameter, match=r"0\.5\.14/nought is no scenario: name one of abort, "):
        bench_decode.known_scenario(None, None, ("0.5.14/late", "0.5.14/nought"))  # type: ignore[arg-type]


def test_a_kernel_takes_arguments_that_ask_for_nothing() -> None:
    called = bench_kernels.tolerant(lambda q, causal=False: (q, causal))
    assert called(1, causal=True, only_qv=False, sinks=None) == (1, True)
    with pytest.raises(TypeError, match="only_qv"):
        called(1, only_qv=True)


def test_a_model_that_has_its_own_number_of_layers_is_run_once() -> None:
    chosen = [s for s in drawn(1) if s.name == "qwen3-moe-edges"]
    (group,) = bench_decode.grouped(chosen, [32, 8])
    assert group.layers == chosen[0].server.layers


def test_the_patches_that_mark_statements_of_a_tree_are_listed(tmp_path: Path) -> None:
    package = write_tree(tmp_path) / "sglang"
    (package / "srt" / "marked.py").write_text("# patchkit 26128: why\n# patchkit pk-own: why\nx = 1\n")
    assert trees.contender("one", tmp_path).patches() == ("26128", "pk-own")


# --- what an engine has run


def test_the_lines_of_a_marked_statement_are_its_patchs() -> None:
    source = textwrap.dedent("""\
        # patchkit a: a module's own statement
        x = 1


        class C:
            # patchkit b: an attribute runs at import, whoever serves
            flag = False

            # patchkit c: a method
            # patchkit d: two patches
            @property
            def f(self):
                \"\"\"What it is.\"\"\"
                one = 1
                return one

            # patchkit e: nothing to do
            def g(self):
                \"\"\"Nothing.\"\"\"

            def h(self):
                # patchkit f: a head
                if (
                    self.f
                ):
                    y = 1
                # patchkit g: several lines
                z = (
                    y
                )
                # not a mark: patchkit h
                return z
        """)
    found = bench_reach.marked_lines(source)
    lines = source.splitlines()
    by_line = {
        lines[number - 1].strip(): {mark.partition(":")[0] for mark in marks}
        for number, marks in found.items()
    }
    assert {mark for marks in found.values() for mark in marks} > {"c: a method", "d: two patches"}
    assert by_line["x = 1"] == {"a"}
    assert by_line["one = 1"] == by_line["return one"] == {"c", "d"}
    assert by_line['"""Nothing."""'] == {"e"}
    assert by_line["if ("] == by_line["self.f"] == {"f"}
    assert by_line["z = ("] == {"g"}
    assert not {"flag = False", "y = 1", "return z", "def f(self):"} & by_line.keys()


def test_a_file_without_marks_claims_no_line() -> None:
    assert bench_reach.marked_lines("x = 1\n# patchkit\ny = 2\n") == {}


# --- settings by release


def test_a_setting_goes_by_the_name_that_the_release_has() -> None:
    options = {"cuda_graph_max_bs": 8, "disable_piecewise_cuda_graph": True, "page_size": 16}
    assert bench_options.adapted(options, list(options)) == options
    later = ["cuda_graph_max_bs_decode", "disable_prefill_cuda_graph", "page_size"]
    assert bench_options.adapted(options, later) == dict(zip(later, options.values(), strict=True))


def test_a_setting_that_a_release_lacks_is_refused_unless_it_is_left_to_sglang() -> None:
    assert bench_options.adapted({"new": None}, ["old"]) == {}
    with pytest.raises(ValueError, match="has no setting new: leave the scenario out"):
        bench_options.adapted({"new": 1}, ["old"])


def test_a_release_gets_stand_ins_for_what_it_imports_whether_it_needs_it_or_not() -> None:
    assert engines.stand_ins("0.5.14") == engines.stand_ins(None) == ""
    assert "deep_gemm" in engines.stand_ins("0.5.15.post1").split(",")
    assert {"deep_gemm", "cuda.tile"} < set(engines.stand_ins("0.5.23").split(","))


def test_a_part_of_a_package_that_is_there_has_a_stand_in_and_the_package_has_none() -> None:
    code = (
        "import bench_stand_ins; bench_stand_ins.install(); import json, json.tile.deep as made;"
        "print(json.dumps(1), made.Constant[int].__name__)"
    )
    startup = Path(engines.__file__).parent / "startup"
    environment = os.environ | {"PYTHONPATH": str(startup), "PATCHKIT_BENCH_STAND_INS": "other,json.tile"}
    done = subprocess.run(
        (sys.executable, "-S", "-c", code), check=False, env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("1 Constant\n", 0), done.stderr


# --- structured output


def test_a_grammar_allows_even_tokens_and_ends_after_as_many_as_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = ModuleType("base_grammar_backend")
    base.BaseGrammarObject = type("BaseGrammarObject", (), {"__init__": lambda self: None})  # type: ignore[attr-defined]
    base.BaseGrammarBackend = type("BaseGrammarBackend", (), {})  # type: ignore[attr-defined]
    package = ModuleType("sglang.srt.constrained")
    package.base_grammar_backend = base  # type: ignore[attr-defined]
    for name in ("sglang", "sglang.srt", "sglang.srt.constrained"):
        monkeypatch.setitem(sys.modules, name, package)
    manager = ModuleType("grammar_manager")
    manager.GrammarManager = type("GrammarManager", (), {"__init__": lambda self: None})  # type: ignore[attr-defined]
    bench_grammar.instrument(manager)

    made = manager.GrammarManager()
    grammar, ready = made.grammar_backend.get_cached_or_future_value(("regex", "2"), False)
    assert ready
    mask = grammar.allocate_vocab_mask(70, 2, "cpu")
    grammar.fill_vocab_mask(mask, 1)
    logits = torch.zeros(2, 70)
    grammar.apply_vocab_mask(logits, grammar.move_vocab_mask(mask, "cpu"))
    assert torch.isfinite(logits[0]).all()
    assert torch.isfinite(logits[1]).nonzero().flatten().tolist() == list(range(0, 70, 2))
    grammar.accept_token(4)
    assert not grammar.is_terminated()
    grammar.accept_token(6)
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert not grammar.is_terminated()
    assert not grammar.copy().is_terminated()


# --- penalties


def test_a_penalty_of_end_tokens_finds_them_in_requests_without_a_tokenizer() -> None:
    calls: list[tuple[int, set[int]]] = []

    class Penalty:
        def __init__(self, requests: list[Any]) -> None:
            self.orchestrator = SimpleNamespace(reqs=lambda: requests)

        def _prepare(self) -> None:
            for request in self.orchestrator.reqs():
                tokenizer = request.tokenizer
                calls.append((tokenizer.eos_token_id, tokenizer.additional_stop_token_ids))

    module = ModuleType("min_new_tokens")
    module.BatchedMinNewTokensPenalizer = Penalty  # type: ignore[attr-defined]
    bench_end_tokens.instrument(module)
    own = SimpleNamespace(eos_token_id=9, additional_stop_token_ids={4})
    requests = [
        SimpleNamespace(tokenizer=None, eos_token_ids={7, 2}),
        SimpleNamespace(tokenizer=None, eos_token_ids=None),
        SimpleNamespace(tokenizer=own, eos_token_ids={7}),
    ]
    Penalty(requests)._prepare()
    assert calls == [(2, {2, 7}), (0, set()), (9, {4})]
    assert [request.tokenizer for request in requests] == [None, None, own]


def test_a_least_number_of_tokens_needs_no_tokenizer_in_a_release_that_asks_for_one() -> None:
    def refuse(*_: object) -> None:
        raise ValueError("min_new_tokens=24 requires a tokenizer")

    module = ModuleType("sampling_params")
    module.raise_if_tokenizer_required = refuse  # type: ignore[attr-defined]
    bench_end_tokens.allow(module)
    module.raise_if_tokenizer_required(None, [], [], min_new_tokens=24)


def test_a_request_is_sent_with_its_penalties(monkeypatch: pytest.MonkeyPatch) -> None:
    (chosen,) = (each for each in drawn(1) if each.name == "penalties-straight")
    sent: list[dict[str, Any]] = []

    def answer(**given: Any) -> list[Any]:
        sent.extend(given["sampling_params"])
        return []

    flushed = SimpleNamespace(success=True)
    engine = SimpleNamespace(flush_cache=lambda: flushed, generate=answer)
    monkeypatch.setattr(bench_engine, "has_launched", lambda *_: True)
    command = {"requests": [asdict(each) for each in chosen.requests], "profile": None, "pause": 0}
    bench_engine.generate(engine, command | {"logprobs": False}, 0, "record", None)
    assert sent == [
        {"temperature": 0, "max_new_tokens": 512, "min_new_tokens": 512, "frequency_penalty": 0.5}
    ]


def test_no_request_has_to_be_longer_than_it_may_be() -> None:
    for scenario in drawn(1, 8):
        for request in scenario.requests:
            least = request.penalties.get("min_new_tokens", 0)
            assert isinstance(least, (int, float))
            assert least <= request.new_tokens


# --- trees and faults


def test_a_faulty_copy_differs_in_the_given_places_and_the_tree_is_left_alone(tmp_path: Path) -> None:
    tree = trees.contender("patched", write_tree(tmp_path / "tree"))
    before = (tree.folder / "sglang/srt/managers/scheduler.py").read_text()
    fault = trees.Fault(
        "short",
        "patched",
        [("srt/managers/scheduler.py", "request.prompt + request.tokens", "request.tokens")],
    )
    copy = trees.faulty_copy(fault, [tree], tmp_path / "faulty")
    assert copy.control
    assert copy.name == "short"
    after = (copy.folder / "sglang/srt/managers/scheduler.py").read_text()
    assert after == before.replace("request.prompt + request.tokens", "request.tokens")
    assert (tree.folder / "sglang/srt/managers/scheduler.py").read_text() == before


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("srt/managers/scheduler.py", "request", "x"), "give one that occurs once"),
        (("srt/managers/scheduler.py", "no such thing", "x"), "occurs 0 times"),
        (("srt/no_such_file.py", "request", "x"), "occurs 0 times"),
    ],
)
def test_a_fault_whose_place_is_not_unique_is_refused(
    tmp_path: Path, edit: tuple[str, str, str], message: str
) -> None:
    tree = trees.contender("patched", write_tree(tmp_path / "tree"))
    with pytest.raises(UsageError, match=message):
        trees.faulty_copy(trees.Fault("f", "patched", [edit]), [tree], tmp_path)


def test_a_fault_of_a_tree_that_is_not_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no --tree names"):
        trees.faulty_copy(trees.Fault("f", "patched", []), [], tmp_path)


def test_faults_are_read_from_json(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    file.write_text('[{"name": "n", "tree": "t", "edits": [{"file": "f", "old": "o", "new": "w"}]}]')
    assert trees.read_faults(file) == [trees.Fault("n", "t", [("f", "o", "w")])]


@pytest.mark.parametrize("content", ["not json", "7", '[{"name": "n"}]', '["n"]'])
def test_a_file_without_faults_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "faults.json"
    file.write_text(content)
    with pytest.raises(UsageError, match="is not a list of faults"):
        trees.read_faults(file)


# --- results


TREE = trees.Contender("patched", Path("tree"), "0.5.12.post1")
STRAIGHT = scenarios.Scenario("straight", [], batch=1)


def measured(*runs: tuple[Reply, ...], tree: trees.Contender = TREE, **options: Any) -> results.Measured:
    return results.Measured(tree, list(runs), **options)


def test_a_difference_in_a_late_run_is_a_difference() -> None:
    reference = measured(a_run([1, 2]), a_run([1, 2]))
    found = results.result(STRAIGHT, 8, measured(a_run([1, 2]), a_run([1, 3])), reference)
    assert found.identical is False
    assert not found.reproducible
    assert found.difference == TokenDifference(0, 1, 2, 3, 1, 1)


def test_a_tree_that_always_differs_is_reproducible() -> None:
    reference = measured(a_run([1, 2]), a_run([1, 2]))
    found = results.result(STRAIGHT, 8, measured(a_run([1, 3]), a_run([1, 3])), reference)
    assert (found.identical, found.reproducible) == (False, True)


def test_an_engine_that_never_ran_has_an_error_and_no_figures() -> None:
    found = results.result(STRAIGHT, 8, measured(error="start: it broke"), measured(a_run([1])))
    assert (found.runs, found.identical, found.error) == (0, None, "start: it broke")


def test_retractions_are_counted_in_the_log() -> None:
    log = "Retract requests. #retracted_reqs: 2, #new_tokens\nfine\n#retracted_reqs: 1,\n"
    assert results.result(STRAIGHT, 8, measured(a_run([1]), log=log), measured(a_run([1]))).retracted == 3


def test_a_scenario_that_should_run_out_of_room_and_does_not_is_an_error() -> None:
    scarce = replace(STRAIGHT, scarce=True)
    retracting = measured(a_run([1]), log="#retracted_reqs: 1, #new")
    assert results.result(scarce, 8, retracting, retracting).error is None
    roomy = results.result(scarce, 8, measured(a_run([1])), retracting).error
    assert roomy is not None
    assert "No request was taken back" in roomy
    control = measured(a_run([1]), tree=replace(TREE, control=True))
    assert results.result(scarce, 8, control, retracting).error is None
    crashed = measured(a_run([1]), error="small: it broke")
    assert results.result(scarce, 8, crashed, retracting).error == "small: it broke"


def the_result(token: int = 1, **changed: Any) -> results.Result:
    reference = measured(a_run([1]), a_run([1]))
    other = measured(a_run([token]), a_run([token]))
    return replace(results.result(STRAIGHT, 8, other, reference), **changed)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([the_result()], True),
        ([the_result(), the_result(token=2)], False),
        ([the_result(error="crashed")], False),
        ([the_result(reproducible=False)], False),
        ([the_result(identical=None)], False),
        ([the_result(), the_result(token=2, control=True, tree="c")], True),
        ([the_result(), the_result(control=True, tree="c")], False),
        ([the_result(control=True, tree="c"), the_result(error="crashed", control=True, tree="c")], True),
        ([the_result(error="start: no", started=False, identical=None, control=True, tree="c")], False),
        (
            [the_result(token=2, control=True, tree="c"), the_result(control=True, tree="another")],
            False,
        ),
    ],
)
def test_trees_must_match_and_every_control_must_be_noticed(
    found: list[results.Result], verdict: bool
) -> None:
    assert results.passed(found) is verdict


def test_the_table_and_the_json_contain_the_results(tmp_path: Path) -> None:
    found = [
        the_result(retracted=3),
        the_result(token=2, tree="late", error="RuntimeError: boom"),
    ]
    results.write(tmp_path, {"command": "bench"}, found)
    lines = (tmp_path / "table.txt").read_text().splitlines()
    (good,) = [line for line in lines if "patched" in line]
    (bad,) = [line for line in lines if "boom" in line]
    assert [cell.strip() for cell in good.split("│")[1:-1]] == [
        "straight 1", "8", "patched", "0.00", "3", "identical", "",
    ]  # fmt: skip
    assert "1 of 1 differ, first request 0 at token 0" in bad
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["command"] == "bench"
    assert content["results"][0]["retracted"] == 3
    assert content["results"][1]["difference"]["got"] == 2


def test_a_table_line_shows_that_tokens_cannot_be_compared() -> None:
    console = Console(width=240)
    with console.capture() as capture:
        console.print(results.table([the_result(identical=None), the_result(reproducible=False)]))
    assert "not compared" in capture.get()
    assert "not reproducible" in capture.get()


# --- engines in processes of their own


SMALL = scenarios.Scenario(
    "small",
    [
        scenarios.Request((5, 6), new_tokens=9),
        scenarios.Request((7,), new_tokens=30, aborted=4),
        scenarios.Request((8, 9, 10), new_tokens=6, enters=2),
    ],
)


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    with Watchdog() as started:
        yield started


@pytest.fixture
def compared(tmp_path: Path, watchdog: Watchdog) -> Iterator[Any]:
    stand_in = without_torch(tmp_path / "packages")

    def run(
        chosen: list[scenarios.Scenario],
        *contenders: trees.Contender,
        site: Path | None = stand_in,
        **limits: float,
    ) -> Any:
        about: dict[str, Any] = {"machine": {}}

        def start(group: bench_decode.Group) -> bench_decode.Field:
            return bench_decode.Field(
                group,
                {
                    tree: Engine(
                        tree,
                        {"model_path": "t"},
                        {},
                        site=site,
                        folder=tmp_path / "out" / group.name / tree.name,
                        watchdog=watchdog,
                        **({"start_limit": 300.0, "run_limit": 300.0} | limits),
                    )
                    for tree in contenders
                },
            )

        found = bench_decode.compare(
            bench_decode.grouped(chosen, [8]),
            start,
            trees=lambda group: len(contenders),
            report=print,
            about=about,
        )
        return [result for fresh in found for result in fresh], about

    yield run
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _command(p)]


def _command(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def test_two_equal_trees_give_the_same_tokens_and_a_faulty_copy_does_not(
    tmp_path: Path, compared: Any
) -> None:
    one = trees.contender("one", write_tree(tmp_path / "a"))
    two = trees.contender("two", write_tree(tmp_path / "b"))
    fault = trees.Fault(
        "short", "two", [("srt/managers/scheduler.py", "prompt + request.tokens", "prompt[1:]")]
    )
    found, about = compared([SMALL], one, two, trees.faulty_copy(fault, [two], tmp_path / "faulty"))
    assert [(r.tree, r.identical, r.reproducible, r.error) for r in found] == [
        ("one", True, True, None),
        ("two", True, True, None),
        ("short", False, True, None),
    ]
    assert results.passed(found)
    assert about["machine"]["torch"] == "none"
    assert [r.runs for r in found] == [2, 2, 2]


def test_from_one_request_to_as_many_as_the_server_takes_run_side_by_side_where_requests_arrive() -> None:
    chosen = next(each for each in drawn(1) if each.name == "arriving")
    entering = [request.enters for request in chosen.requests]
    assert entering == sorted(entering)
    assert entering.count(0) == 1
    assert chosen.server.options["max_running_requests"] == 32 < len(entering)


def test_an_engine_that_crashes_in_a_scenario_does_not_take_the_others_along(
    tmp_path: Path, compared: Any
) -> None:
    good = trees.contender("good", write_tree(tmp_path / "a"))
    fault = trees.Fault("bad", "good", [("srt/managers/scheduler.py", "[mail.pop()]", "mail / 2")])
    bad = replace(trees.faulty_copy(fault, [good], tmp_path / "faulty"), control=False)
    (first, second, third, fourth), _ = compared([SMALL, replace(SMALL, name="again")], good, bad)
    assert (first.error, third.error) == (None, None)
    assert second.error == fourth.error
    assert second.error.startswith(
        "small: The engine ended without an answer. TypeError: unsupported operand"
    )
    assert second.identical is None


def test_an_engine_that_does_not_start_is_ended_at_its_limit(tmp_path: Path, compared: Any) -> None:
    changed = {"__init__": "import time; time.sleep(600)"}
    sleepy = trees.contender("sleepy", write_tree(tmp_path / "a", **changed))
    (found,), _ = compared([SMALL], sleepy, start_limit=3.0)
    assert found.error == "start: No answer within 3 s."
    assert not found.started
    assert found.runs == 0


def test_an_engine_that_hangs_in_a_run_is_ended_at_its_limit(tmp_path: Path, compared: Any) -> None:
    tree = trees.contender("tree", write_tree(tmp_path / "a"))
    fault = trees.Fault(
        "hangs", "tree", [("srt/managers/scheduler.py", "mail.pop()", "__import__('time').sleep(600)")]
    )
    (found,), _ = compared([SMALL], trees.faulty_copy(fault, [tree], tmp_path / "faulty"), run_limit=3.0)
    assert found.error == "small: No answer within 3 s."
    assert found.started


def test_a_tree_whose_requests_the_probe_does_not_see_is_no_silent_success(
    tmp_path: Path, compared: Any
) -> None:
    tree = trees.contender("tree", write_tree(tmp_path / "a"))
    fault = trees.Fault("other", "tree", [("__init__.py", "rid=r,", "rid='other ' + r,")])
    (found,), _ = compared([SMALL], trees.faulty_copy(fault, [tree], tmp_path / "faulty"))
    assert found.error is not None
    assert "The probe did not find the requests" in found.error


def test_an_engine_that_takes_sglang_from_elsewhere_is_refused(tmp_path: Path, watchdog: Watchdog) -> None:
    elsewhere = write_tree(without_torch(tmp_path / "site"))
    (tmp_path / "empty").mkdir()
    tree = trees.Contender("empty", tmp_path / "empty", None)
    limits = {"start_limit": 300.0, "run_limit": 300.0}
    engine = Engine(tree, {}, {}, site=elsewhere, folder=tmp_path / "out", watchdog=watchdog, **limits)
    with pytest.raises(EngineError, match="not from its own tree"):
        engine.await_start()


def test_the_trees_own_sglang_comes_before_the_bundles(tmp_path: Path, watchdog: Watchdog) -> None:
    site = write_tree(without_torch(tmp_path / "site"), **{"__init__": "raise RuntimeError"})
    tree = trees.contender("one", write_tree(tmp_path / "a"))
    limits = {"start_limit": 300.0, "run_limit": 300.0}
    engine = Engine(tree, {}, {"EXTRA": "1"}, site=site, folder=tmp_path / "out", watchdog=watchdog, **limits)
    try:
        engine.await_start()
        reply = engine.run(SMALL.requests, logprobs=True)
    finally:
        engine.stop()
    assert [output.finish for output in reply] == ["length", "abort", "length"]
    # Aborted at decode step 4: the prefill's token and two of each step.
    assert [len(output.tokens) for output in reply] == [9, 9, 6]
    assert reply[0].logprobs == (-0.5,) * 9


# --- the checkpoint


TINY = checkpoint.Shape(layers=3, hidden=64, intermediate=96, heads=4, kv_heads=2, head_dim=8, vocabulary=256)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_a_checkpoint_is_the_same_to_the_byte_each_time(tmp_path: Path) -> None:
    checkpoint.write_checkpoint(tmp_path / "a", TINY, "cpu")
    checkpoint.write_checkpoint(tmp_path / "b", TINY, "cpu")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_a_checkpoint_that_is_there_is_left_alone_and_one_that_was_cut_short_is_written_again(
    tmp_path: Path,
) -> None:
    target, draft = checkpoint.write_checkpoint(tmp_path, TINY, "cpu")
    whole = digests(tmp_path)
    (target / "vocabulary.safetensors").write_bytes(b"kept")
    (draft / "config.json").unlink()
    (draft / "draft.safetensors").write_bytes(b"cut short")
    checkpoint.write_checkpoint(tmp_path, TINY, "cpu")
    changed = {name for name, digest in digests(tmp_path).items() if digest != whole[name]}
    assert changed == {"target-3/vocabulary.safetensors"}


def test_the_index_names_every_tensor_of_a_llama_of_that_shape(tmp_path: Path) -> None:
    target, _ = checkpoint.write_checkpoint(tmp_path, TINY, "cpu")
    index = json.loads((target / "model.safetensors.index.json").read_text())["weight_map"]
    tensors = {
        name: tuple(tensor.shape)
        for file in target.glob("*.safetensors")
        for name, tensor in load_file(file).items()
    }
    assert set(index) == set(tensors)
    assert len(tensors) == 3 + 9 * TINY.layers
    assert tensors["model.layers.2.self_attn.k_proj.weight"] == (16, 64)
    assert tensors["model.layers.0.mlp.down_proj.weight"] == (64, 96)
    config = json.loads((target / "config.json").read_text())
    assert (config["num_hidden_layers"], config["vocab_size"]) == (3, 256)


def test_no_two_matrices_of_a_checkpoint_are_alike() -> None:
    weights = checkpoint.Weights("cpu")
    one, two = weights.normal("a", 8, 8, 1.0), weights.normal("b", 8, 8, 1.0)
    assert not torch.equal(one, two)
    assert torch.equal(one, weights.normal("a", 8, 8, 1.0))


def draft_tensors() -> dict[str, torch.Tensor]:
    ((_, tensors),) = checkpoint.draft_shards(TINY, checkpoint.Weights("cpu"))
    return {name: tensor.float() for name, tensor in tensors.items()}


def attended_to_itself(tensors: dict[str, torch.Tensor], layer_input: torch.Tensor) -> torch.Tensor:
    """What the draft's attention adds for a token that attends to itself alone."""
    values = layer_input @ tensors["midlayer.self_attn.v_proj.weight"].T
    group = TINY.heads // TINY.kv_heads
    per_query_head = values.view(TINY.kv_heads, TINY.head_dim).repeat_interleave(group, dim=0).reshape(-1)
    return per_query_head @ tensors["midlayer.self_attn.o_proj.weight"].T


def test_the_drafts_attention_adds_the_token_and_subtracts_the_one_before() -> None:
    tensors = draft_tensors()
    now, before = tensors["embed_tokens.weight"][3], tensors["embed_tokens.weight"][7]
    torch.testing.assert_close(attended_to_itself(tensors, torch.cat([now, before])), now - before)


def test_the_draft_looks_for_the_token_itself() -> None:
    # Query and key of a token are the same, so that no other token of its length scores higher.
    tensors = draft_tensors()
    inputs = torch.cat([tensors["embed_tokens.weight"], torch.randn(256, 64)], dim=-1)
    queries = (inputs @ tensors["midlayer.self_attn.q_proj.weight"].T).view(256, TINY.heads, TINY.head_dim)
    keys = (inputs @ tensors["midlayer.self_attn.k_proj.weight"].T).view(256, TINY.kv_heads, TINY.head_dim)
    assert keys.any(dim=-1).all()
    torch.testing.assert_close(queries, keys.repeat_interleave(TINY.heads // TINY.kv_heads, dim=1))


def test_the_targets_hidden_states_do_not_enter_the_drafts_carried_columns() -> None:
    fc = draft_tensors()["fc.weight"]
    assert not fc[: TINY.carried].any()
    assert fc[TINY.carried :].any(dim=1).all()


def test_the_end_token_is_never_generated() -> None:
    head = draft_tensors()["lm_head.weight"]
    assert not head[: checkpoint.SPECIAL].any()
    assert head[checkpoint.SPECIAL :].any(dim=1).all()


def test_target_and_draft_have_the_same_embedding_and_head() -> None:
    target = dict(checkpoint.target_shards(TINY, checkpoint.Weights("cpu")))["vocabulary"]
    draft = draft_tensors()
    assert torch.equal(target["model.embed_tokens.weight"].float(), draft["embed_tokens.weight"])
    assert torch.equal(target["lm_head.weight"].float(), draft["lm_head.weight"])

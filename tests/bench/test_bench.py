"""`patchkit bench` on a CPU: stand-in servers that are fast, die, hang or give other tokens, and what is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from support.processes import ends, require_list
from support.served import BEHAVIOUR, FAST, SLOW, add_change, started, write_served, write_smi
from support.toys import everything

from patchkit.bench import compare, figures, server
from patchkit.bench.recorded import Benchmark
from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

COMMAND = f"{sys.executable} -m sglang.launch_server --model-path some/model"
FEW = ("--batch", "2", "--new-tokens", "17")


class Bench:
    """A folder with a tree, patches of it, and a machine whose only GPU is a stand-in's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = write_served(folder / "wheel" / "sglang")
        self.log = folder / "started"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()

    def run(self, *words: str, command: str = COMMAND) -> Result:
        """Run ``bench`` in this process, and expect that nothing of it is left."""
        before = everything(self.package)
        ran = CliRunner().invoke(main, ["bench", command, "--tree", str(self.package), *FEW, *words])
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exc_info
        self.expect_nothing_left()
        assert everything(self.package) == before
        return ran

    def answer(self, *words: str) -> dict[str, Any]:
        ran = self.run("--json", *words)
        assert ran.exit_code == 0, ran.output
        answer: dict[str, Any] = json.loads(ran.stdout)
        msgspec.convert(answer, Benchmark)
        return answer

    def expect_nothing_left(self) -> None:
        require_list()
        for group, port, _ in started(self.log):
            assert ends(group)
            with socket.socket() as taken:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind(("127.0.0.1", port))
        until = time.monotonic() + 30
        while any(self.temporary.iterdir()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not [*self.temporary.iterdir()]


@pytest.fixture
def bench(tmp_path: Path, patch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path)
    add_change(patch_folder, "faster", (SLOW, FAST), ("WAITS = 3", "WAITS = 1"))
    add_change(patch_folder, "same", ("WAITS = 3", "WAITS = 2"))
    add_change(patch_folder, "wrong", ("OFFSET = 0", "OFFSET = 1"))
    add_change(patch_folder, "refusing", ("STARTS = True", "STARTS = False"))
    add_change(patch_folder, "dying", ("SERVES = True", "SERVES = False"))
    add_change(patch_folder, "hanging", ("ANSWERS = True", "ANSWERS = False"))
    monkeypatch.setenv("STAND_IN", str(made.log))
    # As few as give an interval.
    monkeypatch.setattr(compare, "_PAIRS", 8)
    monkeypatch.setattr(figures, "_FEWEST", 8)
    monkeypatch.setattr(server, "_PAUSE", 0.01)
    monkeypatch.setattr(tempfile, "tempdir", str(made.temporary))
    machine(monkeypatch, tmp_path / "idle")
    return made


def machine(monkeypatch: pytest.MonkeyPatch, folder: Path, **load: int) -> None:
    monkeypatch.setenv("PATH", f"{write_smi(folder, **load)}{os.pathsep}/usr/bin:/bin")


def changed(package: Path, old: str, new: str) -> None:
    file = package / BEHAVIOUR
    file.write_text(file.read_text().replace(old, new))


def test_a_faster_tree_is_measured_beside_the_unpatched_one(bench: Bench) -> None:
    answer = bench.answer("faster", "--profile")
    assert [tree["patches"] for tree in answer["trees"]] == [[], ["faster"]]
    assert answer["beside"]
    assert answer["command"] == COMMAND
    assert answer["gpus"] == ["Stand-in"]
    assert [host["cores"] for host in answer["host"]] == [os.cpu_count()] * 2
    [batch] = answer["batches"]
    low, high = batch["interval"]
    assert low <= batch["ratio"] <= high < 1
    assert batch["gain"].endswith("less time for each step")
    assert batch["pairs"] == 8
    assert batch["tokens"] == "equal"
    assert batch["accept_length"] == [2.0, 2.0]
    before, after = batch["costs"]
    assert (before["host_waits"], after["host_waits"]) == (3.0, 1.0)
    assert batch["freed"] == {"cudaStreamSynchronize in no operator": [3.0, 1.0]}
    assert answer["notes"] == ["Both servers ran with --max-total-tokens 40960, to leave each other memory."]


def test_the_launch_command_is_kept_with_a_port_of_its_own(bench: Bench) -> None:
    bench.run("faster", command=f"NAME=value {COMMAND} --tp 1 --port 30000 --max-total-tokens 99")
    servers = started(bench.log)
    assert len({port for _, port, _ in servers}) == 2
    for _, port, words in servers:
        given = ["--model-path", "some/model", "--tp", "1", "--port", "30000", "--max-total-tokens", "99"]
        assert words[1:] == [*given, "--host", "127.0.0.1", "--port", str(port)]


def test_an_answer_for_people_names_what_was_measured(bench: Bench) -> None:
    ran = bench.run("faster", "--profile", "--batch", "1")
    assert ran.exit_code == 0
    for text in (
        "2 requests, 17 new tokens each",
        "1 request,",
        "95 % interval",
        "tokens: equal",
        "GPU busy",
    ):
        assert text in ran.stdout


def test_other_tokens_are_named_and_fail(bench: Bench) -> None:
    ran = bench.run("wrong")
    assert ran.exit_code == 1
    assert "tokens: differ in 2 of 2 requests, first in request 1 at token 11" in ran.stdout


def test_where_two_unpatched_runs_differ_tokens_are_not_judged(bench: Bench) -> None:
    changed(bench.package, "STEADY = True", "STEADY = False")
    ran = bench.run("wrong")
    assert ran.exit_code == 0
    assert "tokens: not judged, since two runs of the first tree differ in 2 of 2 requests" in ran.stdout


def test_servers_run_one_after_the_other_where_the_memory_is_not_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    answer = bench.answer("faster")
    assert not answer["beside"]
    assert answer["batches"][0]["tokens"] == "equal"
    assert "one after the other" in answer["notes"][-1]


def test_a_second_server_without_memory_is_started_after_the_first_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_ALONE", "1")
    assert not bench.answer("faster")["beside"]
    assert len(started(bench.log)) == 3


def test_a_port_that_another_program_took_is_replaced(bench: Bench) -> None:
    bench.log.with_name("started.taken").touch()
    bench.answer("faster")
    assert len(started(bench.log)) == 3


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("refusing", "the patched server ended before it was up"),
        ("dying", "the patched server died while it was measured"),
    ],
)
def test_a_patched_server_that_fails_is_a_failed_check(bench: Bench, name: str, sentence: str) -> None:
    ran = bench.run(name)
    assert ran.exit_code == 1
    assert ran.stderr.startswith(f"error: {sentence}\n")
    assert ("CUDA error: invalid device function" if name == "refusing" else "no such slot") in ran.stderr
    assert "name single patches" in ran.stderr


def test_an_unpatched_server_that_fails_is_a_tree_that_cannot_be_used(bench: Bench) -> None:
    changed(bench.package, "STARTS = True", "STARTS = False")
    ran = bench.run("faster")
    assert ran.exit_code == 4
    assert "the unpatched server ended before it was up" in ran.stderr


def test_a_server_that_hangs_ends_with_the_time_limit(bench: Bench) -> None:
    ran = bench.run("hanging", "--time-limit", "4")
    assert ran.exit_code == 1
    assert "the patched server gave no answer within the time limit" in ran.stderr


@pytest.mark.parametrize("load", [{"used": 40000}, {"busy": 60}])
def test_a_busy_gpu_is_left_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, load: dict[str, int]
) -> None:
    machine(monkeypatch, bench.folder / "busy", **load)
    ran = bench.run("faster")
    assert ran.exit_code == 4
    assert "GPU 0 is in use" in ran.stderr
    assert not started(bench.log)


def test_a_server_of_another_tree_is_not_measured(bench: Bench) -> None:
    other = write_served(bench.folder / "other" / "sglang")
    ran = bench.run("faster", command=f"{sys.executable} -B {other / 'launch_server.py'}")
    assert ran.exit_code == 4
    assert "imports another sglang than the copy" in ran.stderr


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("docker run image python -m sglang.launch_server", "bench starts the server on this machine"),
        (f"{COMMAND} | tee log", "without a shell"),
        (f"{COMMAND} --port $UNSET_PORT", "without a shell"),
        ("python -m http.server", "starts no sglang server"),
        ("no-such-python -m sglang.launch_server", "no such program"),
        (f"{COMMAND} --nnodes 2", "on one machine"),
        (f"{COMMAND} --tp many", "not a number"),
        (f"{COMMAND} --model-path /no/such/model", "no such file or folder"),
        (f"{COMMAND} 'open", "as it is typed in a shell"),
    ],
)
def test_a_command_that_starts_no_server_here_is_refused(bench: Bench, command: str, sentence: str) -> None:
    ran = bench.run("faster", command=command)
    assert ran.exit_code == 2
    assert sentence in ran.stderr
    assert not started(bench.log)


def test_two_trees_are_compared_as_they_are(bench: Bench) -> None:
    other = write_served(bench.folder / "other" / "sglang")
    changed(other, SLOW, FAST)
    answer = bench.answer("--tree", str(other))
    assert [tree["package"] for tree in answer["trees"]] == [str(bench.package), str(other)]
    assert answer["batches"][0]["interval"][1] < 1
    refused = bench.run("faster", "--tree", str(other))
    assert refused.exit_code == 2


def test_a_patched_tree_is_compared_with_a_reverted_copy(bench: Bench) -> None:
    assert CliRunner().invoke(main, ["apply", str(bench.package), "faster"]).exit_code == 0
    answer = bench.answer()
    assert [tree["patches"] for tree in answer["trees"]] == [[], ["faster"]]
    assert answer["batches"][0]["interval"][1] < 1


@pytest.mark.parametrize("content", ["one\n\ntwo\n", '["one", "two"]', "[[20, 21], [22, 23, 24]]"])
def test_prompts_come_from_a_file(bench: Bench, content: str) -> None:
    file = bench.folder / "prompts"
    file.write_text(content)
    assert bench.answer("same", "--prompts", str(file))["batches"][0]["tokens"] == "equal"


@pytest.mark.parametrize("content", ["", "\n", "[1, 2]", '["one", [20]]', '[""]'])
def test_a_file_without_prompts_is_refused(bench: Bench, content: str) -> None:
    file = bench.folder / "prompts"
    file.write_text(content)
    assert bench.run("same", "--prompts", str(file)).exit_code == 2


def test_a_kill_in_the_middle_leaves_nothing(bench: Bench) -> None:
    words = [
        "bench",
        COMMAND,
        "--tree",
        str(bench.package),
        "--patches",
        str(bench.folder / "toys"),
        "faster",
    ]
    environment = {**os.environ, "TMPDIR": str(bench.temporary)}
    process = subprocess.Popen(
        [sys.executable, "-m", "patchkit", *words], env=environment, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while len(started(bench.log)) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert len(started(bench.log)) == 2, errors
    bench.expect_nothing_left()

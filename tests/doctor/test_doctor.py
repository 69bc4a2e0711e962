from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.answers import record
from support.processes import ends_on
from support.toys import add_patch, write_package

from patchkit.cli import main
from patchkit.doctor import diagnosis
from patchkit.doctor.command_line import ServerCommand
from patchkit.doctor.execution.gpus import USUAL
from patchkit.doctor.execution.kinds import CROSS, KINDS, LLAMA, MROPE
from patchkit.doctor.gains import Gain, gains
from patchkit.doctor.models import named as models_named
from patchkit.doctor.options import Arguments
from patchkit.errors import TreeError
from patchkit.patchset import runs
from patchkit.plan.status import State
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from support.releases import Releases

ARGUMENTS = b"""
import dataclasses
import json
import types


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    tp_size: int = 1
    ep_size: int = 1
    attention_backend: str | None = None
    prefill_attention_backend: str | None = None
    decode_attention_backend: str | None = None
    speculative_algorithm: str | None = None
    speculative_eagle_topk: int | None = None
    speculative_attention_mode: str = "prefill"
    enable_two_batch_overlap: bool = False
    disable_piecewise_cuda_graph: bool = False
    disable_overlap_schedule: bool = False

    def __post_init__(self):
        self._handle_speculation()

    def _handle_speculation(self):
        if self.speculative_algorithm is None:
            return
        if self.speculative_eagle_topk is not None and self.speculative_eagle_topk > 1:
            self.disable_overlap_schedule = True

    def get_model_config(self):
        with open(self.model_path + "/config.json") as file:
            return types.SimpleNamespace(hf_config=types.SimpleNamespace(**json.load(file)))

    @classmethod
    def from_cli_args(cls, args):
        return cls(**{field.name: getattr(args, field.name) for field in dataclasses.fields(cls)})

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--tensor-parallel-size", "--tp-size", dest="tp_size", type=int, default=1)
        for field in dataclasses.fields(ServerArgs)[2:]:
            name = "--" + field.name.replace("_", "-")
            if field.type is bool:
                parser.add_argument(name, action="store_true")
            else:
                kind = int if field.type in (int, int | None) else str
                parser.add_argument(name, type=kind, default=field.default)
"""
NEWLINE = b"\n"
BASE = b"""
UNDECLARED = object()


class AttentionBackend:
    needs_cpu_seq_lens: bool = True


def decide_needs_cpu_seq_lens(server_args, backends):
    if server_args.enable_two_batch_overlap:
        return True
    if not server_args.disable_piecewise_cuda_graph:
        return True
    return any(getattr(backend, "needs_cpu_seq_lens", True) for backend in backends if backend is not None)


class HybridAttnBackend(AttentionBackend):
    def __init__(self, model_runner, prefill_backend, decode_backend):
        self.needs_cpu_seq_lens = prefill_backend.needs_cpu_seq_lens or decode_backend.needs_cpu_seq_lens
"""
BACKENDS = b"""
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FreeBackend(AttentionBackend):
    needs_cpu_seq_lens: bool = False

    def init_forward_metadata(self, forward_batch):
        return forward_batch.seq_lens


class ForkBackend(FreeBackend):
    needs_cpu_seq_lens: bool = True


class HeldBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        return forward_batch.seq_lens_cpu.max()
"""
SCHEDULER = b"""
from sglang.srt.layers.attention.base_attn_backend import decide_needs_cpu_seq_lens


class Scheduler:
    def init_overlap(self):
        if not self.enable_overlap:
            self.future_map = None
            return
        backends = (
            self.draft_worker.spec_v2_attn_backends
            if self.draft_worker is not None
            else (self.tp_worker.model_runner.attn_backend,)
        )
        self.needs_cpu_seq_lens = decide_needs_cpu_seq_lens(self.server_args, backends)
"""
ALGORITHMS = b"""
from enum import Enum, auto


class SpeculativeAlgorithm(Enum):
    EAGLE = auto()
    EAGLE3 = auto()
    NGRAM = auto()

    @classmethod
    def from_string(cls, name):
        return cls[name.upper()]

    def create_worker(self, server_args):
        from sglang.srt.speculative.workers import Worker

        return Worker
"""
WORKERS = b"""
from sglang.srt.layers.attention.base_attn_backend import UNDECLARED


class Worker:
    @property
    def spec_v2_attn_backends(self):
        if self.plan_stream is not None:
            return (UNDECLARED,)
        draft = self._draft_worker
        target = self._target_worker.model_runner.attn_backend
        return target, draft.draft_attn_backend, draft.draft_extend_attn_backend
"""
REGISTRY = b"""
from sglang.srt.layers.attention.backends import ForkBackend, FreeBackend, HeldBackend


def register_attention_backend(name):
    return lambda function: function


@register_attention_backend("free")
def create_free(runner):
    from sglang.srt.layers.attention.backends import FreeBackend

    return FreeBackend(runner)


@register_attention_backend("fork")
def create_fork(runner):
    return ForkBackend(runner)


@register_attention_backend("held")
@register_attention_backend("fa3")
def create_held(runner):
    backend = HeldBackend(runner)
    return backend
"""
DRAFTS = b"""
from sglang.srt.layers.attention.backends import ForkBackend, FreeBackend, HeldBackend


class DraftBackendFactory:
    def __init__(self, server_args, runner, topk, steps):
        self.server_args = server_args

    def create_decode_backend(self):
        backend_map = {"free": self._free, "held": self._held, "fork": self._fork, "fa3": self._held}
        return self._made("decode_attention_backend", backend_map)

    def create_draft_extend_backend(self):
        backend_map = {"free": self._free, "held": self._held, "fork": self._fork, "fa3": self._held}
        return self._made("prefill_attention_backend", backend_map)

    def _made(self, side, backend_map):
        name = getattr(self.server_args, side) or self.server_args.attention_backend
        if name not in backend_map:
            raise ValueError(name)
        return backend_map[name]()

    def _fork(self):
        return ForkBackend()

    def _free(self):
        return self._any(3)

    def _any(self, version):
        return FreeBackend(version)

    def _held(self):
        return HeldBackend()
"""


@pytest.fixture
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with four names of backends, one of which has opted out.

    It asks for no GPU and executes for one. So it does for one kind of model, but in tests of ``every_kind``.
    """
    monkeypatch.setattr("patchkit.doctor.options.USUAL", USUAL[:1])
    monkeypatch.setattr("patchkit.doctor.options.KINDS", KINDS[:1])
    sources = {
        "__init__.py": b"",
        "srt/server_args.py": ARGUMENTS,
        "srt/layers/attention/base_attn_backend.py": BASE,
        "srt/layers/attention/backends.py": BACKENDS,
        "srt/layers/attention/attention_registry.py": REGISTRY,
        "srt/managers/scheduler.py": SCHEDULER,
        "srt/speculative/draft_utils.py": DRAFTS,
        "srt/speculative/spec_info.py": ALGORITHMS,
        "srt/speculative/workers.py": WORKERS,
    }
    return write_package(tmp_path / "fork" / "sglang", sources)


@pytest.fixture
def every_kind(fork: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tree be executed for each kind of model, whose answers differ."""
    monkeypatch.setattr("patchkit.doctor.options.KINDS", KINDS)


def of_kinds(monkeypatch: pytest.MonkeyPatch, *facts: str) -> None:
    """Let a release be executed for the usual kind of model and for those with these facts."""
    kinds = [kind for kind in KINDS if not kind.facts or not set(facts).isdisjoint(kind.facts)]
    monkeypatch.setattr("patchkit.doctor.options.KINDS", kinds)


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["doctor", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def causes(*arguments: object) -> dict[str, list[str]]:
    answer: Any = json.loads(run(*arguments, "--json").stdout)
    assert answer["kept"] is bool(answer["causes"])
    return {cause["who"]: cause["remedies"] for cause in answer["causes"]}


EAGLE = ("--speculative-algorithm", "EAGLE3", "--disable-piecewise-cuda-graph")


@pytest.mark.usefixtures("every_kind")
def test_nobody_keeps_the_mirror_of_a_server_whose_backends_opted_out(fork: Path) -> None:
    assert causes(fork, "--attention-backend", "free", *EAGLE) == {}
    output = run(fork, "--attention-backend", "free", *EAGLE).stdout
    assert output.startswith("The CPU mirror of sequence lengths is removed: decode steps do not wait")


FREE = ("--attention-backend", "free")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            (*FREE, "--speculative-algorithm", "EAGLE3"),
            {"piecewise cuda graph": ["--disable-piecewise-cuda-graph"]},
        ),
        (
            (*FREE, "--enable-two-batch-overlap", *EAGLE),
            {"--enable-two-batch-overlap": ["leave out --enable-two-batch-overlap"]},
        ),
        (("--attention-backend", "held", *EAGLE), {"HeldBackend": []}),
        ((*FREE, "--decode-attention-backend", "fork", *EAGLE), {"ForkBackend": []}),
        (
            (*FREE, *EAGLE, "--speculative-eagle-topk", "4"),
            {"speculative decoding v1": ["--speculative-eagle-topk 1"]},
        ),
    ],
    ids=[
        "graphs by default",
        "a feature",
        "a backend",
        "a fork's subclass that takes the flag back",
        "several branches",
    ],
)
def test_what_keeps_the_mirror_is_named_with_the_option_that_removes_it(
    fork: Path, words: tuple[str, ...], named: dict[str, list[str]]
) -> None:
    assert causes(fork, *words) == named


def test_each_role_has_its_own_backend(fork: Path) -> None:
    words = ("--prefill-attention-backend=free", "--decode-attention-backend=held", *EAGLE)
    answer: Any = json.loads(run(fork, *words, "--json").stdout)
    roles = {one["role"]: one["classes"] for one in answer["backends"]}
    assert roles == {
        "prefill": ["FreeBackend"],
        "decode": ["HeldBackend"],
        "draft steps": ["HeldBackend"],
        "draft extend": ["FreeBackend"],
    }


def test_the_launch_command_is_taken_as_typed(fork: Path) -> None:
    command = (
        "SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1 python -m sglang.launch_server --model x --tp 2 "
        "--attention-backend free --speculative-algorithm EAGLE --disable-piecewise-cuda-graph"
    )
    assert list(causes(fork, command)) == ["SGLANG_ENABLE_OVERLAP_PLAN_STREAM"]
    assert causes(fork, *command.split()[1:]) == {}


def test_a_server_args_json_counts_below_the_options(fork: Path, tmp_path: Path) -> None:
    settings = tmp_path / "args.json"
    settings.write_text(
        json.dumps(
            {
                "attention_backend": "held",
                "speculative_algorithm": "EAGLE",
                "disable_piecewise_cuda_graph": True,
            }
        )
    )
    assert list(causes(fork, "--server-args", settings)) == ["HeldBackend"]
    assert causes(fork, "--server-args", settings, "--attention-backend", "free") == {}


def test_without_speculation_there_is_nothing_to_free(fork: Path) -> None:
    answer: Any = json.loads(run(fork, "--attention-backend", "held", "--json").stdout)
    assert (answer["kept"], answer["verdict"].startswith("No CPU mirror to remove")) == (False, True)


def test_a_tree_without_the_decision_is_freed_by_the_patch_that_brings_it(fork: Path) -> None:
    for file, old in (("base_attn_backend.py", BASE), ("backends.py", BACKENDS)):
        text = old.replace(b"needs_cpu_seq_lens", b"other_name")
        (fork / "srt" / "layers" / "attention" / file).write_bytes(text)
    (fork / "srt" / "managers" / "scheduler.py").write_bytes(b"class Scheduler:\n    pass\n")
    found = causes(fork, "--attention-backend", "free", "--speculative-algorithm", "EAGLE3")
    assert found["the unpatched code"] == ["patch 26128"]


LINEAR = b"""
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class MambaAttnBackendBase(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        return forward_batch.seq_lens_cpu


class GDNAttnBackend(MambaAttnBackendBase):
    FLAG


class KDAAttnBackend(MambaAttnBackendBase):
    pass


class HybridLinearAttnBackend(AttentionBackend):
    def __init__(self, full, linear):
        self.WRAPPED
"""


@pytest.mark.parametrize(
    ("flag", "wrapped", "message"),
    [
        (
            b"pass",
            b"both = full, linear",
            "keeps the mirror in any case, by HybridLinearAttnBackend.",
        ),
        (
            b"needs_cpu_seq_lens = False",
            b"needs_cpu_seq_lens = full.needs_cpu_seq_lens or linear.needs_cpu_seq_lens",
            "if KDAAttnBackend runs them.",
        ),
    ],
)
@pytest.mark.usefixtures("every_kind")
def test_the_result_for_a_model_with_linear_attention_is_shown_beside_the_answer(
    fork: Path, flag: bytes, wrapped: bytes, message: str
) -> None:
    def notes(*words: object) -> list[str]:
        answer: Any = json.loads(run(fork, "--attention-backend", "free", *words, "--json").stdout)
        return [note for note in answer["notes"] if "linear-attention" in note]

    assert notes(*EAGLE) == [], "a tree without such backends has nothing to say"
    file = fork / "srt" / "layers" / "attention" / "hybrid_linear_attn_backend.py"
    file.write_bytes(LINEAR.replace(b"FLAG", flag).replace(b"WRAPPED", wrapped))
    (note,) = notes(*EAGLE)
    assert note.endswith(message)
    assert notes() == [], "without speculation there is nothing to remove"


@pytest.mark.parametrize(
    ("words", "message", "place"),
    [
        (
            ["--attention-bakend", "free"],
            r"unrecognized arguments: --attention-bakend free(?s:.*)did you mean --attention-backend",
            "@staticmethod",
        ),
        (
            ["--attention-backend"],
            "argument --attention-backend: expected one argument",
            "attention_backend:",
        ),
        (["--tp-size", "many"], "invalid int value: 'many'", "tp_size:"),
    ],
)
def test_options_that_the_trees_own_parser_refuses_are_refused_in_its_words_at_the_line_that_declares_them(
    fork: Path, words: list[str], message: str, place: str
) -> None:
    error = run(fork, *words, code=2).stderr
    assert re.search(message, error) is not None
    lines = (fork / "srt" / "server_args.py").read_text().splitlines()
    found = re.search(r"srt/server_args\.py:(\d+)", error)
    assert found is not None
    assert place in lines[int(found[1]) - 1]


def test_settings_that_are_no_json_are_refused(fork: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[1")
    assert "not a JSON object" in run(fork, "--server-args", tmp_path / "bad.json", code=2).stderr


def test_a_tree_without_server_args_is_refused(fork: Path) -> None:
    (fork / "srt" / "server_args.py").unlink()
    with pytest.raises(TreeError, match="no file below srt/ defines a class ServerArgs"):
        Arguments(open_tree(fork)).launch(ServerCommand((), {}))


def _without_fields(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if not re.match(rb"    \w+: ", line))


PARTS = b"""
class Model:
    NAMESPACE = "model"
    model_path: str
    tp_size: int = 1
    ep_size: int = 1


class Kernels:
    attention_backend: str | None = None
    prefill_attention_backend: str | None = None
    decode_attention_backend: str | None = None
    enable_two_batch_overlap: bool = False
    disable_piecewise_cuda_graph: bool = False
    disable_overlap_schedule: bool = False


class Drafts:
    speculative_algorithm: str | None = None
    speculative_eagle_topk: int | None = None
    speculative_attention_mode: str = "prefill"


class Elsewhere:
    not_a_setting: int = 1
"""


@pytest.mark.usefixtures("every_kind")
def test_settings_that_other_classes_declare_are_found_where_the_class_is_assembled_from_them(
    fork: Path,
) -> None:
    (fork / "srt" / "parts.py").write_bytes(PARTS)
    assembled = b"""
from sglang.srt.parts import Drafts, Elsewhere, Kernels, Model

_GROUPS = [Model, Kernels, Drafts]
_hints, _defaults = collect(_GROUPS)
ServerArgs.__annotations__ = {**_hints}
ServerArgs = assemble("ServerArgs", ServerArgs.__annotations__)
_others = [Elsewhere]
"""
    (fork / "srt" / "server_args.py").write_bytes(_without_fields(ARGUMENTS) + assembled)
    assert causes(fork, "--read-only", "--attention-backend", "free", *EAGLE) == {}
    assert "HeldBackend" in causes(fork, "--read-only", "--attention-backend", "held", *EAGLE)


@pytest.mark.parametrize("text", [b"", b"from sglang.srt.settings import ServerArgs\n", None])
@pytest.mark.usefixtures("every_kind")
def test_settings_are_found_in_whatever_file_defines_them(fork: Path, text: bytes | None) -> None:
    usual = fork / "srt" / "server_args.py"
    (fork / "srt" / "settings.py").write_bytes(ARGUMENTS)
    usual.unlink()
    if text is not None:
        usual.write_bytes(text)
    assert causes(fork, "--read-only", "--attention-backend", "free", *EAGLE) == {}


def test_two_classes_of_settings_are_refused_by_their_files(fork: Path) -> None:
    for name in ("one.py", "two.py"):
        (fork / "srt" / name).write_bytes(ARGUMENTS)
    (fork / "srt" / "server_args.py").unlink()
    with pytest.raises(TreeError, match=r"srt/one.py and srt/two.py each define a class ServerArgs"):
        Arguments(open_tree(fork)).launch(ServerCommand((), {}))


def test_settings_without_fields_are_reported_as_lacking_them(fork: Path) -> None:
    (fork / "srt" / "server_args.py").write_bytes(_without_fields(ARGUMENTS))
    with pytest.raises(TreeError, match=r"ServerArgs in srt/server_args.py declares no field"):
        Arguments(open_tree(fork)).launch(ServerCommand((), {}))


@pytest.mark.parametrize("is_read_only", [True, False])
@pytest.mark.usefixtures("every_kind")
def test_a_tree_whose_code_is_not_run_or_does_not_run_is_diagnosed_by_what_is_given(
    fork: Path, tmp_path: Path, is_read_only: bool
) -> None:
    ran = tmp_path / "ran"
    planted = f"\nopen({str(ran)!r}, 'w').close()\nraise SystemExit('planted')\n"
    (fork / "srt" / "server_args.py").write_bytes(ARGUMENTS + planted.encode())
    words = ("--attention-backend", "free", *EAGLE, *["--read-only"] * is_read_only)
    answer: Any = json.loads(run(fork, *words, "--json").stdout)
    assert answer["causes"] == []
    (note,) = answer["notes"]
    why = "" if is_read_only else f" (SystemExit: planted, srt/server_args.py:{ARGUMENTS.count(NEWLINE) + 3})"
    assert note == (
        f"Only the options that are given are known: the tree's own settings were not executed{why}."
    )
    assert ran.exists() is not is_read_only


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os\nos.kill(os.getpid(), 9)", "the process that executes them ended early"),
        ("text = 'x' * (1 << 36)", "MemoryError"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "no network access"),
        ("import subprocess\nsubprocess.run(['true'])", "the settings are executed without true"),
    ],
    ids=["it ends itself", "it takes all memory", "it wants the network", "it starts programs"],
)
def test_code_of_a_tree_that_wants_more_than_settings_need_is_said_to_be_not_executed(
    fork: Path, code: str, why: str
) -> None:
    (fork / "srt" / "server_args.py").write_bytes(code.encode() + b"\n" + ARGUMENTS)
    answer: Any = json.loads(run(fork, "--attention-backend", "free", *EAGLE, "--json").stdout)
    assert why in answer["notes"][0]


def test_code_of_a_tree_leaves_nothing_behind(
    fork: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folder of the launch is in the command line of what executes it.
    monkeypatch.chdir(tmp_path)
    code = b"""import os, subprocess, tempfile
for place in (os.path.expanduser("~"), tempfile.gettempdir(), "."):
    open(os.path.join(place, "left"), "w").close()
if os.fork() == 0:
    import time
    time.sleep(600)
"""
    (fork / "srt" / "server_args.py").write_bytes(code + ARGUMENTS)
    before = sorted(tmp_path.rglob("*"))
    run(fork, "--attention-backend", "free", *EAGLE)
    assert sorted(tmp_path.rglob("*")) == before, "no compiled file is written into the tree"
    assert ends_on(tmp_path)


@pytest.mark.parametrize(
    ("version", "backends", "measured"),
    [
        ("0.5.12.post1", ("triton", "triton"), "0.5.12.post1"),
        ("0.5.12.post1+acme.3", ("triton", "triton"), "0.5.12.post1"),
        ("0.5.14", ("triton", "triton"), "0.5.14"),
        ("0.5.13", ("triton", "triton"), "0.5.12.post1"),
        ("0.5.23", ("triton", "triton"), "0.5.14"),
        ("0.5.11", ("triton", "triton"), "0.5.12.post1"),
        (None, ("triton", "triton"), "0.5.12.post1"),
        ("0.5.14", ("triton", "trtllm_mha"), "0.5.18"),
        ("0.5.18", ("trtllm_mha", "trtllm_mha"), None),
    ],
)
def test_what_was_measured_is_of_the_release_and_its_backends_or_names_another_release(
    version: str | None,
    backends: tuple[str, str],
    measured: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for release in ("0.5.12.post1", "0.5.14"):
        record(tmp_path, f"llama-8-triton-{release}", 0.8, "26128", release=release)
    both = "--attention-backend triton --decode-attention-backend trtllm_mha"
    record(tmp_path, "llama-8-both-0.5.18", 0.8, "26128", release="0.5.18", options=both)
    monkeypatch.setattr("patchkit.doctor.gains.RECORDED", tmp_path)
    assert [case.release for case in gains(version, *backends, {"26128"})] == ([measured] if measured else [])


def test_a_time_of_other_tokens_of_few_pairs_or_of_other_patches_is_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, "llama-8-triton-a", 0.8, "26128", tokens="differ")
    record(tmp_path, "llama-16-triton-b", 0.8, "26128", tokens="not judged")
    record(tmp_path, "llama-24-triton-c", 0.8, "26128", interval=None)
    record(tmp_path, "llama-32-triton-d", 0.8, "26128")
    record(tmp_path, "llama-40-triton-e", 0.8, "26128", "27689")
    monkeypatch.setattr("patchkit.doctor.gains.RECORDED", tmp_path)
    (case,) = gains("0.5.12.post1", "triton", "triton", {"26128"})
    assert (case.server, case.layers, case.interval) == ("Llama, top-k 1", 32, (0.79, 0.81))


def test_the_installed_package_is_diagnosed_and_named_in_commands(
    fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(fork.parent))
    options = ("--attention-backend", "free", "--speculative-algorithm", "EAGLE3")
    answer = json.loads(run("--installed", *options, "--json").stdout)
    assert answer == json.loads(run(fork, *options, "--json").stdout)
    assert answer["tree"]["package"] == str(fork)


def test_a_gain_of_another_release_is_reported_with_that_release(fork: Path) -> None:
    words = ("--attention-backend", "free", "--speculative-algorithm", "EAGLE3")
    with pytest.MonkeyPatch.context() as patch:
        case = Gain("0.5.12.post1", "Llama, top-k 1", 8, 1, "GPU", 0.5, (0.4, 0.6), "half")
        patch.setattr(diagnosis, "gains", lambda *_: (case,))
        output = " ".join(run(fork, *words, "--disable-piecewise-cuda-graph").stdout.split())
        assert "Measured" not in output, "upstream frees it there"
        patch.setattr(diagnosis, "_freeing", lambda *_: {"26128": State.APPLIED})
        output = " ".join(run(fork, *words, "--disable-piecewise-cuda-graph").stdout.split())
        assert (
            "The gain was not measured on this tree with these backends. Measured on 0.5.12.post1:" in output
        )
        (fork / "version.py").write_text('__version__ = "0.5.12.post1"\n')
        output = " ".join(run(fork, *words, "--disable-piecewise-cuda-graph").stdout.split())
    assert "not measured" not in output
    assert "Llama, top-k 1, 8 layers, batch 1: 0.500 (0.400 to 0.600), GPU: half" in output


@pytest.mark.parametrize(
    "command",
    [
        "docker run --gpus all -e SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1 image python3 -m sglang.launch_server {}",
        "sudo podman run --env=SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1 image sglang serve model {}",
        "env SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1 python -m sglang.launch_server \\\n  {} > log 2>&1",
        "docker run image bash -c 'SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1 python -m sglang.launch_server {}'",
    ],
)
def test_a_command_is_taken_in_whatever_it_is_wrapped(fork: Path, command: str) -> None:
    options = " ".join(("--attention-backend", "free", *EAGLE))
    assert list(causes(fork, command.format(options))) == ["SGLANG_ENABLE_OVERLAP_PLAN_STREAM"]


def test_a_configuration_file_counts_below_the_options(fork: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "attention-backend: held  # read\nspeculative-algorithm: 'EAGLE'\ndisable-piecewise-cuda-graph: true\n"
    )
    assert list(causes(fork, "--config", file)) == ["HeldBackend"]
    assert causes(fork, "--config", file, "--attention-backend", "free") == {}


@pytest.mark.parametrize(
    "text",
    [
        "attention-backend: free\nspeculative-algorithm: EAGLE\ndisable-piecewise-cuda-graph: yes\n",
        "{attention-backend: free, speculative-algorithm: EAGLE, disable-piecewise-cuda-graph: on}",
        "---\n'attention-backend': !!str free # here\nspeculative-algorithm: >-\n  EAGLE\n"
        "disable-piecewise-cuda-graph: True\ntp-size: 2\n...\n",
        "speculative-algorithm: &one EAGLE\nattention-backend:\n- free\ndisable-piecewise-cuda-graph: true\n"
        "model-path: *one\nenable-two-batch-overlap: off",
    ],
)
def test_a_configuration_file_is_read_as_yaml(fork: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "server.yml").write_text(text)
    assert causes(fork, "--config", tmp_path / "server.yml") == {}


def test_what_a_configuration_file_nests_without_end_is_refused(fork: Path, tmp_path: Path) -> None:
    links = "".join(f"  - &a{n + 1} [*a{n}, *a{n}, *a{n}, *a{n}]\n" for n in range(40))
    (tmp_path / "server.yml").write_text(f"model-path:\n  links:\n  - &a0 [x]\n{links}")
    error = run(fork, "--config", tmp_path / "server.yml", code=2).stderr
    assert "server.yml: model-path has nested values" in error


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("gone.yaml", None, "gone.yaml: no such file"),
        ("server.json", "{}", "ends in .yaml or .yml"),
        ("folder.yaml", None, "folder.yaml: a folder, not a file"),
        ("server.yaml", "just words", "one value, not a mapping of options"),
        ("server.yaml", "- attention-backend: free", "a list, not a mapping of options"),
        ("server.yaml", "# nothing", "contains no option\nhelp: write `name: value`"),
        ("server.yaml", "1: 2", "server.yaml: 1: not the name of an option"),
        ("server.yaml", "a: [1", "not valid YAML"),
        (
            "server.yaml",
            "a: b\n\tc: d",
            "server.yaml, line 2: not valid YAML (while scanning for the next token, found",
        ),
        (
            "server.yaml",
            "a: b\n---\na: b",
            "line 2: not valid YAML (expected a single document in the stream, but",
        ),
        ("server.yaml", "a: " + "[" * 4000, "not valid YAML"),
        ("server.yaml", "a: 2026-99-99", "not valid YAML"),
        (
            "server.yaml",
            "attention-backend:",
            "attention-backend has no value\nhelp: write `attention-backend: VALUE`",
        ),
        ("server.yaml", "# long\n" * 2**16, "more than 256 KiB"),
        ("server.yaml", "no-such-option: 1", "unrecognized arguments: --no-such-option 1"),
        ("server.yaml", "attention_backend: free", "did you mean --attention-backend?"),
        (
            "server.yaml",
            "server: {attention-backend: free}",
            "server has nested values\nhelp: write `name: value`",
        ),
        ("server.yaml", "model-path: [free, held]", "unrecognized arguments: held"),
        (
            "server.yaml",
            "disable-overlap-schedule: maybe",
            "argument --disable-overlap-schedule: maybe is neither true nor false",
        ),
    ],
)
def test_a_configuration_file_that_cannot_be_read_is_a_sentence(
    fork: Path, tmp_path: Path, name: str, text: str | None, match: str
) -> None:
    if name == "folder.yaml":
        (tmp_path / name).mkdir()
    elif text is not None:
        (tmp_path / name).write_text(text)
    assert match in run(fork, "--config", tmp_path / name, code=2).stderr


@pytest.mark.parametrize("words", [["--config"], ["--config="], ["--config", "--tp-size"]])
def test_a_configuration_file_without_a_name_is_a_sentence(fork: Path, words: list[str]) -> None:
    assert "--config: a value is missing\nhelp: type --config FILE.yaml" in run(fork, *words, code=2).stderr


def test_a_container_that_starts_no_server_is_a_sentence(fork: Path) -> None:
    assert "does not start an sglang server" in run(fork, "docker run --gpus all image", code=2).stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("no-such-folder", "--attention-backend", "free", *EAGLE), "no-such-folder"),
        (("EAGLE3",), "EAGLE3"),
        (("vllm serve model",), "vllm"),
    ],
)
def test_a_word_that_is_neither_a_tree_nor_the_servers_is_refused(
    fork: Path, words: tuple[str, ...], named: str
) -> None:
    output = run(fork, *words, code=2).stderr
    assert f"error: {named}: neither a" in output
    assert "TREE" in output


def test_a_tree_that_does_not_exist_is_the_error_outside_of_every_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "error: no-such-tree: neither a folder" in run("no-such-tree", *EAGLE, code=2).stderr


def test_a_server_without_the_overlap_schedule_keeps_it_whatever_its_backends_say(fork: Path) -> None:
    words = ("--attention-backend", "free", "--disable-overlap-schedule", *EAGLE)
    answer: Any = json.loads(run(fork, *words, "--json").stdout)
    assert answer["verdict"].endswith("is kept by --disable-overlap-schedule.")
    assert {one["opted_out"] for one in answer["backends"]} == {True}


def _reading_local_attention(fork: Path) -> None:
    """Let a backend read the mirror of models with local attention only."""
    file = fork / "srt" / "layers" / "attention" / "backends.py"
    flag = b"def needs_cpu_seq_lens(self):\n        mine = self.runner\n"
    flag += b"        return mine != 3 and mine.model_config.is_local_attention_model"
    made = b"def __init__(self, runner=None):\n        self.runner = runner\n\n    @property\n    " + flag
    kept = b"class FreeBackend(AttentionBackend):\n    needs_cpu_seq_lens: bool = False"
    assert kept in BACKENDS
    file.write_bytes(BACKENDS.replace(kept, b"class FreeBackend(AttentionBackend):\n    " + made))


@pytest.mark.usefixtures("every_kind")
def test_a_backend_that_depends_on_the_model_is_reported_as_such(fork: Path) -> None:
    _reading_local_attention(fork)
    output = " ".join(run(fork, "--attention-backend", "free", *EAGLE).stdout.split())
    assert "is removed for most models, but kept for models or drafts with local attention." in output
    assert "The mirror is kept by: For models or drafts with local attention:" in output
    assert "Reading the mirror for models or drafts with local attention: prefill" in output
    assert output.count("local attention") == 3, (
        "once in the verdict, once of the causes, once of the backends"
    )


def test_the_result_of_the_patches_names_who_still_keeps_the_mirror_and_where_none_ran(
    releases: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_kinds(monkeypatch)
    root = releases.tree("0.5.12.post1").root
    command = "SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1 sglang serve --model x --attention-backend triton"
    free = ("--attention-backend", "triton", "--speculative-algorithm", "EAGLE3")
    kept: Any = json.loads(run(root, f"{command} {' '.join(free[2:])}", "--gpu", "h100", "--json").stdout)
    (after,) = [note for note in kept["notes"] if note.startswith("After `patchkit apply`: ")]
    assert "is kept by SGLANG_ENABLE_OVERLAP_PLAN_STREAM" in after
    freed: Any = json.loads(run(root, *free, "--gpu", "h100", "--json").stdout)
    (after,) = [note for note in freed["notes"] if note.startswith("After `patchkit apply`: ")]
    assert "is removed" in after
    known = runs.read()
    never = [note for note in freed["notes"] if note.startswith("Never run on a GPU with 0.5.12.post1")]
    assert bool(never) is not known.ran("26128", "0.5.12.post1")


@pytest.mark.usefixtures("every_kind")
def test_a_backend_that_keeps_the_mirror_of_some_models_is_not_reported_for_all(fork: Path) -> None:
    _reading_local_attention(fork)
    words = ("--attention-backend", "free", *EAGLE)
    stream = "SGLANG_ENABLE_OVERLAP_PLAN_STREAM"
    output = " ".join(run(fork, f"{stream}=1", *words).stdout.split())
    where = "for models or drafts with local attention"
    assert f"is kept by {stream}, and {where} by FreeBackend." in output


@pytest.mark.usefixtures("every_kind")
def test_a_backend_that_frees_the_mirror_of_some_models_is_offered_without_the_others(fork: Path) -> None:
    _reading_local_attention(fork)
    answer: Any = json.loads(run(fork, "--attention-backend", "held", *EAGLE, "--json").stdout)
    assert answer["notes"] == [
        "On this server other backends remove the mirror, if the GPU and the model support them: "
        "--attention-backend free, except for models or drafts with local attention."
    ]


def _branching(fork: Path, also: bytes = b"False") -> None:
    """Let the server have four branches with one architecture by itself, and a backend that reads the mirror then.

    It also reads the mirror where the expression ``also`` is true.
    """
    fields = (
        b"    speculative_num_steps: int | None = None\n    speculative_num_draft_tokens: int | None = None\n"
    )
    choice = b"""
        if self.speculative_num_steps is None:
            if self.get_model_config().hf_config.architectures[0] in ["LlamaForCausalLM"]:
                self.speculative_eagle_topk = 4
"""
    text = ARGUMENTS.replace(b"    speculative_attention_mode", fields + b"    speculative_attention_mode")
    text = text.replace(b"            self.disable_overlap_schedule = True\n", b"            pass\n" + choice)
    (fork / "srt" / "server_args.py").write_bytes(text)
    reading = b"""
    def __init__(self, runner=None):
        self.runner = runner

    @property
    def needs_cpu_seq_lens(self):
        mine = self.runner
        return mine != 3 and (mine.server_args.speculative_eagle_topk > 1 or also)
"""
    reading = reading.replace(b"also", also)
    kept = b"class FreeBackend(AttentionBackend):\n    needs_cpu_seq_lens: bool = False"
    made = BACKENDS.replace(kept, b"class FreeBackend(AttentionBackend):" + reading)
    (fork / "srt" / "layers" / "attention" / "backends.py").write_bytes(made)


@pytest.mark.usefixtures("every_kind")
def test_one_branch_is_named_for_a_backend_that_reads_the_mirror_with_several(fork: Path) -> None:
    _branching(fork)
    words = (
        "--attention-backend",
        "free",
        *EAGLE,
        "--speculative-num-steps",
        "3",
        "--speculative-eagle-topk",
    )
    assert causes(fork, *words, "4") == {"FreeBackend": ["--speculative-eagle-topk 1"]}
    assert causes(fork, *words, "1") == {}


@pytest.mark.usefixtures("every_kind")
def test_one_branch_is_named_for_the_architecture_that_has_several_by_default(fork: Path) -> None:
    _branching(fork)
    answer: Any = json.loads(run(fork, "--attention-backend", "free", *EAGLE, "--json").stdout)
    (cause,) = answer["causes"]
    assert cause["where"] == "for models or drafts of the architecture LlamaForCausalLM"
    # sglang takes all three or none.
    typed = "--speculative-eagle-topk 1 --speculative-num-steps 3 --speculative-num-draft-tokens 4"
    assert cause["remedies"] == [typed]
    assert causes(fork, "--attention-backend", "free", *EAGLE, *typed.split()) == {}


@pytest.mark.usefixtures("every_kind")
def test_a_model_on_this_machine_is_the_one_that_is_asked_about(fork: Path, tmp_path: Path) -> None:
    _branching(fork)
    for name, architecture in (("llama", "LlamaForCausalLM"), ("other", "OtherForCausalLM")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    words = ("--attention-backend", "free", *EAGLE, "--model-path")
    assert list(causes(fork, *words, tmp_path / "llama")) == ["FreeBackend"]
    assert causes(fork, *words, tmp_path / "other") == {}
    answer: Any = json.loads(run(fork, *words, tmp_path / "llama", "--json").stdout)
    assert [cause["where"] for cause in answer["causes"]] == [""], "there is no other model"
    config = ("--model-config", tmp_path / "other" / "config.json")
    assert causes(fork, *words, "somebody/model", *config) == {}
    (tmp_path / "other" / "config.json").write_text("[]")
    assert "--model-config: not a JSON object" in run(fork, *words, "x", *config, code=2).stderr


@pytest.mark.usefixtures("every_kind")
def test_a_model_that_is_known_by_its_name_is_the_one_that_is_asked_about(fork: Path) -> None:
    _branching(fork)
    words = ("--attention-backend", "free", *EAGLE, "--model-path")
    answer: Any = json.loads(run(fork, *words, "$HOME/Llama-3.1-8B", "--json").stdout)
    assert [(each["who"], each["where"]) for each in answer["causes"]] == [("FreeBackend", "")]
    assert "The model's configuration is one of Llama, by its name (see --model-config)." in answer["notes"]
    assert causes(fork, *words, "Qwen/Qwen3-8B") == {}


def test_a_configuration_that_is_known_by_a_name_refuses_nothing(fork: Path) -> None:
    refusal = b"""
        if "Llama" in self.get_model_config().hf_config.architectures[0]:
            raise ValueError("no such model")
"""
    start = b"        self._handle_speculation()\n"
    (fork / "srt" / "server_args.py").write_bytes(ARGUMENTS.replace(start, refusal + start))
    words = ("--attention-backend", "free", *EAGLE, "--model-path", "Llama-3.1-8B")
    answer: Any = json.loads(run(fork, *words, "--json").stdout)
    assert answer["notes"][0].startswith(
        "With a configuration of Llama, by the model's name, this tree raises ValueError: no such model, srt/server"
    )


@pytest.mark.usefixtures("every_kind")
def test_what_most_models_are_refused_for_is_the_trees_own_refusal(fork: Path) -> None:
    refusal = b"""
        if "Llama" in self.get_model_config().hf_config.architectures[0]:
            raise ValueError("not with Llama")
        raise ValueError("with no model")
"""
    start = b"        self._handle_speculation()\n"
    (fork / "srt" / "server_args.py").write_bytes(ARGUMENTS.replace(start, refusal + start))
    assert "raises ValueError: with no model" in run(fork, *EAGLE, code=2).stderr


@pytest.mark.usefixtures("every_kind")
def test_a_guessed_models_context_is_as_long_as_a_launch_wants_it(fork: Path) -> None:
    refusal = b"""
        import os

        if os.environ.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") != "1":
            raise ValueError("too long")
"""
    start = b"        self._handle_speculation()\n"
    (fork / "srt" / "server_args.py").write_bytes(ARGUMENTS.replace(start, refusal + start))
    run(fork, "--attention-backend", "free", *EAGLE)


@pytest.mark.usefixtures("every_kind")
def test_a_backend_that_the_tree_chooses_by_the_gpu_is_told_for_both(
    fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchkit.doctor.options.USUAL", USUAL)
    choice = b"""
        if self.attention_backend is None:
            import torch
            self.attention_backend = "free" if torch.cuda.get_device_capability()[0] > 9 else "held"
"""
    text = ARGUMENTS.replace(
        b"        self._handle_speculation()\n", choice + b"        self._handle_speculation()\n"
    )
    (fork / "srt" / "server_args.py").write_bytes(text)
    answer: Any = json.loads(run(fork, *EAGLE, "--json").stdout)
    assert answer["verdict"].endswith("is kept for most models, but removed on a Blackwell GPU.")
    assert list(causes(fork, *EAGLE, "--gpu", "h200")) == ["HeldBackend"]
    assert causes(fork, *EAGLE, "--gpu", "b200") == {}
    assert "--gpu h1: no such GPU is known" in run(fork, *EAGLE, "--gpu", "h1", code=2).stderr


def test_a_launch_that_the_tree_refuses_on_one_gpu_is_told_for_the_other(
    fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchkit.doctor.options.USUAL", USUAL)
    refusal = b"""
        import torch
        if self.attention_backend == "free" and torch.cuda.get_device_capability()[0] < 10:
            raise ValueError("free needs Blackwell")
"""
    text = ARGUMENTS.replace(
        b"        self._handle_speculation()\n", refusal + b"        self._handle_speculation()\n"
    )
    (fork / "srt" / "server_args.py").write_bytes(text)
    line = text.split(b"raise ValueError")[0].count(NEWLINE) + 1
    where = f"ValueError: free needs Blackwell, srt/server_args.py:{line}."
    answer: Any = json.loads(run(fork, "--attention-backend", "free", *EAGLE, "--json").stdout)
    assert answer["notes"] == [
        f"This server starts only on a Blackwell GPU; otherwise its tree raises {where}"
    ]
    error = run(fork, "--attention-backend", "free", *EAGLE, "--gpu", "h100", code=2).stderr
    assert error.startswith("error: this tree's server raises ValueError: free needs Blackwell")
    assert f"srt/server_args.py:{line}" in error


@pytest.mark.usefixtures("every_kind")
def test_one_branch_is_not_named_for_the_models_that_keep_the_mirror_with_it(fork: Path) -> None:
    _branching(fork, also=b"mine.model_config.is_local_attention_model")
    answer: Any = json.loads(run(fork, "--attention-backend", "free", *EAGLE, "--json").stdout)
    (cause,) = answer["causes"]
    assert cause["where"].endswith("with local attention, or of the architecture LlamaForCausalLM")
    typed = "--speculative-eagle-topk 1 --speculative-num-steps 3 --speculative-num-draft-tokens 4"
    assert cause["remedies"] == [f"{typed} (except for models or drafts with local attention)"]


def test_one_branch_is_not_named_where_it_frees_nothing(fork: Path) -> None:
    _branching(fork)
    words = ("--attention-backend", "held", *EAGLE, "--speculative-eagle-topk", "4")
    assert causes(fork, *words) == {"HeldBackend": []}


SEVERAL = ("--attention-backend", "free", "--speculative-eagle-topk", "4", *EAGLE)


def test_options_with_which_the_trees_own_code_raises_are_an_error_at_its_line(fork: Path) -> None:
    text = DRAFTS.replace(
        b"        self.server_args = server_args\n",
        b"        self.server_args = server_args\n        self.topk = topk\n",
    ).replace(
        b"            raise ValueError(name)\n",
        b"            raise ValueError(name)\n"
        b"        if self.topk > 1:\n"
        b'            raise ValueError(f"{name} takes one branch, not {self.topk} of {memory()}")\n',
    )
    (fork / "srt" / "speculative" / "draft_utils.py").write_bytes(text)
    arguments = ARGUMENTS.replace(
        b"            self.disable_overlap_schedule = True\n", b"            pass\n"
    )
    (fork / "srt" / "server_args.py").write_bytes(arguments)
    line = text.split(b"raise ValueError(f")[0].count(b"\n") + 1
    error = run(fork, *SEVERAL, code=2).stderr
    assert error.startswith("error: this tree's server raises ValueError: free takes one branch, not 4 of …")
    assert f"srt/speculative/draft_utils.py:{line}" in error


def test_a_value_that_a_shell_fills_in_is_no_error(fork: Path) -> None:
    words = ("--attention-backend", "free", *EAGLE, "--tp-size", "$SIZE", "--ep-size=${SIZE}")
    assert causes(fork, *words) == {}


def test_a_decision_that_cannot_be_evaluated_is_an_error_at_its_line(fork: Path) -> None:
    file = fork / "srt" / "layers" / "attention" / "base_attn_backend.py"
    decision = b"    if server_args.enable_two_batch_overlap:\n"
    file.write_bytes(BASE.replace(decision, b"    if server_args.no_such_setting:\n"))
    line = BASE.split(decision)[0].count(b"\n") + 1
    error = run(fork, "--attention-backend", "free", *EAGLE, code=4).stderr
    assert (
        "cannot evaluate this tree's decision about the mirror: server_args has no no_such_setting" in error
    )
    assert f"srt/layers/attention/base_attn_backend.py:{line}" in error


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--attention-backend", "bogus", *EAGLE), "ValueError: Invalid attention backend: bogus"),
        (
            ("--attention-backend", "free", *EAGLE[:-1], "--speculative-algorithm", "EAGEL"),
            "KeyError: EAGEL",
        ),
    ],
)
def test_a_backend_or_an_algorithm_that_the_tree_lacks_is_refused_where_the_tree_refuses_it(
    fork: Path, words: tuple[str, ...], why: str
) -> None:
    runner = b"""
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS


class ModelRunner:
    def make(self, backend_str, new=False):
        if backend_str not in ATTENTION_BACKENDS:
            raise ValueError(f"Invalid attention backend: {backend_str}")
        return ATTENTION_BACKENDS[backend_str](self)
"""
    (fork / "srt" / "model_runner.py").write_bytes(runner)
    text = ALGORITHMS.replace(
        b"        return cls[name.upper()]\n",
        b"""        try:
            return cls[name.upper()]
        except KeyError:
            raise KeyError(name)
""",
    )
    (fork / "srt" / "speculative" / "spec_info.py").write_bytes(text)
    assert why in run(fork, *words, code=2).stderr
    registering = b'from sglang.srt.speculative.spec_info import register\n\nregister("EAGEL")\n'
    (fork / "srt" / "own.py").write_bytes(registering)
    run(fork, *words, code=0 if "EAGEL" in words else 2)


def test_no_measured_gain_is_shown_where_nothing_is_freed(fork: Path) -> None:
    answer: Any = json.loads(run(fork, "--attention-backend", "held", *EAGLE, "--json").stdout)
    assert answer["verdict"].endswith("is kept by HeldBackend.")
    assert answer["gains"] == []


def _settling(fork: Path, handler: bytes, elsewhere: bytes = b"") -> None:
    """Let a server of the tree settle whether it overlaps as ``handler`` says."""
    arguments = ARGUMENTS.replace(b"        self._handle_speculation()\n", handler)
    assert arguments != ARGUMENTS
    (fork / "srt" / "server_args.py").write_bytes(arguments)
    (fork / "srt" / "hooks.py").write_bytes(elsewhere)


METHOD = b"""
class Algorithm:
    def settle(self, server_args):
        server_args.disable_overlap_schedule = server_args.tp_size == 1


def algorithm():
    return Algorithm()
"""


def test_a_setting_that_others_settle_for_the_server_is_told(fork: Path) -> None:
    handler = b"        from sglang.srt.hooks import algorithm\n        algorithm().settle(self)\n"
    _settling(fork, handler, METHOD)
    words = ("--attention-backend", "free", *EAGLE)
    assert "without the overlap schedule" in " ".join(causes(fork, *words))
    assert causes(fork, *words, "--tp-size", "2") == {}


def test_a_flag_that_a_constructor_changes_starts_from_its_class(fork: Path) -> None:
    file = fork / "srt" / "layers" / "attention" / "backends.py"
    kept = b"class FreeBackend(AttentionBackend):\n    needs_cpu_seq_lens: bool = False"
    made = b"\n\n    def __init__(self, runner=None):\n        self.needs_cpu_seq_lens |= runner == 4"
    file.write_bytes(BACKENDS.replace(kept, kept + made))
    assert causes(fork, "--attention-backend", "free", *EAGLE) == {}


def test_the_backends_that_would_free_it_are_named(fork: Path) -> None:
    def notes(*words: object) -> str:
        answer: Any = json.loads(run(fork, *words, "--json").stdout)
        return " ".join(answer["notes"])

    held = ("--attention-backend", "held", "--decode-attention-backend", "fork")
    assert "On this server other backends remove the mirror" in notes(*held, *EAGLE)
    assert "--attention-backend free." in notes(*held, *EAGLE)
    assert "other backends remove the mirror" not in notes("--attention-backend", "free", *EAGLE)
    assert "other backends remove the mirror" not in notes(*held, "--enable-two-batch-overlap", *EAGLE), (
        "no backend frees it"
    )


def test_a_backend_that_combines_two_is_named_if_it_keeps_the_mirror_although_they_do_not(fork: Path) -> None:
    base = fork / "srt" / "layers" / "attention" / "base_attn_backend.py"
    own = (
        BASE.split(b"    def __init__(self, model_runner, prefill_backend, decode_backend):")[0]
        + b"    pass\n"
    )
    base.write_bytes(own)
    # Another name for a backend that has opted out.
    registry = fork / "srt" / "layers" / "attention" / "attention_registry.py"
    other = b"""

@register_attention_backend("other")
def create_other(runner):
    return FreeBackend(runner)
"""
    registry.write_bytes(REGISTRY + other)
    (fork / "srt" / "speculative" / "draft_utils.py").write_bytes(
        DRAFTS.replace(b'{"free": self._free,', b'{"free": self._free, "other": self._free,')
    )
    words = ("--prefill-attention-backend", "free", "--decode-attention-backend", "other", *EAGLE)
    assert causes(fork, *words) == {"HybridAttnBackend": []}
    assert causes(fork, "--attention-backend", "other", *EAGLE) == {}
    base.write_bytes(BASE)
    assert causes(fork, *words) == {}


def _opting_out(folder: Path, name: str, code: str, **keys: str) -> None:
    edit = f"""[edit.flag]
kind = "class-attribute"
why = "toy"
at = "srt/layers/attention/backends.py::HeldBackend"
code = "{code}"
"""
    add_patch(folder, name, edit, **{"default": "false", **keys})


def _held(fork: Path, flag: bytes) -> None:
    held = b"class HeldBackend(AttentionBackend):\n"
    backends = fork / "srt" / "layers" / "attention" / "backends.py"
    backends.write_bytes(BACKENDS.replace(held, held + flag))


HELD = ("--attention-backend", "held", *EAGLE)


def test_a_patch_that_opts_a_backend_out_is_named_only_if_the_tree_then_frees_it(
    fork: Path, tmp_path: Path
) -> None:
    _opting_out(tmp_path / "own", "x-free", "needs_cpu_seq_lens = False")
    folders = ("--patches", tmp_path / "own")
    assert causes(fork, *HELD, *folders) == {"HeldBackend": ["patch x-free"]}
    output = run(fork, *HELD, *folders).stdout
    assert "removed by: `patchkit apply" in output
    assert "x-free`" in output
    _held(fork, b"    def __init__(self, runner=None):\n        self.needs_cpu_seq_lens = True\n\n")
    assert causes(fork, *HELD, *folders) == {"HeldBackend": []}


def test_a_patch_with_which_the_server_would_not_start_is_not_named(fork: Path, tmp_path: Path) -> None:
    edit = '''[edit.flag]
kind = "method"
why = "toy"
at = "srt/layers/attention/backends.py::HeldBackend"
code = """
@property
def needs_cpu_seq_lens(self):
    raise ValueError("no such backend")
"""
'''
    add_patch(tmp_path / "own", "x-broken", edit, default="false")
    assert causes(fork, *HELD, "--patches", tmp_path / "own") == {"HeldBackend": []}


def test_patches_that_only_together_free_a_backend_are_named_together(fork: Path, tmp_path: Path) -> None:
    made = b"""    def __init__(self, runner=None):
        self.needs_cpu_seq_lens = not (hasattr(self, "one") and hasattr(self, "two"))

"""
    _held(fork, made)
    for name in ("one", "two"):
        method = f'''[edit.method]
kind = "method"
why = "toy"
at = "srt/layers/attention/backends.py::HeldBackend"
code = """
def {name}(self):
    needs_cpu_seq_lens = False
    return needs_cpu_seq_lens
"""
'''
        add_patch(tmp_path / "own", f"x-{name}", method, default="false")
    found = causes(fork, *HELD, "--patches", tmp_path / "own")
    assert found == {"HeldBackend": ["patch x-one x-two"]}


@pytest.mark.parametrize(("flag", "how"), [("", "except"), ("not ", "only")])
@pytest.mark.usefixtures("every_kind")
def test_a_patch_that_frees_a_backend_for_some_models_is_named_with_these_or_the_others(
    fork: Path, tmp_path: Path, flag: str, how: str
) -> None:
    edit = f'''[edit.flag]
kind = "method"
why = "toy"
at = "srt/layers/attention/backends.py::HeldBackend"
code = """
def __init__(self, runner=None):
    self.runner = runner

@property
def needs_cpu_seq_lens(self):
    return self.runner is not None and {flag}self.runner.model_config.is_local_attention_model
"""
'''
    add_patch(tmp_path / "own", "x-some", edit, default="false")
    words = (*HELD, "--patches", tmp_path / "own")
    where = f"{how} for models or drafts with local attention"
    assert causes(fork, *words) == {"HeldBackend": [f"patch x-some ({where})"]}
    assert f"x-some`, {where}" in " ".join(run(fork, *words).stdout.split())


@pytest.mark.parametrize(
    ("models", "named"),
    [
        (("A",), "with A"),
        (("B", "A", "C", "AB"), "with A, B or C"),
        (("AB", "C"), "with C or both A and B"),
        (("L",), f"of {LLAMA}"),
        (("L", "A"), f"with A, or of {LLAMA}"),
        (("A", "BL", "CL"), f"with A, or of {LLAMA} with B or C"),
    ],
)
def test_models_are_named_by_what_they_have_and_by_their_architecture(
    models: tuple[str, ...], named: str
) -> None:
    facts = [{LLAMA if fact == "L" else fact: True for fact in model} for model in models]
    assert models_named(facts) == f"for models or drafts {named}"


@pytest.mark.parametrize(("version", "draft_reads"), [("0.5.12.post1", True), ("0.5.14", False)])
def test_what_keeps_the_mirror_beside_the_backends_is_named_with_its_reason_and_its_models(
    releases: Releases, version: str, draft_reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_kinds(monkeypatch, MROPE)
    root = releases.applied(version, "26128").root
    words = f"--attention-backend triton {' '.join(EAGLE)} --disable-piecewise-cuda-graph"
    words = words.replace("--disable-piecewise-cuda-graph", "") if version == "0.5.14" else words
    free: Any = json.loads(run(root, words, "--gpu", "h100", "--json").stdout)
    assert [(one["who"], one["where"]) for one in free["causes"]] == [
        (
            "the multimodal rotary positions of the draft",
            "for models or drafts with multimodal rotary positions (M-RoPE)",
        )
    ] * draft_reads
    assert (
        free["verdict"].endswith("for models or drafts with multimodal rotary positions (M-RoPE).")
        is draft_reads
    )
    command = f"PATCHKIT_DISABLE=26128 sglang serve {words}"
    off: Any = json.loads(run(root, command, "--gpu", "h100", "--json").stdout)
    (cause,) = [one for one in off["causes"] if one["who"] == "PATCHKIT_DISABLE=26128"]
    assert (cause["where"], cause["remedies"]) == ("", ["start without PATCHKIT_DISABLE=26128"])


def test_every_patch_that_frees_a_backend_is_on_a_line_of_its_own(
    releases: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_kinds(monkeypatch, CROSS)
    said = run(releases.tree("0.5.14").root, "--attention-backend", "fa3", *EAGLE, "--gpu", "h100").stdout
    for patch in ("31364", "29343"):
        (line, *_) = (line for line in said.splitlines() if f" {patch}`" in line)
        assert re.match(
            r"      (removed|or) by: `patchkit apply \S+ \d+`, except for models or drafts with cross", line
        )


def test_a_patch_that_takes_a_setting_out_of_the_decision_is_named_for_it(fork: Path, tmp_path: Path) -> None:
    edit = '''[edit.graphs]
kind = "delete"
why = "toy"
at = "srt/layers/attention/base_attn_backend.py::decide_needs_cpu_seq_lens"
context = ["return any(...)"]
find = """
if not server_args.disable_piecewise_cuda_graph:
    return True
"""
'''
    add_patch(tmp_path / "own", "x-graphs", edit, default="false")
    words = (
        "--attention-backend",
        "free",
        "--speculative-algorithm",
        "EAGLE3",
        "--patches",
        tmp_path / "own",
    )
    found = causes(fork, *words)
    assert found == {"piecewise cuda graph": ["--disable-piecewise-cuda-graph", "patch x-graphs"]}

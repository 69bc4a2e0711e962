from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import write_package

from patchkit.cli import main
from patchkit.doctor.options import Arguments
from patchkit.doctor.worth import worth
from patchkit.errors import TreeError, UsageError
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

ARGUMENTS = b"""
import dataclasses


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

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int)
        parser.add_argument("--model-path", "--model", type=str)
        parser.add_argument("--enable-two-batch-overlap", action="store_true")
"""
BASE = b"""
class AttentionBackend:
    needs_cpu_seq_lens: bool = True


def decide_needs_cpu_seq_lens(server_args, backends):
    if server_args.enable_two_batch_overlap:
        return True
    if not server_args.disable_piecewise_cuda_graph:
        return True
    return any(backend.needs_cpu_seq_lens for backend in backends)
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
REGISTRY = b"""
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
class DraftBackendFactory:
    def create_decode_backend(self):
        backend_map = {"free": self._free, "held": self._held}
        return backend_map

    def create_draft_extend_backend(self):
        backend_map = {"free": self._free, "held": self._held}
        return backend_map

    def _free(self):
        return self._any(3)

    def _any(self, version):
        return FreeBackend(version)

    def _held(self):
        return HeldBackend()
"""


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A tree with four names of backends, one of which has opted out."""
    sources = {
        "__init__.py": b"",
        "srt/server_args.py": ARGUMENTS,
        "srt/layers/attention/base_attn_backend.py": BASE,
        "srt/layers/attention/backends.py": BACKENDS,
        "srt/layers/attention/attention_registry.py": REGISTRY,
        "srt/speculative/draft_utils.py": DRAFTS,
    }
    return write_package(tmp_path / "fork" / "sglang", sources)


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["doctor", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def keepers(*arguments: object) -> dict[str, list[str]]:
    answer: Any = json.loads(run(*arguments, "--json").stdout)
    assert answer["kept"] is bool(answer["keepers"])
    return {keeper["who"]: keeper["remedies"] for keeper in answer["keepers"]}


EAGLE = ("--speculative-algorithm", "EAGLE3", "--disable-piecewise-cuda-graph")


def test_nobody_keeps_the_mirror_of_a_server_whose_backends_opted_out(fork: Path) -> None:
    assert keepers(fork, "--attention-backend", "free", *EAGLE) == {}
    assert "Nobody keeps the mirror" in run(fork, "--attention-backend", "free", *EAGLE).stdout


def test_piecewise_graphs_keep_it_by_default(fork: Path) -> None:
    found = keepers(fork, "--attention-backend", "free", "--speculative-algorithm", "EAGLE3")
    assert found == {"piecewise cuda graph": ["--disable-piecewise-cuda-graph"]}


def test_a_feature_that_is_on_keeps_it(fork: Path) -> None:
    found = keepers(fork, "--attention-backend", "free", "--enable-two-batch-overlap", *EAGLE)
    assert found == {"--enable-two-batch-overlap": ["leave out --enable-two-batch-overlap"]}


def test_a_backend_that_reads_it_keeps_it(fork: Path) -> None:
    assert list(keepers(fork, "--attention-backend", "held", *EAGLE)) == ["HeldBackend"]


def test_a_forks_subclass_that_takes_the_flag_back_keeps_it(fork: Path) -> None:
    assert "ForkBackend" in keepers(
        fork, "--decode-attention-backend", "fork", "--attention-backend", "free", *EAGLE
    )


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
    assert list(keepers(fork, command)) == ["SGLANG_ENABLE_OVERLAP_PLAN_STREAM"]
    assert keepers(fork, *command.split()[1:]) == {}


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
    assert list(keepers(fork, "--server-args", settings)) == ["HeldBackend"]
    assert keepers(fork, "--server-args", settings, "--attention-backend", "free") == {}


def test_speculative_v1_keeps_it(fork: Path) -> None:
    assert "speculative decoding v1" in keepers(
        fork, "--attention-backend", "free", "--speculative-eagle-topk", "4", *EAGLE
    )


def test_without_speculation_there_is_nothing_to_free(fork: Path) -> None:
    answer: Any = json.loads(run(fork, "--attention-backend", "held", "--json").stdout)
    assert (answer["kept"], len(answer["notes"])) == (False, 1)


def test_without_a_backend_the_assumption_is_said(fork: Path) -> None:
    answer: Any = json.loads(run(fork, *EAGLE, "--json").stdout)
    assert any("is assumed" in note for note in answer["notes"])


def test_a_tree_without_the_decision_is_freed_by_the_patch_that_brings_it(fork: Path) -> None:
    for file, old in (("base_attn_backend.py", BASE), ("backends.py", BACKENDS)):
        text = old.replace(b"needs_cpu_seq_lens", b"other_name")
        (fork / "srt" / "layers" / "attention" / file).write_bytes(text)
    found = keepers(fork, "--attention-backend", "free", "--speculative-algorithm", "EAGLE3")
    assert found["this tree"] == ["patch 26128"]
    assert "piecewise cuda graph" in found, "what will keep it then is said now"


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
    ("flag", "wrapped", "said"),
    [
        (
            b"pass",
            b"both = full, linear",
            "whatever is said here: HybridLinearAttnBackend does; patch 28579 frees it.",
        ),
        (
            b"needs_cpu_seq_lens = False",
            b"needs_cpu_seq_lens = full.needs_cpu_seq_lens or linear.needs_cpu_seq_lens",
            "where one of KDAAttnBackend serves them.",
        ),
    ],
)
def test_what_a_model_with_linear_attention_comes_to_is_said_beside_the_answer(
    fork: Path, flag: bytes, wrapped: bytes, said: str
) -> None:
    def notes(*words: object) -> list[str]:
        answer: Any = json.loads(run(fork, "--attention-backend", "free", *words, "--json").stdout)
        return [note for note in answer["notes"] if "linear-attention" in note]

    assert notes(*EAGLE) == [], "a tree without such backends has nothing to say"
    file = fork / "srt" / "layers" / "attention" / "hybrid_linear_attn_backend.py"
    file.write_bytes(LINEAR.replace(b"FLAG", flag).replace(b"WRAPPED", wrapped))
    (note,) = notes(*EAGLE)
    assert note.endswith(said)
    assert notes() == [], "without speculation there is nothing to free"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--attention-bakend", "free"], "did you mean --attention-backend"),
        (["--attention-backend"], "a value is missing"),
        (["--zzz", "1"], "no such option"),
    ],
)
def test_an_option_that_the_tree_lacks_is_refused(fork: Path, words: list[str], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        Arguments(open_tree(fork)).launch([*words])


def test_settings_that_are_no_json_are_refused(fork: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[1")
    assert "not a JSON object" in run(fork, "--server-args", tmp_path / "bad.json", code=2).stderr


def test_a_tree_without_server_args_is_refused(fork: Path) -> None:
    (fork / "srt" / "server_args.py").unlink()
    with pytest.raises(TreeError, match="has no ServerArgs"):
        Arguments(open_tree(fork))


def test_nothing_of_the_tree_is_run(fork: Path) -> None:
    (fork / "srt" / "server_args.py").write_bytes(ARGUMENTS + b"\nraise SystemExit('ran')\n")
    keepers(fork, "--attention-backend", "free", *EAGLE)


def test_what_was_measured_is_said() -> None:
    cases = worth("triton")
    assert {(case.layers, case.batch) for case in cases} >= {(8, 1), (32, 8)}
    assert all(case.lowest <= case.ratio <= case.highest for case in cases)
    assert worth("no-such-backend") == ()

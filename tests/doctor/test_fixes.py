"""Doctor names the fixes that a tree lacks and a server needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.releases import PATCHES
from support.toys import add_patch, write_package

from patchkit.audit.runners import AuditedProgram
from patchkit.cli import main
from patchkit.doctor import fixes
from patchkit.doctor.command_line import command_of
from patchkit.doctor.declared import declared
from patchkit.doctor.execution.gpus import USUAL
from patchkit.doctor.execution.kinds import KINDS
from patchkit.doctor.execution.process import Execution
from patchkit.doctor.launch import Launch
from patchkit.doctor.options import Arguments
from patchkit.doctor.outcome import ServerOutcome
from patchkit.doctor.server import outcomes, without_speculation
from patchkit.patchset import condition, load
from patchkit.plan.status import PatchStatus, State
from patchkit.tree.index import Index, read_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.releases import Releases

Executed = Callable[[Any, str], Launch]


@pytest.fixture(scope="module")
def executed() -> Iterator[Executed]:
    """Returns the launch of a server of the usual model on a Hopper GPU; one process executes those of a tree."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr("patchkit.doctor.execution.process._SECONDS", 1200)
        patch.setattr("patchkit.doctor.options.KINDS", KINDS[:1])
        known: dict[Path, Execution] = {}

        def launch(tree: Any, words: str) -> Launch:
            if tree.package not in known:
                made = Execution(tree.package, tree.name, Path.cwd())
                known[tree.package] = stack.enter_context(made)
            return Arguments(tree, known[tree.package], ("h100",)).launch(command_of(words.split()))

        yield launch


EDIT = """[edit.flag]
kind = "class-attribute"
why = "toy"
at = "srt/layers/shelf.py::Shelf"
code = "wide = 1"
"""
SETTINGS = b"""
import dataclasses


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    attention_backend: str | None = "triton"
    speculative_algorithm: str | None = None
    page_size: int | None = None
    chunk: int | None = None
    size: int = 1

    def __post_init__(self):
        if self.page_size is None:
            self.page_size = 1
        if self.chunk is None:
            self.chunk = 8192

    @classmethod
    def from_cli_args(cls, args):
        return cls(**vars(args))

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        for field in dataclasses.fields(ServerArgs)[1:]:
            kind = str if "str" in str(field.type) else int
            parser.add_argument("--" + field.name.replace("_", "-"), type=kind, default=field.default)
"""


@pytest.fixture
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("patchkit.doctor.options.USUAL", USUAL[:1])
    sources = {
        "__init__.py": b"",
        "srt/server_args.py": SETTINGS,
        "srt/layers/shelf.py": b"class Shelf:\n    pass\n",
    }
    return write_package(tmp_path / "fork" / "sglang", sources)


def answer(fork: Path, folder: Path, *words: object) -> Any:
    given = ["doctor", fork, *words, "--patches", folder, "--json"]
    result = CliRunner().invoke(main, list(map(str, given)))
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("when", "words", "is_needed"),
    [
        ("", [], True),
        ("spec_v2", [], False),
        ("page_size > 1", [], False),
        ("page_size > 1", ["--page-size", "64"], True),
        ("chunk > 0", [], True),
        ("chunk > 0", ["--chunk", "-1"], False),
        ("no_such_option", [], False),
        ("decode_backend == 'fa3' and not draft_backend", ["--attention-backend", "fa3"], True),
        ("decode_backend == 'fa3'", ["--attention-backend", "triton"], False),
    ],
)
def test_a_fix_is_named_if_its_condition_holds_or_may_hold(
    fork: Path, tmp_path: Path, when: str, words: list[str], is_needed: bool
) -> None:
    affects = f'{{ symptom = "It stops", when = "{when}", concerns = "long prompts", fixed_in = "0.5.14" }}'
    add_patch(tmp_path / "own", "x-fix", EDIT, affects=affects)
    add_patch(tmp_path / "own", "x-other", EDIT.replace("wide", "deep"))
    found = answer(fork, tmp_path / "own", *words)["fixes"]
    expected = {
        "patch": "x-fix",
        "symptom": "It stops",
        "concerns": "long prompts",
        "fixed_in": "0.5.14",
        "conflict": False,
        "where": "",
    }
    assert [one for one in found if one["patch"].startswith("x-")] == [expected] * is_needed


def test_a_fix_is_printed_with_the_command_that_applies_it_and_not_named_once_it_is_applied(
    fork: Path, tmp_path: Path
) -> None:
    affects = '{ symptom = "It stops", concerns = "long prompts", fixed_in = "0.5.14" }'
    add_patch(tmp_path / "own", "x-fix", EDIT, affects=affects)
    folders = ["--patches", str(tmp_path / "own")]
    output = " ".join(CliRunner().invoke(main, ["doctor", str(fork), *folders]).stdout.split())
    assert "with the requests or models that need them: ! x-fix: It stops (long prompts)" in output
    # Built-in fixes conflict with a toy.
    assert "All of them" not in output
    assert "x-fix`; fixed upstream in 0.5.14" in output
    shelf = fork / "srt" / "layers" / "shelf.py"
    shelf.write_bytes(b"class Shelf:\n    wide = 1\n")
    assert answer(fork, tmp_path / "own")["fixes"] == []
    shelf.write_bytes(b"class Other:\n    pass\n")
    (conflict,) = answer(fork, tmp_path / "own")["fixes"]
    assert conflict["conflict"]


def test_fixes_are_applied_by_one_command(fork: Path, tmp_path: Path) -> None:
    for name, attribute in (("x-one", "wide"), ("x-two", "deep")):
        edit = EDIT.replace("wide", attribute)
        add_patch(tmp_path / "own", name, edit, affects='{ symptom = "It stops" }')
    given = ["doctor", str(fork), "--patches", str(tmp_path / "own")]
    output = CliRunner().invoke(main, given).stdout
    assert f"All of them: `patchkit apply {fork} --patches {tmp_path / 'own'} x-one x-two`" in output


@pytest.mark.parametrize("place", [".", "srt/layers"], ids=["the current folder", "a folder above it"])
def test_in_a_tree_the_printed_commands_name_none(
    fork: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for name, attribute in (("x-one", "wide"), ("x-two", "deep")):
        edit = EDIT.replace("wide", attribute)
        add_patch(tmp_path / "own", name, edit, affects='{ symptom = "It stops" }')
    monkeypatch.chdir(fork / place)
    output = CliRunner().invoke(main, ["doctor", "--patches", str(tmp_path / "own")]).stdout
    assert f"All of them: `patchkit apply --patches {tmp_path / 'own'} x-one x-two`" in output
    assert f"`patchkit apply --patches {tmp_path / 'own'} x-one`" in output


def test_a_fix_that_only_some_models_need_names_them() -> None:
    (status,) = (PatchStatus(patch, State.PENDING, (), "") for patch in PATCHES if patch.id == "27360")
    common = {"draft_backend": "fa3", "page_size": 64, "disable_cuda_graph": False}
    llama = "the architecture LlamaForCausalLM"
    found = [
        ({llama: has}, ServerOutcome(True, setting={**common, "speculative_eagle_topk": branches}.get))
        for has, branches in ((False, 1), (True, 4))
    ]
    (fix,) = fixes.needed(found, [status])
    assert fix.where == f"for models or drafts of {llama}"
    (fix,) = fixes.needed([({llama: False}, found[1][1])], [status])
    assert fix.where == ""


EAGLE = "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-draft-model-path y"
CHAIN = f"{EAGLE} --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
TREE = f"{EAGLE} --speculative-eagle-topk 4 --speculative-num-draft-tokens 8"
# Speculative decoding v2 misses these whatever the backend is, and serves one branch in this release.
V2 = {"25980", "26800", "31738"}


@lru_cache(maxsize=1)
def evaluated(tree: Any) -> AuditedProgram:
    """Return a release's program, with what its servers have in common."""
    return AuditedProgram(read_sources(tree))


def test_fixes_of_a_release_are_named_for_the_servers_that_need_them(
    releases: Releases, executed: Executed
) -> None:
    tree = releases.tree("0.5.12.post1")
    program = evaluated(tree)
    known = {"25980", "26800", "27338", "27360", "27998", "28496", "31738"}
    statuses = [PatchStatus(patch, State.PENDING, (), "") for patch in PATCHES if patch.id in known]
    for words, expected in {
        f"--attention-backend triton {CHAIN}": V2,
        f"--attention-backend triton {CHAIN} --chunked-prefill-size -1": V2 - {"26800"},
        f"--attention-backend triton {CHAIN} --grammar-backend none": V2 - {"31738"},
        f"--attention-backend triton {CHAIN} --enable-return-hidden-states": V2 | {"28496"},
        f"--attention-backend triton {CHAIN} --mamba-scheduler-strategy extra_buffer": V2 | {"27998"},
        f"--attention-backend triton {CHAIN} --disable-overlap-schedule": set(),
        f"--attention-backend flashinfer {TREE}": {"27338"},
        f"--attention-backend flashinfer {TREE} --disable-cuda-graph": set(),
        f"--attention-backend flashinfer --speculative-draft-attention-backend fa3 {TREE}": set(),
        f"--attention-backend fa3 {TREE} --page-size 1": set(),
        f"--attention-backend fa3 {TREE} --page-size 2": {"27360"},
    }.items():
        found = outcomes(program, executed(tree, words))
        named = {fix.patch for fix in fixes.needed(found, statuses) if not fix.where}
        assert named == expected, words
    alone = without_speculation(program, executed(tree, "--attention-backend flashinfer"))
    assert [fix.patch for fix in fixes.needed(alone, statuses)] == []


def named_for(releases: Releases, executed: Executed, version: str, words: str, known: set[str]) -> set[str]:
    """Return which of these fixes doctor names for the usual model on a release that lacks all of them."""
    tree = releases.tree(version)
    statuses = [PatchStatus(patch, State.PENDING, (), "") for patch in load.patches() if patch.id in known]
    assert {status.patch.id for status in statuses} == known
    program = evaluated(tree)
    found = outcomes(program, executed(tree, words))
    return {fix.patch for fix in fixes.needed(found, statuses) if not fix.where}


@pytest.mark.parametrize(
    ("words", "is_needed"),
    [
        ("--attention-backend triton", True),
        ("--attention-backend triton --disable-cuda-graph", False),
        ("--attention-backend triton --disable-overlap-schedule", False),
        ("--attention-backend fa3", False),
    ],
)
def test_a_draft_with_a_token_map_needs_logits_of_its_size(
    releases: Releases, executed: Executed, words: str, is_needed: bool
) -> None:
    eagle = CHAIN.replace("EAGLE3", "EAGLE")
    mapped = f"{words} {eagle} --speculative-token-map map.pt"
    needed = {"28856"} if is_needed else set()
    assert named_for(releases, executed, "0.5.12.post1", mapped, {"28856"}) == needed
    assert named_for(releases, executed, "0.5.12.post1", f"{words} {eagle}", {"28856"}) == set()


LATER = {"24954", "26941", "27372", "27846", "28039", "28464", "28559", "33758", "34238"}
# What multimodal and speculating servers miss whatever they are told.
DRAFTS = {"27846", "28464", "33758"}
OTHER_DRAFT = "--speculative-draft-attention-backend fa3"
ALONE = CHAIN.replace("EAGLE3", "STANDALONE")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", set()),
        (CHAIN, DRAFTS),
        (f"{CHAIN} --tp-size 2", DRAFTS | {"34238"}),
        (f"{CHAIN} --disable-overlap-schedule --tp-size 2", DRAFTS - {"28464"}),
        (f"{CHAIN} {OTHER_DRAFT}", DRAFTS | {"28559"}),
        (f"{CHAIN} --speculative-draft-attention-backend triton", DRAFTS),
        (f"{ALONE} {OTHER_DRAFT}", {"28464", "28559", "33758"}),
        ("--speculative-algorithm NGRAM --tp-size 2", {"33758"}),
        ("--mamba-scheduler-strategy extra_buffer", {"24954", "26941"}),
        ("--mamba-scheduler-strategy extra_buffer --disable-overlap-schedule", {"26941"}),
        ("--disable-radix-cache", {"24954"}),
        ("--enable-streaming-session", {"26941"}),
        ("--disaggregation-mode prefill", {"27372"}),
        ("--disaggregation-mode decode", {"27372"}),
        (f"{CHAIN} --disaggregation-mode prefill", DRAFTS | {"27372"}),
        (f"{CHAIN} --disaggregation-mode decode", DRAFTS | {"27372", "28039"}),
        (f"{CHAIN} --disaggregation-mode decode --grammar-backend none", DRAFTS | {"27372"}),
        ("--disaggregation-mode decode --disaggregation-transfer-backend nixl", set()),
    ],
)
def test_fixes_of_images_ranks_and_transfers_are_named_for_the_servers_that_need_them(
    releases: Releases, executed: Executed, words: str, expected: set[str]
) -> None:
    assert (
        named_for(releases, executed, "0.5.12.post1", f"--attention-backend triton {words}", LATER)
        == expected
    )


@pytest.mark.parametrize(
    ("version", "expected"), [("0.5.12.post1", set()), ("0.5.14", {"25980", "28464", "28496", "31738"})]
)
def test_fixes_of_the_v2_worker_are_named_without_overlap_where_there_is_no_other_worker(
    releases: Releases, executed: Executed, version: str, expected: set[str]
) -> None:
    words = f"--attention-backend triton {CHAIN} --enable-return-hidden-states --disable-overlap-schedule"
    known = {"25980", "28039", "28464", "28496", "31738"}
    assert named_for(releases, executed, version, words, known) == expected
    assert named_for(releases, executed, version, f"{words} --disaggregation-mode decode", known) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--mamba-radix-cache-strategy no_buffer", {"29354"}),
        ("--mamba-radix-cache-strategy extra_buffer", {"29354", "29368", "29792"}),
        ("--mamba-radix-cache-strategy extra_buffer --disable-radix-cache", {"29368"}),
        ("--mamba-radix-cache-strategy extra_buffer_lazy --disable-overlap-schedule", {"29354", "29368"}),
        ("--mamba-radix-cache-strategy no_buffer --disaggregation-mode decode", {"35748"}),
    ],
)
def test_fixes_of_cached_states_and_rows_are_named_for_the_servers_that_need_them(
    releases: Releases, executed: Executed, words: str, expected: set[str]
) -> None:
    words = f"--attention-backend triton {words}"
    assert named_for(releases, executed, "0.5.14", words, {"29354", "29368", "29792", "35748"}) == expected


BLOCK = "--speculative-algorithm DFLASH --speculative-draft-model-path y --speculative-num-draft-tokens 8"


@pytest.mark.parametrize(
    ("version", "words", "expected"),
    [
        ("0.5.12.post1", f"{CHAIN} --grammar-backend outlines", {"24413"}),
        ("0.5.12.post1", f"{CHAIN} --grammar-backend outlines --disable-overlap-schedule", {"24413"}),
        ("0.5.12.post1", "--grammar-backend outlines", set()),
        ("0.5.12.post1", CHAIN, set()),
        ("0.5.17", f"{CHAIN} --enable-multi-layer-eagle --enable-dp-attention --tp-size 2 --dp-size 2", {"33892"}),
        ("0.5.17", f"{CHAIN} --enable-multi-layer-eagle", set()),
        ("0.5.17", f"{BLOCK} --disaggregation-mode decode", {"36140"}),
        ("0.5.17", f"{BLOCK} --disaggregation-mode prefill", set()),
        ("0.5.17", f"{CHAIN} --disaggregation-mode decode --grammar-backend outlines", {"24413"}),
    ],
)  # fmt: skip
def test_fixes_of_servers_that_end_at_a_request_are_named_for_those_that_need_them(
    releases: Releases, executed: Executed, version: str, words: str, expected: set[str]
) -> None:
    words = f"--attention-backend triton {words}"
    assert named_for(releases, executed, version, words, {"24413", "33892", "36140"}) == expected


def test_conditions_of_built_in_fixes_name_options_that_a_release_has(releases: Releases) -> None:
    known = {fixes.SPEC_V2, *fixes.DERIVED}
    for version in ("0.5.12.post1", "0.5.17"):
        tree = releases.tree(version)
        known |= set(declared(Index(tree.read), lambda: (), version).fields)
    for patch in PATCHES:
        if patch.affects is not None and patch.affects.when:
            assert condition.names(patch.affects.when) <= known, patch.id

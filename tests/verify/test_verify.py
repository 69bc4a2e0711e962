"""Results of `verify` for real releases: patched, patched and then damaged, upstream's own, and unpatched."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from markupsafe import escape
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif
from support.driven.trees import DEFAULT
from support.releases import OF_LATER_CODE, PATCHES, REFERENCE, Releases, answer, checked, run

import patchkit
from patchkit.audit import engine
from patchkit.commands import verify as verifying
from patchkit.patchset import load
from patchkit.tree import index, source
from patchkit.verify.checks import imports, loading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.report import Report
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Result, Verdict

pytestmark = pytest.mark.usefixtures("_parsed_once")

CHECKS = [
    "compile",
    "byte-code",
    "record",
    "postconditions",
    "imports",
    "slots",
    "hooks",
    "streams",
    "signatures",
    "reads",
    "opt-outs",
    "audit",
]
SITE = "site-packages"
WORKER = "srt/speculative/eagle_worker_v2.py"
MHA = "srt/layers/attention/trtllm_mha_backend.py"
TRITON = "srt/layers/attention/triton_backend.py"
BATCH = "srt/managers/schedule_batch.py"
HOOK = "update_verify_buffers_to_fill_after_draft"


@pytest.fixture(scope="module")
def patched_once(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> CheckoutTree:
    """The reference release with every default patch, in a site-packages folder that has the runtime as well."""
    tree = releases.copy(REFERENCE, tmp_path_factory.mktemp("patched") / SITE, *DEFAULT)
    home = Path(patchkit.__file__).parent
    for part in ("__init__.py", "runtime", "backends"):
        source, target = home / part, tree.root / "patchkit" / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return tree


class Damaged:
    """A patched tree that a test damages; leaving the test puts the files back."""

    def __init__(self, tree: CheckoutTree) -> None:
        self.tree = tree
        self._kept: dict[Path, bytes] = {}

    def write(self, path: Path, text: bytes) -> None:
        self._kept.setdefault(path, path.read_bytes())
        path.write_bytes(text)

    def replace(self, file: str, old: str, new: str, root: Path | None = None) -> None:
        """Replace the one occurrence of ``old`` in a file of the package, or of ``root``."""
        path = (root or self.tree.package) / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.write(path, text.replace(old, new).encode())

    def restore(self) -> None:
        for path, text in self._kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)

    def verify(self, code: int = 1) -> dict[str, Any]:
        """Return each check's result by its name."""
        checks = answer("verify", self.tree.root, code=code)["checks"]
        assert [check["check"] for check in checks] == CHECKS
        return {check["check"]: check for check in checks}

    def check(self, name: str) -> Result:
        """Return the result of the one check that the test is about."""
        return checked(self.tree.root, name)

    def messages(self, name: str) -> str:
        """Return the messages of a check, which has to fail."""
        return "\n".join(f"{finding.file}: {finding.message}" for finding in self.check(name).findings)


@pytest.fixture(scope="module")
def report(patched_once: CheckoutTree) -> Report:
    """What the audit says of the patched tree."""
    return engine.audit_cached(patched_once)


@pytest.fixture
def audited(patched_once: CheckoutTree) -> Iterator[Damaged]:
    damaged = Damaged(patched_once)
    yield damaged
    damaged.restore()


@pytest.fixture
def patched(audited: Damaged, report: Report, monkeypatch: pytest.MonkeyPatch) -> Damaged:
    """The patched tree for tests of other checks: the audit, which takes longest, says what it said before."""
    monkeypatch.setattr(engine, "audit_cached", lambda tree: report)
    return audited


@pytest.fixture(scope="module", autouse=True)
def _indexed_once() -> Iterator[None]:
    """Damaged trees differ in a file or two, so that the others need no second look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "index_module", functools.lru_cache(maxsize=None)(index.index_module))
        yield


def outcomes(results: dict[str, Any]) -> dict[str, str]:
    return {name: result["outcome"] for name, result in results.items()}


def test_a_patched_tree_passes_every_check_and_verifying_writes_nothing_into_it(audited: Damaged) -> None:
    def stands() -> dict[Path, tuple[int, int]]:
        found = (path for path in audited.tree.root.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = stands()
    assert outcomes(audited.verify(code=0)) == dict.fromkeys(CHECKS, "passed")
    assert stands() == before


def test_no_file_is_parsed_twice(patched: Damaged, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: Counter[bytes] = Counter()
    parse = ast.parse

    def counted(source: Any, *arguments: Any, **keywords: Any) -> object:
        parsed.update([source] if isinstance(source, bytes) else [])
        return parse(source, *arguments, **keywords)

    fresh = functools.lru_cache(maxsize=None)(inspect.unwrap(index.index_module))
    for module in (index, imports):
        monkeypatch.setattr(module, "index_module", fresh)
    monkeypatch.setattr(index, "parsed", inspect.unwrap(source.parsed))
    monkeypatch.setattr(ast, "parse", counted)
    patched.verify(code=0)
    there = Counter(map(patched.tree.read, patched.tree.files("")))
    assert len(parsed) > len(patched.tree.files("srt/speculative"))
    assert [text for text, times in parsed.items() if 0 < there[text] < times] == []


def test_a_comment_elsewhere_in_the_tree_changes_no_verdict(patched: Damaged) -> None:
    path = patched.tree.package / "srt/server_args.py"
    patched.write(path, path.read_bytes() + b"\n# A fork's own comment.\n")
    assert outcomes(patched.verify(code=0)) == dict.fromkeys(CHECKS, "passed")


def test_an_edit_undone_by_hand_is_named(patched: Damaged) -> None:
    text = (patched.tree.package / TRITON).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    flag = next(at for at, line in enumerate(lines) if "needs_cpu_seq_lens: bool = False" in line)
    assert "# patchkit 26128:" in lines[flag - 1]
    patched.write(patched.tree.package / TRITON, "".join(lines[: flag - 1] + lines[flag + 1 :]).encode())
    assert f"{TRITON}: 26128: triton-flag is not in place" in patched.messages("postconditions")


def test_a_deleted_guard_is_found_by_its_patch_and_by_the_audit(audited: Damaged) -> None:
    path = audited.tree.package / BATCH
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    guard = next(
        at
        for at, line in enumerate(lines)
        if line.strip() == "if self.seq_lens_cpu is not None:" and "# patchkit 26128:" in lines[at - 1]
    )
    guarded = lines[guard + 1].removeprefix("    ")
    audited.write(path, "".join([*lines[: guard - 1], guarded, *lines[guard + 2 :]]).encode())
    results = audited.verify()
    assert results["postconditions"]["outcome"] == results["audit"]["outcome"] == "failed"
    found = results["audit"]["findings"]
    assert [(one["file"], one["line"]) for one in found] == [(BATCH, guard)]


def test_a_backend_without_the_hook_is_named(patched: Damaged) -> None:
    patched.replace(MHA, f"def {HOOK}(", "def an_older_name_of_the_hook(")
    assert f"{MHA}: TRTLLMHAAttnBackend defines no {HOOK}" in patched.messages("hooks")


def test_a_forks_own_backend_without_the_hook_is_named(patched: Damaged) -> None:
    path = patched.tree.package / MHA
    own = b"\n\nclass OwnBackend(FlashInferAttnBackend):\n    needs_cpu_seq_lens = False\n"
    patched.write(path, path.read_bytes() + own)
    assert f"OwnBackend defines no {HOOK}" in patched.messages("hooks")


def test_a_forks_own_backend_with_the_hook_is_fine(patched: Damaged) -> None:
    path = patched.tree.package / MHA
    own = f"\n\nclass OwnBackend(TRTLLMHAAttnBackend):\n    def {HOOK}(self, spec_info, cuda_graph_bs):\n        pass\n"
    patched.write(path, path.read_bytes() + own.encode())
    assert patched.check("hooks").findings == patched.check("signatures").findings == ()


REPLAY = """\
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend


class OwnBackend(TritonAttnBackend):
    def init_forward_metadata_replay_cuda_graph(
        self, bs, req_pool_indices, seq_lens, seq_lens_sum, encoder_lens, forward_mode, spec_info, seq_lens_cpu
    ):
        GUARD
        self.last = seq_lens_cpu[:bs] - 1
"""


@pytest.fixture
def own_backend(audited: Damaged) -> Iterator[Path]:
    """A fork's own backend in a file of its own."""
    path = audited.tree.package / "srt/layers/attention/own_backend.py"
    yield path
    path.unlink()


def test_a_subclass_that_inherits_an_opt_out_and_breaks_is_named_with_the_remedy(
    audited: Damaged, own_backend: Path
) -> None:
    own_backend.write_text(REPLAY.replace("        GUARD\n", ""))
    results = audited.verify()
    (finding,) = results["opt-outs"]["findings"]
    assert finding["line"] == 8
    assert "OwnBackend inherits the opt-out of TritonAttnBackend" in finding["message"]
    assert "`needs_cpu_seq_lens = True` on OwnBackend" in finding["guard"]
    (read,) = results["audit"]["findings"]
    assert (read["file"], read["line"]) == ("srt/layers/attention/own_backend.py", 8)
    assert "`needs_cpu_seq_lens = True` on OwnBackend" in read["guard"]


def test_a_subclass_that_only_falls_back_is_noted(patched: Damaged, own_backend: Path) -> None:
    guard = "if seq_lens_cpu is None:\n            seq_lens_cpu = seq_lens.cpu()"
    own_backend.write_text(REPLAY.replace("GUARD", guard))
    (note,) = patched.check("opt-outs").notes
    assert "OwnBackend" in note
    assert "only where it is present" in note


def test_a_subclass_that_keeps_the_mirror_is_fine(patched: Damaged, own_backend: Path) -> None:
    keeps = "class OwnBackend(TritonAttnBackend):\n    needs_cpu_seq_lens = True\n"
    own_backend.write_text(
        REPLAY.replace("        GUARD\n", "").replace("class OwnBackend(TritonAttnBackend):\n", keeps)
    )
    result = patched.check("opt-outs")
    assert (result.findings, result.notes) == ((), ())


def test_applying_names_the_subclasses_that_inherit_an_opt_out(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    path = tree.package / "srt/layers/attention/own_backend.py"
    path.write_text(REPLAY.replace("        GUARD\n", ""))
    (heir,) = answer("apply", tree.root, "26128", "--dry-run")["inherited_opt_outs"]
    assert (heir["backend"], heir["base"], heir["line"]) == ("OwnBackend", "TritonAttnBackend", 4)
    output = run("apply", tree.root, "26128").stdout
    assert "OwnBackend (srt/layers/attention/own_backend.py:4) inherits the opt-out" in " ".join(
        output.split()
    )
    assert "inherited_opt_outs" not in answer("apply", tree.root, "26128")


def test_an_override_that_takes_less_than_its_caller_passes_is_named(patched: Damaged) -> None:
    patched.replace(MHA, f"def {HOOK}(self, spec_info, cuda_graph_bs):", f"def {HOOK}(self, spec_info):")
    messages = patched.messages("signatures")
    assert f"TRTLLMHAAttnBackend.{HOOK}" in messages
    assert "takes 1 positional arguments and is passed 2" in messages


def test_what_the_tree_had_before_any_patch_is_a_note(patched: Damaged, own_backend: Path) -> None:
    own_backend.write_text(
        "from sglang.srt.layers.attention.flashinfer_backend import FlashInferAttnBackend\n\n\n"
        "class OwnBackend(FlashInferAttnBackend):\n    needs_cpu_seq_lens = False\n"
    )
    hooks = patched.check("hooks")
    assert hooks.findings == ()
    assert any("predates the patches" in note and "OwnBackend" in note for note in hooks.notes)


def test_a_class_that_takes_anything_makes_no_other_class_a_callee(patched: Damaged) -> None:
    path = patched.tree.package / MHA
    own = b"\n\nclass OwnMultiStepBackend:\n"
    for name in (b"init_forward_metadata_capture_cuda_graph", b"init_forward_metadata_replay_cuda_graph"):
        own += b"    def %s(self, *args, **kwargs):\n        pass\n\n" % name
    patched.write(path, path.read_bytes() + own)
    assert patched.check("signatures").findings == ()


def test_a_renamed_parameter_that_a_caller_names_is_found(patched: Damaged) -> None:
    path = patched.tree.package / "srt/managers/overlap_utils.py"
    text = path.read_text(encoding="utf-8")
    patched.write(path, text.replace("needs_cpu_seq_lens: bool = True", "keeps_mirror: bool = True").encode())
    assert "FutureMap.__init__" in patched.messages("signatures")


def test_one_more_parameter_with_a_default_is_fine(patched: Damaged) -> None:
    patched.replace(
        MHA,
        f"def {HOOK}(self, spec_info, cuda_graph_bs):",
        f"def {HOOK}(self, spec_info, cuda_graph_bs, own=1):",
    )
    found = patched.verify(code=1)
    assert [name for name, check in found.items() if check["outcome"] == "failed"] == ["postconditions"]


def test_a_backend_slot_that_is_gone_is_named(patched: Damaged) -> None:
    path = patched.tree.package / WORKER
    text = path.read_text(encoding="utf-8").replace("self.draft_extend_attn_backend", "self.own_backend")
    patched.write(path, text.encode())
    messages = patched.messages("slots")
    assert "`draft_extend_attn_backend`, which is not an attribute of EagleDraftWorker" in messages


def test_a_missing_runtime_is_one_sentence(patched: Damaged, tmp_path: Path) -> None:
    shutil.move(patched.tree.root / "patchkit", tmp_path / "aside")
    try:
        messages = patched.messages("imports")
    finally:
        shutil.move(tmp_path / "aside", patched.tree.root / "patchkit")
    assert messages.splitlines() == [messages]
    assert (
        f"patchkit.runtime, which patched files import, is not installed in {patched.tree.root}" in messages
    )


def test_an_older_runtime_is_one_sentence(patched: Damaged, tmp_path: Path) -> None:
    for file in patched.tree.package.rglob("*.py"):
        text = file.read_bytes()
        if b"import api_1 as patchkit_api" in text:
            patched.write(file, text.replace(b"import api_1 as", b"import api_2 as"))
    messages = patched.messages("imports")
    assert messages.splitlines() == [messages]
    assert f"the runtime in {patched.tree.root} has no api_2" in messages


def test_a_name_that_the_runtime_lacks_is_named_where_it_is_used(patched: Damaged) -> None:
    api = patched.tree.root / "patchkit/runtime/api_1.py"
    patched.write(api, api.read_bytes().replace(b"total_or_bound", b"total_or_other"))
    assert "has no `total_or_bound`" in patched.messages("imports")


def test_a_runtime_function_that_takes_less_is_named(patched: Damaged) -> None:
    root = patched.tree.root
    patched.replace(
        "patchkit/runtime/lengths.py",
        "def total_or_bound(total: int | None, count: int, max_context_len: int)",
        "def total_or_bound(total: int | None, count: int)",
        root,
    )
    assert "total_or_bound (runtime api_1) takes 2 positional arguments" in patched.messages("signatures")


def test_an_import_of_a_name_that_is_gone_is_named(patched: Damaged) -> None:
    file = "srt/managers/overlap_utils.py"
    text = (patched.tree.package / file).read_text(encoding="utf-8")
    patched.write(
        patched.tree.package / file,
        text.replace("decide_needs_cpu_seq_lens =", "decide_otherwise =").encode(),
    )
    assert f"{file} defines no `decide_needs_cpu_seq_lens`" in patched.messages("imports")


@pytest.mark.parametrize("share", [0.4, 0.97])
def test_a_truncated_file_does_not_pass(patched: Damaged, share: float) -> None:
    path = patched.tree.package / BATCH
    text = path.read_bytes()
    patched.write(path, text[: int(len(text) * share)])
    assert "failed" in outcomes(patched.verify()).values()


def test_a_file_cut_off_in_a_statement_is_named_with_its_line(patched: Damaged) -> None:
    path = patched.tree.package / BATCH
    text = path.read_bytes()
    patched.write(path, text[: text.index(b"def filter_batch(") + len(b"def filter_batch(")])
    results = patched.verify()
    assert any("not valid Python" in finding["message"] for finding in results["compile"]["findings"])
    assert {finding["file"] for finding in results["compile"]["findings"]} == {BATCH}
    assert results["postconditions"]["outcome"] == "skipped"


def record_of(tree: CheckoutTree) -> Path:
    return min((tree.package / ".patchkit" / "patchkit.lock").iterdir())


def test_a_record_that_names_an_unknown_content_is_found(patched: Damaged) -> None:
    path = record_of(patched.tree)
    patched.write(
        path, re.sub(rb'before = "\w+"', b'before = "%s"' % (b"0" * 40), path.read_bytes(), count=1)
    )
    results = outcomes(patched.verify())
    assert results == dict.fromkeys(CHECKS, "passed") | {"record": "failed"}


def test_a_record_that_cannot_be_read_is_found(patched: Damaged) -> None:
    patched.write(record_of(patched.tree), b"{")
    assert "is damaged" in patched.messages("record")


def test_a_person_s_edit_of_a_patched_file_is_no_fault(patched: Damaged) -> None:
    path = patched.tree.package / BATCH
    patched.write(path, path.read_bytes() + b"\n\nown = 1\n")
    assert outcomes(patched.verify(code=0)) == dict.fromkeys(CHECKS, "passed")


def test_a_content_that_a_revert_would_take_and_that_was_changed_is_found(patched: Damaged) -> None:
    first = min((patched.tree.package / ".patchkit" / "objects").iterdir())
    patched.write(first, first.read_bytes() + b"#")
    assert f"the content {first.name[:12]}" in patched.messages("record")


def test_without_a_record_the_code_alone_is_judged(patched: Damaged, tmp_path: Path) -> None:
    shutil.move(patched.tree.package / ".patchkit", tmp_path / "aside")
    try:
        results = outcomes(patched.verify(code=0))
    finally:
        shutil.move(tmp_path / "aside", patched.tree.package / ".patchkit")
    assert results == dict.fromkeys(CHECKS, "passed") | {"record": "skipped"}


def test_an_interrupted_write_makes_the_tree_unusable(patched: Damaged) -> None:
    journal = patched.tree.package / ".patchkit" / "journal.json"
    journal.write_bytes(b"{}")
    try:
        assert "patchkit apply --continue" in run("verify", patched.tree.root, code=4).stderr
    finally:
        journal.unlink()


def test_an_unpatched_tree_says_what_is_pending(releases: Releases) -> None:
    reply = answer("verify", releases.tree(REFERENCE).root, code=1)
    # 29354 mends what came in 0.5.13.
    by_default = {patch.id for patch in load.patches() if patch.default} - {"29354", *OF_LATER_CODE}
    assert {patch["state"] for patch in reply["patches"] if patch["id"] in by_default} == {"pending"}
    found = {check["check"]: check for check in reply["checks"]}
    assert found["compile"]["outcome"] == "passed"
    (pending,) = found["postconditions"]["findings"]
    assert {patch["id"] for patch in reply["patches"] if patch["id"] in pending["message"]} == by_default
    assert found["audit"]["outcome"] == "skipped"


NEVER_NEEDED = """
schema = 1
id = "own-fix"
title = "Delete what this release does not have"
why = "a later release has it"
risk = "none"
verify = "look"
default = false

[edit.gone]
kind = "delete"
why = "it is wrong"
at = "srt/managers/scheduler.py::Scheduler.run_batch"
context = ["self.forward_ct += 1"]
find = "what_a_later_release_has()"
"""


def test_a_call_and_an_import_of_the_trees_own_beside_an_edit_are_notes(
    releases: Releases, tmp_path: Path
) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    path = tree.package / MHA
    own = "from sglang.gone import fill\n\n\nclass Own:\n    def plan(self):\n        self.fill(1)\n\n"
    own += "    def fill(self):\n        pass\n"
    path.write_text(f"{path.read_text()}\n\n{own}")
    run("apply", tree.root, "25925")
    found = {check["check"]: check for check in answer("verify", tree.root)["checks"]}
    for name, named in (("signatures", "Own.fill"), ("imports", "the tree has no module sglang.gone")):
        assert found[name]["findings"] == []
        assert any("predates the patches" in note and named in note for note in found[name]["notes"])


def test_a_fix_that_a_tree_never_needed_does_not_make_it_patched(releases: Releases, tmp_path: Path) -> None:
    (tmp_path / "patch.toml").write_text(NEVER_NEEDED)
    reply = answer("verify", releases.tree(REFERENCE).root, "--patches", tmp_path, code=1)
    assert {patch["id"]: patch["state"] for patch in reply["patches"]}["own-fix"] == "unknown"
    (found,) = (check for check in reply["checks"] if check["check"] == "postconditions")
    assert [finding["message"].partition(";")[0] for finding in found["findings"]] == ["no patch is applied"]


def test_upstreams_own_patches_pass_what_applies_to_them(releases: Releases) -> None:
    reply = answer("verify", releases.tree("0.5.13").root, code=1)
    found = {check["check"]: check["outcome"] for check in reply["checks"]}
    # The failures there are those that our own patches and later releases of upstream fix.
    assert found == dict.fromkeys(CHECKS, "passed") | {
        "record": "skipped",
        "hooks": "failed",
        "streams": "failed",
        "audit": "failed",
    }


def test_a_tree_with_one_patch_passes_and_names_the_others(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, "26241")
    reply = answer("verify", tree.root)
    found = {check["check"]: check for check in reply["checks"]}
    assert any("predates the patches" in note for note in found["hooks"]["notes"])
    assert any(
        " patches are pending: patchkit apply 28856 25002 " in note
        for note in found["postconditions"]["notes"]
    )


def test_a_folder_that_is_no_tree_is_unusable(tmp_path: Path) -> None:
    run("verify", tmp_path, code=4)


def test_importing_without_torch_says_so_in_one_sentence(
    patched: Damaged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    reply = answer("verify", patched.tree.root, "--level", "import", code=1)
    (finding,) = reply["checks"][-1]["findings"]
    assert "torch, which is not installed in" in finding["message"]


def test_every_format_tells_the_same_failure(patched: Damaged, monkeypatch: pytest.MonkeyPatch) -> None:
    patched.replace(MHA, f"def {HOOK}(", "def an_older_name_of_the_hook(")
    verify = verifying.verify
    verdicts: list[Verdict] = []

    def verify_once(*given: Any) -> Verdict:
        verdicts[:] = verdicts or [verify(*given)]
        return verdicts[0]

    monkeypatch.setattr(verifying, "verify", verify_once)
    replies = {
        style: run("verify", patched.tree.root, "--format", style, code=1).stdout
        for style in ("text", "sarif", "junit", "github")
    }
    message = f"TRTLLMHAAttnBackend defines no {HOOK}"
    assert all(message in reply for reply in replies.values())
    Sarif.model_validate(json.loads(replies["sarif"]))
    suites = ElementTree.fromstring(replies["junit"])
    assert [suite.get("name") for suite in suites] == [f"patchkit verify {check}" for check in CHECKS]
    failed = {suite.get("name") for suite in suites if suite.get("failures") != "0"}
    assert "patchkit verify hooks" in failed
    assert "::error file=" in replies["github"]


def test_the_page_shows_each_patch_with_its_change_side_by_side(patched: Damaged, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    patched.replace(MHA, f"def {HOOK}(", "def an_older_name_of_the_hook(")
    run("verify", patched.tree.root, "--format", "html", "-o", page, code=1)
    text = page.read_text(encoding="utf-8")
    assert all(escape(patch.title) in text for patch in PATCHES)
    assert f"TRTLLMHAAttnBackend defines no {HOOK}" in text
    assert text.count('<table class="diff">') >= len(PATCHES)
    assert "elif forward_mode.is_draft_extend(include_v2=True):" in text
    assert "http" not in re.sub(r'<a href="[^"]*">[^<]*</a>', "", text)


def test_two_formats_at_once_are_refused(patched: Damaged) -> None:
    run("verify", patched.tree.root, "--json", "--format", "html", code=2)

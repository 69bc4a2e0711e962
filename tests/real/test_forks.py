"""A fork that wrote a site in its own way gets the patch and keeps what is its own, or is told what to do about it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from support.backdated import Edit
from support.releases import PATCHES, REFERENCE, Releases, after, states
from support.sweeps import swept

from patchkit.audit.engine import audit
from patchkit.codemods.language.scope import resolve
from patchkit.findings.finding import Confidence
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.plan.conflict import conflicts
from patchkit.plan.status import PatchStatus, Plan, State
from patchkit.tree.tree import OverlayTree, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.usefixtures("_parsed_once")

ATTENTION = "srt/layers/attention"
FORWARD_BATCH = "srt/model_executor/forward_batch_info.py"
MIRROR = tuple(patch for patch in PATCHES if patch.id == "26128")


def rewritten(tree: Tree, *edits: Edit) -> OverlayTree:
    """Return the tree with sites written otherwise."""
    files: dict[str, cst.Module] = {}
    for edit in edits:
        module = files.get(edit.file) or cst.parse_module(tree.read(edit.file) or b"")
        (scope,) = resolve(module, edit.scope)
        files[edit.file] = edit.made(scope)
    return OverlayTree(tree, {file: module.bytes for file, module in files.items()})


def reasons(plan: Plan) -> Mapping[str, str]:
    return {status.patch.id: status.reason for status in plan.patches}


def status_of(plan: Plan, name: str) -> PatchStatus:
    return next(status for status in plan.patches if status.patch.id == name)


@pytest.fixture(scope="module")
def release(releases: Releases) -> Tree:
    return releases.tree(REFERENCE)


# ---- lengths that go to the device in another way --------------------------------------------------------------

INIT_NEW = functools.partial(Edit, at=f"{FORWARD_BATCH}::ForwardBatch.init_new")
TENSOR = "torch.tensor(batch.{field}, dtype=torch.int32)"
PINNED = "torch.tensor(batch.{field}, dtype=torch.int32, pin_memory=True)"
THERE = "torch.tensor(batch.{field}, dtype=torch.int32, device=device)"
AS_TENSOR = "torch.as_tensor(batch.{field}, dtype=torch.int32)"
SPELLINGS = {
    "pinned": f"ret.{{field}} = {TENSOR}.pin_memory().to(device, non_blocking=True)",
    "pinned-at-once": f"ret.{{field}} = {PINNED}.to(device, non_blocking=True)",
    "as-tensor": f"ret.{{field}} = {AS_TENSOR}.pin_memory().to(device, non_blocking=True)",
    "there-at-once": f"ret.{{field}} = {THERE}",
    "local": f"host_{{field}} = {TENSOR}.pin_memory()\nret.{{field}} = host_{{field}}.to(device, non_blocking=True)",
    "local-pinned-late": f"host_{{field}} = {TENSOR}\n"
    "ret.{field} = host_{field}.pin_memory().to(device, non_blocking=True)",
    "helper": "ret.{field} = lens_to_gpu(batch.{field}, device)",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_lengths_that_go_to_the_device_in_another_way(release: Tree, spelling: str) -> None:
    fields = ("extend_seq_lens", "extend_prefix_lens")
    fork = rewritten(
        release,
        *(
            INIT_NEW(
                find=f"ret.{field} = {TENSOR.format(field=field)}.to(device, non_blocking=True)",
                code=SPELLINGS[spelling].format(field=field),
            )
            for field in fields
        ),
    )
    plan = make_plan(fork, MIRROR)
    assert reasons(plan) == {"26128": ""}
    patched = after(plan)
    assert states(patched, MIRROR) == {"26128": "applied"}
    code = patched.read(FORWARD_BATCH) or b""
    for field in fields:
        assert f"patchkit_api.lens_on_device(batch.{field}, device)".encode() in code or (
            f"isinstance(batch.{field}, torch.Tensor)\n".encode() in code
        )


# ---- lengths that come to the host in another way -----------------------------------------------------------------

EAGLE_INFO = "srt/speculative/eagle_info_v2.py"
COPIES = {
    "to-cpu": 'batch.seq_lens.to("cpu")',
    "to-device-cpu": 'batch.seq_lens.to(device="cpu", non_blocking=False)',
    "detached": "batch.seq_lens.detach().cpu()",
    "by-a-helper": "lens_to_host(batch.seq_lens, pinned=True)",
}


@pytest.mark.parametrize("copy", COPIES)
def test_lengths_that_come_to_the_host_in_another_way_come_only_where_they_are_needed(
    release: Tree, copy: str
) -> None:
    fork = rewritten(release, Edit(at=DECODE, find="batch.seq_lens.cpu()", code=COPIES[copy]))
    plan = make_plan(fork, MIRROR)
    assert reasons(plan) == {"26128": ""}
    patched = after(plan)
    assert states(patched, MIRROR) == {"26128": "applied"}
    assert make_plan(patched, MIRROR).changes == ()
    code = (patched.read(EAGLE_INFO) or b"").decode()
    before, _, rest = code.partition(f"            batch.seq_lens_cpu = {COPIES[copy]}\n")
    assert before.splitlines()[-1] == "        if batch.needs_cpu_seq_lens:"
    assert rest.startswith("        else:\n            batch.seq_lens_cpu = None\n")


ALLOCATED = {
    "by-keyword": ("$lens.to(device=batch.device)", 4),
    "by-position": ("$lens.to(batch.device)", 4),
    "not-waited-for-already": ("$lens.to(device=batch.device, non_blocking=True)", 0),
    "of-another-type": ("$lens.to(batch.device, torch.int64)", 0),
}


@pytest.mark.parametrize("spelling", ALLOCATED)
def test_allocated_lengths_go_to_the_device_without_a_wait_however_they_went(
    release: Tree, spelling: str
) -> None:
    code, made = ALLOCATED[spelling]
    fork = rewritten(release, Edit(at=DECODE, find="$lens.to(device=batch.device)", code=code, every=True))
    plan = make_plan(fork, MIRROR)
    assert reasons(plan) == {"26128": ""}
    patched = after(plan)
    assert (patched.read(EAGLE_INFO) or b"").count(b"patchkit_api.lens_to_device(") == made
    assert states(patched, MIRROR) == {"26128": "applied"}


# ---- sites that say the same in other words ---------------------------------------------------------------------

DECODE = "srt/speculative/eagle_info_v2.py::EagleDraftInputV2Mixin.prepare_for_decode"
FILL = "srt/speculative/eagle_info_v2.py::EagleDraftInputV2Mixin.prepare_for_extend_to_fill_draft_kvcache"
BATCH = "srt/managers/schedule_batch.py::ScheduleBatch"
OVERLAP = "srt/managers/scheduler.py::Scheduler.init_overlap"
METRICS_MIXIN = "srt/observability/scheduler_metrics_mixin.py"
MLA = "srt/layers/attention/trtllm_mla_backend.py::TRTLLMMLABackend"
REPLAY = "srt/speculative/eagle_draft_extend_cuda_graph_runner.py::EAGLEDraftExtendCudaGraphRunner.replay"
LISTED = "isinstance($x, TritonAttnBackend) or isinstance($x, TRTLLMMLABackend)"
TOPK = "$out.topk_p = $copy.topk_p[:$count]\n$out.topk_index = $copy.topk_index[:$count]"
USUAL = "ret.extend_seq_lens = torch.tensor(batch.extend_seq_lens, dtype=torch.int32).to(device, non_blocking=True)"
COPY = "batch.seq_lens_cpu = batch.seq_lens.cpu()\nbatch.seq_lens_sum = batch.seq_lens_cpu.sum().item()"
CAT = "self.seq_lens_cpu = torch.cat([self.seq_lens_cpu, other.seq_lens_cpu])"
OWN_WAYS = {
    "shorter": {
        f"{BATCH}.merge_batch": [
            (CAT, "self.seq_lens_cpu = torch.cat((self.seq_lens_cpu, other.seq_lens_cpu), dim=0)")
        ],
        f"{BATCH}.filter_batch": [
            (
                "self.seq_lens_sum = self.seq_lens.sum().item()",
                "self.seq_lens_sum = int(self.seq_lens.sum())",
            ),
            ("len(keep_indices) == len(self.reqs)", "len(self.reqs) == len(keep_indices)"),
        ],
        DECODE: [
            (
                COPY,
                "batch.seq_lens_cpu = batch.seq_lens.cpu()\n"
                "batch.seq_lens_sum = int(batch.seq_lens_cpu.sum().item())",
            )
        ],
        FILL: [("[$n for $i in range(len(batch.seq_lens))]", "[$n] * len(batch.seq_lens)")],
        f"{FORWARD_BATCH}::ForwardBatch.init_new": [
            (
                USUAL,
                "ret.extend_seq_lens = torch.tensor(batch.extend_seq_lens).to(device=device)",
            )
        ],
        METRICS_MIXIN: [
            ("$to.decode_sum_seq_lens = $_", "$to.decode_sum_seq_lens = int(batch.seq_lens_cpu.sum())")
        ],
        f"{MLA}.__init__": [("self.num_draft_tokens = $count", "self.num_draft_tokens = $count or 0")],
        REPLAY: [(TOPK, "$out.topk_p, $out.topk_index = $copy.topk_p[:$count], $copy.topk_index[:$count]")],
    },
    "by-way-of-locals": {
        f"{BATCH}.merge_batch": [
            (
                "self.seq_lens_sum += other.seq_lens_sum",
                "self.seq_lens_sum = self.seq_lens_sum + other.seq_lens_sum",
            )
        ],
        f"{BATCH}.filter_batch": [
            (
                "self.seq_lens_sum = self.seq_lens.sum().item()",
                "self.seq_lens_sum = self.seq_lens_cpu.sum().item()",
            )
        ],
        OVERLAP: [
            (
                "self.future_map = FutureMap($a, $b, $c, $d, $e)",
                "chosen = FutureMap($a, $b, $c, $d, $e)\nself.future_map = chosen",
            )
        ],
        DECODE: [
            (
                COPY,
                "on_host = batch.seq_lens.cpu()\nbatch.seq_lens_cpu = on_host\n"
                "batch.seq_lens_sum = on_host.sum().item()",
            )
        ],
        FILL: [
            ("batch.spec_info = self", "count = len(batch.seq_lens)\nbatch.spec_info = self"),
            ("[$n for $i in range(len(batch.seq_lens))]", "[$n for $i in range(count)]"),
            ("batch.seq_lens_sum += $n", "batch.seq_lens_sum = batch.seq_lens_sum + $n"),
        ],
        f"{FORWARD_BATCH}::ForwardBatch.init_new": [
            (
                USUAL,
                "staged = torch.tensor(batch.extend_seq_lens)\n"
                "ret.extend_seq_lens = staged.to(device=device, non_blocking=True)",
            )
        ],
        "srt/speculative/eagle_worker_v2.py::EagleDraftWorker.init_cuda_graphs": [
            (
                f"$graph = $cuda and ({LISTED})",
                "$graph = $cuda and isinstance($x, TritonAttnBackend | TRTLLMMLABackend)",
            )
        ],
        REPLAY: [(TOPK, "$out.topk_index = $copy.topk_index[:$count]\n$out.topk_p = $copy.topk_p[:$count]")],
    },
    "with-helpers": {
        f"{BATCH}.merge_batch": [(CAT, "self.seq_lens_cpu = joined(self.seq_lens_cpu, other.seq_lens_cpu)")],
        DECODE: [
            (
                COPY,
                "batch.seq_lens_cpu = batch.seq_lens.cpu()\nbatch.seq_lens_sum = sum(batch.seq_lens_cpu.tolist())",
            )
        ],
        FILL: [("[$n for $i in range(len(batch.seq_lens))]", "[$n for $i in batch.reqs]")],
        f"{FORWARD_BATCH}::ForwardBatch.init_new": [
            (
                USUAL,
                "ret.extend_seq_lens = torch.from_numpy(np.asarray(batch.extend_seq_lens, dtype=np.int32)).cuda()",
            )
        ],
    },
    "with-another-helper": {
        f"{FORWARD_BATCH}::ForwardBatch.init_new": [
            (USUAL, "ret.extend_seq_lens = staged(batch.extend_seq_lens, torch.int32, device=device)")
        ],
        f"{MLA}.init_cuda_graph_state": [
            (
                "super().init_cuda_graph_state($a, $b, $c)",
                "super().init_cuda_graph_state(max_bs=$a, max_num_tokens=$b, kv_indices_buf=$c)",
            )
        ],
    },
}


@pytest.mark.parametrize("way", swept(OWN_WAYS, "with-helpers".__eq__))
def test_a_fork_with_equivalent_code_gets_every_patch(releases: Releases, release: Tree, way: str) -> None:
    fork = rewritten(
        release,
        *(Edit(at=at, find=find, code=code) for at, pairs in OWN_WAYS[way].items() for find, code in pairs),
    )
    usual = {status.patch.id: status.state for status in releases.plan(REFERENCE).patches}
    plan = make_plan(fork, PATCHES)
    assert {status.patch.id: status.state for status in plan.patches} == usual, reasons(plan)
    patched = after(plan)
    applied = {name for name, state in usual.items() if state is State.PENDING}
    assert {name for name, state in states(patched, PATCHES).items() if state == "applied"} >= applied
    assert make_plan(patched, PATCHES).changes == ()
    report = audit(patched)
    assert [finding for finding in report.findings if finding.confidence is Confidence.CERTAIN] == []


# ---- a flag that the fork has set itself -----------------------------------------------------------------------

FLAGS = {
    "needs_cpu_seq_lens = True": "its own `needs_cpu_seq_lens = True`",
    "needs_cpu_seq_lens: bool = _is_hcu": "its own `needs_cpu_seq_lens: bool = _is_hcu`",
    "@property\n    def needs_cpu_seq_lens(self):\n        return _is_hcu": "its own needs_cpu_seq_lens",
}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_the_fork_set_stays_and_the_rest_is_done(release: Tree, flag: str) -> None:
    file, head = f"{ATTENTION}/triton_backend.py", b"class TritonAttnBackend(AttentionBackend):\n"
    source = release.read(file) or b""
    assert head in source
    fork = OverlayTree(release, {file: source.replace(head, head + f"    {flag}\n\n".encode())})
    plan = make_plan(fork, MIRROR)
    status = status_of(plan, "26128")
    assert status.state is State.PENDING
    assert status.reason == f"TritonAttnBackend has {FLAGS[flag]}, which is kept"
    edits = {edit.name: edit.state for edit in status.edits}
    assert edits["triton-flag"] is State.UPSTREAM
    assert {state for name, state in edits.items() if name != "triton-flag"} <= {
        State.PENDING,
        State.NOT_APPLICABLE,
    }
    patched = after(plan)
    assert states(patched, MIRROR) == {"26128": "applied"}
    assert flag.encode() in (patched.read(file) or b"")
    assert (patched.read(file) or b"").count(b"needs_cpu_seq_lens") == 2


# ---- a file that is moving -------------------------------------------------------------------------------------

OLD, NEW = (
    "srt/observability/scheduler_metrics_mixin.py",
    "srt/managers/scheduler_components/metrics_reporter.py",
)
SHIM = b"from sglang.srt.managers.scheduler_components.metrics_reporter import *  # noqa: F403\n"
METRICS = tuple(patch for patch in PATCHES if patch.id == "26128")
MOVES: dict[str, tuple[dict[str, bytes | None], set[str]]] = {
    "both-have-it": ({NEW: None}, {OLD, NEW}),
    "the-new-one-is-empty-yet": ({NEW: b"import logging\n"}, {OLD}),
    "the-old-one-is-a-shim": ({NEW: None, OLD: SHIM}, {NEW}),
    "only-the-old-one": ({}, {OLD}),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_file_that_is_there_under_both_names_is_patched_where_its_sites_are(
    release: Tree, move: str
) -> None:
    contents, expected = MOVES[move]
    moved = {file: release.read(OLD) or b"" if code is None else code for file, code in contents.items()}
    plan = make_plan(OverlayTree(release, moved), METRICS)
    assert reasons(plan) == dict.fromkeys((patch.id for patch in METRICS), "")
    assert {change.file for change in plan.changes} & {OLD, NEW} == expected
    patched = after(plan)
    assert set(states(patched, METRICS).values()) == {"applied"}
    assert make_plan(patched, METRICS).changes == ()
    for file in expected:
        assert (patched.read(file) or b"").count(b"seq_lens_cpu") == 0


# ---- what is told of a site that is not there ------------------------------------------------------------------


def test_the_statement_that_assigns_the_same_is_shown_with_its_line(release: Tree) -> None:
    own = "ret.extend_seq_lens = model_runner.staging.lens"
    field = "extend_seq_lens"
    usual = f"ret.{field} = {TENSOR.format(field=field)}.to(device, non_blocking=True)"
    fork = rewritten(release, INIT_NEW(find=usual, code=own))
    status = status_of(make_plan(fork, MIRROR), "26128")
    assert status.state is State.CONFLICT
    lines = (fork.read(FORWARD_BATCH) or b"").decode().splitlines()
    assert f"the nearest line is `{own}` (line {lines.index(' ' * 12 + own) + 1})" in status.reason


def test_a_fork_that_leaves_the_mirror_out_itself_keeps_its_own_way_and_gets_the_rest(release: Tree) -> None:
    at = "srt/speculative/eagle_info_v2.py::EagleDraftInputV2Mixin.prepare_for_decode"
    copy = "batch.seq_lens_cpu = batch.seq_lens.cpu()\nbatch.seq_lens_sum = batch.seq_lens_cpu.sum().item()"
    fork = rewritten(
        release, Edit(at=at, find=copy, code="batch.seq_lens_cpu = None\nbatch.seq_lens_sum = None")
    )
    plan = make_plan(fork, PATCHES)
    assert [status.patch.id for status in plan.patches if status.state is State.CONFLICT] == [], reasons(plan)
    status = status_of(plan, "26128")
    assert status.state is State.NOT_APPLICABLE
    assert "omits the mirror itself" in status.reason
    assert "EagleDraftInputV2Mixin.prepare_for_decode" in status.reason
    assert {patch.state for patch in plan.patches if "26128" in patch.patch.requires} == {
        State.NOT_APPLICABLE
    }
    assert status_of(plan, "28465").state is State.PENDING
    patched = after(plan)
    assert (patched.read(at.partition("::")[0]) or b"").count(b"batch.seq_lens_cpu = None") == 1
    assert make_plan(patched, PATCHES).changes == ()


# ---- another list of backends that have a graph ----------------------------------------------------------------

CUDA = "isinstance($x, TritonAttnBackend) or isinstance($x, TRTLLMMLABackend)"
WHITELISTS = {
    "one-more": f"{CUDA} or isinstance($x, ForkBackend)",
    "a-tuple": "isinstance($x, (TritonAttnBackend, ForkBackend))",
    "a-union": "isinstance($x, TritonAttnBackend | TRTLLMMLABackend)",
}
GRAPHS = tuple(patch for patch in PATCHES if patch.id in {"25002", "25925"})


@pytest.mark.parametrize("whitelist", swept(WHITELISTS, {"one-more", "a-union"}.__contains__))
def test_another_list_of_backends_with_a_graph_gets_one_more(release: Tree, whitelist: str) -> None:
    at = "srt/speculative/eagle_worker_v2.py::EagleDraftWorker.init_cuda_graphs"
    fork = rewritten(release, Edit(at=at, find=CUDA, code=WHITELISTS[whitelist]))
    plan = make_plan(fork, GRAPHS)
    status = status_of(plan, "25002")
    assert status.state is State.PENDING, status.reason
    changed = (after(plan).read("srt/speculative/eagle_worker_v2.py") or b"").decode()
    assert changed.count("TRTLLMHAAttnBackend") == 2, "an import, and the list"
    assert changed.count("ForkBackend") == WHITELISTS[whitelist].count("ForkBackend")
    assert states(after(plan), GRAPHS)["25002"] == "applied"


@pytest.mark.parametrize(
    "own",
    [
        "self.has_a_graph($x)",
        "isinstance($x, listed_backends())",
        "isinstance($x, GRAPH_BACKENDS)",
        "type($x) in (TritonAttnBackend, ForkBackend)",
        "type($x) not in (ForkBackend, OtherBackend)",
        "isinstance($x, ForkBackend)",
        "True",
    ],
)
def test_an_unreadable_list_is_a_conflict_that_shows_where_the_backend_is_used(
    release: Tree, own: str
) -> None:
    at = "srt/speculative/eagle_worker_v2.py::EagleDraftWorker.init_cuda_graphs"
    fork = rewritten(release, Edit(at=at, find=CUDA, code=own))
    status = status_of(make_plan(fork, GRAPHS), "25002")
    assert status.state is State.CONFLICT
    (edit,) = (edit for edit in status.edits if edit.state is State.CONFLICT)
    assert edit.name == "whitelist"
    quoted = edit.reason.partition("the nearest line is `")[2].partition("`")[0]
    lines = [line.strip() for line in (fork.read(edit.file) or b"").decode().splitlines()]
    assert quoted in lines
    assert "draft_extend_attn_backend" in quoted or quoted.startswith("supports_cuda_draft_extend_graph = ")
    (conflict,) = (conflict for conflict in conflicts(fork, [status]) if conflict.edit == "whitelist")
    assert "draft_extend" in conflict.found
    if "($x)" in own:
        assert conflict.found.strip().startswith("supports_cuda_draft_extend_graph = ")
    assert conflict.expected.startswith("isinstance(self.draft_extend_attn_backend, ")
    assert conflict.wanted.endswith(", TRTLLMHAAttnBackend))")


# ---- a kernel of the fork's own --------------------------------------------------------------------------------

FLASH = f"{ATTENTION}/flashattention_backend.py::FlashAttentionBackend"


def test_a_fork_with_an_attention_kernel_of_its_own_keeps_it_and_gets_the_rest(release: Tree) -> None:
    call = "$attend(..., q=$rows, page_table=$table, out=$out)"
    own = "varlen_of_the_fork(q=$rows, block_table=$table, out=$out)"
    fork = rewritten(
        release,
        Edit(at=f"{FLASH}.forward_extend", find=call, code=own),
        Edit(at=f"{FLASH}.forward_decode", find=call, code=own),
    )
    plan = make_plan(fork, PATCHES)
    assert [status.patch.id for status in plan.patches if status.state is State.CONFLICT] == [], reasons(plan)
    assert status_of(plan, "pk-fa3-verify-schedule").state is State.NOT_APPLICABLE
    assert status_of(plan, "pk-attention-views").state is State.PENDING
    patched = (after(plan).read(FLASH.partition("::")[0]) or b"").decode()
    assert patched.count("varlen_of_the_fork(q=") == 2
    assert "planned_once" not in patched


@pytest.mark.parametrize("otherwise", ["elif self.draft_extend_attn_backend:", "else:"])
def test_a_fork_that_logs_why_a_backend_has_no_graph_gets_flash_attentions_graph(
    release: Tree, otherwise: str
) -> None:
    fork = rewritten(
        release,
        Edit(
            at="srt/speculative/eagle_worker_v2.py::EagleDraftWorker.init_cuda_graphs",
            find="if self.draft_extend_attn_backend and $listed:\n    $$capture",
            code="if self.draft_extend_attn_backend and $listed:\n    $$capture\n"
            f'{otherwise}\n    logger.info("no graph")',
        ),
    )
    graphs = tuple(patch for patch in PATCHES if patch.id in {"pk-fa3-draft-extend-graph", "28782"})
    plan = make_plan(fork, graphs)
    assert {status.state for status in plan.patches} == {State.PENDING}, reasons(plan)
    assert make_plan(after(plan), graphs).changes == ()


# ---- upstream's own change, or a part of it, without the flags that its release has ----------------------------

FREED = b"    needs_cpu_seq_lens: bool = False\n"


@pytest.mark.parametrize(("flags", "expected"), [(1, State.UPSTREAM), (0, State.NOT_APPLICABLE)])
def test_a_backend_that_frees_itself_in_its_constructor_gets_no_property_of_that_name(
    releases: Releases, flags: int, expected: State
) -> None:
    file = FLASH.partition("::")[0]
    first, second, third = (releases.tree("0.5.16").read(file) or b"").split(FREED)
    source = first + second + FREED * flags + third  # The draft's flag, or none.
    fork = OverlayTree(releases.tree("0.5.16"), {file: source})
    plan = make_plan(fork, tuple(patch for patch in PATCHES if patch.id in {"31364", "29343"}))
    assert status_of(plan, "31364").state is expected, reasons(plan)
    assert ("upstream's change in part" in status_of(plan, "31364").reason) is (not flags)
    assert status_of(plan, "29343").state is State.UPSTREAM
    assert plan.changes == ()


# ---- where a start has its attention backends --------------------------------------------------------------------


def test_a_start_that_makes_backends_and_graphs_in_one_call_checks_the_overlap_hook_after_it(
    releases: Releases,
) -> None:
    file, call = "srt/managers/scheduler.py", b"self.init_all_attention_backends()\n"
    source = releases.tree("0.5.15").read(file) or b""
    assert source.count(call) == 1
    fork = OverlayTree(releases.tree("0.5.15"), {file: source.replace(call, b"self.init_all_backends()\n")})
    hook = tuple(patch for patch in PATCHES if patch.id == "25925")
    plan = make_plan(fork, hook)
    assert [status.state for status in plan.patches] == [State.PENDING], reasons(plan)
    changed = (after(plan).read(file) or b"").decode()
    assert (
        "patchkit_api.require_overlap_hook_to_verify(" in changed.partition("self.init_all_backends()\n")[2]
    )
    assert make_plan(after(plan), hook).changes == ()


# ---- a capture that the method of the replays plans ------------------------------------------------------------

LINEAR = f"{ATTENTION}/hybrid_linear_attn_backend.py"


def test_every_replay_passes_the_padding_that_a_capture_without_the_mirror_lacks(
    release: Tree,
) -> None:
    counted = "$padding = torch.count_nonzero($mirror == $fill)"
    fork = rewritten(
        release,
        Edit(
            at=f"{LINEAR}::MambaAttnBackendBase._replay_metadata",
            find=counted,
            code=f"if $mirror is None:\n    $padding = 0\nelse:\n    {counted}",
        ),
    )
    plan = make_plan(fork, PATCHES)
    assert [status.patch.id for status in plan.patches if status.state is State.CONFLICT] == [], reasons(plan)
    assert status_of(plan, "28579").state is State.PENDING
    changed = after(plan)
    wrapper = (changed.read(LINEAR) or b"").decode().partition("class HybridLinearAttnBackend(")[2]
    replay = wrapper.partition("def init_forward_metadata_replay_cuda_graph(")[2].partition(
        "for attn_backend in"
    )[0]
    assert "if seq_lens_cpu is None:\n            patchkit_api.replay_padding(bs, None)" in replay
    assert make_plan(changed, PATCHES).changes == ()


# ---- a runner of prefills under its next name ------------------------------------------------------------------

DECISION = "srt/managers/overlap_utils.py::decide_needs_cpu_seq_lens"


def test_prefill_graphs_whose_runner_has_its_next_name_no_longer_count_in_the_decision(
    releases: Releases,
) -> None:
    fork = rewritten(
        releases.tree("0.5.14"),
        Edit(
            at=DECISION,
            find="if $algorithm.is_ngram():\n    return True",
            code="config = server_args.cuda_graph_config\n"
            "if config is not None and config.prefill.backend == Backend.TC_PIECEWISE:\n    return True",
        ),
    )
    freed = tuple(patch for patch in PATCHES if patch.id in {"25925", "26128", "28633"})
    plan = make_plan(fork, freed)
    assert status_of(plan, "28633").state is State.PENDING, reasons(plan)
    file, _, name = DECISION.partition("::")
    decides = (after(plan).read(file) or b"").decode().partition(f"def {name}(")[2].partition("\n\n\n")[0]
    assert "patchkit_api.decide_with_piecewise_graphs(" in decides
    assert "TC_PIECEWISE" not in decides
    assert make_plan(after(plan), freed).changes == ()


# ---- what a draft takes along ------------------------------------------------------------------------------------

DRAFT_GRAPH = "srt/speculative/eagle_draft_cuda_graph_runner.py::EAGLEDraftCudaGraphRunner.replay"
COPIES_OF_GRAPHS = tuple(patch for patch in PATCHES if patch.id == "28465")
SLOTS = "$buffers.out_cache_loc[:$slots].copy_($batch.out_cache_loc)"
CHOSEN = "own_slots = $batch.spec_info.own_slots if $batch.spec_info.own_slots is not None else $batch.out_cache_loc"


def test_a_draft_whose_slots_the_fork_chooses_first_gets_its_copies_together_below_that(
    release: Tree,
) -> None:
    own = "$buffers.out_cache_loc[:$slots].copy_(own_slots)"
    fork = rewritten(release, Edit(at=DRAFT_GRAPH, find=SLOTS, code=f"{CHOSEN}\n{own}"))
    plan = make_plan(fork, COPIES_OF_GRAPHS)
    assert status_of(plan, "28465").state is State.PENDING, reasons(plan)
    changed = (after(plan).read(DRAFT_GRAPH.partition("::")[0]) or b"").decode()
    above, _, below = changed.partition("own_slots = ")
    assert "copy_together(" not in above
    assert ", own_slots)," in below.partition("copy_together(")[2]
    assert make_plan(after(plan), COPIES_OF_GRAPHS).changes == ()


@pytest.mark.parametrize("between", ["$buffers.seq_lens.clamp_(min=1)", "self.arrange($batch)"])
def test_a_draft_whose_copies_would_move_past_their_own_buffers_is_a_conflict(
    release: Tree, between: str
) -> None:
    fork = rewritten(release, Edit(at=DRAFT_GRAPH, find=SLOTS, code=f"{between}\n{SLOTS}"))
    status = status_of(make_plan(fork, COPIES_OF_GRAPHS), "28465")
    assert status.state is State.CONFLICT
    assert "is in between and uses what the edit moves" in status.reason


LOGITS = {
    "softmax": (REFERENCE, "$probs = torch.softmax($output.next_token_logits, dim=-1)", State.PENDING),
    "argmax": (
        "0.5.14",
        "$tokens = torch.argmax($output.next_token_logits, dim=-1, keepdim=True)",
        State.UPSTREAM,
    ),
}


@pytest.mark.parametrize("form", LOGITS)
def test_the_top_k_of_logits_that_the_fork_has_named_is_found(releases: Releases, form: str) -> None:
    version, usual, expected = LOGITS[form]
    own = f"own_logits = self.rows($output)\n{usual.replace('$output.next_token_logits', 'own_logits')}"
    at = "srt/speculative/eagle_worker_v2.py::EagleDraftWorker.draft_forward"
    fork = rewritten(releases.tree(version), Edit(at=at, find=usual, code=own))
    top_k = tuple(patch for patch in PATCHES if patch.id == "26397")
    plan = make_plan(fork, top_k)
    assert status_of(plan, "26397").state is expected, reasons(plan)
    assert make_plan(after(plan), top_k).changes == ()
    assert bool(plan.changes) is (expected is State.PENDING)


# ---- a mask that the fork fills only where it is read ------------------------------------------------------------

BUILT = "build_tree_kernel_efficient($a, $b, $c, $d, $e, $f, $g, $h, $i, $mode, $j, $k)"
ENDS = {
    "in-the-draft": (REFERENCE, "srt/speculative/eagle_worker_v2.py::EagleDraftWorker.draft"),
    "at-the-end": ("0.5.16", "srt/speculative/eagle_worker_common.py::build_eagle_verify_input"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_fork_that_fills_a_mask_only_where_it_is_read_gets_the_small_one(
    releases: Releases, end: str
) -> None:
    version, at = ENDS[end]
    own = f"{BUILT[:-1]}, fill_prefix_mask=self.reads_mask)"
    fork = rewritten(releases.tree(version), Edit(at=at, find=BUILT, code=own))
    names = {"26128", "26824", "32886"}
    masks = tuple(patch for patch in PATCHES if patch.id in names)
    plan = make_plan(fork, masks)
    assert status_of(plan, "32886").state is State.PENDING, reasons(plan)
    changed = (after(plan).read(at.partition("::")[0]) or b"").decode()
    (call,) = (part for part in changed.split("build_tree_kernel_efficient(") if "self.reads_mask" in part)
    given = call.partition("fill_prefix_mask")[0].split()
    assert "mask_mode," in given
    assert "tree_mask_mode" not in " ".join(given)
    assert make_plan(after(plan), masks).changes == ()


# ---- an event, and a decision, that the fork has otherwise -------------------------------------------------------


def test_a_wait_for_the_verify_by_a_local_comes_only_where_the_mirror_is_needed(release: Tree) -> None:
    at = "srt/managers/schedule_batch.py::ScheduleBatch.maybe_wait_verify_done"
    own = "verify_done = $input.verify_done\nverify_done.synchronize()"
    fork = rewritten(release, Edit(at=at, find="$input.verify_done.synchronize()", code=own))
    plan = make_plan(fork, MIRROR)
    assert reasons(plan) == {"26128": ""}
    changed = (after(plan).read(at.partition("::")[0]) or b"").decode()
    assert "patchkit_api.await_event(verify_done, on_host=self.needs_cpu_seq_lens)" in changed
    assert make_plan(after(plan), MIRROR).changes == ()


def test_a_backend_that_decides_in_its_constructor_keeps_its_own_way(release: Tree) -> None:
    init = f"{FLASH}.__init__"
    decides = "self.needs_cpu_seq_lens = not $runner.device_lens and not $runner.is_block_draft"
    size = "self.page_size = $runner.page_size"
    fork = rewritten(release, Edit(at=init, find=size, code=f"{size}\n{decides}"))
    plan = make_plan(fork, PATCHES)
    assert [status.patch.id for status in plan.patches if status.state is State.CONFLICT] == [], reasons(plan)
    status = status_of(plan, "31364")
    assert status.state is State.NOT_APPLICABLE
    assert status.reason == "the backend decides in its constructor whether it reads the mirror"


# ---- forms from before the first supported release ---------------------------------------------------------------

DRAFT_EXTEND_GRAPH = (
    "srt/speculative/eagle_draft_extend_cuda_graph_runner.py::EAGLEDraftExtendCudaGraphRunner"
)
FORMER = {
    "28465": Edit(
        at=f"{DRAFT_EXTEND_GRAPH}.replay",
        find="if $counts.num_correct_drafts is not None:\n    ...",
        code="if $counts.accept_length is not None:\n"
        "    self.buffers.accept_length[:raw_bs].copy_($counts.accept_length)",
    ),
    "28782": Edit(
        at=f"{DRAFT_EXTEND_GRAPH}.__init__",
        find="self.speculative_num_steps = $args.speculative_num_steps if $steps is None else $steps",
        code="self.speculative_num_steps = $args.speculative_num_steps",
    ),
}


@pytest.mark.parametrize("name", FORMER)
def test_a_site_from_before_the_first_supported_release_is_reported_as_such(release: Tree, name: str) -> None:
    plan = make_plan(rewritten(release, FORMER[name]), PATCHES)
    status = status_of(plan, name)
    assert status.state is State.NOT_APPLICABLE, status.reason
    assert "trees before 0.5.11" in status.reason


# ---- a backend that was renamed before its replays changed -------------------------------------------------------


def test_sparse_attention_that_was_renamed_and_has_a_method_of_its_own_for_replays(release: Tree) -> None:
    before = {file: release.read(file) or b"" for file in release.files(ATTENTION) if "/nsa" in file}
    renamed = {
        file.replace("nsa", "dsa"): text.replace(b"NativeSparse", b"DeepseekSparse").replace(b"nsa", b"dsa")
        for file, text in before.items()
    }
    fork = OverlayTree(release, {**dict.fromkeys(before), **renamed})
    needed = load.patches().select(["29413"])
    plan = make_plan(fork, needed)
    assert status_of(plan, "29413").state is State.PENDING, reasons(plan)
    backend = (after(plan).read(f"{ATTENTION}/dsa_backend.py") or b"").decode()
    assert "patchkit_api.sparse_extend_lens(" in backend
    assert make_plan(after(plan), needed).changes == ()

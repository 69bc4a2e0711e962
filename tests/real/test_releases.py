"""What patchkit does to the releases of sglang, through the command line and on disk."""

from __future__ import annotations

import ast
import re
import shutil
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from support.releases import (
    HAVING,
    IN_PART,
    LACKING,
    LATEST,
    OF_LATER_RELEASES,
    OWN,
    PATCHES,
    REFERENCE,
    TOO_OLD,
    UPSTREAM,
    Releases,
    after,
    answer,
    fingerprints,
    run,
    states,
    states_in,
    texts,
    without_record,
)
from support.sweeps import patch_by_patch, representatives, swept

from patchkit.patchset import load
from patchkit.plan.build import inspect, make_plan
from patchkit.plan.needed_bodies import needed_bodies
from patchkit.plan.status import IN_PLACE, State
from patchkit.tree.modules import Modules
from patchkit.tree.tree import CheckoutTree, OverlayTree, Tree, open_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch

pytestmark = pytest.mark.usefixtures("_parsed_once")

IDS = tuple(patch.id for patch in PATCHES)
ALL = tuple(load.patches())
SUPPORTED = (*LACKING, *HAVING, *(f"0.5.{number}" for number in range(15, 23)), LATEST)
ONE_BY_ONE = patch_by_patch(PATCHES)


def named(identifier: str) -> Patch:
    return next(patch for patch in PATCHES if patch.id == identifier)


@dataclass(frozen=True)
class Journey:
    """What status, apply, status, apply and revert answered in turn, and the files in between."""

    tree: CheckoutTree
    pristine: Mapping[str, Any]
    before: Mapping[str, Any]
    applying: Mapping[str, Any]
    patched: Mapping[str, Any]
    code: Mapping[str, bytes]
    after: Mapping[str, Any]
    again: Mapping[str, Any]
    repatched: Mapping[str, Any]
    reverting: Mapping[str, Any]
    restored: Mapping[str, Any]


def travel(tree: CheckoutTree) -> Journey:
    pristine = fingerprints(tree.root)
    before = answer("status", tree.root)
    applying = answer("apply", tree.root, *IDS)
    code = {file: (tree.package / file).read_bytes() for file in applying["changed_files"]}
    patched = fingerprints(tree.root)
    status = answer("status", tree.root)
    again = answer("apply", tree.root, *IDS)
    repatched = fingerprints(tree.root)
    reverting = answer("revert", tree.root, "--all")
    restored = fingerprints(tree.root)
    return Journey(
        tree,
        pristine,
        before,
        applying,
        patched,
        code,
        status,
        again,
        repatched,
        reverting,
        without_record(restored),
    )


@pytest.fixture(scope="module", params=LACKING)
def lacking(
    request: pytest.FixtureRequest, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Journey]:
    copy = releases.copy(request.param, tmp_path_factory.mktemp("lacking"))
    return request.param, travel(copy)


@pytest.fixture(scope="module", params=HAVING)
def having(
    request: pytest.FixtureRequest, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Journey:
    return travel(releases.copy(request.param, tmp_path_factory.mktemp("having")))


def test_a_patch_that_a_release_lacks_is_pending_there(lacking: tuple[str, Journey]) -> None:
    version, journey = lacking
    assert states_in(journey.before) == dict.fromkeys(IDS, "pending")
    assert journey.before["tree"]["version"] == version


def test_apply_makes_every_patch_applied(lacking: tuple[str, Journey]) -> None:
    _, journey = lacking
    assert states_in(journey.applying) == states_in(journey.after) == dict.fromkeys(IDS, "applied")


def test_what_does_not_apply_is_reported_with_the_reason(releases: Releases) -> None:
    (status,) = make_plan(releases.tree(LATEST), (named("pk-dead-work"),)).patches
    assert status.state is State.NOT_APPLICABLE
    assert "other code in EAGLEDraftExtendCudaGraphRunner.capture_one_batch_size or" in status.reason


def test_apply_changes_the_files_it_names_and_no_other(lacking: tuple[str, Journey]) -> None:
    _, journey = lacking
    now, then = without_record(journey.patched), journey.pristine
    changed = {name for name in now.keys() | then.keys() if now.get(name) != then.get(name)}
    assert changed == {f"sglang/{file}" for file in journey.applying["changed_files"]}
    assert len(changed) > 10


def test_apply_keeps_every_mode(lacking: tuple[str, Journey]) -> None:
    _, journey = lacking
    modes = {name: mode for name, (mode, _) in without_record(journey.patched).items()}
    assert modes == {name: mode for name, (mode, _) in journey.pristine.items()}


def test_every_changed_file_compiles(lacking: tuple[str, Journey]) -> None:
    _, journey = lacking
    for file, code in journey.code.items():
        compile(code, file, "exec", dont_inherit=True)


def test_a_second_apply_changes_no_byte(lacking: tuple[str, Journey]) -> None:
    _, journey = lacking
    assert journey.again["changed_files"] == []
    assert journey.repatched == journey.patched


def test_revert_gives_the_old_bytes_and_modes_of_the_whole_tree(lacking: tuple[str, Journey]) -> None:
    _, journey = lacking
    assert journey.restored == journey.pristine
    assert sorted(journey.reverting["changed_files"]) == sorted(journey.applying["changed_files"])


def own_states(journey: Journey, state: str) -> dict[str, str]:
    """Return what the later patches are in: upstream has one of them, and since 0.5.14 thirteen more."""
    later: tuple[str, ...] = ("26397",)
    if journey.tree.version == "0.5.14":
        later += ("25980", "27846", "28039", "28397", "28464", "28465", "28496", "28559")
        later += ("28579", "28633", "28782", "28856", "pk-trtllm-mha-opt-out")
    # These are for earlier forms of the runners, and later trees have no v1 worker.
    absent = dict.fromkeys(("pk-accepted-tokens", "pk-head-graph", "pk-tail-graph"), NOT)
    return dict.fromkeys(OWN, state) | dict.fromkeys(later, "upstream") | absent


def upstreams(state: str) -> dict[str, str]:
    """Return the states of the patches that a release has in upstream's form: this one if it lacks parts of it."""
    return dict.fromkeys(UPSTREAM, "upstream") | dict.fromkeys(IN_PART, state)


def test_a_release_that_has_upstreams_patches_is_recognised(having: Journey) -> None:
    before = states_in(having.before)
    assert {name: before[name] for name in UPSTREAM} == upstreams("pending")
    assert {name: before[name] for name in OWN} == own_states(having, "pending")


def test_our_own_patches_apply_beside_upstreams(having: Journey) -> None:
    expected = upstreams("applied") | own_states(having, "applied")
    assert states_in(having.applying) == states_in(having.after) == expected
    for file, code in having.code.items():
        compile(code, file, "exec", dont_inherit=True)
    assert having.repatched == having.patched


def test_our_own_patches_revert_beside_upstreams(having: Journey) -> None:
    assert having.restored == having.pristine
    assert sorted(having.reverting["changed_files"]) == sorted(having.applying["changed_files"])


def test_check_passes_where_upstreams_and_our_own_are_there(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy(HAVING[-1], tmp_path)
    run("status", "--check", tree.root, code=1)
    run("apply", tree.root)
    run("status", "--check", tree.root)


def test_a_patch_that_is_off_lands_only_when_it_is_named(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root)
    unnamed = states_in(answer("status", tree.root, "--check"))
    off = {patch.id for patch in PATCHES if not patch.default}
    assert {name for name, state in unnamed.items() if state == "pending"} == off
    output = run("status", tree.root).stdout
    assert re.search(rf"\nopt-in +{len(off)}  ", output)
    assert "Next: patchkit revert" in output
    named = sorted(off)[::4]
    run("apply", tree.root, *named)
    named_states = states_in(answer("status", tree.root, "--check"))
    assert {named_states[name] for name in named} == {"applied"}
    assert {name for name, state in named_states.items() if state == "pending"} < off


@pytest.mark.parametrize(
    "version", [REFERENCE, HAVING[0], HAVING[-1], pytest.param(LATEST, marks=pytest.mark.sweep)]
)
def test_no_comment_claims_that_code_which_reads_the_mirror_does_not(
    releases: Releases, version: str
) -> None:
    for change in releases.plan(version).changes:
        code = (change.after or b"").decode()
        lines = code.splitlines()
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ClassDef) and "seq_lens_cpu" in ast.unparse(node):
                body = lines[node.lineno : node.end_lineno]
                comments = [line for line in body if "# patchkit " in line]
                assert not [
                    line for line in comments if "never read" in line or "nobody reads the mirror" in line
                ]


@pytest.mark.parametrize("version", [*LACKING, *HAVING, pytest.param(LATEST, marks=pytest.mark.sweep)])
def test_a_plain_apply_of_a_release_meets_no_conflict(releases: Releases, version: str) -> None:
    stuck = {
        status.patch.id: status.reason
        for status in releases.plan(version).patches
        if status.patch.default and status.state is State.CONFLICT
    }
    assert stuck == {}


@pytest.mark.parametrize("version", swept([REFERENCE, "0.5.13", "0.5.14"], "0.5.14".__eq__))
def test_no_opt_in_patch_makes_another_a_conflict(releases: Releases, version: str) -> None:
    patches, tree = load.patches(), releases.tree(version)
    defaults = after(make_plan(tree, patches.select()))
    off = [name for name, state in states(defaults).items() if state == "pending" and not named(name).default]
    assert off
    # What no patch looks into is left out of all the plans alike, so that they share syntax trees.
    modules = Modules(defaults, needed_bodies(PATCHES))
    stuck = {
        tuple(names): found
        for names in (*([name] for name in off), off)
        if (found := conflicts(after(make_plan(defaults, patches.select(names), modules=modules))))
    }
    assert stuck == {}


def conflicts(tree: Tree) -> dict[str, str]:
    return {
        status.patch.id: status.reason for status in inspect(tree, PATCHES) if status.state is State.CONFLICT
    }


def test_the_opt_out_of_upstream_is_recognised(releases: Releases) -> None:
    (status,) = make_plan(releases.tree(LATEST), (named("pk-trtllm-mha-opt-out"),)).patches
    assert status.state is State.UPSTREAM


def test_a_fork_that_reads_the_mask_where_upstream_does_not_keeps_the_full_one(releases: Releases) -> None:
    tree = releases.tree(REFERENCE)
    file = "srt/layers/attention/trtllm_mha_backend.py"
    source = tree.read(file)
    assert source is not None
    method = b"    def init_forward_metadata(self"
    reading = b"    def tree_of(self, batch):\n        return batch.spec_info.custom_mask\n\n" + method
    fork = OverlayTree(tree, {file: source.replace(method, reading, 1)})
    (status,) = make_plan(fork, (named("32886"),)).patches
    assert status.state is State.NOT_APPLICABLE
    assert "other code in TRTLLMHAAttnBackend" in status.reason


@pytest.mark.parametrize("version", ["0.5.18", LATEST])
def test_a_release_whose_backends_declare_their_mask_has_the_small_one(
    releases: Releases, version: str
) -> None:
    (status,) = make_plan(releases.tree(version), (named("32886"),)).patches
    assert status.state is State.UPSTREAM


NOT = "not-applicable"


@pytest.mark.parametrize(
    ("version", "states_there"),
    [
        (REFERENCE, [NOT] * 6),
        ("0.5.13", ["pending", NOT, "pending", NOT, "pending", NOT]),
        ("0.5.14", ["pending", "pending", "pending", NOT, "pending", "pending"]),
        ("0.5.15", ["upstream", "upstream", "pending", NOT, "pending", "pending"]),
        ("0.5.17", ["upstream", "upstream", "pending", "pending", "pending", "pending"]),
        ("0.5.18", ["upstream", "upstream", "upstream", "upstream", "pending", "pending"]),
        (LATEST, ["upstream"] * 5 + [NOT]),
    ],
)
def test_what_came_after_the_first_releases_is_fixed_where_it_is(
    releases: Releases, tmp_path: Path, version: str, states_there: list[str]
) -> None:
    tree = releases.copy(version, tmp_path)
    pristine = fingerprints(tree.root)
    statuses = inspect(tree, [load.patches().get(name) for name in OF_LATER_RELEASES])
    assert [status.state.value for status in statuses] == states_there
    applied = answer("apply", tree.root, *OF_LATER_RELEASES)
    assert len(applied["changed_files"]) == states_there.count("pending")
    for file in applied["changed_files"]:
        compile((tree.package / file).read_bytes(), file, "exec", dont_inherit=True)
    assert answer("apply", tree.root, *OF_LATER_RELEASES)["changed_files"] == []
    run("revert", tree.root)
    assert without_record(fingerprints(tree.root)) == pristine


@pytest.mark.parametrize("version", swept(SUPPORTED[len(LACKING) :], LATEST.__eq__))
def test_what_upstream_has_stays_upstreams_when_other_patches_are_applied(
    releases: Releases, version: str
) -> None:
    tree, patches = releases.tree(version), load.patches()
    before = {status.patch.id: status.state for status in inspect(tree, tuple(patches))}
    patched = after(make_plan(tree, patches.select()))
    now = {status.patch.id: status.state for status in inspect(patched, tuple(patches))}
    had = {name for name, state in before.items() if state is State.UPSTREAM}
    assert had
    assert {name: now[name] for name in had} == dict.fromkeys(had, State.UPSTREAM)


@pytest.mark.parametrize("version", swept(SUPPORTED, "0.5.14".__eq__))
def test_status_finds_every_edit_that_apply_made(releases: Releases, version: str) -> None:
    plan = make_plan(releases.tree(version), ALL)
    pending = [status for status in plan.patches if status.state is State.PENDING]
    made = {
        (status.patch.id, edit.name)
        for status in pending
        for edit in status.edits
        if edit.state is State.PENDING
    }
    there = {
        (status.patch.id, edit.name)
        for status in make_plan(after(plan), ALL).patches
        for edit in status.edits
        if edit.state in (State.APPLIED, State.UPSTREAM)
    }
    assert made
    assert made - there == set()


def test_a_release_with_upstreams_form_takes_the_parts_that_it_lacks(
    releases: Releases, tmp_path: Path
) -> None:
    tree = releases.copy(LATEST, tmp_path)
    pristine = fingerprints(tree.root)
    (found,) = (each for each in answer("status", tree.root)["patches"] if each["id"] == "26128")
    assert (found["state"], found["reason"]) == ("pending", "upstream's without guards, metrics")
    applied = answer("apply", tree.root, "26128")
    assert states_in(applied) == {"26128": "applied"}
    for file in applied["changed_files"]:
        compile((tree.package / file).read_bytes(), file, "exec", dont_inherit=True)
    (file,) = (each for each in applied["changed_files"] if each.endswith("metrics_reporter.py"))
    assert "in patchkit_api.decode_seq_lens(" in (tree.package / file).read_text()
    (found,) = (each for each in answer("status", tree.root)["patches"] if each["id"] == "26128")
    assert found == applied["patches"][0]
    assert "upstream" in {edit["state"] for edit in found["edits"]}
    run("revert", tree.root, "26128")
    assert without_record(fingerprints(tree.root)) == pristine


@pytest.mark.parametrize("version", [*LACKING, *HAVING, pytest.param(LATEST, marks=pytest.mark.sweep)])
def test_status_that_parses_less_says_what_the_plan_says(releases: Releases, version: str) -> None:
    plan = releases.plan(version)
    assert inspect(releases.tree(version), PATCHES) == plan.patches
    patched = releases.patched(version)
    assert inspect(patched, PATCHES) == make_plan(patched, PATCHES).patches


# ---- names -------------------------------------------------------------------------------------------------


def parsed(tree: Tree, file: str) -> ast.Module:
    source = tree.read(file)
    assert source is not None, f"the tree has no {file}"
    return ast.parse(source)


def definition(tree: Tree, file: str, dotted: str) -> Any:
    node: Any = parsed(tree, file)
    for part in dotted.split("."):
        node = next(inner for inner in node.body if getattr(inner, "name", None) == part)
    return node


def assigned(tree: Tree, file: str, owner: str, name: str) -> object:
    """Return the constant that the body of a class assigns to a name."""
    for statement in definition(tree, file, owner).body:
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", 0)]
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{owner} assigns no {name}")


def methods(tree: Tree, file: str, owner: str) -> set[str]:
    body = definition(tree, file, owner).body
    return {statement.name for statement in body if isinstance(statement, ast.FunctionDef)}


def parameters(tree: Tree, file: str, function: str) -> list[str]:
    arguments = definition(tree, file, function).args
    return [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]


def bound(tree: Tree, file: str) -> set[str]:
    """Return the names that a module binds at its top level."""
    names = set()
    for statement in parsed(tree, file).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in statement.names}
    return names


ATTENTION = "srt/layers/attention"
FLAGS = {
    (f"{ATTENTION}/base_attn_backend.py", "AttentionBackend"): True,
    (f"{ATTENTION}/hybrid_linear_attn_backend.py", "Mamba2AttnBackend"): False,
    (f"{ATTENTION}/linear/gdn_backend.py", "GDNAttnBackend"): False,
    (f"{ATTENTION}/triton_backend.py", "TritonAttnBackend"): False,
    (f"{ATTENTION}/triton_backend.py", "TritonMultiStepDraftBackend"): False,
    (f"{ATTENTION}/trtllm_mha_backend.py", "TRTLLMHAAttnBackend"): False,
    (f"{ATTENTION}/trtllm_mha_backend.py", "TRTLLMHAAttnMultiStepDraftBackend"): False,
    (f"{ATTENTION}/trtllm_mla_backend.py", "TRTLLMMLABackend"): False,
    (f"{ATTENTION}/trtllm_mla_backend.py", "TRTLLMMLAMultiStepDraftBackend"): False,
}


@pytest.fixture(params=[*LACKING, pytest.param(HAVING[0], marks=pytest.mark.sweep)])
def patched(request: pytest.FixtureRequest, releases: Releases) -> OverlayTree:
    """A patched release, and one that has upstream's own code: the names are in the same places."""
    return releases.patched(request.param)


def test_backends_declare_whether_they_read_the_mirror(patched: OverlayTree) -> None:
    for (file, owner), value in FLAGS.items():
        assert assigned(patched, file, owner, "needs_cpu_seq_lens") is value, owner


def test_the_decision_is_where_upstream_has_it(patched: OverlayTree) -> None:
    assert "decide_needs_cpu_seq_lens" in bound(patched, "srt/managers/overlap_utils.py")
    assert "decide_needs_cpu_seq_lens" in bound(patched, "srt/managers/scheduler.py")


def test_workers_name_their_backends(patched: OverlayTree) -> None:
    workers = {
        "srt/speculative/base_spec_worker.py": "BaseSpecWorker",
        "srt/speculative/eagle_worker_v2.py": "EAGLEWorkerV2",
        "srt/speculative/multi_layer_eagle_worker_v2.py": "MultiLayerEagleWorkerV2",
    }
    for file, owner in workers.items():
        named_here = definition(patched, file, owner).body
        (method,) = [item for item in named_here if getattr(item, "name", "") == "spec_v2_attn_backends"]
        assert "property" in [ast.unparse(decorator) for decorator in method.decorator_list], owner


def test_the_future_map_is_told_the_decision(patched: OverlayTree) -> None:
    file = "srt/managers/overlap_utils.py"
    assert "needs_cpu_seq_lens" in parameters(patched, file, "FutureMap.__init__")
    initialiser = ast.unparse(definition(patched, file, "FutureMap.__init__"))
    assert "self.needs_cpu_seq_lens = needs_cpu_seq_lens" in initialiser
    created = "create_future_map"
    if created in methods(patched, "srt/speculative/spec_info.py", "SpeculativeAlgorithm"):
        owner = f"SpeculativeAlgorithm.{created}"
        assert "needs_cpu_seq_lens" in parameters(patched, "srt/speculative/spec_info.py", owner)


def test_the_metrics_total_is_beside_the_metrics(patched: OverlayTree) -> None:
    places = (
        "srt/observability/scheduler_metrics_mixin.py",
        "srt/managers/scheduler_components/metrics_reporter.py",
    )
    (file,) = [place for place in places if b"gen throughput" in (patched.read(place) or b"")]
    assert "_decode_total_seq_lens" in bound(patched, file)


def test_trtllm_backends_have_upstreams_methods(patched: OverlayTree) -> None:
    hook = "update_verify_buffers_to_fill_after_draft"
    mla = f"{ATTENTION}/trtllm_mla_backend.py"
    assert hook in methods(patched, f"{ATTENTION}/trtllm_mha_backend.py", "TRTLLMHAAttnBackend")
    assert {hook, "get_verify_buffers_to_fill_after_draft"} <= methods(patched, mla, "TRTLLMMLABackend")
    steps = methods(patched, mla, "TRTLLMMLAMultiStepDraftBackend")
    assert "init_forward_metadata" in steps
    assert steps & {"init_forward_metadata_replay_cuda_graph", "init_forward_metadata_out_graph"}


# ---- one patch at a time -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pristine(releases: Releases) -> Mapping[str, tuple[int, str]]:
    """The fingerprints of the reference release."""
    return fingerprints(releases.tree(REFERENCE).root)


@pytest.fixture(scope="module")
def reference(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> CheckoutTree:
    """One copy for all tests of single patches; each of them has to leave it as it was."""
    return releases.copy(REFERENCE, tmp_path_factory.mktemp("reference"))


REPRESENTATIVES = representatives(PATCHES)
ALONE = [pytest.param(name, marks=() if name in REPRESENTATIVES else pytest.mark.sweep) for name in IDS]


@pytest.mark.parametrize("name", ALONE)
def test_a_patch_alone_applies_with_what_it_requires(
    reference: CheckoutTree, pristine: Mapping[str, tuple[int, str]], name: str
) -> None:
    chosen = load.patches().select([name])
    applied = answer("apply", reference.root, name)
    assert states_in(applied) == {patch.id: "applied" for patch in chosen}
    assert {name, *named(name).requires} <= {patch.id for patch in chosen}
    for file in applied["changed_files"]:
        compile((reference.package / file).read_bytes(), file, "exec", dont_inherit=True)
    run("revert", reference.root)
    assert without_record(fingerprints(reference.root)) == pristine


@pytest.fixture(scope="module")
def patched_copy(
    releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], CheckoutTree]:
    """Make copies of a tree that patchkit patched, ledger and all."""
    folder = tmp_path_factory.mktemp("patched")
    releases.copy(REFERENCE, folder, *IDS)

    def copy(to: Path) -> CheckoutTree:
        shutil.copytree(folder, to, dirs_exist_ok=True)
        return open_tree(to)

    return copy


def leaving_with(name: str) -> set[str]:
    """The patches that cannot stay once a patch goes."""
    gone = {name}
    while True:
        more = {patch.id for patch in PATCHES if gone & set(patch.requires)}
        if more <= gone:
            return gone
        gone |= more


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_patch_reverted_alone_leaves_the_others(
    releases: Releases,
    patched_copy: Callable[[Path], CheckoutTree],
    pristine: Mapping[str, tuple[int, str]],
    tmp_path: Path,
    name: str,
) -> None:
    tree = patched_copy(tmp_path)
    gone = leaving_with(name)
    run("revert", tree.root, *sorted(gone))
    staying = tuple(patch for patch in PATCHES if patch.id not in gone)
    wanted = after(make_plan(releases.tree(REFERENCE), staying))
    for file in releases.patched(REFERENCE).contents:
        assert tree.read(file) == wanted.read(file), file
    run("revert", tree.root)
    assert without_record(fingerprints(tree.root)) == pristine


def test_a_patch_that_others_require_is_not_reverted_alone(
    patched_copy: Callable[[Path], CheckoutTree], tmp_path: Path
) -> None:
    tree = patched_copy(tmp_path)
    before = fingerprints(tree.root)
    refused = run("revert", tree.root, "26128", code=3)
    assert "revert them together" in refused.stderr
    assert fingerprints(tree.root) == before


# The next test makes every patch the first; a cut between any two would take longer and find no more.
CUTS = range(1, len(IDS), 4)


@pytest.mark.parametrize("count", swept(CUTS, CUTS[::7].__contains__))
def test_apply_in_two_steps_equals_apply_in_one(releases: Releases, count: int) -> None:
    first = after(make_plan(releases.tree(REFERENCE), PATCHES[:count]))
    both = after(make_plan(first, PATCHES))
    for file, code in texts(releases.patched(REFERENCE)).items():
        assert both.read(file) == code, file


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_apply_of_one_patch_and_then_of_all_comes_to_the_same_code(releases: Releases, name: str) -> None:
    first = after(make_plan(releases.tree(REFERENCE), load.patches().select([name])))
    rest = make_plan(first, PATCHES)
    assert {status.patch.id: status.state for status in rest.patches}[name] is State.APPLIED
    both = after(rest)
    for file, code in texts(releases.patched(REFERENCE)).items():
        assert both.read(file) == code or unordered(both.read(file)) == unordered(code), file


def unordered(code: bytes | None) -> list[str]:
    """Return what a module defines and imports, members of classes included, whatever their order."""

    def members(node: ast.Module | ast.ClassDef) -> Iterator[str]:
        for statement in node.body:
            if isinstance(statement, ast.ClassDef):
                yield from (f"{statement.name}: {member}" for member in members(statement))
            else:
                yield ast.dump(statement)

    return sorted(members(ast.parse(code or b"")))


def test_two_steps_revert_to_the_first_bytes(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    pristine = fingerprints(tree.root)
    run("apply", tree.root, "26128")
    run("apply", tree.root)
    run("revert", tree.root)
    assert without_record(fingerprints(tree.root)) == pristine


# ---- partial states ----------------------------------------------------------------------------------------


def within(patch: Patch, file: str, left_out: set[str]) -> Patch:
    """Return the patch with its edits to one file alone, some of them left out."""
    edits = tuple(edit for edit in patch.edits if file in edit.files and edit.name not in left_out)
    return msgspec.structs.replace(patch, edits=edits, requires=())


def lacking_one_edit(
    full: OverlayTree, patches: Sequence[Patch], file: str, name: str
) -> tuple[OverlayTree, set[str]]:
    """Return a patched tree without one edit of the last patch, and without those that build on that one."""
    left_out = {name}
    while True:
        here = [*(within(patch, file, set()) for patch in patches[:-1]), within(patches[-1], file, left_out)]
        plan = make_plan(full.below, here)
        # One that builds on it has no site; nor has an optional one that the release has no place for.
        states_without = (State.CONFLICT, State.NOT_APPLICABLE)
        siteless = {edit.name for edit in plan.patches[-1].edits if edit.state in states_without}
        if not siteless:
            return OverlayTree(full, {file: after(plan).read(file) or b""}), left_out
        left_out |= siteless


def faults_without_one_edit(tree: Tree, name: str, first: int = 0, step: int = 1) -> list[tuple[object, ...]]:
    """Return the edits of a patch, every ``step``-th from ``first``, without which a patched tree is misjudged."""
    chosen = load.patches().select([name])
    whole = make_plan(tree, chosen)
    full = after(whole)
    made = {edit.name: edit for edit in whole.patches[-1].edits if edit.state is State.PENDING}
    faults: list[tuple[object, ...]] = []
    for edit in islice(made.values(), first, None, step):
        partial, left_out = lacking_one_edit(full, chosen, edit.file, edit.name)
        if partial.read(edit.file) == full.read(edit.file):
            # A patch applied before this one brought it.
            assert make_plan(partial, chosen).patches[-1].state is State.APPLIED
            continue
        plan = make_plan(partial, chosen)
        status = plan.patches[-1]
        # What another part of the patch makes along with its own has a reason.
        named = {edit.name for edit in status.edits if edit.state is State.PENDING and not edit.reason}
        missing = {name for name in left_out & made.keys() if not made[name].reason}
        expected = State.PENDING if left_out >= made.keys() else State.PARTIAL
        left = after(plan).read(edit.file)
        same = left == full.read(edit.file) or reads_as(left) == reads_as(full.read(edit.file))
        if (status.state, named, same) != (expected, missing, True):
            faults.append((edit.name, status.state, status.reason, named, same))
    return faults


@pytest.mark.parametrize("first", swept(range(4), (0).__eq__))
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_tree_without_one_edit_is_partial_and_apply_completes_it(
    releases: Releases, name: str, first: int
) -> None:
    assert faults_without_one_edit(releases.tree(REFERENCE), name, first, 4) == []


@pytest.mark.parametrize("version", swept(["0.5.14", "0.5.18", LATEST], LATEST.__eq__))
def test_a_tree_of_a_later_release_without_one_edit_is_partial_and_apply_completes_it(
    releases: Releases, version: str
) -> None:
    tree = releases.tree(version)
    pending = [status.patch.id for status in inspect(tree, ALL) if status.state is State.PENDING]
    assert {name: found for name in pending if (found := faults_without_one_edit(tree, name))} == {}


def reads_as(code: bytes | None) -> tuple[list[str], list[bytes]]:
    """Return a module's code, whatever the order within its classes, and its comments in any order."""
    lines = (code or b"").splitlines()
    return unordered(code), sorted(line.strip() for line in lines if line.strip().startswith(b"#"))


def without_import(lines: list[bytes], at: int, old: list[bytes]) -> bytes:
    """Return a file without an import: the blank line that it brought goes too, and one that it joined is as of old."""
    head = lines[at].partition(b" import ")[0]
    joined = [line for line in old if line.partition(b" import ")[0] == head]
    rest = lines[at + 1 :]
    if not joined and not lines[at - 1].strip() and not rest[0].strip():
        del rest[0]
    return b"".join([*lines[:at], *joined, *rest])


@pytest.mark.parametrize("first", swept(range(3), (0).__eq__))
def test_a_tree_without_one_of_the_imports_is_partial_and_apply_completes_it(
    releases: Releases, first: int
) -> None:
    patched = releases.patched(REFERENCE)
    faults = []
    for file, code in islice(texts(patched).items(), first, None, 3):
        lines = code.splitlines(keepends=True)
        old = (patched.below.read(file) or b"").splitlines(keepends=True)
        for line in [line for line in lines if b"import " in line and line not in old]:
            index = lines.index(line)
            plan = make_plan(OverlayTree(patched, {file: without_import(lines, index, old)}), PATCHES)
            named = {
                edit.file for status in plan.patches for edit in status.edits if edit.state is State.PENDING
            }
            if named != {file} or after(plan).read(file) != code:
                faults.append((file, line))
    assert faults == []


def uncommented(code: bytes) -> bytes:
    return b"".join(line for line in code.splitlines(keepends=True) if b"# patchkit " not in line)


def test_a_tree_whose_comments_were_removed_needs_nothing(releases: Releases) -> None:
    patched = releases.patched(REFERENCE)
    bare = OverlayTree(patched, {file: uncommented(code) for file, code in texts(patched).items()})
    assert bare.contents != patched.contents
    plan = make_plan(bare, PATCHES)
    assert plan.changes == ()
    assert {status.state for status in plan.patches} <= IN_PLACE
    states = {status.patch.id: status.state for status in plan.patches}
    assert states["26128"] is states["26397"] is State.APPLIED
    assert {state for name, state in states.items() if name.startswith("pk-")} <= {
        State.APPLIED,
        State.UNKNOWN,
    }


LATER = (
    "srt/managers/communicator.py",
    "srt/mem_cache/unified_radix_cache.py",
    "srt/model_executor/pool_configurator.py",
    "srt/speculative/dflash_info.py",
)


def too_old(version: str) -> str:
    return f"sglang {version} is too old: patches fit 0.5.11 and later"


def numbered(tree: CheckoutTree, version: str, *, later: bool) -> CheckoutTree:
    """Have a tree state another version; without ``later`` it lacks what came with the first supported release."""
    (tree.package / "_version.py").write_text(f'__version__ = "{version}"\n')
    for file in () if later else LATER:
        (tree.package / file).unlink()
    return open_tree(tree.root)


@pytest.mark.parametrize("version", TOO_OLD)
def test_a_release_before_the_first_supported_one_is_too_old_and_nothing_else_is_said(
    releases: Releases, version: str
) -> None:
    tree = releases.tree(version)
    reply = answer("apply", tree.root, "--all", "--dry-run")
    assert {patch["id"] for patch in reply["patches"]} >= {patch.id for patch in PATCHES if patch.default}
    states = {(patch["state"], patch["reason"]) for patch in reply["patches"]}
    assert states == {("not-applicable", too_old(version))}
    assert not any(patch["edits"] for patch in reply["patches"])
    output = run("status", tree.root).stdout
    assert too_old(version) in output
    assert "expected `" not in output
    assert "Next:" not in output


def test_a_fork_of_an_old_release_is_too_old_although_its_sites_are_there(
    releases: Releases, tmp_path: Path
) -> None:
    tree = numbered(releases.copy(REFERENCE, tmp_path), "0.5.9.post2", later=False)
    before = fingerprints(tree.package)
    reply = answer("apply", tree.root)
    assert {patch["reason"] for patch in reply["patches"]} == {too_old("0.5.9.post2")}
    assert reply["changed_files"] == []
    assert fingerprints(tree.package) == before


def test_a_fork_of_an_old_release_that_took_one_later_change_is_too_old(
    releases: Releases, tmp_path: Path
) -> None:
    tree = numbered(releases.copy(REFERENCE, tmp_path), "0.5.9", later=False)
    for file in LATER:
        plan = make_plan(OverlayTree(tree, {file: b""}), (named("26397"),))
        assert [status.reason for status in plan.patches] == [too_old("0.5.9")]


def test_a_fork_of_an_old_release_that_no_version_tells_is_too_old_by_its_files(
    releases: Releases, tmp_path: Path
) -> None:
    tree = numbered(releases.copy(REFERENCE, tmp_path), "0.5.9", later=False)
    for file in ("_version.py", "version.py"):
        (tree.package / file).unlink()
    for metadata in tree.root.glob("*.dist-info"):
        shutil.rmtree(metadata)
    assert open_tree(tree.root).version is None
    reply = answer("apply", tree.root)
    reasons = {patch["reason"] for patch in reply["patches"]}
    assert reasons == {"sglang is too old, judging by its files: patches fit 0.5.11 and later"}
    assert reply["changed_files"] == []


def test_a_fork_that_numbers_its_releases_itself_is_as_old_as_its_files(
    releases: Releases, tmp_path: Path
) -> None:
    tree = numbered(releases.copy(REFERENCE, tmp_path), "0.3.1", later=True)
    assert states(tree) == states(releases.tree(REFERENCE))


def test_what_an_old_fork_has_stays_what_it_is(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, "25002", "25925")
    patches = load.patches().select(["25002", "25925", "26128"])
    had = {name for name, state in states(tree, patches).items() if state == "applied"}
    old = numbered(tree, "0.5.10", later=False)
    there = states(old, patches)
    assert {name for name, state in there.items() if state == "applied"} == had >= {"25002", "25925"}
    assert {state for name, state in there.items() if name not in had} == {"not-applicable"}
    run("revert", old.root)
    assert set(states(old, patches).values()) == {"not-applicable"}


def test_a_patch_of_ones_own_is_for_the_trees_that_its_author_says(
    releases: Releases, tmp_path: Path
) -> None:
    tree = numbered(releases.copy(REFERENCE, tmp_path / "tree"), "0.5.9", later=False)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "patch.toml").write_text(OWN_PATCH)
    own = load.patches([tmp_path / "own"])
    found = states(tree, tuple(own))
    assert found.pop("own-flag") == "pending"
    assert set(found.values()) == {"not-applicable"}


OWN_PATCH = """
schema = 1
id = "own-flag"
title = "A flag"
why = "to see it"
risk = "none"
verify = "look"

[edit.flag]
kind = "class-attribute"
why = "to see it"
at = "srt/layers/attention/base_attn_backend.py::AttentionBackend"
code = "seen = True"
"""

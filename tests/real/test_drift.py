"""Forks drift: every patch still finds its sites, applies, and means the same, or says what it did not find."""

from __future__ import annotations

import ast
import functools
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support import drift
from support.releases import (
    PATCHES,
    REFERENCE,
    Releases,
    after,
    fingerprints,
    run,
    states,
    texts,
    without_record,
)
from support.sweeps import patch_by_patch, representatives, swept

from patchkit.codemods.kinds.none_guard import NoneGuard
from patchkit.codemods.language.variants import StatementKind
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.plan.status import Plan, State
from patchkit.tree.tree import CheckoutTree, OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import PatchStatus

pytestmark = pytest.mark.usefixtures("_parsed_once")

IDS = tuple(patch.id for patch in PATCHES)
FEW = tuple(name for name in IDS if name in representatives(PATCHES))
ATTENTION = "srt/layers/attention"
# Methods of torch, NumPy and Python, whose arguments no fork changes.
BUILT_IN = frozenset({"__init__", "sum", "item", "cpu", "to", "copy_", "max", "empty", "filter", "get"})


@dataclass(frozen=True)
class Drift:
    """What a fork does to every target file, and how a drifted file is brought to a form to compare in."""

    change: Callable[[bytes], bytes]
    form: Callable[[bytes], object]


def dumped(*changes: Callable[[ast.Module], object]) -> Callable[[bytes], object]:
    def form(code: bytes) -> object:
        module = ast.parse(code)
        # Where a patch's imports go depends on how the file's own are sorted, and drift unsorts them.
        imported = drift.imports(module)
        module.body = [node for node in module.body if not isinstance(node, ast.Import | ast.ImportFrom)]
        for change in changes:
            change(module)
        return ast.dump(module), imported

    return form


def in_any_order(code: bytes) -> object:
    """What a module imports and defines, members of classes included."""

    def members(node: ast.Module | ast.ClassDef) -> Iterator[str]:
        for statement in node.body:
            if isinstance(statement, ast.ClassDef):
                yield from (f"{statement.name}: {member}" for member in members(statement))
            elif not isinstance(statement, ast.Import | ast.ImportFrom):
                yield ast.dump(statement)

    module = ast.parse(code)
    return Counter(members(module)), drift.imports(module)


def reformatted(width: int, quotes: str) -> Drift:
    normal = functools.partial(drift.formatted, width=88, quotes="double")
    return Drift(
        functools.partial(drift.formatted, width=width, quotes=quotes),
        lambda code: ast.dump(ast.parse(normal(code))),
    )


def renamed_with(**options: bool) -> Callable[[ast.Module], None]:
    # The name that upstream introduced is what others call it by.
    kept = frozenset({"needs_cpu_seq_lens"})
    return drift.rename(lambda _, name: f"fork_{name}", keep=kept, **options)


def drifts(called: frozenset[str]) -> dict[str, Drift]:
    """Return the ways to drift; those that have nothing to do with each other come together, as they do in a fork.

    What is rewritten has lost its comments and its layout as well.
    """
    rewritten = drift.rewritten
    return {
        "narrow-lines": reformatted(60, "single"),
        "long-lines": reformatted(160, "double"),
        "parameter-and-argument": Drift(
            rewritten(drift.add_parameter, drift.add_argument(called)),
            dumped(drift.drop_parameters, drift.drop_arguments),
        ),
        "keyword-parameter-and-member": Drift(
            rewritten(drift.add_keyword_parameter, drift.add_member),
            dumped(drift.drop_parameters, drift.flatten_parameters, drift.drop_member),
        ),
        "statements-and-class-between": Drift(
            rewritten(drift.add_statements, drift.put_class_between),
            dumped(drift.drop_statements, drift.drop_class_between),
        ),
        "locals-and-parameter-names": Drift(
            rewritten(renamed_with(parameters=True)), dumped(drift.anonymous)
        ),
        "statements-class-between-and-names": Drift(
            rewritten(renamed_with(parameters=True), drift.add_statements, drift.put_class_between),
            dumped(drift.drop_statements, drift.drop_class_between, drift.anonymous),
        ),
        "methods-reversed-and-imports": Drift(
            rewritten(drift.reverse_methods, drift.reorganise_imports), in_any_order
        ),
    }


# The other kinds come together in this one, are among those of the fork that drifted in every way, or are a layout
# as that of the trees in test_formatters.
KINDS = swept(drifts(frozenset()), "statements-class-between-and-names".__eq__)


class Fork:
    """The reference release, drifted in every file that the patches change, and its plans."""

    def __init__(self, releases: Releases) -> None:
        self.tree = releases.tree(REFERENCE)
        self.plan = releases.plan(REFERENCE)
        self.patched = releases.patched(REFERENCE)
        defined = {
            node.name
            for file in self.patched.contents
            for node in ast.walk(ast.parse(self.tree.read(file) or b""))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        called = frozenset(defined - BUILT_IN)
        self.drifts = drifts(called)
        self.in_every_way = drift.rewritten(
            renamed_with(),
            drift.add_argument(called),
            drift.add_statements,
            drift.add_member,
            drift.reverse_methods,
            drift.reorganise_imports,
        )

    @functools.cache  # noqa: B019 - lives as long as the test module
    def drifted(self, kind: str) -> OverlayTree:
        change = self.drifts[kind].change
        files = {file: change(self.tree.read(file) or b"") for file in self.patched.contents}
        return OverlayTree(self.tree, files)

    @functools.cache  # noqa: B019
    def plan_of(self, kind: str) -> Plan:
        return make_plan(self.drifted(kind), PATCHES)

    @functools.cache  # noqa: B019
    def states_after(self, kind: str) -> dict[str, str]:
        return states(after(self.plan_of(kind)))

    @functools.cache  # noqa: B019
    def states_of_drifted_patched(self, kind: str) -> dict[str, str]:
        change = self.drifts[kind].change
        files = {file: change(code) for file, code in texts(self.patched).items()}
        return states(OverlayTree(self.tree, files))

    @functools.cache  # noqa: B019
    def plan_with_body(
        self, file: str, site: str, change: Callable[[list[ast.stmt]], list[ast.stmt]]
    ) -> Plan:
        """Return the plan of the patches that concern a file, one method of which has another body."""
        code = with_body(self.tree.read(file) or b"", site, change)
        return make_plan(OverlayTree(self.tree, {file: code}), concerning(file))

    @functools.cache  # noqa: B019
    def same(self, kind: str, file: str) -> bool:
        form = self.drifts[kind].form
        return form(after(self.plan_of(kind)).read(file) or b"") == form(texts(self.patched)[file])


@pytest.fixture(scope="module")
def fork(releases: Releases) -> Fork:
    return Fork(releases)


def made(plan: Plan, name: str) -> dict[str, str]:
    """Return the file of each edit that the plan makes for a patch."""
    (status,) = [status for status in plan.patches if status.patch.id == name]
    return {edit.name: edit.file for edit in status.edits if edit.state is State.PENDING}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_patch_applies_to_a_fork_that_drifted(fork: Fork, kind: str, name: str) -> None:
    plan = fork.plan_of(kind)
    (status,) = [status for status in plan.patches if status.patch.id == name]
    assert status.state is State.PENDING, status.reason
    assert made(plan, name) == made(fork.plan, name)
    assert fork.states_after(kind)[name] == "applied"


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_patch_means_the_same_on_a_fork_that_drifted(fork: Fork, kind: str, name: str) -> None:
    files = sorted(set(made(fork.plan, name).values()))
    assert files
    assert [file for file in files if not fork.same(kind, file)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_drifted_file_is_not_the_released_one(fork: Fork, kind: str) -> None:
    drifted = fork.drifted(kind).contents
    unchanged = {file for file, code in drifted.items() if code == fork.tree.read(file)}
    # One file has no statement that spans lines.
    assert unchanged <= {"srt/speculative/base_spec_worker.py"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_patch_is_recognised_on_a_patched_tree_that_drifted(fork: Fork, kind: str) -> None:
    assert set(fork.states_of_drifted_patched(kind).values()) <= {"applied", "upstream", "unknown"}


@pytest.mark.parametrize("names", swept([IDS, FEW], FEW.__eq__), ids=["all", "few"])
def test_a_fork_that_drifted_in_every_way_is_patched_and_reverted(
    fork: Fork, releases: Releases, tmp_path: Path, names: tuple[str, ...]
) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    files = {file for name in names for file in made(fork.plan, name).values()}
    for file in files:
        (tree.package / file).write_bytes(fork.in_every_way((tree.package / file).read_bytes()))
    before = fingerprints(tree.root)
    run("apply", tree.root, *names)
    chosen = tuple(patch for patch in PATCHES if patch.id in names)
    assert states(tree, chosen) == dict.fromkeys(names, "applied")
    for file in files:
        compile((tree.package / file).read_bytes(), file, "exec", dont_inherit=True)
    run("revert", tree.root)
    assert without_record(fingerprints(tree.root)) == before


# ---- classes and files ---------------------------------------------------------------------------------------


def sites(plan: Plan) -> dict[tuple[str, str], frozenset[str]]:
    """Return the methods that hold sites, by file and class."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for status in plan.patches:
        for edit in status.edits:
            if edit.state is State.PENDING and "." in edit.site:
                owner, method = edit.site.split(".")
                found[edit.file, owner].add(method)
    return {place: frozenset(methods) for place, methods in found.items()}


def unparsed(module: ast.Module) -> bytes:
    return ast.unparse(ast.fix_missing_locations(module)).encode() + b"\n"


def methods_of(codes: list[bytes]) -> Counter[str]:
    """Return every method of every class, whichever class it is in."""
    return Counter(
        ast.dump(method)
        for code in codes
        for owner in ast.parse(code).body
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
    )


def test_methods_that_moved_to_a_base_in_another_file_are_found(fork: Fork) -> None:
    modules = {file: ast.parse(fork.tree.read(file) or b"") for file in fork.patched.contents}
    homes = {}
    for (file, owner), methods in sites(fork.plan).items():
        (target,) = [item for item in modules[file].body if getattr(item, "name", "") == owner]
        assert isinstance(target, ast.ClassDef)
        if not methods & {getattr(item, "name", "") for item in target.body}:
            # Patches add to it alone: nothing of it could move.
            continue
        home = f"srt/fork/{owner.lower()}.py"
        module = f"sglang.{home[:-3].replace('/', '.')}"
        homes[home] = unparsed(drift.move_methods(modules[file], owner, methods, module))
    moved = OverlayTree(fork.tree, {file: unparsed(module) for file, module in modules.items()} | homes)
    plan = make_plan(moved, PATCHES)
    assert {status.patch.id: status.reason for status in plan.patches} == dict.fromkeys(IDS, "")
    patched = after(plan)
    assert set(states(patched).values()) == {"applied"}
    assert {change.file for change in plan.changes} >= homes.keys()
    here = [patched.read(file) or b"" for file in moved.contents]
    assert methods_of(here) == methods_of(list(texts(fork.patched).values()))


def test_bases_that_moved_behind_a_class_in_another_file_change_nothing(fork: Fork) -> None:
    file = f"{ATTENTION}/trtllm_mla_backend.py"
    code = fork.tree.read(file) or b""
    between = b"from sglang.srt.fork.between import Between\n"
    old = b"class TRTLLMMLABackend(FlashInferMLAAttnBackend):"
    assert old in code
    drifted = code.replace(old, between + b"\n\nclass TRTLLMMLABackend(Between):")
    home = b"from sglang.srt.layers.attention.flashinfer_mla_backend import FlashInferMLAAttnBackend\n"
    base = home + b"\n\nclass Between(FlashInferMLAAttnBackend):\n    pass\n"
    tree = OverlayTree(fork.tree, {file: drifted, "srt/fork/between.py": base})
    plan = make_plan(tree, concerning(file))
    assert {status.state for status in plan.patches} == {State.PENDING}
    assert [change.file for change in plan.changes if "fork" in change.file] == []


SUBCLASS = b"""\
from sglang.srt.layers.attention.%(module)s import %(name)s


class Fork%(name)s(%(name)s):
    def init_forward_metadata(self, forward_batch):
        total = forward_batch.seq_lens_sum
        super().init_forward_metadata(forward_batch)
        return total
"""
BACKENDS = {
    "triton_backend": "TritonAttnBackend",
    "trtllm_mha_backend": "TRTLLMHAAttnBackend",
    "trtllm_mla_backend": "TRTLLMMLABackend",
}


@pytest.mark.parametrize("module", swept(BACKENDS, "triton_backend".__eq__))
def test_a_subclass_of_a_target_in_another_file_is_left_alone(fork: Fork, module: str) -> None:
    names = {b"module": module.encode(), b"name": BACKENDS[module].encode()}
    file, other = (f"{ATTENTION}/{name}.py" for name in (module, "fork_backend"))
    patches = concerning(file)
    plan = make_plan(OverlayTree(fork.tree, {other: SUBCLASS % names}), patches)
    changed = {change.file: change.after for change in plan.changes}
    assert changed[file] == fork.patched.contents[file]
    assert other not in changed
    assert [made(plan, patch.id) for patch in patches] == [made(fork.plan, patch.id) for patch in patches]


@dataclass(frozen=True)
class MovedTree:
    """A tree with one file in another folder."""

    below: CheckoutTree
    old: str
    new: str

    package_label = "moved"
    name = "sglang"
    line_length = 88
    version = None

    def read(self, file: str) -> bytes | None:
        return None if file == self.old else self.below.read(self.old if file == self.new else file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        return sorted(self.new if file == self.old else file for file in self.below.files(folder, suffix))

    def record(self) -> dict[str, bytes]:
        return {}

    def unread(self, folder: str) -> list[str]:
        return self.below.unread(folder)


# Of the other targets, two get code at their top level, which no name leads to, and one is imported by name.
MOVABLE = (
    f"{ATTENTION}/base_attn_backend.py",
    f"{ATTENTION}/triton_backend.py",
    f"{ATTENTION}/trtllm_mla_backend.py",
    "srt/managers/schedule_batch.py",
    "srt/managers/scheduler.py",
    "srt/model_executor/cuda_graph_runner.py",
    "srt/model_executor/forward_batch_info.py",
    "srt/speculative/base_spec_worker.py",
    "srt/speculative/eagle_draft_extend_cuda_graph_runner.py",
    "srt/speculative/eagle_info_v2.py",
    "srt/speculative/eagle_worker_v2.py",
    "srt/speculative/multi_layer_eagle_draft_extend_cuda_graph_runner.py",
    "srt/speculative/multi_layer_eagle_worker_v2.py",
)


@pytest.mark.parametrize("file", MOVABLE)
def test_a_file_that_moved_to_another_folder_is_found(fork: Fork, file: str) -> None:
    moved = f"srt/fork/{file.rsplit('/', 1)[1]}"
    plan = make_plan(MovedTree(fork.tree, file, moved), concerning(file))
    assert {status.reason for status in plan.patches} == {""}
    changed = {change.file: change.after for change in plan.changes}
    assert file not in changed
    assert changed[moved] == fork.patched.contents[file]


# ---- conflicts -----------------------------------------------------------------------------------------------

SHARES = swept(range(3), (0).__eq__)
"""Each third of the functions with sites."""


def functions_with_sites(fork: Fork, name: str) -> list[tuple[str, str]]:
    """Return file and name of every function in which a patch rewrites statements or expressions."""
    (status,) = [status for status in fork.plan.patches if status.patch.id == name]
    found = set()
    for edit in made(fork.plan, name):
        kind = next(one.kind for one in status.patch.edits if one.name == edit)
        (place,) = [e for e in status.edits if e.name == edit]
        is_rewrite = isinstance(kind, StatementKind | NoneGuard)
        is_one = is_rewrite and not getattr(kind, "every", False) and not place.reason
        if is_one and "." in place.site:
            found.add((place.file, place.site))
    return sorted(found)


def concerning(file: str) -> tuple[Patch, ...]:
    """Return the patches that change a file, with what they require: the others leave it and them alone."""
    changing = [patch.id for patch in PATCHES if any(file in edit.files for edit in patch.edits)]
    return load.patches().select(changing)


def method(module: ast.Module, dotted: str) -> ast.FunctionDef:
    owner, name = dotted.split(".")
    (parent,) = [item for item in module.body if getattr(item, "name", "") == owner]
    assert isinstance(parent, ast.ClassDef)
    node = [item for item in parent.body if getattr(item, "name", "") == name][-1]
    assert isinstance(node, ast.FunctionDef)
    return node


def with_body(code: bytes, dotted: str, change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> bytes:
    module = ast.parse(code)
    function = method(module, dotted)
    opening = 1 if drift.is_docstring(function.body[0]) else 0
    function.body = [*function.body[:opening], *change(function.body[opening:])]
    return unparsed(module)


def twice(body: list[ast.stmt]) -> list[ast.stmt]:
    return [*body, *body]


def gone(_: list[ast.stmt]) -> list[ast.stmt]:
    return [ast.Pass()]


def conflicting(statuses: Mapping[str, PatchStatus], name: str) -> PatchStatus:
    """Return a patch's status, or that of the required patch which its reason names: that one names the site."""
    status = statuses[name]
    return next(
        (statuses[other] for other in status.patch.requires if f"requires {other}," in status.reason), status
    )


@pytest.mark.parametrize("first", SHARES)
@pytest.mark.parametrize("name", patch_by_patch(PATCHES))
def test_a_site_that_is_there_twice_is_a_conflict(fork: Fork, name: str, first: int) -> None:
    faults = []
    for file, site in functions_with_sites(fork, name)[first::3]:
        plan = fork.plan_with_body(file, site, twice)
        of = {status.patch.id: status for status in plan.patches}
        status = conflicting(of, name)
        touched = {change.file for change in plan.changes if name in change.patches}
        words = (file, site, "places match")
        # One that edits what a required patch writes finds nothing there, if that one conflicts at the site.
        required = [of[other].reason for other in status.patch.requires if other in of]
        names_both = any(all(word in reason for word in words) for reason in (status.reason, *required))
        if status.state is not State.CONFLICT or touched or not names_both:
            faults.append((name, file, site, status.state, status.reason))
    assert faults == []


@pytest.mark.parametrize("first", SHARES)
@pytest.mark.parametrize("name", patch_by_patch(PATCHES))
def test_a_site_that_is_gone_is_a_conflict_that_says_what_was_expected(
    fork: Fork, name: str, first: int
) -> None:
    faults = []
    for file, site in functions_with_sites(fork, name)[first::3]:
        plan = fork.plan_with_body(file, site, gone)
        of = {status.patch.id: status for status in plan.patches}
        here = [edit for edit in of[name].edits if edit.file == file and edit.site == site]
        stuck = [edit.reason for edit in here if edit.state is State.CONFLICT]
        status = conflicting(of, name)
        stuck += [
            edit.reason
            for edit in status.edits
            if (edit.file, edit.site, edit.state) == (file, site, State.CONFLICT) and edit.reason not in stuck
        ]
        # What tells the shape of a tree may be what is gone.
        reasons = stuck or [status.reason] * status.reason.startswith(
            ("needs a tree with", "expected a known form")
        )
        optional = [edit for edit in here if edit.state is State.NOT_APPLICABLE]
        is_clear = all(
            ("expected" in reason and "line is" in reason) or (site in reason and file in reason)
            for reason in reasons
        )
        written = reasons and any(name in change.patches for change in plan.changes)
        if not (reasons or optional) or not is_clear or written:
            faults.append((name, file, site, status.state, status.reason))
    assert faults == []


def test_a_conflict_on_disk_exits_3_and_writes_nothing(
    fork: Fork, releases: Releases, tmp_path: Path
) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    file, site = "srt/managers/schedule_batch.py", "ScheduleBatch.merge_batch"
    path = tree.package / file
    path.write_bytes(with_body(path.read_bytes(), site, lambda body: [*body, *body]))
    before = fingerprints(tree.root)
    for words in (["26824"], ["@mirror"], ["--all"]):
        refused = run("apply", tree.root, *words, code=3)
        assert "26128" in refused.stderr
        assert file in refused.stdout
        assert site in refused.stdout
        assert fingerprints(tree.root) == before


@pytest.mark.parametrize("owner", ["TritonAttnBackend", "FutureMap", "EAGLEDraftExtendCudaGraphRunner"])
def test_a_class_that_is_defined_twice_is_a_conflict(fork: Fork, owner: str) -> None:
    (file,) = [
        file for file in fork.patched.contents if f"class {owner}".encode() in (fork.tree.read(file) or b"")
    ]
    module = ast.parse(fork.tree.read(file) or b"")
    module.body += [item for item in module.body if getattr(item, "name", "") == owner]
    plan = make_plan(OverlayTree(fork.tree, {file: unparsed(module)}), concerning(file))
    name = "25002" if owner == "EAGLEDraftExtendCudaGraphRunner" else "26128"
    (status,) = [status for status in plan.patches if status.patch.id == name]
    assert status.state is State.CONFLICT
    assert "exists 2 times" in status.reason


def test_a_class_that_is_gone_is_a_conflict(fork: Fork) -> None:
    file = f"{ATTENTION}/triton_backend.py"
    renamed = (fork.tree.read(file) or b"").replace(b"class TritonAttnBackend", b"class ForkAttnBackend")
    plan = make_plan(OverlayTree(fork.tree, {file: renamed}), concerning(file))
    (status,) = [status for status in plan.patches if status.patch.id == "26128"]
    assert status.state is State.CONFLICT
    assert "the tree has no TritonAttnBackend" in status.reason

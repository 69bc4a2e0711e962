"""A fork's own copy of the lengths to the host: 26128's conflict is resolved by hand, once for all branches."""

from __future__ import annotations

import re
import textwrap
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from support.releases import (
    PATCHES,
    REFERENCE,
    Releases,
    answer,
    fingerprints,
    run,
    states_in,
    without_record,
)
from support.sweeps import swept

from patchkit.codemods.language import syntax
from patchkit.codemods.language.pattern import Match, Pattern
from patchkit.codemods.language.scope import Scope
from patchkit.codemods.language.variants import StatementKind
from patchkit.plan.conflict import at_site
from patchkit.plan.locate import Overlay, ScopeInFile
from patchkit.plan.status import EditStatus, State
from patchkit.tree.modules import Modules
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.patchset.patch import Edit, Patch
    from patchkit.tree.tree import Tree

FILE = "srt/speculative/eagle_info_v2.py"
COPY = "batch.seq_lens_cpu = batch.seq_lens.cpu()"
FORK = "batch.seq_lens_cpu = self.lengths_of(batch)"
DONE = "batch.seq_lens_cpu = batch.seq_lens.cpu() if batch.needs_cpu_seq_lens else None"


def branch(root: Path) -> Path:
    """Write a tree's copy of the lengths as a fork has it, and return the file."""
    (path,) = root.rglob(FILE)
    text = path.read_text()
    assert text.count(COPY) == 1
    path.write_text(text.replace(COPY, FORK))
    return path


def test_a_conflict_is_finished_on_one_branch_and_taken_on_the_next(
    releases: Releases, tmp_path: Path
) -> None:
    one, other = (releases.copy(REFERENCE, tmp_path / name).root for name in ("one", "other"))
    path = branch(one)
    before = fingerprints(one)
    done = answer("apply", one, "26128", "--markers", code=1)
    assert [(left["edit"], left["file"]) for left in done["markers"]] == [("decode-copy", FILE)]
    assert len(done["changed_files"]) > 1, "what is certain is made"
    assert states_in(answer("status", one))["26128"] == "conflict"
    lines = path.read_text().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith("<<<<<<<"))
    last = next(n for n, line in enumerate(lines) if line.startswith(">>>>>>>"))
    assert lines[first + 1].strip() == FORK
    indent = lines[first + 1].removesuffix(lines[first + 1].lstrip())
    path.write_text("".join([*lines[:first], f"{indent}{DONE}\n", *lines[last + 1 :]]))
    output = run("resolve", one, "26128", "decode-copy", code=3).stderr
    assert "your code lacks lengths_of, which was between the markers" in output
    assert answer("resolve", one, "26128", "decode-copy", "--accept")["remembered"]
    assert states_in(answer("status", one))["26128"] == "applied"

    branch(other)
    assert "--resolved uses your earlier resolution\n" in run("apply", other, "26128", code=3).stderr
    answer("apply", other, "26128", "--resolved")
    assert states_in(answer("status", other))["26128"] == "applied"
    for root in (one, other):
        run("revert", root)
    assert without_record(fingerprints(one)) == without_record(before)


def test_a_conflict_at_the_site_that_decides_the_shape_is_resolved_by_hand(
    releases: Releases, tmp_path: Path
) -> None:
    root = releases.copy(REFERENCE, tmp_path / "fork").root
    (path,) = root.rglob(FILE)
    text = path.read_text()
    sites = (COPY, "batch.seq_lens_sum = batch.seq_lens_cpu.sum().item()")
    lines = [line for line in text.splitlines(keepends=True) if line.strip() in sites]
    assert len(lines) == 2
    own = f"{lines[0].removesuffix(lines[0].lstrip())}self.take_lengths(batch)\n"
    path.write_text(text.replace("".join(lines), own))
    before = fingerprints(root)
    run("apply", root, "26128", code=3)
    left = answer("apply", root, "26128", "--markers", code=1)["markers"]
    assert {each["file"] for each in left} == {FILE}
    while "<<<<<<<" in (marked := path.read_text()):
        head, _, rest = marked.partition("<<<<<<<")
        indent = own.removesuffix(own.lstrip())
        done = f"if batch.needs_cpu_seq_lens:\n{indent}    self.take_lengths(batch)\n"
        tail = rest.partition(">>>>>>>")[2].partition("\n")[2]
        path.write_text(head.rstrip(" ") + indent + done + tail)
    for each in left:
        answer("resolve", root, "26128", each["edit"], "--accept")
    assert states_in(answer("status", root))["26128"] == "applied"
    assert answer("apply", root, "26128")["changed_files"] == []
    run("revert", root)
    assert without_record(fingerprints(root)) == without_record(before)


RUNNER = "srt/speculative/eagle_draft_cuda_graph_runner.py"
TOPK = "forward_batch.spec_info.topk_p"
FOUND = f"draft is not in place: expected `{TOPK}`, found `{TOPK}.clamp(0, 1)`"
LAUNCH = """\
        patchkit_api.copy_together(
            [
                (buffers.seq_lens[:raw_bs], forward_batch.seq_lens),
                (buffers.out_cache_loc[: raw_num_token * self.speculative_num_steps], forward_batch.out_cache_loc),
                (buffers.positions[:raw_num_token], forward_batch.positions),
                (buffers.topk_p[:raw_bs], {topk}),
                (buffers.topk_index[:raw_bs], forward_batch.spec_info.topk_index),
                (buffers.req_pool_indices[:raw_bs], forward_batch.req_pool_indices),
            ]
        )
"""


def test_the_copies_of_a_fork_that_clamps_one_are_enclosed_and_its_own_launch_is_accepted(
    releases: Releases, tmp_path: Path
) -> None:
    root = releases.copy(REFERENCE, tmp_path / "fork").root
    (path,) = root.rglob(RUNNER)
    usual, own = f"copy_({TOPK})", f"copy_({TOPK}.clamp(0, 1))"
    path.write_text(path.read_text().replace(usual, own))
    before = fingerprints(root)
    output = run("apply", root, "28465", "--markers", code=1).stdout
    assert f"(line 7 of 11); the nearest line is `buffers.topk_p[:raw_bs].{own}`" in output
    head, _, rest = path.read_text().partition("<<<<<<<")
    found, _, tail = rest.partition("\n")[2].partition("|||||||")
    tail = tail.partition(">>>>>>>")[2].partition("\n")[2]
    lines = found.splitlines(keepends=True)
    assert lines[0].strip() == "buffers.seq_lens[:raw_bs].copy_(forward_batch.seq_lens)"
    assert lines[-1].strip() == "buffers.req_pool_indices[:raw_bs].copy_(forward_batch.req_pool_indices)"
    between = "".join(lines[lines.index("        maybe_detect_nan(\n") : -1])
    left = "".join(line for line in between.splitlines(keepends=True) if "buffers.topk" not in line)
    for topk, missing in ((TOPK, "your code lacks clamp"), (f"{TOPK}.clamp(0, 1)", FOUND)):
        path.write_text(head + LAUNCH.format(topk=topk) + left + tail)
        assert missing in run("resolve", root, "28465", "draft", code=3).stderr
    assert answer("resolve", root, "28465", "draft", "--accept")["accepted"]
    assert states_in(answer("status", root))["28465"] == "applied"
    run("revert", root)
    assert without_record(fingerprints(root)) == without_record(before)


def test_the_resolution_in_the_docs_is_accepted_and_its_copy_beside_the_others_is_not(
    releases: Releases, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs/conflicts.md").read_text()
    code = textwrap.indent(page.partition("```python\n")[2].partition("```")[0], " " * 8)
    clamp, launch = code.split("\n", 1)
    root = releases.copy(REFERENCE, tmp_path / "fork").root
    (path,) = root.rglob(RUNNER)
    own = f"copy_({TOPK}.clamp(0, 1))"
    path.write_text(path.read_text().replace(f"copy_({TOPK})", own))
    before = fingerprints(root)
    run("apply", root, "28465", "--markers", code=1)
    head, _, rest = path.read_text().partition("<<<<<<<")
    found, _, tail = rest.partition("\n")[2].partition("|||||||")
    tail = tail.partition(">>>>>>>")[2].partition("\n")[2]
    left = re.sub(r" +buffers\.(?!hidden)\w+\[[^]]+\]\.copy_\((?:.*|\n.*\n *)\)\n", "", found)
    assert "maybe_detect_nan" in left
    assert left.count("copy_") == 1
    beside = launch.replace(f"(buffers.topk_p[:raw_bs], {TOPK}),", "")
    path.write_text(f"{head}{beside}        buffers.topk_p[:raw_bs].{own}\n{left}{tail}")
    run("resolve", root, "28465", "draft", code=3)
    path.write_text(f"{head}{clamp}\n{launch}{left}{tail}")
    assert answer("resolve", root, "28465", "draft")["remembered"]
    assert states_in(answer("status", root))["28465"] == "applied"
    run("revert", root)
    assert without_record(fingerprints(root)) == without_record(before)


class _OwnArgument(cst.CSTTransformer):
    """Gives the first call of a statement one more argument."""

    done = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802
        if self.done:
            return updated_node
        self.done = True
        own = cst.Arg(cst.Name("own"), keyword=cst.Name("own"))
        return updated_node.with_changes(args=[*updated_node.args, own])


def sites_of_several_statements(tree: Tree) -> Iterator[tuple[Patch, Edit, ScopeInFile, Match]]:
    """Yield the edits that look for more than one statement and find them once, and where."""
    overlay = Overlay(Modules(tree))
    for patch in PATCHES:
        for edit in patch.edits:
            place = overlay.locate_first(edit.addresses)
            if not isinstance(edit.kind, StatementKind) or not isinstance(place, ScopeInFile):
                continue
            matches = [
                match
                for find, _ in edit.kind.forms
                if find.strip()
                for match in Pattern.compile(find).find(place.scope.node, place.scope.path)
            ]
            if len(matches) == 1 and (matches[0].end or 0) - (matches[0].start or 0) > 1:
                yield patch, edit, place, matches[0]


@pytest.mark.parametrize("first", swept(range(3), (0).__eq__))
def test_whichever_statement_a_fork_has_otherwise_all_that_the_edit_looks_for_is_enclosed(
    releases: Releases, first: int
) -> None:
    tree = releases.tree(REFERENCE)
    seen = 0
    for patch, edit, place, match in islice(sites_of_several_statements(tree), first, None, 3):
        module, file = place.scope.module, place.file
        for index in range(match.start or 0, match.end or 0):
            path = (*match.path, ("body", index))
            own = _OwnArgument()
            forked = syntax.replaced(
                module, path, syntax.as_statement(syntax.node_at(module, path).visit(own))
            )
            scope = Scope(forked, place.scope.path, place.scope.name)
            finds = (Pattern.compile(find) for find, _ in edit.kind.forms if find.strip())
            if not own.done or any(find.find(scope.node, scope.path) for find in finds):
                continue
            seen += 1
            fork = OverlayTree(tree, {file: forked.bytes})
            conflict = at_site(fork, patch, EditStatus(edit.name, file, scope.name, State.CONFLICT))
            for end in (match.start or 0, (match.end or 0) - 1):
                statement = syntax.node_at(forked, (*match.path, ("body", end)))
                code = syntax.code_of(statement.with_changes(leading_lines=())).strip()
                assert code.splitlines()[0] in conflict.found, (patch.id, edit.name, index)
    assert seen > 5

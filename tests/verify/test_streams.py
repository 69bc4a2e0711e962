"""A block on the plan stream without a wait is named; one that waits, whatever else holds, is fine."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import pytest
from support.releases import HAVING, REFERENCE, Releases, after

from patchkit.codemods.kinds.class_attribute import ClassAttribute
from patchkit.codemods.kinds.method import Method
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.tree.index import Program
from patchkit.verify.checks import streams
from patchkit.verify.subject import Subject

if TYPE_CHECKING:
    from patchkit.tree.tree import Tree

WORKER = "srt/speculative/worker.py"


def named(sources: dict[str, bytes]) -> list[str]:
    """Return the functions whose blocks do not wait."""
    subject = Subject.__new__(Subject)
    subject.__dict__["program"] = Program(sources)
    return [finding.function for finding in streams.check(subject).findings]


def verifying(body: str, more: str = "") -> dict[str, bytes]:
    text = f"class Worker:\n    def verify(self, batch, event):\n{textwrap.indent(textwrap.dedent(body), ' ' * 8)}"
    return {WORKER: f"{text}\n{more}".encode()}


ORDERED = {
    "by patchkit": """
        patchkit_api.order_plan_stream(self.plan_stream)
        with self.plan_stream_ctx:
            batch.prepare()
    """,
    "where there is a stream": """
        if self.plan_stream:
            self.plan_stream.wait_stream(torch.cuda.current_stream())
        batch.count()
        with self.plan_stream_ctx:
            batch.prepare()
    """,
    "first thing in the block": """
        with plan_stream_ctx:
            if plan_stream is not None and batch.stream is not None:
                plan_stream.wait_stream(batch.stream)
            batch.prepare()
    """,
    "in an inner block": """
        if batch.reqs:
            self.plan_stream.wait_event(event)
            with self.plan_stream_ctx:
                batch.prepare()
    """,
}
UNORDERED = {
    "not at all": """
        with self.plan_stream_ctx:
            batch.prepare()
    """,
    "only where there is an event": """
        with self.plan_stream_ctx:
            if event is not None:
                self.plan_stream.wait_event(event)
            batch.prepare()
    """,
    "too late": """
        with self.plan_stream_ctx:
            batch.prepare()
            self.plan_stream.wait_stream(torch.cuda.current_stream())
        self.plan_stream.wait_stream(torch.cuda.current_stream())
    """,
    "another stream": """
        torch.cuda.current_stream().wait_stream(self.plan_stream)
        with self.plan_stream_ctx:
            batch.prepare()
    """,
    "in another branch": """
        if batch.reqs:
            self.plan_stream.wait_event(event)
        else:
            with self.plan_stream_ctx:
                batch.prepare()
    """,
}


@pytest.mark.parametrize("body", ORDERED.values(), ids=list(ORDERED))
def test_a_block_that_waits_is_fine(body: str) -> None:
    assert named(verifying(body)) == []


@pytest.mark.parametrize("body", UNORDERED.values(), ids=list(UNORDERED))
def test_a_block_that_does_not_wait_is_named(body: str) -> None:
    assert named(verifying(body)) == ["Worker.verify"]


def test_a_worker_that_waits_for_its_finished_draft_is_ordered_by_the_host() -> None:
    more = "    def plan(self):\n        self.plan_stream.wait_event(self._draft_done_event)\n"
    assert named(verifying(UNORDERED["not at all"], more)) == []


def test_a_tree_without_a_plan_stream_has_nothing_to_look_at() -> None:
    subject = Subject.__new__(Subject)
    subject.__dict__["program"] = Program(verifying("batch.prepare()"))
    assert streams.check(subject).skipped


def speculative(tree: Tree) -> dict[str, bytes]:
    found = ((file, tree.read(file)) for file in tree.files("srt/speculative"))
    return {file: text for file, text in found if text is not None}


@pytest.mark.parametrize(("version", "unordered"), [(REFERENCE, 0), (HAVING[0], 4)])
def test_every_block_of_a_release_waits_once_it_is_patched(
    releases: Releases, version: str, unordered: int
) -> None:
    tree = releases.tree(version)
    assert len(named(speculative(tree))) == unordered
    plan = make_plan(tree, (load.patches().get("25925"),))
    assert named(speculative(after(plan))) == []


def freeing() -> list[str]:
    """Return the patches that let a backend run without the mirror, but for the one whose own decision keeps it."""
    flag = re.compile(r"(def )?needs_cpu_seq_lens\b.*(= False|->)")
    codes = {
        patch.id: [edit.kind.code for edit in patch.edits if isinstance(edit.kind, (ClassAttribute, Method))]
        for patch in load.patches()
    }
    return sorted(name for name, of in codes.items() if name != "26128" and any(map(flag.search, of)))


@pytest.mark.parametrize("name", freeing())
def test_a_patch_that_frees_a_backend_brings_the_order_that_the_mirror_gave(name: str) -> None:
    assert "25925" in [patch.id for patch in load.patches().select([name])]

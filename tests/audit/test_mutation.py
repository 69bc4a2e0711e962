"""Each None guard that the patches insert is left out of a patched release in turn: the audit has to say where."""

from __future__ import annotations

import ast
import difflib
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.releases import PATCHES, REFERENCE, Releases, after, texts
from support.sweeps import swept

from patchkit.audit.engine import audit
from patchkit.codemods.kinds.argument_value import ArgumentValue
from patchkit.codemods.kinds.none_guard import NoneGuard
from patchkit.codemods.kinds.rewrite import Rewrite
from patchkit.plan.build import make_plan
from patchkit.tree import index, mirror
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.findings.finding import Finding
    from patchkit.findings.report import Report
    from patchkit.patchset.patch import Edit, Patch
    from patchkit.tree.tree import Tree

pytestmark = pytest.mark.usefixtures("_parsed_once")

_LOAD = re.compile(rf"\.(?:{'|'.join(mirror.TRACKED)})\b(?!\s*=[^=])")
_NAME = re.compile(rf"\b(?:{'|'.join(mirror.TRACKED)})\b")
_TEST = re.compile(r"([\w.]+) is (?:not )?None")
_HELPER = re.compile(r"\bpatchkit_api\.\w+\(|\b_decode_total_seq_lens\(")
GUARDING = (Rewrite, NoneGuard, ArgumentValue)
WORST_KILL_RATE = 0.9
SHARES = 7
LISTS = ("26128", "draft-extend-lists")
"""The edit that fills ``extend_seq_lens_cpu`` of a draft-extend, so that a guard of it is a second line of defence."""


@dataclass(frozen=True)
class Mutant:
    """A patched release without one guard; ``lines`` are those of ``file`` that the guard had replaced."""

    name: str
    file: str
    lines: frozenset[int]
    tree: Tree

    def reported_in(self, report: Report, known: set[tuple[str, str, str, str]]) -> bool:
        """Return whether a finding that the whole tree does not have is at the site, or comes by it."""
        return any(self._at_site(one) for one in report.findings if one.fingerprint not in known)

    def _at_site(self, finding: Finding) -> bool:
        places = [(finding.file, finding.line), *((step.file, step.line) for step in finding.path)]
        return any(file == self.file and line in self.lines for file, line in places)


@pytest.fixture(autouse=True)
def _indexed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants differ in one file, so that the others need no second look."""
    monkeypatch.setattr(index, "index_module", functools.lru_cache(maxsize=None)(index.index_module))


def without(whole: OverlayTree, patch: Patch, edit: Edit) -> OverlayTree:
    """Return the patched release without a guard, and without the edit that keeps what it guards from being None."""
    gone = {(patch.id, edit.name)}
    if "extend_seq_lens_cpu" in msgspec.json.encode(edit.kind).decode():
        gone.add(LISTS)
    files = {file for one in PATCHES for it in one.edits if (one.id, it.name) in gone for file in it.files}
    # In other files the edits are what they are.
    here = (
        msgspec.structs.replace(one, edits=edits, requires=(), upstream_when=())
        for one in PATCHES
        if (edits := tuple(it for it in one.edits if files & {*it.files} and (one.id, it.name) not in gone))
    )
    changed = texts(after(make_plan(whole.below, tuple(here))))
    return OverlayTree(whole, {file: text for file, text in changed.items() if file in files})


def guarding() -> list[tuple[Patch, Edit]]:
    """Return the edits that may keep a read of the mirror from meeting None."""
    return [
        (patch, edit)
        for patch in PATCHES
        for edit in patch.edits
        if isinstance(edit.kind, GUARDING) and _NAME.search(msgspec.json.encode(edit.kind).decode())
    ]


def mutants(whole: OverlayTree, edits: Sequence[tuple[Patch, Edit]]) -> Iterator[Mutant]:
    """Yield the patched release without each of the edits that guards a read of the mirror."""
    for patch, edit in edits:
        tree = without(whole, patch, edit)
        for file, mutant in texts(tree).items():
            text = texts(whole)[file]
            if mutant != text and (lines := unguarded(text.decode(), mutant.decode())):
                yield Mutant(f"{patch.id} {edit.name}", file, lines, tree)


def unguarded(guarded: str, mutant: str) -> frozenset[int]:
    """Return the mutant's lines that read the mirror where the guarded text tests it or asks the runtime."""
    old, new = guarded.splitlines(), mutant.splitlines()
    numbers: set[int] = set()
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        before, now = "\n".join(old[i1:i2]), "\n".join(new[j1:j2])
        if tag == "equal":
            continue
        tested = _TEST.findall(before)
        guards = any(value in now for value in tested) if tested else _HELPER.search(before)
        if guards and _LOAD.search(now):
            numbers.update(_statement(mutant, j1 + 1, j2))
    return frozenset(numbers)


def _statement(text: str, first: int, last: int) -> range:
    """Return the lines of the smallest statement with those from ``first`` to ``last``, or just these."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    spans = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in nodes]
    around = [span for span in spans if first in span and last in span]
    return min(around, key=len) if min(map(len, around)) < 20 else range(first, last + 1)


@pytest.mark.parametrize("first", swept(range(SHARES), (0).__eq__))
def test_the_audit_reports_the_site_of_every_guard_that_is_taken_out(
    releases: Releases, record_property: Callable[[str, object], None], first: int
) -> None:
    whole = releases.patched(REFERENCE)
    known = {finding.fingerprint for finding in audit(whole).findings}
    taken_out = list(mutants(whole, guarding()[first::SHARES]))
    survivors = [
        f"{mutant.name} ({mutant.file}:{min(mutant.lines)})"
        for mutant in taken_out
        if not mutant.reported_in(audit(mutant.tree), known)
    ]
    rate = 1 - len(survivors) / len(taken_out)
    record_property("kill_rate", rate)
    assert len(taken_out) > 1
    assert rate >= WORST_KILL_RATE, (rate, survivors)


def test_a_file_with_its_guards_has_no_line_without_one(releases: Releases) -> None:
    for text in texts(releases.patched(REFERENCE)).values():
        assert unguarded(text.decode(), text.decode()) == frozenset()

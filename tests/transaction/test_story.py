"""Whatever people, git, formatters and patchkit do to a tree in turn: no edit is lost, and every answer is true.

What is committed is answered for alike where it was patched and in clones, full and shallow. ``STORIES=500 STEPS=25``
tells more and longer stories than the suite does, and asks the clones after each step; a story with the same bytes and
commits as after an earlier step is not asked again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace
from ruff.__main__ import find_ruff_bin
from support.cached_git import head
from support.toys import CRLF, MIRROR, add_patch, attribute, edit, git, write_package

from patchkit import api
from patchkit.change.outline import outline
from patchkit.errors import ConflictError, PatchkitError, TreeError
from patchkit.findings.finding import Confidence
from patchkit.patchset.load import patches as load
from patchkit.plan.status import State
from patchkit.tree.checkout import Checkout
from patchkit.tree.text import decoded
from patchkit.tree.tree import open_tree
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree

STORIES, STEPS = int(os.environ.get("STORIES", "10")), int(os.environ.get("STEPS", "14"))
IDS = ("s-flag", "s-total", "s-limit")
METHOD = """\
[edit.total]
kind = "method"
at = "srt/managers/mirror.py::Mirror"
why = "toy"
code = '''
def total(self):
    return numbers.total(self)
'''
imports = ["from toolbox import numbers"]
"""
CLASSES = {"s-flag": (b"Mirror", b"Backend"), "s-total": (b"Mirror",), "s-limit": (b"Mirror",)}
SIGNS = {"s-flag": ("s_flag", "s_other"), "s-total": ("def total",), "s-limit": ("s_limit",)}
TALLY = Counter[str]()
LATER = 2_000_000_000
KEPT = re.compile(rb"\bmine_\d+\b")
files, ids, places = st.integers(0, 1000), st.sets(st.sampled_from(IDS)), st.integers(0, 1000)


@dataclass(frozen=True)
class Answers:
    """The answers of commands that only read, the result of a revert, and the files after it."""

    read: tuple[object, ...]
    planned: list[tuple[str, bytes | None, bytes | None]]
    verified: object
    refusal: str
    reverted: tuple[str, ...]
    left: dict[str, bytes]

    @staticmethod
    def of(tree: CheckoutTree, patches: PatchSet, names: tuple[str, ...]) -> Answers:
        tree_status = api.tree_status(tree, patches)
        planned = [(c.file, c.before, c.after) for c in api.diff(tree, patches, IDS).changes]
        verdict = api.verify(tree, patches, Criteria(Confidence.LIKELY))
        checks = [(r.check, r.outcome, r.summary, r.findings) for r in verdict.results]
        rows = [replace(row, verified="") for row in api.report(tree, patches)]
        findings = api.audit(tree).findings
        refusal = ""
        reverted: tuple[str, ...] = ()
        try:
            reverted = api.revert(tree, patches, names).patches
        except PatchkitError as error:
            refusal = str(error).replace(str(tree.root), "TREE")
        texts = {file: (tree.package / file).read_bytes() for file in tree.files("")}
        statuses = [
            (s.patch.id, s.state, s.edits, s.reason) for s in tree_status.patches if s.patch.id in IDS
        ]
        read = (statuses, tree_status.unknown, rows, findings)
        return Answers(read, planned, checks, refusal, reverted, texts)


class Story(RuleBasedStateMachine):
    """A checkout, its branches, and the marks that a person left in the files of each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        add_patch(
            self.folder / "toys",
            "s-flag",
            attribute(MIRROR, "Mirror", "s_flag = 1"),
            attribute(CRLF, "Backend", "s_other = 1"),
        )
        add_patch(self.folder / "toys", "s-total", METHOD)
        add_patch(self.folder / "toys", "s-limit", attribute(MIRROR, "Mirror", "s_limit = 1"))
        everything = load([self.folder / "toys"])
        self.patches = everything
        self.marks = 0
        self.branches = 0
        self.moves = 0
        self.clock = LATER // 2
        self.seen: set[object] = set()
        self.answers: dict[object, Answers] = {}

    @initialize()
    def start(self) -> None:
        self._commit_at(self.clock)
        root = self.folder / "fork"
        write_package(root / "python" / "sglang")
        git(self.folder, "init", "-q", "fork")
        git(root, "add", ".")
        git(root, "commit", "-qm", "As upstream has it")
        git(root, "config", "user.name", "A Maintainer")
        git(root, "config", "user.email", "maintainer@example.com")
        self.tree = open_tree(root)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)
        TALLY.update(stories=1, steps=self.clock - LATER // 2, states=len(self.seen))
        if "STORIES" in os.environ:
            print(*(f"{number} {what}" for what, number in TALLY.items()), sep=", ", flush=True)

    def _file(self, number: int) -> str:
        """Return one of the files that have something to edit, wherever they have been moved."""
        found = [file for file in self.tree.files("srt") if b"class " in self._text(file)]
        return found[number % len(found)]

    def _text(self, file: str) -> bytes:
        return (self.tree.package / file).read_bytes()

    def _texts(self) -> dict[str, bytes]:
        return {file: self._text(file) for file in self.tree.files("")}

    def _stored(self) -> dict[str, bytes]:
        """Return the bytes of everything below the package, the ledger included."""
        found = {}
        for folder, _, names in os.walk(self.tree.package):
            for name in names:
                with open(f"{folder}/{name}", "rb") as stream:
                    found[f"{folder}/{name}"] = stream.read()
        return found

    def _kept(self) -> dict[str, list[bytes]]:
        """Return a person's marks in each file, in order."""
        return {file: sorted(KEPT.findall(text)) for file, text in self._texts().items()}

    def _doubled(self) -> set[str]:
        """Return the patches of which a class is there twice, as a moved file and its own put back have it."""
        texts = self._texts().values()
        return {
            name
            for name, classes in CLASSES.items()
            if any(sum(b"class %s:" % each in text for text in texts) > 1 for each in classes)
        }

    @rule(ids=ids)
    def apply(self, ids: set[str]) -> None:
        before, stored = self._kept(), self._stored()
        names = tuple(sorted(ids)) or IDS
        try:
            api.apply(self.tree, self.patches, names, allow_dirty=True)
        except ConflictError:
            assert self._doubled().intersection(names)
            assert self._stored() == stored
            return
        assert self._kept() == before
        assert {s.patch.id for s in self._statuses() if s.state is State.APPLIED} >= set(names)

    @rule(ids=ids)
    def commit_patches(self, ids: set[str]) -> None:
        before = self._kept()
        names = tuple(sorted(ids)) or IDS
        try:
            api.commit(self.tree, self.patches, names)
        except TreeError:  # Where a person has changed something since the last commit, nothing is done.
            assert git(self.tree.root, "status", "--porcelain")
            return
        except ConflictError:
            assert self._doubled().intersection(names)
            return
        assert self._kept() == before
        assert {s.patch.id for s in self._statuses() if s.state is State.APPLIED} >= set(names)

    @rule()
    def take_back_the_last_commit(self) -> None:
        if not git(self.tree.root, "status", "--porcelain"):
            git(self.tree.root, "reset", "-q", "--hard", "HEAD~1" if self._depth() > 1 else "HEAD")

    def _depth(self) -> int:
        return int(git(self.tree.root, "rev-list", "--count", "HEAD"))

    @rule(ids=ids)
    def revert(self, ids: set[str]) -> None:
        self._reverts(ids, lambda named: api.revert(self.tree, self.patches, named).patches)

    @rule(ids=ids)
    def commit_a_revert(self, ids: set[str]) -> None:
        self._reverts(ids, lambda named: api.commit_revert(self.tree, self.patches, named).reverted.patches)

    def _reverts(self, ids: set[str], act: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        before, texts = self._kept(), self._texts()
        try:
            reverted = act(tuple(sorted(ids)))
        except PatchkitError:
            assert self._texts() == texts
            return
        assert self._kept() == before
        left = self._texts().values()
        for name in ids or reverted:
            assert not any(f"patchkit {name}:".encode() in text for text in left)
        assert ids or not any(b"patchkit" in text for text in left)

    def _starts(self, file: str) -> list[tuple[int, bytes]]:
        """Return where a statement may be put: lines and the indents that go there."""
        root = outline(decoded(self._text(file)))
        return sorted(
            {(node.line - 1, node.indent.encode()) for node in root.walk() if node.parent is not None}
        )

    def _insert(self, file: str, at: int, lines: list[bytes]) -> None:
        text = self._text(file).splitlines(keepends=True)
        end = b"\r\n" if text[0].endswith(b"\r\n") else b"\n"
        text[at:at] = [line + end for line in lines]
        (self.tree.package / file).write_bytes(b"".join(text))

    @rule(number=files, place=places)
    def insert(self, number: int, place: int) -> None:
        file = self._file(number)
        starts = self._starts(file)
        index, indent = starts[place % len(starts)]
        self.marks += 1
        self._insert(file, index, [indent + b"mine_%d = 1" % self.marks])

    @rule(number=files, place=places)
    def space_out(self, number: int, place: int) -> None:
        file = self._file(number)
        starts = self._starts(file)
        self._insert(file, starts[place % len(starts)][0], [b""])

    @rule(number=files)
    def drop_own(self, number: int) -> None:
        file = self._file(number)
        lines = self._text(file).splitlines(keepends=True)
        own = [line for line in lines if KEPT.search(line)]
        if own:
            lines.remove(own[0])
            (self.tree.package / file).write_bytes(b"".join(lines))

    @rule(number=files)
    def turn_line_ends(self, number: int) -> None:
        file = self._file(number)
        text = self._text(file)
        lines = text.replace(b"\r\n", b"\n")
        (self.tree.package / file).write_bytes(lines.replace(b"\n", b"\r\n") if lines == text else lines)

    @rule()
    def copy_a_method(self) -> None:
        self.marks += 1
        mark = b"mine_%d" % self.marks
        body = [b"", b"", b"class Copy_%d:" % self.marks, b"    def host(self):", b"        %s = 2" % mark]
        file = next(file for file, text in self._texts().items() if b"class Mirror:" in text)
        self._insert(file, len(self._text(file).splitlines()), [*body, b"        return self.copies"])

    @rule(number=files, folder=st.sampled_from(["srt/managers", "srt/moved"]))
    def move(self, number: int, folder: str) -> None:
        file = self._file(number)
        self.moves += 1
        to = self.tree.package / folder / f"moved_{self.moves}.py"
        to.parent.mkdir(exist_ok=True)
        (self.tree.package / file).rename(to)

    @rule(number=files)
    def format(self, number: int) -> None:
        command = [find_ruff_bin(), "format", "--isolated", "--no-cache", "--quiet"]
        subprocess.run([*command, str(self.tree.package / self._file(number))], check=True)

    @rule()
    def commit(self) -> None:
        git(self.tree.root, "add", ".")
        git(self.tree.root, "commit", "-q", "--allow-empty", "-m", "Step")

    @rule(back=st.integers(0, 3))
    def branch(self, back: int) -> None:
        self.commit()
        depth = self._depth()
        self.branches += 1
        git(self.tree.root, "switch", "-qc", f"b{self.branches}", f"HEAD~{min(back, depth - 1)}")

    @rule(number=places)
    def switch(self, number: int) -> None:
        if self.branches:
            self.commit()
            git(self.tree.root, "switch", "-q", f"b{number % self.branches + 1}")

    @rule()
    def stash(self) -> None:
        git(self.tree.root, "stash", "--include-untracked", "--quiet")

    @rule()
    def pop(self) -> None:
        """Take out again what was stashed; where that conflicts, git keeps it."""
        if git(self.tree.root, "stash", "list") and not git(self.tree.root, "status", "--porcelain"):
            try:
                git(self.tree.root, "stash", "pop", "--quiet")
            except subprocess.CalledProcessError:
                git(self.tree.root, "reset", "--hard", "--quiet")
                git(self.tree.root, "clean", "-dfq")

    def _other(self, number: int) -> str | None:
        """Return another branch where everything is committed, None where there is none."""
        names = git(self.tree.root, "branch", "--format=%(refname:short)").split()
        others = [name for name in names if name != git(self.tree.root, "branch", "--show-current").strip()]
        clean = not git(self.tree.root, "status", "--porcelain")
        return others[number % len(others)] if clean and others else None

    def _try(self, *arguments: str) -> None:
        """Let git do something; a conflict, or that there is nothing to do, is given up."""
        try:
            git(self.tree.root, *arguments)
        except subprocess.CalledProcessError:
            git(self.tree.root, "reset", "-q", "--hard")
            for doing in ("rebase", "cherry-pick", "revert", "merge"):
                with suppress(subprocess.CalledProcessError):
                    git(self.tree.root, doing, "--abort")

    @rule(number=places)
    def merge(self, number: int) -> None:
        if other := self._other(number):
            self._try("merge", "-q", "--no-edit", other)

    @rule(number=places)
    def rebase(self, number: int) -> None:
        if other := self._other(number):
            self._try("rebase", "-q", other)

    @rule(number=places)
    def cherry_pick(self, number: int) -> None:
        if other := self._other(number):
            self._try("cherry-pick", other)

    @rule(back=st.integers(0, 2))
    def git_revert(self, back: int) -> None:
        if not git(self.tree.root, "status", "--porcelain") and self._depth() > back + 1:
            self._try("revert", "--no-edit", f"HEAD~{back}")

    @rule()
    def amend(self) -> None:
        if self._depth() > 1:
            # With only what git tracks, a file that was moved would be committed as removed, and stashed.
            git(self.tree.root, "add", ".")
            git(self.tree.root, "commit", "-q", "--amend", "--no-edit", "--allow-empty")

    @rule()
    def put_back(self) -> None:
        """Give up what is not committed, which may be what a revert made."""
        git(self.tree.root, "checkout", "-q", ".")

    @rule(ids=ids)
    def ask_everywhere(self, ids: set[str]) -> None:
        self._ask(tuple(sorted(ids)))

    def _ask(self, names: tuple[str, ...]) -> None:
        """Commit all in a copy with its ledger, and ask that and clones of it: the same, or what is missing is said."""
        state = names, head(self.tree.root), frozenset(self._stored().items())
        if state in self.seen:
            return
        self.seen.add(state)
        self._commit_at(LATER)
        with self._aside("here") as here:
            shutil.copytree(self.tree.root, here, symlinks=True)
            git(here, "add", ".")
            git(here, "commit", "-q", "--allow-empty", "-m", "Step")
            fresh = self._clone(str(here), head(here), names)
            known_by = git(here, "rev-parse", "HEAD^{tree}")
            shallow = self._clone(here.as_uri(), known_by, names, "--depth", "1")
            assert Answers.of(open_tree(here), self.patches, names) == fresh
        assert shallow.read == fresh.read
        # Where history ends, a patch beside others is laid out as it comes, not as it would have come with them.
        assert [file for file, *_ in shallow.planned] == [file for file, *_ in fresh.planned]
        assert shallow.verified == fresh.verified or "--unshallow" in str(shallow.verified)
        assert shallow.left == fresh.left or "--unshallow" in shallow.refusal

    def _clone(self, source: str, known_by: object, names: tuple[str, ...], *options: str) -> Answers:
        """Ask a new clone, unless one of what it is ``known_by`` was asked before."""
        key = known_by, names, options
        if key not in self.answers:
            with self._aside("clone") as clone:
                git(self.folder, "clone", "-q", "--no-tags", *options, source, str(clone))
                self.answers[key] = Answers.of(open_tree(clone), self.patches, names)
        return self.answers[key]

    @contextmanager
    def _aside(self, name: str) -> Iterator[Path]:
        yield self.folder / name
        shutil.rmtree(self.folder / name)

    def _commit_at(self, time: int) -> None:
        """Let commits have a time of the story's own, so that the same commit has the same id."""
        os.environ |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{time} +0000")

    def _statuses(self) -> list[PatchStatus]:
        return [status for status in api.status(self.tree, self.patches) if status.patch.id in IDS]

    @invariant()
    def status_is_true(self) -> None:
        text = b"".join(self._texts().values()).decode()
        doubled = self._doubled()
        for status in (status for status in self._statuses() if status.patch.id not in doubled):
            there = [sign in text for sign in SIGNS[status.patch.id]]
            assert status.state is not State.APPLIED or all(there), status
            assert status.state is not State.PENDING or not any(there), status
            assert status.state is not State.CONFLICT, status

    @invariant()
    def answers_are_the_same_everywhere(self) -> None:
        if "STORIES" in os.environ:
            self._ask(())
        self.clock += 1
        self._commit_at(self.clock)

    @invariant()
    def nothing_lies_about(self) -> None:
        assert not list(self.tree.package.glob("srt/**/.*.patchkit*"))


Story.TestCase.settings = settings(
    max_examples=STORIES,
    stateful_step_count=STEPS,
    derandomize="STORIES" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStory = pytest.mark.usefixtures("patch_folder", "cached_git")(Story.TestCase)
os.environ.setdefault("GIT_CONFIG_NOSYSTEM", "1")


@pytest.mark.usefixtures("cached_git")
def test_cached_answers_of_git_are_not_used_after_a_commit(checkout: CheckoutTree) -> None:
    git_checkout = Checkout(checkout.package)
    before = git_checkout.at("HEAD", MIRROR)
    edit(checkout, MIRROR, b"copies = 0", b"copies = 1")
    assert git_checkout.at("HEAD", MIRROR) == before
    git(checkout.root, "commit", "-qam", "Step")
    assert git_checkout.at("HEAD", MIRROR) == checkout.read(MIRROR) != before

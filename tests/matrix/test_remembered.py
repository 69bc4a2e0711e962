"""A cell that is remembered is the one that is computed afresh, and what status says of a checkout."""

from __future__ import annotations

import errno
import json
import os
import random
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.repositories import committing
from support.sweeps import swept
from support.toys import ABRUPT, CRLF, MIRROR, SOURCES, add_patch, attribute, git, rewriting

from patchkit import api, cache
from patchkit.cli import main
from patchkit.patchset import load
from patchkit.plan import evaluate

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.matrix.answer import Matrix
    from patchkit.patchset.patch import Edit, Patch
    from patchkit.plan.examinations import Examinations
    from patchkit.plan.locate import Overlay
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
STEPS = 20
OWN, SUBJECT = "4711", "Toy of theirs (#4711)"
MOVED, BASE, CHECKS = "srt/layers/moved.py", "srt/managers/base.py", "srt/checks.py"
SOURCE = SOURCES[MIRROR].decode()
WITH_CHECK = SOURCE.replace("return self.copies", "return self.copies % 7")
TEXTS = {
    MIRROR: (
        SOURCE,
        SOURCE.replace("copies = 0", "guard = 1\n    copies = 0"),
        SOURCE.replace("depth = 1", "depth = 3"),
        SOURCE.replace("class Mirror:", "class Mirror(Base):").replace("    def host", "    def other"),
        "import os\n\n\n" + WITH_CHECK,
        "depth = 1\n",
        "class Mirror(:\n",
        None,
    ),
    MOVED: (SOURCE, SOURCE.replace("copies = 0", "guard = 1"), "class Other:\n    pass\n", None),
    BASE: ("class Base:\n    def host(self):\n        return self.copies\n", "class Base:\n    pass\n", None),
    CRLF: (SOURCES[CRLF].decode(), "class Backend:\n    needs_device = True\n", None),
    "version.py": ('__version__ = "0.5.10"\n', '__version__ = "0.5.16"\n', None),
    "../pyproject.toml": ("[tool.ruff]\nline-length = 40\n", '[project]\nversion = "0.5.9"\n', None),
    "../../patchkit.toml": ('left_out = ["t-flag"]\n', 'patches = ["ours"]\n', None),
}
EDITS = (
    [attribute(MIRROR, "Mirror", "guard = 1")],
    [attribute(MIRROR, "Mirror", "guard = 2")],
    [attribute(CRLF, "Backend", "guard = 1")],
    [rewriting("host", f"{MIRROR}::Mirror.host", "return $value", "return $value + 0")],
)


class Story:
    """A fork that changes, with a memory that is kept and one that is not."""

    def __init__(self, fork: CheckoutTree, folder: Path, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
        self.fork, self.folder, self.tmp_path, self.patch = fork, folder, tmp_path, patch
        self.kept = tmp_path / "kept"
        self.number = count()

    def put(self, file: str, text: str | None) -> None:
        path = self.fork.package / file
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif path.exists():
            path.unlink()

    def step(self, random: random.Random) -> str:
        """Change something, and return what."""
        what = random.choice((*TEXTS, *TEXTS, "patch", "history", "apply", "tool", "again"))
        if what in TEXTS:
            self.put(what, random.choice(TEXTS[what]))
        elif what == "patch":
            add_patch(self.folder, "t-guard", *random.choice(EDITS), default=random.choice(("true", "false")))
        elif what == "history":
            git(self.fork.root, "commit", "-q", "--allow-empty", "-m", random.choice((SUBJECT, "Another")))
        elif what == "apply":
            CliRunner().invoke(main, ["apply", str(self.fork.root), "--keep-going", "--commit"])
        elif what == "tool":
            self.patch.setattr(cache, "_readers", lambda *_: b"%d" % random.randrange(3))
        else:
            git(self.fork.root, "reset", "-q", "--hard", "start")
        git(self.fork.root, "add", "-A")
        git(self.fork.root, "commit", "-q", "--allow-empty", "-m", f"Step: {what}")
        git(self.fork.root, "branch", "-f", f"step/{next(self.number)}")
        return what

    def surveyed(self, folder: Path, *patterns: str) -> Matrix:
        self.patch.setattr("platformdirs.user_cache_dir", lambda _name: str(folder))
        patches_of = partial(load.patches, [self.tmp_path / "patches"])
        result = api.matrix(
            self.fork.root, patterns, load.patches([self.tmp_path / "patches"]), patches_of=patches_of, jobs=1
        )
        return result.matrix


@pytest.fixture
def story(
    checkout: CheckoutTree, patch_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Story:
    def refuse(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    # One process does the work, as where the system has no semaphores.
    monkeypatch.setattr("multiprocessing.synchronize._multiprocessing.SemLock", refuse)
    add_patch(committing(checkout).root / "ours", "acme", attribute(MIRROR, "Mirror", "acme = 1"))
    made = Story(checkout, patch_folder, tmp_path, monkeypatch)
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "Ours")
    made.put(MIRROR, WITH_CHECK)
    made.put(CHECKS, "CHECK = 1\n")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", SUBJECT)
    own = tmp_path / "patches" / OWN
    arguments = ["new", OWN, "--from-commit", "HEAD", "--on", str(checkout.root), "-o", str(own)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    git(checkout.root, "reset", "-q", "--hard", "HEAD^")
    git(checkout.root, "tag", "start")
    return made


@pytest.mark.parametrize("seed", swept(range(24), (1).__eq__))
def test_a_remembered_cell_is_the_one_computed_afresh(story: Story, seed: int) -> None:
    """Whatever changed: a file of a patch, where a name is defined, settings, a patch, the history or the tool."""
    drawn = random.Random(seed)
    done = []
    for number in range(STEPS):
        done.append(story.step(drawn))
        kept = story.surveyed(story.kept, "refs/heads/step/*")
        fresh = story.surveyed(story.tmp_path / "fresh" / str(number), f"refs/heads/step/{number}")
        (row,) = (row for row in kept.rows if row.ref == f"refs/heads/step/{number}")
        (alone,) = fresh.rows
        assert (row.patches, row.error) == (alone.patches, alone.error), done


def test_refs_with_the_same_package_are_told_apart_by_what_is_around_it(story: Story) -> None:
    """Upstream's commit in the history, and the version in the project file."""
    story.put(MIRROR, WITH_CHECK.replace("% 7", "% 8"))
    story.put("version.py", None)
    git(story.fork.root, "commit", "-qam", "A variant")
    for branch, file, text, message in (
        ("step/plain", "../README", "1", "Ours"),
        ("step/after", "../README", "2", SUBJECT),
        ("step/old", "../pyproject.toml", '[project]\nversion = "0.5.9"\n', "Ours"),
    ):
        git(
            story.fork.root,
            "checkout",
            "-q",
            "-B",
            branch,
            "HEAD" if branch == "step/plain" else "step/plain~1",
        )
        story.put(file, text)
        git(story.fork.root, "add", "-A")
        git(story.fork.root, "commit", "-qm", message)
    for _ in range(2):
        for row in story.surveyed(story.kept, "refs/heads/step/*").rows:
            git(story.fork.root, "checkout", "-q", row.ref.removeprefix("refs/heads/"))
            folder = ("--patches", str(story.tmp_path / "patches"))
            status: Any = json.loads(
                CliRunner().invoke(main, ["status", str(story.fork.root), *folder, "--json"]).stdout
            )
            assert {cell.patch: cell.state for cell in row.patches} == {
                status["id"]: status["state"] for status in status["patches"]
            }, row.ref
            states = {status["id"]: status["state"] for status in status["patches"]}
            assert (states[OWN], states["t-flag"]) == {
                "refs/heads/step/plain": ("conflict", "pending"),
                "refs/heads/step/after": ("upstream", "pending"),
                "refs/heads/step/old": ("conflict", "not-applicable"),
            }[row.ref]


def test_only_a_patch_whose_text_changed_is_examined_again(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a ref with another configuration, which has patches of its own."""
    examined: list[str] = []

    def watched(overlay: Overlay, known: Examinations, patch: Patch, spec: Edit) -> object:
        examined.append(patch.id)
        return examine(overlay, known, patch, spec)

    examine = evaluate._recorded
    monkeypatch.setattr(evaluate, "_recorded", watched)
    git(story.fork.root, "branch", "step/0")
    story.surveyed(story.kept, "step/0")
    assert {*examined} == {"t-flag", "t-stop", "t-guard"}
    examined.clear()
    add_patch(story.folder, "t-stop", attribute(ABRUPT, "Worker", "limit = 9"))
    story.surveyed(story.kept, "step/0")
    assert {*examined} == {"t-stop"}
    examined.clear()
    story.put("../../patchkit.toml", 'patches = ["ours"]\n')
    git(story.fork.root, "add", "-A")
    git(story.fork.root, "commit", "-qm", "A patch of ours")
    story.surveyed(story.kept, "HEAD")
    assert {*examined} == {"acme"}

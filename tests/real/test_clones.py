"""A clone of a patched release verifies, and reverts to the release's own bytes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from support.releases import LATEST, REFERENCE, Releases, answer, run, states_in
from support.repositories import clone, committed, committing
from support.sweeps import swept
from support.toys import git

from patchkit.findings.finding import Confidence
from patchkit.patchset import load
from patchkit.tree.tree import open_tree
from patchkit.verify.checks import postconditions, records
from patchkit.verify.subject import Criteria, Subject

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

VERSIONS = (REFERENCE, *(f"0.5.{number}" for number in range(13, 24)))


@pytest.fixture(scope="module")
def patched(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CheckoutTree]:
    """Returns a checkout of a release with a commit for each default patch, to clone."""

    @cache
    def made(version: str) -> CheckoutTree:
        root = releases.copy(version, tmp_path_factory.mktemp(version) / "fork").root
        committed(root, f"Release {version}")
        tree = committing(open_tree(root))
        run("apply", root, "--commit")
        return tree

    return made


@pytest.mark.parametrize("version", swept(VERSIONS, LATEST.__eq__))
def test_clone_of_a_patched_release_verifies_and_reverts_to_its_bytes(
    patched: Callable[[str], CheckoutTree], tmp_path: Path, version: str
) -> None:
    """Later releases have a part of some patches, in files that patchkit does not change."""
    there = clone(patched(version), tmp_path)
    # The others, the audit among them, know nothing of a clone.
    subject = Subject(there, tuple(load.patches()), Criteria(Confidence.LIKELY))
    for outcome in (records.check(subject), postconditions.check(subject)):
        assert outcome.findings == ()
        assert not outcome.skipped
    assert answer("revert", there.root)["reverted"]
    (first,) = git(there.root, "rev-list", "--max-parents=0", "HEAD").split()
    assert git(there.root, "diff", "--stat", first) == ""


@pytest.mark.parametrize(
    "sign", swept(["# patchkit 26397", "# patchkit "], "# patchkit ".__eq__), ids=["one", "all"]
)
def test_clone_without_comments_of_patches_reverts_to_the_same_bytes(
    patched: Callable[[str], CheckoutTree], tmp_path: Path, sign: str
) -> None:
    there = clone(patched(REFERENCE), tmp_path)
    before = states_in(answer("status", there.root))
    assert before["26397"] == "applied"
    for file in there.files("srt"):
        text = there.read(file) or b""
        lines = [
            line for line in text.splitlines(keepends=True) if not line.strip().startswith(sign.encode())
        ]
        (there.package / file).write_bytes(b"".join(lines))
    assert states_in(answer("status", there.root)) == before
    assert "26397" in answer("revert", there.root)["reverted"]
    (first,) = git(there.root, "rev-list", "--max-parents=0", "HEAD").split()
    assert git(there.root, "diff", "--stat", first) == ""

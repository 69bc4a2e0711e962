"""No command runs a program that a repository's settings name, and one that commits no more than it promises."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.hostile import HOOKS
from support.releases import run
from support.toys import MIRROR, add_patch, attribute, git

from patchkit.cli import main
from patchkit.tree.git import git as patchkit_git
from patchkit.tree.objects import GitRepository

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")

READING = (
    *(("status", "TREE"), ("status", "TREE", "--json"), ("diff", "TREE"), ("apply", "TREE", "--dry-run")),
    *(("apply", "TREE"), ("apply", "TREE", "--allow-dirty"), ("apply", "TREE", "--runtime", "vendored")),
    *(
        ("apply", "TREE", "--markers"),
        ("revert", "TREE"),
        ("revert", "TREE", "t-stop"),
        ("apply", "TREE", "--continue"),
    ),
    *(("verify", "TREE"), ("verify", "TREE", "--format", "html", "-o", "OUT"), ("audit", "TREE")),
    *(
        ("status", "TREE", "--format", "ledger"),
        ("doctor", "TREE", "--read-only"),
        ("resolve", "TREE", "t-flag", "needs_host"),
    ),
    *(
        ("export", "TREE", "-o", "OUT"),
        ("rebase", "TREE", "--onto", "stem"),
        ("test", "t-flag", "--on", "TREE"),
    ),
    *(("matrix", "TREE", "--refs", "HEAD", "stem~0", "stem..made", "refs/heads/*"),),
    *(("matrix", "TREE", "--refs", "HEAD", "stem", "--verify"), ("show",), ("show", "t-flag")),
    *(
        ("new", "mine", "--from-commit", "made", "-o", "OUT", "--on", "TREE"),
        ("test", "PATCH", "--on", "TREE"),
    ),
)
"""Commands that promise to run nothing of a repository's."""
COMMITTING = (("apply", "TREE", "--commit"), ("rebase", "TREE", "--onto", "newer", "--merge"))
FILTERS = ("filter.planted.clean", "filter.planted.smudge", "filter.served.process")


def done(words: tuple[str, ...], checkout: CheckoutTree, out: Path) -> None:
    places = {"TREE": checkout.root, "OUT": out / "put", "PATCH": out / "own"}
    add_patch(out, "own", attribute(MIRROR, "Mirror", "own = 1"))
    ran = CliRunner().invoke(main, [str(places.get(word, word)) for word in words])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), (words, ran.exception)
    # What patchkit committed is no change to draft a patch from.
    assert ran.exit_code in ((2,) if words[0] == "new" else (0, 1, 3, 4)), ran.output


def left(marks: Path) -> set[str]:
    return {path.name for path in marks.iterdir()}


@pytest.mark.parametrize("commit", ["HEAD", "stem"], ids=["patched", "unpatched"])
def test_commands_run_nothing_that_a_repository_names(
    checkout: CheckoutTree, planted: Path, tmp_path: Path, commit: str
) -> None:
    chosen = git(checkout.root, "rev-parse", commit).strip()
    for words in READING:
        shutil.rmtree(checkout.package)
        assert patchkit_git(checkout.root, "reset", "--hard", chosen).returncode == 0
        os.utime(checkout.package / MIRROR, (0, 0))
        done(words, checkout, tmp_path / words[0])
        assert left(planted) == set(), words


@pytest.mark.parametrize("words", COMMITTING, ids=" ".join)
def test_what_commits_runs_hooks_and_filters_and_nothing_else(
    checkout: CheckoutTree, planted: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    git(checkout.root, "-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/newer", "stem")
    done(words, checkout, tmp_path / "out")
    assert left(planted) <= {*HOOKS, *FILTERS} - {"fsmonitor-watchman"}


def test_revert_without_a_ledger_and_export_still_do_what_they_are_for(
    checkout: CheckoutTree, planted: Path, tmp_path: Path
) -> None:
    run("revert", checkout.root)
    assert "needs_host" not in (checkout.package / MIRROR).read_text()
    git(checkout.root, "-c", "core.hooksPath=/dev/null", "update-ref", "HEAD", "stem")
    run("export", checkout.root, "-o", tmp_path / "series")
    assert len(list((tmp_path / "series").glob("*.patch"))) == 3


def test_an_object_that_is_not_there_is_fetched_from_nowhere(checkout: CheckoutTree, planted: Path) -> None:
    blob = git(checkout.root, "rev-parse", f"HEAD:python/sglang/{MIRROR}").strip()
    (checkout.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for words in (("matrix", "--refs", "HEAD"), ("rebase", "--onto", "HEAD"), ("revert",), ("status",)):
        CliRunner().invoke(main, [words[0], str(checkout.root), *words[1:]])
    with GitRepository(checkout.root) as repository:
        assert repository.object(blob) is None
    assert left(planted) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("diff", "HEAD~1"),
        ("diff", "--name-only", "HEAD"),
        ("status", "--porcelain"),
        ("log", "-p", "-1", "--format=%G?"),
        ("show", "HEAD"),
        ("show", f"HEAD:python/sglang/{MIRROR}"),
        ("add", "-A"),
        ("read-tree", "HEAD"),
        ("update-index", "--refresh"),
        ("hash-object", f"python/sglang/{MIRROR}"),
        ("fetch", "origin"),
        ("checkout", "-q", "stem"),
    ],
    ids=" ".join,
)
def test_git_is_run_so_that_it_starts_no_configured_program(
    checkout: CheckoutTree, planted: Path, words: tuple[str, ...]
) -> None:
    patchkit_git(checkout.root, *words)
    assert left(planted) == set()


@pytest.mark.parametrize(
    "words", [("status", "--porcelain"), ("diff", "HEAD"), ("add", "-A"), ("fetch", "origin")]
)
def test_the_configured_programs_would_run_with_plain_git(
    checkout: CheckoutTree, planted: Path, words: tuple[str, ...]
) -> None:
    with suppress(subprocess.CalledProcessError):
        git(checkout.root, *words)
    assert left(planted)

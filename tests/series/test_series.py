from __future__ import annotations

import errno
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.releases import run
from support.repositories import committing, copied, hook, whole
from support.repositories import patched_states as states
from support.toys import CRLF, MIRROR, add_patch, attribute, everything, git, new_file_edit, write_package

from patchkit import api
from patchkit.cli import main
from patchkit.errors import PatchkitError, TreeError, UsageError
from patchkit.patchset import load
from patchkit.series.worktree import RefusedCommitError
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("patch_folder")


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


def log(tree: CheckoutTree, form: str = "%s") -> list[str]:
    return git(tree.root, "log", "--reverse", f"--format={form}", "start..HEAD").strip().splitlines()


def committed(tree: CheckoutTree, *ids: str) -> list[str]:
    git(tree.root, "tag", "-f", "start")
    return [one.patch for one in api.commit(tree, load.patches(), ids).commits]


def test_each_patch_is_one_commit_with_its_trailers(fork: CheckoutTree) -> None:
    assert committed(fork) == ["t-flag", "t-guard", "t-stop"]
    assert log(fork) == ["Toy t-flag", "Toy t-guard", "Toy t-stop"]
    assert log(fork, "%(trailers:key=Patchkit-Patch,valueonly,separator=)") == ["t-flag", "t-guard", "t-stop"]
    assert set(log(fork, "%an <%ae>")) == {"A Maintainer <maintainer@example.com>"}
    assert git(fork.root, "status", "--porcelain") == ""
    assert set(states(fork).values()) == {"applied"}


def test_the_upstream_commit_is_a_trailer(fork: CheckoutTree, patch_folder: Path) -> None:
    path = patch_folder / "t-flag" / "patch.toml"
    path.write_text(path.read_text().replace("risk =", f'upstream_commit = "{"ab" * 20}"\nrisk =', 1))
    committed(fork, "t-flag")
    assert log(fork, "%(trailers:key=Upstream-Commit,valueonly,separator=)") == ["ab" * 20]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("risk",), "Toy t-flag\n\nTo see.\n\nPatchkit-Patch: t-flag"),
        (("why", "risk"), "Toy t-flag\n\nPatchkit-Patch: t-flag"),
        (("title",), "t-flag\n\nTo see.\n\nRisk: None.\n\nPatchkit-Patch: t-flag"),
    ],
)
def test_what_a_draft_leaves_to_be_written_is_not_in_the_message(
    fork: CheckoutTree, patch_folder: Path, keys: tuple[str, ...], message: str
) -> None:
    path = patch_folder / "t-flag" / "patch.toml"
    text = path.read_text()
    for key in keys:
        text = re.sub(rf'^{key} = ".*"$', f'{key} = "todo: what it is"', text, count=1, flags=re.MULTILINE)
    path.write_text(text)
    committed(fork, "t-flag")
    assert git(fork.root, "log", "-1", "--format=%B").strip() == message


def test_a_message_longer_than_linux_allows_an_argument_to_be_is_committed_and_exported(
    fork: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> None:
    path = patch_folder / "t-flag" / "patch.toml"
    why = "word " * 60_000
    path.write_text(re.sub(r'^why = ".*"$', f'why = "{why}"', path.read_text(), count=1, flags=re.MULTILINE))
    run("export", fork.root, "t-flag", "-o", tmp_path / "series")
    assert next((tmp_path / "series").glob("*.patch")).read_text().split().count("word") == 60_000
    committed(fork, "t-flag")
    assert git(fork.root, "log", "-1", "--format=%B").split().count("word") == 60_000


def test_an_executable_file_stays_executable_and_a_new_one_is_not(
    fork: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> None:
    add_patch(patch_folder, "t-make", new_file_edit("srt/fresh.py", "made = 1"))
    (fork.package / MIRROR).chmod(0o755)
    git(fork.root, "commit", "-qam", "Executable")
    before = everything(fork.package / "srt")

    def modes() -> dict[str, str]:
        listed = git(fork.root, "ls-files", "--stage", "--", f"*/{MIRROR}", "*/srt/fresh.py")
        return {line.rpartition("/")[2]: line[:6] for line in listed.splitlines()}

    run("export", fork.root, "-o", tmp_path / "series")
    git(fork.root, "am", "-q", "--keep-cr", *map(str, sorted((tmp_path / "series").iterdir())))
    exported = modes()
    git(fork.root, "reset", "-q", "--hard", f"HEAD~{len(list((tmp_path / 'series').iterdir()))}")
    api.commit(fork, load.patches())
    assert modes() == exported == {"mirror.py": "100755", "fresh.py": "100644"}
    assert git(fork.root, "status", "--porcelain") == ""
    api.revert(fork, load.patches())
    assert everything(fork.package / "srt") == before


def test_the_commits_come_to_what_apply_writes(fork: CheckoutTree, tmp_path: Path) -> None:
    other = write_package(tmp_path / "other" / "sglang")
    committed(fork)
    api.apply(open_tree(other), load.patches())
    assert {f: fork.read(f) for f in (MIRROR, CRLF)} == {f: open_tree(other).read(f) for f in (MIRROR, CRLF)}


@pytest.mark.parametrize("hooked", [False, True])
def test_patches_committed_at_once_are_those_committed_one_by_one(
    fork: CheckoutTree, tmp_path: Path, *, hooked: bool
) -> None:
    if hooked:  # Later plans are made on what the hook left.
        file = f"python/sglang/{MIRROR}"
        hook(fork, "pre-commit", f"grep -q hooked {file} || {{ echo '# hooked' >> {file}; git add -u; }}")
    single = copied(fork, tmp_path / "single")
    names = committed(fork)
    for name in names:
        api.commit(single, load.patches(), (name,))
    assert log(fork, "%T %s") == git(single.root, "log", "--reverse", "--format=%T %s", "-3").splitlines()


def test_what_a_person_has_staged_stays_staged_and_out_of_the_commits(fork: CheckoutTree) -> None:
    (fork.root / "notes.md").write_text("mine")
    (fork.package / "version.py").write_text("__version__ = '9'\n")
    git(fork.root, "add", "notes.md")
    committed(fork)
    assert git(fork.root, "status", "--porcelain") == "A  notes.md\n M python/sglang/version.py\n"
    assert "notes.md" not in git(fork.root, "log", "--name-only", "--format=", "start..HEAD")


def test_git_revert_of_one_leaves_status_true(fork: CheckoutTree) -> None:
    committed(fork)
    git(fork.root, "revert", "--no-edit", "HEAD")
    assert states(fork) == {"t-flag": "applied", "t-guard": "applied", "t-stop": "pending"}
    assert committed(fork) == ["t-stop"]
    assert set(states(fork).values()) == {"applied"}


def test_patchkit_revert_leaves_status_true_and_the_first_bytes(fork: CheckoutTree) -> None:
    before = {file: fork.read(file) for file in fork.files("")}
    committed(fork)
    api.revert(fork, load.patches())
    assert set(states(fork).values()) == {"pending"}
    assert {file: fork.read(file) for file in fork.files("")} == before


def test_a_hook_that_refuses_one_commit_leaves_everything_as_it_was(fork: CheckoutTree) -> None:
    hook(
        fork,
        "pre-commit",
        "git diff --cached | grep -q limit && { echo 'no limits here' >&2; exit 1; } || exit 0",
    )
    before = whole(fork)
    with pytest.raises(
        RefusedCommitError, match=r"^t-stop: git refused the commit, so nothing was changed: no limits here: "
    ):
        api.commit(fork, load.patches())
    assert whole(fork) == before
    assert set(states(fork).values()) == {"pending"}


def test_a_hook_sees_the_files_that_its_own_pattern_names(fork: CheckoutTree) -> None:
    names = fork.root / "names"
    hook(fork, "pre-commit", f"git diff --cached --name-only -- '*.py' >> '{names}'")
    committed(fork, "t-flag")
    assert f"python/sglang/{MIRROR}" in names.read_text().splitlines()


def test_a_commit_message_hook_may_add_to_the_message(fork: CheckoutTree) -> None:
    hook(fork, "commit-msg", 'echo "Change-Id: I1" >> "$1"')
    committed(fork, "t-flag")
    assert log(fork, "%(trailers:key=Change-Id,valueonly,separator=)") == ["I1"]


def refused(tree: CheckoutTree, match: str, kind: type[PatchkitError] = TreeError) -> None:
    head, before = git(tree.root, "rev-parse", "HEAD"), everything(tree.root)
    with pytest.raises(kind, match=match) as caught:
        api.commit(tree, load.patches())
    assert "\n" not in str(caught.value)
    assert (git(tree.root, "rev-parse", "HEAD"), everything(tree.root)) == (head, before)


def test_uncommitted_changes_in_a_target_are_refused(fork: CheckoutTree) -> None:
    (fork.package / MIRROR).write_bytes((fork.read(MIRROR) or b"") + b"\n# mine\n")
    refused(fork, "uncommitted changes")


def refusal_of(tree: CheckoutTree, *ids: str) -> str:
    with pytest.raises(TreeError) as caught:
        committed(tree, *ids)
    return str(caught.value)


@pytest.mark.parametrize(
    "ids", [("t-guard",), ("t-stop",), ("t-flag",)], ids=["same file", "required", "itself"]
)
def test_patches_that_are_applied_but_not_committed_are_reverted_and_committed_as_the_refusal_says(
    fork: CheckoutTree, patch_folder: Path, ids: tuple[str, ...]
) -> None:
    add_patch(patch_folder, "t-first", attribute(MIRROR, "Mirror", "first = 1"))
    committed(fork, "t-first")
    api.apply(fork, load.patches(), ("t-flag",))
    message = refusal_of(fork, *ids)
    assert message.startswith(
        f"{CRLF}, {MIRROR}: applied patches are not committed: commit them with git, or "
    )
    for command in ("revert t-flag", "apply --commit t-flag"):
        assert f"patchkit {command}" in message
        name, *words = command.split()
        done = CliRunner().invoke(main, [name, str(fork.root), *words])
        assert done.exit_code == 0, done.output
    assert log(fork) == ["Toy t-flag"]
    assert git(fork.root, "status", "--porcelain") == ""
    assert committed(fork) == ["t-guard", "t-stop"]
    assert set(states(fork).values()) == {"applied"}


def test_patches_that_are_applied_but_not_committed_can_be_committed_with_git(fork: CheckoutTree) -> None:
    api.apply(fork, load.patches(), ("t-flag",))
    assert "patchkit revert t-flag, then" in refusal_of(fork)
    git(fork.root, "commit", "-qam", "Patches")
    assert committed(fork) == ["t-guard", "t-stop"]


def test_a_refusal_to_commit_does_not_name_patches_where_a_file_has_other_changes(
    fork: CheckoutTree,
) -> None:
    api.apply(fork, load.patches(), ("t-flag",))
    (fork.package / MIRROR).write_bytes((fork.read(MIRROR) or b"") + b"\n# mine\n")
    assert refusal_of(fork) == f"{MIRROR}: uncommitted changes: commit or stash them."


def test_half_a_merge_is_refused(fork: CheckoutTree) -> None:
    for branch, text in (("one", "x = 1\n"), ("two", "x = 2\n")):
        git(fork.root, "checkout", "-q", "-b", branch, "HEAD" if branch == "one" else "one~1")
        (fork.package / "version.py").write_text(text)
        git(fork.root, "commit", "-qam", branch)
    with pytest.raises(Exception, match="merge"):
        git(fork.root, "merge", "one")
    refused(fork, "a merge is in progress")


def test_half_a_merge_is_named_rather_than_its_conflict_markers(fork: CheckoutTree) -> None:
    (fork.root / ".git" / "MERGE_HEAD").write_text(git(fork.root, "rev-parse", "HEAD"))
    (fork.package / MIRROR).write_text("<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> two\n")
    refused(fork, "a merge is in progress")
    assert (
        "error: a merge is in progress"
        in run("rebase", fork.root, "--onto", "HEAD", "--merge", code=4).stderr
    )


def test_an_unmerged_index_is_refused(fork: CheckoutTree) -> None:
    (fork.root / "notes.md").write_text("one\n")
    git(fork.root, "add", "notes.md")
    git(fork.root, "commit", "-qm", "notes")
    (fork.root / "notes.md").write_text("mine\n")
    git(fork.root, "stash")
    (fork.root / "notes.md").write_text("two\n")
    git(fork.root, "commit", "-qam", "more notes")
    with pytest.raises(Exception, match="stash"):
        git(fork.root, "stash", "pop")
    refused(fork, "unmerged files")


def test_nobodys_name_is_refused(checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    git(checkout.root, "config", "user.useConfigOnly", "true")
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    refused(checkout, "git has no name and address for the commit")


def test_a_tree_in_no_repository_is_refused(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    with pytest.raises(TreeError, match="in no git repository"):
        api.commit(tree, load.patches())
    assert everything(tree.root) == before


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    write_package(tmp_path / "fork" / "python" / "sglang")
    git(tmp_path, "init", "-q", "fork")
    with pytest.raises(TreeError, match="no git repository with a commit"):
        api.commit(open_tree(tmp_path / "fork"), load.patches())


@pytest.mark.parametrize("shape", ["detached", "worktree", "shallow", "sparse"])
def test_every_kind_of_checkout_is_committed_to(fork: CheckoutTree, tmp_path: Path, shape: str) -> None:
    place = tmp_path / "other"
    if shape == "worktree":
        git(fork.root, "worktree", "add", "-q", str(place))
    elif shape == "shallow":
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{fork.root}", "other")
    else:
        place = fork.root
        command = (
            ("checkout", "-q", "--detach") if shape == "detached" else ("sparse-checkout", "set", "python")
        )
        git(place, *command)
    git(place, "config", "user.name", "A Maintainer")
    git(place, "config", "user.email", "maintainer@example.com")
    tree = open_tree(place)
    assert committed(tree) == ["t-flag", "t-guard", "t-stop"]
    assert git(place, "status", "--porcelain") == ""


# ---- export --------------------------------------------------------------------------------------------------


def exported(tree: CheckoutTree, folder: Path, *ids: str) -> list[Path]:
    return list(api.export(tree, load.patches(), folder, ids).files)


def test_git_am_of_the_series_makes_the_tree_that_commit_makes(fork: CheckoutTree, tmp_path: Path) -> None:
    files = exported(fork, tmp_path / "series")
    assert [path.name for path in files] == [
        "0001-Toy-t-flag.patch",
        "0002-Toy-t-guard.patch",
        "0003-Toy-t-stop.patch",
    ]
    git(tmp_path, "clone", "-q", str(fork.root), "clone")
    git(tmp_path / "clone", "am", "-q", "--keep-cr", *map(str, files))
    committed(fork)
    assert git(tmp_path / "clone", "rev-parse", "HEAD^{tree}") == git(fork.root, "rev-parse", "HEAD^{tree}")
    trailers = git(tmp_path / "clone", "log", "--format=%(trailers:key=Patchkit-Patch,valueonly)").split()
    assert trailers == ["t-stop", "t-guard", "t-flag"]


@pytest.mark.parametrize(
    "line", ["diff -u a b", "Index: a", "--- a", "From: Else <else@example.com>", "Subject: Other"]
)
def test_a_line_of_a_message_that_git_am_would_end_it_with_stays_in_it(
    fork: CheckoutTree, tmp_path: Path, patch_folder: Path, line: str
) -> None:
    path = patch_folder / "t-flag" / "patch.toml"
    path.write_text(path.read_text().replace("To see.", line, 1))
    file, *_ = exported(fork, tmp_path / "series", "t-flag")
    git(tmp_path, "clone", "-q", str(fork.root), "clone")
    git(tmp_path / "clone", "am", "-q", "--keep-cr", str(file))
    log = git(tmp_path / "clone", "log", "-1", "--format=%an%n%B")
    assert log.startswith(f"A Maintainer\nToy t-flag\n\n {line}\n\n")
    assert log.rstrip().endswith("\nPatchkit-Patch: t-flag")


def test_export_says_that_git_am_has_to_keep_crlf(
    fork: CheckoutTree, tmp_path: Path, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-lf", attribute(MIRROR, "Mirror", "lines = 1"))
    for name in ("t-lf", "t-flag"):
        output = run("export", fork.root, name, "-o", tmp_path / name).stdout
        assert ("git am --keep-cr" in output) == (name == "t-flag")


def test_export_writes_nothing_to_the_repository(fork: CheckoutTree, tmp_path: Path) -> None:
    def state() -> list[tuple[str, bytes]]:
        return sorted((str(path), path.read_bytes()) for path in fork.root.rglob("*") if path.is_file())

    before = state()
    exported(fork, tmp_path / "series")
    assert state() == before


def test_what_is_not_committed_does_not_count(fork: CheckoutTree, tmp_path: Path) -> None:
    api.apply(fork, load.patches())
    assert len(exported(fork, tmp_path / "series")) == 3


def test_export_of_a_patched_commit_is_empty(fork: CheckoutTree, tmp_path: Path) -> None:
    committed(fork)
    assert exported(fork, tmp_path / "series") == []


def test_an_older_series_is_not_mixed_with_a_new_one(fork: CheckoutTree, tmp_path: Path) -> None:
    exported(fork, tmp_path / "series", "t-flag")
    with pytest.raises(UsageError, match="already contains a series"):
        exported(fork, tmp_path / "series")


def test_a_conflict_of_what_is_named_exports_nothing(fork: CheckoutTree, tmp_path: Path) -> None:
    (fork.package / MIRROR).write_text("x = 1\n")
    git(fork.root, "commit", "-qam", "gone")
    with pytest.raises(api.PlanConflictError):
        exported(fork, tmp_path / "series", "t-stop")
    assert not (tmp_path / "series").exists()


def test_export_without_git_is_refused(tree: CheckoutTree, tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="not a git repository"):
        exported(tree, tmp_path / "series")


SETTINGS = {
    "format.coverLetter": "true",
    "format.suffix": ".txt",
    "format.useAutoBase": "true",
    "format.attach": "true",
    "format.numbered": "true",
    "format.signOff": "true",
    "format.thread": "true",
    "format.to": "list@example.com",
    "format.noprefix": "true",
    "format.outputDirectory": "elsewhere",
    "format.pretty": "oneline",
    "diff.context": "0",
    "diff.interHunkContext": "9",
    "diff.noprefix": "true",
    "diff.algorithm": "patience",
    "diff.suppressBlankEmpty": "true",
    "i18n.logOutputEncoding": "latin1",
    "i18n.commitEncoding": "latin1",
    "color.ui": "always",
    "core.abbrev": "40",
    "core.fsmonitor": "touch ../ran; false",
}


def test_a_series_does_not_depend_on_git_settings(
    fork: CheckoutTree, tmp_path: Path, patch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = patch_folder / "t-flag" / "patch.toml"
    path.write_text(path.read_text().replace("To see.", "To see it café.", 1))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-01-01T00:00:00Z")
    plain = exported(fork, tmp_path / "plain")
    for name, value in SETTINGS.items():
        git(fork.root, "config", name, value)
    hook(fork, "post-index-change", f"touch {tmp_path}/ran")
    (fork.root / ".git" / "info").mkdir(exist_ok=True)
    (fork.root / ".git" / "info" / "attributes").write_text("*.py -diff\n")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "format.subjectPrefix")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "OTHER")
    configured = exported(fork, tmp_path / "told")
    assert [path.name for path in configured] == [path.name for path in plain]
    assert [path.read_bytes() for path in configured] == [path.read_bytes() for path in plain]
    assert "café" in plain[0].read_text(encoding="utf-8")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["a:b", 'a"b', "a b ", "c\\d"])
def test_a_series_is_made_wherever_the_repository_is(fork: CheckoutTree, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    fork.root.rename(place)
    assert len(exported(open_tree(place), place / "out:put")) == 3


def test_a_shallow_clone_exports_too(fork: CheckoutTree, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{fork.root}", "clone")
    tree = committing(open_tree(tmp_path / "clone"))
    assert len(exported(tree, tmp_path / "series")) == 3


@pytest.mark.parametrize("there", [True, False], ids=["into-a-folder", "into-a-new-one"])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_series_that_finds_no_space_is_not_there_in_part(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, call: int
) -> None:
    folder = tmp_path / "above" / "series"
    if there:
        folder.mkdir(parents=True)
        (folder / "notes.md").write_text("mine")
    before = everything(tmp_path / "above") if there else None
    calls = 0
    copy = shutil.copy

    def full(source: Path, target: str) -> str:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return copy(source, target)

    monkeypatch.setattr(shutil, "copy", full)
    with pytest.raises(TreeError, match=r"No space left on device: nothing was written"):
        exported(fork, folder)
    assert (everything(tmp_path / "above") if there else None) == before
    assert (tmp_path / "above").exists() == there


def test_status_and_verify_name_what_a_patch_that_was_picked_alone_lacks(fork: CheckoutTree) -> None:
    start = git(fork.root, "rev-parse", "HEAD").strip()
    run("apply", fork.root, "t-stop", "--commit")
    picked = git(fork.root, "rev-parse", "HEAD").strip()
    lacking = "applied without t-flag, which it requires"
    assert lacking not in run("status", fork.root).output
    git(fork.root, "reset", "-q", "--hard", start)
    git(fork.root, "cherry-pick", picked)
    for words in ((), ("t-stop",), ("--json",), ("-v",)):
        assert lacking in " ".join(run("status", fork.root, *words).output.split())
    said = " ".join(run("status", fork.root).output.split())
    assert f"patchkit apply {fork.root} t-flag, or patchkit revert {fork.root} t-stop" in said
    assert f"t-stop is {lacking}" in run("verify", fork.root, code=1).output
    run("apply", fork.root, "t-flag")
    assert lacking not in run("status", fork.root).output

"""Cache git's answers about commits until the repository changes; a story test repeats each query hundreds of times."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.tree import git as git_module

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from subprocess import CompletedProcess

_OF_COMMITS = frozenset(("cat-file", "config", "diff-tree", "grep", "log", "ls-tree", "rev-parse"))
"""Git commands that depend only on settings, references and objects; ``ls-files`` also reads the index."""
_CONFIG = """\
[user]
name = A Person
email = person@example.com
[gc]
auto = 0
[maintenance]
auto = false
[init]
templateDir =
"""


def git_state(top: Path) -> dict[str, bytes]:
    """Return the files of ``.git`` that answers about commits depend on: settings, references, shallow boundary."""
    own = f"{top}/.git"
    paths = [f"{own}/{name}" for name in ("HEAD", "config", "packed-refs", "shallow")]
    paths += [f"{folder}/{name}" for folder, _, names in os.walk(f"{own}/refs") for name in names]
    found = {}
    for path in paths:
        with suppress(FileNotFoundError), open(path, "rb") as stream:
            found[path.removeprefix(f"{own}/")] = stream.read()
    return found


def head(top: Path) -> bytes:
    """Return a checkout's HEAD commit."""
    state = git_state(top)
    name = state["HEAD"].strip().removeprefix(b"ref: ")
    lines = (line.split(b" ") for line in state.get("packed-refs", b"").splitlines())
    packed = {words[1]: words[0] for words in lines if len(words) == 2}
    return state.get(os.fsdecode(name), packed.get(name, name)).strip()


def _objects(top: Path) -> list[tuple[str, int]]:
    """Return the folders of a repository's objects with the time of their last addition."""
    with os.scandir(f"{top}/.git/objects") as folders:
        return [(folder.name, folder.stat().st_mtime_ns) for folder in folders]


@contextmanager
def caching_git(folder: Path) -> Iterator[None]:
    """Cache git's answers to patchkit for each state of a checkout; ``folder`` is for git's settings.

    No git process runs in the background; queries within another worktree are not cached.
    """
    answers: dict[object, CompletedProcess[bytes]] = {}
    run = git_module._run

    def run_cached(
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        **options: Any,
    ) -> CompletedProcess[bytes]:
        words = command[command.index("-C") + 2 :]
        top = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)
        of_commits = words[0] in _OF_COMMITS and ("HEAD" in words or words[0] != "grep")
        if not of_commits or not (top / ".git").is_dir():
            return run(command, environment, folder, **options)
        key = (*command, options.get("given"), *git_state(top).items(), *_objects(top))
        if key not in answers:
            answers[key] = run(command, environment, folder, **options)
        return answers[key]

    settings = folder / "gitconfig"
    settings.write_text(_CONFIG)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GIT_CONFIG_GLOBAL", str(settings))
        patched.setattr(git_module, "_run", run_cached)
        yield


@pytest.fixture
def cached_git(tmp_path: Path) -> Iterator[None]:
    """Cache git's answers with ``caching_git``."""
    with caching_git(tmp_path):
        yield

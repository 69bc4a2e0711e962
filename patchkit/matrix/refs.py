"""Resolve ``--refs``: refs that match a pattern, a revision, or a range of revisions."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import UsageError
from patchkit.tree.git import commit_or_none, git, require_repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_HOMES = ("", "refs/heads/", "refs/tags/", "refs/remotes/")


@dataclass(frozen=True)
class Ref:
    """A commit, with the name that was used for it."""

    name: str
    commit: str


def refs(repository: Path, patterns: Sequence[str]) -> tuple[Ref, ...]:
    """Return the commits that ``patterns`` name, each name once, in the order of the patterns.

    A pattern is one of ``git for-each-ref`` (``refs/heads/release/*``, also without ``refs/heads/``), a revision
    (``v0.5.12``, ``HEAD~3``) or a range (``v0.5.12..main``: its first-parent commits, oldest first).
    Raise TreeError if ``repository`` is not a repository, UsageError for a pattern that matches nothing.
    """
    require_repository(repository, "name a clone or a bare repository")
    by_name: dict[str, Ref] = {}
    for pattern in patterns:
        named = {ref.name: ref for ref in _named(repository, pattern)}
        if not named:
            more = "; ".join(left_out(repository, [pattern]))
            raise UsageError(
                f"{repository}: --refs {pattern} matches nothing",
                advice=more or f"git -C {shlex.quote(str(repository))} for-each-ref lists its refs",
            )
        by_name |= {name: ref for name, ref in named.items() if name not in by_name}
    return tuple(by_name.values())


def left_out(repository: Path, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each pattern whose ``*``, which matches no slash, leaves out names with one."""
    problems = []
    for pattern in patterns:
        home, _, last = pattern.rpartition("/")
        wide = f"{home}/**" if last == "*" else f"{pattern}/**"
        if home and "*" in last and "**" not in last and ".." not in pattern:
            more = {ref.name for ref in _named(repository, wide)} - {
                ref.name for ref in _named(repository, pattern)
            }
            if more:
                others = f" and {len(more) - 1} more" if len(more) > 1 else ""
                problems.append(
                    f"`*` in {pattern} matches no slash, which leaves out {min(more)}{others}: "
                    f"--refs '{wide}' includes them"
                )
    return tuple(problems)


def _named(repository: Path, pattern: str) -> Iterator[Ref]:
    if not pattern or pattern.startswith("-"):
        return
    if ".." in pattern:
        listed = git(repository, "rev-list", "--first-parent", "--reverse", pattern, "--")
        yield from (Ref(commit, commit) for commit in listed.stdout.decode().split())
        return
    # For an annotated tag, `*objectname` is the tagged commit.
    form = "--format=%(refname)%00%(objecttype)%00%(objectname)%00%(*objecttype)%00%(*objectname)"
    for home in _HOMES:
        if home and pattern.startswith("refs/"):
            break
        listed = git(repository, "for-each-ref", form, f"{home}{pattern}")
        if listed.returncode != 0:
            # git lists none of them if it cannot read the object of one, which is then an error of its own row.
            named_refs = list(_readable_or_not(repository, f"{home}{pattern}"))
            yield from named_refs
            if named_refs:
                return
        lines = [line.split("\0") for line in os.fsdecode(listed.stdout).split("\n") if line]
        for name, kind, identifier, behind, commit in lines:
            if "commit" in (kind, behind):
                yield Ref(name, identifier if kind == "commit" else commit)
        if lines:
            return
    revision = commit_or_none(repository, pattern)
    if revision is not None:
        yield Ref(pattern, revision)


def _readable_or_not(repository: Path, pattern: str) -> Iterator[Ref]:
    """Yield the refs that match a pattern, and that are commits as far as git can tell."""
    listed = git(repository, "for-each-ref", "--format=%(refname)%00%(objectname)", pattern)
    for line in filter(None, os.fsdecode(listed.stdout).split("\n")):
        name, identifier = line.split("\0")
        commit = commit_or_none(repository, name)
        if commit is not None:
            yield Ref(name, commit)
        elif git(repository, "cat-file", "-e", identifier).returncode != 0:
            yield Ref(name, identifier)

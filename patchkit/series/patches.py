"""Write a ported series as patches for its new tree: in the files, the order and the form in which it was given."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import UsageError
from patchkit.series.export import BREAK, Scratch
from patchkit.series.source import SERIES, listed_name
from patchkit.transaction.ports import left_out_note, ported_message
from patchkit.tree.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.plan.status import FileChange
    from patchkit.series.source import Given, GivenChange

_DIFF = re.compile(r"^(?:diff --git |Index: |--- \S)", re.MULTILINE)


class Written(NamedTuple):
    """A change, what it changes in the new tree, and the files of which it leaves out a part there."""

    change: GivenChange
    files: Sequence[FileChange]
    left_out: Sequence[str] = ()


def patches(steps: Sequence[Written], folders: Sequence[Path] = ()) -> dict[str, bytes]:
    """Return the files of a series: ``steps``, and the file ``series`` of each of the ``folders`` that it was in.

    A change that changes nothing is left out. The commits are made in a temporary repository of the changed files only.
    Raise UsageError if two patches have one name.
    """
    texts: dict[str, bytes] = {}
    sources: dict[str, Path | None] = {}
    with scratch() as place:
        repository = Scratch(place)
        for number, step in enumerate((step for step in steps if step.files), 1):
            commits = _committed(repository, step)
            given = step.change.given
            is_mail = given.file is None or bool(step.change.facts.message)
            text = _mail(repository, step.change, commits) if is_mail else _diff(repository, step, commits)
            named = f"{number:04}-{_slug(step.change)}.patch"
            name = named if given.file is None else _name_in(folders, given.file)
            if sources.setdefault(name, given.file) != given.file:
                raise UsageError(f"two patches have the name {name}", advice="write one folder at a time")
            texts[name] = texts.get(name, b"") + text
    for folder in folders:
        if (folder / SERIES).is_file():
            lines = (folder / SERIES).read_text(errors="replace").split("\n")
            kept = [line for line in lines if (listed := listed_name(line)) is None or listed in texts]
            texts[SERIES] = "\n".join(kept).encode()
    return texts


def _name_in(folders: Sequence[Path], file: Path) -> str:
    """Return the name of a file in the folder that it was in, such as in its file ``series``."""
    inside = (file.relative_to(folder) for folder in folders if file.is_relative_to(folder))
    return next((name.as_posix() for name in inside if ".." not in name.parts), file.name)


def _committed(repository: Scratch, step: Written) -> tuple[str, str]:
    """Commit the files of a step before and after it, and return both commits."""
    facts, given = step.change.facts, step.change.given
    repository.run("read-tree", "--empty")
    commits: list[str] = []
    for side in (0, 1):
        entries = ""
        for file in step.files:
            name = posixpath.normpath(posixpath.join(given.place, file.file))
            content = (file.before, file.after)[side]
            blob = (
                "0" * 40 if content is None else repository.run("hash-object", "-w", "--stdin", given=content)
            )
            entries += f"{0 if content is None else file.modes[side]} {blob}\t{name}\0"
        repository.run("update-index", "-z", "--index-info", given=os.fsencode(entries))
        said = ported_message(facts.message, step.change.title or facts.id, step.left_out)
        message = BREAK.sub(r" \g<0>", said)
        parent = [word for commit in commits for word in ("-p", commit)]
        tree = repository.run("write-tree")
        author = {} if not facts.author else _author(facts.author, facts.date)
        commits.append(
            repository.run(
                "commit-tree", tree, *parent, "-F", "-", given=os.fsencode(message), settings=author
            )
        )
    return commits[0], commits[1]


def _author(person: str, date: str) -> dict[str, str]:
    name, _, address = person.removesuffix(">").rpartition(" <")
    return {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address} | (
        {"GIT_AUTHOR_DATE": date} if date else {}
    )


def _options(given: Given) -> tuple[str, ...]:
    """Return git's options for a diff with the prefixes of the one that was given."""
    before, after = given.prefixes
    prefixes = (f"--src-prefix={before}", f"--dst-prefix={after}")
    return ("--full-index", "--binary", "--no-renames", *prefixes)


def _mail(repository: Scratch, change: GivenChange, commits: tuple[str, str]) -> bytes:
    """Return a change as git format-patch writes it, with the commit that it was."""
    text = repository.output(
        "format-patch", *_options(change.given), "--stdout", f"{commits[0]}..{commits[1]}"
    )
    was = (change.facts.upstream_commit or "0" * 40).encode()
    return text.replace(f"From {commits[1]} ".encode(), b"From %s " % was, 1)


def _diff(repository: Scratch, step: Written, commits: tuple[str, str]) -> bytes:
    """Return a change as a diff below the text that stood above it, and what is left out."""
    given = step.change.given
    start = _DIFF.search(given.text)
    head = (given.text[: start.start()] if start else "") + left_out_note(step.left_out)
    return head.encode() + repository.output("diff-tree", "-p", "-r", *_options(given), *commits)


def _slug(change: GivenChange) -> str:
    """Return a change's subject as git format-patch makes it the name of a file."""
    subject = (change.facts.message or change.title).partition("\n")[0]
    name = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._]+", "-", subject)).strip("-.")
    return name[:52].rstrip("-.") or "patch"

"""Repositories with tree objects that git never writes or with programs in their settings, and commands' traces."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zlib
from functools import cache
from typing import TYPE_CHECKING

import pytest

from support.releases import run
from support.repositories import committing, copied
from support.toys import MIRROR, checked_in, git

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

Entries = list[tuple[str, str, str]]
"""Mode, name and id of an entry of a tree object."""


def tree_object(root: Path, entries: Entries) -> str:
    """Write a tree object with these entries, even names that git itself would not write; return its id."""
    raw = b"".join(
        b"%s %s\0%s" % (mode.encode(), name.encode(), bytes.fromhex(identifier))
        for mode, name, identifier in entries
    )
    # As `git hash-object -w --literally` does, which a chain of thousands would start as often.
    whole = b"tree %d\0%s" % (len(raw), raw)
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = root / ".git" / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(zlib.compress(whole, 1))
    return name


def listed(root: Path, tree: str) -> Entries:
    lines = git(root, "ls-tree", tree).splitlines()
    return [(mode.lstrip("0"), name, identifier) for mode, _, identifier, name in (_cells(x) for x in lines)]


def _cells(line: str) -> tuple[str, str, str, str]:
    meta, _, name = line.partition("\t")
    mode, kind, identifier = meta.split()
    return mode, kind, identifier, name


def with_entries(root: Path, folder: str, *more: tuple[str, str, str]) -> str:
    """Commit HEAD's tree with further entries in one of its folders; return the commit."""
    tree = tree_object(root, [*listed(root, f"HEAD:{folder}"), *more])
    while folder:
        folder, _, name = folder.rpartition("/")
        above = listed(root, f"HEAD:{folder}" if folder else "HEAD^{tree}")
        tree = tree_object(root, [each for each in above if each[1] != name] + [("40000", name, tree)])
    return git(root, "commit-tree", tree, "-p", "HEAD", "-m", "hostile").strip()


@pytest.fixture
def stolen(checkout: CheckoutTree, tmp_path: Path) -> Mapping[str, Entries]:
    """Entries that a hostile repository may put into a folder, by the name of the attack."""
    root = checkout.root
    code = tmp_path / "code"
    code.write_text("stolen = True\n")
    blob = git(root, "hash-object", "-w", str(code)).strip()
    code.write_text(str(tmp_path / "outside"))
    link = git(root, "hash-object", "-w", str(code)).strip()
    code.unlink()

    def folder(*entries: tuple[str, str, str]) -> str:
        return tree_object(root, list(entries))

    file = ("100644", "stolen.py", blob)
    up = ("40000", "..", folder(("40000", "..", folder(file)), file))
    escaping = [("100644", f"{'../' * depth}stolen.py", blob) for depth in range(1, 6)]
    return {
        "up": [up, *escaping],
        "slash": [("100644", "srt/stolen.py", blob)],
        "absolute": [("100644", str(tmp_path / "stolen.py"), blob)],
        "here": [("40000", ".", folder(file))],
        "git": [("40000", ".GIT", folder(("100755", "hooks.py", blob)))],
        "nothing": [("100644", "", blob)],
        "backslash": [("100644", "..\\stolen.py", blob)],
        "linked": [("120000", "through", link), ("40000", "through", folder(file))],
    }


REFUSED = ["up", "slash", "absolute", "here", "git", "nothing", "backslash"]


def everything(folder: Path, *but: Path) -> dict[str, bytes | None]:
    """Return every path below a folder with its bytes, except some folders."""
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in folder.rglob("*")
        if not any(path.is_relative_to(each) for each in but)
    }


@pytest.fixture
def outside(tmp_path: Path, checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with subfolders for a command's temporary files and for its cache."""
    place = tmp_path / "a" / "b" / "scratch"
    place.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "remembered"))
    (tmp_path / "outside").mkdir()
    del checkout
    return tmp_path


SETTINGS = (
    *(
        "core.alternateRefsCommand",
        "core.askPass",
        "core.editor",
        "core.fsmonitor",
        "core.gitProxy",
        "core.pager",
    ),
    *("core.sshCommand", "credential.helper", "credential.https://example.com.helper", "diff.external"),
    *("diff.planted.command", "diff.planted.textconv", "filter.planted.clean", "filter.planted.smudge"),
    *("filter.served.process", "gc.recentObjectsHook", "gpg.program", "gpg.ssh.program", "gpg.x509.program"),
    *("gpg.ssh.defaultKeyCommand", "hook.a=b.command", "interactive.diffFilter", "merge.planted.driver"),
    *("pager.diff", "pager.log", "remote.origin.receivepack", "remote.origin.uploadpack", "sequence.editor"),
    *("trailer.planted.cmd", "trailer.planted.command", "uploadpack.packObjectsHook"),
)
"""Settings of git's that name a program."""
ALIASES = (
    *(
        "am",
        "cat-file",
        "commit",
        "commit-tree",
        "describe",
        "diff",
        "diff-index",
        "diff-tree",
        "for-each-ref",
    ),
    *(
        "format-patch",
        "hash-object",
        "log",
        "ls-files",
        "ls-tree",
        "merge",
        "read-tree",
        "rev-list",
        "rev-parse",
    ),
    *("show", "show-ref", "status", "symbolic-ref", "update-index", "var", "write-tree"),
)
HOOKS = (
    *(
        "applypatch-msg",
        "commit-msg",
        "fsmonitor-watchman",
        "post-applypatch",
        "post-checkout",
        "post-commit",
    ),
    *("post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit"),
    *("pre-merge-commit", "pre-push", "pre-rebase", "prepare-commit-msg", "reference-transaction"),
)
_SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aGk=\n -----END PGP SIGNATURE-----\n"


def sign_head(root: Path) -> None:
    """Sign HEAD; git checks a signature with a program when it shows it."""
    head, _, message = git(root, "cat-file", "commit", "HEAD").partition("\n\n")
    words = ["git", "-C", str(root), "hash-object", "-t", "commit", "-w", "--stdin"]
    text = f"{head}\n{_SIGNATURE}\n{message}".encode()
    made = subprocess.run(words, input=text, capture_output=True, check=True).stdout.decode().strip()
    git(root, "update-ref", "HEAD", made)


def plant(root: Path, programs: Path) -> Path:
    """Name a program in every setting and hook of a repository; return the folder in which each leaves a file."""
    marks = programs / "marks"
    marks.mkdir(parents=True)

    def program(name: str) -> str:
        path = programs / name.replace("/", "_")
        passes = name.startswith("filter.planted") or name.endswith("textconv")
        path.write_text(f"#!/bin/sh\ntouch '{marks / path.name}'\n{'cat' if passes else 'exit 1'}\n")
        path.chmod(0o755)
        return str(path)

    settings = {name: program(name) for name in SETTINGS} | {
        f"alias.{name}": f"!{program(f'alias.{name}')}" for name in ALIASES
    }
    settings |= {
        "extensions.partialClone": "origin",
        "filter.planted.required": "true",
        "gc.auto": "1",
        "hook.a=b.event": "post-index-change",
        "log.showSignature": "true",
        "merge.verifySignatures": "false",
        "protocol.ext.allow": "always",
        "protocol.file.allow": "always",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program('remote')} %S",
    }
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text(
        "*.py diff=planted filter=planted merge=planted\n__init__.py filter=served\n"
    )
    settings["core.repositoryFormatVersion"] = "1"
    with (root / ".git" / "config").open("a") as config:
        config.writelines(map(_setting, settings, settings.values()))
    (root / ".git" / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(program(name), root / ".git" / "hooks" / name)
    return marks


def _setting(name: str, value: str) -> str:
    """Return the lines of a setting as git writes them, which would take a process for each."""
    section, _, key = name.rpartition(".")
    section, _, part = section.partition(".")
    return f'[{section} "{part}"]\n\t{key} = {value}\n' if part else f"[{section}]\n\t{key} = {value}\n"


@pytest.fixture(scope="session")
def patched_repository(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], CheckoutTree]:
    """Return a function that makes, once, a patched checkout with a submodule and a signed commit, without a ledger."""

    @cache
    def made() -> CheckoutTree:
        place = tmp_path_factory.mktemp("patched")
        tree = committing(checked_in(place / "fork"))
        root = tree.root
        git(root, "branch", "stem")
        run("apply", root, "--commit")
        git(root, "tag", "made")
        sign_head(root)
        git(place, "init", "-q", "within")
        git(place / "within", "commit", "-qm", "A submodule", "--allow-empty")
        added = ("submodule", "--quiet", "add", str(place / "within"), "within")
        git(root, "-c", "protocol.file.allow=always", *added)
        git(root, "commit", "-qm", "With a submodule")
        return tree

    return made


@pytest.fixture
def planted(checkout: CheckoutTree, patched_repository: Callable[[], CheckoutTree], tmp_path: Path) -> Path:
    """The folder in which programs that a patched checkout's repository names leave files; there is no ledger."""
    root = checkout.root
    shutil.rmtree(root)
    copied(patched_repository(), root)
    marks = plant(root, tmp_path / "programs")
    git(root / "within", "config", "core.fsmonitor", str(tmp_path / "programs" / "core.fsmonitor"))
    # Git reads a file from disk, through its filter, where the index does not know its date.
    os.utime(checkout.package / MIRROR, (0, 0))
    return marks

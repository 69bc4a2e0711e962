"""Git is asked here: about a checkout, and for the trees in an object store, without a checkout.

Every command of git's is made here, with all off that runs a program which a repository names: no file system
monitor, filter, hook, pager, signature or fetch. What a person's commit promises to run is all that is left on.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree import project
from patchkit.tree.names import is_unsafe
from patchkit.tree.sglang import (
    NAME,
    PARENTS,
    PLACES,
    SERVING,
    name_among,
    only_package,
    own_names,
    stated_version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# Git's variables point it at other repositories, objects and limits than the folder's own; a person's settings stay.
_GIT_KEPT = ("GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_TEST_")
_GIT_PERSON = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_ASKPASS", "GIT_SSH")
_GIT_SET = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# This alone also outranks `protocol.NAME.allow`.
_GIT_NOWHERE = {"GIT_ALLOW_PROTOCOL": "none"}
_NEVER = {
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "gc.auto": "0",
    "log.showSignature": "false",
    "maintenance.auto": "false",
}
"""What takes the programs off that nobody who types a command of patchkit's has asked for; hooks get it too."""
_NO_COMMANDS = _NEVER | {
    "commit.gpgSign": "false",
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.editor": "false",
    "core.hooksPath": os.devnull,
    "core.sshCommand": "false",
    "credential.helper": "",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "protocol.allow": "never",
}
_NAMED = re.compile(
    r"(?P<kind>filter|hook|merge)\.(?P<name>.+)\.(?:clean|smudge|process|command|driver)", re.DOTALL
)
_OFF = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "hook": {"enabled": "false"},
    "merge": {"driver": "false"},
}
"""What takes off a program that a repository names under a name of its own."""
_PLAIN = frozenset(
    (
        *(
            "cat-file",
            "commit-tree",
            "config",
            "describe",
            "diff-tree",
            "for-each-ref",
            "ls-files",
            "ls-tree",
        ),
        *("rev-list", "rev-parse", "show-ref", "symbolic-ref", "var", "write-tree"),
    )
)
"""Commands that look at no file and move nothing, so that git has no use for such a program in them."""

# What a file's attributes name, and a submodule's own settings, are obeyed unless each command says otherwise.
_DRIVERS_OFF = ("--no-ext-diff", "--no-textconv")
_SAID = {
    "diff": (*_DRIVERS_OFF, "--ignore-submodules=dirty"),
    "format-patch": _DRIVERS_OFF,
    "log": _DRIVERS_OFF,
    "show": _DRIVERS_OFF,
    "status": ("--ignore-submodules=dirty",),
}


class MissingObjectError(TreeError):
    """An object that a tree refers to is not in the object store."""


@dataclass(frozen=True)
class Entry:
    """One entry of a tree object: ``tree``, ``blob``, ``link`` or ``commit`` (a submodule), and the id."""

    kind: str
    id: str


_KINDS = {b"40000": "tree", b"120000": "link", b"160000": "commit"}


class GitRepository:
    """The object store of a git repository, bare or not, read through one long-lived process."""

    def __init__(self, path: Path) -> None:
        """Start reading; TreeError if ``path`` is no git repository. Close it, or use it in ``with``."""
        self.path = path
        if git(path, "rev-parse", "--git-dir").returncode != 0:
            raise TreeError(f"{path} is not a git repository: name a clone or a bare repository.")
        self._process = self._start()
        self._entries: dict[str, Mapping[str, Entry]] = {}
        self._own_names: dict[str, frozenset[str]] = {}

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            _command(self.path, "cat-file", "--batch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment() | _GIT_NOWHERE,
        )

    def __enter__(self) -> GitRepository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process."""
        self._process.communicate()

    @cached_property
    def place(self) -> str:
        """Where the folder that was named lies in the commits, ``""`` for the top of them."""
        return place_of(self.path)

    def object(self, name: str) -> tuple[str, bytes] | None:
        """Return the object that ``name`` (an id or a revision) stands for as (id, content), or None."""
        if "\n" in name:
            return None
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None or requests.closed:
            raise TreeError(f"{self.path} was closed: open it again.")
        try:
            requests.write(name.encode() + b"\n")
            requests.flush()
        except BrokenPipeError:
            raise TreeError(f"git stopped reading {self.path}: run git fsck there.") from None
        line = replies.readline()
        if not line:  # Git ends at an object that is damaged, and others may be asked for.
            self._process.communicate()
            self._process = self._start()
        header = line.rsplit(b" ", 2)
        if len(header) != 3 or not header[2].strip().isdigit():
            return None
        content = replies.read(int(header[2]))
        replies.read(1)
        return header[0].decode(), content

    def size(self, identifier: str) -> int:
        """Return how many bytes an object has, without reading them; 0 for one that is not there."""
        said = git(self.path, "cat-file", "-s", identifier).stdout.strip()
        return int(said) if said.isdigit() else 0

    def entries(self, tree: str) -> Mapping[str, Entry]:
        """Return what the tree object of this id holds, by name; each tree is read once.

        TreeError if a name in it would lead out of the folder, as no name that git wrote does.
        """
        if tree not in self._entries:
            found = self.object(tree)
            if found is None:
                raise MissingObjectError(f"{self.path} lacks the folder object {tree}: run git fsck there.")
            entries = dict(_entries(found[1], len(tree) // 2))
            unsafe = next(filter(is_unsafe, entries), None)
            if unsafe is not None:
                raise TreeError(
                    f"{self.path} has a folder object {tree} with an entry named {unsafe!r}, which leads out of "
                    "the folder: run git fsck there, and do not trust what it came from."
                )
            self._entries[tree] = entries
        return self._entries[tree]

    def at(self, tree: str, path: str) -> Entry | None:
        """Return the entry at a path below the tree object of this id, None where there is none."""
        entry = Entry("tree", tree)
        for part in path.split("/") if path else ():
            found = self.entries(entry.id).get(part) if entry.kind == "tree" else None
            if found is None:
                return None
            entry = found
        return entry

    def own_names(self, tree: str) -> frozenset[str]:
        """Return the names by which the sources below a tree object import what lies in their own serving package."""
        if tree not in self._own_names:
            found = frozenset[str]()
            for name, entry in self.entries(tree).items():
                if entry.kind == "tree" and not name.startswith("."):
                    found |= self.own_names(entry.id)
                elif entry.kind == "blob" and name.endswith(".py"):
                    found |= own_names([(self.object(entry.id) or ("", b""))[1]])
            self._own_names[tree] = found
        return self._own_names[tree]


def place_of(folder: Path) -> str:
    """Return where a folder lies in the commits of its repository, ``""`` for the top of one or for none."""
    return os.fsdecode(git(folder, "rev-parse", "--show-prefix").stdout).rstrip("\n").rstrip("/")


class GitTree:
    """The tree at one ref of a git object store, without a checkout."""

    def __init__(self, repository: GitRepository, ref: str, near: str | None = None) -> None:
        """Find the package at ``ref`` (commit, tag or branch); TreeError if it is none or holds no sglang.

        It is the one at ``near`` or below, a place in the repository, or else the nearest one around that. Without a
        place it is that of the folder in which the repository was found.
        """
        self.repository = repository
        self.ref = ref
        top = repository.object(f"{ref}^{{tree}}")
        if top is None:
            raise TreeError(f"{repository.path} has no ref {ref}: git fetch it there, or name another.")
        place = self._place(top[0], repository.place if near is None else near)
        if place is None:
            raise TreeError(
                f"{ref} of {repository.path} is not an sglang tree: it has no python/sglang; name the folder of the "
                "package if that lies deeper."
            )
        self.place = place
        package = repository.at(top[0], place)
        self.id = package.id if package else ""

    def _place(self, top: str, near: str) -> str | None:
        parts = near.split("/") if near else []
        for depth in range(len(parts), -1, -1):
            around = "/".join(parts[:depth])
            for place in (*PLACES, ""):
                if self._is_package(top, posixpath.join(around, place).rstrip("/")):
                    return posixpath.join(around, place).rstrip("/")
            for parent in PARENTS:
                folder = posixpath.join(around, parent).rstrip("/")
                found = self.repository.at(top, folder)
                below = self.repository.entries(found.id) if found and found.kind == "tree" else {}
                named = (posixpath.join(folder, name) for name in below if not name.startswith("."))
                renamed = only_package(
                    (place for place in named if self._is_package(top, place)),
                    f"{self.ref} of {self.repository.path}",
                )
                if renamed is not None:
                    return renamed
        return None

    def _is_package(self, top: str, place: str) -> bool:
        found = self.repository.at(top, place)
        inside = self.repository.entries(found.id) if found and found.kind == "tree" else {}
        return "__init__.py" in inside and SERVING in inside and inside[SERVING].kind == "tree"

    @property
    def package_label(self) -> str:
        """The repository, the ref and the package folder, as ``git show`` spells them."""
        return f"{self.repository.path} {self.ref}:{self.place}"

    @cached_property
    def version(self) -> str | None:
        """The release that the package, its project file or a tag at the ref names."""
        stated = stated_version(self.read, self._project(posixpath.dirname(self.place)))
        return stated if stated is not None else tag_version(self.repository.path, self.ref)

    @cached_property
    def name(self) -> str:
        """The name by which the package's files import one another; TreeError if they do by several."""
        if posixpath.basename(self.place) == NAME:
            return NAME
        serving = self.repository.at(self.id, SERVING)
        names = self.repository.own_names(serving.id) if serving else frozenset[str]()
        return name_among(names, self.package_label)

    @cached_property
    def line_length(self) -> int:
        """How wide the package's project file, or else the root's, lets a line be."""
        return project.line_length(map(self._project, (posixpath.dirname(self.place), "")))

    def blob(self, file: str) -> str | None:
        """Return the id of the blob that ``file`` or a link of that name inside the package stands for."""
        seen = set()
        entry = self.repository.at(self.id, file)
        while entry is not None and entry.kind == "link" and file not in seen:
            seen.add(file)
            link = os.fsdecode(self._content(entry.id, file))
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
            entry = self.repository.at(self.id, file)
        return entry.id if entry is not None and entry.kind == "blob" else None

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, following a link inside the package, or None where there is none."""
        blob = self.blob(file)
        return None if blob is None else self._content(blob, file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` that end in ``suffix``, sorted."""
        entry = self.repository.at(self.id, folder) if folder else Entry("tree", self.id)
        if entry is None or entry.kind != "tree":
            return []
        start = f"{folder}/" if folder else ""
        return sorted(start + name for name in self._below(entry.id) if name.endswith(suffix))

    def unread(self, folder: str) -> list[str]:
        """Return the links below ``folder`` that lead to no file of the package, sorted."""
        links = (file for file in self.files(folder, "") if self._kind(file) == "link")
        return [file for file in links if self.read(file) is None]

    def _kind(self, file: str) -> str | None:
        entry = self.repository.at(self.id, file)
        return entry.kind if entry is not None else None

    def _project(self, folder: str) -> bytes | None:
        found = self.repository.object(f"{self.ref}:{posixpath.join(folder, project.FILE)}")
        return found[1] if found else None

    def _below(self, tree: str) -> Iterator[str]:
        for name, entry in self.repository.entries(tree).items():
            if entry.kind in ("blob", "link"):
                yield name
            elif entry.kind == "tree" and not name.startswith("."):
                yield from (f"{name}/{below}" for below in self._below(entry.id))

    def _content(self, blob: str, file: str) -> bytes:
        found = self.repository.object(blob)
        if found is None:
            raise MissingObjectError(
                f"{self.package_label}/{file} is missing from the object store: run git fsck there."
            )
        return found[1]


def _entries(content: bytes, width: int) -> Iterator[tuple[str, Entry]]:
    """Read a tree object, in which each entry is ``<mode> <name>``, a null byte, and ``width`` bytes of id."""
    at = 0
    while at < len(content):
        space, null = content.index(b" ", at), content.index(b"\0", at)
        name = os.fsdecode(content[space + 1 : null])
        at, mode = null + 1 + width, content[at:space]
        yield name, Entry(_KINDS.get(mode, "blob"), content[null + 1 : at].hex())


def git(
    folder: Path,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    personal: bool = False,
    named: bool = False,
    apart: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in ``folder`` on the repository that the folder is in, taking no lock that it can do without.

    ``settings`` are environment variables of git's. It runs nobody's programs, unless it is ``personal``: what
    the person who types would do, with their name, hooks, filters and signature; where it is ``named``, with
    their name alone. What is run ``apart`` goes on to its end where the process that runs it is interrupted or killed,
    and holds until then what locks that has.
    """
    # Hooks inherit the environment: what a person's git is not told, theirs are not.
    environment = _environment({} if personal else _GIT_SET)
    if personal or named:
        environment |= {key: value for key, value in os.environ.items() if key.startswith(_GIT_PERSON)}
    if not personal:
        environment |= _GIT_NOWHERE
        if arguments[0] not in _PLAIN:
            environment = _with(environment, _programs_off(folder))
    command = _command(folder, *arguments, personal=personal)
    return _run(command, {**environment, **(settings or {})}, folder, apart=apart)


def _command(folder: Path, command: str, *rest: str, personal: bool = False) -> list[str]:
    """Return the words of every command of git's that is run."""
    settings = (f"{key}={value}" for key, value in (_NEVER if personal else _NO_COMMANDS).items())
    if personal and "--" in rest:
        # The option would reach the hooks, in which `*.py` would then be a file of that name.
        end = rest.index("--") + 1
        rest = (*rest[:end], *(f":(literal){name}" for name in rest[end:]))
    return [
        "git",
        *(() if personal else ("--no-optional-locks", "--literal-pathspecs")),
        *(word for setting in settings for word in ("-c", setting)),
        "-C",
        str(folder),
        command,
        *_SAID.get(command, ()),
        *rest,
    ]


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, apart: bool = False
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=apart,
            close_fds=not apart,
        )
    except OSError:
        raise TreeError(f"git is needed to read {folder} and is not on PATH: install git.") from None


def _programs_off(folder: Path) -> dict[str, str]:
    """Return the settings that take off every filter, hook and merge driver that a repository names."""
    listed = _run(_command(folder, "config", "--list", "--name-only", "-z"), _environment(), folder).stdout
    named = {
        (found["kind"], found["name"])
        for found in map(_NAMED.fullmatch, os.fsdecode(listed).split("\0"))
        if found
    }
    return {
        f"{kind}.{name}.{key}": value for kind, name in sorted(named) for key, value in _OFF[kind].items()
    }


def _with(environment: dict[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with settings of git's, whose names may have a sign in them that `-c` cannot say."""
    said = environment.get("GIT_CONFIG_COUNT", "")
    first = int(said) if said.isdecimal() else 0
    numbered = enumerate(settings.items(), first)
    pairs = {
        name: text
        for at, (key, value) in numbered
        for name, text in ((f"GIT_CONFIG_KEY_{at}", key), (f"GIT_CONFIG_VALUE_{at}", value))
    }
    return environment | pairs | {"GIT_CONFIG_COUNT": str(first + len(settings))}


def _environment(told: Mapping[str, str] = _GIT_SET) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith(_GIT_KEPT)
    }
    return {**kept, **told}


def tag_version(folder: Path, ref: str) -> str | None:
    """Return the release of the last tag before ``ref``, with ``+<commits since>.g<commit>`` unless it is at the tag.

    None where no tag of a release is to be found.
    """
    described = git(folder, "describe", "--tags", "--match", "v[0-9]*", ref).stdout.decode().strip()
    since = _SINCE.fullmatch(described)
    return (f"{since[1]}+{since[2]}.{since[3]}" if since else described).removeprefix("v") or None


_SINCE = re.compile(r"(.+)-(\d+)-(g[0-9a-f]+)")

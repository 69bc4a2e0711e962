"""Run git, and read sglang trees from an object store without a checkout.

Every git command is built here, so that no program that a repository names is run: no file system monitor, filter,
hook, pager, signature or fetch. Only the commits that patchkit makes for a person run that person's hooks, filters and
signature.
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

# Other GIT_* variables can select another repository, object store or limit; the user's configuration is kept.
_GIT_KEPT = ("GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_TEST_")
_GIT_PERSON = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_ASKPASS", "GIT_SSH")
_GIT_SET = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# This overrides `protocol.NAME.allow` too.
_GIT_NOWHERE = {"GIT_ALLOW_PROTOCOL": "none"}
_NEVER = {
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "gc.auto": "0",
    "log.showSignature": "false",
    "maintenance.auto": "false",
}
"""Settings of every git command that patchkit runs; hooks inherit them."""
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
"""Settings that disable a filter, hook or merge driver, by kind; a repository chooses the driver's name."""
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
"""Commands that neither read nor write the working tree, so that git runs no filter, hook or driver for them."""

# These have no setting: git obeys attributes and submodule settings unless each command says otherwise.
_DRIVERS_OFF = ("--no-ext-diff", "--no-textconv")
_SAID = {
    "diff": (*_DRIVERS_OFF, "--ignore-submodules=dirty"),
    "format-patch": _DRIVERS_OFF,
    "log": _DRIVERS_OFF,
    "show": _DRIVERS_OFF,
    "status": ("--ignore-submodules=dirty",),
}


class MissingObjectError(TreeError):
    """An object that a tree refers to is missing from the object store."""


@dataclass(frozen=True)
class Entry:
    """One entry of a tree object: its kind (``tree``, ``blob``, ``link``, ``commit`` for a submodule) and id."""

    kind: str
    id: str


_KINDS = {b"40000": "tree", b"120000": "link", b"160000": "commit"}


class GitRepository:
    """The object store of a git repository, bare or not, read through one long-lived process."""

    def __init__(self, path: Path) -> None:
        """Start the reading process; TreeError if ``path`` is no git repository. Close it, or use ``with``."""
        self.path = path
        if git(path, "rev-parse", "--git-dir").returncode != 0:
            raise TreeError(f"{path} is not a git repository", advice="name a clone or a bare repository")
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
        """The path of the named folder inside the repository, ``""`` for its top."""
        return place_of(self.path)

    def object(self, name: str) -> tuple[str, bytes] | None:
        """Return the id and content of the object that ``name`` (an id or a revision) denotes, or None."""
        if "\n" in name:
            return None
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None or requests.closed:
            raise TreeError(f"{self.path} was closed", advice="open it again")
        try:
            requests.write(name.encode() + b"\n")
            requests.flush()
        except BrokenPipeError:
            raise TreeError(f"git stopped reading {self.path}", advice="run git fsck there") from None
        line = replies.readline()
        if not line:  # Git exits at a damaged object; later requests need a new process.
            self._process.communicate()
            self._process = self._start()
        header = line.rsplit(b" ", 2)
        if len(header) != 3 or not header[2].strip().isdigit():
            return None
        content = replies.read(int(header[2]))
        replies.read(1)
        return header[0].decode(), content

    def size(self, identifier: str) -> int:
        """Return the size of an object without reading it, 0 if it is missing."""
        said = git(self.path, "cat-file", "-s", identifier).stdout.strip()
        return int(said) if said.isdigit() else 0

    def entries(self, tree: str) -> Mapping[str, Entry]:
        """Return the entries of a tree object by name; each tree is read once.

        Raise TreeError if a name leads out of the folder; git itself never writes such a name.
        """
        if tree not in self._entries:
            found = self.object(tree)
            if found is None:
                raise MissingObjectError(
                    f"{self.path} lacks the tree object {tree}", advice="run git fsck there"
                )
            entries = dict(_entries(found[1], len(tree) // 2))
            unsafe = next(filter(is_unsafe, entries), None)
            if unsafe is not None:
                raise TreeError(
                    f"{self.path} has a tree object {tree} with an entry named {unsafe!r}, which leads out of "
                    "the folder",
                    advice="run git fsck there, and do not trust the repository's source",
                )
            self._entries[tree] = entries
        return self._entries[tree]

    def at(self, tree: str, path: str) -> Entry | None:
        """Return the entry at a path below a tree object, or None."""
        entry = Entry("tree", tree)
        for part in path.split("/") if path else ():
            found = self.entries(entry.id).get(part) if entry.kind == "tree" else None
            if found is None:
                return None
            entry = found
        return entry

    def own_names(self, tree: str) -> frozenset[str]:
        """Return the package names under which the sources below a tree object import their serving package."""
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
    """Return a folder's path inside its repository, ``""`` for the top or outside a repository."""
    return os.fsdecode(git(folder, "rev-parse", "--show-prefix").stdout).rstrip("\n").rstrip("/")


class GitTree:
    """The tree at one ref of a git object store, without a checkout."""

    def __init__(self, repository: GitRepository, ref: str, near: str | None = None) -> None:
        """Find the package at ``ref`` (commit, tag or branch); TreeError if there is no such ref or package.

        The search starts at ``near``, a path in the repository, and goes up from there. ``near`` defaults to the
        folder that was named when the repository was opened.
        """
        self.repository = repository
        self.ref = ref
        top = repository.object(f"{ref}^{{tree}}")
        if top is None:
            raise TreeError(
                f"{repository.path} has no ref {ref}", advice="git fetch it there, or name another ref"
            )
        place = self._place(top[0], repository.place if near is None else near)
        if place is None:
            raise TreeError(
                f"{ref} of {repository.path} is not an sglang tree: it has no python/sglang",
                advice="name the package folder if it lies deeper",
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
        """The release stated by the package, by its project file, or by a tag before the ref."""
        stated = stated_version(self.read, self._project(posixpath.dirname(self.place)))
        return stated if stated is not None else tag_version(self.repository.path, self.ref)

    @cached_property
    def name(self) -> str:
        """The name under which the package's files import one another; TreeError if there are several."""
        if posixpath.basename(self.place) == NAME:
            return NAME
        serving = self.repository.at(self.id, SERVING)
        names = self.repository.own_names(serving.id) if serving else frozenset[str]()
        return name_among(names, self.package_label)

    @cached_property
    def line_length(self) -> int:
        """The line length set by the package's project file, or else by the root's."""
        return project.line_length(map(self._project, (posixpath.dirname(self.place), "")))

    def blob(self, file: str) -> str | None:
        """Return the blob id of ``file``, following links inside the package, or None."""
        seen = set()
        entry = self.repository.at(self.id, file)
        while entry is not None and entry.kind == "link" and file not in seen:
            seen.add(file)
            link = os.fsdecode(self._content(entry.id, file))
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
            entry = self.repository.at(self.id, file)
        return entry.id if entry is not None and entry.kind == "blob" else None

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, following links inside the package, or None if it does not exist."""
        blob = self.blob(file)
        return None if blob is None else self._content(blob, file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files below ``folder`` whose names end in ``suffix``, sorted."""
        entry = self.repository.at(self.id, folder) if folder else Entry("tree", self.id)
        if entry is None or entry.kind != "tree":
            return []
        start = f"{folder}/" if folder else ""
        return sorted(start + name for name in self._below(entry.id) if name.endswith(suffix))

    def unread(self, folder: str) -> list[str]:
        """Return the links below ``folder`` that do not lead to a file of the package, sorted."""
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
                f"{self.package_label}/{file} is missing from the object store", advice="run git fsck there"
            )
        return found[1]


def _entries(content: bytes, width: int) -> Iterator[tuple[str, Entry]]:
    """Parse a tree object: each entry is ``<mode> <name>``, a null byte, and ``width`` bytes of id."""
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
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run git in ``folder`` on its repository, without optional locks.

    ``settings`` are environment variables for git, and ``given`` is its standard input. By default no program that a
    repository or the user configured is run. With ``personal``, git runs as the user would run it: with their identity,
    hooks, filters and signature; with ``named``, with their identity only. With ``apart``, git runs to its end even if
    this process is interrupted or killed, and inherits this process's locks until then.
    """
    # Hooks inherit the environment, so a personal git gets none of these variables.
    environment = _environment({} if personal else _GIT_SET)
    if personal or named:
        environment |= {key: value for key, value in os.environ.items() if key.startswith(_GIT_PERSON)}
    if not personal:
        environment |= _GIT_NOWHERE
        if arguments[0] not in _PLAIN:
            environment = _with(environment, _programs_off(folder))
    command = _command(folder, *arguments, personal=personal)
    return _run(command, {**environment, **(settings or {})}, folder, apart=apart, given=given)


def _command(folder: Path, command: str, *rest: str, personal: bool = False) -> list[str]:
    """Return the command line of a git command."""
    settings = (f"{key}={value}" for key, value in (_NEVER if personal else _NO_COMMANDS).items())
    if personal and "--" in rest:
        # Hooks would inherit `--literal-pathspecs`, and `*.py` would no longer be a pattern in them.
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
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    apart: bool = False,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=environment,
            stdin=None if given else subprocess.DEVNULL,
            input=given or None,
            start_new_session=apart,
            close_fds=not apart,
        )
    except OSError:
        raise TreeError(f"git is needed to read {folder} and is not on PATH", advice="install git") from None


def _programs_off(folder: Path) -> dict[str, str]:
    """Return the settings that disable every filter, hook and merge driver that a repository names."""
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
    """Return an environment with git settings; unlike `-c`, it can hold names that contain `=`."""
    said = environment.get("GIT_CONFIG_COUNT", "")
    first = int(said) if said.isdecimal() else 0
    numbered = enumerate(settings.items(), first)
    pairs = {
        name: text
        for at, (key, value) in numbered
        for name, text in ((f"GIT_CONFIG_KEY_{at}", key), (f"GIT_CONFIG_VALUE_{at}", value))
    }
    return environment | pairs | {"GIT_CONFIG_COUNT": str(first + len(settings))}


def _environment(settings: Mapping[str, str] = _GIT_SET) -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith(_GIT_KEPT)
    }
    return {**kept, **settings}


def tag_version(folder: Path, ref: str) -> str | None:
    """Return the release of the last release tag before ``ref``, or None if there is none.

    ``+<commits since>.g<commit>`` is appended unless ``ref`` is at the tag.
    """
    described = git(folder, "describe", "--tags", "--match", "v[0-9]*", ref).stdout.decode().strip()
    since = _SINCE.fullmatch(described)
    return (f"{since[1]}+{since[2]}.{since[3]}" if since else described).removeprefix("v") or None


_SINCE = re.compile(r"(.+)-(\d+)-(g[0-9a-f]+)")

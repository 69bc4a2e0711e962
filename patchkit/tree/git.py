"""Run git without the programs that a repository names: no file system monitor, filter, hook, pager or fetch.

Every git command is built here. Only the commits that patchkit makes for a person run that person's hooks, filters and
signature.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple

from patchkit.errors import RefusedRepositoryError, TreeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# Other GIT_* variables can select another repository, object store or limit; the user's configuration is kept.
_INHERITED = ("GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_TEST_")
_PERSONAL = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_ASKPASS", "GIT_SSH")
_ENVIRONMENT = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# This overrides `protocol.NAME.allow` too.
_NO_TRANSPORT = {"GIT_ALLOW_PROTOCOL": "none"}
_ALWAYS_SET = {
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "gc.auto": "0",
    # Messages and names are read and written as UTF-8.
    "i18n.commitEncoding": "UTF-8",
    "i18n.logOutputEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
}
"""Settings of every git command that patchkit runs; hooks inherit them."""
_NO_COMMANDS = _ALWAYS_SET | {
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
_DISABLED_DRIVERS = {
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
            "grep",
            "log",
            "ls-files",
            "ls-tree",
            "merge-file",
        ),
        *("rev-list", "rev-parse", "show-ref", "symbolic-ref", "var", "write-tree"),
    )
)
"""Commands that neither read nor write the working tree, so that git runs no filter, hook or driver for them."""

# These have no setting: git obeys attributes and submodule settings unless each command says otherwise.
_DRIVERS_OFF = ("--no-ext-diff", "--no-textconv")
_COMMAND_OPTIONS = {
    "diff": (*_DRIVERS_OFF, "--ignore-submodules=dirty"),
    "format-patch": _DRIVERS_OFF,
    "log": _DRIVERS_OFF,
    "show": _DRIVERS_OFF,
    "status": ("--ignore-submodules=dirty",),
}


def require_repository(path: Path, advice: str) -> None:
    """Raise TreeError if git refuses the repository of ``path``, with this advice if ``path`` is in none."""
    answer = git(path, "rev-parse", "--git-dir")
    if answer.returncode == 0:
        return
    if os.path.isdir(path) and (top_around(path.resolve()) is not None or is_bare(path)):
        raise refused(path, answer)
    raise TreeError(f"{path} is not a git repository", advice=advice)


def refused(folder: Path, answer: subprocess.CompletedProcess[bytes]) -> TreeError:
    """Return the error for a repository that git refuses: git's first line, and the command that git names for it."""
    reason, *more = answer.stderr.decode(errors="replace").split("\n")
    remedy = next((line.strip() for line in more if line.strip().startswith("git config ")), "")
    return unreadable(folder, reason, f"if you trust it, run {remedy}" if remedy else "")


def unreadable(folder: Path, reason: str, advice: str = "") -> TreeError:
    """Return the error for a repository that cannot be read."""
    return RefusedRepositoryError(
        f"git cannot read the repository in {folder} ({reason})",
        advice=advice
        or f"fix the cause, which git -C {shlex.quote(str(folder))} status names, and try again",
    )


def commit_of(folder: Path, ref: str) -> str:
    """Return the id of the commit that ``ref`` names. Raise UsageError if there is no such commit."""
    commit = commit_or_none(folder, ref)
    if commit is None:
        require_repository(folder, "name a clone or a bare repository")
        raise UsageError(f"{folder} has no ref {ref}", advice="git fetch it there, or name another ref")
    return commit


def commit_or_none(folder: Path, ref: str) -> str | None:
    """Return the id of the commit that ``ref`` names, or None if there is no such commit."""
    answer = git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return answer.stdout.decode().strip() if answer.returncode == 0 else None


def is_set(folder: Path, key: str, *, default: bool = False) -> bool:
    """Return a setting of a repository that is true or false."""
    words = ("config", "--type=bool", f"--default={str(default).lower()}", "--get", key)
    return git(folder, *words).stdout.strip() == b"true"


class RawChange(NamedTuple):
    """A file that differs: its name, and git's modes and object ids before and after, zeros where it does not exist."""

    name: str
    modes: tuple[str, str]
    ids: tuple[str, str]


def raw_changes(output: bytes) -> Iterator[RawChange]:
    """Yield what ``git diff-tree -z`` and ``git diff-index -z`` list."""
    words = os.fsdecode(output).split("\0")
    for meta, name in zip(words[::2], words[1::2], strict=False):
        old_mode, new_mode, old, new, _ = meta.removeprefix(":").split()
        yield RawChange(name, (old_mode, new_mode), (old, new))


def place_of(folder: Path) -> str:
    """Return a folder's path inside its repository, ``""`` for the top or outside a repository."""
    return os.fsdecode(git(folder, "rev-parse", "--show-prefix").stdout).rstrip("\n").rstrip("/")


def top_around(folder: Path) -> Path | None:
    """Return ``folder`` or the nearest folder above it that has a repository, as ``.git`` shows, or None."""
    return next((place for place in (folder, *folder.parents) if _is_repository(place / ".git")), None)


def is_bare(folder: Path) -> bool:
    """Return whether a folder looks like a bare repository."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _is_repository(path: Path) -> bool:
    """Return whether a ``.git`` is a repository, or a file or link that names one elsewhere."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_dir():
        return True
    try:
        names = os.listdir(path)
    except OSError:  # Whether it is one, git decides.
        return True
    return not {"HEAD", "objects", "refs", "config"}.isdisjoint(names)


def git(
    folder: Path,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    personal: bool = False,
    named: bool = False,
    new_session: bool = False,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run git in ``folder`` on its repository, without optional locks.

    ``settings`` are environment variables for git, and ``given`` is its standard input. By default no program that a
    repository or the user configured is run. With ``personal``, git runs as the user would run it: with their identity,
    hooks, filters and signature; with ``named``, with their identity only. With ``new_session``, git runs to its end
    even if this process is interrupted or killed, and inherits this process's locks until then.
    """
    # Hooks inherit the environment, so a personal git gets none of these variables.
    environment = _environment({} if personal else _ENVIRONMENT)
    if personal or named:
        environment |= {key: value for key, value in os.environ.items() if key.startswith(_PERSONAL)}
    if not personal:
        environment |= _NO_TRANSPORT
        if arguments[0] not in _PLAIN:
            environment = _with(environment, _programs_off(folder))
    environment |= settings or {}
    if personal and "--" in arguments and "GIT_LITERAL_PATHSPECS" not in environment:
        # Hooks would inherit that variable, and `*.py` would no longer be a pattern in them.
        end = arguments.index("--") + 1
        arguments = (*arguments[:end], *(f":(literal){name}" for name in arguments[end:]))
    command = _command(folder, *arguments, personal=personal)
    return _run(command, environment, folder, new_session=new_session, in_files=personal, given=given)


def _output_file() -> IO[bytes]:
    """Return a file for a process's output, in memory where the system has such files, since the disk may be full."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("output"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


def object_reader(folder: Path) -> subprocess.Popen[bytes]:
    """Start a git process that writes the objects whose names it reads."""
    with _starting(folder):
        return subprocess.Popen(
            _command(folder, "cat-file", "--batch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment() | _NO_TRANSPORT,
        )


@contextmanager
def _starting(folder: Path) -> Iterator[None]:
    """Raise TreeError if git cannot be started."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):  # PATH may name a file.
        raise TreeError(f"git is needed to read {folder} and is not on PATH", advice="install git") from None
    except OSError as error:  # Such as an argument that is too long, or too many open files.
        raise TreeError(
            f"git cannot be run on {folder} ({error.strerror})", advice="fix the cause and try again"
        ) from error


def _command(folder: Path, command: str, *rest: str, personal: bool = False) -> list[str]:
    """Return the command line of a git command."""
    settings = (f"{key}={value}" for key, value in (_ALWAYS_SET if personal else _NO_COMMANDS).items())
    return [
        "git",
        *(() if personal else ("--no-optional-locks",)),
        *(word for setting in settings for word in ("-c", setting)),
        "-C",
        str(folder),
        command,
        *_COMMAND_OPTIONS.get(command, ()),
        *rest,
    ]


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    new_session: bool = False,
    in_files: bool = False,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run a command. ``in_files``, do not wait for processes that a hook leaves in the background.

    A pipe has no end as long as one of them has it open.
    """
    with _starting(folder), ExitStack() as stack:
        files = [stack.enter_context(_output_file()) for _ in range(2)] if in_files else None
        stdout, stderr = files or (subprocess.PIPE, subprocess.PIPE)
        done = subprocess.run(
            command,
            stdout=stdout,
            stderr=stderr,
            check=False,
            env=environment,
            stdin=None if given else subprocess.DEVNULL,
            input=given or None,
            start_new_session=new_session,
            close_fds=not new_session,
        )
        for file in files or ():
            file.seek(0)
        if files:
            done.stdout, done.stderr = (file.read() for file in files)
        return done


def _programs_off(folder: Path) -> dict[str, str]:
    """Return the settings that disable every filter, hook and merge driver that a repository names."""
    listed = _run(_command(folder, "config", "--list", "--name-only", "-z"), _environment(), folder).stdout
    named = {
        (match["kind"], match["name"])
        for match in map(_NAMED.fullmatch, os.fsdecode(listed).split("\0"))
        if match
    }
    return {
        f"{kind}.{name}.{key}": value
        for kind, name in sorted(named)
        for key, value in _DISABLED_DRIVERS[kind].items()
    }


def _with(environment: dict[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with git settings; unlike `-c`, names can contain `=`."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    numbered = enumerate(settings.items(), first)
    pairs = {
        name: text
        for index, (key, value) in numbered
        for name, text in ((f"GIT_CONFIG_KEY_{index}", key), (f"GIT_CONFIG_VALUE_{index}", value))
    }
    return environment | pairs | {"GIT_CONFIG_COUNT": str(first + len(settings))}


def _environment(settings: Mapping[str, str] = _ENVIRONMENT) -> dict[str, str]:
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith(_INHERITED)
    }
    return {**inherited, **settings}


def tag_version(folder: Path, ref: str) -> str | None:
    """Return the release of the last release tag before ``ref``, or None if there is none.

    ``+<commits since>.g<commit>`` is appended unless ``ref`` is at the tag.
    """
    described = git(folder, "describe", "--tags", "--match", "v[0-9]*", ref).stdout.decode().strip()
    since = _SINCE.fullmatch(described)
    return (f"{since[1]}+{since[2]}.{since[3]}" if since else described).removeprefix("v") or None


_SINCE = re.compile(r"(.+)-(\d+)-(g[0-9a-f]+)")


def object_id(content: bytes, kind: str = "blob", algorithm: str = "sha1") -> str:
    """Return the id that git gives an object of this kind and content."""
    text = b"%s %d\0%s" % (kind.encode(), len(content), content)
    return hashlib.new(algorithm, text, usedforsecurity=False).hexdigest()

"""Unusual and broken trees: each is small and named after what is unusual about it."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING

from support.toys import CRLF, MIRROR, SOURCES, git, socket_at, write_package

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPARSE = 50 * 2**30
SERVER = {"srt/server_args.py": b"class ServerArgs:\n    tp_size: int = 1\n"}
UNVERSIONED = {file: text for file, text in SOURCES.items() if file != "version.py"} | SERVER
METADATA = "sglang-0.5.12.dist-info/METADATA"


def sparse(path: Path, size: int = SPARSE) -> None:
    """Write a sparse file of zeros."""
    path.touch()
    os.truncate(path, size)


def packaged(place: Path, sources: dict[str, bytes] | None = None) -> Path:
    """Write a package folder in site-packages."""
    write_package(place / "site-packages" / "sglang", SOURCES | SERVER if sources is None else sources)
    return place / "site-packages"


def committed(place: Path, sources: dict[str, bytes] | None = None) -> Path:
    """Write a git checkout with everything committed."""
    root = place / "fork"
    write_package(root / "python" / "sglang", SOURCES | SERVER if sources is None else sources)
    git(place, "init", "-q", "fork")
    for key, value in {"user.name": "A Person", "user.email": "person@example.com"}.items():
        git(root, "config", key, value)
    git(root, "add", ".")
    git(root, "commit", "-qm", "As upstream has it")
    return root


def with_file(file: str, content: bytes) -> Callable[[Path], Path]:
    """Return a function that makes a package in which one file has this content."""
    return lambda place: packaged(place, SOURCES | SERVER | {file: content})


def at(file: str, make: Callable[[Path], object]) -> Callable[[Path], Path]:
    """Return a function that makes a package with something else in place of a file."""

    def build(place: Path) -> Path:
        root = packaged(place)
        path = root / "sglang" / file
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
        return root

    return build


def beside(file: str, make: bytes | Callable[[Path], object]) -> Callable[[Path], Path]:
    """Return a function that makes a package without a version, and a file beside it that may contain one."""

    def build(place: Path) -> Path:
        root = packaged(place, UNVERSIONED)
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(make, bytes):
            path.write_bytes(make)
        else:
            make(path)
        return root

    return build


def in_git(
    *damage: Callable[[Path], object], sources: dict[str, bytes] | None = None
) -> Callable[[Path], Path]:
    """Return a function that makes a git checkout and damages it with each of ``damage``."""

    def build(place: Path) -> Path:
        root = committed(place, sources)
        for each in damage:
            each(root)
        return root

    return build


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def crossed(path: Path) -> None:
    path.symlink_to("b")
    (path.parent / "b").symlink_to(path.name)


def alone(name: str, make: Callable[[Path], object]) -> Callable[[Path], Path]:
    """Return a function that makes something that is not a tree, and returns its path."""

    def build(place: Path) -> Path:
        make(place / name)
        return place / name

    return build


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unnamed(path: Path) -> None:
    with open(os.fsencode(path.parent) + b"/\xff\xfe.py", "wb") as file:
        file.write(SOURCES[MIRROR])


def deep_folders(path: Path) -> None:
    """Nest folders as deep as a path can be long."""
    where = path
    while len(os.fsencode(where)) < 3900:
        where /= "d" * 100
    where.mkdir(parents=True)
    (where / "x.py").write_bytes(b"x = 1\n")


def twins(path: Path) -> None:
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "é.py")
        (path.parent / name).write_bytes(SOURCES[MIRROR])


def linked_out(file: str) -> Callable[[Path], Path]:
    """Return a function that makes a package of which a part is a link to elsewhere."""

    def build(place: Path) -> Path:
        root = packaged(place)
        (place / "elsewhere").mkdir()
        (root / file).rename(place / "elsewhere" / "real")
        (root / file).symlink_to(place / "elsewhere" / "real")
        return root

    return build


def unborn(place: Path) -> Path:
    root = packaged(place)
    git(place, "init", "-q", "site-packages")
    return root


def bare(place: Path) -> Path:
    git(place, "clone", "-q", "--bare", str(committed(place)), "bare")
    return place / "bare"


def widowed(place: Path) -> Path:
    """Make a worktree whose main repository is gone."""
    root = committed(place)
    git(root, "worktree", "add", "-q", str(place / "other"))
    root.rename(place / "gone")
    return place / "other"


def submodule(place: Path) -> Path:
    inner = committed(place)
    git(place, "init", "-q", "above")
    git(
        place / "above", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "fork"
    )
    return place / "above" / "fork"


def above_a_submodule(root: Path) -> None:
    """Make a submodule of the package's serving folder."""
    git(root.parent, "init", "-q", "inner")
    git(root.parent / "inner", "commit", "-qm", "Empty", "--allow-empty")
    add = ("submodule", "--quiet", "add", str(root.parent / "inner"), "python/sglang/srt/inner")
    git(root, "-c", "protocol.file.allow=always", *add)
    git(root, "commit", "-qm", "A submodule")


def damaged(name: str, content: bytes | Callable[[Path], object]) -> Callable[[Path], Path]:
    """Return a function that makes a git checkout whose repository has something else in place of a file."""

    def damage(root: Path) -> None:
        path = root / ".git" / name
        path.unlink(missing_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)

    return in_git(damage)


def without_objects(root: Path) -> None:
    """Remove all objects except the commit."""
    head = git(root, "rev-parse", "HEAD").strip()
    for path in (root / ".git" / "objects").glob("??/*"):
        if path.parent.name + path.name != head:
            path.unlink()


def sparsely(root: Path) -> None:
    git(
        root,
        "sparse-checkout",
        "set",
        "--no-cone",
        "/python/sglang/__init__.py",
        "/python/sglang/srt/managers/",
    )


def git_file(content: bytes) -> Callable[[Path], Path]:
    """Return a function that makes a checkout whose ``.git`` is a file with this content."""

    def build(place: Path) -> Path:
        root = place / "fork"
        write_package(root / "python" / "sglang", SOURCES | SERVER)
        (root / ".git").write_bytes(content)
        return root

    return build


DIGITS = b"9" * 6000
NESTED = b"[" * 100_000
ODD: dict[str, Callable[[Path], Path]] = {
    "a version of no characters": with_file("version.py", b'__version__ = "0.5.\xff"\n'),
    "a version of 6,000 digits": with_file("version.py", b'__version__ = "0.%s.1"\n' % DIGITS),
    "a version of odd digits": with_file("version.py", '__version__ = "0.5.²"\n'.encode()),
    "a version that steers a terminal": with_file("version.py", b'__version__ = "0.5.12\x1b[2J\x07"\n'),
    "a version of nothing": with_file("version.py", b""),
    "a version of zeros": with_file("version.py", b"\0" * 4096),
    "a version's file is a pipe": at("version.py", os.mkfifo),
    "a version's file is a folder": at("version.py", lambda path: path.mkdir()),
    "a version's file is a loop": at("version.py", loop),
    "a version's file is a device": at("version.py", device),
    "a version's file has no end": at("version.py", sparse),
    "metadata of no characters": beside(METADATA, b"Name: sglang\nVersion: 0.5.\xff\n"),
    "metadata of 6,000 digits": beside(METADATA, b"Name: sglang\nVersion: 0.%s\n" % DIGITS),
    "metadata without a version": beside(METADATA, b"Name: sglang\n"),
    "metadata of nothing": beside(METADATA, b""),
    "metadata of zeros": beside(METADATA, b"\0" * 4096),
    "metadata is a pipe": beside(METADATA, os.mkfifo),
    "metadata is a folder": beside(METADATA, lambda path: path.mkdir()),
    "metadata is a loop": beside(METADATA, loop),
    "metadata is a device": beside(METADATA, device),
    "metadata has no end": beside(METADATA, sparse),
    "metadata's folder is a file": beside("sglang-0.5.12.dist-info", b"x"),
    "metadata's folder is a pipe": beside("sglang-0.5.12.dist-info", os.mkfifo),
    "an old kind of metadata is a pipe": beside("sglang-0.5.12.egg-info", os.mkfifo),
    "a project file of no characters": beside("pyproject.toml", b'[project]\nversion = "0.\xff"\n'),
    "a project file that ends early": beside("pyproject.toml", b"[project\nversion"),
    "a project file of 6,000 digits": beside("pyproject.toml", b"[tool.black]\nline-length = %s\n" % DIGITS),
    "a project file with an odd version": beside("pyproject.toml", b'[project]\nversion = "\\n\\u001b[2J"\n'),
    "a project file with a long version": beside("pyproject.toml", b'[project]\nversion = "1.%s"\n' % DIGITS),
    "a project file that nests": beside("pyproject.toml", b"a = %s" % NESTED),
    "a project file with a truth for a width": beside(
        "pyproject.toml", b"[tool.black]\nline-length = true\n"
    ),
    "a project file with a width of dates": beside("pyproject.toml", b"[tool]\nblack = 1979-05-27\n"),
    "a project file is a pipe": beside("pyproject.toml", os.mkfifo),
    "a project file is a folder": beside("pyproject.toml", lambda path: path.mkdir()),
    "a project file is a loop": beside("pyproject.toml", loop),
    "a project file has no end": beside("pyproject.toml", sparse),
    "a path file is a pipe": beside("x.pth", os.mkfifo),
    "a path file is a folder": beside("x.pth", lambda path: path.mkdir()),
    "a path file of no characters": beside("x.pth", b"/\xff\n\0\n" + b"x" * 6000),
    "a path file is a loop": beside("x.pth", loop),
    "a path file has no end": beside("x.pth", sparse),
    "a file without end": at("srt/big.py", sparse),
    "a file without end at a site": at(MIRROR, sparse),
    "a file of 100 MB": at(MIRROR, lambda path: path.write_bytes(b"# " + b"x" * 10**8)),
    "a file of one line of 3 MB": with_file(MIRROR, b"x = '" + b"x" * 3 * 10**6 + b"'\n" + SOURCES[MIRROR]),
    "a file of nothing": with_file(MIRROR, b""),
    "a file of zeros": with_file(MIRROR, b"\0" * 4096),
    "a zero in a file": with_file(MIRROR, SOURCES[MIRROR] + b"# \0\n"),
    "a byte order mark": with_file(MIRROR, b"\xef\xbb\xbf" + SOURCES[MIRROR]),
    "two byte order marks": with_file(MIRROR, b"\xef\xbb\xbf\xef\xbb\xbf" + SOURCES[MIRROR]),
    "16 bits a character": with_file(MIRROR, SOURCES[MIRROR].decode().encode("utf-16")),
    "line ends of Windows": with_file(MIRROR, SOURCES[MIRROR].replace(b"\n", b"\r\n")),
    "line ends of long ago": with_file(MIRROR, SOURCES[MIRROR].replace(b"\n", b"\r")),
    "line ends of every kind": with_file(MIRROR, SOURCES[MIRROR].replace(b"copies\n", b"copies\r\n\x0c\n")),
    "tabs": with_file(MIRROR, SOURCES[MIRROR].replace(b"    ", b"\t")),
    "tabs and blanks": with_file(MIRROR, SOURCES[MIRROR] + b"class A:\n\tx = 1\n        y = 2\n"),
    "latin-1 that says so": with_file(MIRROR, b"# coding: latin-1\n# caf\xe9\n" + SOURCES[MIRROR]),
    "latin-1 that does not say so": with_file(MIRROR, b"# caf\xe9\n" + SOURCES[MIRROR]),
    "an encoding that is none": with_file(MIRROR, b"# coding: nonsense\n" + SOURCES[MIRROR]),
    "an encoding that is none of text": with_file(MIRROR, b"# coding: rot13\n" + SOURCES[MIRROR]),
    "an encoding of seven bits": with_file(MIRROR, b"# coding: utf-7\n" + SOURCES[MIRROR]),
    "half a character": with_file(MIRROR, SOURCES[MIRROR] + b"x = '\\ud800'\n# \xed\xa0\x80\n"),
    "6,000 digits": with_file(MIRROR, SOURCES[MIRROR] + b"x = %s\n" % DIGITS),
    "lists in lists": with_file(MIRROR, SOURCES[MIRROR] + b"x = %s%s\n" % (NESTED, b"]" * 100_000)),
    "calls of calls": with_file(MIRROR, SOURCES[MIRROR] + b"x = f" + b"()" * 5000 + b"\n"),
    "blocks in blocks": with_file(
        MIRROR, SOURCES[MIRROR] + b"".join(b" " * n + b"if x:\n" for n in range(150))
    ),
    "a sum of 20,000": with_file(MIRROR, SOURCES[MIRROR] + b"x = " + b"1 + " * 20_000 + b"1\n"),
    "a name with a line end": at("srt/managers/a\nb.py", lambda path: path.write_bytes(SOURCES[MIRROR])),
    "a name of no characters": at("srt/managers/x.py", unnamed),
    "a name of 255 bytes": at(f"srt/{'x' * 252}.py", lambda path: path.write_bytes(SOURCES[MIRROR])),
    "two names that are one": at("srt/managers/x.py", twins),
    "two names but for case": at("srt/managers/MIRROR.py", lambda path: path.write_bytes(SOURCES[MIRROR])),
    "folders in folders": at("srt/deep", deep_folders),
    "a pipe at a site": at(MIRROR, os.mkfifo),
    "a socket at a site": at(MIRROR, socket_at),
    "a device at a site": at(MIRROR, device),
    "a folder at a site": at(MIRROR, lambda path: path.mkdir()),
    "a loop at a site": at(MIRROR, loop),
    "a link to nowhere at a site": at(MIRROR, lambda path: path.symlink_to("nowhere")),
    "a link to a folder above": at("srt/above", lambda path: path.symlink_to("..")),
    "a link to the root": at("srt/root", lambda path: path.symlink_to("/")),
    "two links to each other": at("srt/a", crossed),
    "a package elsewhere": linked_out("sglang"),
    "a serving folder elsewhere": linked_out("sglang/srt"),
    "a file elsewhere": linked_out(f"sglang/{MIRROR}"),
    "a ledger that is a file": at(".patchkit", lambda path: path.write_bytes(b"x")),
    "a ledger that is a pipe": at(".patchkit", os.mkfifo),
    "a ledger that is a loop": at(".patchkit", loop),
    "a ledger elsewhere": at(".patchkit", lambda path: path.symlink_to(path.parents[2])),
    "a ledger of nothing": at(".patchkit", lambda path: path.mkdir()),
    "a package that is a file": alone("sglang", lambda path: path.write_bytes(b"x")),
    "no file that opens a package": lambda place: (
        write_package(place / "sglang", {MIRROR: SOURCES[MIRROR]}).parent
    ),
    "a folder that opens a package": at("__init__.py", lambda path: path.mkdir()),
    "a pipe that opens a package": at("__init__.py", os.mkfifo),
    "a loop that opens a package": at("__init__.py", loop),
    "nothing": lambda place: place,
    "a loop": alone("loop", loop),
    "a pipe": alone("pipe", os.mkfifo),
    "no commit": unborn,
    "a bare repository": bare,
    "a worktree alone": widowed,
    "a submodule": submodule,
    "a submodule in the package": in_git(above_a_submodule),
    "a sparse checkout": in_git(sparsely),
    "a damaged index": damaged("index", b"DIRC\0\0\0\2junk"),
    "an index of nothing": damaged("index", b""),
    "an index that is a folder": damaged("index", lambda path: path.mkdir()),
    "a lock of the index": damaged("index.lock", b""),
    "a damaged HEAD": damaged("HEAD", b"\xff\n"),
    "a HEAD that goes in circles": damaged("HEAD", b"ref: HEAD\n"),
    "a HEAD of no commit": damaged("HEAD", b"0" * 39 + b"1\n"),
    "damaged settings": damaged("config", b"[core\n"),
    "settings that go in circles": damaged("config", b"[include]\n\tpath = config\n"),
    "a work tree elsewhere": in_git(lambda root: git(root, "config", "core.worktree", "/")),
    "no objects": in_git(without_objects),
    "packed references of junk": damaged("packed-refs", b"junk\n"),
    "a link out in a commit": in_git(
        lambda root: (root / "python/sglang/srt/out.py").symlink_to("/etc/passwd"),
        lambda root: git(root, "add", "."),
        lambda root: git(root, "commit", "-qm", "A link"),
    ),
    "latin-1 in a commit": in_git(sources=SOURCES | SERVER | {MIRROR: b"# caf\xe9\n" + SOURCES[MIRROR]}),
    "a repository's file of nothing": git_file(b""),
    "a repository's file to itself": git_file(b"gitdir: .git\n"),
    "a repository's file to nowhere": git_file(b"gitdir: /nowhere\n"),
    "a repository's file of zeros": git_file(b"\0" * 4096),
    "a stray carriage return": with_file(CRLF, SOURCES[CRLF] + b"\r\rx = 1\r"),
}

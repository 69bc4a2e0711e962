"""Read diffs and commits: each file's bytes before and after, and facts for the patch's header."""

from __future__ import annotations

import email
import email.message
import posixpath
import re
from dataclasses import dataclass, replace
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.utils import parseaddr, parsedate_to_datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from patchkit.drafting.change import Facts, GivenFile
from patchkit.errors import TreeError, UsageError
from patchkit.lines import split_lines
from patchkit.patchset.unified import (
    DiffOptions,
    Layout,
    layout_of,
    printed,
    sections,
    text_after,
)
from patchkit.transaction.ports import TRAILER
from patchkit.tree.fork import is_of_record
from patchkit.tree.git import git, object_id, place_of
from patchkit.tree.modes import FILES, LINK, NO_FILE, PLAIN, PROGRAM
from patchkit.tree.names import is_outside
from patchkit.tree.outside import content, entry, shown
from patchkit.tree.sglang import NAME, PARENTS, PLACES, SERVING
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from patchkit.patchset.unified import FileSection, Hunk
    from patchkit.tree.tree import Tree

    Blob = Callable[[str], bytes | None]

_NUMBER = re.compile(r"\s*\(#([0-9]+)\)\s*$")
_MAIL = re.compile(r"^From ([0-9a-f]{40}) ", re.MULTILINE)
_MAIL_START = re.compile(r"^From \S+ .*\d{4}\r?\n(?=[A-Za-z-]+: )", re.MULTILINE)
_CONTENT_TYPE = re.compile(r"^Content-Type:.*(?:\n[ \t].*)*\n?", re.MULTILINE | re.IGNORECASE)
_SUBJECT = re.compile(r"^Subject: ", re.MULTILINE)
_PREFIX = re.compile(r"^\[[^\]]*\] *")
_HEADER_INSIDE = re.compile(r"(From|Date): (.+)\n?")
_HAS_DIFF = re.compile(r"^(?:diff --git |--- .*\n\+\+\+ )", re.MULTILINE)
_PULLS = f"https://github.com/sgl-project/{NAME}/pull/"
_OUTSIDE = "it is outside the package folder; left out."
_NOT_A_FILE = "it is a link or a submodule, which no edit can change; left out."
_MODE = "its mode changes, which no edit can make; left out."
_NEW_MODE = "it is executable, which no edit can make; created without that mode."
_OLD_MODE = "it is executable, and revert creates it again without that mode."


@dataclass(frozen=True)
class Difference:
    """The changed files of the package, those outside it and links, and why other changes are left out.

    ``prefixes`` are what stands before the names of a diff's files, old and new, that are named from ``place``: the
    package's place below them.
    """

    files: tuple[GivenFile, ...]
    left_out: tuple[str, ...] = ()
    outside: tuple[GivenFile, ...] = ()
    prefixes: tuple[str, str] = ("a/", "b/")
    place: str = PLACES[0]

    @property
    def without_outside(self) -> tuple[str, ...]:
        """Why changes are left out if modes, links and the files outside the package are."""
        modes = (note for file in self.files if (note := left_mode(file)))
        return tuple(dict.fromkeys((*self.left_out, *modes, *map(outside, self.outside))))


def outside(change: GivenFile) -> str:
    """Return that a link, or a file outside the package, is left out."""
    return f"{printed(shown(change.file))}: {_OUTSIDE if is_outside(change.file) else _NOT_A_FILE}"


def left_mode(change: GivenFile) -> str:
    """Return that the mode of a file is left out, empty if no edit has to set it."""
    notes = {(NO_FILE, PROGRAM): _NEW_MODE, (PROGRAM, NO_FILE): _OLD_MODE}
    note = _MODE if {*change.kinds} == FILES else notes.get(change.kinds)
    return f"{printed(shown(change.file))}: {note}" if note is not None else ""


_OPTIONS_OF_NEW = DiffOptions()


def places_of(package: Path) -> tuple[str, ...]:
    """Return the folders in which a repository may contain the package's files, its own place first."""
    own = (posixpath.join(parent, package.name) for parent in PARENTS)
    return tuple(dict.fromkeys((*filter(None, [place_of(package)]), *own, *PLACES)))


def of_commit(
    root: Path, commit: str, places: Sequence[str] = PLACES, option: str = "--from-commit "
) -> Difference:
    """Return what a commit or a range changes in the package. Raise UsageError if it is neither.

    ``places`` are the folders in which the repository may contain the package's files; errors start with ``option``.
    """
    first, last = _ends(commit)
    raw = git(root, "diff-tree", "-r", "-z", "--no-renames", "--raw", first, last, "--")
    if raw.returncode != 0:
        raise UsageError(
            f"{option}{commit}: {root.resolve()} has no such commit with a parent",
            advice="run git fetch there, or name another commit",
        )
    fields = raw.stdout.decode(errors="surrogateescape").split("\0")
    files: list[GivenFile] = []
    left_out: list[str] = []
    layout = layout_of(fields[1::2], lambda _name, _file: False, places)
    for line, name in zip(fields[::2], fields[1::2], strict=False):
        modes, blobs = line.lstrip(":").split()[:2], line.split()[2:4]
        if is_of_record(name):
            continue  # It describes the tree of the commit.
        file = layout.file(name)
        if file is None:
            left_out.append(f"{printed(name)}: {_OUTSIDE}")
            continue
        if any(mode not in {*FILES, LINK, NO_FILE} for mode in modes):
            left_out.append(f"{printed(name)}: {_NOT_A_FILE}")
            continue
        sides = zip((first, last), blobs, strict=True)
        before, after = (
            _blob(root, f"{end}:{name}", option) if blob.strip("0") else None for end, blob in sides
        )
        files.append(GivenFile(file, before, after, modes=(modes[0], modes[1])))
    return Difference(*_parted(files, left_out))


def _parted(
    files: Iterable[GivenFile], left_out: Iterable[str]
) -> tuple[tuple[GivenFile, ...], tuple[str, ...], tuple[GivenFile, ...]]:
    """Return the files of the package, what is left out, and links and the files outside the package."""
    parts: tuple[list[GivenFile], list[GivenFile]] = ([], [])
    for file in files:
        parts[is_outside(file.file) or LINK in file.modes].append(file)
    return tuple(parts[0]), tuple(dict.fromkeys(left_out)), tuple(parts[1])


def facts_of_commit(root: Path, identifier: str, commit: str) -> Facts:
    """Return the facts in a commit's message; for a range, in that of its last commit."""
    fields = "%H%x00%an <%ae>%x00%ad%x00%s%x00%b%x00%B"
    shown = git(root, "log", "--max-count=1", "--date=raw", f"--format={fields}", last_of(commit), "--")
    log_fields = shown.stdout.decode(errors="replace").split("\0")
    if shown.returncode != 0 or len(log_fields) != 6:
        raise TreeError(f"git cannot read {commit} in {root}", advice="run git fsck there")
    sha, author, date, subject, body, message = log_fields
    return replace(
        _facts(identifier, subject, body, sha), author=author, date=f"@{date}", message=message.rstrip()
    )


def parent_of(commit: str) -> str:
    """Return the commit before a commit or a range."""
    return _ends(commit)[0]


def last_of(commit: str) -> str:
    """Return the commit itself, or the last of a range."""
    return _ends(commit)[1]


def _ends(commit: str) -> tuple[str, str]:
    first, dots, last = commit.partition("..")
    return (first or "HEAD", last.lstrip(".") or "HEAD") if dots else (f"{commit}^", commit)


def _blob(root: Path, name: str, option: str) -> bytes:
    shown = git(root, "cat-file", "blob", name)
    if shown.returncode != 0:  # Such as an entry of a damaged tree with a slash in its name.
        raise UsageError(f"{option}{printed(name)}: git cannot read this file", advice="run git fsck there")
    return shown.stdout


def facts_of_diff(identifier: str, text: str, where: Path | str = "") -> Facts:
    """Return the facts in the mail around a diff, as git format-patch writes it; other diffs have none.

    Raise UsageError, for ``where``, if its message contains a NUL character.
    """
    around = text.partition("\ndiff --git ")[0]
    start = _SUBJECT.search(around)
    if start is None:
        return Facts(identifier)
    mail = email.message_from_string(around)
    if mail["Subject"] is None:
        mail = email.message_from_string(around[start.start() :])
    subject = _PREFIX.sub("", " ".join(_header(mail, "Subject").split()))
    # Without a message the line that ends it is the first one.
    body = f"\n{mail.get_payload()}".replace("\r\n", "\n").partition("\n---\n")[0].strip()
    author, date = _header(mail, "From"), _header(mail, "Date")
    while inside := _HEADER_INSIDE.match(
        body
    ):  # git format-patch puts the author there if another person sends it.
        author, date = (inside[2], date) if inside[1] == "From" else (author, inside[2])
        body = body[inside.end() :].lstrip()
    if "\0" in f"{subject}{body}{author}":
        raise UsageError(
            "a NUL character in the Subject or the message", where=where, advice="remove it and try again"
        )
    sha = _MAIL.search(text)
    facts = _facts(identifier, subject, body, sha[1] if sha else "")
    name, address = parseaddr(author)
    person = f"{re.sub(r'[<>]', '', name) or address} <{address}>" if address else ""
    return replace(facts, author=person, date=_git_date(date), message=f"{subject}\n\n{body}")


def _facts(identifier: str, subject: str, body: str, sha: str) -> Facts:
    number = _NUMBER.search(subject)
    title = _NUMBER.sub("", subject).strip()
    trailers = re.compile(rf"^(?:Co-authored-by|Signed-off-by|Change-Id|{TRAILER}):", re.IGNORECASE)
    lines = [line.rstrip() for line in split_lines(body.strip()) if not trailers.match(line)]
    why = "\n".join(lines).strip() or title
    return Facts(identifier, title, why, f"{_PULLS}{number[1]}" if number else "", sha)


def _header(mail: email.message.Message, name: str) -> str:
    value = str(mail[name] or "")
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):
        return value


def _git_date(text: str) -> str:
    """Return the date of a mail as seconds and time zone, empty if it has none."""
    try:
        date = parsedate_to_datetime(text)
        return f"@{int(date.timestamp())} {date.strftime('%z') or '+0000'}"
    except (TypeError, ValueError, OverflowError):
        return ""


def mails(text: str) -> list[str]:
    """Return each mail with a diff in a text, as git format-patch --stdout writes them; other texts as one."""
    places = [*(match.start() for match in _MAIL_START.finditer(text)), len(text)]
    parts = [text[start:end] for start, end in pairwise(places)]
    messages = [part for part in map(_plain_mail, parts) if _HAS_DIFF.search(part)]
    return messages or [text]


def _plain_mail(text: str) -> str:
    """Return a mail with its body as it was before it was encoded to be sent, or divided into text and attachment."""
    mail = email.message_from_string(text)
    parts = [part for part in mail.walk() if part.get_content_maintype() == "text"]
    if not mail.is_multipart() and not any(map(_is_encoded, parts)):
        return text
    headers = _CONTENT_TYPE.sub("", text.partition("\n\n")[0])
    return "\n\n".join([headers, "\n".join(map(_body, parts))])


def _is_encoded(part: email.message.Message) -> bool:
    return str(part["Content-Transfer-Encoding"]).lower() in {"quoted-printable", "base64"}


def _body(part: email.message.Message) -> str:
    # Decoding takes what was not encoded for bytes of Latin-1.
    payload = part.get_payload(decode=True) if _is_encoded(part) else part.get_payload()
    return payload.decode(errors="replace") if isinstance(payload, bytes) else str(payload)


def of_diffs(
    tree: Tree,
    texts: Iterable[str],
    base: Iterable[str] = (),
    places: Sequence[str] = PLACES,
    *,
    options: DiffOptions = _OPTIONS_OF_NEW,
    blob: Blob | None = None,
) -> Difference:
    """Return what unified diffs, one after the other, change in ``tree`` after those of ``base``.

    With ``blob``, which returns a file's content by its id, the diffs themselves tell what their files were before,
    and ``tree`` is only asked where they do not. Raise UsageError if the lines of a hunk are not in the files.
    """
    applied = _Applied(tree, places, blob)
    for text in base:
        applied.apply(text, options._replace(diff="--base"))
    applied.files = {name: replace(file, before=file.after) for name, file in applied.files.items()}
    left_out: list[str] = []
    for text in texts:
        left_out += applied.apply(text, options)
    files = [
        file
        for file in applied.files.values()
        if file.before != file.after or file.hunks or len(set(file.modes)) > 1
    ]
    return Difference(*_parted(files, left_out), applied.prefixes, applied.layout.place)


def overlaid(tree: Tree, files: Iterable[GivenFile], side: int = 1) -> OverlayTree:
    """Return a tree with files as they are before (``side`` 0) or after their change."""
    given = list(files)
    contents = {file.file: (file.before, file.after)[side] for file in given}
    return OverlayTree(tree, contents, {file.file: file.modes[side] for file in given})


class _Applied:
    """The files of a tree after diffs that are applied one after the other."""

    def __init__(self, tree: Tree, places: Sequence[str], blob: Blob | None) -> None:
        self._tree = tree
        self._places = places
        self._blob = blob
        self.files: dict[str, GivenFile] = {}
        self.layout = Layout(0, PLACES[0])
        self.prefixes = ("a/", "b/")

    def apply(self, text: str, options: DiffOptions) -> list[str]:
        """Apply a diff, and return what is left out."""
        left_out: list[str] = []
        sections_of = list(sections(text, options))
        named = {
            name: section
            for section in sections_of
            for name in (section.old, section.new)
            if name is not None
        }
        layout = layout_of(list(named), lambda name, file: self._is_of(named[name], name, file), self._places)
        self._note(layout, sections_of)
        for section in sections_of:
            name = section.new or section.old
            if name is None or is_of_record(name):
                continue
            files = [None if name is None else layout.file(name) for name in (section.old, section.new)]
            if all(file is None for file in files):
                left_out.append(f"{printed(name)}: {_OUTSIDE}")
                continue
            if section.is_binary:
                left_out.append(f"{printed(name)}: it is binary, which no edit can change; left out.")
                continue
            if any(mode not in {*FILES, LINK} for mode in (*section.modes, section.mode or PLAIN)):
                left_out.append(f"{printed(name)}: {_NOT_A_FILE}")
                continue
            left_out += self._apply_section(section, files, options)
        return left_out

    def _is_of(self, section: FileSection, name: str, file: str) -> bool:
        """Return whether a section is for this file of the package, and not for one outside it."""
        if section.old is None:
            return file.startswith(f"{SERVING}/")
        known_content = self._read(file)
        if known_content is None or self._read(f"{'../' * 2}{name}") is not None:
            return False
        lines = {line.rstrip("\r\n") for line in known_content.decode(errors="replace").split("\n")}
        old = (line.rstrip("\r\n") for hunk in section.hunks for line in hunk.old)
        return self._blob is not None or all(line in lines for line in old)

    def _note(self, layout: Layout, sections_of: Sequence[FileSection]) -> None:
        """Note how the names of the diff lead to the package."""
        self.layout = layout
        for section in sections_of:
            both = (section.old or section.new, section.new or section.old)
            signs = zip(section.signs, both, strict=True)
            self.prefixes = tuple(f"{sign}{layout.leading(name)}" for sign, name in signs)  # type: ignore[assignment]
            if not is_outside(layout.file(both[0] or "") or "../"):
                break

    @property
    def _so_far(self) -> OverlayTree:
        return overlaid(self._tree, self.files.values())

    def _read(self, file: str) -> bytes | None:
        return content(self._so_far, file)

    def _before(self, file: str, section: FileSection, mode: str, options: DiffOptions) -> bytes | None:
        """Return the content of a file that a diff changes."""
        if mode == LINK and section.hunks:  # They have all of it.
            return "".join(line for hunk in section.hunks for line in hunk.old).encode()
        known_content = self._read(file) if mode != LINK else entry(self._so_far, file)[1]
        is_same = not (section.base or section.hunks)
        if (
            self._blob is None
            or is_same
            or (
                known_content is not None
                and section.base
                and object_id(known_content).startswith(section.base)
            )
        ):
            return known_content
        blob = self._blob(section.base) if section.base else None
        if blob is None and not is_outside(file):
            raise UsageError(
                f"{options.diff}: {file}: neither the diff nor the repository tells what it was before",
                advice=f"name the diff's tree with {options.tree}",
            )
        return blob

    def _apply_section(
        self, section: FileSection, files: Sequence[str | None], options: DiffOptions
    ) -> Iterator[str]:
        """Apply a section for one file, and yield why it is left out."""
        old, new = files
        kind = entry(self._so_far, old or "")[0] if old is not None and not section.mode else section.mode
        modes = section.modes or [kind if kind in {*FILES, LINK} else PLAIN]
        before = self._before(old, section, modes[0], options) if old is not None else None
        is_created = old is None and new is not None and self._blob is None
        try:
            if old is not None and before is None:
                raise UsageError(
                    f"{options.diff}: {shown(old)}: no such file in the tree",
                    advice=f"pass the tree that the diff was made on with {options.tree}",
                )
            if is_created and self._read(new or "") is not None:
                raise UsageError(
                    f"{options.diff}: {shown(new or '')}: the diff creates this file, but the tree contains it",
                    advice=f"pass the tree from before the change with {options.earlier}",
                )
            try:
                source = (before or b"").decode()
            except UnicodeDecodeError:
                raise UsageError(f"{old} is not UTF-8", advice="save it as UTF-8 and try again") from None
            after = text_after(old or new or "", source, section.hunks, options).encode()
        except UsageError:
            if not all(file is None or is_outside(file) for file in files):
                raise
            if old is None or old != new:
                yield f"{printed(shown(new or old or ''))}: {_OUTSIDE}"
                return
            self._make(old, None, None, modes, section.hunks)
            return
        if old is not None and (new is None or section.is_renamed) and old != new:
            self._make(old, before, None, modes)
        if new is not None:
            self._make(new, before if new == old else None, after, modes)

    def _make(
        self,
        file: str,
        before: bytes | None,
        after: bytes | None,
        modes: Sequence[str],
        hunks: Sequence[Hunk] = (),
    ) -> None:
        """Change a file, also one that was changed before."""
        first = self.files.get(file)
        if first is not None:
            before, modes, hunks = first.before, (first.modes[0], *modes), (*first.hunks, *hunks)
        self.files[file] = GivenFile(file, before, after, hunks=tuple(hunks), modes=(modes[0], modes[-1]))

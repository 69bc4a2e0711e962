"""The text of a file, and bytes of it again with the encoding, byte order mark and line ends of the file."""

from __future__ import annotations

import codecs
import difflib
from contextlib import suppress

from patchkit.lines import encoding_of

_MARK = b"\xef\xbb\xbf"
_UTF_8 = frozenset({"ascii", "utf-8"})


def newline_of(content: bytes) -> bytes:
    """Return the line ending of a text."""
    return b"\r\n" if content.partition(b"\n")[0].endswith(b"\r") else b"\n"


def decoded(content: bytes) -> str:
    """Return a file's text with plain line ends and without a byte order mark.

    Raise UnicodeDecodeError if it, or what is added to it in UTF-8, is not in the encoding in its coding line.
    """
    encoding = _encoding(content)
    if encoding not in _UTF_8:
        raise UnicodeDecodeError(encoding, content, 0, len(content), "not UTF-8")
    return content.decode("utf-8-sig").replace("\r\n", "\n")


def decoded_alike(*contents: bytes) -> list[str]:
    """Return the texts of versions of one file, whose encoding may be any if it is the same.

    Raise UnicodeDecodeError if they have different ones, or a version is not in UTF-8 although that is its encoding,
    and SyntaxError if Python does not know one.
    """
    encodings = {codecs.lookup(encoding_of(content)).name for content in contents}
    if len(encodings) > 1 or encodings <= _UTF_8:
        return [decoded(content) for content in contents]
    # Each byte is a character, and the same one afterwards.
    return [content.decode("latin-1").replace("\r\n", "\n") for content in contents]


def new_lines(before: bytes, after: bytes) -> list[int]:
    """Return the numbers, from 1, of the lines that are not those of the text before."""
    old, new = before.splitlines(), after.splitlines()
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        index for tag, _, _, start, end in changes if tag != "equal" for index in range(start + 1, end + 1)
    ]


def encoded(text: str, like: bytes) -> bytes:
    """Return a text as bytes, with the encoding, line ends and byte order mark of another."""
    content = text.encode("utf-8" if _encoding(like) in _UTF_8 else "latin-1")
    has_mark = like.startswith(_MARK)
    content = _with_ends(content, like.removeprefix(_MARK))
    return _MARK + content if has_mark else content


def _encoding(content: bytes) -> str:
    with suppress(SyntaxError):  # Python does not know the encoding.
        return codecs.lookup(encoding_of(content)).name
    return "utf-8"


def _with_ends(content: bytes, like: bytes) -> bytes:
    """Return lines with the line ends that they have in another text, and new ones with those of its first line."""
    end = newline_of(like)
    if like.count(b"\r\n") == (like.count(b"\n") if end == b"\r\n" else 0):
        return content.replace(b"\n", end)
    lines, wanted = content.splitlines(keepends=True), like.splitlines(keepends=True)
    plain = [line.rstrip(b"\r\n") for line in lines], [line.rstrip(b"\r\n") for line in wanted]
    result = [
        text + end if line.endswith(b"\n") else text for text, line in zip(plain[0], lines, strict=True)
    ]
    for block in difflib.SequenceMatcher(
        lambda line: not line.strip(), *plain, autojunk=False
    ).get_matching_blocks():
        for index in range(block.size):
            # The last line has an end only if the text has one.
            if lines[block.a + index].endswith(b"\n"):
                ended = wanted[block.b + index]
                result[block.a + index] = ended if ended.endswith(b"\n") else result[block.a + index]
    return b"".join(result)

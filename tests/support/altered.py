"""Mutated JSON texts, patch files and sources; a number selects the mutation."""

from __future__ import annotations

import json
import random
import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**70,
    "",
    "x",
    "..",
    "../x",
    "/etc",
    "a\0b",
    "é",
    [],
    {},
    [[]],
    1.5,
    True,
    "0" * 64,
)
_BYTES = (
    *(b"", b"\x00", b'"', b"'", b'"""', b"\xff", b"{", b"(", b"]", b"..", b"/", b"\\", b"#", b":", b"\t"),
    *(
        b"\r",
        b"\r\n",
        b"\n",
        b"\f",
        b"\x1b[2J",
        b"\xef\xbb\xbf",
        "é".encode(),
        "\u2028".encode(),
        b"$x",
        b"$$",
    ),
)
_WORDS = (
    *(
        b"class",
        b"def",
        b"lambda",
        b"await",
        b"match",
        b"None",
        b"$x",
        b"$...",
        b"...",
        b"*",
        b"0x",
        b"async",
    ),
    *(b"1 if x else y", b"(yield)", b"not", b"f'{x!r:>{y}}'", b"@", b":=", b"pass", b"del", b"import", b"as"),
)


def altered_json(text: bytes, seed: int) -> bytes:
    """Mutate a JSON text: bytes, values, keys or depth."""
    chance = random.Random(seed)
    if chance.random() < 0.4:
        return _with_odd_bytes(text, chance)
    value = json.loads(text)
    others = list(_values(value))
    for _ in range(chance.randint(1, 3)):
        value = _changed(value, chance, others)
    return json.dumps(value).encode()


def _values(value: Any) -> Iterator[Any]:
    yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(below)


def _changed(value: Any, chance: random.Random, others: Sequence[Any]) -> Any:
    """Replace one value or key in a JSON value, often with one of the same kind from elsewhere in it."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.2:
            rest = {k: v for k, v in value.items() if k != key}
            return rest | {chance.choice(["../../x", "x\0", "/x", "more", "srt/x.py"]): value[key]}
        return value | {key: _changed(value[key], chance, others)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        index = chance.randrange(len(value))
        return [*value[:index], _changed(value[index], chance, others), *value[index + 1 :]]
    alike = [other for other in others if type(other) is type(value) and other != value]
    return chance.choice(alike if alike and chance.random() < 0.6 else ODD)


def altered_text(text: bytes, seed: int, parse: Callable[[bytes], object]) -> bytes:
    """Mutate lines, words or bytes of a patch file or source, or nest something deeply; most results parse."""
    chance = random.Random(seed)
    tries = chance.choice([1, 10, 10, 10])
    for _ in range(tries):
        changed = text
        for _ in range(chance.choice([1, 1, 2, 4])):
            # One line, repeated, of brackets, repeated, is enough.
            if len(changed) < 2**20:
                changed = chance.choice(_WAYS)(changed or b"x", chance)
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(changed)
            break
    return changed


def _with_odd_bytes(text: bytes, chance: random.Random) -> bytes:
    raw = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        index = chance.randrange(len(raw) + 1)
        raw[index : index + chance.randint(0, 3)] = chance.choice(_BYTES)
    return bytes(raw)


def _with_lines(text: bytes, chance: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    index, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    way = chance.randrange(5)
    if way == 0:
        del lines[index]
    elif way == 1:
        lines.insert(other, lines[index])
    elif way == 2:
        lines[index], lines[other] = lines[other], lines[index]
    elif way == 3:
        lines[index] = b"    " + lines[index]
    else:
        lines[index] = lines[index][chance.choice([1, 4]) :]
    return b"".join(lines)


def _with_words(text: bytes, chance: random.Random) -> bytes:
    words = [*re.finditer(rb"\w+|[^\w\s]", text)]
    if not words:
        return text
    match = chance.choice(words)
    word = chance.choice([chance.choice(_WORDS), chance.choice(words)[0], b""])
    return text[: match.start()] + word + text[match.end() :]


def _nested(text: bytes, chance: random.Random) -> bytes:
    words = [*re.finditer(rb"\w+", text)]
    if not words:
        return text
    match, times = chance.choice(words), chance.choice([2, 20, 120, 3000])
    opening, closing = chance.choice(
        [(b"(", b")"), (b"[", b"]"), (b"-", b""), (b"{1:", b"}"), (b"", b".a"), (b"", b"()")]
    )
    return text[: match.start()] + opening * times + match[0] + closing * times + text[match.end() :]


def _repeated(text: bytes, chance: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    index = chance.randrange(len(lines))
    return b"".join([*lines[:index], *[lines[index]] * chance.choice([2, 50, 500]), *lines[index:]])


_WAYS = (_with_odd_bytes, _with_lines, _with_lines, _with_words, _with_words, _with_words, _nested, _repeated)

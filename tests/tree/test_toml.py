"""TOML that would take a multiple of its length of memory is refused before it is parsed."""

from __future__ import annotations

import pytest

from patchkit.tree import toml
from patchkit.tree.project import line_length


@pytest.mark.parametrize(
    "text",
    [
        "{} = 1",
        "[{}]",
        "[[{}]]",
        "x = {{ {} = 1 }}",
        "\n\n[t]\n  {} = 1",
    ],
)
@pytest.mark.parametrize("name", ["a", "a-b_c", '"a"', "'a'", '"a.b"'])
@pytest.mark.parametrize("dot", [".", " . ", "\t."])
def test_a_name_of_many_parts_is_refused(text: str, name: str, dot: str) -> None:
    with pytest.raises(toml.TomlError, match="a dotted name has more than 16 parts"):
        toml.read(text.format(dot.join([name] * 17)).encode())
    assert toml.read(text.format(dot.join([name] * 16)).encode())


def test_what_only_looks_like_a_long_name_is_read() -> None:
    calls, lines = "b.c()." * 40 + "d" + ".e" * 40, "a\n." * 40
    text = f"a = \"{calls}\"\nb = {[1.5] * 40}\nc = '''{'a. b, ' * 40}\n{lines}'''\n# {'.' * 40}\n"
    assert set(toml.read(text.encode())) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "text", [b"a = " + b"[" * 5_000, b"a = " + b"{b=" * 5_000, b"\xff", b"a = '", b"#" * 2**21]
)
def test_what_cannot_be_parsed_is_one_error(text: bytes) -> None:
    with pytest.raises(toml.TomlError):
        toml.read(text)


def test_a_long_name_in_a_project_file_sets_no_line_length() -> None:
    text = f"{'.'.join('a' * 20_000)} = 1\n[tool.ruff]\nline-length = 99\n".encode()
    assert line_length([text, b"[tool.ruff]\nline-length = 120\n"]) == 120


def test_a_word_of_a_megabyte_is_searched_once() -> None:
    assert toml.read(b"a" * (toml.MAX_BYTES - 5) + b" = 1")

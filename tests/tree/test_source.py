from __future__ import annotations

import ast

import pytest

from patchkit.plan.resolutions import _normalized
from patchkit.porting.dependencies import _definitions
from patchkit.transaction.passages import _code
from patchkit.tree.index import class_of_annotation
from patchkit.tree.sglang import own_names
from patchkit.tree.source import fault_of, first_line, parsed, parsed_or_none
from patchkit.tree.text import decoded, decoded_alike, encoded, new_lines


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("a = 1\nb = = 2\n", 2, "invalid syntax"),
        ("return 1\n", 1, "'return' outside function"),
        ("a = 1\n<<<<<<< HEAD\na = 2\n=======\na = 3\n>>>>>>> 5e08a1b\n", 2, "conflict markers"),
        ("a = 1\0\n", 1, "null byte"),
        (f"a = {'(' * 90}{'-' * 20000}1{')' * 90}\n", 1, "nested deeper"),
    ],
)
def test_why_python_does_not_compile_a_source(source: str, line: int, reason: str) -> None:
    fault = fault_of(source)
    assert fault is not None
    assert (fault.line, reason in fault.reason) == (line, True)


def test_a_source_that_compiles_has_no_fault_and_is_parsed_once() -> None:
    assert fault_of(b"# coding: latin-1\na = '\xe9'\n") is None
    assert parsed("a = 1\n") is parsed("a = 1\n")


def test_a_statement_begins_with_its_decorators() -> None:
    tree = ast.parse("a = 1\n\n\n@one\n@two\ndef f():\n    pass\n")
    assert [first_line(node) for node in tree.body] == [0, 3]


def test_new_lines_have_the_line_ends_of_a_file_and_its_own_keep_theirs() -> None:
    like = b"\xef\xbb\xbfone\r\ntwo\nthree"
    assert encoded("one\nnew\ntwo\nthree\n", like) == b"\xef\xbb\xbfone\r\nnew\r\ntwo\nthree\r\n"
    assert encoded(decoded(like), like) == like


def test_versions_in_one_other_encoding_are_read_and_in_two_are_not() -> None:
    latin = b"# coding: latin-1\na = '\xe9'\n"
    (text,) = decoded_alike(latin)
    assert encoded(text, latin) == latin
    with pytest.raises(UnicodeDecodeError):
        decoded_alike(latin, b"a = 1\n")


@pytest.mark.parametrize("text", ["a = = 1", "a = '\0'", f"a = {'-' * 20000}1"])
def test_what_is_no_python_or_too_deep_has_no_tree_for_any_reader(text: str) -> None:
    assert parsed_or_none(text) is None
    assert [each.code for each in _code(text.encode())] == [text]
    assert _normalized(text) == text
    assert _definitions("a.py", text.encode()) == {}
    assert class_of_annotation(ast.Constant(value=text)) is None


def test_python_s_warnings_about_a_source_are_not_printed(recwarn: pytest.WarningsRecorder) -> None:
    _normalized("a = '\\d'")
    own_names([b"from sglang.srt import a\nb = '\\d'\n"])
    assert not recwarn.list


def test_a_line_that_a_long_text_has_often_is_no_new_one_beside_one_that_is() -> None:
    before = b"pass\n" * 300
    assert new_lines(before, b"new\n" + before) == [1]

"""A statement's words are compared, renamed and moved, and what is no word of the code stays."""

from __future__ import annotations

import pytest

from patchkit.change.tokens import is_part, renamed, shifted


@pytest.mark.parametrize(
    ("ours", "base", "is_one"),
    [
        ("say('a, b')", "say('a, b, c', d)", True),
        ("say('a, c')", "say('a, b')", False),
        ("get('a')", "get('a.b')", False),
        ("say('b a')", "say('a b')", False),
    ],
)
def test_an_earlier_form_has_no_word_more_also_in_a_message(ours: str, base: str, is_one: bool) -> None:
    assert is_part(ours, base) is is_one


def test_names_are_renamed_and_attributes_and_keywords_are_not() -> None:
    assert renamed("f(a, a=a, b=x.a)  # a\n", {"a": "c"}) == "f(c, a=c, b=x.a)  # a\n"


def test_a_docstring_moves_and_another_string_does_not() -> None:
    text = 'def f():\n    """Say.\n\n    More.\n    """\n    g("""\n    as it is\n""")\n'
    moved = shifted(text, "", "  ")
    assert '  def f():\n      """Say.\n\n      More.\n' in moved
    assert 'g("""\n    as it is\n""")' in moved


@pytest.mark.parametrize("mark", ["\x0c", "\u2028"])
def test_a_string_with_a_separator_of_lines_keeps_its_words_at_another_depth(mark: str) -> None:
    assert shifted(f"    name = 'a{mark}    b'\n", "    ", "") == f"name = 'a{mark}    b'\n"
    long = f'    # {mark}\n    name = f(\n        """a\n    b""")\n'
    assert shifted(long, "    ", "").endswith('"""a\n    b""")\n')

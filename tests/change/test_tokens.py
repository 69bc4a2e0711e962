"""A statement's words are compared, renamed and moved, and what is no word of the code stays."""

from __future__ import annotations

import pytest

from patchkit.change.tokens import renamed, shifted


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

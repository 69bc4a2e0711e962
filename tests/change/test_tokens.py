"""A statement's words are compared, renamed and moved, and what is no word of the code stays."""

from __future__ import annotations

import pytest

from patchkit.change.tokens import ClashError, Group, is_prose, parsed, renamed, shifted, words


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.b(c, d=1)  # e\n", ["a", ".", "b", "(", "c", ",", "d", "=", "1", ")"]),
        ("x := y ** 2 // 3 -> z", ["x", ":=", "y", "**", "2", "//", "3", "->", "z"]),
        ("a <<= b >> c != d", ["a", "<<=", "b", ">>", "c", "!=", "d"]),
        ("1e-5 + 0x1f + 1_000.5", ["1e-5", "+", "0x1f", "+", "1_000.5"]),
        ("f'a {b}' rb\"c\" '''d\ne'''", ["f'a {b}'", 'rb"c"', "'''d\ne'''"]),
        ("a \\\n  b", ["a", "b"]),
        ("...", ["..."]),
        ("# only\n", []),
        ("", []),
    ],
)
def test_the_words_of_a_text(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    ("text", "names", "made"),
    [
        ("f(a, a=a)", {}, "f(a, a=a)"),
        ("a = b  # a", {"a": "b", "b": "a"}, "b = a  # a"),
        ("x.a.b + a.x", {"a": "c"}, "x.a.b + c.x"),
        ("f(a=1, b=a)", {"a": "c"}, "f(a=1, b=c)"),
        ("f(\n    a,\n    a=1,\n)", {"a": "c"}, "f(\n    c,\n    a=1,\n)"),
        ("a == 1", {"a": "c"}, "c == 1"),
        ("'a' + a", {"a": "c"}, "'a' + c"),
        ("[a]", {"a": "c"}, "[c]"),
        ("a", {"a": "c"}, "c"),
    ],
)
def test_the_names_of_a_text_are_replaced(text: str, names: dict[str, str], made: str) -> None:
    assert renamed(text, names) == made


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        (
            "f(a, b=1, *c, **d)",
            [("a", "", False), ("b = 1", "b", True), ("* c", "*", False), ("** d", "**", True)],
        ),
        ("{'a': 1, **b}", [("'a' : 1", "'a'", False), ("** b", "**", True)]),
        ("[a, lambda: b]", [("a", "", False), ("lambda : b", "", False)]),
        ("(a: int = 1, b: int)", [("a : int = 1", "a", True), ("b : int", "b", False)]),
        ("f()", []),
    ],
)
def test_the_elements_between_brackets(text: str, elements: list[tuple[str, str, bool]]) -> None:
    nodes, end = parsed(text)
    (group,) = [node for node in nodes if isinstance(node, Group)]
    assert [(each.code, each.name, each.is_keyword) for each in group.elements] == elements
    assert "".join(node.text for node in nodes) + end == text


@pytest.mark.parametrize(
    "text",
    [
        "f(\n    a,  # one\n    b  # two\n)  # three\n",
        "f(a, (b, [c, {d: e}]),)\n",
        "x = (  # why\n    a,\n    # above\n    b,\n)\n",
        "a + b\n",
        "",
    ],
)
def test_a_text_is_its_nodes_and_its_end(text: str) -> None:
    nodes, end = parsed(text)
    assert "".join(node.text for node in nodes) + end == text


def test_the_comment_behind_an_element_is_its_own() -> None:
    (_, group), _ = parsed("f(\n    a,  # one\n    # above\n    b  # two\n)")
    assert isinstance(group, Group)
    assert [each.comment for each in group.elements] == ["  # one", "  # two"]
    assert [each.comma is not None for each in group.elements] == [True, False]
    assert group.elements[1].text == "\n    # above\n    b"
    assert group.code == "(a , b)"


@pytest.mark.parametrize("text", ["f(a", "f(a]", "f a)", "[(]", "{a: (b}"])
def test_brackets_that_do_not_match_are_a_clash(text: str) -> None:
    with pytest.raises(ClashError, match="its brackets do not match"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "old", "new", "made"),
    [
        ("a()\n  b()\n", "", "    ", "    a()\n      b()\n"),
        ("    a()\n\n    b()\n", "    ", "", "a()\n\nb()\n"),
        ("    a()\n  b()\n", "    ", "", "a()\n  b()\n"),
        ("a()\n", "", "", "a()\n"),
        ("a('''x\ny''')\nb()\n", "", "  ", "  a('''x\ny''')\n  b()\n"),
        ("\n'''x\ny'''\n", "", "  ", "\n  '''x\n  y'''\n"),
    ],
)
def test_lines_get_another_indentation(text: str, old: str, new: str, made: str) -> None:
    assert shifted(text, old, new) == made


@pytest.mark.parametrize(
    ("word", "prose"), [("'a b'", True), ('"a b"', True), ("'a'", False), ("a", False), ("", False)]
)
def test_a_string_of_several_words_is_prose(word: str, prose: bool) -> None:
    assert is_prose(word) is prose

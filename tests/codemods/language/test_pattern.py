from __future__ import annotations

from typing import Any

import libcst as cst
import pytest
from support.programs import program

from patchkit.codemods.language import pattern, syntax
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.placeholders import Bindings, PatternError, placeholders
from patchkit.codemods.language.template import render, render_expression

DESK = program("""
    def lend(book, reader, days=14):
        book = catalogue.find(book)
        log(book)
        if reader.owes(fees):
            refuse(reader)
        reader.take(book, days=days, note="careful")
        return book
""")


def bound(bindings: Bindings) -> dict[str, str]:
    """Return what names are bound to, as source text."""
    texts = {}
    for name, value in bindings.items():
        nodes = value if isinstance(value, tuple) else (value,)
        texts[name] = "".join(map(syntax.code_of, nodes))
    return texts


def find(text: str, source: str = DESK) -> list[dict[str, str]]:
    module = cst.parse_module(source)
    return [bound(match.bindings) for match in Pattern.compile(text).find(module)]


def test_name_stands_for_any_expression() -> None:
    assert find("$desk.find($what)") == [{"desk": "catalogue", "what": "book"}]


def test_same_name_stands_for_the_same_expression() -> None:
    assert find("$x = $_.find($x)") == [{"x": "book"}]
    assert find("$x = $_.find($x)", "novel = catalogue.find(book)\n") == []


def test_underscore_is_not_remembered() -> None:
    assert find("$_.take($_, ...)") == [{}]


def test_expression_matches_inside_any_statement() -> None:
    assert find("reader.owes($what)") == [{"what": "fees"}]


def test_open_arguments_may_be_more_none_or_keywords() -> None:
    source = "take()\ntake(a)\ntake(a, b)\ntake(a, key=b)\n"
    assert len(find("take(...)", source)) == 4
    assert len(find("take(a, ...)", source)) == 3
    assert len(find("take(..., key=$k)", source)) == 1


def test_closed_arguments_have_to_be_all() -> None:
    assert find("reader.take(book)") == []
    assert find("reader.take(book, days=$d)") == []


def test_keywords_match_in_any_order() -> None:
    assert find('$r.take(book, note="careful", days=$d)') == [{"r": "reader", "d": "days"}]


def test_positional_argument_is_not_a_keyword_argument() -> None:
    assert find("$r.take(book, $days, ...)") == []


def test_starred_argument_is_not_a_plain_one() -> None:
    assert find("take($x)", "take(*books)\n") == []
    assert find("take(*$x)", "take(*books)\n") == [{"x": "books"}]


def test_statements_between_are_passed_over() -> None:
    assert find("$x = $_.find($x)\n...\nreturn $x") == [{"x": "book"}]


def test_statements_in_another_order_do_not_match() -> None:
    assert find("return $x\n...\n$x = $_.find($x)") == []


def test_statements_in_a_row_have_to_be_adjacent() -> None:
    assert find("log($x)\nreturn $x") == []


def test_named_run_keeps_the_statements() -> None:
    assert find("log(book)\n$$middle\nreturn book") == [
        {
            "middle": "if reader.owes(fees):\n    refuse(reader)\n"
            'reader.take(book, days=days, note="careful")\n'
        }
    ]


def test_run_may_be_empty() -> None:
    assert find("log($x)\n$$between\nif $_:\n    ...") == [{"x": "book", "between": ""}]


@pytest.mark.parametrize(("source", "starts"), [("", []), ("a\nb\n", [0, 1])])
def test_a_run_alone_is_found_at_each_statement_and_not_behind_the_last(
    source: str, starts: list[int]
) -> None:
    found = Pattern.compile("...").find(cst.parse_module(source))
    assert [(match.start, match.end) for match in found] == [(start, start) for start in starts]


def test_shortest_run_counts() -> None:
    source = "open()\na()\nclose()\nb()\nclose()\n"
    assert find("open()\n$$between\nclose()", source) == [{"between": "a()\n"}]


def test_block_of_dots_is_any_block() -> None:
    assert find("if $r.owes(fees):\n    ...") == [{"r": "reader"}]


def test_block_has_to_match_whole() -> None:
    source = "if late:\n    remind()\n    fine()\n"
    assert find("if late:\n    remind()", source) == []
    assert find("if late:\n    remind()\n    ...", source) == [{}]


def test_if_with_an_else_is_another_statement() -> None:
    source = "if late:\n    fine()\nelse:\n    thank()\n"
    assert find("if late:\n    ...", source) == []
    assert find("if late:\n    ...\nelse:\n    ...", source) == [{}]


def test_elif_is_no_statement_of_its_own() -> None:
    assert find("if late:\n    ...", "if lost:\n    pay()\nelif late:\n    fine()\n") == []


@pytest.mark.parametrize(
    "source",
    [
        "due = today+14  # two weeks\n",
        "due = (\n    today\n    + 14\n)\n",
        "due: int = today + 14\n",
        "# when\n\ndue = ( today + (14) )\n",
    ],
)
def test_layout_comments_and_annotations_do_not_matter(source: str) -> None:
    assert find("due = $day + 14", source) == [{"day": "today"}]


@pytest.mark.parametrize(
    ("text", "without", "with_it"),
    [
        ("return $x", "return\n", "return 1\n"),
        ("raise $x", "raise\n", "raise late\n"),
        ("yield $x", "yield\n", "yield 1\n"),
        ("raise late from $x", "raise late\n", "raise late from 1\n"),
        ("days[$x:]", "days[:]\n", "days[1:]\n"),
        ("days[:$x]", "days[:]\n", "days[:1]\n"),
        ("assert late, $x", "assert late\n", "assert late, 1\n"),
        ("try:\n    lend()\nexcept $x:\n    ...", "try:\n    lend()\nexcept:\n    wait()\n",
         "try:\n    lend()\nexcept Late:\n    wait()\n"),
    ],
)  # fmt: skip
def test_a_name_stands_for_no_expression_that_is_left_out(text: str, without: str, with_it: str) -> None:
    assert find(text, without) == []
    assert len(find(text, with_it)) == 1


def test_an_assignment_to_two_names_is_none_with_an_annotation() -> None:
    assert find("due = $late = 1", "due: int = 1\n") == []
    assert find("due = $late", "due: int\n") == []


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("f($x, y)", {"f", "y"}),
        ("$x = f()\n$$run\ny.z()", {"f", "y", "z"}),
        ("def f(a, $_): ...", {"f"}),
        ("def $f(a): ...", None),
        ("x = 1\ndef f(): ...", None),
        ("g = lambda a: f", None),
    ],
)
def test_the_names_that_a_function_with_a_match_has(text: str, needed: set[str] | None) -> None:
    assert Pattern.compile(text).needed == needed


def test_a_pattern_of_any_parameters_needs_none_of_the_names_beside_them() -> None:
    source = "def total(other):\n    return 0\n\n\nself.total()\n"
    assert find("def total(self, $_):\n    ...", source) == [{}]


@pytest.mark.parametrize(
    "source", ["due += today + 14\n", "due: int\n", "due = late = today + 14\n", "due = today\n"]
)
def test_another_statement_does_not_match(source: str) -> None:
    assert find("due = $day + 14", source) == []


def test_quotes_do_not_matter_but_the_text_does() -> None:
    assert find("say('hello')", 'say("hello")\n') == [{}]
    assert find("say('hello')", 'say("Hello")\n') == []


def test_function_is_found_whatever_its_decorators_and_return_type() -> None:
    source = "@cached\nasync def total(self) -> int:\n    return 0\n"
    assert find("def total(self):\n    ...", source) == [{}]
    assert find("def total($_):\n    ...", source) == [{}]


def test_function_of_another_name_is_passed_over() -> None:
    source = "def mean(self):\n    return 0\n\n\ndef total(self):\n    return 1\n"
    assert find("def total(self):\n    $$body", source) == [{"body": "return 1\n"}]


def test_function_with_other_parameters_does_not_match() -> None:
    source = "def total(self, *more):\n    return 0\n"
    assert find("def total(self):\n    ...", source) == []
    assert find("def total($_):\n    ...", source) == [{}]


def test_matches_come_in_source_order_with_their_places() -> None:
    module = cst.parse_module("a = 1\nb = 2\nif a:\n    c = 3\n")
    matches = Pattern.compile("$name = $value").find(module)
    assert [(match.start, match.end) for match in matches] == [(0, 1), (1, 2), (0, 1)]
    assert matches[2].path == (("body", 2), ("body", None))


def test_given_names_stand_for_what_they_are_bound_to() -> None:
    module = cst.parse_module("log(book)\nlog(reader)\n")
    (match,) = Pattern.compile("log($x)").find(module, given={"x": cst.Name("reader")})
    assert syntax.code_of(syntax.node_at(module, match.path)) == "log(reader)"


def test_loose_pattern_passes_over_more_statements_everywhere() -> None:
    source = "if late:\n    trace()\n    fine()\n    trace()\n    tell()\n    trace()\nlog()\nthank()\n"
    text = "if late:\n    fine()\n    tell()\nthank()"
    module = cst.parse_module(source)
    assert Pattern.compile(text).find(module) == []
    (match,) = Pattern.compile(text).loose.find(module)
    assert (match.start, match.end) == (0, 3)


def test_loose_pattern_keeps_the_order_and_asks_for_all() -> None:
    loose = Pattern.compile("if late:\n    fine()\n    tell()").loose
    for body in ("    tell()\n    fine()\n", "    fine()\n"):
        assert loose.find(cst.parse_module(f"if late:\n{body}")) == []


def test_loose_expression_is_the_expression() -> None:
    assert find("f($x)", "y = f(1)\n") == [{"x": "1"}]
    assert Pattern.compile("f($x)").loose.is_expression


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The patterns and nodes that searches compare."""
    tried: list[Any] = []
    whole = pattern.match_node

    def noting(*args: Any) -> Any:
        tried.append(args)
        return whole(*args)

    monkeypatch.setattr(pattern, "match_node", noting)
    return tried


def test_search_of_a_long_block_tries_nothing_twice(tried: list[Any]) -> None:
    module = cst.parse_module("if late:\n" + "    fine()\n" * 100)
    assert Pattern.compile("if late:\n    ...\n    fine()\n    fine()\n    tell()").loose.find(module) == []
    calls = [node for _, node, *_ in tried if isinstance(node, cst.SimpleStatementLine)]
    assert len(calls) <= 4 * 100


@pytest.mark.parametrize(
    "source",
    [
        "fine()\n" * 9 + "if tell:\n    fine()\n",
        "tell()\n" + "fine()\n" * 9,
        "fine()\n" * 9 + "tell = 1\n",
        "fine()\n" * 9 + "a; tell()\n",
    ],
    ids=["another statement", "above", "another line", "two on a line"],
)
@pytest.mark.parametrize("below", ["tell()", "while tell:\n    fine()", "with tell:\n    fine()"])
def test_search_tries_nothing_where_a_statement_is_not_there_or_not_below(
    tried: list[Any], source: str, below: str
) -> None:
    assert find(f"fine()\n...\n{below}", source) == []
    assert tried == []


@pytest.mark.parametrize("text", ["", "\n", "# nothing but a comment"])
def test_empty_pattern_is_refused(text: str) -> None:
    with pytest.raises(PatternError, match="empty"):
        Pattern.compile(text)


@pytest.mark.parametrize("text", ["if $x", "a = = b", "return return", "$(x)"])
def test_pattern_that_is_not_python_is_refused(text: str) -> None:
    with pytest.raises(PatternError, match="not Python"):
        Pattern.compile(text)


@pytest.mark.parametrize(
    "text", ["...", "log($x)\n...", "if $x:\n    ...", "f(...)", "with $f($x, ...): pass"]
)
def test_pattern_that_passes_over_something(text: str) -> None:
    assert Pattern.compile(text).passes_over


@pytest.mark.parametrize("text", ["log($x)", "log($x)\n$$rest", "x[...] = 1", "f(key=...)"])
def test_pattern_that_names_all_that_it_matches(text: str) -> None:
    assert not Pattern.compile(text).passes_over


def test_one_expression_is_told_from_statements() -> None:
    assert Pattern.compile("f($x)").is_expression
    assert Pattern.compile("f($x)").is_call
    assert not Pattern.compile("$x.y").is_call
    assert not Pattern.compile("x = f($x)").is_expression
    assert not Pattern.compile("f(x)\nf(x)").is_expression
    assert not Pattern.compile("$$run").is_expression


def test_placeholders_are_listed_as_they_are_written() -> None:
    assert placeholders("$x = f($_, $$rest)\n$x") == {"$x", "$_", "$$rest"}
    assert placeholders("x = 1") == frozenset()


def written(template: str, **expressions: str) -> str:
    bindings: dict[str, Any] = {name: cst.parse_expression(text) for name, text in expressions.items()}
    return "".join(map(syntax.code_of, render(template, bindings)))


def test_template_writes_what_names_stand_for() -> None:
    assert written("$a = $b + 1", a="due", b="today") == "due = today + 1\n"


def test_template_without_names_is_written_as_it_is() -> None:
    assert written("# why\nif late:  # or lost\n    fine()\n") == "# why\nif late:  # or lost\n    fine()\n"


def test_template_parenthesises_what_would_bind_otherwise() -> None:
    assert written("$a * 2", a="today + 1") == "(today + 1) * 2\n"
    assert written("f($a)", a="today + 1") == "f(today + 1)\n"
    assert written("f($a)", a="today, 1") == "f((today, 1))\n"
    assert written("f($a, 1)", a="(b for b in shelf)") == "f((b for b in shelf), 1)\n"


def test_template_writes_runs_back_with_their_comments() -> None:
    desk = cst.parse_module("def start():\n    # first\n    open()  # now\n\n    # then\n    close()\n").body[
        0
    ]
    kept = syntax.statements_of(syntax.node_at(desk, (("body", None),)))
    (statement,) = render("if ready:\n    $$run", {"run": tuple(kept or ())})
    assert syntax.code_of(statement) == program("""
        if ready:
            # first
            open()  # now

            # then
            close()
    """)


def test_blank_lines_of_a_template_stay_blank_where_it_is_indented() -> None:
    body = render("open()\n\n# then\nclose()", {})
    block = cst.If(cst.Name("ready"), cst.IndentedBlock(body))
    assert syntax.code_of(block) == "if ready:\n    open()\n\n    # then\n    close()\n"


def test_template_with_an_empty_run_still_is_a_block() -> None:
    (statement,) = render("if ready:\n    $$run", {"run": ()})
    compile(syntax.code_of(statement), "t.py", "exec")


@pytest.mark.parametrize("template", ["f($b)", "$b", "$$b", "$$a"])
def test_template_with_an_unbound_or_mistaken_name_is_refused(template: str) -> None:
    with pytest.raises(PatternError, match="is not bound to"):
        render(template, {"a": cst.Name("x")})


def test_template_that_is_not_python_with_an_expression_is_refused() -> None:
    with pytest.raises(PatternError, match=r"`\$a = 1` is not Python where \$a is `f\(x\)`"):
        written("$a = 1", a="f(x)")


def test_template_of_a_run_as_an_expression_is_refused() -> None:
    with pytest.raises(PatternError, match="is not bound to an expression"):
        render("f($a)", {"a": ()})


@pytest.mark.parametrize("template", ["x = 1", "f(x)\ng(x)", ""])
def test_template_that_is_not_one_expression_is_refused(template: str) -> None:
    with pytest.raises(PatternError, match="not one expression"):
        render_expression(template, {})

from __future__ import annotations

import libcst as cst
import pytest
from support.programs import program

from patchkit.codemods.language import syntax
from patchkit.codemods.language.layout import LINE_LENGTH, append, fit, fit_statement

LONG = "some_rather_long_name_of_a_reader"


def fitted(source: str) -> str:
    """Fit what the last statement, however deep, assigns."""
    module = cst.parse_module(program(source))
    path, _ = [(path, node) for path, node in syntax.descend(module) if isinstance(node, cst.Assign)][-1]
    return fit(module, (*path, ("value", None))).code


@pytest.mark.parametrize(
    "source",
    [
        "due = lend(book, reader)\n",
        f"due = lend({LONG}, {LONG}, abcd)\n",
        f"due = {LONG} + {LONG} + {LONG}\n",
        f"due = lend()  # {LONG} {LONG} {LONG}\n",
        f"due = lend(\n    {LONG},  # who\n    {LONG}, {LONG}, {LONG}\n)\n",
    ],
)
def test_what_fits_or_cannot_be_broken_or_has_comments_stays(source: str) -> None:
    assert fitted(source) == source


def test_line_of_the_longest_allowed_length_stays() -> None:
    source = "due = lend(" + "x" * (LINE_LENGTH - 12) + ")\n"
    assert len(source) - 1 == LINE_LENGTH
    assert fitted(source) == source
    assert fitted(source.replace("lend", "lends")) != source.replace("lend", "lends")


def test_long_call_gets_an_argument_a_line() -> None:
    assert fitted(f"due = lend({LONG}, days={LONG}, note={LONG})\n") == program(f"""
        due = lend(
            {LONG},
            days={LONG},
            note={LONG},
        )
    """)


def test_depth_counts() -> None:
    source = f"""
        class Desk:
            def lend(self):
                if self.open:
                    due = lend({LONG}, {LONG})
    """
    assert fitted(source) == program(f"""
        class Desk:
            def lend(self):
                if self.open:
                    due = lend(
                        {LONG},
                        {LONG},
                    )
    """)


def test_long_argument_of_a_long_call_is_broken_too() -> None:
    assert fitted(f"due = lend(find({LONG}, {LONG}, {LONG}), 1)\n") == program(f"""
        due = lend(
            find(
                {LONG},
                {LONG},
                {LONG},
            ),
            1,
        )
    """)


def test_long_choice_gets_a_line_a_branch() -> None:
    assert fitted(f"due = {LONG} if {LONG} is None else {LONG}\n") == program(f"""
        due = (
            {LONG}
            if {LONG} is None
            else {LONG}
        )
    """)


def test_statement_that_assigns_nothing_stays() -> None:
    module = cst.parse_module(f"return_to({LONG}, {LONG}, {LONG})\nimport {LONG}{LONG}{LONG}\n")
    assert fit_statement(module, (("body", 1),)).code == module.code
    assert fit_statement(module, (("body", 0),)).code.count("\n") == 6


def appended(source: str) -> str:
    """Append the argument ``days=14`` to the one call."""
    call = cst.parse_expression(program(source).strip())
    assert isinstance(call, cst.Call)
    closing: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace("")
    args = list(call.args)
    if args:
        closing = args[-1].whitespace_after_arg
        args[-1] = args[-1].with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
    fresh = cst.parse_expression("f(days=14)")
    assert isinstance(fresh, cst.Call)
    grown, closing = append(args, fresh.args[0], call.whitespace_before_args, closing)
    last = grown[-1].with_changes(whitespace_after_arg=closing)
    return syntax.code_of(call.with_changes(args=(*grown[:-1], last)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("lend()", "lend(days=14)"),
        ("lend(book)", "lend(book, days=14)"),
        ("lend(book, reader)", "lend(book, reader, days=14)"),
        ("lend(book, reader,)", "lend(book, reader, days=14,)"),
        ("lend(book,\n     reader)", "lend(book,\n     reader,\n     days=14)"),
        ("lend(\n    book, reader\n)", "lend(\n    book, reader, days=14\n)"),
        ("lend(\n    book,\n)", "lend(\n    book,\n    days=14,\n)"),
        ("lend(\n    book\n)", "lend(\n    book,\n    days=14\n)"),
        ("lend(\n    book,\n    reader,\n)", "lend(\n    book,\n    reader,\n    days=14,\n)"),
        (
            "lend(\n    book,  # which\n    reader,  # who\n)",
            "lend(\n    book,  # which\n    reader,  # who\n    days=14,\n)",
        ),
        (
            "lend(\n    book,  # which\n    reader  # who\n)",
            "lend(\n    book,  # which\n    reader,  # who\n    days=14\n)",
        ),
        (
            "lend(\n    book,\n    reader,\n    # and that is all\n)",
            "lend(\n    book,\n    reader,\n    # and that is all\n    days=14,\n)",
        ),
        ("lend(book,  # which\n     reader)", "lend(book,  # which\n     reader,\n     days=14)"),
        ("lend(book, reader  # who\n)", "lend(book, reader,  # who\ndays=14\n)"),
    ],
)
def test_newcomer_is_laid_out_as_the_list_is(before: str, after: str) -> None:
    assert appended(before) == after
    compile(after, "call.py", "eval")

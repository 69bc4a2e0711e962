from __future__ import annotations

import libcst as cst

from patchkit.codemods.language.comment import annotate, comments_in, lost, put_above

SHELVE = "# new books first\nshelve(book)  # the librarian does this\n"


def code(statement: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(statement)


def statement(source: str) -> cst.SimpleStatementLine:
    module = cst.parse_module("start()\n" + source)
    (_, found) = module.body
    assert isinstance(found, cst.SimpleStatementLine)
    return found


def test_note_goes_directly_above() -> None:
    noted = annotate(statement(SHELVE), "ours")
    assert code(noted) == "# new books first\n# ours\nshelve(book)  # the librarian does this\n"


def test_note_that_is_there_is_not_repeated() -> None:
    once = annotate(statement(SHELVE), "ours")
    assert code(annotate(once, "ours")) == code(once)


def test_empty_note_is_not_written() -> None:
    assert code(annotate(statement(SHELVE), "")) == SHELVE


def test_nothing_to_put_above() -> None:
    assert code(put_above(statement(SHELVE), [])) == SHELVE


def test_comments_in_source_order() -> None:
    assert comments_in([statement(SHELVE)]) == ["# new books first", "# the librarian does this"]


def test_comments_that_a_rewrite_loses_are_counted() -> None:
    before = statement("lend(\n    book,  # TODO\n    reader,  # TODO\n    days,  # at most 30\n)\n")
    after = statement("lend(book, reader, days)  # TODO\n")
    assert lost([before], [after]) == ["# TODO", "# at most 30"]


def test_comments_that_a_rewrite_keeps_are_not_lost() -> None:
    assert lost([statement(SHELVE)], [annotate(statement(SHELVE), "ours")]) == []


def test_program_without_comments_loses_none() -> None:
    assert lost([statement("shelve(book)\n")], [statement("lend(book)\n")]) == []

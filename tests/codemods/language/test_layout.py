from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from support.programs import program

from patchkit.codemods.language import syntax
from patchkit.codemods.language.imports import Import
from patchkit.codemods.language.layout import Style, lay_out, with_argument
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import resolve
from patchkit.codemods.language.statements import CompiledVariant, Statements

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = "some_rather_long_name_of_the_reader"
STYLE = Style(88, "library")


def laid_out(
    source: str,
    change: Callable[[cst.Module], cst.Module],
    style: Style = STYLE,
) -> str:
    """Return the source with a change to its syntax tree, laid out."""
    before = cst.parse_module(program(source))
    return lay_out(before, change(before), style).code


def rewriting(find: str, code: str) -> Callable[[cst.Module], cst.Module]:
    """Have a rewrite of the one match, wherever it is."""

    def change(module: cst.Module) -> cst.Module:
        (scope,) = resolve(module, "")
        finding = Statements((CompiledVariant(Pattern.compile(find), code),)).examine(scope, "")
        assert finding.rewrite is not None, finding.reason
        return finding.rewrite()

    return change


def importing(*codes: str) -> Callable[[cst.Module], cst.Module]:
    """Have imports added."""

    def change(module: cst.Module) -> cst.Module:
        for code in codes:
            module = Import(code).add(module)
        return module

    return change


# ---- statements


def test_long_call_is_hung() -> None:
    change = rewriting("lend($book)", f"lend($book, {LONG}, {LONG})")
    assert laid_out("due = lend(book)\n", change) == program(f"""
        due = lend(
            book, {LONG}, {LONG}
        )
    """)


def test_call_too_long_to_hang_gets_an_argument_a_line() -> None:
    change = rewriting("lend($book)", f"lend($book, {LONG}, days={LONG}, late=True)")
    assert laid_out("due = lend(book)\n", change) == program(f"""
        due = lend(
            book,
            {LONG},
            days={LONG},
            late=True,
        )
    """)


def test_depth_counts() -> None:
    source = """
        class Desk:
            def lend(self):
                if self.open:
                    due = lend(1)
                elif self.late:
                    pass
    """
    change = rewriting("lend(1)", f"lend({LONG}, {LONG})")
    assert laid_out(source, change) == program(f"""
        class Desk:
            def lend(self):
                if self.open:
                    due = lend(
                        {LONG}, {LONG}
                    )
                elif self.late:
                    pass
    """)


def test_so_does_that_of_a_case() -> None:
    source = """
        match desk:
            case 1 if lend(1):
                due = lend(2)
    """
    change = rewriting("lend(2)", f"lend({LONG}, {LONG})")
    assert laid_out(source, change) == program(f"""
        match desk:
            case 1 if lend(1):
                due = lend(
                    {LONG}, {LONG}
                )
    """)


def test_what_fits_on_a_line_is_on_one() -> None:
    source = f"""
        due = lend(
            {LONG}, {LONG}, reader
        )
    """
    change = rewriting(f"lend($_, {LONG}, $reader)", "lend($reader)")
    assert laid_out(source, change) == "due = lend(reader)\n"


def test_statement_that_moved_deeper_is_broken_where_it_is_now_too_long() -> None:
    line = "due = lend(" + "x" * 40 + ", " + "y" * 32 + ")"
    assert len(line) + 4 > STYLE.width >= len(line)
    change = rewriting("due = $value", "if desk.open:\n    $$found")
    assert laid_out(f"{line}\n", change).splitlines()[:2] == ["if desk.open:", "    due = lend("]


def test_long_header_is_broken_and_its_body_stays() -> None:
    source = """
        if late(1):
            a  =  1   # as it was
        elif late(2):
            b  =  2
    """
    change = rewriting("late(2)", f"late({LONG}) and late({LONG}, 2)")
    assert laid_out(source, change) == program(f"""
        if late(1):
            a  =  1   # as it was
        elif late({LONG}) and late(
            {LONG}, 2
        ):
            b  =  2
    """)


@pytest.mark.parametrize("header", ["if", "while"])
def test_the_else_of_a_header_that_is_broken_stays(header: str) -> None:
    source = f"{header} late(2):\n    a  =  1\nelse:\n    b  =  2\n"
    change = rewriting("late(2)", f"late({LONG}) and late({LONG}, 2)")
    broken = f"{header} late({LONG}) and late(\n    {LONG}, 2\n):\n"
    assert laid_out(source, change) == f"{broken}    a  =  1\nelse:\n    b  =  2\n"


def test_a_long_definition_below_other_code_is_broken_and_the_blank_lines_stay() -> None:
    source = "a = 1\ndef lend(book):\n    return 2\n\n\n\nb  =  2\n"
    change = rewriting("def lend(book):\n    return 2", f"def lend(book, {LONG}, {LONG}):\n    return 2")
    header = f"def lend(\n    book, {LONG}, {LONG}\n):\n"
    assert laid_out(source, change) == f"a = 1\n{header}    return 2\n\n\n\nb  =  2\n"


def test_a_short_choice_beside_a_long_one_gets_no_parentheses() -> None:
    change = rewriting("lend(days=$n)", f"lend(days=$n if {LONG} is not None else {LONG}, of=a if b else c)")
    made = laid_out("due = lend(days=14)\n", change)
    assert "    days=(\n" in made
    assert "    of=a if b else c,\n" in made


def test_what_a_formatter_changes_beside_a_line_does_not_count() -> None:
    call = f"lend({LONG}, {LONG}, 1, 2)"
    hung = f"lend(\n        {LONG}, {LONG}, 1, 2\n    )"
    source = "def f():\n    'Its quotes stay.'\n    return {}\n"
    change = rewriting("'Its quotes stay.'\nreturn 1", f"'Its quotes stay.'\nreturn {call}")
    assert laid_out(source.format(1), change) == source.format(hung)
    source = "class Desk:\n    days = 1\n    def f({}):\n        return 2\n"
    change = rewriting("def f(self):\n    return 2", f"def f(self, {LONG}, {LONG}, a):\n    return 2")
    hung = f"\n        self,\n        {LONG},\n        {LONG},\n        a,\n    "
    assert laid_out(source.format("self"), change) == source.format(hung)


def test_long_choice_of_an_argument_is_in_parentheses() -> None:
    change = rewriting("lend(days=$n)", f"lend(days=$n if {LONG} is not None else {LONG})")
    assert laid_out("due = lend(days=14)\n", change) == program(f"""
        due = lend(
            days=(
                14
                if {LONG} is not None
                else {LONG}
            )
        )
    """)


def test_line_length_is_the_style_s() -> None:
    change = rewriting("lend($book)", f"lend($book, {LONG}, {LONG})")
    wide = laid_out("due = lend(book)\n", change, Style(120, "library"))
    assert wide == f"due = lend(book, {LONG}, {LONG})\n"


def test_lines_that_are_wider_show_the_width() -> None:
    change = rewriting("lend($book, ...)", f"lend($book, {LONG}, {LONG})")
    assert laid_out(f"due = lend(book, {'x' * 90})\n", change) == f"due = lend(book, {LONG}, {LONG})\n"


def test_comments_inside_stay() -> None:
    source = """
        due = lend(
            book,  # which
            reader,
        )
    """
    change = rewriting("lend($book, $reader)", "lend($book, $reader, 1)")
    assert "# which" in laid_out(source, change)


@pytest.mark.parametrize(
    "source",
    [
        "due = lend( book )\n",
        "due = lend(book ,1)\n",
        "due = lend('book')\n",
        "due = lend(\n  book)\n",
        "due=lend(book); late = 1\n",
    ],
)
def test_place_that_was_laid_out_otherwise_is_left_to_its_owner(source: str) -> None:
    change = rewriting("lend($book, ...)", f"lend($book, {LONG}, {LONG})")
    before = cst.parse_module(source)
    assert lay_out(before, change(before), STYLE).code == change(before).code


@pytest.mark.parametrize(
    "neighbour",
    [
        "a  =  1",
        "b = {'x':1}",
        f"c = {LONG} + {LONG} + {LONG}",
        "def f( x ): return x",
        '"""  A note.\n  """',
    ],
)
def test_neighbours_stay_byte_for_byte(neighbour: str) -> None:
    change = rewriting("lend($book)", f"lend($book, {LONG}, {LONG})")
    source = f"{neighbour}\ndue = lend(book)\n{neighbour}\n"
    made = laid_out(source, change)
    assert made.startswith(f"{neighbour}\ndue = lend(\n")
    assert made.endswith(f")\n{neighbour}\n")


def test_tabs_are_left_alone() -> None:
    source = "if desk:\n\tdue = lend(book)\n"
    before = cst.parse_module(source)
    changed = rewriting("lend($book)", f"lend($book, {LONG}, {LONG})")(before)
    assert lay_out(before, changed, STYLE).code == changed.code


def test_what_nothing_was_done_to_stays() -> None:
    before = cst.parse_module("import b\nimport a\nx  =  1\n")
    assert lay_out(before, before, STYLE).code == before.code


def test_code_for_an_empty_file_is_laid_out() -> None:
    code = f"due=lend( {LONG},{LONG},{LONG} )\n"
    made = laid_out("", lambda module: module.with_changes(body=cst.parse_module(code).body))
    assert made.startswith("due = lend(\n    some_")


# ---- imports


SORTED = """
    import logging

    import torch
    from numpy import array

    from library.desk import Desk
    from library.shelf import Shelf

    logger = logging.getLogger(__name__)
"""


@pytest.mark.parametrize(
    ("code", "above"),
    [
        ("from patchkit.runtime import api_1 as patchkit_api", "from numpy import array"),
        ("from library.reader import Reader", "from library.desk import Desk"),
        ("import os", "import logging"),
        ("import numpy", "\nimport numpy\nimport torch"),
    ],
)
def test_import_goes_to_its_section(code: str, above: str) -> None:
    made = laid_out(SORTED, importing(code))
    assert code in made
    assert above in made
    lines = [line for line in made.splitlines() if line]
    if not above.startswith("\n"):
        assert lines[lines.index(code) - 1] == above
    assert sorted(lines) == sorted([*(line for line in program(SORTED).splitlines() if line), code])


def test_section_that_is_not_there_is_made() -> None:
    source = """
        import logging

        from library.desk import Desk
    """
    assert laid_out(source, importing("from patchkit.runtime import api_1")) == program("""
        import logging

        from patchkit.runtime import api_1

        from library.desk import Desk
    """)


def test_names_of_one_module_are_imported_together() -> None:
    made = laid_out(SORTED, importing("from library.desk import Clerk"))
    assert "from library.desk import Clerk, Desk\n" in made
    assert made.count("library.desk") == 1


def test_comment_above_an_import_comes_once() -> None:
    made = laid_out("import ast\nimport sys\n", importing("# for paths\nimport os"))
    assert made == "import ast\n# for paths\nimport os\nimport sys\n"


def test_what_opens_the_file_stays_at_its_top() -> None:
    source = """
        # Licence.

        from library.desk import Desk
    """
    made = laid_out(source, importing("import torch"))
    assert made.startswith("# Licence.\n")
    assert made.endswith("import torch\n\nfrom library.desk import Desk\n")


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nimport logging\n",
        "from library.desk import Desk\nimport torch\n",
        "import logging\n\n\n\nimport torch\n",
        "import logging, torch\n",
    ],
)
def test_imports_that_were_not_sorted_are_left_to_their_owner(source: str) -> None:
    before = cst.parse_module(source)
    changed = importing("from patchkit.runtime import api_1")(before)
    assert lay_out(before, changed, STYLE).code == changed.code


def test_an_import_goes_below_the_blank_line_of_its_run() -> None:
    made = laid_out(
        "x = 1\n\nimport b\n\n# ours\nimport c\n",
        lambda m: m.with_changes(body=(*m.body, *cst.parse_module("import a\n").body)),
    )
    assert made == "x = 1\n\nimport a\nimport b\n\n# ours\nimport c\n"


def test_only_the_run_that_got_an_import_is_sorted() -> None:
    source = """
        import torch

        if torch.cuda:
            pass
        import z
        import a
    """
    made = laid_out(
        source, lambda m: m.with_changes(body=(*cst.parse_module("import numpy\n").body, *m.body))
    )
    assert made.startswith("import numpy\nimport torch\n")
    assert made.endswith("import z\nimport a\n")


# ---- lists


def appended(source: str) -> str:
    """Append the argument ``days=14`` to the one call."""
    call = cst.parse_expression(program(source).strip())
    assert isinstance(call, cst.Call)
    fresh = cst.parse_expression("f(days=14)")
    assert isinstance(fresh, cst.Call)
    return syntax.code_of(with_argument(call, fresh.args[0]))


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

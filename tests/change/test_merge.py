"""The change between two versions of a program is made in a third, drifted one, or the reason is reported."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from patchkit.change.edits import EditLog, Outcome
from patchkit.change.merge import Merge
from patchkit.change.outline import Item, NoOutlineError, outline
from patchkit.change.regions import Region

LIBRARY = """
import os
from shelf import books, cards


class Desk:
    \"\"\"Lends books.\"\"\"

    days = 14

    def lend(self, book, reader):
        # A book goes out once.
        if book.out:
            raise ValueError(book)
        due = today() + self.days
        book.out = True
        note(book, due)
        return due

    def take(self, book):
        book.out = False
        return book


def fee(days):
    return days * 2
"""


def dedented(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def program(text: str = LIBRARY, *changes: tuple[str, str]) -> str:
    source = dedented(text)
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def nowhere(_: Item) -> None:
    return None


def ported(base: str, theirs: str, ours: str) -> tuple[str, list[tuple[str, str]]]:
    whole, merge = outline(ours), Merge(nowhere)
    merge.make(outline(base), outline(theirs), whole)
    return merge.output.render(whole), [(edit.outcome.value, edit.site) for edit in merge.log.edits]


def outcomes(base: str, theirs: str, ours: str) -> set[str]:
    return {outcome for outcome, _ in ported(base, theirs, ours)[1]}


DUE = ("        due = today() + self.days\n", "        due = today() + self.days * reader.factor\n")
SUITE = [
    DUE,
    ("        note(book, due)\n", "        note(book, due)\n        tell(reader, due)\n"),
    ("        # A book goes out once.\n", "        # A book goes out once, also by post.\n"),
    ("        if book.out:\n", "        if book.out and not reader.is_clerk:\n"),
    (
        "            raise ValueError(book)\n",
        "            raise ValueError(book)\n        elif book.lost:\n            return None\n",
    ),
    ("from shelf import books, cards\n", "from shelf import books, cards, stamps\n"),
    ("    days = 14\n", "    days = 14\n    fees = True\n"),
    ("    def take(self, book):\n", "    def take(self, book, when=None):\n"),
    ("        book.out = False\n", ""),
    ("    return days * 2\n", "    return days * 3 if days > 7 else 0\n"),
    ("\n\ndef fee(days):\n", "\n\ndef pay(sum):\n    return sum\n\n\ndef fee(days):\n"),
]

MOVES = (
    "        book.out = True\n        note(book, due)\n        return due\n",
    "        note(book, due)\n        book.out = True\n        return due\n",
)


@pytest.mark.parametrize(
    "change", SUITE, ids=[new.strip().splitlines()[-1] for _, new in SUITE[:-3]] + ["gone", "fee", "pay"]
)
def test_on_its_own_tree_a_change_gives_its_result_byte_for_byte(change: tuple[str, str]) -> None:
    theirs = program(LIBRARY, change)
    made, found = ported(program(), theirs, program())
    assert made == theirs
    assert {outcome for outcome, _ in found} == {"landed"}


@pytest.mark.parametrize("change", [*SUITE, MOVES])
def test_where_it_is_already_nothing_changes(change: tuple[str, str]) -> None:
    theirs = program(LIBRARY, change)
    made, _ = ported(program(), theirs, theirs)
    assert made == theirs


@given(st.sets(st.integers(0, len(SUITE) - 1)), st.sets(st.integers(0, len(SUITE) - 1)))
def test_changes_of_both_sides_come_to_both(mine: set[int], other: set[int]) -> None:
    theirs = program(LIBRARY, *(SUITE[each] for each in sorted(mine)))
    ours = program(LIBRARY, *(SUITE[each] for each in sorted(other)))
    made, _ = ported(program(), theirs, ours)
    assert (
        outline(made).code == outline(program(LIBRARY, *(SUITE[each] for each in sorted(mine | other)))).code
    )


def test_statements_that_another_tree_has_between_do_not_matter() -> None:
    ours = program(
        LIBRARY,
        ("        book.out = True\n", "        book.out = True\n        count(book)\n        shelve()\n"),
    )
    made, found = ported(program(), program(LIBRARY, SUITE[1]), ours)
    assert "        note(book, due)\n        tell(reader, due)\n" in made
    assert found == [("landed", "Desk.lend")]


def test_a_statement_that_went_deeper_changes_where_it_is() -> None:
    ours = program(LIBRARY, (DUE[0], "        with clock():\n            due = today() + self.days\n"))
    made, _ = ported(program(), program(LIBRARY, DUE), ours)
    assert "            due = today() + self.days * reader.factor\n" in made


def test_a_renamed_parameter_is_followed_in_new_code() -> None:
    ours = program().replace("reader", "member")
    made, _ = ported(program(), program(LIBRARY, DUE, SUITE[1]), ours)
    assert "due = today() + self.days * member.factor" in made
    assert "tell(member, due)" in made
    assert "reader" not in made


def test_an_element_beside_which_others_are_missing_comes_all_the_same() -> None:
    base = "lend(\n    book,\n    days=14,\n    fees=True,\n)\n"
    theirs = "lend(\n    book,\n    days=14,\n    fees=True,\n    post=False,\n)\n"
    made, found = ported(base, theirs, "lend(\n    book,\n    days=14,\n)\n")
    assert made == "lend(\n    book,\n    days=14,\n    post=False,\n)\n"
    assert found == [("changed", "")]


def test_what_both_change_in_two_ways_is_a_conflict_and_stays() -> None:
    ours = program(LIBRARY, (DUE[0], "        due = later(self.days)\n"))
    made, found = ported(program(), program(LIBRARY, DUE), ours)
    assert made == ours
    assert found == [("conflict", "Desk.lend")]


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "texts"),
    [
        ("a = f(1)\n", "a = f(2)\n", "a = f(3)\n", ("a = f(1)\n", "a = f(3)\n", "a = f(2)\n")),
        (
            'def f():\n    """Lends books."""\n    a()\n',
            'def f():\n    """A desk of its own kind."""\n    a()\n',
            'def f():\n    """Nothing else here."""\n    a()\n',
            ('"""Lends books."""\n', '"""Nothing else here."""\n', '"""A desk of its own kind."""\n'),
        ),
        (
            "def f():\n    a()\n",
            'def f():\n    """A desk."""\n    a()\n',
            'def f():\n    """Another."""\n    a()\n',
            ("", '"""Another."""\n', '"""A desk."""\n'),
        ),
        (
            "if a:\n    b()\n    c()\n",
            "if a and b:\n    b()\n    c()\n",
            "if a or c:\n    b()\n    c()\n",
            ("if a:\n", "if a or c:\n", "if a and b:\n"),
        ),
        (
            "def f(a):\n    b()\n",
            "def f(a, c=1):\n    b()\n",
            "def f(a, c=2):\n    b()\n",
            ("def f(a):\n", "def f(a, c=2):\n", "def f(a, c=1):\n"),
        ),
        ("a()\nb(1)\nc()\n", "a()\nc()\n", "a()\nb(1, 2)\nc()\n", ("b(1)\n", "b(1, 2)\n", "")),
    ],
)
def test_a_conflict_has_the_text_of_each_version(
    base: str, theirs: str, ours: str, texts: tuple[str, str, str]
) -> None:
    merge, whole = Merge(nowhere), outline(ours)
    merge.make(outline(base), outline(theirs), whole)
    (edit,) = merge.log.edits
    assert (edit.outcome, edit.base_text, edit.ours_text, edit.wanted) == (Outcome.CONFLICT, *texts)
    assert edit.region is not None
    assert edit.place is edit.region.inside
    assert texts[1].split("\n")[0] in ours.splitlines()[edit.line - 1]
    assert merge.output.render(whole) == ours


MOVED = {
    "down": ("abcd", "bcad", "abcde", "bcade"),
    "up": ("abcd", "dabc", "abcde", "dabce"),
    "up, with a new one": ("abcd", "dabnc", "abcde", "dabnce"),
    "beside a new one of this tree": ("abcd", "acbd", "abcxd", "acbxd"),
}


@pytest.mark.parametrize(("base", "theirs", "ours", "result"), MOVED.values(), ids=MOVED)
def test_statements_that_move(base: str, theirs: str, ours: str, result: str) -> None:
    texts = [
        "def f():\n" + "".join(f"    {name}()\n" for name in row) for row in (base, theirs, ours, result)
    ]
    made, _ = ported(*texts[:3])
    assert made == texts[3]


def test_code_that_goes_and_says_more_there_is_a_conflict() -> None:
    base = program()
    theirs = program(LIBRARY, ("        note(book, due)\n", ""))
    ours = program(LIBRARY, ("        note(book, due)\n", "        note(book, due, reader)\n"))
    assert ported(base, theirs, ours) == (ours, [("conflict", "Desk.lend")])


def test_a_call_that_goes_and_has_fewer_arguments_there_is_a_conflict() -> None:
    base = program(LIBRARY, ("        note(book, due)\n", "        note(book, due, reader)\n"))
    theirs = program(LIBRARY, ("        note(book, due)\n", ""))
    assert ported(base, theirs, program()) == (program(), [("conflict", "Desk.lend")])


@pytest.mark.parametrize(
    "ours",
    [
        "def f():\n    a = 1\n    own = 0\n    d = 4\n",
        "def f():\n    a = 1\n    own = 0\n    again = 0\n    c = 7\n    d = 4\n",
        "def f():\n    a = 1\n",
    ],
)
def test_a_conflict_of_what_is_not_there_is_behind_what_stands_before_it(ours: str) -> None:
    base = "def f():\n    a = 1\n    b = 2\n    c = 3\n    d = 4\n"
    merge, whole = Merge(nowhere), outline(ours)
    merge.make(outline(base), outline(base.replace("b = 2", "b = 5")), whole)
    (edit,) = merge.log.edits
    assert edit.region == Region(whole.children[0], 1, 1)


def test_a_function_that_is_not_there_is_no_site() -> None:
    source = program()
    ours = source[: source.index("    def take")] + source[source.index("\n\ndef fee") :]
    made, found = ported(source, program(LIBRARY, SUITE[8]), ours)
    assert (made, found) == (ours, [("no-site", "Desk.take")])


def test_a_function_that_comes_where_another_of_its_name_is_is_a_conflict() -> None:
    theirs = program(LIBRARY, SUITE[10])
    ours = program(LIBRARY, ("\n\ndef fee", "\n\ndef pay(coins):\n    return coins + 1\n\n\ndef fee"))
    assert outcomes(program(), theirs, ours) == {"conflict"}


def test_an_order_that_counts_is_said() -> None:
    base = "def f(a):\n    b = a\n    return b\n"
    theirs = "def f(a):\n    b = a\n    log(b)\n    return b\n"
    ours = "def f(a):\n    b = a\n    b = half(b)\n    return b\n"
    made, found = ported(base, theirs, ours)
    assert "log(b)" in made
    assert found == [("changed", "f")]


@pytest.mark.parametrize(
    ("added", "own", "outcome"),
    [
        ("b = twice(b)", "b = half(b)", "conflict"),
        ("self.limit = read(a)", "self.limit = 40", "conflict"),
        ("if a:\n        b = 1", "b = 1 if a else b", "conflict"),
        ("def g():\n        return 1", "g = other", "conflict"),
        ("if b is None:\n        note(a)", "if b is None:\n        b = 1", "conflict"),
        ("total += twice(b)", "total += half(b)", "changed"),
        ("c = twice(b)", "d = half(b)", "landed"),
        ("b.shelve()", "count(b)", "changed"),
        ("note(a)", "count(b)", "landed"),
    ],
)
def test_code_that_assigns_what_code_of_the_tree_alone_at_its_place_assigns_is_a_conflict(
    added: str, own: str, outcome: str
) -> None:
    base = "def f(self, a):\n    b = a\n    return b\n"
    theirs, ours = (base.replace("    return", f"    {code}\n    return") for code in (added, own))
    made, found = ported(base, theirs, ours)
    assert found == [(outcome, "f")]
    assert (made == ours) is (outcome == "conflict")


def test_an_import_of_a_name_that_this_tree_imports_from_elsewhere_is_a_conflict() -> None:
    base = "import os\n\nx = 1\n"
    theirs = base.replace("import os\n", "import os\nfrom shelf import stamp\n")
    ours = base.replace("import os\n", "import os\nfrom wax import stamp\n")
    assert ported(base, theirs, ours) == (ours, [("conflict", "")])


CHAIN = "def f(x):\n    if x == 1:\n        y = 1\n    else:\n        y = 2\n    return y\n"


@pytest.mark.parametrize(
    ("own", "added", "outcome"),
    [
        ("x == 3", "x == 2", "landed"),
        ("x in (3, 4)", "x == 2", "landed"),
        ("x in (2, 4)", "x == 2", "conflict"),
        ("x > 3", "x > 2", "conflict"),
        ("is_npu", "not is_cuda", "changed"),
    ],
)
def test_a_branch_comes_beside_one_of_this_tree_if_both_cannot_be_taken(
    own: str, added: str, outcome: str
) -> None:
    theirs, ours = (
        CHAIN.replace("    else:", f"    elif {test}:\n        y = 3\n    else:") for test in (added, own)
    )
    assert ported(CHAIN, theirs, ours)[1] == [(outcome, "f")]


def test_a_branch_stays_behind_the_branch_that_tests_what_the_one_above_it_tests() -> None:
    base = "if a:\n    y = 1\nelif c:\n    y = 2\n"
    theirs = base.replace("elif c", "elif b:\n    y = 3\nelif c")
    ours = "if d:\n    y = 1\nelif a:\n    y = 4\nelif c:\n    y = 2\n"
    assert ported(base, theirs, ours)[0] == ours.replace("elif c", "elif b:\n    y = 3\nelif c")


@pytest.mark.parametrize("guard", ["check(a)", "assert a", "if not a:\n        return None"])
@pytest.mark.parametrize("head", ["def f(a):\n", 'def f(a):\n    """Do it."""\n'])
def test_a_guard_at_the_start_of_a_function_comes_before_statements_of_this_tree(
    guard: str, head: str
) -> None:
    base = f"{head}    c = 1\n    return c\n"
    theirs = base.replace("    c = 1", f"    {guard}\n    c = 1")
    ours = base.replace("    c = 1", "    import lib\n    d = lib.open()\n    c = 1")
    assert ported(base, theirs, ours)[0] == ours.replace("    import", f"    {guard}\n    import")


@pytest.mark.parametrize("own", ["a(x)\n        b(x)", "a(x)\n        b(x)\n        a(x)"])
def test_a_statement_between_two_that_are_in_a_branch_there_goes_into_the_branch(own: str) -> None:
    base = "def f(x):\n" + "".join(f"    {line.strip()}\n" for line in own.splitlines()) + "    return x\n"
    theirs = base.replace("    b(x)", "    m(x)\n    b(x)")
    ours = f"def f(x):\n    if on:\n        {own}\n    return x\n"
    made, found = ported(base, theirs, ours)
    assert (made, found) == (ours.replace("        b(x)", "        m(x)\n        b(x)"), [("changed", "f")])


def test_a_statement_between_two_of_which_each_is_in_a_branch_of_its_own_there_is_a_conflict() -> None:
    base = "def f(x):\n    a(x)\n    b(x)\n"
    ours = "def f(x):\n    if on:\n        a(x)\n    if off:\n        b(x)\n"
    assert ported(base, base.replace("    b(x)", "    m(x)\n    b(x)"), ours) == (ours, [("conflict", "f")])


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "outcome"),
    [
        ("check(book)\n", "check(book, reader)\n", "check(book, self)\n", "conflict"),
        ("check(book)\n", "check(book, k=reader)\n", "check(book, self)\n", "changed"),
        ("check(book)\n", "check(book, reader)\n", "check(book, k=self)\n", "changed"),
        ("check([book])\n", "check([book, reader])\n", "check([book, self])\n", "changed"),
        ("check(book, g(1, 2))\n", "check(book)\n", "check(book, g(1))\n", "conflict"),
        ("x = a\n", "x = a and b > 1\n", "x = a and (b > 1 or c)\n", "conflict"),
        ("x = a\n", "x = a and (b > 1 or c)\n", "x = a and b > 1\n", "conflict"),
        ("x = a\n", "x = a and b > 1\n", "x = a and (c or d)\n", "changed"),
    ],
)
def test_two_elements_of_which_each_may_be_a_form_of_the_other_are_a_conflict(
    base: str, theirs: str, ours: str, outcome: str
) -> None:
    assert outcomes(base, theirs, ours) == {outcome}


def test_strings_of_several_lines_keep_theirs_at_another_indent() -> None:
    base = "def f():\n    a(1)\n    return 1\n"
    theirs = 'def f():\n    a(1)\n    say("""\nas it is\n  here\n""")\n    return 1\n'
    ours = "def f():\n    if on:\n        a(1)\n"
    made, _ = ported(base, theirs, ours)
    assert 'say("""\nas it is\n  here\n""")' in made


def test_what_is_refused_is_not_made_and_its_neighbours_are() -> None:
    base, theirs, ours = outline(program()), outline(program(LIBRARY, SUITE[1], SUITE[9])), outline(program())
    comes = next(item for item in theirs.walk() if "tell(" in item.head)
    merge = Merge(nowhere, EditLog({(comes, ""): (Outcome.UNMET, "it is refused")}))
    merge.make(base, theirs, ours)
    assert merge.output.render(ours) == program(LIBRARY, SUITE[9])
    assert {(edit.outcome, edit.reason) for edit in merge.log.edits} == {
        (Outcome.UNMET, "it is refused"),
        (Outcome.LANDED, ""),
    }


@pytest.mark.parametrize("text", ["if x\n", "x = 1\f\n", "(" * 300 + ")" * 300])
def test_what_cannot_be_followed_has_no_outline(text: str) -> None:
    with pytest.raises(NoOutlineError):
        outline(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "# only this\n",
        "if a: b\nelse: c\n",
        "x = 1; y = 2\n\n\n",
        "@d\n# why\nclass C:\n\n    def f(self): return 1\n    # end\n",
        "try:\n    a\nexcept E as e:  # so\n    b\nelse:\n    c\nfinally:\n\n    # last\n    d\n",
        "for a in b:\n    pass\nelse:\n    c\nwhile x:\n    y\n",
        "if (\n    a\n):\n    b\nelif c:\n    d\nelse:\n    if e:\n        f\n",
        "match x:\n    case 1:\n        y\n",
        "match (\n    x\n):  # so\n\n    # one\n    case (\n        1\n    ):\n        y\n    # last\n    case _: z\n",
        "match x:\n    case 1: y\n    case _:\n        z\n",
        's = """\n  a\n"""\n\n\n# tail\n',
    ],
)
def test_the_texts_of_an_outline_are_the_file(text: str) -> None:
    assert outline(text).text == text


def test_what_stands_beside_a_conflict_is_left_with_it() -> None:
    ours = program(
        LIBRARY,
        (DUE[0], "        due = self.until()\n"),
        (
            "    def take",
            "    def until(self):\n        due = today() + self.days\n        return due\n\n    def take",
        ),
    )
    merge, whole = Merge(nowhere), outline(ours)
    merge.make(
        outline(program()),
        outline(program(LIBRARY, (DUE[0], "        due = other(1, 2, 3)\n        due = check(due)\n"))),
        whole,
    )
    assert merge.output.render(whole) == ours
    assert {edit.outcome for edit in merge.log.edits} == {Outcome.CONFLICT}


def test_a_change_that_takes_another_back_is_there_on_the_tree_before() -> None:
    before = program()
    after = program(
        LIBRARY,
        (
            DUE[0],
            "        if self.open:\n            due = today()\n        else:\n            due = later(self)\n",
        ),
    )
    assert ported(after, before, before) == (before, [("already", "Desk.lend")])


def test_an_import_from_which_more_is_taken_there_keeps_that() -> None:
    base, theirs = "from shelf import books\nx = 1\n", "x = 1\n"
    made, _ = ported(base, theirs, "from shelf import books, cards\nx = 1\n")
    assert made == "from shelf import cards\nx = 1\n"


@pytest.mark.parametrize(
    ("block", "indent"),
    [
        ("try:\n{}except ImportError:\n    books = None\n", "    "),
        ("def f():\n{}    return books\n", "    "),
        ("class Desk:\n    def f(self):\n{}        return books\n", "        "),
        ("{}\n\ndef f():\n    return books\n", ""),
    ],
)
def test_a_name_of_an_import_that_is_not_there_comes_at_the_indent_of_the_block(
    block: str, indent: str
) -> None:
    base, theirs, ours, made = (
        block.format("".join(f"{indent}{line}\n" for line in lines))
        for lines in (
            ("import os", "from shelf import books"),
            ("import os", "from shelf import books, cards"),
            ("import os",),
            ("import os", "from shelf import cards"),
        )
    )
    found, ((outcome, _),) = ported(base, theirs, ours)
    assert (found, outcome) == (made, "landed")


def test_an_argument_that_goes_and_has_a_comment_there_is_a_conflict() -> None:
    base = program("note(\n    book,\n    due,\n)\n")
    ours = program("note(\n    book,\n    # By post.\n    due,\n    own,\n)\n")
    assert ported(base, program("note(\n    book,\n)\n"), ours) == (ours, [("conflict", "")])


def test_what_went_into_a_helper_is_a_conflict_that_names_it() -> None:
    ours = program(
        LIBRARY,
        ("        note(book, due)\n", "        self.tell(book, due)\n        shelve()\n"),
        ("    def take", "    def tell(self, book, due):\n        note(book, due)\n\n    def take"),
    )
    theirs = program(LIBRARY, ("        note(book, due)\n", "        note(book, due, reader)\n"))
    merge, whole = Merge(nowhere), outline(ours)
    merge.make(outline(program()), outline(theirs), whole)
    assert merge.output.render(whole) == ours
    assert [edit.reason for edit in merge.log.edits] == [
        "the changed statement is not in this tree: it is in Desk.tell"
    ]


def test_a_renamed_local_is_followed_in_what_goes() -> None:
    theirs = program(LIBRARY, ("        note(book, due)\n", ""))
    ours = program().replace("reader", "member").replace("due", "until")
    made, found = ported(program(), theirs, ours)
    assert made == ours.replace("        note(book, until)\n", "")
    assert found == [("landed", "Desk.lend")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        book.out = True\n", "        book.out = True\n        self.account(book)\n"),
        ("        note(book, due)\n", "        note(book, due, reader)\n"),
        ("            raise ValueError(book)\n", "            return None\n"),
    ],
    ids=["a statement was added", "a statement was edited", "a statement was replaced"],
)
def test_a_method_that_goes_and_was_edited_there_is_a_conflict(old: str, new: str) -> None:
    source = program()
    theirs = source[: source.index("    def lend")] + source[source.index("    def take") :]
    ours = program(LIBRARY, (old, new))
    assert ported(source, theirs, ours) == (ours, [("conflict", "Desk.lend")])


def test_a_block_that_goes_and_lacks_a_line_there_goes_and_that_is_said() -> None:
    theirs = "def f(b):\n    n = b.total\n    return n\n"
    ours = theirs.replace("    return", "    if b.lens is None:\n        n = bound(b)\n    return")
    base = ours.replace("    return", "        log(n)\n    return")
    assert ported(base, theirs, ours) == (theirs, [("changed", "f")])


def test_a_function_that_goes_and_is_another_there_is_a_conflict() -> None:
    theirs = program()
    theirs = theirs[: theirs.index("\n\ndef fee")]
    ours = program(
        LIBRARY,
        (
            "    return days * 2\n",
            "    late = days - 14\n    if late < 0:\n        return 0\n    return late\n",
        ),
    )
    assert ported(program(), theirs, ours) == (ours, [("conflict", "fee")])


def test_a_statement_that_moves_is_as_it_is_there_at_its_new_place() -> None:
    ours = program(LIBRARY, ("        note(book, due)\n", "        note(book, due, reader)\n"))
    theirs = program(LIBRARY, MOVES)
    made, found = ported(program(), theirs, ours)
    assert made == theirs.replace("note(book, due)", "note(book, due, reader)")
    assert found == [("changed", "Desk.lend")]


def test_a_statement_that_moves_and_is_not_there_does_not_come() -> None:
    ours = program(LIBRARY, ("        note(book, due)\n", ""))
    made, found = ported(program(), program(LIBRARY, MOVES), ours)
    assert (made, found) == (ours, [("conflict", "Desk.lend")])


def test_many_fields_of_which_none_is_as_it_was_are_told_by_their_names() -> None:
    base = "class Options:\n" + "".join(f"    field_{n}: int = {n}\n" for n in range(250))
    theirs = base.replace("field_77: int = 77", "field_77: int = 7700")
    ours = base.replace(": int", ": Flag[int]")
    made, found = ported(base, theirs, ours)
    assert made == ours.replace("= 77\n", "= 7700\n")
    assert found == [("changed", "Options")]


LATER = (
    "        due = today() + self.days\n        book.out = True\n        note(book, due)\n",
    "        due = today() + self.days\n        with clock():\n            book.out = True\n"
    "        note(book, due)\n        count(book)\n",
)


def test_what_comes_between_statements_that_are_not_there_is_a_conflict() -> None:
    base = program(LIBRARY, LATER)
    theirs = base.replace("        with clock", "        start = now()\n        with clock").replace(
        "        note(book, due)\n", "        tell(book, now() - start)\n        note(book, due)\n"
    )
    ours = base
    for line in LATER[1].splitlines(keepends=True):
        ours = ours.replace(line, "" if "count" not in line else "        lent(book)\n")
    made, found = ported(base, theirs, ours)
    assert made == ours
    assert {outcome for outcome, _ in found} == {"conflict"}


def test_what_comes_last_does_not_come_behind_a_return() -> None:
    base = "def f(x):\n    if x:\n        a(x)\n"
    ours = "def f(x):\n    return a(x)\n"
    assert ported(base, f"{base}    b(x)\n", ours) == (ours, [("conflict", "f")])


def test_what_comes_beside_what_came_too_and_is_there_is_put_there() -> None:
    theirs = program(
        LIBRARY,
        ("        book.out = True\n", "        first(book)\n        second(book)\n        book.out = True\n"),
    )
    ours = program(LIBRARY, ("        book.out = True\n", "        first(book)\n        book.is_out(True)\n"))
    made, found = ported(program(), theirs, ours)
    assert "        first(book)\n        second(book)\n" in made
    assert "conflict" not in {outcome for outcome, _ in found}


GIVEN = ["a", "b", "*c", "k=1", "m=2", "**d"]
TAKEN = ["a", "b", "e=1", "*c", "k", "m=2", "**d"]


def listed(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=4)


@pytest.mark.parametrize(
    ("form", "names"), [("f({})\n", GIVEN), ("def f({}):\n    return 1\n", TAKEN)], ids=["call", "signature"]
)
@given(data=st.data())
def test_what_comes_out_is_valid(form: str, names: list[str], data: st.DataObject) -> None:
    versions = [form.format(", ".join(data.draw(listed(names)))) for _ in range(3)]
    try:
        for version in versions:
            outline(version)
    except NoOutlineError:
        assume(False)
    made, _ = ported(*versions)
    outline(made)


def documented(text: str) -> tuple[str, str]:
    return ("    def take(self, book):\n", f'    def take(self, book):\n        """{text}"""\n')


def test_a_docstring_that_both_add_is_there_once_or_a_conflict() -> None:
    theirs, other = (program(LIBRARY, documented(text)) for text in ("Take it.", "Take it back."))
    assert ported(program(), theirs, theirs.replace("Take it.", "Take it.\n        ")) == (
        theirs.replace("Take it.", "Take it.\n        "),
        [("already", "Desk.take")],
    )
    assert ported(program(), theirs, other) == (other, [("conflict", "Desk.take")])


def test_a_docstring_comes_first_whatever_the_tree_has_there() -> None:
    ours = program(LIBRARY, ("        book.out = False\n", "        count(book)\n        book.out = False\n"))
    made, found = ported(program(), program(LIBRARY, documented("Take it.")), ours)
    assert '"""Take it."""\n        count(book)\n' in made
    assert found == [("landed", "Desk.take")]


def test_docstrings_that_both_rewrite_are_a_conflict_of_three_and_not_two() -> None:
    texts = "Take it.", "Books come in.", "What was lent is back."
    base, theirs, ours = (program(LIBRARY, documented(text)) for text in texts)
    merge, whole = Merge(nowhere), outline(ours)
    merge.make(outline(base), outline(theirs), whole)
    assert merge.output.render(whole) == ours
    (edit,) = merge.log.edits
    sides = [f'"""{texts[at]}"""\n' for at in (0, 1, 2)]
    assert [edit.base_text, edit.wanted, edit.ours_text] == sides


def test_a_value_that_both_give_a_class_is_a_conflict() -> None:
    theirs, ours = (
        program(LIBRARY, ("    days = 14\n", f"    days = 14\n    fee = {fee}\n")) for fee in (1, 2)
    )
    assert ported(program(), theirs, ours) == (ours, [("conflict", "Desk")])


COMMENTED = ("        book.out = True\n", "        book.out = True  # lent\n")
DRIFTS = {
    "the statement is another": "        book.out = reader.card(book, today())\n",
    "the statement is not there": "",
    "the comment is another": "        book.out = True  # ours\n",
}


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
def test_a_comment_that_does_not_come_is_not_said_to_be_there(drift: str) -> None:
    ours = program(LIBRARY, (COMMENTED[0], drift))
    assert ported(program(), program(LIBRARY, COMMENTED), ours) == (ours, [("kept", "Desk.lend")])


def test_a_comment_with_a_line_separator_is_one_line() -> None:
    base = program(LIBRARY, ("# A book goes out once.", "# Once.\n        # Twice."))
    theirs = program(LIBRARY, ("# A book goes out once.", "# Twice."))
    ours = program(LIBRARY, ("# A book goes out once.", "# Not\u2028# Once.\n        # Twice."))
    assert ported(base, theirs, ours) == (ours, [("already", "Desk.lend")])


NOTED = "def f():\n    a()\n    # Once.\n    b()\n"


@pytest.mark.parametrize(
    ("theirs", "own", "made", "outcome"),
    [
        ("    # Once.\n    # Or twice.\n    b()\n", "", "    # Or twice.\n    b()\n", "landed"),
        ("    # Now.\n    # Once.\n    b()\n", "", "    # Now.\n    b()\n", "landed"),
        ("    # Once.\n    c()\n    # Now.\n    b()\n", "", "    c()\n    # Now.\n    b()\n", "changed"),
        ("    # Twice.\n    b()\n", "", "    # Twice.\n    b()\n", "changed"),
        (
            "    # Once.\n    # Now.\n    b()\n",
            "    # Ours.\n",
            "    # Ours.\n    # Now.\n    b()\n",
            "changed",
        ),
        (
            "    # Now.\n    # Once.\n    b()\n",
            "    # Ours.\n",
            "    # Now.\n    # Ours.\n    b()\n",
            "changed",
        ),
        ("    # Twice.\n    b()\n", "    # Ours.\n", "    # Ours.\n    b()\n", "kept"),
    ],
)
def test_a_new_comment_comes_where_this_tree_has_removed_or_replaced_the_one_beside_it(
    theirs: str, own: str, made: str, outcome: str
) -> None:
    changed, ours, result = (
        NOTED.replace("    # Once.\n    b()\n", text) for text in (theirs, f"{own}    b()\n", made)
    )
    found, outcomes_found = ported(NOTED, changed, ours)
    assert found == result
    assert outcome in dict(outcomes_found)
    assert ported(NOTED, changed, found)[0] == found


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        ("# the end\n# of it\n", ""),
        ("# an end\n", "this tree has removed the comment at the end of the file that the change replaces"),
    ],
)
def test_a_new_comment_comes_at_the_end_of_a_file_where_this_tree_has_removed_the_one_there(
    theirs: str, reason: str
) -> None:
    whole, merge = outline("x = 1\n"), Merge(nowhere)
    merge.make(outline("x = 1\n# the end\n"), outline(f"x = 1\n{theirs}"), whole)
    assert merge.output.render(whole) == f"x = 1\n{theirs.removeprefix('# the end' + chr(10))}"
    assert [edit.reason for edit in merge.log.edits] == [reason]


@pytest.mark.parametrize(
    ("theirs", "ours", "loses"),
    [
        ("x = 1  # new\n", "x = 1 + y\n", True),
        ("x = (\n    1\n)\n", "x = 1 + y\n", False),
        ("# new\nx = 1\n", "# ours\nx = 1\n", True),
    ],
)
def test_an_edit_of_a_comment_that_is_not_made_tells_whether_a_comment_is_missing(
    theirs: str, ours: str, loses: bool
) -> None:
    base = "# old\nx = 1\n" if theirs.startswith("#") else "x = 1\n"
    merge = Merge(nowhere)
    merge.make(outline(base), outline(theirs), outline(ours))
    assert [(edit.outcome, edit.loses_comment) for edit in merge.log.edits] == [(Outcome.KEPT, loses)]


def test_a_comment_above_that_is_another_there_is_kept_and_said() -> None:
    theirs, ours = (
        program(LIBRARY, ("# A book goes out once.", comment)) for comment in ("# Only once.", "# Ours.")
    )
    assert ported(program(), theirs, ours) == (ours, [("kept", "Desk.lend")])


def test_code_that_is_there_without_the_comment_of_the_change_is_told_from_both() -> None:
    theirs = program(LIBRARY, ("        book.out = True\n", "        book.out = 1  # lent\n"))
    ours = program(LIBRARY, ("        book.out = True\n", "        book.out = 1\n        count()\n"))
    assert ported(program(), theirs, ours)[1] == [("kept", "Desk.lend")]
    commented = ours.replace("book.out = 1\n", "book.out = 1  # lent\n")
    assert ported(program(), theirs, commented)[1] == [("already", "Desk.lend")]


@pytest.mark.parametrize(
    "form",
    ["        self.note(book=book, until=due)\n", "        if due:\n            note(book, due, reader)\n"],
)
def test_what_goes_and_is_there_in_another_form_is_a_conflict(form: str) -> None:
    theirs = program(LIBRARY, ("        note(book, due)\n", ""))
    ours = program(LIBRARY, ("        note(book, due)\n", form))
    assert ported(program(), theirs, ours) == (ours, [("conflict", "Desk.lend")])


def test_what_goes_and_went_is_already_gone_whatever_else_came_there() -> None:
    theirs = program(LIBRARY, ("        note(book, due)\n", ""))
    ours = program(LIBRARY, ("        note(book, due)\n", "        shelve(reader.card)\n"))
    assert ported(program(), theirs, ours) == (ours, [("already", "Desk.lend")])


def test_a_statement_that_stands_elsewhere_in_the_block_is_not_what_comes() -> None:
    base = "def f(x):\n    tell(x)\n    a(x)\n    b(x)\n    c(x)\n"
    theirs = base.replace("    b(x)\n", "    tell(x)\n")
    ours = base.replace("    b(x)\n", "    while x:\n        x = other(x)\n")
    assert ported(base, theirs, ours) == (ours, [("conflict", "f")])


END = "x = 1\n# the end\n"


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "made"),
    [
        (END, f"{END}y = 2\n", f"w = 0\n{END}", f"w = 0\n{END}y = 2\n"),
        (END, f"{END}y = 2\n", f"w = 0\n{END}# ours\n", f"w = 0\n{END}y = 2\n# ours\n"),
        (f"{END}y = 2\n", END, f"w = 0\n{END}y = 2\n", f"w = 0\n{END}"),
        (END, "x = 1\n# an end\n", f"w = 0\n{END}", "w = 0\nx = 1\n# an end\n"),
        (END, "x = 1\n", f"w = 0\n{END}", "w = 0\nx = 1\n"),
    ],
)
def test_a_comment_at_the_end_of_a_file_follows_and_is_there_once(
    base: str, theirs: str, ours: str, made: str
) -> None:
    assert ported(base, theirs, ours)[0] == made


def test_a_comment_at_the_end_that_is_another_there_is_kept_and_said() -> None:
    ours = "w = 0\nx = 1\n# ours\n"
    assert ported(END, END.replace("the", "an"), ours) == (ours, [("kept", "")])


REPLACED = ("        x = h(b)\n        return x\n", "        y = g(b)\n        return y\n")
REPLACED_AT_4 = [textwrap.indent(textwrap.dedent(each), "    ") for each in REPLACED]
IN_BLOCKS = {
    "function": "{}",
    "branch": "        if b:\n{}        else:\n            pass\n",
    "other branch": "        if b:\n            pass\n        else:\n{}",
    "loop": "        for each in b:\n{}",
    "handler": "        try:\n            b()\n        except ValueError:\n{}",
    "context": "        with b:\n{}",
    "nested function": "        def inner(b):\n{}        return inner\n",
}


def in_block(block: str, statements: str) -> str:
    frame = IN_BLOCKS[block]
    inner = statements if frame == "{}" else textwrap.indent(statements, "    ")
    return f"class A:\n    @cached\n    def f(self, b):\n        # Why.\n{frame.format(inner)}"


@pytest.mark.parametrize("block", IN_BLOCKS)
@pytest.mark.parametrize(
    "own",
    [
        "        use(b)\n",
        "        # Ours.\n        use(x)\n",
        "        if b:\n            use(b)\n",
        "        # Ours.\n",
    ],
)
def test_code_of_this_tree_between_replaced_statements_is_a_conflict(block: str, own: str) -> None:
    base, theirs = (in_block(block, statements) for statements in REPLACED)
    ours = in_block(block, REPLACED[0].replace("        return", f"{own}        return"))
    made, found = ported(base, theirs, ours)
    assert (made, [outcome for outcome, _ in found]) == (ours, ["conflict"])


def test_a_comment_of_this_tree_above_what_is_replaced_stays_and_that_is_said() -> None:
    base, theirs = (program(f"def f(b):\n    first()\n{statements}") for statements in REPLACED_AT_4)
    own = ("    x = h(b)\n", "\n    # Ours.\n    x = h(b)\n")
    made, found = ported(base, theirs, base.replace(*own))
    assert (made, found) == (
        theirs.replace("    y = g(b)\n", "\n    # Ours.\n    y = g(b)\n"),
        [("changed", "f")],
    )


def test_statements_that_are_replaced_where_this_tree_has_them_elsewhere_are_changed_and_that_is_said() -> (
    None
):
    base = "def f(b):\n    first(b, 1)\n    second(b, 2)\n    third(b, 3)\n"
    theirs = base.replace("    third(b, 3)\n", "    other = b\n    done(other)\n")
    ours = "def f(b):\n    third(b, 3)\n    first(b, 1)\n    second(b, 2)\n"
    made, found = ported(base, theirs, ours)
    assert (made, found) == (
        ours.replace("    third(b, 3)\n", "    other = b\n    done(other)\n"),
        [("changed", "f")],
    )


def test_a_statement_that_moves_past_code_that_uses_its_names_is_moved_and_that_is_said() -> None:
    base = "def f(b):\n    x = h(b)\n    first(1)\n    second(2)\n    return x\n"
    theirs = "def f(b):\n    first(1)\n    second(2)\n    x = h(b)\n    return x\n"
    own = ("    first(1)\n", "    first(1)\n    use(x)\n")
    made, found = ported(base, theirs, base.replace(*own))
    assert (made, found) == (theirs.replace(*own), [("changed", "f")])
    made, found = ported(base, theirs, base.replace(own[0], own[1].replace("use(x)", "use(b)")))
    assert found == [("landed", "f")]


BESIDE = "def lend(book, days):\n    due = today() + days\n    note(book)\n    keep(book)\n    return due\n"


@pytest.mark.parametrize(
    ("own", "outcome"),
    [
        ("    if shut:\n        return None\n", "changed"),
        ("    while shut:\n        raise Shut\n", "changed"),
        ("    days = 2\n", "changed"),
        ("    count(1)\n", "landed"),
    ],
    ids=["leaves", "raises", "binds what it uses", "has nothing to do with it"],
)
def test_where_new_code_stands_beside_code_of_this_tree_that_is_said_if_their_order_counts(
    own: str, outcome: str
) -> None:
    note = "    note(book)\n"
    made, found = ported(
        BESIDE, BESIDE.replace(note, f"{note}    tell(days)\n"), BESIDE.replace(note, note + own)
    )
    assert made == BESIDE.replace(note, f"{note}    tell(days)\n{own}")
    assert [each for each, _ in found] == [outcome]


TWICE = {
    "a statement that this tree has twice at such a place": (
        "def f(b):\n    open(b)\n    first(b)\n    close(b)\n",
        "def f(b):\n    open(b)\n    close(b)\n",
        "def f(b):\n    open(b)\n    first(b)\n    own(b)\n    first(b)\n    close(b)\n",
    ),
    "a function that this tree defines twice": (
        "def f(b):\n    return 1\n",
        "def f(b):\n    return 2\n",
        "def f(b):\n    return 1\n\n\ndef f(b):\n    return 3\n",
    ),
}


@pytest.mark.parametrize(("base", "theirs", "ours"), TWICE.values(), ids=TWICE)
def test_of_two_places_that_fit_equally_well_none_is_changed(base: str, theirs: str, ours: str) -> None:
    made, found = ported(base, theirs, ours)
    assert (made, [outcome for outcome, _ in found]) == (ours, ["conflict"])


def test_of_two_places_the_one_with_the_neighbours_of_the_change_is_changed() -> None:
    base, theirs = (
        "def f(b):\n    open(b)\n    first(b)\n    close(b)\n",
        "def f(b):\n    open(b)\n    close(b)\n",
    )
    own = "    own(b)\n    first(b)\n"
    assert ported(base, theirs, base + own) == (theirs + own, [("landed", "f")])


def test_a_removed_import_goes_wherever_a_formatter_put_its_names() -> None:
    base, theirs = "import a\nfrom b import c, d\nimport e\n\nf = 1\n", "import a\nimport e\n\nf = 1\n"
    ours = "import a\nimport e\nfrom b import c\nfrom b import d, own\n\nf = 1\n"
    made, found = ported(base, theirs, ours)
    assert made == "import a\nimport e\nfrom b import own\n\nf = 1\n"
    assert {outcome for outcome, _ in found} == {"landed", "changed"}


def test_an_import_that_a_formatter_moved_gets_the_names_of_the_change() -> None:
    base = "from b import c, d\nimport a\nfrom e import f\n\ng = 1\n"
    theirs = base.replace("c, d", "c, n")
    ours = "import a\nfrom e import f\nfrom b import c, d, own\n\ng = 1\n"
    made, found = ported(base, theirs, ours)
    assert made == ours.replace("d, own", "own, n")
    assert {outcome for outcome, _ in found} == {"changed"}
    assert ported(base, theirs, made)[0] == made


def test_functions_on_one_line_are_told_by_their_names() -> None:
    base = "class A:\n    def f(self): return 1\n    def g(self): return 2\n"
    theirs = base.replace("return 2", "return 3")
    ours = "class A:\n    def g(self): return 2\n    def f(self): return own\n"
    assert ported(base, theirs, ours)[0] == ours.replace("return 2", "return 3")


def test_two_renamed_parameters_are_followed_in_new_code() -> None:
    base = "def lend(book, days):\n    keep(book, days)\n    return None\n"
    theirs = base.replace("    return None\n", "    tell(book, days)\n    return None\n")
    ours = base.replace("book", "card").replace("days", "weeks")
    made, _ = ported(base, theirs, ours)
    assert made == theirs.replace("book", "card").replace("days", "weeks")


def test_parameters_in_another_order_are_not_renamed() -> None:
    base = "def lend(book, days):\n    keep(book, days)\n    return None\n"
    theirs = base.replace("    return None\n", "    tell(book, days)\n    return None\n")
    made, _ = ported(base, theirs, base.replace("(book, days):", "(days, book):"))
    assert made == theirs.replace("(book, days):", "(days, book):")


def test_a_docstring_goes_with_the_statement_below_it_or_stays_with_it() -> None:
    text = 'def f(b):\n    """{}"""\n    first(b)\n'
    base, theirs = text.format("Lends a book to a reader."), text.format("What nobody else may do.")
    ours = base.replace("    first", "    own(b)\n    first")
    wanted = theirs.replace("    first", "    own(b)\n    first")
    assert ported(base, theirs, ours) == (wanted, [("landed", "f")])
    replaced = theirs.replace("first", "second")
    assert ported(base, replaced, ours) == (ours, [("conflict", "f")])


def test_of_two_comments_above_replaced_statements_that_of_the_change_goes() -> None:
    base = "def f(b):\n    # Why.\n    x = h(b)\n    return x\n"
    theirs = "def f(b):\n    y = g(b)\n    return y\n"
    ours = base.replace("    # Why.\n", "    # Why.\n    # Ours.\n")
    assert ported(base, theirs, ours)[0] == theirs.replace("    y =", "    # Ours.\n    y =")


def test_what_comes_between_statements_that_went_into_two_blocks_is_a_conflict() -> None:
    base = "def f(b):\n    first(b)\n    last(b)\n"
    theirs = base.replace("    last", "    second(b)\n    last")
    ours = "def f(b):\n    with b.one:\n        first(b)\n    with b.two:\n        last(b)\n"
    made, found = ported(base, theirs, ours)
    assert made == ours
    assert [outcome for outcome, _ in found] == ["conflict"]


BADGES = "class Badges:\n    # On each card.\n    gold = 1\n    blue = 2\n"


@pytest.mark.parametrize(
    ("theirs", "ours", "made", "outcome"),
    [
        (
            ("    gold = 1\n", "    red = 0\n    gold = 1\n"),
            "class Badges:\n    gold = 1\n    blue = 2\n    own = 3\n",
            "class Badges:\n    red = 0\n    gold = 1\n    blue = 2\n    own = 3\n",
            "landed",
        ),
        (
            ("    gold = 1\n", "    # Old ones.\n    red = 0\n    gold = 1\n"),
            "class Badges:\n    # On all.\n    gold = 1\n    blue = 2\n    own = 3\n",
            "class Badges:\n    # Old ones.\n    red = 0\n    # On all.\n    gold = 1\n    blue = 2\n    own = 3\n",
            "changed",
        ),
        (
            ("    gold = 1\n", "    red = 0\n    # On each card.\n    gold = 1\n"),
            "class Badges:\n    gold = 1\n    blue = 2\n    own = 3\n",
            "class Badges:\n    # On each card.\n    red = 0\n    gold = 1\n    blue = 2\n    own = 3\n",
            "landed",
        ),
    ],
    ids=["gone", "reworded", "the change has it twice"],
)
def test_a_comment_that_this_tree_removed_does_not_come_with_the_statement_below_it(
    theirs: tuple[str, str], ours: str, made: str, outcome: str
) -> None:
    changed = program(BADGES, theirs)
    result, found = ported(BADGES, changed, ours)
    assert result == made
    assert outcome in dict(found)
    again, _ = ported(BADGES, changed, result)
    assert again == result


@pytest.mark.parametrize(
    "around",
    ["def f():\n{}", "def f():\n    if x:\n{}    b()\n", "class C:\n{}\n\nx = 1\n", "{}"],
    ids=["function", "branch", "class", "file"],
)
@pytest.mark.parametrize("own", ["", "# Ours.\n", "y = 2\n"])
def test_a_comment_that_this_tree_removed_does_not_come_with_a_statement_at_the_end_of_its_block(
    around: str, own: str
) -> None:
    def block(text: str) -> str:
        return around.format(textwrap.indent(text, " " * (around.partition("{")[0].count("\n") * 4)))

    base, theirs = block("a = 1\n# Why.\n"), block("a = 1\n# Why.\nc = 3\n")
    made, found = ported(base, theirs, block(f"a = 1\n{own}"))
    wanted = block(f"a = 1\n{own}c = 3\n"), block(f"a = 1\nc = 3\n{own}")
    assert made.split() in [text.split() for text in wanted]
    assert ("changed" in dict(found)) is own.startswith("#")
    assert ported(base, theirs, made)[0] == made


def test_a_comment_that_this_tree_removed_does_not_come_with_the_statement_in_its_place() -> None:
    base = "def f():\n    a()\n    # Once.\n    x = 1\n    return x\n"
    theirs, ours = base.replace("x", "y"), base.replace("    # Once.\n", "") + "\n\nown = 1\n"
    assert ported(base, theirs, ours)[0] == ours.replace("x", "y")


@pytest.mark.parametrize("ours", ["LIMIT = 1", "LIMIT = 2", "LIMIT: int = 1"])
def test_a_definition_behind_an_assignment_at_the_end_stays_beside_it(ours: str) -> None:
    base, new, own = "import os\n\nLIMIT = 1\n", "\n\ndef new():\n    pass\n", "\n\ndef own():\n    pass\n"
    changed = base.replace("LIMIT = 1", ours)
    result, _ = ported(base, base + new, changed + own)
    assert result == changed + new + own
    # What follows a definition goes to the end.
    assert ported(base + own, base + own + new, base + own + own.replace("own", "last"))[0].endswith(new)

"""Three versions of a statement are merged, or conflict."""

from __future__ import annotations

import pytest

from patchkit.change.statements import merged
from patchkit.change.tokens import ClashError

MERGED = {
    "a keyword beside one that is missing": ("f(a, b, c=1)", "f(a, b, c=1, d=2)", "f(a, b)", "f(a, b, d=2)"),
    "another function, and an argument less": ("f(a, new)", "g(a, new)", "f(a)", "g(a)"),
    "one name after the other": (
        "from x import (\n    a,\n    b,\n)",
        "from x import (\n    a,\n    b,\n    c,\n)",
        "from x import (\n    a,\n)",
        "from x import (\n    a,\n    c,\n)",
    ),
    "a value and a type": ("x: int = 1", "x: int = 2", "x: float = 1", "x: float = 2"),
    "a parameter and a type": (
        "def f(self, a, b=1):",
        "def f(self, a, b=1, c=2) -> None:",
        "def f(self, a):",
        "def f(self, a, c=2) -> None:",
    ),
    "conditions of a chain": ("if a and b and c:", "if a and b and d:", "if a and c:", "if a and d:"),
    "a condition that this version has in brackets": (
        "if a and b:",
        "if (\n    a\n    and b\n    and c\n):",
        "if (\n    a\n    and b\n    and c\n    and d\n):",
        "if (\n    a\n    and b\n    and c\n    and d\n):",
    ),
    "conditions that one version has in brackets": (
        "if a and b:",
        "if (a and b and c):",
        "if d and a and b:",
        "if (d and a and b and c):",
    ),
    "another condition where one is missing": ("if a and b:", "if a and b and c:", "if a:", "if a and c:"),
    "the last element of one line": ("f(a)", "f(a, b)", "f(\n    a,\n)", "f(\n    a, b,\n)"),
    "the only element that both had, with a comma behind the last": (
        "f(a)",
        "f()",
        "f(\n    a,\n    b,\n)",
        "f(\n    b,\n)",
    ),
    "the only element of a list that both had": (
        "x = [\n    a,\n]",
        "x = []",
        "x = [\n    a,\n    b,\n    c,\n]",
        "x = [\n    b,\n    c,\n]",
    ),
    "a comma behind the last that the change alone has": (
        "x = [a]",
        "x = [a, b,]",
        "x = [c, a]",
        "x = [c, a, b]",
    ),
    "an element behind the same one as that of this tree": (
        "x = [a, z]",
        "x = [a, n, z]",
        "x = [a, m, z]",
        "x = [a, n, m, z]",
    ),
    "each element beside its nearest neighbour": (
        "x = [a, z]",
        "x = [a, n, o, z]",
        "x = [a, m, z]",
        "x = [a, n, m, o, z]",
    ),
    "first elements": ("x = [z]", "x = [n, z]", "x = [m, z]", "x = [m, n, z]"),
    "last elements": ("x = [a]", "x = [a, n]", "x = [a, m]", "x = [a, m, n]"),
    "elements before one that both add": ("x = [a]", "x = [a, n, z]", "x = [a, m, z]", "x = [a, n, m, z]"),
    "elements behind one that both add": ("x = [a]", "x = [a, z, n]", "x = [a, z, m]", "x = [a, z, m, n]"),
    "the first word goes": ("await f(a)", "f(a)", "await f(b)", "f(b)"),
    "a keyword where another argument follows": ("f(a)", "f(a, k=1)", "f(a, b)", "f(a, b, k=1)"),
    "an argument where a keyword follows": ("f(a)", "f(a, b)", "f(a, k=1)", "f(a, b, k=1)"),
    "a parameter with a default behind another one": (
        "def f(a):",
        "def f(a, c=1):",
        "def f(a, b=2, *, d=3):",
        "def f(a, b=2, c=1, *, d=3):",
    ),
    "an argument between two that stay": (
        "f(a, g(x) + 1, c)",
        "f(a, g(x) + 2, c)",
        "f(a, g(y) + 1, c, d)",
        "f(a, g(y) + 2, c, d)",
    ),
    "other words of a message": (
        "say(f'{a.b} is none of: x, y.')",
        "say(f'{a.b} is none of: x, y, or z.')",
        "say(f'{c.b} is none of: x, y.')",
        "say(f'{c.b} is none of: x, y, or z.')",
    ),
    "other lines of a docstring": (
        '"""Lend.\n\n    A book.\n    """',
        '"""Lend it.\n\n    A book.\n    """',
        '"""Lend.\n\n    A book or a card.\n    """',
        '"""Lend it.\n\n    A book or a card.\n    """',
    ),
    "each comment behind its element": (
        "x = [\n    a,  # one\n]",
        "x = [\n    a,  # one\n    b,  # two\n]",
        "x = [\n    a,  # one\n    c,  # three\n]",
        "x = [\n    a,  # one\n    c,  # three\n    b,  # two\n]",
    ),
    "an element between others with comments": (
        "x = [\n    a,  # one\n    c,  # three\n]",
        "x = [\n    a,  # one\n    b,\n    c,  # three\n]",
        "x = [\n    a,  # one\n    c,  # three\n    d,  # four\n]",
        "x = [\n    a,  # one\n    b,\n    c,  # three\n    d,  # four\n]",
    ),
    "an element behind one that gets its comma": (
        "f(\n    a  # one\n)",
        "f(\n    a,  # one\n    b  # two\n)",
        "f(\n    a,  # one\n    k=1,  # three\n)",
        "f(\n    a,  # one\n    b,  # two\n    k=1,  # three\n)",
    ),
    "an element goes with its comment": (
        "x = [\n    a,  # one\n    b,  # two\n]",
        "x = [\n    a,  # one\n]",
        "x = [\n    a,  # one\n    b,  # two\n    c,  # three\n]",
        "x = [\n    a,  # one\n    c,  # three\n]",
    ),
    "another comment behind an element": (
        "f(\n    a=1,  # one\n    b=2,\n)",
        "f(\n    a=3,  # three\n    b=2,\n)",
        "f(\n    a=1,  # one\n    b=4,\n)",
        "f(\n    a=3,  # three\n    b=4,\n)",
    ),
    "a comment that this version removed": (
        "f(\n    a=1,  # one\n    b=2,\n)",
        "f(\n    a=3,  # three\n    b=2,\n)",
        "f(\n    a=1,\n    b=4,\n)",
        "f(\n    a=3,\n    b=4,\n)",
    ),
    "code behind a comment has its own line": (
        "x = [\n    a, c,\n]",
        "x = [\n    a,\n    b,  # two\n    c,\n]",
        "x = [\n    a, c, d,\n]",
        "x = [\n    a,\n    b,  # two\n    c, d,\n]",
    ),
}
CLASHES = {
    "the same word": ("x = 1", "x = 2", "x = 3"),
    "neighbours": ("x = a(b)", "x = c(b)", "x = d(b)"),
    "another operator": ("if a and b:", "if a or b:", "if a and c:"),
    "a type with a value": ("x: int | None = 1", "x: int | str | None = 1", "x: None = 1"),
    "two arguments of one name": ("f(a)", "f(a, b=1)", "f(a, b=2)"),
    "the same words of a message": ("f('a b c')", "f('a x c')", "f('a y c')"),
    "neighbouring words of a message": ("f('a b c d')", "f('a x c d')", "f('a b y d')"),
    "another string": ("f('a.b')", "f('a.c')", "f('d.b')"),
    "a parameter among others that have defaults": ("def f(a):", "def f(a, c):", "def f(a, b=1):"),
    "the comment behind an element": (
        "f(\n    a=1,  # one\n    b=2,\n)",
        "f(\n    a=1,  # two\n    b=3,\n)",
        "f(\n    a=1,  # three\n    b=2,\n)",
    ),
    "a comment behind an element of one line": (
        "f(a, c)",
        "f(a, b,  # two\n  c)",
        "f(a, c, d=1)",
    ),
    "open brackets": ("f(a", "f(b", "f(c"),
}


@pytest.mark.parametrize(("base", "theirs", "ours", "made"), MERGED.values(), ids=MERGED)
def test_what_both_change_apart_comes_to_both(base: str, theirs: str, ours: str, made: str) -> None:
    assert merged(base, theirs, ours) == made


@pytest.mark.parametrize(("base", "theirs", "ours"), CLASHES.values(), ids=CLASHES)
def test_what_both_change_clashes(base: str, theirs: str, ours: str) -> None:
    with pytest.raises(ClashError):
        merged(base, theirs, ours)


ELEMENTS = """\
call ab anb > ab:anb aob:! oab:oanb abo:anbo abO:anbO a:an b:! o:! :! abS:! oabO:oanbO
call ab nab > ab:nab aob:naob oab:! abo:nabo abO:nabO a:na b:nb o:! :n abS:! oabO:!
call ab abn > ab:abn aob:aobn oab:oabn abo:! abO:abnO a:! b:! o:! :! abS:! oabO:oabnO
call ab abN > ab:abN aob:aobN oab:oabN abo:aboN abO:abNO a:aN b:bN o:oN :N abS:abNS oabO:oabNO
call ab b > ab:b aob:ob oab:ob abo:bo abO:bO a: b:b o:o : abS:bS oabO:obO
call ab a > ab:a aob:ao oab:oa abo:ao abO:aO a:a b: o:o : abS:aS oabO:oaO
call ab ba > ab:ba aob:bao oab:! abo:bao abO:baO a:ba b:! o:! :b abS:! oabO:!
call ab anmb > ab:anmb aob:! oab:oanmb abo:anmbo abO:anmbO a:anm b:! o:! :! abS:! oabO:oanmbO
call aB anB > aB:anB aoB:! oaB:oanB aBO:anBO aOB:anOB a:an B:! O:! :! aSB:!
call aB aBN > aB:aBN aoB:aoBN oaB:oaBN aBO:aBNO aOB:aOBN a:aN B:BN O:NO :N aSB:aSBN
call aB aNB > aB:aNB aoB:aoNB oaB:oaNB aBO:aNBO aOB:aNOB a:aN B:NB O:NO :N aSB:aNSB
call aB naB > aB:naB aoB:naoB oaB:! aBO:naBO aOB:naOB a:na B:nB O:nO :n aSB:!
call aB a > aB:a aoB:ao oaB:oa aBO:aO aOB:aO a:a B: O:O : aSB:aS
call aB B > aB:B aoB:oB oaB:oB aBO:BO aOB:OB a: B:B O:O : aSB:SB
list ab anb > ab:anb aob:anob oab:oanb abo:anbo a:an b:nb o:on :n
list ab nab > ab:nab aob:naob oab:onab abo:nabo a:na b:nb o:on :n
list ab abn > ab:abn aob:aobn oab:oabn abo:abon a:an b:bn o:on :n
list ab b > ab:b aob:ob oab:ob abo:bo a: b:b o:o :
list ab a > ab:a aob:ao oab:oa abo:ao a:a b: o:o :
list ab ba > ab:ba aob:bao oab:oba abo:bao a:ba b:b o:ob :b
list ab anmb > ab:anmb aob:anomb oab:oanmb abo:anmbo a:anm b:nmb o:onm :nm
signature ab anb > ab:anb aob:anob oab:oanb abo:anbo abO:anbO a:an b:nb o:on :n abS:anbS oabO:oanbO
signature ab nab > ab:nab aob:naob oab:onab abo:nabo abO:nabO a:na b:nb o:on :n abS:nabS oabO:onabO
signature ab abn > ab:abn aob:aobn oab:oabn abo:abon abO:! a:an b:bn o:on :n abS:abSn oabO:!
signature ab abN > ab:abN aob:aobN oab:oabN abo:aboN abO:abON a:aN b:bN o:oN :N abS:abNS oabO:oabON
signature ab b > ab:b aob:ob oab:ob abo:bo abO:bO a: b:b o:o : abS:bS oabO:obO
signature ab a > ab:a aob:ao oab:oa abo:ao abO:aO a:a b: o:o : abS:aS oabO:oaO
signature ab ba > ab:ba aob:bao oab:oba abo:bao abO:baO a:ba b:b o:ob :b abS:baS oabO:obaO
signature ab anmb > ab:anmb aob:anomb oab:oanmb abo:anmbo abO:anmbO a:anm b:nmb o:onm :nm abS:anmbS
    oabO:oanmbO
signature aB anB > aB:anB aoB:anoB oaB:oanB aBO:anBO aOB:anOB a:an B:nB O:! :n aSB:anSB
signature aB aBN > aB:aBN aoB:aoBN oaB:oaBN aBO:aBON aOB:aOBN a:aN B:BN O:ON :N aSB:aSBN
signature aB aNB > aB:aNB aoB:aoNB oaB:oaNB aBO:aNBO aOB:aONB a:aN B:NB O:ON :N aSB:aNSB
signature aB naB > aB:naB aoB:naoB oaB:onaB aBO:naBO aOB:naOB a:na B:nB O:! :n aSB:naSB
signature aB a > aB:a aoB:ao oaB:oa aBO:aO aOB:aO a:a B: O:O : aSB:aS
signature aB B > aB:B aoB:oB oaB:oB aBO:BO aOB:OB a: B:B O:O : aSB:SB
"""
FORMS = {"call": "f({})", "list": "x = [{}]", "signature": "def f({}):"}
ROWS = [
    (*line.split(" > ")[0].split(), *each.split(":"))
    for line in ELEMENTS.replace("\n    ", " ").splitlines()
    for each in line.split(" > ")[1].split()
]


def elements(form: str, row: str) -> str:
    """Return the elements of a row: a capital is a keyword or a default, ``S`` a starred one."""
    found = ["*s" if name == "S" else f"{name.lower()}=1" if name.isupper() else name for name in row]
    return FORMS[form].format(", ".join(found))


@pytest.mark.parametrize(
    ("form", "base", "theirs", "ours", "made"), ROWS, ids=[" ".join(each) for each in ROWS]
)
def test_the_places_of_elements(form: str, base: str, theirs: str, ours: str, made: str) -> None:
    """``o`` is one of this version's own, ``n`` and ``m`` are new; an exclamation mark is a clash."""
    versions = [elements(form, row) for row in (base, theirs, ours)]
    if made == "!":
        with pytest.raises(ClashError):
            merged(*versions)
    else:
        assert merged(*versions) == elements(form, made)

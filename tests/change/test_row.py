"""Where statements that a change adds, removes or moves belong among those of a tree that has others.

Each letter is a statement; ``o`` is one of the tree's own, ``n`` and ``m`` are new.
"""

from __future__ import annotations

import re

import pytest

from patchkit.change.merge import Merge
from patchkit.change.outline import outline

MADE = """\
ab nab > ab:nab oab:noab aob:naob abo:nabo b:nb a:na o:no ob:nob bo:nbo ao:nao oa:noa ba:nba
    oaob:noaob
ab anb > ab:anb oab:oanb aob:anob abo:anbo b:nb a:an o:! ob:onb bo:nbo ao:ano oa:oan ba:ban~
    oaob:oanob
ab abn > ab:abn oab:oabn aob:aobn abo:abon b:bn a:an o:on ob:obn bo:bon ao:aon oa:oan ba:bna~
    oaob:oaobn
abc anbc > ab:anb oab:oanb aob:anob abo:anbo b:nb a:an o:! ob:onb bo:nbo ao:ano oa:oan ba:ban~
    oaob:oanob abc:anbc aobc:anobc aboc:anboc ac:anc bc:nbc oc:! aoc:anoc cba:cban~
abc abnc > ab:abn oab:oabn aob:aobn abo:abno b:bn a:! o:! ob:obn bo:bno ao:! oa:! ba:bna~ oaob:oaobn
    abc:abnc aobc:aobnc aboc:abnoc ac:anc bc:bnc oc:onc aoc:aonc cba:cbna~
abcd abncd > ab:abn oab:oabn aob:aobn abo:abno b:bn a:! o:! ob:obn bo:bno ao:! oa:! ba:bna~
    oaob:oaobn abc:abnc aobc:aobnc aboc:abnoc ac:anc bc:bnc oc:onc aoc:aonc cba:cbna~
ab anmb > ab:anmb oab:oanmb aob:anmob abo:anmbo b:nmb a:anm o:! ob:onmb bo:nmbo ao:anmo oa:oanm
    ba:banm~ oaob:oanmob
ab b > ab:b oab:ob aob:ob abo:bo b:= a: o:= ob:= bo:= ao:o oa:o ba:b oaob:oob
ab a > ab:a oab:oa aob:ao abo:ao b: a:= o:= ob:o bo:o ao:= oa:= ba:a oaob:oao
abc ac > ab:a oab:oa aob:ao abo:ao b: a:= o:= ob:o bo:o ao:= oa:= ba:a oaob:oao abc:ac aobc:aoc
    aboc:aoc ac:= bc:c oc:= aoc:= cba:ca
abc anc > ab:an oab:oan aob:aon abo:ano b:n a:! o:! ob:on bo:no ao:! oa:! ba:na~ oaob:oaon abc:anc
    aobc:aonc aboc:anoc ac:! bc:nc oc:! aoc:! cba:cna~
abc nbc > ab:nb oab:onb aob:nob abo:nbo b:! a:n o:! ob:! bo:! ao:no oa:on ba:bn~ oaob:onob abc:nbc
    aobc:nobc aboc:nboc ac:nc bc:! oc:! aoc:noc cba:cbn~
abc abn > ab:! oab:! aob:! abo:! b:! a:! o:! ob:! bo:! ao:! oa:! ba:! oaob:! abc:abn aobc:aobn
    aboc:abon ac:an bc:bn oc:on aoc:aon cba:nba~
ab ba > ab:ba oab:boa aob:bao abo:bao b:= a:! o:! ob:bo bo:= ao:! oa:! ba:= oaob:boao
abc bca > ab:ba oab:oba aob:oba abo:boa b:! a:= o:! ob:! bo:! ao:oa oa:= ba:= oaob:ooba abc:bca
    aobc:obca aboc:boca ac:ca bc:! oc:! aoc:oca cba:cab~
abc cab > ab:! oab:! aob:! abo:! b:! a:! o:! ob:! bo:! ao:! oa:! ba:! oaob:! abc:cab aobc:caob
    aboc:cabo ac:ca bc:cb oc:co aoc:cao cba:=
"""
OUTCOMES = {"": "landed", "=": "already", "!": "conflict", "~": "changed"}
CASES = [
    (*line.split(" > ")[0].split(), *each.partition(":")[::2])
    for line in MADE.replace("\n    ", " ").splitlines()
    for each in line.split(" > ")[1].split()
]


def program(row: str) -> str:
    return "def f():\n" + ("".join(f"    {name}(1)\n" for name in row) or "    pass\n")


@pytest.mark.parametrize(("base", "theirs", "ours", "made"), CASES, ids=[" ".join(each) for each in CASES])
def test_the_place_of_statements(base: str, theirs: str, ours: str, made: str) -> None:
    """``made`` is the row afterwards, and the sign of its outcome; a conflict changes none."""
    row, sign = re.fullmatch(r"(\w*)(\W?)", made).groups()  # type: ignore[union-attr]
    whole, merge = outline(program(ours)), Merge(lambda _: None)
    merge.make(outline(program(base)), outline(program(theirs)), whole)
    assert {edit.outcome.value for edit in merge.log.edits} == {OUTCOMES[sign]}
    expected = program(ours if sign in {"=", "!"} else row)
    assert merge.output.render(whole) == (expected if row or sign else "def f():\n")

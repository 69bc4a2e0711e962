"""Where statements that a change adds, removes or moves belong among those of a tree that has others.

Each letter is a statement; ``o`` is one of the tree's own, ``n`` and ``m`` are new. ``[`` and ``]`` are around the
block of an ``if``, and ``|`` is its ``else``.
"""

from __future__ import annotations

import re

import pytest

from patchkit.change.edits import Outcome
from patchkit.change.merge import Merge
from patchkit.change.outline import outline
from patchkit.change.sides import Sides, merged

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
IN_BLOCKS = """\
a[bc]d a[nbc]d > a[bc]d:a[nbc]d a[boc]d:a[nboc]d a[bc]od:a[nbc]od ao[bc]d:ao[nbc]d
    a[bc|o]d:a[nbc|o]d a[o[bc]]d:a[o[nbc]]d~ abcd:! a[b]d:a[nb]d ad:! [a[bc]d]:[a[nbc]d]~ [bc]:[nbc]
    a[bc]oo:a[nbc]oo
a[bc]d a[bnc]d > a[bc]d:a[bnc]d a[boc]d:a[bnoc]d a[bc]od:a[bnc]od ao[bc]d:ao[bnc]d
    a[bc|o]d:a[bnc|o]d a[o[bc]]d:a[o[bnc]]d~ abcd:! a[b]d:a[bn]d ad:! [a[bc]d]:[a[bnc]d]~ [bc]:[bnc]
    a[bc]oo:a[bnc]oo
a[bc]d a[bcn]d > a[bc]d:a[bcn]d a[boc]d:a[bocn]d a[bc]od:a[bcn]od ao[bc]d:ao[bcn]d
    a[bc|o]d:a[bcn|o]d a[o[bc]]d:a[o[bcn]]d~ abcd:! a[b]d:a[bn]d ad:! [a[bc]d]:[a[bcn]d]~ [bc]:[bcn]
    a[bc]oo:a[bcn]oo
a[bc]d an[bc]d > a[bc]d:an[bc]d a[boc]d:an[boc]d a[bc]od:an[bc]od ao[bc]d:ano[bc]d
    a[bc|o]d:an[bc|o]d a[o[bc]]d:an[o[bc]]d abcd:anbcd a[b]d:an[b]d ad:and [a[bc]d]:n[a[bc]d]~
    [bc]:n[bc] a[bc]oo:an[bc]oo
a[bc]d a[bc]nd > a[bc]d:a[bc]nd a[boc]d:a[boc]nd a[bc]od:a[bc]nod ao[bc]d:ao[bc]nd
    a[bc|o]d:a[bc|o]nd a[o[bc]]d:a[o[bc]]nd abcd:abcnd a[b]d:a[b]nd ad:and [a[bc]d]:[a[bc]d]n~
    [bc]:[bc]n a[bc]oo:a[bc]noo
a[bc]d a[b]d > a[bc]d:a[b]d a[boc]d:a[bo]d a[bc]od:a[b]od ao[bc]d:ao[b]d a[bc|o]d:a[b|o]d
    a[o[bc]]d:a[o[b]]d~ abcd:! a[b]d:= ad:! [a[bc]d]:[a[b]d]~ [bc]:[b] a[bc]oo:a[b]oo
a[bc]d a[c]d > a[bc]d:a[c]d a[boc]d:a[oc]d a[bc]od:a[c]od ao[bc]d:ao[c]d a[bc|o]d:a[c|o]d
    a[o[bc]]d:a[o[c]]d~ abcd:! ad:! [a[bc]d]:[a[c]d]~ [bc]:[c] a[bc]oo:a[c]oo
a[bc]d ad > a[bc]d:ad a[boc]d:! a[bc]od:aod ao[bc]d:aod a[bc|o]d:! a[o[bc]]d:! abcd:= a[b]d:ad~ ad:=
    [a[bc]d]:! a[bc]oo:aoo
a[bc]d a[bc|n]d > a[bc]d:a[bc|n]d a[boc]d:a[boc|n]d a[bc]od:a[bc|n]od ao[bc]d:ao[bc|n]d
    a[bc|o]d:a[bc|o|n]d a[o[bc]]d:a[o[bc]|n]d abcd:! a[b]d:a[b|n]d ad:! [a[bc]d]:[a[bc]d|n]
    [bc]:[bc|n] a[bc]oo:a[bc|n]oo
a[bc]d abcd > a[bc]d:abcd a[boc]d:! a[bc]od:abcod ao[bc]d:aobcd a[bc|o]d:! a[o[bc]]d:! abcd:=
    a[b]d:abcd~ ad:! [a[bc]d]:! [bc]:bc a[bc]oo:abcoo
a[bc]d a[bc] > a[bc]d:a[bc] a[boc]d:a[boc] a[bc]od:a[bc]o ao[bc]d:ao[bc] a[bc|o]d:a[bc|o]
    a[o[bc]]d:a[o[bc]] abcd:abc a[b]d:a[b] ad:a [a[bc]d]:[a[bc]]~ [bc]:= a[bc]oo:=
a[bc]d [abc]d > a[bc]d:[abc]d a[boc]d:[aboc]d a[bc]od:[abc]od ao[bc]d:o[abc]d a[bc|o]d:[abc|o]d
    a[b]d:[ab]d a[bc]oo:[abc]oo
a[bc]d a[bcd] > a[bc]d:a[bcd] a[boc]d:a[bocd] a[bc]od:a[bcd]o ao[bc]d:ao[bcd] a[bc|o]d:a[bcd|o]
    a[b]d:a[bd]
abc anbc > abc:anbc a[b]c:an[b]c~ [abc]:[anbc]~ a[bc]:an[bc]~ [ab]c:[anb]c~ [a]bc:[a]nbc~
    a[o]bc:an[o]bc [a]b[c]:[a]nb[c]~
abc abnc > abc:abnc a[b]c:a[b]nc~ [abc]:[abnc]~ a[bc]:a[bnc]~ [ab]c:[ab]nc~ [a]bc:[a]bnc
    a[o]bc:a[o]bnc [a]b[c]:[a]bn[c]~
abc ac > abc:ac [abc]:[ac]~ a[bc]:a[c]~ [ab]c:[a]c~ [a]bc:[a]c a[o]bc:a[o]c [a]b[c]:[a][c]
abc a[b]c > abc:a[b]c a[b]c:= [abc]:[a[b]c]~ a[bc]:a[[b]c]~ [ab]c:[a[b]]c~ [a]bc:[a][b]c~
    a[o]bc:a[o][b]c [a]b[c]:[a][b][c]~
abc [abc] > abc:[abc] a[b]c:! [abc]:= a[bc]:! [ab]c:! [a]bc:! a[o]bc:! [a]b[c]:!
abc bac > abc:bac a[b]c:! [abc]:! a[bc]:! [ab]c:! [a]bc:! a[o]bc:ba[o]c [a]b[c]:!
"""
OUTCOMES = {"": "landed", "=": "already", "!": "conflict", "~": "changed"}
CASES = [
    (*line.split(" > ")[0].split(), *each.partition(":")[::2])
    for line in (MADE + IN_BLOCKS).replace("\n    ", " ").splitlines()
    for each in line.split(" > ")[1].split()
]


def program(row: str) -> str:
    lines, depth = ["def f():"], 1
    for sign in row or "p":
        depth -= sign in "]|"
        line = {"]": "", "[": "if x:", "|": "else:", "p": "pass"}.get(sign, f"{sign}(1, 2)")
        lines += [f"{'    ' * depth}{line}"] if line else []
        depth += sign in "[|"
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("base", "theirs", "ours", "made"), CASES, ids=[" ".join(each) for each in CASES])
def test_the_place_of_statements(base: str, theirs: str, ours: str, made: str) -> None:
    """``made`` is the row afterwards, and the sign of its outcome; a conflict changes none."""
    row, sign = re.fullmatch(r"([\w\[\]|]*)([=!~]?)", made).groups()  # type: ignore[union-attr]
    whole, merge = outline(program(ours)), Merge(lambda _: None)
    merge.make(outline(program(base)), outline(program(theirs)), whole)
    assert {edit.outcome.value for edit in merge.log.edits} == {OUTCOMES[sign]}
    expected = program(ours if sign in {"=", "!"} else row)
    assert merge.output.render(whole) == (expected if row or sign else "def f():\n")


SIDES = """\
abc anbc > aobc:! aboc:anboc oabc:oanbc abco:anbco ac:anc ab:anb acb:ancb a[b]c:an[b]c [abc]:!
    a[ob]c:an[ob]c
abc abnc > aobc:aobnc aboc:! oabc:oabnc abco:abnco ac:anc ab:abn acb:ancb a[b]c:a[b]nc [abc]:!
    a[ob]c:a[ob]nc
abc nabc > aobc:naobc aboc:naboc oabc:! abco:nabco ac:nac ab:nab acb:nacb a[b]c:na[b]c [abc]:n[abc]
    a[ob]c:na[ob]c
abc abcn > aobc:aobcn aboc:abocn oabc:oabcn abco:! ac:acn ab:abn acb:! a[b]c:a[b]cn [abc]:[abc]n
    a[ob]c:a[ob]cn
abc ac > aobc:aoc aboc:aoc oabc:oac abco:aco ac:ac ab:a a[b]c:! [abc]:! a[ob]c:!
abc bc > aobc:obc aboc:boc oabc:obc abco:bco ac:c ab:b acb:cb a[b]c:[b]c [abc]:! a[ob]c:[ob]c
abc bac > aobc:obac aboc:! oabc:obac abco:baco ac:! ab:ba acb:! a[b]c:! [abc]:! a[ob]c:!
abc a[b]c > aobc:ao[b]c aboc:a[b]oc oabc:oa[b]c abco:a[b]co ac:! ab:a[b] acb:! a[b]c:a[b]c [abc]:!
    a[ob]c:!
abc [abc] > aobc:! aboc:! oabc:o[abc] abco:[abc]o ac:! ab:! acb:! a[b]c:! [abc]:[abc] a[ob]c:!
abc a[n]bc > aobc:! aboc:a[n]boc oabc:oa[n]bc abco:a[n]bco ac:a[n]c ab:a[n]b acb:a[n]cb a[b]c:!
    [abc]:! a[ob]c:!
a[bc]d a[nbc]d > a[boc]d:a[nboc]d a[bc]od:a[nbc]od ao[bc]d:ao[nbc]d a[c]d:a[nc]d abcd:!
    a[bc|o]d:a[nbc|o]d [bc]d:[nbc]d a[o[bc]]d:a[no[bc]]d
a[bc]d a[bc]nd > a[boc]d:a[boc]nd a[bc]od:! ao[bc]d:ao[bc]nd a[c]d:a[c]nd abcd:abcnd
    a[bc|o]d:a[bc|o]nd [bc]d:[bc]nd a[o[bc]]d:a[o[bc]]nd
a[bc]d an[bc]d > a[boc]d:an[boc]d a[bc]od:an[bc]od ao[bc]d:! a[c]d:an[c]d abcd:anbcd
    a[bc|o]d:an[bc|o]d [bc]d:n[bc]d a[o[bc]]d:an[o[bc]]d
a[bc]d a[b]d > a[boc]d:a[bo]d a[bc]od:a[b]od ao[bc]d:ao[b]d a[c]d:! abcd:! a[bc|o]d:a[b|o]d
    [bc]d:[b]d a[o[bc]]d:!
a[bc]d ad > a[boc]d:! a[bc]od:aod ao[bc]d:aod a[c]d:! abcd:! a[bc|o]d:! [bc]d:d a[o[bc]]d:!
a[bc]d a[bc|n]d > a[boc]d:a[boc|n]d a[bc]od:a[bc|n]od ao[bc]d:ao[bc|n]d a[c]d:a[c|n]d abcd:!
    a[bc|o]d:! [bc]d:[bc|n]d a[o[bc]]d:a[o[bc]|n]d
a[bc]d a[bc] > a[boc]d:a[boc] a[bc]od:a[bc]o ao[bc]d:ao[bc] a[c]d:a[c] abcd:abc a[bc|o]d:a[bc|o]
    [bc]d:[bc] a[o[bc]]d:a[o[bc]]
"""
MERGES = [
    (*line.split(" > ")[0].split(), *each.split(":"))
    for line in SIDES.replace("\n    ", " ").splitlines()
    for each in line.split(" > ")[1].split()
]


@pytest.mark.parametrize(("base", "theirs", "ours", "made"), MERGES, ids=[" ".join(each) for each in MERGES])
def test_the_merge_of_two_sides(base: str, theirs: str, ours: str, made: str) -> None:
    """An exclamation mark is a conflict, in which nothing of either side is lost."""
    found = merged(Sides(program(base), program(ours), program(theirs)))
    assert found.is_whole is (made != "!")
    if found.is_whole:
        assert found.sides == (program(made),) * 3
    else:
        assert len(set(found.sides)) > 1


METHODS = """\
abcd bacd > abcd:bacd aobcd:aobcd abcod:abcod oabcd:oabcd abcdo:abcdo acd:acd abd:abd bacd:bacd
    dcba:dcba
abcd bcda > abcd:bcda aobcd:aobcd abcod:abcod oabcd:oabcd abcdo:abcdo acd:acd abd:abd bacd:bacd
    dcba:dcba
abcd bancd > abcd:bancd aobcd:anobcd abcod:anbcod oabcd:oanbcd abcdo:anbcdo acd:ancd abd:anbd
    bacd:bancd dcba:dcban
abcd bcnda > abcd:bcnda aobcd:aobcnd abcod:abcnod oabcd:oabcnd abcdo:abcndo acd:acnd abd:abnd
    bacd:bacnd dcba:dcnba
abcd dcba > abcd:dcba aobcd:aobcd abcod:abcod oabcd:oabcd abcdo:abcdo acd:acd abd:abd bacd:bacd
    dcba:dcba
abc anbc > abc:anbc aobc:anobc aboc:anboc oabc:oanbc abco:anbco ac:anc bc:nbc ab:anb cba:cban
abc nabc > abc:nabc aobc:naobc aboc:naboc oabc:onabc abco:nabco ac:nac bc:nbc ab:nab cba:cbna
abc abcn > abc:abcn aobc:aobcn aboc:abocn oabc:oabcn abco:abcon ac:acn bc:bcn ab:abn cba:cban
abc ac > abc:ac aobc:aoc aboc:aoc oabc:oac abco:aco ac:ac bc:c ab:a cba:ca
abc bc > abc:bc aobc:obc aboc:boc oabc:obc abco:bco ac:c bc:bc ab:b cba:cb
abc ab > abc:ab aobc:aob aboc:abo oabc:oab abco:abo ac:a bc:b ab:ab cba:ba
"""
ORDERS = [
    (*line.split(" > ")[0].split(), *each.split(":"))
    for line in METHODS.replace("\n    ", " ").splitlines()
    for each in line.split(" > ")[1].split()
]


@pytest.mark.parametrize(("base", "theirs", "ours", "made"), ORDERS, ids=[" ".join(each) for each in ORDERS])
def test_the_order_of_methods(base: str, theirs: str, ours: str, made: str) -> None:
    """The order of methods does not count: they move only in a tree that has them as the change found them."""
    versions = [
        "class Desk:\n" + "\n".join(f"    def {name}(self):\n        return {name}\n" for name in row)
        for row in (base, theirs, ours)
    ]
    whole, merge = outline(versions[2]), Merge(lambda _: None)
    merge.make(outline(versions[0]), outline(versions[1]), whole)
    text = merge.output.render(whole)
    assert "".join(re.findall(r"def (\w)", text)) == made
    assert len(re.findall(r"        return \w\n", text)) == len(made)
    assert {edit.outcome for edit in merge.log.edits} <= {Outcome.LANDED, Outcome.ALREADY, Outcome.NO_SITE}

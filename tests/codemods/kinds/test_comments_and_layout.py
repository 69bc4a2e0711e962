"""Whatever the layout and the comments of a program, edits find the same and keep all comments."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st
from support.programs import edit, examine, rewritten

from patchkit.codemods.examination import SiteState

FINE = {"find": "$who.debt += $days * RATE", "code": "$who.charge($days)"}
CHECK = {"find": "$d.lend($b, ...)", "code": "$d.check($b)"}
EDITS = {
    "statement": edit("rewrite", **FINE),
    "every": edit("rewrite", **FINE, every=True),
    "guard": edit("none-guard", find="$d.sum += $x.pages", value="$x.pages"),
    "expression": edit("rewrite", find="$x.pages", code="$x.count()", every=True),
    "run": edit("rewrite", find="$d.open()\n$$work\n$d.close()", code="with $d:\n    $$work"),
    "before": edit("insert-before", **CHECK),
    "after": edit("insert-after", **CHECK),
    "opening": edit("insert-first", code="trace()"),
}


LINES = (
    "reader.debt += days * RATE",
    "desk.sum += book.pages",
    "total = (book.pages + 1) * 2",
    "desk.open()",
    "desk.close()",
    "loan = desk.lend(book, days=14)",
    "desk.lend(novel)",
    "queue = [reader for reader in hall if reader.late]",
    "if book.lost: remind(reader)",
    "price = book.pages if book else 0; log(price)",
)


COMMENTS = st.sampled_from(["", "", "  # so", "  # TODO"])


ABOVE = st.sampled_from(["", "", "\n", "# why\n", "\n# why\n# and how\n"])


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Draw the lines of a block, with comments and blank lines anywhere."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(ABOVE).splitlines()
        if depth < 2 and draw(st.booleans()):
            header = draw(st.sampled_from(["if reader.late:", "for book in shelf:", "with desk:", "try:"]))
            lines.append(header + draw(COMMENTS))
            lines += ["    " + line if line else "" for line in draw(blocks(depth + 1))]
            if header == "try:":
                lines += ["finally:" + draw(COMMENTS), "    rest()"]
        else:
            lines.append(draw(st.sampled_from(LINES)) + draw(COMMENTS))
    return lines


@st.composite
def programs(draw: st.DrawFn) -> str:
    body = ["    " + line if line else "" for line in draw(blocks())]
    return "\n".join(["def day(desk, reader, book):", *body, *draw(ABOVE).splitlines(), "x = 1", ""])


@given(programs(), st.sampled_from(sorted(EDITS)))
def test_edit_keeps_comments_compiles_and_is_found_again(source: str, name: str) -> None:
    if examine(EDITS[name], source, "day").state is SiteState.READY:
        rewritten(EDITS[name], source, "day")


@given(programs(), st.sampled_from(sorted(EDITS)))
def test_comments_and_blank_lines_change_neither_finding_nor_meaning(source: str, name: str) -> None:
    bare = "\n".join(
        line.split("  #")[0]
        for line in source.splitlines()
        if line.strip() and not line.strip().startswith("#")
    )
    findings = [examine(EDITS[name], text, "day") for text in (source, bare + "\n")]
    assert findings[0].state is findings[1].state
    if findings[0].state is SiteState.READY:
        trees = [ast.dump(ast.parse(finding.rewrite().code)) for finding in findings if finding.rewrite]
        assert trees[0] == trees[1]


@given(programs(), st.sampled_from(sorted(EDITS)))
def test_formatting_anew_changes_neither_finding_nor_meaning(source: str, name: str) -> None:
    source = source.replace("if book.lost: ", "").replace("; log(price)", "")
    findings = [examine(EDITS[name], text, "day") for text in (source, ast.unparse(ast.parse(source)) + "\n")]
    assert findings[0].state is findings[1].state
    if findings[0].state is SiteState.READY:
        trees = [ast.dump(ast.parse(finding.rewrite().code)) for finding in findings if finding.rewrite]
        assert trees[0] == trees[1]

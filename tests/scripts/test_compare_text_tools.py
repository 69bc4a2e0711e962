"""What the comparison with text tools counts: clean, correct, wrong and with a conflict, and what git remembers."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

import compare_text_tools as compare  # noqa: E402

BASE = b"""\
class Desk:
    books = 0

    def lend(self, days):
        due = days + 1
        return due

    def take(self):
        return self.books

    def count(self):
        return self.books


limit = 14
"""
CHANGED = BASE.replace(b"return due", b"return due * 2")
ELSEWHERE = BASE.replace(b"limit = 14", b"limit = 28")
AT_THE_SITE = BASE.replace(b"        return due\n", b"        return due + 3\n")
RESOLVED = BASE.replace(b"        return due\n", b"        return due * 2 + 3\n")


def case(text: bytes, planned: bytes) -> compare.Case:
    return compare.Case("a tree", "a kind", {"desk.py": text}, {"desk.py": planned}, True, 0.0)


def counts(folder: Path, *cases: compare.Case) -> dict[str, tuple[int, int, int]]:
    measured = compare.measured(cases, {"desk.py": BASE}, {"desk.py": CHANGED}, folder)
    tools = measured["tools"]
    assert isinstance(tools, list)
    found = {tool["tool"]: (tool["correct"], tool["wrong"], tool["left"]) for tool in tools}
    # It merges words, and a machine may lack it.
    wiggled = found.pop("wiggle", None)
    assert wiggled is None or sum(wiggled) == len(cases)
    return found


@pytest.mark.parametrize("name", compare.FORMS)
def test_a_form_changes_the_text_and_not_what_it_does(name: str) -> None:
    drifted = compare.FORMS[name](BASE.replace(b'"', b"'"))
    assert drifted != BASE or name == "another formatter"
    for code in (BASE, drifted):
        space: dict[str, object] = {}
        exec(compile(code, name, "exec"), space)
        desk = space["Desk"]
        assert callable(desk)
        assert desk().lend(2) == 3
    assert compare.meaning(ast.unparse(ast.parse(drifted)).encode()) == compare.meaning(drifted)


def test_drift_elsewhere_is_no_matter_for_any_tool(tmp_path: Path) -> None:
    planned = ELSEWHERE.replace(b"return due", b"return due * 2")
    assert set(counts(tmp_path, case(ELSEWHERE, planned)).values()) == {(1, 0, 0)}


def test_drift_at_the_site_is_a_conflict_and_rerere_resolves_it_in_the_next_tree(tmp_path: Path) -> None:
    sibling = AT_THE_SITE.replace(b"limit = 14", b"limit = 28")
    further = RESOLVED.replace(b"limit = 14", b"limit = 28")
    found = counts(tmp_path, case(AT_THE_SITE, RESOLVED), case(sibling, further))
    assert found.pop("patchkit") == (2, 0, 0)
    assert found.pop("git rerere") == (1, 0, 1)
    assert set(found.values()) == {(0, 0, 2)}


def test_what_is_clean_and_something_else_is_wrong(tmp_path: Path) -> None:
    found = counts(tmp_path, case(BASE, RESOLVED))
    assert found.pop("patchkit") == (1, 0, 0)
    assert set(found.values()) == {(0, 1, 0)}

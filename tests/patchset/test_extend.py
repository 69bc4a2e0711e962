"""An extension in a folder of one's own adds to a patch's edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.programs import check_noop, rewritten
from support.toys import add_patch

from patchkit.codemods.examination import SiteState
from patchkit.errors import UsageError
from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.patchset.patch import Edit, Patch

LEND = """\
[edit.lend]
kind = "rewrite"
why = "toy"
at = "srt/desk.py::lend"
find = "$d.lend($b)"
code = "$d.hand($b)"

[edit.days]
kind = "call-argument"
why = "toy"
sites = ["srt/desk.py::lend", "srt/desk.py::borrow"]
find = "f(...)"
argument = "days=14"

[edit.flag]
kind = "class-attribute"
why = "toy"
at = "srt/desk.py::Desk"
code = "open = True"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own beside a built-in patch called `b-desk`."""
    add_patch(tmp_path / "built-in", "b-desk", LEND)
    monkeypatch.setattr(load, "BUILT_IN", tmp_path / "built-in")
    return tmp_path / "own"


def extend(own: Path, text: str, head: str = 'schema = 1\nextends = "b-desk"\nwhy = "Our fork."\n') -> Patch:
    (own / "desk").mkdir(parents=True, exist_ok=True)
    (own / "desk" / "patch.toml").write_text(head + text)
    return load.patches([own]).get("b-desk")


def edit(patch: Patch, name: str) -> Edit:
    return next(each for each in patch.edits if each.name == name)


def test_a_further_way_to_find_a_site_gets_the_edits_code(own: Path) -> None:
    found = edit(extend(own, '[edit.lend]\nfind = "$d.loan($b)"\n'), "lend")
    for source in ("desk.lend(book)\n", "desk.loan(book)\n"):
        assert rewritten(found.kind, source).endswith("\ndesk.hand(book)\n")


def test_a_further_way_may_have_code_of_its_own(own: Path) -> None:
    more = '[edit.lend]\nvariants = [{ find = "$d.loan($b, $n)", code = "$d.hand($b, days=$n)" }]\n'
    found = edit(extend(own, more), "lend")
    assert "desk.hand(book, days=7)" in rewritten(found.kind, "desk.loan(book, 7)\n")


def test_another_way_to_have_the_change_is_known(own: Path) -> None:
    found = edit(extend(own, '[edit.lend]\nalready = ["$d.give($b)"]\n'), "lend")
    check_noop(found.kind, "desk.give(book)\n", SiteState.PRESENT)


def test_a_further_place_comes_after_the_patchs_own(own: Path) -> None:
    found = edit(extend(own, '[edit.lend]\nat = "srt/fork/desk.py::lend"\n'), "lend")
    assert found.files == ("srt/desk.py", "srt/fork/desk.py")


def test_calls_are_found_in_a_further_way(own: Path) -> None:
    found = edit(extend(own, '[edit.days]\nfind = "g(...)"\n'), "days.1")
    assert "g(1, days=14)" in rewritten(found.kind, "g(1)\n")


def test_what_is_known_of_a_set_changes_with_an_extension(own: Path) -> None:
    before = load.patches().digest
    extend(own, '[edit.lend]\nalready = ["x"]\n')
    assert load.patches([own]).digest != before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[edit.lent]\nalready = ["x"]\n', "edit.lent: b-desk has no edit of that name"),
        ('[edit.flag]\nalready = ["x"]\n', "edit.flag: key `already`: class-attribute has no such key"),
        (
            '[edit.flag]\nfind = "x"\n',
            "edit.flag: key `find`: class-attribute takes only one form of its site",
        ),
        ('[edit.days]\nat = "srt/a.py"\n', "edit.days: key `at`: the edit has several sites"),
        ('[edit.lend]\ncode = "x"\n', "edit.lend: key `find`: missing"),
        ('[edit.lend]\nwhy = "x"\n', "edit.lend: unknown key `why`"),
        ('[edit.lend]\nfind = "if"\n', "edit.lend: key `find`: not Python"),
        ('[edit.lend]\nfind = "loan()"\n', "edit.lend: key `code`: nothing binds $b"),
    ],
)
def test_what_cannot_be_added_is_refused_by_edit_and_key(own: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        extend(own, text)
    assert str(caught.value).startswith(f"{own / 'desk' / 'patch.toml'}: ")
    assert reason in str(caught.value)


def test_patch_that_is_not_there_cannot_be_added_to(own: Path) -> None:
    with pytest.raises(UsageError, match="key `extends`: no patch is called 'b-dsk'"):
        extend(own, '[edit.lend]\nat = "a.py"\n', 'schema = 1\nextends = "b-dsk"\nwhy = "x"\n')

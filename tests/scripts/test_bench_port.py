"""What the measurement of ported changes counts: sites, faults of clean files, and edits that people kept."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest
from support.toys import git, write_package

from patchkit.change.follow import Trees
from patchkit.plan.status import FileChange
from patchkit.tree.tree import MemoryTree

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

import bench_port  # noqa: E402

BEFORE = b"""\
class Desk:
    days = 14

    def lend(self, book):
        return book

    def take(self, book):
        return book


def fee(days):
    return days
"""


def changed(*changes: tuple[bytes, bytes]) -> bytes:
    text = BEFORE
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


LENT = (b"    def lend(self, book):\n", b"    def lend(self, book):\n        note(book)\n")
FEE = (b"    return days\n", b"    return days * 2\n")
MORE = (b"\n\ndef fee", b"\n    def stamp(self):\n        pass\n\n\ndef fee")


@pytest.mark.parametrize(
    ("changes", "sites"),
    [((LENT,), {"Desk.lend"}), ((FEE, LENT), {"Desk.lend", "fee"}), ((MORE,), {"Desk"})],
)
def test_the_sites_of_a_change_are_the_definitions_that_it_edits_or_adds_to(
    changes: tuple[tuple[bytes, bytes], ...], sites: set[str]
) -> None:
    assert bench_port.sites(BEFORE, changed(*changes)) == sites


LENDING = [
    (b"        return book\n", True),
    (b"        note(book)\n        return book\n", False),
    (b"        note(card)\n        return book\n", False),
    (b"        note(card, today())\n        return book\n", True),
    (b"        note(book)  # It is lent.\n        tell(book)\n        return book\n", False),
    (b"        tell(reader)\n        return book\n", True),
    (b"        sell(book, reader)\n        return book\n", False),
]


@pytest.mark.parametrize(("there", "lacks"), LENDING)
def test_a_tree_lacks_a_statement_where_no_line_of_it_nor_one_like_it_is_there(
    there: bytes, lacks: bool
) -> None:
    noting = (
        b"    def lend(self, book):\n        return book\n",
        b"    def lend(self, book):\n        note(book)\n        return book\n",
    )
    before = changed(noting)
    after = before.replace(b"note(book)", b"sell(book, reader)")
    tree = BEFORE.replace(noting[0], b"    def lend(self, book):\n" + there)
    trees = Trees(MemoryTree({"srt/desk.py": before}), MemoryTree({"srt/desk.py": tree}))
    assert bench_port.lacking(FileChange("srt/desk.py", before, after), trees) == (
        "a statement" if lacks else ""
    )


def test_a_clean_file_is_wrong_where_it_breaks_or_is_not_what_git_makes_of_it() -> None:
    assert bench_port.fault(BEFORE, BEFORE + b"x =\n", None) == "does not compile"
    assert bench_port.fault(BEFORE, BEFORE + b"x = nobody\n", None) == "nobody is not defined"
    assert bench_port.fault(BEFORE, changed(FEE), BEFORE) == "is not what git apply makes of it"
    assert not bench_port.fault(BEFORE, changed(FEE), changed(FEE) + b"# so\n")
    assert not bench_port.fault(BEFORE, changed(FEE), None)


@pytest.mark.parametrize(
    ("made", "wanted", "verdict"),
    [
        (changed(FEE), changed(FEE), "equal"),
        (BEFORE, changed(FEE), "missing"),
        (changed((b"    return days\n", b"    return 2 * days\n")), changed(FEE), "different"),
        (changed(FEE), changed((b"    return days\n", b"    return days * 3\n")), "theirs"),
        (changed(FEE), BEFORE, "theirs"),
        (b"no Python", changed(FEE), "different"),
    ],
)
def test_an_edit_is_compared_with_the_one_that_people_made(made: bytes, wanted: bytes, verdict: str) -> None:
    change = FileChange("fees.py", BEFORE, changed(FEE))
    assert list(bench_port.compared(change, BEFORE, made, wanted)) == [("fee", verdict)]


def test_an_import_is_the_same_in_any_order_of_its_names() -> None:
    one, other = (b"from a import %s\n" % names for names in (b"b, c, d", b"d, b, c"))
    change = FileChange("fees.py", b"from a import b, c\n", one)
    stood = b"from a import b, c\n"
    assert list(bench_port.compared(change, stood, other, one)) == [("", "equal")]


def test_patches_are_evaluated_on_trees_of_another_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = b'__version__ = "0.5.12"\n'
    root = write_package(
        tmp_path / "python" / "sglang", {"__init__.py": b"", "version.py": version, "srt/desk.py": BEFORE}
    )
    git(tmp_path, "init", "-q", "-b", "main")
    edited = (BEFORE, changed(LENT), changed(LENT), changed(LENT, FEE))
    for month, note, text in zip("1456", "abcd", edited, strict=True):
        (root / "srt" / "desk.py").write_bytes(text)
        (tmp_path / "notes").write_text(note)
        git(tmp_path, "add", "-A")
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-0{month}-14T00:00:00Z")
        git(tmp_path, "commit", "-qm", "A change")
    found = bench_port.drafts(tmp_path, 10, 1)
    assert [found[key] for key in ("commits", "before", "later", "without", "differing")] == [
        1,
        {"right": 1},
        {"right": 1},
        {"right": 1},
        [],
    ]


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (None, "conflict"),
        (changed(FEE), "equal"),
        (changed(FEE, (b"    days = 14\n", b"    days = (\n        14\n    )\n")), "equal"),
        (changed(FEE).replace(b"fee(days)", b"fee(days):  # A day's\n", 1), "broken"),
        (changed(FEE, (b"    days = 14\n", b"    days = 14  # A fortnight\n")), "different"),
        (changed(FEE, LENT), "broken"),
        (changed(FEE, (b"14", b"21")), "different"),
    ],
)
def test_a_file_is_equal_if_its_code_and_comments_are_those_of_people(
    made: bytes | None, outcome: str
) -> None:
    assert bench_port.outcome_of(BEFORE, made, changed(FEE)) == outcome


def test_picks_are_drawn_from_forks_whose_tree_differs(tmp_path: Path) -> None:
    files = {"__init__.py": b"", "version.py": b'__version__ = "0.5.12"\n', "srt/desk.py": BEFORE}
    root = write_package(tmp_path / "python" / "sglang", files)

    def commit(text: bytes, title: str) -> None:
        (root / "srt" / "desk.py").write_bytes(text)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", title)

    git(tmp_path, "init", "-q", "-b", "main")
    commit(BEFORE, "A library")
    git(tmp_path, "checkout", "-q", "-b", "fork")
    commit(changed(MORE), "Stamps of this fork")
    git(tmp_path, "checkout", "-q", "main")
    commit(changed(FEE), "Twice the fee (#7)")
    git(tmp_path, "checkout", "-q", "fork")
    commit(changed(MORE, FEE), "Twice the fee (#7)")
    drawn = bench_port.FORKS._replace(picks=5)
    found = bench_port.beside_people("a", bench_port.picks_of(tmp_path, drawn, set()), None)
    assert (found["changes"], found["tools"]["patchkit port"]) == (1, {"equal": 1})


def test_a_series_is_ported_patch_by_patch(tmp_path: Path) -> None:
    version = b'__version__ = "0.5.12"\n'
    for release, text in (("old", BEFORE), ("new", changed(MORE))):
        files = {"__init__.py": b"", "version.py": version, "srt/desk.py": text}
        write_package(tmp_path / release / "sglang", files)
    clone = tmp_path / "clone"
    (clone / "patches").mkdir(parents=True)
    git(clone, "init", "-q")
    for first, second in ((BEFORE, changed(LENT)), (changed(MORE), changed(MORE, LENT))):
        for name, before, after in (("1-lent", first, second), ("2-fee", second, second.replace(*FEE))):
            old, new = (text.decode().splitlines(keepends=True) for text in (before, after))
            place = "python/sglang/srt/desk.py"
            diff = "".join(difflib.unified_diff(old, new, f"a/{place}", f"b/{place}"))
            (clone / "patches" / f"{name}.patch").write_text(f"diff --git a/{place} b/{place}\n{diff}")
        git(clone, "add", "-A")
        git(clone, "commit", "-qm", "A release")
    steps = [bench_port.Step("old", "HEAD^", "new", "HEAD")]
    moved = list(bench_port.series_of(clone, steps, tmp_path))
    assert [each.name for each in moved] == ["new 1-lent", "new 2-fee"]
    assert moved[1].people.read("srt/desk.py") == changed(MORE, LENT, FEE)
    found = bench_port.beside_people("a", iter(moved), None)
    assert found["tools"]["patchkit port"] == {"equal": 2}

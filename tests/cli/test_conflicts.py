"""Conflicts resolved by hand: the report shows the found code and the intended change."""

from __future__ import annotations

import json
import os
import re
import shlex
import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from support.repositories import committing
from support.toys import (
    ABRUPT,
    CRLF,
    MIRROR,
    SOURCES,
    add_patch,
    attribute,
    edit,
    everything,
    git,
    rewriting,
    write_package,
)

from patchkit.cli import main, schemas
from patchkit.plan.conflict import Conflict
from patchkit.plan.resolutions import resolution
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

COPY = f"""[edit.copy]
kind = "rewrite"
why = "no copy where nobody asks"
at = "{MIRROR}::Mirror.host"
find = "return self.copies.cpu()"
code = "return self.copies.cpu() if self.sure else None"
"""
RESOLVED = b"        return self.copies if self.sure else None\n"


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answer_of(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture(autouse=True)
def conflicting(patch_folder: Path) -> None:
    """A patch with one edit that fits, and one for a site that this fork has written otherwise."""
    add_patch(patch_folder, "t-copy", attribute(MIRROR, "Mirror", "sure = True"), COPY)


def test_markers_that_were_removed_with_the_wanted_code_are_not_shown_as_a_change_to_accept(
    checkout: CheckoutTree,
) -> None:
    found = checkout.read(MIRROR)
    run("apply", checkout.root, "t-copy", "--markers", "--allow-dirty", code=1)
    text = (checkout.package / MIRROR).read_text()
    kept = re.sub(r"<<<<<<< .*\n((?:.*\n)*?)\|\|\|\|\|\|\| (?:.*\n)*?>>>>>>> .*\n", r"\1", text)
    (checkout.package / MIRROR).write_text(kept)
    output = run("status", checkout.root).stdout
    assert f"--> {MIRROR}: Mirror.host" in output
    assert "<<<<<<<" not in output
    assert "--accept" not in output
    run("revert", checkout.root)
    assert checkout.read(MIRROR) == found


def test_diff_shows_the_site_as_found_as_expected_and_the_edit(checkout: CheckoutTree) -> None:
    result = run("diff", checkout.root, "t-copy", code=3)
    assert f"t-copy  copy: no copy where nobody asks\n  --> {MIRROR}:5: Mirror.host\n" in result.stderr
    for name, code in {
        "found": "return self.copies",
        "expected": "return self.copies.cpu()",
        "wanted (rewrite)": "return self.copies.cpu() if self.sure else None",
    }.items():
        assert f"  {name}:\n    {code}\n" in result.stderr
    assert result.stdout == "", "what git apply reads has no conflict in it"


def test_a_form_feed_above_moves_no_line_of_a_reason(checkout: CheckoutTree) -> None:
    edit(checkout, MIRROR, b"class Mirror", b"# one\x0ctwo\nclass Mirror")
    assert state(checkout)["reason"].endswith("the nearest line is `return self.copies` (line 6)")


TWICE = b"""
class Mirror:
    def host(self):
        if self.copies:
            return self.copies.cpu()
        elif self.spare:
            return self.copies.cpu()

    def other(self):
        return self.copies.cpu()
"""


def test_several_matches_are_told_apart_by_their_lines(checkout: CheckoutTree) -> None:
    edit(checkout, MIRROR, SOURCES[MIRROR], TWICE)
    places = "`return self.copies.cpu()` (line 5), `return self.copies.cpu()` (line 7)"
    assert state(checkout)["reason"].endswith(f"several places match, expected one: {places}")


def test_json_has_the_lines(checkout: CheckoutTree) -> None:
    answer = answer_of("diff", checkout.root, "t-copy", code=3)
    msgspec.convert(answer, schemas.ANSWERS["diff"])
    (conflict,) = answer["conflicts"]
    assert (conflict["line"], conflict["end"]) == (5, 6)
    assert conflict["found"] == "        return self.copies\n"
    assert conflict["file"] == MIRROR


def test_a_site_that_is_not_there_has_no_line(checkout: CheckoutTree) -> None:
    (checkout.package / MIRROR).unlink()
    (conflict,) = answer_of("diff", checkout.root, "t-guard", code=3)["conflicts"][-1:]
    assert (conflict["line"], conflict["found"], conflict["wanted"]) == (0, "", "guard = 1")
    assert f"\n  --> {MIRROR}: Mirror\n" in run("diff", checkout.root, "t-guard", code=3).stderr


def test_a_function_on_one_line_is_shown_where_it_stands(checkout: CheckoutTree) -> None:
    path = checkout.package / MIRROR
    path.write_bytes(b"class Mirror:\n    copies = 0\n\n    def host(self): ...\n")
    (found,) = answer_of("diff", checkout.root, "t-copy", code=3)["conflicts"]
    assert (found["line"], found["found"]) == (4, "")


def test_nothing_conflicts_and_nothing_is_shown(checkout: CheckoutTree) -> None:
    assert answer_of("diff", checkout.root, "t-flag")["conflicts"] == []
    assert run("diff", checkout.root, "t-flag").stderr == ""


def test_the_page_of_the_matrix_shows_it(checkout: CheckoutTree, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    edit(checkout, MIRROR, b"return self.copies", b'return self.copies["<b>"]')
    git(checkout.root, "commit", "-qam", "A fork's own")
    run("matrix", checkout.root, "--refs", "HEAD", "--format", "html", "-o", page)
    text = page.read_text()
    assert f"{MIRROR}:5: Mirror.host: copy" in text
    assert "return self.copies[&#34;&lt;b&gt;&#34;]" in text
    assert "return self.copies.cpu()</span>" in text
    assert "return self.copies.cpu() if self.sure else None</span>" in text


def marked(tree: CheckoutTree, *more: object) -> Any:
    return answer_of("apply", tree.root, "--markers", *more, code=1)


def state(tree: CheckoutTree, name: str = "t-copy") -> dict[str, Any]:
    return next(patch for patch in answer_of("status", tree.root)["patches"] if patch["id"] == name)


def finish(tree: CheckoutTree, text: bytes = RESOLVED, file: str = MIRROR) -> None:
    """Write ``text`` in place of the conflict in a file."""
    lines = (tree.package / file).read_bytes().splitlines(keepends=True)
    start = next(n for n, line in enumerate(lines) if line.startswith(b"<<<<<<<"))
    end = next(n for n, line in enumerate(lines) if line.startswith(b">>>>>>>"))
    (tree.package / file).write_bytes(b"".join([*lines[:start], text, *lines[end + 1 :]]))


def test_ambiguous_edits_get_markers_and_the_others_are_made(checkout: CheckoutTree) -> None:
    answer = marked(checkout, "t-copy")
    msgspec.convert(answer, schemas.ANSWERS["apply"])
    assert answer["markers"] == [{"patch": "t-copy", "edit": "copy", "file": MIRROR, "line": 8}]
    text = (checkout.package / MIRROR).read_text()
    assert "sure = True" in text
    assert text.split("    def host(self):\n")[1] == (
        "<<<<<<< found (patchkit t-copy copy)\n"
        "        return self.copies\n"
        "||||||| expected\n"
        "        return self.copies.cpu()\n"
        "=======\n"
        "        # patchkit t-copy: no copy where nobody asks\n"
        "        return self.copies.cpu() if self.sure else None\n"
        ">>>>>>> wanted (patchkit t-copy copy, rewrite)\n"
        "\n\ndepth = 1\n"
    )
    with pytest.raises(SyntaxError):
        compile(text, MIRROR, "exec")


def test_a_tree_with_markers_is_recognised_and_refused_until_it_is_finished(checkout: CheckoutTree) -> None:
    marked(checkout)
    left = state(checkout)
    assert left["state"] == "conflict"
    edits = {each["site"]: (each["state"], each["reason"]) for each in left["edits"]}
    assert edits["Mirror"] == ("applied", "")
    assert "run patchkit resolve t-copy copy" in edits["Mirror.host"][1]
    assert state(checkout, "t-flag")["state"] == "applied"
    root = checkout.root
    assert run("status", root).stdout.endswith(
        f"\nNext: patchkit resolve {root} t-copy copy records your resolution; "
        f"patchkit revert {root} reverts all patches\n"
    )
    before = everything(checkout.root)
    for command in ("apply", "diff", "verify", "audit"):
        output = run(command, checkout.root, code=4).stderr
        assert f"conflict markers of t-copy copy\n  --> {MIRROR}:12\n" in output, command
    output = run("resolve", checkout.root, "t-copy", "copy", code=3).stderr
    assert "the conflict markers are still there" in output
    assert everything(checkout.root) == before


@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_options_that_git_has_for_conflicts_name_the_commands_that_end_them(
    checkout: CheckoutTree, how: str
) -> None:
    marked(checkout)
    before = everything(checkout.root)
    output = " ".join(run("apply", checkout.root, how).stdout.split())
    assert "no write was interrupted" in output
    assert f"patchkit resolve {checkout.root} t-copy copy records" in output
    assert f"patchkit revert {checkout.root} reverts all patches" in output
    assert everything(checkout.root) == before


def test_revert_takes_markers_back(checkout: CheckoutTree) -> None:
    before = everything(checkout.root)
    marked(checkout)
    run("revert", checkout.root)
    assert everything(checkout.root) == before


def test_revert_removes_markers_and_keeps_what_a_person_wrote_beside_them(checkout: CheckoutTree) -> None:
    marked(checkout)
    edit(checkout, MIRROR, b"depth = 1", b"depth = 1\nmine = 2")
    run("revert", checkout.root)
    assert (checkout.package / MIRROR).read_bytes() == SOURCES[MIRROR].replace(
        b"depth = 1", b"depth = 1\nmine = 2"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"        return self.copies\n||", b"        return self.copies + 1\n||"),
        (b">>>>>>> wanted (patchkit t-copy copy, rewrite)\n", b""),
    ],
)
def test_revert_loses_nothing_of_a_half_finished_conflict(
    checkout: CheckoutTree, old: bytes, new: bytes
) -> None:
    marked(checkout)
    edit(checkout, MIRROR, old, new)
    before = everything(checkout.root)
    run("revert", checkout.root, code=3)
    assert everything(checkout.root) == before


def test_half_of_the_markers_are_named(checkout: CheckoutTree) -> None:
    marked(checkout)
    edit(checkout, MIRROR, b"<<<<<<< found (patchkit t-copy copy)\n", b"")
    for command in ("status", "apply"):
        assert "some of the conflict's markers are missing" in run(command, checkout.root, code=4).stderr


def test_what_is_resolved_is_applied_by_hand_and_reverts(checkout: CheckoutTree) -> None:
    before = everything(checkout.root)
    marked(checkout)
    finish(checkout, b"        return self.copies.cpu() if self.sure else None  # ours\n")
    answer = answer_of("resolve", checkout.root, "t-copy", "copy")
    msgspec.convert(answer, schemas.ANSWERS["resolve"])
    assert (answer["recorded"], answer["remembered"]) == (True, True)
    now = state(checkout)
    assert (now["state"], now["reason"]) == ("applied", "by hand: copy")
    for more in ("-v", "t-copy"):
        assert "\n      by hand: copy\n" in run("status", checkout.root, more).stdout
    assert [each["reason"] for each in now["edits"]] == ["", "by hand"]
    assert answer_of("apply", checkout.root)["changed_files"] == []
    run("revert", checkout.root)
    assert everything(checkout.root) == before


def test_resolve_refuses_what_is_not_what_the_edit_is_for(checkout: CheckoutTree) -> None:
    marked(checkout)
    finish(checkout)
    before = everything(checkout.root)
    output = run("resolve", checkout.root, "t-copy", "copy", code=3).stderr
    assert "copy is not in place: expected `return self.copies.cpu() if self.sure else None`" in output
    assert "the nearest line is `return self.copies if self.sure else None`" in output
    assert everything(checkout.root) == before
    assert state(checkout)["state"] == "conflict"


DONE = b"        return self.copies.cpu() if self.sure else None\n"


def test_resolving_twice_says_so_and_changes_nothing(checkout: CheckoutTree) -> None:
    marked(checkout)
    finish(checkout, DONE)
    run("resolve", checkout.root, "t-copy", "copy")
    before = everything(checkout.root)
    assert "already recorded" in run("resolve", checkout.root, "t-copy", "copy").stdout
    assert everything(checkout.root) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("t-copy", "cpoy"), 2, "did you mean copy?"),
        (("t-cpoy", "copy"), 2, "t-cpoy"),
        (("t-copy", "sure"), 3, "made by patchkit, so there is nothing to record"),
    ],
)
def test_resolve_of_what_is_no_edit_of_a_person(
    checkout: CheckoutTree, words: tuple[str, ...], code: int, message: str
) -> None:
    marked(checkout)
    assert message in run("resolve", checkout.root, *words, code=code).stderr


def test_what_a_person_wrote_beside_a_resolution_stays_theirs(checkout: CheckoutTree) -> None:
    marked(checkout)
    finish(checkout, DONE)
    edit(checkout, MIRROR, b"depth = 1", b"depth = 1\nmine = 2")
    run("resolve", checkout.root, "t-copy", "copy")
    edit(checkout, MIRROR, b"mine = 2", b"mine = 2\nmore = 3")
    run("revert", checkout.root)
    theirs = b"depth = 1\nmine = 2\nmore = 3"
    assert (checkout.package / MIRROR).read_bytes() == SOURCES[MIRROR].replace(b"depth = 1", theirs)


def test_a_resolution_that_was_edited_since_is_not_reverted(checkout: CheckoutTree) -> None:
    marked(checkout)
    finish(checkout, DONE)
    run("resolve", checkout.root, "t-copy", "copy")
    edit(checkout, MIRROR, b"self.sure else None", b"self.sure else None  # for now")
    edit(checkout, MIRROR, b"self.copies.cpu()", b"self.copies.cpu().clone()")
    before = everything(checkout.root)
    run("revert", checkout.root, code=3)
    assert everything(checkout.root) == before


def test_an_edit_made_by_hand_without_markers_is_recorded_and_never_half_reverted(
    checkout: CheckoutTree,
) -> None:
    edit(checkout, MIRROR, b"        return self.copies\n", DONE)
    assert answer_of("resolve", checkout.root, "t-copy", "copy") | {"tree": 0} == {
        "tree": 0,
        "patch": "t-copy",
        "edit": "copy",
        "recorded": True,
        "remembered": False,
        "accepted": False,
    }
    git(checkout.root, "commit", "-qam", "By hand")
    run("apply", checkout.root)
    assert state(checkout)["reason"] == "by hand: copy"
    before = everything(checkout.root)
    assert "copy was made by hand" in run("revert", checkout.root, code=3).stderr
    assert everything(checkout.root) == before
    comment = b"        # patchkit t-copy: by hand: copy\n"
    edit(checkout, MIRROR, comment + DONE, b"        return self.copies\n")
    run("revert", checkout.root)
    assert (checkout.package / MIRROR).read_bytes() == SOURCES[MIRROR]


def test_another_patch_reverts_beside_an_edit_made_by_hand(checkout: CheckoutTree) -> None:
    edit(checkout, MIRROR, b"        return self.copies\n", DONE)
    run("resolve", checkout.root, "t-copy", "copy")
    run("apply", checkout.root, "t-stop", "--allow-dirty")
    run("revert", checkout.root, "t-stop")
    assert run("resolve", checkout.root, "t-copy", "copy").stdout.endswith("already recorded.\n")


def test_a_conflict_that_was_finished_and_applied_over_is_recorded_later(checkout: CheckoutTree) -> None:
    before = everything(checkout.root)
    marked(checkout, "t-copy")
    finish(checkout, DONE)
    run("apply", checkout.root, "--allow-dirty")
    whole = everything(checkout.root)
    assert f"run patchkit resolve {checkout.root} t-copy copy" in run("revert", checkout.root, code=3).stderr
    assert everything(checkout.root) == whole
    run("resolve", checkout.root, "t-copy", "copy")
    run("revert", checkout.root)
    assert everything(checkout.root) == before


def test_status_is_printed_despite_a_damaged_ledger(checkout: CheckoutTree) -> None:
    marked(checkout)
    finish(checkout, DONE)
    run("resolve", checkout.root, "t-copy", "copy")
    (checkout.package / ".patchkit" / "ledger.json").write_text("{")
    assert state(checkout)["state"] == "applied"


def test_a_file_with_crlf_gets_crlf(checkout: CheckoutTree, patch_folder: Path) -> None:
    add_patch(patch_folder, "t-crlf", COPY.replace(f"{MIRROR}::Mirror.host", f"{CRLF}::Backend"))
    marked(checkout, "t-crlf")
    text = (checkout.package / CRLF).read_bytes()
    assert b">>>>>>> wanted" in text
    assert text.count(b"\n") == text.count(b"\r\n")
    assert state(checkout, "t-crlf")["state"] == "conflict"
    finish(checkout, b"    return self.copies.cpu() if self.sure else None\r\n", CRLF)
    run("resolve", checkout.root, "t-crlf", "copy")
    assert state(checkout, "t-crlf")["reason"] == "by hand: copy"
    run("revert", checkout.root)
    assert (checkout.package / CRLF).read_bytes() == SOURCES[CRLF]


def sibling(tree: CheckoutTree, folder: Path) -> CheckoutTree:
    """Return a worktree of the same repository, on a branch of its own."""
    git(tree.root, "worktree", "add", "-q", "-b", "sibling", str(folder / "sibling"), "HEAD")
    return open_tree(folder / "sibling")


def test_a_resolution_is_offered_for_the_same_code_and_used_on_request(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    marked(checkout)
    finish(checkout, DONE)
    run("resolve", checkout.root, "t-copy", "copy")
    other = sibling(checkout, tmp_path)
    edit(
        other,
        MIRROR,
        b"        return self.copies\n",
        b"        # of this branch\n        return (self.copies)\n",
    )
    edit(other, MIRROR, b"copies = 0", b"copies = 0\n    more = 0")
    git(other.root, "commit", "-qam", "Of this branch")
    before = everything(other.root)
    output = run("apply", other.root, "t-copy", code=3).stderr
    assert "--resolved uses your earlier resolution\n" in output
    assert everything(other.root) == before
    dry = run("apply", other.root, "--dry-run").stdout
    assert "Left out because of conflicts: t-copy." in dry
    assert "--resolved uses your earlier resolution.\n" in dry
    assert answer_of("apply", other.root, "--resolved", "--dry-run")["changed_files"]
    answer = answer_of("apply", other.root, "t-copy", "--resolved")
    assert answer["changed_files"] == [MIRROR]
    assert DONE in (other.package / MIRROR).read_bytes()
    assert state(other)["reason"] == "by hand: copy"
    run("revert", other.root)
    assert everything(other.root) == before


def test_a_resolution_of_one_of_two_conflicts_is_offered_together_with_markers(
    checkout: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> None:
    resolved(checkout)
    other = sibling(checkout, tmp_path)
    depth = f'[edit.depth]\nkind = "rewrite"\nwhy = "w"\nat = "{MIRROR}"\nfind = "depth = 2"\ncode = "depth = 3"\n'
    add_patch(patch_folder, "t-copy", attribute(MIRROR, "Mirror", "sure = True"), COPY, depth)
    output = run("apply", other.root, "t-copy", "--resolved", code=3).stderr
    assert "--markers with --resolved uses your earlier resolutions of 1 of the conflicts" in output
    run("apply", other.root, "t-copy", "--resolved", "--markers", code=1)
    text = (other.package / MIRROR).read_bytes()
    assert (DONE in text, text.count(b"<<<<<<<")) == (True, 1)


def test_lines_that_mean_what_was_found_are_no_resolution(checkout: CheckoutTree) -> None:
    key = ("t-copy", "copy", "rewrite", "", MIRROR, "Mirror.host", "")
    conflict = Conflict(*key, line=5, end=6, found="        return self.copies\n")
    source = checkout.read(MIRROR) or b""
    assert not resolution(conflict, source, b"        # as it was\n        return (self.copies)\n")
    assert resolution(conflict, source, DONE)


def test_a_resolution_is_not_offered_for_other_code(checkout: CheckoutTree, tmp_path: Path) -> None:
    marked(checkout)
    finish(checkout, DONE)
    run("resolve", checkout.root, "t-copy", "copy")
    other = sibling(checkout, tmp_path)
    edit(other, MIRROR, b"return self.copies", b"return self.copies + 1")
    git(other.root, "commit", "-qam", "Of this branch")
    before = everything(other.root)
    assert "--resolved" not in run("apply", other.root, "t-copy", code=3).stderr
    run("apply", other.root, "t-copy", "--resolved", code=3)
    assert everything(other.root) == before


def test_resolve_without_an_edit_lists_those_in_conflict_and_what_to_type(checkout: CheckoutTree) -> None:
    root = checkout.root
    output = run("resolve", root, "t-copy").stdout
    assert output.startswith(
        f"t-copy  copy\n  --> {MIRROR}: Mirror.host\n  expected `return self.copies.cpu()"
    )
    assert f"Next: patchkit apply {root} t-copy --markers" in output
    marked(checkout, "t-copy")
    for words in ((root, "t-copy"), ("t-copy",)):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            output = run("resolve", *words).stdout
        assert "edit the code between the markers" in output
        assert " t-copy copy records your resolution" in " ".join(output.split())
    answer = answer_of("resolve", root, "t-copy")
    msgspec.convert(answer, schemas.ANSWERS["resolve"])
    assert [(edit["edit"], edit["file"], edit["state"]) for edit in answer["open"]] == [
        ("copy", MIRROR, "conflict")
    ]
    finish(checkout)
    assert "the code in their place is not recorded" in run("resolve", root, "t-copy").stdout
    run("resolve", root, "t-copy", "copy", "--accept")
    assert run("resolve", root, "t-copy").stdout == "t-copy has no edit in conflict.\n"


def test_resolve_requires_the_names_of_a_patch_and_of_the_edit_to_accept(checkout: CheckoutTree) -> None:
    assert "no patch is named" in run("resolve", code=2).stderr
    assert "no patch is called 'nothing'" in run("resolve", checkout.root, "nothing", code=2).stderr
    for option in ("--accept", "--give-up"):
        refused = run("resolve", checkout.root, "t-copy", option, code=2).stderr
        assert "no edit of t-copy is named" in refused
        assert f"patchkit resolve {checkout.root} t-copy lists" in refused


def test_markers_need_no_commit(checkout: CheckoutTree) -> None:
    assert "--commit" in run("apply", checkout.root, "--markers", "--commit", code=2).stderr


def test_without_a_conflict_markers_and_resolved_apply(checkout: CheckoutTree) -> None:
    answer = answer_of("apply", checkout.root, "t-stop", "--markers", "--resolved")
    assert "markers" not in answer
    assert state(checkout, "t-stop")["state"] == "applied"


# ---- an edit of several statements, one of which the fork has otherwise ----------------------------------------

LENDING = """\
class Desk:
    def lend(self, book, shelf, n):
        note(book)
        shelf.titles[:n].copy_(book.titles)
        count(shelf)
        shelf.days[:n].copy_(book.days.clamp(0, 1))
        shelf.fines[:n].copy_(book.fines)
        note(shelf)


depth = 1
"""
TOGETHER = f"""[edit.together]
kind = "rewrite"
why = "one launch"
at = "{MIRROR}::Desk.lend"
find = '''
$shelf.titles[:$n].copy_($book.titles)
$$one
$shelf.days[:$n].copy_($book.days)
$$two
$shelf.fines[:$n].copy_($book.fines)
'''
clear_of = ["$shelf.titles", "$book = $_"]
code = '''
copy([($shelf.titles[:$n], $book.titles), ($shelf.days[:$n], $book.days), ($shelf.fines[:$n], $book.fines)])
$$one
$$two
'''
"""
PAIRS = (
    "copy([(shelf.titles[:n], book.titles), (shelf.days[:n], book.days{}), (shelf.fines[:n], book.fines)])"
)
RENAMED_PAIRS = PAIRS.format("").replace("shelf", "s").replace("book", "b").replace("[:n]", "[:m]")
RIGHT = f"        {PAIRS.format('.clamp(0, 1)')}\n        count(shelf)\n".encode()
WRONG = f"        {PAIRS.format('')}\n        count(shelf)\n".encode()
NOTE = b"        # patchkit t-many: accepted by hand: together\n"


@pytest.fixture
def lending(checkout: CheckoutTree, patch_folder: Path) -> CheckoutTree:
    """A fork's own way of one of the three statements that an edit looks for."""
    add_patch(patch_folder, "t-many", TOGETHER, attribute(MIRROR, "Desk", "open = True"))
    (checkout.package / MIRROR).write_text(LENDING)
    git(checkout.root, "commit", "-qam", "A fork's own desk")
    return checkout


def left(tree: CheckoutTree, file: str = MIRROR) -> list[str]:
    """Return the lines that were found, between the markers."""
    text = (tree.package / file).read_text().partition("<<<<<<<")[2]
    return [line.strip() for line in text.partition("|||||||")[0].splitlines()[1:]]


def test_markers_enclose_all_that_the_edit_looks_for(lending: CheckoutTree) -> None:
    answer = marked(lending, "t-many")
    (edit,) = (each for patch in answer["patches"] for each in patch["edits"] if each["state"] == "conflict")
    assert edit["reason"] == (
        "expected `shelf.days[:n].copy_(book.days)` (line 3 of 5); the nearest line is "
        "`shelf.days[:n].copy_(book.days.clamp(0, 1))` (line 6)"
    )
    lines = [line.strip() for line in LENDING.splitlines()]
    assert left(lending) == lines[3:7]


def sides(tree: CheckoutTree) -> tuple[str, str]:
    """Return the expected and the wanted lines of the first conflict in the file, without indentation."""
    text = (tree.package / MIRROR).read_text().partition("||||||| expected\n")[2].partition(">>>>>>>")[0]
    expected, wanted = (textwrap.dedent(side) for side in text.split("=======\n"))
    return expected, wanted


def test_markers_have_the_code_of_the_tree_in_place_of_the_names_of_the_pattern(
    lending: CheckoutTree,
) -> None:
    marked(lending, "t-many")
    assert sides(lending) == (
        "shelf.titles[:n].copy_(book.titles)\ncount(shelf)\nshelf.days[:n].copy_(book.days)\n"
        "shelf.fines[:n].copy_(book.fines)\n",
        f"# patchkit t-many: one launch\n{PAIRS.format('')}\ncount(shelf)\n",
    )


@pytest.mark.parametrize(
    ("body", "expected", "wanted"),
    [
        (
            "        while shelf:\n            self.lost()\n",
            "shelf.titles[:n].copy_(book.titles)\n# ... (one)\nshelf.days[:n].copy_(book.days)\n# ... (two)\n"
            "shelf.fines[:n].copy_(book.fines)\n",
            f"# patchkit t-many: one launch\n{PAIRS.format('')}\n# ... (one)\n# ... (two)\n",
        ),
        (
            "        s.titles[:m].copy_(b.titles)\n        s.days[:m].copy_(b.days, c)\n",
            "s.titles[:m].copy_(b.titles)\ns.days[:m].copy_(b.days)\n# ... (two)\ns.fines[:m].copy_(b.fines)\n",
            f"# patchkit t-many: one launch\n{RENAMED_PAIRS}\n# ... (two)\n",
        ),
    ],
    ids=["nothing is there", "a part is there"],
)
def test_what_no_code_of_the_tree_stands_for_is_a_word_or_a_comment(
    lending: CheckoutTree, body: str, expected: str, wanted: str
) -> None:
    (lending.package / MIRROR).write_text(f"class Desk:\n    def lend(self, b, s, m):\n{body}")
    git(lending.root, "commit", "-qam", "Another desk")
    marked(lending, "t-many")
    assert sides(lending) == (expected, wanted)


def test_two_sites_that_bind_other_names_share_only_what_both_have(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    patch = TOGETHER.partition("find =")[0] + "find = 'copy($x, $n)'\ncode = 'copy($x, $n, last=$n)'\n"
    add_patch(patch_folder, "t-two", patch)
    (checkout.package / MIRROR).write_text(
        "class Desk:\n    def lend(self, n):\n        copy(self.one, n)\n        copy(self.two, n)\n"
    )
    git(checkout.root, "commit", "-qam", "A fork's own desk")
    marked(checkout, "t-two")
    assert sides(checkout) == ("copy(x, n)\n", "# patchkit t-two: one launch\ncopy(x, n, last=n)\n")


def test_after_a_conflict_the_next_command_is_the_one_that_helps(checkout: CheckoutTree) -> None:
    step = f"patchkit apply {checkout.root} t-copy --markers writes conflict markers, to resolve by hand"

    def next_of(*arguments: object, code: int = 0) -> str:
        text = run(*arguments, code=code).stdout.partition("git commit -a")[0]
        return " ".join(text.split()).partition("Next: ")[2]

    assert next_of("apply", checkout.root) == step
    assert next_of("apply", checkout.root) == step
    assert next_of("status", checkout.root) == step
    run("revert", checkout.root)
    git(checkout.root, "checkout", "-q", ".")
    committing(checkout)
    assert step in next_of("apply", checkout.root, "--commit")
    assert next_of("apply", checkout.root, "t-copy", "--keep-going", code=1) == step
    assert next_of("apply", checkout.root, "t-copy", "--markers", code=1).startswith(
        f"patchkit resolve {checkout.root} t-copy copy records"
    )


def test_a_resolution_that_drops_what_the_fork_had_is_refused(lending: CheckoutTree) -> None:
    marked(lending, "t-many")
    finish(lending, WRONG)
    before = everything(lending.root)
    output = run("resolve", lending.root, "t-many", "together", code=3).stderr
    assert "your code lacks clamp, which was between the markers" in output
    assert everything(lending.root) == before
    answer = answer_of("resolve", lending.root, "t-many", "together", "--accept")
    assert (answer["recorded"], answer["accepted"]) == (True, False), "the code has what the edit is for"
    run("revert", lending.root)
    assert (lending.package / MIRROR).read_text() == LENDING


def test_what_the_fork_had_may_go_elsewhere_in_the_file(lending: CheckoutTree) -> None:
    marked(lending, "t-many")
    finish(lending, WRONG)
    edit(
        lending,
        MIRROR,
        b"        note(book)\n",
        b"        note(book)\n        book.days = book.days.clamp(0, 1)\n",
    )
    assert answer_of("resolve", lending.root, "t-many", "together")["recorded"]


def test_a_correct_resolution_that_cannot_be_checked_is_accepted_on_request(
    lending: CheckoutTree, tmp_path: Path
) -> None:
    before = everything(lending.root)
    marked(lending, "t-many")
    finish(lending, RIGHT)
    output = run("resolve", lending.root, "t-many", "together", code=3).stderr
    assert "together is not in place: expected `copy([" in output
    assert f"the nearest line is `{RIGHT.decode().splitlines()[0].strip()}`" in output
    assert "--accept t-many together to record it without this check" in output
    answer = answer_of("resolve", lending.root, "t-many", "together", "--accept")
    msgspec.convert(answer, schemas.ANSWERS["resolve"])
    assert (answer["recorded"], answer["accepted"], answer["remembered"]) == (True, True, True)
    text = (lending.package / MIRROR).read_bytes()
    assert NOTE + RIGHT in text
    compile(text, MIRROR, "exec")
    now = state(lending, "t-many")
    assert (now["state"], now["reason"]) == ("applied", "accepted by hand: together")
    assert [each["reason"] for each in now["edits"]] == ["accepted by hand", ""]
    assert answer_of("apply", lending.root, "t-many")["changed_files"] == []
    (row,) = answer_of("status", lending.root, "--format", "ledger")["rows"]
    assert (row["by_hand"], row["accepted"]) == (["together"], ["together"])
    assert "accepted by hand: together" in run("status", lending.root, "--format", "ledger").stdout

    git(lending.root, "commit", "-qam", "Finished")
    git(tmp_path, "clone", "-q", str(lending.root), "clone")
    clone = open_tree(tmp_path / "clone")
    status = state(clone, "t-many")
    assert (status["state"], status["reason"]) == ("applied", "accepted by hand: together")
    (again,) = answer_of("status", clone.root, "--format", "ledger")["rows"]
    assert again["accepted"] == ["together"]

    other = sibling(lending, tmp_path)
    git(other.root, "reset", "-q", "--hard", "HEAD~1")
    assert answer_of("apply", other.root, "t-many", "--resolved")["changed_files"] == [MIRROR]
    assert (other.package / MIRROR).read_bytes() == text
    assert state(other, "t-many")["reason"] == "accepted by hand: together"
    run("revert", other.root)
    assert (other.package / MIRROR).read_text() == LENDING

    run("revert", lending.root)
    assert everything(lending.root) == before


def test_a_persons_word_for_code_that_was_there_before_leaves_it_there(lending: CheckoutTree) -> None:
    edit(
        lending,
        MIRROR,
        LENDING.encode()[LENDING.index("        shelf.titles") : LENDING.index("        note(shelf)")],
        RIGHT,
    )
    git(lending.root, "commit", "-qam", "The fork's own launch")
    before = everything(lending.root)
    answer_of("resolve", lending.root, "t-many", "together", "--accept")
    answer_of("apply", lending.root, "t-many")
    assert state(lending, "t-many")["state"] == "applied"
    assert NOTE.strip() in (lending.package / MIRROR).read_bytes()
    run("revert", lending.root)
    assert everything(lending.root) == before


def test_what_an_edit_needs_outside_the_markers_is_reverted_with_it_and_nothing_else(
    lending: CheckoutTree,
) -> None:
    """The statement behind the markers has to go too, and the person adds two lines of their own."""
    edit(lending, MIRROR, b"        shelf.fines[:n].copy_(book.fines)\n", b"")
    edit(
        lending, MIRROR, b"        note(shelf)\n", b"        note(shelf)\n        self.fine(shelf, book, n)\n"
    )
    git(lending.root, "commit", "-qam", "Fines elsewhere")
    original = (lending.package / MIRROR).read_bytes()
    marked(lending, "t-many")
    finish(lending, WRONG)
    edit(lending, MIRROR, b"        self.fine(shelf, book, n)\n", b"        self.mine(n)\n")
    edit(lending, MIRROR, b"depth = 1", b"depth = 2")
    run("resolve", lending.root, "t-many", "together", "--accept")
    run("revert", lending.root)
    theirs = original.replace(b"        self.fine(shelf, book, n)\n", b"        self.mine(n)\n")
    assert (lending.package / MIRROR).read_bytes() == theirs.replace(b"depth = 1", b"depth = 2")


REACHING = f"""[edit.reach]
kind = "rewrite"
why = "in one step"
at = "{MIRROR}::Mirror.host"
find = "self.start()\\n$$between\\nself.stop()"
code = "$$between\\nself.both()"
"""
OWN_WAY = b"""\
        self.start(now=True)
        work()
        rest()
        self.halt(now=True)
        return self.copies
"""


def test_an_edit_that_reaches_outside_the_markers_is_recorded_and_reverts(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    """No loop in which resolve says that it is recorded, and revert that it has to be resolved."""
    add_patch(patch_folder, "t-reach", REACHING)
    edit(checkout, MIRROR, b"        return self.copies\n", OWN_WAY)
    git(checkout.root, "commit", "-qam", "A fork's own way")
    original = (checkout.package / MIRROR).read_bytes()
    marked(checkout, "t-reach")
    assert left(checkout) == ["self.start(now=True)"]
    finish(checkout, b"")
    edit(checkout, MIRROR, b"        self.halt(now=True)\n", b"        self.both()\n")
    edit(checkout, MIRROR, b"        work()\n", b"        work()\n        mine()\n")
    edit(checkout, MIRROR, b"depth = 1", b"depth = 2")
    assert not answer_of("resolve", checkout.root, "t-reach", "reach")["remembered"], (
        "these lines alone are not it"
    )
    assert state(checkout, "t-reach")["reason"] == "by hand: reach"
    run("revert", checkout.root)
    theirs = original.replace(b"        work()\n", b"        work()\n        mine()\n")
    assert (checkout.package / MIRROR).read_bytes() == theirs.replace(b"depth = 1", b"depth = 2")


def test_two_conflicts_side_by_side_that_were_finished_together_are_recorded_one_by_one(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    second = COPY.replace("edit.copy", "edit.depth").replace("self.copies.cpu()", "self.copies.depth()")
    add_patch(patch_folder, "t-copy", COPY, second.replace("if self.sure else None", "or self.depth"))
    before = everything(checkout.root)
    assert len(marked(checkout, "t-copy")["markers"]) == 2
    text = (checkout.package / MIRROR).read_bytes()
    head, tail = text.partition(b"<<<<<<<")[0], text.rpartition(b">>>>>>>")[2].partition(b"\n")[2]
    both = DONE + DONE.replace(b"if self.sure else None", b"or self.depth").replace(b".cpu()", b".depth()")
    (checkout.package / MIRROR).write_bytes(head + both + tail)
    for name in ("copy", "depth"):
        run("resolve", checkout.root, "t-copy", name)
    assert state(checkout)["reason"] == "by hand: copy, depth"
    run("revert", checkout.root)
    assert everything(checkout.root) == before


def test_markers_of_an_edit_of_a_header_enclose_the_header(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    header = "    def host(\n        self,\n    ):\n"
    parameter = f'kind = "parameter"\nat = "{MIRROR}::Mirror.host"\ncode = "n=2"'
    add_patch(patch_folder, "t-head", f'[edit.head]\nwhy = "toy"\n{parameter}')
    edit(checkout, MIRROR, b"    def host(self):\n", f"{header}        n = 3\n".encode())
    git(checkout.root, "commit", "-qam", "A fork's own")
    marked(checkout, "t-head")
    assert left(checkout) == [line.strip() for line in header.splitlines()]


def test_a_method_that_is_gone_is_shown_where_its_class_ends(checkout: CheckoutTree) -> None:
    edit(checkout, MIRROR, b"def host", b"def own")
    (conflict,) = answer_of("diff", checkout.root, "t-copy", code=3)["conflicts"]
    assert (conflict["line"], conflict["found"]) == (6, "")


# ---- a conflict that is given up -------------------------------------------------------------------------------


def test_a_conflict_that_is_given_up_is_as_it_was_found(lending: CheckoutTree) -> None:
    before = (lending.package / MIRROR).read_text()
    marked(lending, "t-many")
    answer = answer_of("resolve", lending.root, "t-many", "together", "--give-up")
    msgspec.convert(answer, schemas.ANSWERS["resolve"])
    assert answer["given_up"]
    text = (lending.package / MIRROR).read_text()
    assert text != before, "the other edit stays"
    assert LENDING.partition("    def")[2] in text
    now = state(lending, "t-many")
    assert now["state"] == "conflict"
    assert {each["site"]: each["state"] for each in now["edits"]} == {
        "Desk": "applied",
        "Desk.lend": "conflict",
    }
    assert (
        "no conflict markers of t-many together"
        in run("resolve", lending.root, "t-many", "together", "--give-up", code=3).stderr
    )
    run("revert", lending.root)
    assert (lending.package / MIRROR).read_text() == before


@pytest.mark.parametrize(
    "marker",
    [
        b"<<<<<<< found (patchkit t-many together)\n",
        b"=======\n",
        b">>>>>>> wanted (patchkit t-many together, rewrite)\n",
    ],
)
def test_a_conflict_some_of_whose_markers_are_gone_is_given_up_too(
    lending: CheckoutTree, marker: bytes
) -> None:
    marked(lending, "t-many")
    edit(lending, MIRROR, marker, b"")
    edit(lending, MIRROR, b"depth = 1", b"depth = 2")
    run("resolve", lending.root, "t-many", "together", "--give-up")
    run("revert", lending.root)
    assert (lending.package / MIRROR).read_text() == LENDING.replace("depth = 1", "depth = 2")


def test_all_is_as_before_once_the_only_edit_is_given_up(checkout: CheckoutTree, patch_folder: Path) -> None:
    add_patch(patch_folder, "t-alone", COPY, imports='["import torch"]')
    before = everything(checkout.root)
    marked(checkout, "t-alone")
    run("resolve", checkout.root, "t-alone", "copy", "--give-up")
    assert everything(checkout.root) == before


def test_a_conflict_that_was_finished_is_not_given_up(lending: CheckoutTree) -> None:
    marked(lending, "t-many")
    finish(lending, RIGHT)
    before = everything(lending.root)
    run("resolve", lending.root, "t-many", "together", "--give-up", code=3)
    run("resolve", lending.root, "t-many", "together", "--give-up", "--accept", code=2)
    assert everything(lending.root) == before


# ---- what can be taken back is, and the rest is named ----------------------------------------------------------


def test_revert_that_keeps_going_leaves_the_patch_that_was_edited_and_what_it_requires(
    checkout: CheckoutTree,
) -> None:
    run("apply", checkout.root, "t-stop", "t-guard")
    edit(checkout, ABRUPT, b"    limit = 8", b"    limit = 9")
    before = everything(checkout.root)
    run("revert", checkout.root, code=3)
    assert everything(checkout.root) == before, "without the option all of it stays"
    answer = answer_of("revert", checkout.root, "--keep-going", code=1)
    msgspec.convert(answer, schemas.ANSWERS["revert"])
    assert answer["reverted"] == ["t-guard"]
    reasons = {each["patch"]: each["reason"] for each in answer["left"]}
    assert ABRUPT in reasons["t-stop"]
    assert "t-stop cannot stay without t-flag" in reasons["t-flag"]
    assert {name: state(checkout, name)["state"] for name in ("t-flag", "t-guard")} == {
        "t-flag": "applied",
        "t-guard": "pending",
    }
    assert b"limit = 9" in (checkout.package / ABRUPT).read_bytes()
    output = run("revert", checkout.root, "--keep-going", code=1).stdout
    assert "! t-stop: " in output
    edit(checkout, ABRUPT, b"    limit = 9", b"    limit = 8")
    assert "left" not in answer_of("revert", checkout.root, "--keep-going")
    assert {file: (checkout.package / file).read_bytes() for file in SOURCES} == SOURCES


def test_patch_whose_own_code_was_copied_is_left_for_that_reason_and_not_for_those_it_came_with(
    checkout: CheckoutTree,
) -> None:
    run("apply", checkout.root, "t-stop", "t-guard")
    edit(checkout, ABRUPT, b"    limit = 8", b"    limit = 8\n    # patchkit t-stop: toy\n    other = 8")
    refusal = run("revert", checkout.root, code=3).stderr
    answer = answer_of("revert", checkout.root, "--keep-going", code=1)
    reasons = {each["patch"]: each["reason"] for each in answer["left"]}
    why = "a comment of t-stop would be left"
    assert why in reasons["t-stop"]
    assert why in refusal
    assert "t-stop cannot stay without t-flag" in reasons["t-flag"]


def test_a_patch_that_has_the_name_of_a_word_in_a_refusal_gets_its_own_reason(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    """A refusal speaks of a `comment`, and so is a patch called."""
    add_patch(patch_folder, "comment", attribute(CRLF, "Backend", "comment = 1"))
    add_patch(patch_folder, "t-needs", attribute(ABRUPT, "Worker", "needs = 1"), requires='["comment"]')
    run("apply", checkout.root, "t-needs")
    edit(checkout, ABRUPT, b"    needs = 1", b"    needs = 1\n    # patchkit t-needs: toy\n    other = 8")
    answer = answer_of("revert", checkout.root, "--keep-going", code=1)
    reasons = {each["patch"]: each["reason"] for each in answer["left"]}
    assert "a comment of t-needs would be left" in reasons["t-needs"]
    assert "t-needs cannot stay without comment" in reasons["comment"]


def test_revert_with_keep_going_reverts_all_in_one_write_if_possible(checkout: CheckoutTree) -> None:
    before = everything(checkout.root)
    run("apply", checkout.root, "t-stop")
    assert answer_of("revert", checkout.root, "--keep-going")["reverted"] == ["t-flag", "t-stop"]
    assert everything(checkout.root) == before


# ---- where a resolution is kept --------------------------------------------------------------------------------


def resolved(tree: CheckoutTree) -> None:
    """Finish the conflict of t-copy in a tree."""
    marked(tree, "t-copy")
    finish(tree, DONE)
    run("resolve", tree.root, "t-copy", "copy")


def test_a_resolution_is_kept_in_the_repository_and_not_in_a_cache(
    checkout: CheckoutTree, own_cache: Path, tmp_path: Path
) -> None:
    resolved(checkout)
    (kept,) = (checkout.root / ".git" / "patchkit" / "resolutions").iterdir()
    assert kept.suffix == ".json"
    assert not (own_cache / "resolutions").exists()
    assert git(checkout.root, "status", "--short").split() == [
        "M",
        f"python/sglang/{MIRROR}",
        "??",
        "patchkit.lock/",
    ]
    git(tmp_path, "clone", "-q", str(checkout.root), "clone")
    output = run("apply", tmp_path / "clone", "t-copy", code=3).stderr
    assert "--resolved" not in output, "another repository is another person's"


def test_a_resolution_of_a_tree_without_git_is_kept_in_the_users_data_folder(
    tree: CheckoutTree, tmp_path: Path
) -> None:
    resolved(tree)
    other = open_tree(write_package(tmp_path / "other" / "sglang"))
    assert answer_of("apply", other.root, "t-copy", "--resolved")["changed_files"] == [MIRROR]


def test_a_resolution_that_cannot_be_stored_is_recorded(
    checkout: CheckoutTree,
) -> None:
    marked(checkout, "t-copy")
    finish(checkout, DONE)
    (checkout.root / ".git" / "patchkit").write_text("in the way")
    answer = answer_of("resolve", checkout.root, "t-copy", "copy")
    assert (answer["recorded"], answer["remembered"]) == (True, False)


def test_resolutions_are_shared_as_a_folder_that_extends_the_patches(
    checkout: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> None:
    behind = COPY.replace("edit.copy", "edit.behind").replace("rewrite", "insert-after")
    behind = behind.replace("return self.copies.cpu()", "depth: int = 3").replace("::Mirror.host", "")
    behind = behind.replace("depth: int = 3 if self.sure else None", "height = 1")
    add_patch(patch_folder, "t-copy", attribute(MIRROR, "Mirror", "sure = True"), COPY, behind)
    shared = tmp_path / "shared"
    assert "no resolution of" in run("resolve", checkout.root, "--export", shared, code=2).stderr
    marked(checkout, "t-copy")
    finish(checkout, b"        # patchkit t-copy: no copy where nobody asks\n" + DONE)
    finish(checkout, b"depth = 1\nheight = 1\n")
    for name in ("copy", "behind"):
        run("resolve", checkout.root, "t-copy", name)
    answer = answer_of("resolve", checkout.root, "--export", shared)
    msgspec.convert(answer, schemas.ANSWERS["resolve"])
    assert answer["files"] == [str(shared / "t-copy" / "patch.toml")]
    assert "patchkit t-copy:" not in (shared / "t-copy" / "patch.toml").read_text()
    run("resolve", checkout.root, "--export", shared, code=2)

    git(tmp_path, "clone", "-q", str(checkout.root), "clone")
    clone = tmp_path / "clone"
    run("apply", clone, "t-copy", code=3)
    run("apply", clone, "t-copy", "--patches", shared)
    (path,) = clone.rglob(MIRROR)
    assert DONE in path.read_bytes()
    assert b"depth = 1\n# patchkit t-copy: no copy where nobody asks\nheight = 1\n" in path.read_bytes()
    patches = answer_of("status", clone, "--patches", shared)["patches"]
    assert {patch["state"] for patch in patches if patch["id"] == "t-copy"} == {"applied"}


def test_an_accepted_edit_is_exported_in_a_form_that_can_be_checked(
    lending: CheckoutTree, tmp_path: Path
) -> None:
    marked(lending, "t-many")
    finish(lending, RIGHT)
    run("resolve", lending.root, "t-many", "together", "--accept")
    run("resolve", lending.root, "--export", tmp_path / "shared")
    git(tmp_path, "clone", "-q", str(lending.root), "clone")
    run("apply", tmp_path / "clone", "t-many", "--patches", tmp_path / "shared")
    patches = answer_of("status", tmp_path / "clone", "--patches", tmp_path / "shared")["patches"]
    (status,) = (patch for patch in patches if patch["id"] == "t-many")
    assert (status["state"], status["reason"]) == ("applied", "")
    run("revert", tmp_path / "clone", "--patches", tmp_path / "shared")
    assert git(tmp_path / "clone", "status", "--short") == ""


def test_a_command_in_a_refusal_runs_as_it_is_printed(checkout: CheckoutTree, tmp_path: Path) -> None:
    tree = open_tree(checkout.root.rename(tmp_path / "our fork"))
    marked(tree)
    output = run("verify", tree.root, code=4).stderr
    leave = re.search(r"; patchkit (resolve .*) leaves the edit out", output)
    back = re.search(r"; patchkit (revert .*) reverts all patches", output)
    assert leave is not None
    assert back is not None
    run(*shlex.split(leave[1]))
    run(*shlex.split(back[1]))
    assert git(tree.root, "status", "--porcelain") == ""


def test_markers_keep_the_lines_of_a_patch_with_a_separator_in_a_string(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    wanted = "return self.copies.cpu() or 'a\u2028b'"
    add_patch(
        patch_folder,
        "t-name",
        rewriting("name", f"{MIRROR}::Mirror.host", "return self.copies.cpu()", wanted),
    )
    run("apply", checkout.root, "t-name", "--markers", code=1)
    assert f"\n        {wanted}\n>>>>>>>".encode() in (checkout.package / MIRROR).read_bytes()


LATIN = b"# -*- coding: latin-1 -*-\n"
OWN_TEXT = {
    "a separator of lines": "# pasted\u2028        self.copies = None".encode(),
    "a form feed": b"# pasted\x0c        self.copies = None",
    "a separator in a string": "self.name = 'a\u2028b'".encode(),
}


@pytest.mark.parametrize("deeper", [False, True], ids=["as deep", "deeper"])
@pytest.mark.parametrize("text", OWN_TEXT.values(), ids=OWN_TEXT)
def test_a_resolution_is_written_with_the_lines_that_a_person_typed(
    checkout: CheckoutTree, tmp_path: Path, text: bytes, deeper: bool
) -> None:
    other = sibling(checkout, tmp_path)
    marked(checkout, "t-copy")
    finish(checkout, b"        %s\n%s" % (text, DONE))
    run("resolve", checkout.root, "t-copy", "copy")
    if deeper:
        edit(other, MIRROR, b"        return", b"            return")
        git(other.root, "commit", "-qam", "Deeper")
    run("apply", other.root, "t-copy", "--resolved")
    assert text in (other.package / MIRROR).read_bytes()


def in_latin(tree: CheckoutTree) -> Path:
    """Commit a conflicting file that declares an encoding other than UTF-8, and return its path."""
    path = tree.package / MIRROR
    path.write_bytes(LATIN + path.read_bytes())
    git(tree.root, "commit", "-qam", "Latin")
    return path


def test_a_resolution_of_a_file_in_another_encoding_is_written_in_the_encoding_of_each(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    other = sibling(checkout, tmp_path)
    path = in_latin(checkout)
    marked(checkout, "t-copy")
    finish(checkout, DONE.replace(b"\n", b"  # caf\xe9\n"))
    assert answer_of("resolve", checkout.root, "t-copy", "copy")["remembered"]
    run("revert", checkout.root)
    run("apply", checkout.root, "t-copy", "--resolved")
    assert b"# caf\xe9\n" in path.read_bytes()
    run("apply", other.root, "t-copy", "--resolved")
    assert "# caf\u00e9\n".encode() in (other.package / MIRROR).read_bytes()


def test_a_resolution_is_not_written_to_a_file_whose_encoding_lacks_its_characters(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    other = sibling(checkout, tmp_path)
    path = in_latin(other)
    marked(checkout, "t-copy")
    finish(checkout, DONE.replace(b"\n", "  # \u20ac\n".encode()))
    run("resolve", checkout.root, "t-copy", "copy")
    before = path.read_bytes()
    run("apply", other.root, "t-copy", "--resolved", code=3)
    assert path.read_bytes() == before


def test_markers_of_a_file_with_a_byte_order_mark_have_none(checkout: CheckoutTree) -> None:
    path = checkout.package / MIRROR
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    git(checkout.root, "commit", "-qam", "With a mark")
    marked(checkout, "t-copy")
    assert path.read_bytes().count(b"\xef\xbb\xbf") == 1


@pytest.mark.parametrize("planted", ["a pipe", "a huge file"])
def test_a_repository_in_which_a_resolution_is_no_file_to_read_has_none(
    checkout: CheckoutTree, planted: str
) -> None:
    resolved(checkout)
    run("revert", checkout.root)
    (kept,) = (checkout.root / ".git" / "patchkit" / "resolutions").iterdir()
    kept.unlink()
    if planted == "a pipe":
        os.mkfifo(kept)
    else:
        kept.touch()
        os.truncate(kept, 2**40)
    assert "--resolved" not in run("apply", checkout.root, "t-copy", code=3).stderr
    run("resolve", checkout.root, "--export", "shared", code=2)


def test_a_link_in_the_repository_leads_no_resolution_out_of_it(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (checkout.root / ".git" / "patchkit").symlink_to(outside)
    marked(checkout, "t-copy")
    finish(checkout, DONE)
    assert not answer_of("resolve", checkout.root, "t-copy", "copy")["remembered"]
    assert not list(outside.iterdir())


# ---- markers that were removed, and no resolution recorded ------------------------------------------------------

REMOVED = "the conflict markers were removed, and the code in their place is not recorded"


def test_markers_removed_before_resolve_are_named_with_the_command_that_is_due(
    checkout: CheckoutTree,
) -> None:
    marked(checkout, "t-copy")
    finish(checkout)
    root, before = checkout.root, everything(checkout.root)
    left = (
        f"{REMOVED}: run patchkit resolve {root} t-copy copy, or patchkit resolve {root} --accept t-copy copy"
    )
    status = run("status", root).stdout
    assert left in status
    assert f"\nNext: patchkit resolve {root} t-copy copy records your resolution; " in status
    dry = run("apply", root, "--dry-run", "--allow-dirty").stdout
    assert left in dry
    assert f"patchkit apply {root} --allow-dirty applies" in dry
    refused = run("apply", root, "t-copy", "--allow-dirty", code=3)
    assert left in refused.stdout
    assert f"help: patchkit resolve {root} t-copy copy records" in refused.stderr
    assert "--markers" not in refused.stderr
    verified = run("verify", root, code=1).output
    assert f"t-copy: copy is not in place: {REMOVED}\n" in verified
    assert f"run patchkit resolve {root} t-copy copy, or" in verified
    assert "restore the code" not in verified
    assert everything(root) == before
    run("resolve", root, "t-copy", "copy", "--accept")
    for command in ("status", "apply", "verify"):
        assert REMOVED not in run(command, root).output


def test_a_resolution_that_is_in_place_is_still_to_be_recorded(checkout: CheckoutTree) -> None:
    marked(checkout, "t-copy")
    finish(checkout, DONE)
    root = checkout.root
    assert state(checkout)["state"] == "applied"
    assert f"\nNext: patchkit resolve {root} t-copy copy records" in run("status", root).stdout
    applied = run("apply", root, "--allow-dirty").stdout
    assert f"t-copy  copy: {REMOVED}.\n" in applied
    assert f"\nNext: patchkit resolve {root} t-copy copy records" in applied
    assert (
        f"note: t-copy copy: {REMOVED}: run patchkit resolve {root} t-copy copy" in run("verify", root).stdout
    )
    run("resolve", root, "t-copy", "copy")
    for command in ("status", "apply", "verify"):
        assert REMOVED not in run(command, root).output


def test_giving_up_without_markers_names_the_commands_that_restore_the_original(
    checkout: CheckoutTree,
) -> None:
    before = everything(checkout.root)
    marked(checkout, "t-copy")
    finish(checkout)
    root = checkout.root
    message = run("resolve", root, "t-copy", "copy", "--give-up", code=3).stderr
    assert f"help: patchkit resolve {root} --accept t-copy copy records" in message
    assert f"patchkit revert {root} t-copy then restores" in message
    run("resolve", root, "t-copy", "copy", "--accept")
    run("revert", root, "t-copy")
    assert everything(root) == before


def test_markers_replaced_by_the_code_from_before_them_leave_nothing_to_record(
    checkout: CheckoutTree,
) -> None:
    marked(checkout, "t-copy")
    finish(checkout, b"        return self.copies\n")
    assert REMOVED not in run("status", checkout.root).stdout
    git(checkout.root, "checkout", "-q", ".")
    assert REMOVED not in run("status", checkout.root).stdout


def test_on_another_branch_nothing_is_to_be_recorded(checkout: CheckoutTree) -> None:
    git(checkout.root, "branch", "other")
    marked(checkout, "t-copy")
    finish(checkout)
    git(checkout.root, "commit", "-qam", "By hand, not recorded")
    assert REMOVED in run("status", checkout.root).stdout
    git(checkout.root, "checkout", "-q", "other")
    edit(checkout, MIRROR, b"depth = 1", b"depth = 2")
    assert REMOVED not in run("status", checkout.root).stdout


def test_code_that_was_written_on_another_branch_is_recorded_by_the_command_that_resolved_names(
    checkout: CheckoutTree,
) -> None:
    git(checkout.root, "branch", "other")
    marked(checkout, "t-copy")
    finish(checkout)
    git(checkout.root, "commit", "-qam", "By hand, not recorded")
    git(checkout.root, "stash", "-u", "-q")
    git(checkout.root, "checkout", "-q", "other")
    git(checkout.root, "checkout", "-", "--", f"python/sglang/{MIRROR}")
    root = checkout.root
    message = run("apply", root, "t-copy", "--resolved", "--allow-dirty", code=3).stderr
    assert f"; patchkit resolve {root} --accept t-copy copy records the code there as your own\n" in message
    run("resolve", root, "--accept", "t-copy", "copy")
    assert state(checkout)["reason"] == "accepted by hand: copy"
    assert "--accept" not in run("apply", root, "t-copy", "--resolved", "--allow-dirty").output


# ---- resolutions and --commit -----------------------------------------------------------------------------------


def test_with_commit_an_earlier_resolution_is_offered_with_the_commands_that_commit_it(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    resolved(checkout)
    other = sibling(checkout, tmp_path)
    git(other.root, "config", "user.name", "A Maintainer")
    git(other.root, "config", "user.email", "maintainer@example.com")
    message = run("apply", other.root, "t-copy", "--commit", code=3).stderr
    command = f"patchkit apply {other.root} --resolved t-copy"
    assert f"{command} uses your earlier resolution; commit it with git commit\n" in message
    output = run("apply", other.root, "--commit").stdout
    assert "Left out because of conflicts: t-copy." in output
    assert f"{command} uses your earlier resolution; commit it with git commit.\n" in output
    run("apply", other.root, "--resolved", "t-copy")
    assert state(other)["reason"] == "by hand: copy"

"""Of patch code that a person edited, each command shows the difference, and what accepts it or takes it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.repositories import clone, committing
from support.toys import CRLF, MIRROR, add_patch, edit, git, rewriting, statement

from patchkit.cli import main
from patchkit.findings.printable import excerpt
from patchkit.transaction.edited import difference

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

DIFFERENCE = """\
@@ -6,3 +6,3 @@
         first = repr(self.copies)
-        second = first + 1
+        second = first + 2
         return first, second
"""


def run(*arguments: object, code: int) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.fixture(params=["uncommitted", "committed", "clone"])
def edited(
    request: pytest.FixtureRequest, checkout: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> CheckoutTree:
    """A patched tree in which a person edited one line of a patch, and lines of their own."""
    fork = committing(checkout)
    call = "first = repr($value)\nsecond = first + 1\nreturn first, second"
    add_patch(
        patch_folder,
        "t-call",
        rewriting(
            "call", f"{MIRROR}::Mirror.host", "return self.$value", call.replace("$value", "self.$value")
        ),
        rewriting("depth", MIRROR, "depth = 1", "depth = 2\nheight = 3"),
    )
    run("apply", fork.root, "t-call", *(() if request.param == "uncommitted" else ("--commit",)), code=0)
    tree = clone(fork, tmp_path) if request.param == "clone" else fork
    edit(tree, MIRROR, b"second = first + 1", b"second = first + 2")
    edit(tree, MIRROR, b"copies = 0\n", b"copies = 0\n    mine = 1\n")
    return tree


def test_status_shows_the_difference_and_what_to_type(edited: CheckoutTree) -> None:
    text = run("status", edited.root, code=0)
    assert all(f"  {line}\n" in text for line in DIFFERENCE.splitlines()[1:])
    assert "mine" not in text
    assert f"patchkit resolve {edited.root} t-call call --accept" in text
    assert "git restore -p" in text
    (patch,) = (
        p for p in json.loads(run("status", edited.root, "--json", code=0))["patches"] if p["id"] == "t-call"
    )
    shown = {each.get("difference", "") for each in patch["edits"]}
    assert shown == {"", DIFFERENCE.replace("-6,3 +6,3", "-6,3 +7,3")}


def test_verify_shows_the_difference_and_what_to_type(edited: CheckoutTree) -> None:
    text = run("verify", edited.root, code=1)
    assert all(f"          {line}\n" in text for line in DIFFERENCE.splitlines()[1:])
    assert "t-call call --accept" in text
    checks = json.loads(run("verify", edited.root, "--json", code=1))["checks"]
    (finding,) = next(check["findings"] for check in checks if check["check"] == "postconditions")
    assert finding["expression"].endswith(DIFFERENCE.partition("\n")[2])


def test_revert_shows_the_difference(edited: CheckoutTree) -> None:
    before = edited.read(MIRROR)
    text = run("revert", edited.root, code=3)
    assert "code that patchkit wrote was edited after apply" in text
    assert all(f"  {line}\n" in text for line in DIFFERENCE.splitlines()[1:])
    assert "mine" not in text
    assert "git restore -p" in text
    assert edited.read(MIRROR) == before


def test_what_they_say_to_type_helps(edited: CheckoutTree) -> None:
    run("resolve", edited.root, "t-call", "call", "--accept", code=0)
    assert "accepted by hand: call" in run("status", edited.root, "-v", code=0)
    assert "is not in place" not in run("verify", edited.root, code=0)
    note = b"        # patchkit t-call: accepted by hand: call\n"
    assert "second = first + 2\n" in run("revert", edited.root, code=3)
    edit(edited, MIRROR, note, b"")
    edit(edited, MIRROR, b"second = first + 2", b"second = first + 1")
    run("revert", edited.root, code=0)
    assert b"mine = 1" in (edited.read(MIRROR) or b"")
    assert b"first" not in (edited.read(MIRROR) or b"")


def test_the_only_edit_of_a_file_that_was_changed_and_accepted_is_named_by_revert(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    fork = committing(checkout)
    code = "first = repr(self.$value)\nreturn first"
    add_patch(patch_folder, "t-lone", rewriting("call", f"{MIRROR}::Mirror.host", "return self.$value", code))
    run("apply", fork.root, "t-lone", "--commit", code=0)
    edit(fork, MIRROR, b"first = repr", b"first = str")
    run("resolve", fork.root, "t-lone", "call", "--accept", code=0)
    text = run("revert", fork.root, code=3)
    assert "call of t-lone was made by hand, and no record has the original code" in text
    assert f"--> {MIRROR}\n" in text


def patch_of(tree: CheckoutTree, *options: object, code: int = 0) -> dict[str, Any]:
    patches = json.loads(run("status", tree.root, "--json", *options, code=code))["patches"]
    return next(patch for patch in patches if patch["id"] == "t-call")


def test_a_changed_line_is_edited(edited: CheckoutTree) -> None:
    patch = patch_of(edited, "t-call", "--check", code=1)
    assert patch["state"] == "edited"
    (edit,) = (each for each in patch["edits"] if each["state"] == "edited")
    assert edit["site"] == "Mirror.host"
    assert edit["reason"].startswith(
        "line 8: a person changed its code: patchkit resolve t-call call --accept"
    )
    assert "edited           1  t-call\n" in run("status", edited.root, code=0)


def test_a_removed_line_is_edited(edited: CheckoutTree) -> None:
    edit(edited, MIRROR, b"        second = first + 2\n", b"")
    edit(edited, MIRROR, b"return first, second", b"return first, second")
    assert patch_of(edited)["state"] == "edited"


def test_a_file_that_a_person_removed_is_edited(edited: CheckoutTree) -> None:
    (edited.package / MIRROR).unlink()
    patch = patch_of(edited)
    assert patch["state"] == "edited"
    assert all("\n-        second = first + 1\n" in each["difference"] for each in patch["edits"])


def test_a_line_that_no_pattern_requires_is_edited(edited: CheckoutTree) -> None:
    edit(edited, MIRROR, b"second = first + 2", b"second = first + 1")
    assert patch_of(edited)["state"] == "applied"
    edit(edited, MIRROR, b"height = 3\n", b"height = 4\n")
    assert patch_of(edited)["state"] == "edited"


def test_tidied_comments_and_layout_are_not_edited(edited: CheckoutTree) -> None:
    edit(edited, MIRROR, b"second = first + 2", b"second = (\n            first + 1  # ours\n        )")
    text = edited.read(MIRROR) or b""
    assert patch_of(edited)["state"] == "applied"
    tidy = [line for line in text.splitlines(keepends=True) if b"# patchkit" not in line]
    (edited.package / MIRROR).write_bytes(b"".join(tidy))
    assert patch_of(edited)["state"] == "applied"
    run("verify", edited.root, code=0)


def test_code_of_their_own_is_not_edited(edited: CheckoutTree) -> None:
    edit(edited, MIRROR, b"second = first + 2", b"log(first)\n        second = first + 1")
    assert {each["state"] for each in patch_of(edited)["edits"]} != {"applied", "edited"}


def test_an_edit_that_could_be_made_again_is_edited_and_not_made_twice(edited: CheckoutTree) -> None:
    edit(edited, MIRROR, b"return first, second", b"return self.copies")
    patch = patch_of(edited)
    assert patch["state"] == "edited"
    message = run("apply", edited.root, "t-call", "--allow-dirty", code=3)
    assert "a person changed its code" in message
    text = run("apply", edited.root, "--allow-dirty", code=0)
    assert "Left out" in text
    assert text.count("--accept") == 1
    assert "--markers" not in text
    assert (edited.read(MIRROR) or b"").count(b"second =") == 1
    run("apply", edited.root, "t-call", "--markers", "--allow-dirty", code=3)


def test_a_commit_and_a_diff_do_not_make_an_edited_edit_again_either(edited: CheckoutTree) -> None:
    edit(committing(edited), MIRROR, b"return first, second", b"return self.copies")
    git(edited.root, "add", "-A")
    git(edited.root, "commit", "-qm", "Ours")
    assert "a person changed its code" in run("apply", edited.root, "t-call", "--commit", code=3)
    assert "Left out" in run("apply", edited.root, "--commit", code=0)
    assert (edited.read(MIRROR) or b"").count(b"second =") == 1
    assert "+        second = first + 1" not in run("diff", edited.root, "t-call", code=3)


def test_an_edit_that_was_taken_back_is_made_again(edited: CheckoutTree) -> None:
    lines = (edited.read(MIRROR) or b"").splitlines(keepends=True)
    index = next(number for number, line in enumerate(lines) if b"first = " in line)
    body = b"".join(lines[index - 1 : index + 3])
    edit(edited, MIRROR, body, b"        return self.copies\n")
    assert patch_of(edited)["state"] == "partial"
    run("apply", edited.root, "t-call", "--allow-dirty", code=0)
    assert b"second = first + 1" in (edited.read(MIRROR) or b"")


def test_an_accepted_edit_is_applied_again(edited: CheckoutTree) -> None:
    run("resolve", edited.root, "t-call", "call", "--accept", code=0)
    assert patch_of(edited, "t-call", "--check")["state"] == "applied"


def test_a_refused_revert_has_the_difference(edited: CheckoutTree) -> None:
    result = CliRunner().invoke(main, ["revert", str(edited.root), "--json"])
    assert result.exit_code == 3
    answer = json.loads(result.stdout)
    assert answer["reverted"] == []
    assert "-        second = first + 1\n+        second = first + 2\n" in answer["difference"]
    (left,) = json.loads(run("revert", edited.root, "--keep-going", "--json", code=1))["left"]
    assert left["difference"] == answer["difference"]


def test_the_ledger_and_the_next_commands_say_edited(edited: CheckoutTree) -> None:
    # Git has what patchkit wrote only if that was committed.
    edit(edited, MIRROR, b"    mine = 1\n", b"")
    for old, new in ((b"first + 2", b"first + 1"), (b"first + 1", b"first + 2")):
        edit(edited, MIRROR, old, new)
        git(edited.root, "add", "-A")
        git(edited.root, "commit", "-qm", "patched", "--allow-empty")
    (row,) = (
        row
        for row in json.loads(run("status", edited.root, "--format", "ledger", "--json", code=0))["rows"]
        if row["patch"] == "t-call"
    )
    assert row["how"] == "edited"
    (ref,) = json.loads(run("matrix", edited.root, "--refs", "HEAD", "--json", code=0))["rows"]
    assert next(c["state"] for c in ref["patches"] if c["patch"] == "t-call") == "edited"
    moves = json.loads(run("rebase", edited.root, "--onto", "HEAD", "--json", code=1))["patches"]
    (move,) = (move for move in moves if move["id"] == "t-call")
    assert (move["now"], move["then"]) == ("edited", "edited")


def test_only_lines_of_patches_count() -> None:
    original, written = b"a\nb\nc\nd\ne\nf\ng\n", b"a\nb\nnew\nnewer\nc\nd\ne\nf\ng\n"
    assert difference(original, written, written.replace(b"f\n", b"mine\n")) == ""
    assert difference(original, written, written.replace(b"\n", b"\r\n")) == ""
    assert "+between" in difference(original, written, written.replace(b"newer", b"between\nnewer"))
    assert "-newer" in difference(original, written, written.replace(b"newer\n", b""))
    assert difference(original, written, written.replace(b"new\n", b"mine\nnew\n")) == ""
    assert difference(None, written, b"") == difference(original, written, None) == ""


def test_excerpt_fits_a_terminal() -> None:
    lines = excerpt("".join(f"+{'x' * 100}\x1b{number}\n" for number in range(30)))
    assert all(len(line) <= 80 and "\x1b" not in line for line in lines)
    assert lines[-1].endswith("20 more lines (--json has all)")


def test_an_edit_of_the_same_patch_in_another_file_stays_applied(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    code = "def lent():\n    return 1"
    edits = [statement("module-code", name, file, "", code) for name, file in (("a", MIRROR), ("b", CRLF))]
    add_patch(patch_folder, "t-call", *(each.replace("find = ''''''\n", "") for each in edits))
    run("apply", checkout.root, "t-call", code=0)
    edit(checkout, MIRROR, b"return 1", b"return 2")
    assert {each["file"]: each["state"] for each in patch_of(checkout)["edits"]} == {
        MIRROR: "edited",
        CRLF: "applied",
    }


def test_an_import_of_a_patch_that_a_person_gave_another_name_is_edited(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    fork = committing(checkout)
    change = rewriting("depth", MIRROR, "depth = 1", "depth = fractions.Fraction(1)")
    add_patch(patch_folder, "t-call", change, imports='["import fractions"]')
    run("apply", fork.root, "t-call", "--commit", code=0)
    edit(fork, MIRROR, b"import fractions\n", b"import fractions as parts\n")
    assert patch_of(fork)["state"] == "edited"


def test_a_line_that_a_file_has_hundreds_of_times_is_a_persons_where_a_patch_did_not_write_it() -> None:
    rows = ["row,"] * 300
    written = [*rows[:150], "own,", *rows[150:]]
    there = [*written[:200], "mine,", *written[201:]]
    assert difference(*("\n".join(row).encode() for row in (rows, written, there))) == ""

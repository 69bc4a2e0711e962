from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
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
    write_package,
)

from patchkit.cli import main
from patchkit.transaction.journal import Journal
from patchkit.transaction.lock import exclusive
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def answer(*arguments: object, code: int = 0) -> Any:
    """Return the JSON on stdout."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def refusal(*arguments: object, code: int) -> str:
    """Return what stderr has, in the form that a refusal has; nothing is on stdout."""
    result = run(*arguments, code=code)
    assert result.stdout == ""
    assert re.fullmatch(r"error: .*[^.]\n(  --> .*\n)?(  .*\n)*(help: .*[^.]\n)?", result.stderr)
    return result.stderr


def states(*arguments: object, code: int = 0) -> dict[str, str]:
    return {patch["id"]: patch["state"] for patch in answer(*arguments, code=code)["patches"]}


@pytest.fixture
def conflicting(tmp_path: Path) -> Path:
    """A folder with a patch that conflicts, one that requires it, and one that has nothing to do with it."""
    folder = tmp_path / "more"
    add_patch(folder, "x-none", attribute(MIRROR, "NoSuchClass", "a = 1"))
    add_patch(folder, "x-after", attribute(ABRUPT, "Worker", "b = 1"), requires='["x-none"]')
    add_patch(folder, "x-other", attribute(ABRUPT, "Worker", "c = 1"))
    return folder


def test_show_without_a_name_names_every_patch() -> None:
    assert [patch["id"] for patch in answer("show")] == ["t-flag", "t-guard", "t-stop"]
    lines = run("show").stdout.splitlines()
    assert lines[0] == "t-flag   Toy t-flag"


def test_show_without_a_name_takes_folders(conflicting: Path) -> None:
    assert [patch["id"] for patch in answer("show", "--patches", conflicting)][-3:] == [
        "x-none",
        "x-after",
        "x-other",
    ]


def test_show_says_what_the_patch_says() -> None:
    patch = answer("show", "t-stop")
    assert patch["requires"] == ["t-flag"]
    (edit,) = patch["edits"]
    assert edit["name"] == "limit"
    assert edit["description"] == "toy"
    assert {"id", "title", "why", "upstream", "risk", "verify", "parts"} < set(patch)
    assert "Requires: t-flag" in run("show", "t-stop").stdout


def test_show_has_the_parts_of_a_patch_with_their_words_and_edits(patch_folder: Path) -> None:
    part = '[part.lock]\ntitle = "A lock"\nwhy = "Thieves."\nrisk = "A lost key."\nformerly = "t-lock"'
    lock = attribute(MIRROR, "Mirror", "locked = 1").replace('why = "toy"', 'why = "locked"\npart = "lock"')
    add_patch(patch_folder, "t-desk", part, attribute(MIRROR, "Mirror", "wide = 1"), lock)
    shown = answer("show", "t-desk")
    assert [(edit["name"], edit.get("part")) for edit in shown["edits"]] == [
        ("wide", None),
        ("locked", "lock"),
    ]
    assert [(each["name"], each["formerly"], each["risk"]) for each in shown["parts"]] == [
        ("lock", "t-lock", "A lost key.")
    ]
    text = run("show", "t-desk").stdout.partition("\nt-desk/lock  A lock\n\nThieves.\n\n")[2]
    assert text.startswith("Formerly: t-lock\nRisk: A lost key.\n\nEdits:\n  locked: locked\n")


@pytest.mark.parametrize("command", ["apply", "revert", "diff", "status", "export"])
def test_the_name_of_a_part_and_what_it_was_called_are_refused_with_the_patch(
    tree: CheckoutTree, patch_folder: Path, tmp_path: Path, command: str
) -> None:
    part = '[part.lock]\ntitle = "A lock"\nwhy = "Thieves."\nformerly = "t-lock"'
    lock = attribute(MIRROR, "Mirror", "locked = 1").replace('why = "toy"', 'why = "locked"\npart = "lock"')
    add_patch(patch_folder, "t-desk", part, attribute(MIRROR, "Mirror", "wide = 1"), lock)
    more = ("-o", tmp_path / "series") if command == "export" else ()
    for named, said in (
        ((tree.root, "t-lock"), "t-lock is the part t-desk/lock now"),
        (("t-stop", "t-lock"), "t-lock is the part t-desk/lock now"),
        ((tree.root, "t-desk/lock"), "t-desk/lock is a part of t-desk"),
    ):
        message = refusal(command, *named, *more, code=2)
        assert (
            f"{said}\nhelp: name t-desk; `left_out` in a fork's configuration takes t-desk/lock\n" in message
        )


def test_show_of_a_fix_prints_its_symptom_who_is_affected_and_where_upstream_fixed_it(tmp_path: Path) -> None:
    flag = """[edit.flag]
kind = "class-attribute"
why = "toy"
at = "srt/base.py::Base"
code = "seen = 1"
"""
    affects = '{ symptom = "It stops", when = "topk > 1", concerns = "long prompts", fixed_in = "0.5.14" }'
    add_patch(tmp_path / "own", "x-fix", flag, affects=affects)
    words = ("show", "x-fix", "--patches", tmp_path / "own")
    assert answer(*words)["affects"]["when"] == "topk > 1"
    lines = run(*words).stdout.splitlines()
    assert {
        "Symptom: It stops",
        "Affects: long prompts; servers with topk > 1",
        "Fixed upstream in: 0.5.14",
    } < set(lines)
    assert answer("show", "t-stop")["affects"] is None


def test_show_of_an_unknown_patch_names_the_nearest() -> None:
    assert "did you mean t-flag?" in refusal("show", "t-flg", code=2)


def test_status_answers_as_the_contract_specifies(tree: CheckoutTree) -> None:
    status = answer("status", tree.root)
    assert status["tree"] == {"root": str(tree.root), "package": str(tree.package), "version": "0.5.12"}
    flag = status["patches"][0]
    assert {key: flag[key] for key in ("id", "title", "state")} == {
        "id": "t-flag",
        "title": "Toy t-flag",
        "state": "pending",
    }
    assert [set(edit) for edit in flag["edits"]] == [{"file", "site", "state", "reason"}] * 2
    assert flag["edits"][1] | {"reason": ""} == {
        "file": CRLF,
        "site": "Backend",
        "state": "pending",
        "reason": "",
    }


def test_status_changes_nothing(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    run("status", tree.root)
    run("diff", tree.root)
    run("apply", tree.root, "--dry-run")
    assert everything(tree.root) == before


def test_status_names_the_next_command(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"patchkit apply {tree.root} applies the pending patches" in run("status", tree.root).stdout
    monkeypatch.chdir(tree.root)
    assert "patchkit apply applies the pending patches" in run("status").stdout
    run("apply")
    assert "patchkit revert reverts the patches" in run("status").stdout


def test_check_fails_until_everything_is_applied(tree: CheckoutTree) -> None:
    run("status", tree.root, "--check", code=1)
    run("apply", tree.root, "t-stop")
    run("status", tree.root, "--check", code=1)
    run("apply", tree.root)
    run("status", tree.root, "--check")


def test_check_takes_what_is_in_place_whosever_it_is(tree: CheckoutTree, tmp_path: Path) -> None:
    run("apply", tree.root)
    for file in (MIRROR, CRLF, ABRUPT):
        lines = (tree.package / file).read_bytes().splitlines(keepends=True)
        (tree.package / file).write_bytes(b"".join(line for line in lines if b"patchkit" not in line))
    assert set(states("status", tree.root, "--check").values()) == {"applied"}
    shutil.rmtree(tree.package / ".patchkit" / "patchkit.lock")
    assert set(states("status", tree.root, "--check").values()) == {"unknown"}


def test_installed_tree_is_taken(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tree.root)
    assert answer("status", "--installed")["tree"]["package"] == str(tree.package)
    assert "patchkit apply --installed" in run("status", "--installed").stdout
    for command in ("status", "doctor"):
        assert "cannot be combined" in refusal(command, "--installed", tree.root, code=2)


def test_diff_is_what_apply_does(checkout: CheckoutTree) -> None:
    text = run("diff", checkout.root).stdout_bytes
    before = {file: checkout.read(file) for file in SOURCES}
    run("apply", checkout.root)
    applied = {file: checkout.read(file) for file in SOURCES}
    run("revert", checkout.root)
    assert {file: checkout.read(file) for file in SOURCES} == before
    (checkout.root / ".git" / "x.diff").write_bytes(text)
    git(checkout.root, "apply", ".git/x.diff")
    assert {file: checkout.read(file) for file in SOURCES} == applied != before


def test_diff_takes_patches(tree: CheckoutTree) -> None:
    files = answer("diff", tree.root, "t-guard")["files"]
    assert [(file["file"], file["patches"]) for file in files] == [(MIRROR, ["t-guard"])]
    assert "+    guard = 1" in files[0]["diff"]


def test_diff_of_an_applied_tree_is_empty(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    assert run("diff", tree.root).stdout == ""


def test_apply_answers_with_status_and_changed_files(tree: CheckoutTree) -> None:
    applied = answer("apply", tree.root)
    assert sorted(applied.pop("changed_files")) == sorted([MIRROR, CRLF, ABRUPT])
    assert applied == answer("status", tree.root)
    assert {patch["state"] for patch in applied["patches"]} == {"applied"}


def test_second_apply_changes_nothing(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    before = everything(tree.root)
    assert answer("apply", tree.root)["changed_files"] == []
    assert "Nothing changed." in run("apply", tree.root, "--all").stdout
    assert everything(tree.root) == before


def test_line_endings_and_a_missing_final_newline_are_kept(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    crlf = (tree.package / CRLF).read_bytes()
    assert crlf.count(b"\n") == crlf.count(b"\r\n") > SOURCES[CRLF].count(b"\n")
    assert not (tree.package / ABRUPT).read_bytes().endswith(b"\n")


def test_revert_gives_the_old_bytes(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    run("apply", tree.root)
    reverted = answer("revert", tree.root)
    assert reverted["reverted"] == ["t-flag", "t-guard", "t-stop"]
    assert sorted(reverted["changed_files"]) == sorted([MIRROR, CRLF, ABRUPT])
    assert everything(tree.root) == before
    assert "Nothing to revert." in run("revert", tree.root).stdout


def test_apply_brings_what_is_required(tree: CheckoutTree) -> None:
    assert states("apply", tree.root, "t-stop") == {"t-flag": "applied", "t-stop": "applied"}
    assert states("status", tree.root)["t-guard"] == "pending"


def test_revert_of_one_patch_leaves_the_others(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    assert answer("revert", tree.root, "t-stop")["reverted"] == ["t-stop"]
    assert states("status", tree.root) == {"t-flag": "applied", "t-guard": "applied", "t-stop": "pending"}
    assert answer("revert", tree.root, "t-stop")["reverted"] == []


def test_one_patch_of_several_in_a_file_is_reverted(tree: CheckoutTree) -> None:
    run("apply", tree.root, "t-flag")
    flagged = (tree.package / MIRROR).read_bytes()
    run("apply", tree.root)
    assert answer("revert", tree.root, "t-guard")["changed_files"] == [MIRROR]
    assert (tree.package / MIRROR).read_bytes() == flagged


def test_patch_that_another_requires_stays(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    before = everything(tree.root)
    assert f"patchkit revert {tree.root} t-flag t-stop" in refusal("revert", tree.root, "t-flag", code=3)
    assert everything(tree.root) == before


def test_revert_keeps_edits_made_since(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    edit(tree, MIRROR, b"depth = 1", b"depth = 1\nmine = 1")
    run("revert", tree.root)
    assert tree.read(MIRROR) == SOURCES[MIRROR] + b"mine = 1\n"


def test_revert_refuses_what_it_cannot_tell_apart(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    edit(tree, MIRROR, b"guard = 1", b"guard = 2")
    before = everything(tree.root)
    assert f"{MIRROR}:" in refusal("revert", tree.root, code=3)
    assert everything(tree.root) == before


def test_revert_of_several_advises_to_keep_going(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    edit(tree, MIRROR, b"guard = 1", b"guard = 2")
    assert "--keep-going reverts each patch that it can" in refusal("revert", tree.root, code=3)
    assert "--keep-going" not in refusal("revert", tree.root, "t-guard", code=3)
    assert "--keep-going" not in run("revert", tree.root, "--keep-going", code=1).output


@pytest.mark.parametrize("text", ["{", "format = 99"])
def test_status_names_no_next_command_that_a_bad_record_refuses(tree: CheckoutTree, text: str) -> None:
    run("apply", tree.root)
    (tree.package / ".patchkit" / "patchkit.lock" / "t-flag.toml").write_text(text)
    output = run("status", tree.root).stdout
    why = refusal("revert", tree.root, code=4).splitlines()[0].removeprefix("error: ")
    assert f"Note: {why}" in output
    assert "Next" not in output


def test_verify_does_not_call_a_conflict_applicable(tree: CheckoutTree, conflicting: Path) -> None:
    output = run("verify", tree.root, "--patches", conflicting, code=1).stdout
    (could,) = (line for line in output.splitlines() if line.endswith(" can be applied"))
    assert "x-other" in could
    assert "x-none" not in could
    assert "x-none conflicts with this tree: patchkit diff" in output


def test_revert_needs_no_readable_code(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    run("apply", tree.root)
    (tree.package / "srt" / "broken.py").write_text("def (")
    run("revert", tree.root)
    (tree.package / "srt" / "broken.py").unlink()
    assert everything(tree.root) == before


@pytest.mark.parametrize("named", [(), ("t-guard",)])
def test_revert_without_its_ledger_gives_advice(tree: CheckoutTree, named: tuple[str, ...]) -> None:
    run("apply", tree.root)
    for path in sorted((tree.package / ".patchkit").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    before = everything(tree.root)
    assert "no git history has the unpatched files of" in refusal("revert", tree.root, *named, code=3)
    assert everything(tree.root) == before


@pytest.mark.parametrize("named", [(), ("t-guard",)])
@pytest.mark.parametrize("instead", [b"", b"# ours"])
def test_revert_of_code_without_any_comment_takes_it(
    tree: CheckoutTree, named: tuple[str, ...], instead: bytes
) -> None:
    was = everything(tree.package)
    run("apply", tree.root, "t-guard")
    sign = b"# patchkit t-guard: toy"
    edit(tree, MIRROR, b"    " + sign + b"\n", b"    %s\n" % instead if instead else b"")
    assert states("status", tree.root)["t-guard"] == "applied"
    assert answer("revert", tree.root, *named)["reverted"] == ["t-guard"]
    if instead:
        edit(tree, MIRROR, b"    # ours\n", b"")
    assert everything(tree.package) == was


@pytest.mark.parametrize("named", [(), ("t-guard",), ("--keep-going",)])
@pytest.mark.parametrize("instead", [b"# patchkit t-guard:toy", b"# patchkit t-guard:= toy"])
def test_revert_of_code_whose_comment_lost_its_form_is_refused(
    tree: CheckoutTree, named: tuple[str, ...], instead: bytes
) -> None:
    run("apply", tree.root, "t-guard")
    edit(tree, MIRROR, b"# patchkit t-guard: toy", instead)
    before = everything(tree.root)
    assert states("status", tree.root)["t-guard"] == "applied"
    output = run("revert", tree.root, *named, code=1 if "--keep-going" in named else 3).output
    assert "a comment of t-guard would be left" in " ".join(output.split())
    assert everything(tree.root) == before


def test_revert_of_some_that_lost_their_comments_beside_others_takes_all(tree: CheckoutTree) -> None:
    before = everything(tree.package)
    run("apply", tree.root)
    for file in (MIRROR, CRLF):
        path = tree.package / file
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if b"# patchkit" not in line))
    assert sorted(answer("revert", tree.root)["reverted"]) == ["t-flag", "t-guard", "t-stop"]
    assert everything(tree.package) == before


def test_upstreams_code_that_a_record_of_another_branch_knows_otherwise_is_left_alone(
    checkout: CheckoutTree,
) -> None:
    git(checkout.root, "switch", "-qc", "patched")
    run("apply", checkout.root)
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "Patched")
    git(checkout.root, "switch", "-q", "-")
    edit(checkout, MIRROR, b"    copies = 0\n", b"    copies = 0\n    guard = 1\n")
    assert states("status", checkout.root)["t-guard"] == "unknown"
    assert answer("revert", checkout.root)["reverted"] == []


def test_revert_leaves_code_alone_that_nothing_shows_to_be_patchkits(tree: CheckoutTree) -> None:
    edit(tree, MIRROR, b"    copies = 0\n", b"    copies = 0\n    guard = 1\n")
    assert states("status", tree.root)["t-guard"] == "unknown"
    assert "neither a comment, a record nor a call" in refusal("revert", tree.root, "t-guard", code=3)
    assert answer("revert", tree.root)["reverted"] == []


def test_patch_from_a_folder_is_reverted_without_it(tree: CheckoutTree, conflicting: Path) -> None:
    before = everything(tree.root)
    run("apply", tree.root, "x-other", "--patches", conflicting)
    run("revert", tree.root)
    assert everything(tree.root) == before


def test_a_patch_that_is_not_loaded_is_named(tree: CheckoutTree, conflicting: Path) -> None:
    run("apply", tree.root, "t-stop", "x-other", "--patches", conflicting)
    assert answer("status", tree.root)["unknown"] == ["x-other"]
    output = run("status", tree.root).stdout
    assert "? x-other" in output
    assert "--patches DIR" in output
    assert "unknown" not in answer("status", tree.root, "--patches", conflicting)
    verified = answer("verify", tree.root)
    assert verified["unknown"] == ["x-other"]
    (postconditions,) = (check for check in verified["checks"] if check["check"] == "postconditions")
    assert any("x-other is applied" in note for note in postconditions["notes"])


def test_a_patch_that_is_not_at_hand_is_named_without_a_ledger(tree: CheckoutTree) -> None:
    edit(tree, MIRROR, b"class Mirror", b"# patchkit own-1: a reason\nclass Mirror")
    assert answer("status", tree.root)["unknown"] == ["own-1"]
    assert answer("status", tree.root)["unknown"] == ["own-1"]  # Remembered.


def test_an_unreadable_record_does_not_prevent_the_status(tree: CheckoutTree) -> None:
    run("apply", tree.root)
    (tree.package / ".patchkit" / "patchkit.lock" / "t-flag.toml").write_text("{")
    run("status", tree.root)


def test_patch_beside_one_from_a_folder_needs_the_folder(tree: CheckoutTree, conflicting: Path) -> None:
    run("apply", tree.root, "t-stop", "x-other", "--patches", conflicting)
    assert "--patches DIR" in refusal("revert", tree.root, "t-stop", code=2)
    run("revert", tree.root, "t-stop", "--patches", conflicting)
    assert recorded(tree) == ("t-flag", "x-other")


def test_conflict_names_the_site_and_writes_nothing(tree: CheckoutTree, conflicting: Path) -> None:
    before = everything(tree.root)
    result = run("apply", tree.root, "x-none", "x-other", "--patches", conflicting, code=3)
    assert f"\nx-none  a: Toy x-none\n  --> {MIRROR}: NoSuchClass\n" in result.stdout
    assert "x-none conflicts with this tree, so nothing was written" in result.stderr
    assert everything(tree.root) == before


def test_conflict_in_json_has_the_reason(tree: CheckoutTree, conflicting: Path) -> None:
    applied = answer("apply", tree.root, "x-none", "--patches", conflicting, code=3)
    (edit,) = applied["patches"][0]["edits"]
    assert (edit["file"], edit["site"], edit["state"]) == (MIRROR, "NoSuchClass", "conflict")
    assert edit["reason"]
    assert applied["changed_files"] == []


def test_keep_going_leaves_out_what_conflicts_and_what_requires_it(
    tree: CheckoutTree, conflicting: Path
) -> None:
    found = states("apply", tree.root, "x-after", "x-other", "--keep-going", "--patches", conflicting, code=1)
    assert found == {"x-none": "conflict", "x-after": "conflict", "x-other": "applied"}
    assert recorded(tree) == ("x-other",)


def test_keep_going_is_advised_only_where_there_are_others(tree: CheckoutTree, conflicting: Path) -> None:
    alone = run("apply", tree.root, "x-none", "--patches", conflicting, code=3).stderr
    assert "--keep-going" not in alone
    assert "--markers writes conflict markers" in alone
    others = run("apply", tree.root, "x-none", "x-other", "--patches", conflicting, code=3).stderr
    assert "--keep-going applies the others, --markers writes" in others


def test_diff_of_a_conflict_names_a_command_that_works(tree: CheckoutTree, conflicting: Path) -> None:
    advice = run("diff", tree.root, "x-none", "--patches", conflicting, code=3).stderr.splitlines()[-1]
    assert advice.startswith("help: ")
    run(*advice.partition(" patchkit ")[2].split(), code=1)


def test_diff_of_named_patches_that_change_nothing_names_their_states(tree: CheckoutTree) -> None:
    run("apply", tree.root, "t-guard")
    named = run("diff", tree.root, "t-guard")
    assert (named.stdout, named.stderr) == ("", "note: apply would change nothing: t-guard applied\n")
    assert "note" not in run("diff", tree.root, "t-flag").stderr
    assert "note" not in run("diff", tree.root, "t-guard", "--json").stderr


def test_diff_of_a_conflict_reports_it(tree: CheckoutTree, conflicting: Path) -> None:
    result = run("diff", tree.root, "x-none", "x-other", "--patches", conflicting, code=3)
    assert "+    c = 1" in result.stdout
    assert "x-none conflicts" in result.stderr


def test_dry_run_says_what_would_change(tree: CheckoutTree) -> None:
    assert sorted(answer("apply", tree.root, "--dry-run")["changed_files"]) == sorted([MIRROR, CRLF, ABRUPT])
    assert "Would change 3 files." in run("apply", tree.root, "--dry-run").stdout


def test_dry_run_notes_that_its_states_are_those_after_apply(tree: CheckoutTree) -> None:
    assert run("apply", tree.root, "--dry-run").stdout.startswith("\nAfter apply:\n")
    run("apply", tree.root)
    assert "After apply" not in run("apply", tree.root, "--dry-run").stdout


def test_dry_run_refuses_what_apply_would(tree: CheckoutTree) -> None:
    (tree.package / MIRROR).chmod(0o444)
    assert "is read-only" in refusal("apply", tree.root, "--dry-run", code=4)


def test_uncommitted_changes_are_refused_unless_allowed(checkout: CheckoutTree) -> None:
    edit(checkout, MIRROR, b"depth = 1", b"depth = 9")
    before = everything(checkout.root)
    assert "--allow-dirty" in refusal("apply", checkout.root, code=4)
    assert everything(checkout.root) == before
    run("apply", checkout.root, "--allow-dirty")


def test_tree_is_the_argument_that_names_no_patch(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.root)
    for arguments in (("t-guard",), ("t-guard", "."), (".", "t-guard"), ("sglang", "t-guard")):
        assert states("apply", *arguments, "--dry-run") == {"t-guard": "applied"}


def test_folder_named_like_a_patch_is_a_patch(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tree.root / "t-guard" / "sglang")
    monkeypatch.chdir(tree.root)
    assert set(states("apply", "t-guard", "--dry-run")) == {"t-guard"}
    assert answer("apply", "./t-guard", "--dry-run")["tree"]["root"] == str(tree.root / "t-guard")


@pytest.mark.parametrize("arguments", [("t-gard",), (".", "t-gard"), ("t-flag", "t-gard"), ("one", "t-gard")])
@pytest.mark.parametrize("command", ["apply", "diff", "revert"])
def test_unknown_patch_names_the_nearest(command: str, arguments: tuple[str, ...]) -> None:
    assert "did you mean t-guard?" in refusal(command, *arguments, code=2)


@pytest.mark.parametrize("command", ["apply", "diff", "revert", "export"])
@pytest.mark.parametrize(
    ("word", "hint"),
    [("nowhere", ""), ("t-gard", "did you mean t-guard? "), ("t-stp", "did you mean t-stop? ")],
)
def test_a_word_that_is_neither_a_folder_nor_a_patch_is_refused_as_both(
    command: str, word: str, hint: str, tmp_path: Path
) -> None:
    out = ("-o", tmp_path / "series") if command == "export" else ()
    message = f"error: no such folder and no such patch: {word}\nhelp: {hint}patchkit show lists the patches"
    assert message in refusal(command, word, *out, code=2)


def test_a_word_that_test_cannot_read_is_refused_as_both() -> None:
    assert "error: no such folder and no such patch: t-gard\n" in refusal("test", "t-gard", code=2)
    assert "no trees are named" in refusal("test", "t-guard", code=2)


@pytest.mark.parametrize("command", ["verify", "audit"])
def test_a_patch_for_a_command_that_takes_none_is_named_as_one(command: str) -> None:
    message = f"error: t-guard is a patch, and {command} takes none\nhelp: leave it out\n"
    assert refusal(command, "t-guard", code=2) == message


@pytest.mark.parametrize(
    ("arguments", "help_"),
    [
        (("export", "TREE", "-o", "OUT"), "name a TREE in a git repository"),
        (("rebase", "TREE", "--onto", "main"), "name a TREE in a git repository"),
        (
            ("new", "mine", "--from-commit", "HEAD", "--on", "TREE", "-o", "OUT"),
            "name the TREE of the commit with --on",
        ),
        (
            ("port", "HEAD", "--repo", "TREE", "--onto", "TREE"),
            "name a diff that exists, or the commit's repository with --repo",
        ),
        (("matrix", "TREE", "--refs", "HEAD"), "name a clone or a bare repository"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_a_tree_outside_git_is_named_as_no_repository(
    tree: CheckoutTree, tmp_path: Path, arguments: tuple[str, ...], help_: str
) -> None:
    words = {"TREE": tree.root, "OUT": tmp_path / "out"}
    message = f"error: {tree.root} is not a git repository\nhelp: {help_}\n"
    assert refusal(*(words.get(word, word) for word in arguments), code=4) == message


def test_number_that_is_no_patch_is_not_taken_for_a_folder() -> None:
    assert "no patch is called '99999'" in refusal("apply", "99999", code=2)


def test_two_trees_are_refused(tree: CheckoutTree) -> None:
    assert "two trees" in refusal("apply", tree.root, tree.package, code=2)


def test_all_and_one_patch_cannot_be_combined(tree: CheckoutTree) -> None:
    assert "cannot be combined" in refusal("apply", tree.root, "t-guard", "--all", code=2)
    assert "cannot be combined" in refusal("revert", tree.root, "t-guard", "--all", code=2)


def test_malformed_patch_is_refused_by_file(tree: CheckoutTree, conflicting: Path) -> None:
    path = add_patch(conflicting, "x-bad", colour='"red"')
    assert str(path) in refusal("status", tree.root, "--patches", conflicting, code=2)


@pytest.mark.parametrize("command", ["status", "diff", "apply", "revert"])
def test_what_is_no_tree_is_refused(command: str, tmp_path: Path) -> None:
    assert "is not an sglang tree" in refusal(command, tmp_path, code=4)
    assert "is not a folder" in refusal(command, tmp_path / "nowhere", code=4)


@pytest.mark.parametrize("command", ["status", "diff", "apply"])
@pytest.mark.parametrize("content", [b"class Mirror:\n  def (\n", b"class Mirror:\n    name = '\xff'\n"])
def test_file_that_is_no_python_or_no_utf8_is_refused(
    tree: CheckoutTree, command: str, content: bytes
) -> None:
    (tree.package / MIRROR).write_bytes(content)
    before = everything(tree.root)
    assert MIRROR in refusal(command, tree.root, code=4)
    assert everything(tree.root) == before


def test_a_second_process_is_refused(tree: CheckoutTree) -> None:
    run("apply", tree.root, "t-guard")
    with exclusive(tree.package):
        assert "another patchkit" in refusal("apply", tree.root, code=4)
        assert "another patchkit" in refusal("revert", tree.root, code=4)
        run("status", tree.root)


@pytest.mark.parametrize("command", ["status", "diff", "apply", "revert"])
def test_interrupted_write_is_refused_until_recovered(tree: CheckoutTree, command: str) -> None:
    store = Store(tree.package)
    store.path.mkdir()
    store.create()
    store.begin(Journal({}))
    assert f"patchkit apply --continue {tree.root}" in refusal(command, tree.root, code=4)
    assert answer("apply", "--continue", tree.root)["action"] == "finished"
    run(command, tree.root)


@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_no_write_that_was_interrupted(tree: CheckoutTree, how: str) -> None:
    assert answer("apply", tree.root, how) | {"tree": 0} == {"tree": 0, "action": "nothing", "files": []}
    assert run("apply", tree.root, how).stdout == f"Nothing to {how[2:]}: no write was interrupted.\n"


@pytest.mark.parametrize(
    "others",
    [("--continue",), ("t-flag",), ("--dry-run",), ("--commit",), ("--patches", ".")],
    ids=" ".join,
)
def test_ending_a_write_takes_nothing_that_a_new_one_takes(
    tree: CheckoutTree, others: tuple[str, ...]
) -> None:
    output = refusal("apply", "--abort", tree.root, *others, code=2)
    assert "--abort takes only a TREE" in output
    assert others[0] in output


@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_ending_a_write_takes_a_patchs_name_for_no_tree(how: str) -> None:
    output = refusal("apply", how, "t-flag", code=2)
    assert f"{how} takes only a TREE" in output
    assert "leave out t-flag" in output


def test_module_runs_as_the_command(tree: CheckoutTree) -> None:
    command = [sys.executable, "-m", "patchkit", "status", str(tree.root), "--json"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout)["tree"]["version"] == "0.5.12"
    assert ran.stderr == ""


def test_help_loads_no_parser() -> None:
    code = "import sys, patchkit.cli; print({'libcst', 'rich', 'msgspec'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "set()\n"


@pytest.mark.parametrize(
    ("words", "what", "advice"),
    [
        (("nothing",), "no such command 'nothing'", "patchkit --help"),
        (("--nothing",), "no such option '--nothing'", "patchkit --help"),
        (("status", "--nothing"), "no such option '--nothing'", "patchkit status --help"),
        (("rebase",), "missing option '--onto'", "patchkit rebase --help"),
        (
            ("new", "own", "--repo", "x"),
            "no such option '--repo'",
            "did you mean '--help', '--on'? patchkit new --help",
        ),
        (("show", "t-flag", "t-stop"), "got unexpected extra argument (t-stop)", "patchkit show --help"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_a_command_line_that_is_none_is_refused_in_the_form_of_any_refusal(
    words: tuple[str, ...], what: str, advice: str
) -> None:
    result = CliRunner().invoke(main, list(words), prog_name="patchkit")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {what}\nhelp: {advice}\n"


def test_no_command_at_all_shows_the_help() -> None:
    assert "Usage: " in run(code=2).output

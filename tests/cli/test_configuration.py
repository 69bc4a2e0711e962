"""A fork's configuration applies to every command."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.releases import answer as answer_of
from support.releases import run, states_in
from support.toys import ABRUPT, CRLF, MIRROR, add_patch, attribute, everything, git

from patchkit.cli import schemas
from patchkit.patchset.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def states(*arguments: object, code: int = 0) -> dict[str, str]:
    return states_in(answer_of(*arguments, code=code))


def left_out(*arguments: object) -> dict[str, str]:
    patches = answer_of(*arguments)["patches"]
    return {patch["id"]: patch["left_out"] for patch in patches if "left_out" in patch}


def refusal(*arguments: object) -> str:
    """Return what stderr says of a usage error: what, where and what to type, a line each."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    heads = [line.split()[0] for line in result.stderr.splitlines()]
    assert heads == [head for head in ("error:", "-->", "help:") if head in heads]
    return result.stderr


def configure(tree: CheckoutTree, text: str, name: str = "patchkit.toml") -> Path:
    path = tree.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A checkout with a patch folder of its own, whose patch requires a built-in one."""
    add_patch(checkout.root / "ours", "acme", attribute(ABRUPT, "Worker", "acme = 1"), requires='["t-flag"]')
    configure(checkout, 'patches = ["ours"]\n')
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Ours")
    git(checkout.root, "config", "user.name", "A Maintainer")
    git(checkout.root, "config", "user.email", "maintainer@example.com")
    return checkout


def test_patches_of_the_fork_are_loaded_in_every_command(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(fork.root)
    assert "acme" in states("apply", fork.root, "acme")
    assert "unknown" not in answer_of("status", fork.root)
    run("verify", fork.root)
    assert [row["patch"] for row in answer_of("status", "--format", "ledger", fork.root)["rows"]].count(
        "acme"
    ) == 1
    assert answer_of("revert", fork.root, "acme")["reverted"] == ["acme"]
    run("revert", fork.root)
    assert everything(fork.root) == before
    assert "+    acme = 1" in run("diff", fork.root, "acme").stdout
    assert len(answer_of("export", fork.root, "acme", "-o", tmp_path / "series")["files"]) == 2
    assert "acme" in [move["id"] for move in answer_of("rebase", fork.root, "--onto", "HEAD")["patches"]]
    monkeypatch.chdir(fork.root)
    assert "acme" in [patch["id"] for patch in answer_of("show")]
    assert answer_of("show", "acme")["requires"] == ["t-flag"]
    assert states("apply", "acme", "--dry-run")["acme"] == "applied"


def test_an_opt_in_patch_that_requires_a_left_out_patch_is_left_out_too(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    add_patch(
        patch_folder,
        "t-more",
        attribute(ABRUPT, "Worker", "more = 1"),
        requires='["t-flag"]',
        default="false",
    )
    configure(fork, 'left_out = ["t-flag"]\n')
    assert (
        left_out("status", fork.root)["t-more"]
        == "it requires t-flag, which is in `left_out` of patchkit.toml"
    )
    output = run("status", fork.root).stdout
    assert re.findall(r"\nleft-out +3  (.+)\n", output) == ["t-flag t-more t-stop"]
    assert "(opt-in)" not in output


def test_what_is_left_out_is_shown_as_such_and_a_check_passes(fork: CheckoutTree) -> None:
    configure(fork, 'left_out = ["t-flag"]\n')
    assert left_out("status", fork.root) == {
        "t-flag": "in `left_out` of patchkit.toml",
        "t-stop": "it requires t-flag, which is in `left_out` of patchkit.toml",
    }
    output = run("status", fork.root).stdout
    assert re.search(r"\nleft-out +2  t-flag t-stop\n", output)
    assert states("apply", fork.root) == {"t-guard": "applied"}
    run("status", fork.root, "--check")
    run("verify", fork.root)
    msgspec.convert(answer_of("status", fork.root), schemas.ANSWERS["status"])


def test_a_kernel_of_the_forks_own_is_green(fork: CheckoutTree) -> None:
    """The site is not as the patch describes it, which is no failure where the patch is left out."""
    path = fork.package / MIRROR
    path.write_bytes(path.read_bytes().replace(b"class Mirror", b"class OurMirror"))
    run("status", fork.root, "--check", code=1)
    configure(fork, 'left_out = ["t-flag", "t-guard"]\n')
    run("apply", fork.root, "--allow-dirty")
    run("status", fork.root, "--check")
    assert states("status", fork.root)["t-flag"] == "conflict"


def test_what_is_named_wins_over_what_is_left_out(fork: CheckoutTree) -> None:
    configure(fork, 'left_out = ["t-flag"]\n')
    message = refusal("apply", fork.root, "t-stop")
    configured = fork.root / "patchkit.toml"
    assert f"t-stop requires t-flag, which {configured} leaves out\nhelp: name t-flag too" in message
    assert message == refusal("diff", fork.root, "t-stop")
    assert set(states("apply", fork.root, "t-flag", "t-stop")) == {"t-flag", "t-stop"}


def test_a_part_that_is_left_out_is_neither_made_nor_missed_in_any_command(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    part = '[part.lock]\ntitle = "A lock"\nwhy = "Thieves."\nformerly = "t-lock"'
    lock = attribute(MIRROR, "Mirror", "locked = 1").replace('why = "toy"', 'why = "locked"\npart = "lock"')
    add_patch(patch_folder, "t-desk", part, attribute(MIRROR, "Mirror", "wide = 1"), lock)
    configure(fork, 'left_out = ["t-desk/lock"]\n')
    before = everything(fork.root)
    applied = answer_of("apply", fork.root)
    assert b"locked = 1" not in (fork.read(MIRROR) or b"")
    assert b"wide = 1" in (fork.read(MIRROR) or b"")
    run("status", fork.root, "--check")
    found = answer_of("status", fork.root)["patches"]
    assert found == applied["patches"]
    (desk,) = (each for each in found if each["id"] == "t-desk")
    (edit,) = (each for each in desk["edits"] if each["state"] != "applied")
    assert (edit["state"], edit["reason"]) == ("not-applicable", "in `left_out` of patchkit.toml")
    assert "Nothing changed." in run("apply", fork.root, "t-desk").stdout
    run("revert", fork.root)
    assert everything(fork.root) == before
    configure(fork, 'left_out = ["t-lock"]\n')
    assert "key `left_out`: t-lock is the part t-desk/lock now" in refusal("status", fork.root)
    configure(fork, 'chosen = ["t-desk/lock"]\n')
    assert "key `chosen`: t-desk/lock is a part of t-desk" in refusal("status", fork.root)


def test_what_is_chosen_is_on_and_nothing_else(fork: CheckoutTree, patch_folder: Path) -> None:
    add_patch(
        patch_folder, "t-risky", attribute(CRLF, "Backend", "risky = 1"), default="false", group='"speed"'
    )
    add_patch(patch_folder, "t-fast", attribute(CRLF, "Backend", "fast = 1"), group='"speed"')
    configure(fork, 'chosen = ["t-stop", "t-risky"]\n')
    assert left_out("status", fork.root) == dict.fromkeys(
        ("t-fast", "t-guard"), "not in `chosen` of patchkit.toml"
    )
    run("status", fork.root, "--check", code=1)
    assert set(states("apply", fork.root)) == {"t-flag", "t-stop", "t-risky"}
    run("status", fork.root, "--check")
    assert set(states("apply", fork.root, "@speed")) == {"t-fast", "t-risky"}
    configure(fork, 'chosen = ["@speed"]\nleft_out = ["t-fast"]\n')
    assert answer_of("diff", fork.root)["files"] == []
    configure(fork, "chosen = []\n")
    assert states("apply", fork.root) == {}


def test_the_runtime_is_the_forks_unless_an_option_says_otherwise(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    calling = f"""[edit.call]
kind = "insert-first"
why = "toy"
at = "{MIRROR}::Mirror.host"
code = "patchkit_api.order_plan_stream(None)"
"""
    add_patch(
        patch_folder, "t-call", calling, imports='["from patchkit.runtime import api_1 as patchkit_api"]'
    )
    configure(fork, 'runtime = "vendored"\n')
    files = {file["file"] for file in answer_of("diff", fork.root, "t-call")["files"]}
    assert files == set(answer_of("apply", fork.root, "t-call")["changed_files"])
    assert any(file.startswith("_patchkit/") for file in files)
    run("revert", fork.root)
    assert answer_of("apply", fork.root, "t-call", "--runtime", "import")["changed_files"] == [MIRROR]


def test_known_findings_pass_without_an_option(fork: CheckoutTree) -> None:
    saved = json.dumps({"findings": []})
    configure(fork, saved, "ci/known.json")
    configure(fork, 'baseline = "ci/known.json"\n')
    run("audit", fork.root)
    run("apply", fork.root)
    run("verify", fork.root)
    configure(fork, "{", "ci/known.json")
    for command in ("audit", "verify"):
        output = run(command, fork.root, code=2).stderr
        assert "not a baseline" in output
        assert "ci/known.json" in output


def test_subjects_begin_as_the_fork_says(fork: CheckoutTree, tmp_path: Path) -> None:
    configure(fork, 'subject_prefix = "backport: "\n')
    git(fork.root, "commit", "-qam", "Say so")
    (file,) = answer_of("export", fork.root, "t-guard", "-o", tmp_path / "series")["files"]
    assert "Subject: [PATCH] backport: Toy t-guard" in Path(file).read_text()
    run("apply", fork.root, "--commit")
    subjects = git(fork.root, "log", "--format=%s", "-3").splitlines()
    assert sorted(subjects) == ["backport: Toy t-flag", "backport: Toy t-guard", "backport: Toy t-stop"]


@pytest.mark.parametrize("place", ["pyproject.toml", "python/pyproject.toml"])
def test_a_project_file_is_a_place_as_well(fork: CheckoutTree, place: str) -> None:
    own = fork.root / "patchkit.toml"
    configure(
        fork, f"[project]\nname = 'sglang'\n[tool.patchkit]\n{own.read_text()}left_out = ['t-guard']", place
    )
    message = refusal("status", fork.root)
    assert f"{own} and {fork.root / place} [tool.patchkit] both configure patchkit\nhelp: keep one" in message
    own.unlink()
    assert "acme" in states("status", fork.root)
    assert left_out("status", fork.root) == {"t-guard": "in `left_out` of pyproject.toml [tool.patchkit]"}


def test_an_option_adds_to_the_forks_patches_and_wins_over_one_of_the_same_name(
    fork: CheckoutTree, tmp_path: Path
) -> None:
    add_patch(tmp_path / "trial", "acme", attribute(ABRUPT, "Worker", "acme = 2"))
    add_patch(tmp_path / "trial", "other", attribute(ABRUPT, "Worker", "other = 2"))
    found = states("apply", fork.root, "acme", "other", "--patches", tmp_path / "trial")
    assert set(found) == {"acme", "other"}
    assert b"acme = 2" in (fork.read(ABRUPT) or b"")
    run("revert", fork.root, "--patches", tmp_path / "trial")
    run("apply", fork.root, "acme", "--patches", fork.root / "ours")
    assert b"acme = 1" in (fork.read(ABRUPT) or b"")


def test_a_change_of_it_is_seen_by_what_is_remembered(fork: CheckoutTree) -> None:
    first = answer_of("status", fork.root)
    assert answer_of("status", fork.root) == first
    configure(fork, 'patches = ["ours"]\nleft_out = ["acme"]\n')
    assert left_out("status", fork.root) == {"acme": "in `left_out` of patchkit.toml"}
    add_patch(fork.root / "ours", "acme", attribute(ABRUPT, "NoWorker", "acme = 1"))
    assert states("status", fork.root)["acme"] == "conflict"
    configure(fork, 'patches = ["ours"]\n')
    add_patch(fork.root / "ours", "acme", attribute(ABRUPT, "Worker", "acme = 1"), requires='["t-flag"]')
    assert answer_of("status", fork.root) == first


def test_a_clone_answers_the_same(fork: CheckoutTree, tmp_path: Path) -> None:
    configure(fork, 'patches = ["ours"]\nleft_out = ["t-guard"]\n')
    run("apply", fork.root)
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Patched")
    git(tmp_path, "clone", "-q", str(fork.root), "clone")
    here, there = (answer_of("status", root, "--check") for root in (fork.root, tmp_path / "clone"))
    assert here["patches"] == there["patches"]
    assert answer_of("diff", tmp_path / "clone")["files"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'leftout = ["t-flag"]',
            "unknown key `leftout`\n  --> PATH\nhelp: did you mean `left_out`? the keys are",
        ),
        ('left_out = ["t-flg"]', "key `left_out`: no patch is called 't-flg': did you mean t-flag?"),
        ('chosen = ["@sped"]', "key `chosen`: no group is called '@sped'"),
        (
            'chosen = ["t-flag"]\nleft_out = ["t-guard", "t-flag"]',
            "key `chosen`: t-flag is in `left_out` too",
        ),
        (
            'chosen = ["t-stop"]\nleft_out = ["t-flag"]',
            "key `chosen`: t-stop requires t-flag, which `left_out` leaves",
        ),
        ('runtime = "copied"', "key `runtime`: 'copied' is not one of 'import', 'vendored'"),
        ("left_out = 1", "key `left_out`: expected a list, found an integer"),
        ('left_out = [""]', "key `left_out[0]`: empty"),
        ('subject_prefix = "a\\nb"', "key `subject_prefix`: contains a line break"),
        ('patches = ["/tmp"]', "key `patches`: '/tmp' does not lead to a place inside the repository"),
        ('patches = ["../ours"]', "key `patches`: '../ours' does not lead"),
        ('patches = ["ours/../../x"]', "does not lead to a place inside the repository"),
        ('patches = [".git/ours"]', "does not lead to a place inside the repository"),
        ('patches = ["nowhere"]', "key `patches`: 'nowhere' is not a folder of the repository"),
        ('patches = ["python"]', "key `patches`: no patch.toml in 'python' or directly below it"),
        ('patches = ["patchkit.toml"]', "is not a folder of the repository"),
        ("left_out = [", "not TOML"),
        ("x = " + "[" * 9000, "nest too deep"),
        ("x = " + "9" * 6000, "not TOML"),
        (f"{'.'.join('a' * 20_000)} = 1", "a dotted name has more than 16 parts"),
        (f"[{' . '.join(['a', 'b'] * 20_000)}]", "a dotted name has more than 16 parts"),
        (f'patches = ["{"a/" * 60000}"]', "does not lead to a place inside the repository"),
    ],
)
def test_what_cannot_be_is_refused_with_file_and_key(fork: CheckoutTree, text: str, message: str) -> None:
    path = configure(fork, text)
    for command in ("status", "apply", "revert"):
        answered = refusal(command, fork.root)
        assert f"\n  --> {path}\n" in answered
        assert message.replace("PATH", str(path)) in answered


@pytest.mark.parametrize("key", ["baseline"])
def test_a_baseline_stays_inside(fork: CheckoutTree, key: str) -> None:
    for name in ("../known.json", "/etc/hostname", "nowhere.json", "python"):
        configure(fork, f'{key} = "{name}"\n')
        assert f"key `{key}`: '{name}'" in refusal("audit", fork.root)


def test_a_link_a_pipe_and_a_huge_file_are_refused_and_not_read(fork: CheckoutTree, tmp_path: Path) -> None:
    path = fork.root / "patchkit.toml"
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text('left_out = ["t-guard"]\n')
    kinds: list[Callable[[], None]] = [
        lambda: path.symlink_to(elsewhere),
        lambda: path.symlink_to("/dev/zero"),
        lambda: os.mkfifo(path),
        path.mkdir,
    ]
    for make in kinds:
        path.unlink()
        make()
        assert f"{path} is not a regular file\nhelp: replace it with the file itself" in refusal(
            "status", fork.root
        )
        path.rmdir() if path.is_dir() and not path.is_symlink() else None
        path.touch()
    with path.open("wb") as file:
        file.truncate(2**30)
    assert "more than 64 MiB" in refusal("status", fork.root)
    path.write_text("#" * 2**19)
    assert "more than 256 KiB" in refusal("status", fork.root)


def test_a_folder_that_is_a_link_is_not_followed(fork: CheckoutTree, tmp_path: Path) -> None:
    add_patch(tmp_path / "theirs", "evil", attribute(ABRUPT, "Worker", "evil = 1"))
    (fork.root / "linked").symlink_to(tmp_path / "theirs")
    configure(fork, 'patches = ["linked"]\n')
    assert "'linked' is not a folder of the repository (links" in refusal("status", fork.root)
    (fork.root / "ours" / "evil").symlink_to(tmp_path / "theirs" / "evil")
    configure(fork, 'patches = ["ours"]\n')
    assert "evil" not in states("status", fork.root)
    configure(fork, 'patches = ["ours/evil"]\n')
    assert "links are not followed" in refusal("status", fork.root)
    (fork.root / "ours" / "more").mkdir()
    (fork.root / "ours" / "more" / "patch.toml").symlink_to(tmp_path / "theirs" / "evil" / "patch.toml")
    configure(fork, 'patches = ["ours"]\n')
    assert "ours/more/patch.toml is not a regular file" in refusal("status", fork.root)


def test_a_project_file_without_a_patchkit_table_is_ignored(fork: CheckoutTree) -> None:
    before = states("status", fork.root)
    configure(fork, "[project", "pyproject.toml")
    assert states("status", fork.root) == before
    configure(fork, "[tool.ruff]\nextend-exclude = ['patchkit']\n", "pyproject.toml")
    assert states("status", fork.root) == before


def test_a_tree_without_one_answers_as_ever(checkout: CheckoutTree) -> None:
    configure(checkout, "")
    empty = answer_of("status", checkout.root)
    (checkout.root / "patchkit.toml").unlink()
    assert answer_of("status", checkout.root) == empty
    assert Configuration() == msgspec.convert({}, Configuration)

"""Commands show where a patch ran on a GPU, and whether it never ran on the release it is applied to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from support.toys import ABRUPT, MIRROR, add_patch, attribute, edit

from patchkit.cli import main
from patchkit.patchset import runs

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

NEVER = "Never run on a GPU with 0.5.12: "
HINT = " (patchkit show PATCH lists the runs)"


@pytest.fixture
def ran(patch_folder: Path) -> Path:
    """Of the toys t-flag ran on the toy tree's release, t-stop on another, and t-guard nowhere."""

    def run(
        release: str, family: str, backend: str, patch: str, *, identical: bool | None = True
    ) -> runs.Run:
        return runs.Run(release, family, "EAGLE3", backend, "NVIDIA H200", "2026-11-23", identical, (patch,))

    found = (
        run("0.5.12", "Llama", "triton", "t-flag"),
        run("0.5.12", "Llama", "fa3", "t-flag"),
        run("0.5.12", "DeepSeek MLA", "triton", "t-flag"),
        run("0.5.13", "Llama", "flashinfer", "t-flag", identical=False),
        run("0.5.14", "Llama", "triton", "t-flag", identical=None),
        run("0.5.13", "Llama", "fa3", "t-stop"),
    )
    file = patch_folder / runs.NAME
    file.write_bytes(msgspec.json.encode(runs.KnownRuns(1, ("t-flag", "t-stop", "t-guard"), found)))
    return file


def output_of(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def answer(*arguments: object) -> Any:
    return json.loads(output_of(*arguments, "--json"))


def ran_on(*arguments: object) -> dict[str, bool | None]:
    """Return whether each patch ran, as a command's answer has it."""
    return {patch["id"]: patch["ran"] for patch in answer(*arguments)["patches"]}


@pytest.mark.usefixtures("ran")
def test_status_ends_with_the_patches_that_never_ran_on_the_release(tree: CheckoutTree) -> None:
    *_, line, empty, following = output_of("status", tree.root).splitlines()
    assert line == f"{NEVER}t-guard, t-stop{HINT}"
    assert (empty, following[:5]) == ("", "Next:")


@pytest.mark.usefixtures("ran")
def test_status_does_not_name_what_patchkit_neither_wrote_nor_would_write(tree: CheckoutTree) -> None:
    edit(tree, MIRROR, b"    copies = 0\n", b"    copies = 0\n    guard = 1\n")
    assert f"{NEVER}t-stop{HINT}\n" in output_of("status", tree.root)


@pytest.mark.usefixtures("ran")
def test_status_does_not_name_a_patch_that_apply_would_not_apply(
    tree: CheckoutTree, patch_folder: Path, ran: Path
) -> None:
    add_patch(patch_folder, "t-risky", attribute(ABRUPT, "Worker", "risky = 1"), default="false")
    known_runs = msgspec.json.decode(ran.read_bytes(), type=runs.KnownRuns)
    ran.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(known_runs, patches=(*known_runs.patches, "t-risky")))
    )
    assert f"{NEVER}t-guard, t-stop{HINT}\n" in output_of("status", tree.root)
    assert f"{NEVER}t-risky{HINT}\n" in output_of("apply", tree.root, "t-risky")


@pytest.mark.usefixtures("ran")
def test_apply_says_the_same_of_what_it_wrote(tree: CheckoutTree) -> None:
    assert NEVER not in output_of("apply", tree.root, "t-flag")
    assert f"{NEVER}t-guard, t-stop{HINT}\n" in output_of("apply", tree.root)
    assert f"{NEVER}t-guard, t-stop{HINT}\n" in output_of("status", tree.root)


@pytest.mark.usefixtures("ran")
def test_a_dry_run_reports_it_before_anything_is_written(tree: CheckoutTree) -> None:
    assert f"{NEVER}t-guard, t-stop{HINT}\n" in output_of("apply", tree.root, "--dry-run")


@pytest.mark.usefixtures("ran")
def test_answers_tell_of_each_patch_whether_it_ran(tree: CheckoutTree) -> None:
    expected = {"t-flag": True, "t-guard": False, "t-stop": False}
    assert ran_on("status", tree.root) == expected
    assert ran_on("status", tree.root) == expected  # The tree's states are remembered, and what ran is not.
    assert ran_on("apply", tree.root) == expected


@pytest.mark.usefixtures("ran")
def test_of_a_tree_without_a_version_it_is_unknown(tree: CheckoutTree) -> None:
    edit(tree, "version.py", b"0.5.12", b"unknown")
    assert set(ran_on("status", tree.root).values()) == {None}
    assert "Never run" not in output_of("status", tree.root)


def test_without_the_file_it_is_unknown(tree: CheckoutTree, ran: Path) -> None:
    ran.write_text("{")
    assert set(ran_on("apply", tree.root).values()) == {None}
    assert "Never run" not in output_of("status", tree.root)
    assert answer("show", "t-flag")["runs"] is None
    assert "GPU" not in output_of("show", "t-flag")


def test_a_newer_file_counts_immediately(tree: CheckoutTree, ran: Path) -> None:
    assert ran_on("status", tree.root)["t-flag"] is True
    ran.write_bytes(msgspec.json.encode(runs.KnownRuns(1, ("t-flag", "t-stop", "t-guard"), ())))
    assert ran_on("status", tree.root)["t-flag"] is False


@pytest.mark.usefixtures("ran")
def test_show_has_a_line_for_each_release_that_the_patch_ran_on() -> None:
    *_, heading, first, second, third = output_of("show", "t-flag").splitlines()
    assert heading == "Ran on a GPU:"
    assert first == "  0.5.12: Llama on triton, fa3; DeepSeek MLA on triton; NVIDIA H200, 2026-11-23"
    assert second == "  0.5.13: Llama on flashinfer (tokens differ); NVIDIA H200, 2026-11-23"
    assert third == "  0.5.14: Llama on triton (where the unpatched release fails); NVIDIA H200, 2026-11-23"
    assert [run["backend"] for run in answer("show", "t-flag")["runs"]] == [
        "triton",
        "fa3",
        "triton",
        "flashinfer",
        "triton",
    ]


@pytest.mark.usefixtures("ran")
def test_show_reports_that_a_patch_never_ran() -> None:
    assert output_of("show", "t-guard").endswith("\n\nNever run on a GPU.\n")
    assert answer("show", "t-guard")["runs"] == []


@pytest.mark.usefixtures("ran")
def test_a_patch_of_ones_own_is_not_reported_as_never_run(tree: CheckoutTree, tmp_path: Path) -> None:
    add_patch(tmp_path / "mine", "x-mine", attribute(MIRROR, "Mirror", "mine = 1"))
    more = ("--patches", tmp_path / "mine")
    assert ran_on("status", tree.root, *more)["x-mine"] is None
    assert "x-mine," not in output_of("status", tree.root, *more).partition(NEVER)[2]
    assert "GPU" not in output_of("show", "x-mine", *more)

"""The pages say what the commands print and what the code has."""

from __future__ import annotations

import json
import re
import sys
import typing
from pathlib import Path

import msgspec
import pytest

from patchkit import patchset
from patchkit.cli import main
from patchkit.plan import State

REPOSITORY = Path(__file__).parents[1]
sys.path.append(str(REPOSITORY / "scripts"))

import generate_docs  # noqa: E402

PAGES = [REPOSITORY / page for page in generate_docs.PAGES]
STRUCTS = (patchset.Patch, patchset.Fact, patchset.EditSpec, patchset.VariantSpec)
KINDS = typing.get_args(patchset.AnyEdit)


def words_of(page: str) -> set[str]:
    """Return what a page sets as code within its sentences and tables."""
    return set(re.findall(r"`([^`\n]+)`", (REPOSITORY / page).read_text(encoding="utf-8")))


def test_the_pages_show_what_the_commands_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert generate_docs.main(["--check"]) == 0, (
        f"type python scripts/generate_docs.py\n{capsys.readouterr().out}"
    )


def test_a_command_that_fails_cannot_become_part_of_a_page() -> None:
    with pytest.raises(RuntimeError, match="no patch is called '99999'"):
        generate_docs.session("patchkit show 99999")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"\bscripts/[\w./]*\w", page.read_text(encoding="utf-8")))
    assert named
    assert [name for name in sorted(named) if not (REPOSITORY / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    options = {
        option for command in main.commands.values() for param in command.params for option in param.opts
    }
    assert set(
        re.findall(r"\bpatchkit ([a-z]+)\b(?= \w|`|$)", "\n".join(re.findall(r"`[^`\n]+`", text)))
    ) <= set(main.commands)
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= options


def test_every_key_of_a_patch_is_explained() -> None:
    keys = {field.encode_name for struct in (*STRUCTS, *KINDS) for field in msgspec.structs.fields(struct)}
    assert keys - words_of("docs/patches.md") == set()


def test_every_kind_of_edit_is_listed_with_its_keys() -> None:
    table = generate_docs.edit_kinds().splitlines()[2:]
    assert len(table) == len(KINDS)
    assert "| `isinstance-member` |" in "\n".join(table)
    assert all(row.count("|") == 4 and "``" not in row for row in table)


def test_every_state_is_explained() -> None:
    assert {state.value for state in State} - words_of("docs/patches.md") == set()


def test_the_table_of_patches_has_a_row_for_each() -> None:
    rows = generate_docs.patch_table().splitlines()[2:]
    assert [re.sub(r"\W*\(.*", "", row.split("|")[1]).strip(" [") for row in rows] == list(
        patchset.load().ids
    )


def test_every_measured_decode_step_is_a_row() -> None:
    run = json.loads((generate_docs.BENCHMARKS / "decode" / "results.json").read_text())
    rows = generate_docs.measured().splitlines()[2:]
    assert len(rows) == len(run["results"])
    for row, result in zip(rows, run["results"], strict=True):
        assert f"| {result['tree']} | {result['step']['median']:.3f} |" in row


def test_a_tree_that_crashed_in_a_scenario_is_said_to_crash() -> None:
    (row,) = generate_docs.compared("plan-stream").splitlines()[2:]
    run = json.loads((generate_docs.BENCHMARKS / "plan-stream" / "results.json").read_text())
    crashed = [result["error"] is not None for result in run["results"]]
    assert [cell.strip() == "crashes" for cell in row.strip("|").split("|")[1:]] == crashed


def test_one_fill_of_ours_is_one_launch() -> None:
    rows = [row.split("|") for row in generate_docs.launches().splitlines()[2:]]
    ours = [cells[3].strip() for cells in rows if cells[2].strip() == "patchkit"]
    assert ours
    assert set(ours) == {"1"}

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from patchkit.patchset import load, runs

if TYPE_CHECKING:
    from pathlib import Path


def a_run(release: str, *patches: str, identical: bool = True) -> runs.Run:
    return runs.Run(release, "Llama", "EAGLE3", "triton", "NVIDIA H200", "2026-11-23", identical, patches)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of runs, which is not there yet."""
    monkeypatch.setattr(load, "BUILT_IN", tmp_path)
    return tmp_path / runs.NAME


@pytest.fixture
def two(file: Path) -> Path:
    """One patch ran on one release, of another the tokens differed, and a third never ran."""
    found = (a_run("0.5.13", "a"), a_run("0.5.13", "b", identical=False))
    file.write_bytes(msgspec.json.encode(runs.KnownRuns(1, ("a", "b", "c"), found)))
    return file


@pytest.mark.usefixtures("two")
def test_a_patch_ran_where_an_engine_gave_the_tokens_and_nowhere_else() -> None:
    known_runs = runs.read()
    assert [known_runs.ran(patch, "0.5.13") for patch in "abc"] == [True, False, False]
    assert known_runs.ran("a", "0.5.14") is False


@pytest.mark.usefixtures("two")
def test_where_a_patch_ran_has_the_engines_whose_tokens_differed_too() -> None:
    known_runs = runs.read()
    assert [len(known_runs.where(patch) or ()) for patch in "abc"] == [1, 1, 0]


@pytest.mark.usefixtures("two")
def test_nothing_is_known_of_a_patch_of_ones_own() -> None:
    assert runs.read().where("mine") is None
    assert runs.read().ran("mine", "0.5.13") is None
    assert "mine" not in runs.never_run(["mine", "c"], "0.5.13")


@pytest.mark.usefixtures("two")
def test_a_sentence_names_those_that_never_ran_on_the_release() -> None:
    assert runs.never_run("cab", "0.5.13") == (
        "Never run on a GPU with 0.5.13: c, b (patchkit show PATCH lists the runs)"
    )
    assert runs.never_run("a", "0.5.13") == ""
    assert runs.never_run("", "0.5.14") == ""


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.5.13", "0.5.13"),
        ("0.5.12.post1", "0.5.12.post1"),
        ("0.5.15rc1", "0.5.15rc1"),
        ("0.5.13+acme.7", "0.5.13"),
        ("0.5.14.dev12+g1f850e6", None),
        ("0.5.14.dev12", None),
        ("unknown", None),
        ("", None),
        (None, None),
    ],
)
@pytest.mark.usefixtures("two")
def test_a_forks_version_counts_as_the_release_that_it_names(
    version: str | None, release: str | None
) -> None:
    assert runs.release_of(version) == release
    assert runs.read().ran("a", version) is (None if release is None else release == "0.5.13")
    assert bool(runs.never_run("c", version)) is (release is not None)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 2, "patches": ["a"], "runs": []}',
        b'{"format": 1, "patches": "a", "runs": []}',
        b'{"format": 1, "patches": ["a"], "runs": [{"release": "0.5.13"}]}',
    ],
)
def test_of_a_missing_or_damaged_file_nothing_is_known(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)
    assert runs.read().where("a") is None
    assert runs.read().ran("a", "0.5.13") is None
    assert runs.never_run("a", "0.5.13") == ""


def test_a_folder_in_the_place_of_the_file_is_as_good_as_none(file: Path) -> None:
    file.mkdir()
    assert runs.read() == runs.KnownRuns()

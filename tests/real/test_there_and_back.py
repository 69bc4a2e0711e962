"""From a clone of a fork to an upgrade that is committed and verified, and back, as docs/maintaining.md has it."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.releases import LATEST, REFERENCE, Releases, answer, run
from support.repositories import committed
from support.sweeps import swept
from support.toys import git

REPOSITORY = Path(__file__).parents[2]
COMMANDS = re.compile(r"^\$ (?P<words>.+?)(?: +#.*)?$", re.MULTILINE)


def commands() -> list[list[str]]:
    chapter = (REPOSITORY / "docs" / "maintaining.md").read_text().partition("## Apply and revert")[2]
    block = chapter.partition("```console\n")[2].partition("```")[0]
    return [shlex.split(match["words"]) for match in COMMANDS.finditer(block)]


@pytest.mark.parametrize("version", swept((REFERENCE, LATEST), REFERENCE.__eq__))
def test_four_commands_lead_there_and_back(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fork = tmp_path / "fork"
    releases.copy(version, fork)
    committed(fork, f"Release {version}")
    place = tmp_path / "somewhere"
    place.mkdir()
    monkeypatch.chdir(place)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A Maintainer")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "maintainer@example.com")
    cloning, applying, checking, reverting = commands()
    subprocess.run(cloning, check=True)
    clone = place / "upgraded"
    before = {patch["id"]: patch["state"] for patch in answer("status", clone)["patches"]}
    for command in (applying, checking):
        assert command[0] == "patchkit"
        run(*command[1:])
        assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "rev-parse", "HEAD^{tree}") != git(fork, "rev-parse", "HEAD^{tree}")
    run(*reverting[1:])
    assert git(clone, "rev-parse", "HEAD^{tree}") == git(fork, "rev-parse", "HEAD^{tree}")
    assert git(clone, "status", "--porcelain") == ""
    assert {patch["id"]: patch["state"] for patch in answer("status", clone)["patches"]} == before

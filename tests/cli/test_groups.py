"""Groups of patches are named wherever patches are, and what does not fit keeps nobody else out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from support.toys import ABRUPT, CRLF, add_patch, attribute, everything

from patchkit.cli import main, schemas

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def asked(*arguments: object, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def states(*arguments: object, code: int = 0) -> dict[str, str]:
    return {patch["id"]: patch["state"] for patch in asked(*arguments, code=code)["patches"]}


@pytest.fixture(autouse=True)
def toys(patch_folder: Path) -> Path:
    """Besides the toys, where `t-guard` hardens `t-flag` and `t-stop` requires it, two patches for speed."""
    add_patch(patch_folder, "t-fast", attribute(ABRUPT, "Worker", "fast = 1"), group='"speed"')
    add_patch(
        patch_folder, "t-risky", attribute(ABRUPT, "Worker", "risky = 1"), group='"speed"', default="false"
    )
    return patch_folder


def test_show_lists_a_group(tree: CheckoutTree) -> None:
    lines = run("show", "@speed").stdout.splitlines()
    assert lines[0].split() == ["t-fast", "Toy", "t-fast"]
    assert "off until it is named" in lines[1]
    answer = asked("show", "@speed")
    msgspec.convert(answer, schemas.ANSWERS["show"])
    assert [(patch["id"], patch["group"]) for patch in answer] == [("t-fast", "speed"), ("t-risky", "speed")]


def test_a_group_is_applied_and_taken_back(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    assert states("apply", tree.root, "@speed") == {"t-fast": "applied"}
    assert asked("diff", tree.root, "@speed")["files"] == []
    run("apply", tree.root)
    assert asked("revert", tree.root, "@speed")["reverted"] == ["t-fast"]
    assert asked("revert", tree.root, "@speed")["reverted"] == []
    assert states("status", tree.root)["t-flag"] == "applied"
    run("revert", tree.root)
    assert everything(tree.root) == before


def test_a_group_is_taken_back_beside_upstreams_own(tree: CheckoutTree, toys: Path) -> None:
    add_patch(toys, "t-other", attribute(CRLF, "Backend", "other = 1"), group='"speed"')
    path = tree.package / CRLF
    path.write_bytes(path.read_bytes().replace(b"    stride = 1", b"    other = 1\r\n    stride = 1"))
    found = states("apply", tree.root, "@speed")
    assert found == {"t-fast": "applied", "t-other": "upstream"}
    assert asked("revert", tree.root, "@speed")["reverted"] == ["t-fast"]


def test_a_group_brings_what_it_requires(tree: CheckoutTree, toys: Path) -> None:
    add_patch(toys, "t-fast", attribute(ABRUPT, "Worker", "fast = 1"), group='"speed"', requires='["t-flag"]')
    assert set(states("apply", tree.root, "@speed")) == {"t-flag", "t-fast", "t-guard"}


def test_an_unknown_group_is_refused_as_such(tree: CheckoutTree) -> None:
    said = run("apply", tree.root, "@sped", code=2).stderr
    assert "no group is called '@sped'; did you mean @speed?" in said
    assert "no group is called" in run("show", "@sped", code=2).stderr


def test_a_folder_with_the_sign_of_a_group_is_a_tree(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.root.rename(tree.root.with_name("@wheel"))
    monkeypatch.chdir(tree.root.parent)
    assert states("status", "@wheel")["t-fast"] == "pending"
    run("apply", "@wheel", "@speed")

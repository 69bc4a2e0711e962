"""Every ``--json`` answer is what its published JSON Schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner
from support.toys import git

from patchkit.cli import answers, main

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
pytestmark = pytest.mark.usefixtures("patch_folder")


def answered(command: str, *arguments: object, codes: tuple[int, ...] = (0,)) -> None:
    """Assert that the command's answer has all keys that it promises and no other."""
    result = CliRunner().invoke(main, [command, *map(str, arguments), "--json"])
    assert result.exit_code in codes, (result.output, result.exception)
    msgspec.convert(json.loads(result.stdout), answers.ANSWERS[command])


def test_every_command_has_an_answer_and_a_published_schema() -> None:
    assert set(main.commands) <= set(answers.ANSWERS)
    for command in answers.ANSWERS:
        assert json.loads((SCHEMAS / f"{command}.json").read_text()) == json.loads(
            json.dumps(answers.schema(command))
        )


def test_what_only_reads(checkout: CheckoutTree, tmp_path: Path) -> None:
    root = checkout.root
    answered("list")
    answered("show", "t-flag")
    answered("status", root)
    answered("diff", root)
    answered("matrix", root, "--refs", "HEAD")
    answered("rebase-check", root, "--onto", "HEAD")
    answered("audit", root, codes=(0, 1))
    answered("audit", root, "--suggest-opt-out", codes=(0, 1))
    git(root, "config", "user.name", "A Maintainer")
    git(root, "config", "user.email", "maintainer@example.com")
    answered("export", root, "-o", tmp_path / "series")


def test_what_writes(checkout: CheckoutTree) -> None:
    root = checkout.root
    git(root, "config", "user.name", "A Maintainer")
    git(root, "config", "user.email", "maintainer@example.com")
    answered("apply", root, "t-flag", "--dry-run")
    answered("apply", root, "--commit")
    answered("verify", root, codes=(0, 1))
    answered("report", root, "--ledger")
    answered("revert", root)
    answered("recover", root)
    answered("apply", root, "--allow-dirty")


def test_doctor(checkout: CheckoutTree) -> None:
    (checkout.package / "srt" / "server_args.py").write_text(
        "class ServerArgs:\n    attention_backend: str = ''\n    speculative_algorithm: str = ''\n"
    )
    answered("doctor", checkout.root, "--attention-backend", "triton")
